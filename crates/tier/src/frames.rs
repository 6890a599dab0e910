//! Framing of log entries: length, checksum, payload. Pure.
//!
//! ```text
//! 0  4  payload length, little endian, 1 ..= 64 MiB
//! 4  8  XXH3-64 of the payload, little endian
//! 12 n  payload
//! ```
//! A frame that is cut off or does not match its checksum ends the log: it is the write that a
//! crash interrupted, and nothing after it was acknowledged. Nothing but zeros behind the last frame
//! is room that was written ahead.

use weir_types::{ErrorKind, FsError, Result};
use xxhash_rust::xxh3::xxh3_64;

const HEADER_BYTES: usize = 12;
/// Most bytes in one entry of a log.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// How the frames of a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// The last frame ends where the file ends.
    Whole,
    /// The last frame ends at this offset; all that follows are zeros.
    Zeros(u64),
    /// The frames before this offset are good; what follows is torn.
    Torn(u64),
}

/// Adds `payload` to `out` as one frame.
pub(crate) fn push_frame(out: &mut Vec<u8>, payload: &[u8]) -> Result<()> {
    if payload.is_empty() || payload.len() > ENTRY_BYTES_MAX {
        let bytes = payload.len();
        return Err(FsError::new(ErrorKind::Bug, format!("log entry of {bytes} bytes")));
    }
    out.reserve(HEADER_BYTES + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&xxh3_64(payload).to_le_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

/// Hands each good frame's payload to `each`, in order, and says how they ended.
pub fn read_frames(bytes: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<FrameEnd> {
    let mut at = 0;
    while at < bytes.len() {
        let Some(payload) = payload_at(&bytes[at..]) else {
            // Of a torn frame the disk may have the later sectors and not the first.
            return Ok(match bytes[at..].iter().all(|byte| *byte == 0) {
                true => FrameEnd::Zeros(at as u64),
                false => FrameEnd::Torn(at as u64),
            });
        };
        each(payload)?;
        at += HEADER_BYTES + payload.len();
    }
    Ok(FrameEnd::Whole)
}

fn payload_at(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > ENTRY_BYTES_MAX {
        return None;
    }
    let payload = rest.get(..length)?;
    (xxh3_64(payload) == u64::from_le_bytes(*sum)).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(bytes: &[u8]) -> (Vec<Vec<u8>>, FrameEnd) {
        let mut found = Vec::new();
        let end = read_frames(bytes, |p| {
            found.push(p.to_vec());
            Ok(())
        });
        (found, end.expect("reads"))
    }

    #[test]
    fn every_cut_and_every_flipped_bit_ends_the_log_before_it() {
        let mut first = Vec::new();
        push_frame(&mut first, b"first").expect("frames");
        let mut both = first.clone();
        push_frame(&mut both, b"second").expect("frames");
        assert_eq!(collect(&both), (vec![b"first".to_vec(), b"second".to_vec()], FrameEnd::Whole));
        for cut in first.len() + 1..both.len() {
            let (found, end) = collect(&both[..cut]);
            assert_eq!(found, vec![b"first".to_vec()], "cut at {cut}");
            assert_eq!(end, FrameEnd::Torn(first.len() as u64));
        }
        for bit in first.len() * 8..both.len() * 8 {
            let mut bad = both.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(collect(&bad).0, vec![b"first".to_vec()], "bit {bit}");
        }
    }
    #[test]
    fn nothing_but_zeros_behind_the_last_frame_is_no_torn_frame() {
        let mut frames = Vec::new();
        push_frame(&mut frames, b"first").expect("frames");
        let good = frames.len();
        for zeros in [1, 11, 12, 13, 5_000] {
            let mut ahead = frames.clone();
            ahead.resize(good + zeros, 0);
            assert_eq!(collect(&ahead), (vec![b"first".to_vec()], FrameEnd::Zeros(good as u64)));
            for at in good..ahead.len() {
                let mut torn = ahead.clone();
                torn[at] = 1;
                let (found, end) = collect(&torn);
                assert_eq!(found, vec![b"first".to_vec()]);
                assert_eq!(end, FrameEnd::Torn(good as u64), "byte {at} of {zeros} zeros");
            }
        }
        assert_eq!(collect(&[0; 100]), (vec![], FrameEnd::Zeros(0)));
    }
}
