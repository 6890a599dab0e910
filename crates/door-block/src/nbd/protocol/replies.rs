//! Replies of the transmission phase: heads of a few bytes, and data that is sent behind them as it
//! is.

use super::headers::Headers;
use super::numbers::{BASE_ALLOCATION_ID, STRING_BYTES_MAX};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;
/// No more chunks of this reply follow.
const DONE: u16 = 1;
/// The range is a hole, and so it reads as zeros.
const HOLE_AND_ZERO: u8 = 0b11;
/// Bytes of the longest head: an extended chunk of data.
const HEAD_BYTES_MAX: usize = 40;

/// Kinds of chunks.
mod chunk {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const BLOCK_STATUS_EXTENDED: u16 = 6;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
}

/// Errors of the protocol, by their numbers in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdError {
    /// Not allowed.
    Permission = 1,
    /// The disk failed.
    Io = 5,
    /// The request is wrong.
    Invalid = 22,
    /// No room, or a write past the end.
    NoSpace = 28,
    /// Not offered, or not as fast as was asked.
    Unsupported = 95,
}

/// What a reply begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    fn new() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], len: 0 }
    }

    fn put<const N: usize>(mut self, field: [u8; N]) -> Self {
        self.bytes[self.len..self.len + N].copy_from_slice(&field);
        self.len += N;
        self
    }

    fn simple(cookie: u64, error: u32) -> Self {
        Self::new()
            .put(SIMPLE_MAGIC.to_be_bytes())
            .put(error.to_be_bytes())
            .put(cookie.to_be_bytes())
    }

    /// The only chunk of a reply.
    fn chunk(headers: Headers, kind: u16, about: (u64, u64), payload_bytes: u64) -> Self {
        let (cookie, offset) = about;
        let extended = headers == Headers::Extended;
        let magic = if extended { EXTENDED_MAGIC } else { STRUCTURED_MAGIC };
        let head = Self::new()
            .put(magic.to_be_bytes())
            .put(DONE.to_be_bytes())
            .put(kind.to_be_bytes())
            .put(cookie.to_be_bytes());
        match extended {
            true => head.put(offset.to_be_bytes()).put(payload_bytes.to_be_bytes()),
            // Never more than the data of one request and a few bytes.
            false => head.put((payload_bytes as u32).to_be_bytes()),
        }
    }

    /// As it is sent.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A reply without data to a request that was done. `about` is the request's cookie and offset,
/// here and below.
pub fn done(headers: Headers, about: (u64, u64)) -> Head {
    match headers {
        Headers::Simple => Head::simple(about.0, 0),
        Headers::Structured | Headers::Extended => Head::chunk(headers, chunk::NONE, about, 0),
    }
}

/// The reply to a read, `data_bytes` of data follow it.
pub fn read_data(headers: Headers, about: (u64, u64), data_bytes: u64) -> Head {
    match (headers, data_bytes) {
        (Headers::Simple, _) => Head::simple(about.0, 0),
        // A chunk of no data must not be.
        (_, 0) => done(headers, about),
        _ => Head::chunk(headers, chunk::OFFSET_DATA, about, 8 + data_bytes)
            .put(about.1.to_be_bytes()),
    }
}

/// The reply to a request that failed, and the bytes behind it: what happened, for people, where
/// the headers have a place for that.
pub fn error(headers: Headers, about: (u64, u64), error: NbdError, text: &str) -> (Head, Vec<u8>) {
    if headers == Headers::Simple {
        return (Head::simple(about.0, error as u32), Vec::new());
    }
    let text = &text[..text.floor_char_boundary(STRING_BYTES_MAX)];
    let mut body = (error as u32).to_be_bytes().to_vec();
    body.extend_from_slice(&(text.len() as u16).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
    (Head::chunk(headers, chunk::ERROR, about, body.len() as u64), body)
}

/// A range, and what there is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentStatus {
    /// Its length in bytes.
    pub len: u64,
    /// It takes no room and reads as zeros.
    pub hole: bool,
}

/// The reply to BLOCK_STATUS, and the bytes behind it. There must be an extent; with structured
/// headers each has less than 4 GiB.
pub fn block_status(
    headers: Headers,
    about: (u64, u64),
    extents: &[ExtentStatus],
) -> (Head, Vec<u8>) {
    let mut body = BASE_ALLOCATION_ID.to_be_bytes().to_vec();
    let flags = |extent: &ExtentStatus| if extent.hole { HOLE_AND_ZERO } else { 0 };
    let kind = if headers == Headers::Extended {
        body.extend_from_slice(&(extents.len() as u32).to_be_bytes());
        for extent in extents {
            body.extend_from_slice(&extent.len.to_be_bytes());
            body.extend_from_slice(&u64::from(flags(extent)).to_be_bytes());
        }
        chunk::BLOCK_STATUS_EXTENDED
    } else {
        for extent in extents {
            body.extend_from_slice(&(extent.len as u32).to_be_bytes());
            body.extend_from_slice(&u32::from(flags(extent)).to_be_bytes());
        }
        chunk::BLOCK_STATUS
    };
    (Head::chunk(headers, kind, about, body.len() as u64), body)
}
