//! The handshake: flags, options, and the answers to them.

use super::numbers::{BASE_ALLOCATION, BASE_ALLOCATION_ID, STRING_BYTES_MAX, take};

const SERVER_MAGIC: &[u8; 8] = b"NBDMAGIC";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const ANSWER_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Fixed newstyle, and no zeroes after the answer to EXPORT_NAME.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// Zeroes after the answer to EXPORT_NAME, for clients of old.
const ZEROES: usize = 124;

/// Bytes of an option before its data.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Numbers of options.
pub mod option {
    /// Names the export and ends the handshake; cannot be refused but by hanging up.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Lists all exports.
    pub const LIST: u32 = 3;
    /// Begins TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Asks about an export and ends the handshake.
    pub const GO: u32 = 7;
    /// Wants structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Lists the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Wants extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// What the server says first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(SERVER_MAGIC);
    bytes[8..16].copy_from_slice(OPTION_MAGIC);
    bytes[16..].copy_from_slice(&HANDSHAKE_FLAGS.to_be_bytes());
    bytes
}

/// What the client says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// It understands answers to options.
    pub fixed_newstyle: bool,
    /// It wants no zeroes after the answer to EXPORT_NAME.
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// `None` if there are flags that the server has not offered.
    pub fn decode(bytes: [u8; 4]) -> Option<Self> {
        let flags = u32::from_be_bytes(bytes);
        let known = flags & !u32::from(HANDSHAKE_FLAGS) == 0;
        known.then_some(Self { fixed_newstyle: flags & 1 != 0, no_zeroes: flags & 2 != 0 })
    }
}

/// What stands before the data of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Which option; see [`option`].
    pub number: u32,
    /// Bytes of data that follow.
    pub data_bytes: u32,
}

impl OptionHeader {
    /// `None` if this is no option.
    pub fn decode(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(OPTION_MAGIC)?;
        let (number, rest) = take!(u32, rest)?;
        let (data_bytes, _) = take!(u32, rest)?;
        Some(Self { number, data_bytes })
    }
}

/// An option with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOption {
    /// Go on with this export.
    ExportName(String),
    /// End the connection.
    Abort,
    /// Which exports are there?
    List,
    /// Begin TLS.
    StartTls,
    /// Tell about an export.
    Info(InfoRequest),
    /// Tell about an export and go on with it.
    Go(InfoRequest),
    /// Give structured replies.
    StructuredReply,
    /// Which metadata contexts are there?
    ListMetaContext(MetaQuery),
    /// Answer for these metadata contexts.
    SetMetaContext(MetaQuery),
    /// Use extended headers.
    ExtendedHeaders,
    /// One that this server does not know.
    Unknown,
}

/// The data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest {
    /// Which export; empty for the default one.
    pub name: String,
    /// Numbers of what is asked for.
    pub wanted: Vec<u16>,
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaQuery {
    /// Which export; empty for the default one.
    pub name: String,
    /// Names of contexts, or of a namespace with a colon.
    pub queries: Vec<String>,
}

impl MetaQuery {
    /// Does it choose the one context that there is?
    pub fn selects(&self) -> bool {
        self.queries.iter().any(|query| query == BASE_ALLOCATION)
    }

    /// Does it ask for a list that the one context is in?
    pub fn lists(&self) -> bool {
        self.queries.is_empty() || self.selects() || self.queries.iter().any(|q| q == "base:")
    }
}

/// The data of an option is not what the option demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl ClientOption {
    /// The option of this number with this data.
    pub fn decode(number: u32, data: &[u8]) -> Result<Self, Malformed> {
        Ok(match number {
            option::EXPORT_NAME => Self::ExportName(string(data)?),
            option::ABORT => Self::Abort,
            option::LIST => empty(data, Self::List)?,
            option::STARTTLS => empty(data, Self::StartTls)?,
            option::INFO => Self::Info(info_request(data)?),
            option::GO => Self::Go(info_request(data)?),
            option::STRUCTURED_REPLY => empty(data, Self::StructuredReply)?,
            option::LIST_META_CONTEXT => Self::ListMetaContext(meta_query(data)?),
            option::SET_META_CONTEXT => Self::SetMetaContext(meta_query(data)?),
            option::EXTENDED_HEADERS => empty(data, Self::ExtendedHeaders)?,
            _ => Self::Unknown,
        })
    }
}

fn empty(data: &[u8], option: ClientOption) -> Result<ClientOption, Malformed> {
    match data.is_empty() {
        true => Ok(option),
        false => Err(Malformed("this option takes no data")),
    }
}

fn string(bytes: &[u8]) -> Result<String, Malformed> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(Malformed("a name has more than 4096 bytes"));
    }
    let text = str::from_utf8(bytes).map_err(|_| Malformed("a name is not UTF-8"))?;
    match text.contains('\0') {
        true => Err(Malformed("a name has a zero byte in it")),
        false => Ok(text.to_owned()),
    }
}

const CUT_SHORT: Malformed = Malformed("the data ends too early");
const TOO_LONG: Malformed = Malformed("there are bytes behind the data");

/// A string behind its length, and the rest.
fn counted_string(data: &[u8]) -> Result<(String, &[u8]), Malformed> {
    let (len, rest) = take!(u32, data).ok_or(CUT_SHORT)?;
    let (text, rest) = rest.split_at_checked(len as usize).ok_or(CUT_SHORT)?;
    Ok((string(text)?, rest))
}

