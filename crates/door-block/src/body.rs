//! What a read gives to those who asked.

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

/// The bytes of a read if they are as many as were asked for. Fewer or more must never be sent: what
/// follows them would be taken for the rest.
pub(crate) fn whole(pieces: Vec<Bytes>, len: u64) -> Result<Vec<Bytes>> {
    let found: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    match found == len {
        true => Ok(pieces),
        false => {
            let text = format!("a read of {len} bytes gave {found}: the disk changed its size?");
            Err(FsError::new(ErrorKind::Bug, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_of_a_read_is_an_answer() {
        let pieces = || vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")];
        assert_eq!(whole(pieces(), 3).unwrap(), pieces());
        assert_eq!(whole(Vec::new(), 0).unwrap(), Vec::<Bytes>::new());
        for len in [0, 2, 4] {
            assert_eq!(whole(pieces(), len).unwrap_err().kind(), ErrorKind::Bug, "{len}");
        }
    }
}
