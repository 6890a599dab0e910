//! What the fuzz target and the bounded mutation test both run: any bytes at all go into each
//! decoder of the NBD protocol, as they are and with their magic numbers made right. Nothing may
//! panic, and what comes out must say the same as the bytes.

use weir_door_block::protocol::{
    ClientOption, Command, CommandFlags, Headers, InfoRequest, MetaQuery, OPTION_HEADER_BYTES,
    OptionHeader, Request,
};

/// Decodes `data` as everything that a client may send.
pub(crate) fn nbd(data: &[u8]) {
    option_header(data);
    let number = data.first().copied().unwrap_or_default().into();
    let rest = data.get(1..).unwrap_or_default();
    if let Ok(option) = ClientOption::decode(number, rest) {
        assert_eq!(data_of(&option).as_deref().unwrap_or(rest), rest);
    }
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        request(headers, data);
        let mut mended = data.to_vec();
        if let Some(magic) = mended.first_chunk_mut() {
            *magic = magic_of(headers);
        }
        request(headers, &mended);
    }
}

fn option_header(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<OPTION_HEADER_BYTES>() else { return };
    let mut mended = *bytes;
    mended[..8].copy_from_slice(b"IHAVEOPT");
    let header = OptionHeader::decode(&mended).expect("a header");
    assert_eq!(header.number.to_be_bytes(), bytes[8..12]);
    assert_eq!(header.data_bytes.to_be_bytes(), bytes[12..]);
    assert_eq!(OptionHeader::decode(bytes).is_some(), mended == *bytes);
}

/// The data of an option, made anew from what was understood; `None` where they do not matter.
fn data_of(option: &ClientOption) -> Option<Vec<u8>> {
    match option {
        ClientOption::ExportName(name) => Some(name.as_bytes().to_vec()),
        ClientOption::Info(request) | ClientOption::Go(request) => Some(info(request)),
        ClientOption::ListMetaContext(query) | ClientOption::SetMetaContext(query) => {
            Some(meta(query))
        }
        ClientOption::Abort | ClientOption::Unknown => None,
        ClientOption::List
        | ClientOption::StartTls
        | ClientOption::StructuredReply
        | ClientOption::ExtendedHeaders => Some(Vec::new()),
    }
}

fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn info(request: &InfoRequest) -> Vec<u8> {
    let mut data = counted(&request.name);
    data.extend((request.wanted.len() as u16).to_be_bytes());
    data.extend(request.wanted.iter().flat_map(|number| number.to_be_bytes()));
    data
}

fn meta(query: &MetaQuery) -> Vec<u8> {
    let mut data = counted(&query.name);
    data.extend((query.queries.len() as u32).to_be_bytes());
    data.extend(query.queries.iter().flat_map(|query| counted(query)));
    data
}

fn magic_of(headers: Headers) -> [u8; 4] {
    match headers {
        Headers::Simple | Headers::Structured => 0x2560_9513u32.to_be_bytes(),
        Headers::Extended => 0x21e4_1c71u32.to_be_bytes(),
    }
}

fn request(headers: Headers, data: &[u8]) {
    let len = Request::header_bytes(headers);
    let Ok(request) = Request::decode(headers, data) else {
        assert!(data.len() < len || data[..4] != magic_of(headers));
        return;
    };
    let command: u16 = match request.command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Disconnect => 2,
        Command::Flush => 3,
        Command::Trim => 4,
        Command::WriteZeroes => 6,
        Command::BlockStatus => 7,
        Command::Unknown(number) => number,
    };
    let told = headers == Headers::Extended && request.flags.has(CommandFlags::PAYLOAD);
    let carries = command == 1 || told;
    assert_eq!(request.payload_bytes(headers), if carries { request.len } else { 0 });
    let mut bytes = magic_of(headers).to_vec();
    bytes.extend(request.flags.0.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend(request.offset.to_be_bytes());
    // Eight bytes of length, or the last four.
    bytes.extend(&request.len.to_be_bytes()[32 - len..]);
    assert_eq!(bytes, data[..len]);
}
