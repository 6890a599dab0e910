//! Requests of the transmission phase.

use super::headers::Headers;
use super::numbers::take;

const MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send bytes.
    Read,
    /// Take the bytes that follow.
    Write,
    /// End the connection.
    Disconnect,
    /// Make all writes that were answered durable.
    Flush,
    /// Forget a range.
    Trim,
    /// Make a range zeros.
    WriteZeroes,
    /// Tell what is data and what are holes.
    BlockStatus,
    /// One that this server does not know.
    Unknown(u16),
}

/// How a client wants it done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags(pub u16);

impl CommandFlags {
    /// Answer when it is durable.
    pub const FUA: u16 = 1;
    /// Zeros must have room of their own.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer with one piece of data.
    pub const DONT_FRAGMENT: u16 = 1 << 2;
    /// Tell about one extent only.
    pub const ONE_EXTENT: u16 = 1 << 3;
    /// Refuse if it is not faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of data that follow.
    pub const PAYLOAD: u16 = 1 << 5;

    /// Is this flag set?
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    /// Are all that are set among `allowed`?
    pub fn within(self, allowed: u16) -> bool {
        self.0 & !allowed == 0
    }
}

/// A request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub command: Command,
    /// How.
    pub flags: CommandFlags,
    /// What the reply is known by.
    pub cookie: u64,
    /// The first byte of the range.
    pub offset: u64,
    /// The length of the range in bytes.
    pub len: u64,
}

/// These bytes are no request: nothing that follows can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequest;

impl Request {
    /// Bytes of a request before its data.
    pub fn header_bytes(headers: Headers) -> usize {
        match headers {
            Headers::Simple | Headers::Structured => 28,
            Headers::Extended => 32,
        }
    }

    /// The request that `bytes` begin with.
    pub fn decode(headers: Headers, bytes: &[u8]) -> Result<Self, BadRequest> {
        Self::fields(headers, bytes).ok_or(BadRequest)
    }

    fn fields(headers: Headers, bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = take!(u32, bytes)?;
        let (flags, rest) = take!(u16, rest)?;
        let (command, rest) = take!(u16, rest)?;
        let (cookie, rest) = take!(u64, rest)?;
        let (offset, rest) = take!(u64, rest)?;
        let (len, expected) = match headers {
            Headers::Extended => (take!(u64, rest)?.0, EXTENDED_MAGIC),
            Headers::Simple | Headers::Structured => (u64::from(take!(u32, rest)?.0), MAGIC),
        };
        let command = match command {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Unknown(other),
        };
        let flags = CommandFlags(flags);
        (magic == expected).then_some(Self { command, flags, cookie, offset, len })
    }

    /// Bytes of data that follow the request.
    pub fn payload_bytes(&self, headers: Headers) -> u64 {
        let told = headers == Headers::Extended && self.flags.has(CommandFlags::PAYLOAD);
        match self.command == Command::Write || told {
            true => self.len,
            false => 0,
        }
    }
}