fn info_request(data: &[u8]) -> Result<InfoRequest, Malformed> {
    let (name, rest) = counted_string(data)?;
    let (count, mut rest) = take!(u16, rest).ok_or(CUT_SHORT)?;
    let mut wanted = Vec::new();
    for _ in 0..count {
        let (number, behind) = take!(u16, rest).ok_or(CUT_SHORT)?;
        wanted.push(number);
        rest = behind;
    }
    match rest.is_empty() {
        true => Ok(InfoRequest { name, wanted }),
        false => Err(TOO_LONG),
    }
}

fn meta_query(data: &[u8]) -> Result<MetaQuery, Malformed> {
    let (name, rest) = counted_string(data)?;
    let (count, mut rest) = take!(u32, rest).ok_or(CUT_SHORT)?;
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, behind) = counted_string(rest)?;
        queries.push(query);
        rest = behind;
    }
    match rest.is_empty() {
        true => Ok(MetaQuery { name, queries }),
        false => Err(TOO_LONG),
    }
}

/// What an export lets its clients do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmissionFlags {
    /// Nobody may write.
    pub read_only: bool,
    /// Reads may ask to be answered in one piece.
    pub dont_fragment: bool,
}

impl TransmissionFlags {
    /// Has flags, flush, FUA, trim, write-zeroes, several connections and fast zeroes are always
    /// there.
    const ALWAYS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 11;

    /// As they are sent.
    pub fn bits(self) -> u16 {
        Self::ALWAYS | u16::from(self.read_only) << 1 | u16::from(self.dont_fragment) << 7
    }
}

/// Something about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info<'a> {
    /// Its size in bytes, and what it can do.
    Export(u64, TransmissionFlags),
    /// Its name.
    Name(&'a str),
    /// A line for people.
    Description(&'a str),
    /// The least, best and greatest length of a request, in bytes.
    BlockSize(u32, u32, u32),
}

impl Info<'_> {
    /// The number of a name, in requests.
    pub const NAME: u16 = 1;
    /// The number of a description.
    pub const DESCRIPTION: u16 = 2;
    /// The number of block sizes.
    pub const BLOCK_SIZE: u16 = 3;

    fn encode(self) -> Vec<u8> {
        let head = |number: u16| number.to_be_bytes();
        match self {
            Info::Export(size, flags) => {
                [&head(0)[..], &size.to_be_bytes(), &flags.bits().to_be_bytes()].concat()
            }
            Info::Name(name) => [&head(Self::NAME), name.as_bytes()].concat(),
            Info::Description(text) => [&head(Self::DESCRIPTION), text.as_bytes()].concat(),
            Info::BlockSize(least, best, most) => [
                &head(Self::BLOCK_SIZE)[..],
                &least.to_be_bytes(),
                &best.to_be_bytes(),
                &most.to_be_bytes(),
            ]
            .concat(),
        }
    }
}

/// Why an option is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This server does not know it.
    Unsupported = 1,
    /// This server is set not to allow it.
    Policy = 2,
    /// It is wrong in itself, or at this point.
    Invalid = 3,
    /// TLS must begin first.
    TlsRequired = 5,
    /// There is no such export.
    Unknown = 6,
    /// Its data is too large.
    TooBig = 9,
    /// Extended headers were agreed on, which this goes back behind.
    ExtendedHeaders = 10,
}

/// An answer to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionAnswer<'a> {
    /// Done.
    Ack,
    /// The name of one export.
    Server(&'a str),
    /// Something about the export.
    Info(Info<'a>),
    /// The one metadata context, as chosen or only as listed.
    MetaContext {
        /// Whether the client chose it.
        chosen: bool,
    },
    /// No, and why, for people.
    Refused(Refusal, &'a str),
}

impl OptionAnswer<'_> {
    /// Appends the answer to option `number`.
    pub fn encode(self, number: u32, to: &mut Vec<u8>) {
        let (kind, data) = match self {
            Self::Ack => (1, Vec::new()),
            Self::Server(name) => {
                (2, [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat())
            }
            Self::Info(info) => (3, info.encode()),
            Self::MetaContext { chosen } => {
                let id = if chosen { BASE_ALLOCATION_ID } else { 0 };
                (4, [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat())
            }
            Self::Refused(why, text) => {
                let end = text.floor_char_boundary(STRING_BYTES_MAX);
                (1 << 31 | why as u32, text.as_bytes()[..end].to_vec())
            }
        };
        to.extend_from_slice(&ANSWER_MAGIC.to_be_bytes());
        to.extend_from_slice(&number.to_be_bytes());
        to.extend_from_slice(&u32::to_be_bytes(kind));
        to.extend_from_slice(&(data.len() as u32).to_be_bytes());
        to.extend_from_slice(&data);
    }
}

/// The answer to EXPORT_NAME, which has a form of its own.
pub fn export_name_answer(
    size_bytes: u64,
    flags: TransmissionFlags,
    client: ClientFlags,
) -> Vec<u8> {
    let mut answer = size_bytes.to_be_bytes().to_vec();
    answer.extend_from_slice(&flags.bits().to_be_bytes());
    if !client.no_zeroes {
        answer.resize(answer.len() + ZEROES, 0);
    }
    answer
}
