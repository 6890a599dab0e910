//! The bytes of the NBD protocol, decoded and encoded without I/O.
//!
//! Decoders are total: any bytes at all give a value or a reason why not, never a panic. Numbers are
//! big-endian throughout. The names are those of the protocol's document, in our spelling.

mod headers;
mod numbers;
mod options;
mod replies;
mod requests;
#[cfg(test)]
mod tests;

pub use headers::Headers;
pub use numbers::{BASE_ALLOCATION, BASE_ALLOCATION_ID, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX};
pub use options::{
    ClientFlags, ClientOption, Info, InfoRequest, Malformed, MetaQuery, OPTION_HEADER_BYTES,
    OptionAnswer, OptionHeader, Refusal, TransmissionFlags, export_name_answer, greeting, option,
};
pub use replies::{ExtentStatus, Head, NbdError, block_status, done, error, read_data};
pub use requests::{BadRequest, Command, CommandFlags, Request};
