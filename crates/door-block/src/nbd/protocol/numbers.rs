//! Numbers of the protocol: those that are agreed on, and how one is read.

/// The most data of one read or write, in bytes.
pub const PAYLOAD_BYTES_MAX: u64 = 32 << 20;
/// The longest string of the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// The one metadata context: which ranges are holes.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number of that context in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// The big-endian number that `bytes` begins with, and the rest.
macro_rules! take {
    ($number:ty, $bytes:expr) => {
        $bytes.split_first_chunk().map(|(field, rest)| (<$number>::from_be_bytes(*field), rest))
    };
}
pub(super) use take;
