//! File handles: which inode, below which export, and a proof that this server gave them out.
//!
//! Inode numbers are never used twice, so a handle never leads to another file. The proof keeps clients from
//! making handles for files that lie outside of what they may mount.

use aws_lc_rs::{constant_time, hmac};
use bytes::{BufMut, Bytes, BytesMut};
use weir_types::Ino;

use crate::protocol::status::Status;

/// Of this form of handles.
const VERSION: u8 = 1;
const BODY_BYTES: usize = 16;
const PROOF_BYTES: usize = 16;

/// What a client holds a file by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Handle {
    /// The directory above all exports, where no export is `host:/`.
    Above,
    /// An inode, through an export.
    Inode { export: u32, ino: Ino },
}

/// Makes and reads handles of one volume.
pub(crate) struct HandleKey(hmac::Key);

impl HandleKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Its bytes.
    pub(crate) fn encode(&self, handle: Handle) -> Bytes {
        let (kind, export, ino) = match handle {
            Handle::Above => (0, 0, 0),
            Handle::Inode { export, ino } => (1, export, ino.0),
        };
        let mut out = BytesMut::with_capacity(BODY_BYTES + PROOF_BYTES);
        out.put_slice(&[VERSION, kind, 0, 0]);
        out.put_u32(export);
        out.put_u64(ino);
        let proof = hmac::sign(&self.0, &out);
        out.put_slice(&proof.as_ref()[..PROOF_BYTES]);
        out.freeze()
    }

    /// What handle bytes are; `BADHANDLE` for those that this server did not make.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Handle, Status> {
        let Some((body, proof)) = bytes.split_first_chunk::<BODY_BYTES>() else {
            return Err(Status::BADHANDLE);
        };
        let made = hmac::sign(&self.0, body);
        let is_ours = proof.len() == PROOF_BYTES
            && constant_time::verify_slices_are_equal(&made.as_ref()[..PROOF_BYTES], proof).is_ok();
        if !is_ours {
            return Err(Status::BADHANDLE);
        }
        let [version, kind, _, _, a, b, c, d, ino @ ..] = *body;
        match (version, kind) {
            (VERSION, 0) => Ok(Handle::Above),
            (VERSION, 1) => Ok(Handle::Inode {
                export: u32::from_be_bytes([a, b, c, d]),
                ino: Ino(u64::from_be_bytes(ino)),
            }),
            _ => Err(Status::BADHANDLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_lead_back_and_cannot_be_made_up() {
        let key = HandleKey::new(b"secret");
        let handle = Handle::Inode { export: 3, ino: Ino(77) };
        let bytes = key.encode(handle);
        assert_eq!(key.decode(&bytes), Ok(handle));
        assert_eq!(key.decode(&key.encode(Handle::Above)), Ok(Handle::Above));
        for at in 0..bytes.len() {
            let mut forged = bytes.to_vec();
            forged[at] ^= 1;
            assert_eq!(key.decode(&forged), Err(Status::BADHANDLE), "byte {at}");
            assert_eq!(key.decode(&bytes[..at]), Err(Status::BADHANDLE));
        }
        assert_eq!(HandleKey::new(b"other").decode(&bytes), Err(Status::BADHANDLE));
    }
}
