//! The bytes of the NBD protocol, decoded and encoded without I/O.
//!
//! Decoders are total: any bytes at all give a value or a reason why not, never a panic. Numbers are
//! big-endian throughout. The names are those of the protocol's document, in our spelling.

mod options;
mod replies;
mod requests;
#[cfg(test)]
mod tests;

pub use options::{
    ClientFlags, ClientOption, Info, InfoRequest, Malformed, MetaQuery, OPTION_HEADER_BYTES,
    OptionAnswer, OptionHeader, Refusal, TransmissionFlags, export_name_answer, greeting, option,
};
pub use replies::{ExtentStatus, Head, NbdError, block_status, done, error, read_data};
pub use requests::{BadRequest, Command, CommandFlags, Request};

/// The most data of one read or write, in bytes.
pub const PAYLOAD_BYTES_MAX: u64 = 32 << 20;
/// The longest string of the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// The one metadata context: which ranges are holes.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number of that context in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Which headers a connection has agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// One reply to each request.
    #[default]
    Simple,
    /// Replies in chunks that tell their own length.
    Structured,
    /// As structured, with lengths of 64 bits both ways.
    Extended,
}

/// The big-endian number that `bytes` begins with, and the rest.
macro_rules! take {
    ($number:ty, $bytes:expr) => {
        $bytes.split_first_chunk().map(|(field, rest)| (<$number>::from_be_bytes(*field), rest))
    };
}
use take;
