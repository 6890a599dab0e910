//! Byte for byte, as the protocol's document has it.

use super::*;

fn encoded(answer: OptionAnswer<'_>, number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.encode(number, &mut bytes);
    bytes
}

#[test]
fn the_greeting_and_the_flags() {
    assert_eq!(&greeting(), b"NBDMAGICIHAVEOPT\x00\x03");
    let flags = |bits: u32| ClientFlags::decode(bits.to_be_bytes());
    assert_eq!(flags(0), Some(ClientFlags { fixed_newstyle: false, no_zeroes: false }));
    assert_eq!(flags(3), Some(ClientFlags { fixed_newstyle: true, no_zeroes: true }));
    assert_eq!(flags(4), None);
    let bits = |read_only, dont_fragment| TransmissionFlags { read_only, dont_fragment }.bits();
    assert_eq!(bits(false, false), 0b1001_0110_1101);
    assert_eq!(bits(true, true), 0b1001_1110_1111);
}

#[test]
fn options() {
    let header = OptionHeader::decode(b"IHAVEOPT\0\0\0\x07\0\0\x01\x02");
    assert_eq!(header, Some(OptionHeader { number: option::GO, data_bytes: 258 }));
    assert_eq!(OptionHeader::decode(b"IHAVEOPS\0\0\0\x07\0\0\x01\x02"), None);
    let go = ClientOption::decode(7, b"\0\0\0\x02ab\0\x02\0\x03\0\x01");
    let request = InfoRequest { name: "ab".to_owned(), wanted: vec![3, 1] };
    assert_eq!(go, Ok(ClientOption::Go(request.clone())));
    assert_eq!(
        ClientOption::decode(6, b"\0\0\0\x02ab\0\x02\0\x03\0\x01"),
        Ok(ClientOption::Info(request))
    );
    let query = |queries: &[&str]| MetaQuery {
        name: "d".to_owned(),
        queries: queries.iter().map(|&query| query.to_owned()).collect(),
    };
    assert_eq!(
        ClientOption::decode(10, b"\0\0\0\x01d\0\0\0\x02\0\0\0\x05base:\0\0\0\x03x:y"),
        Ok(ClientOption::SetMetaContext(query(&["base:", "x:y"])))
    );
    assert_eq!(
        ClientOption::decode(9, b"\0\0\0\x01d\0\0\0\0"),
        Ok(ClientOption::ListMetaContext(query(&[])))
    );
    assert_eq!(ClientOption::decode(1, b"name"), Ok(ClientOption::ExportName("name".to_owned())));
    assert_eq!(ClientOption::decode(2, b"anything"), Ok(ClientOption::Abort));
    assert_eq!(ClientOption::decode(4, b"anything"), Ok(ClientOption::Unknown));
    for (number, option) in [
        (3, ClientOption::List),
        (5, ClientOption::StartTls),
        (8, ClientOption::StructuredReply),
        (11, ClientOption::ExtendedHeaders),
    ] {
        assert_eq!(ClientOption::decode(number, b""), Ok(option));
        assert!(ClientOption::decode(number, b"x").is_err());
    }
    assert!(query(&["base:allocation"]).selects() && !query(&["base:"]).selects());
    assert!(query(&["base:"]).lists() && query(&[]).lists() && !query(&["x:y"]).lists());
}

#[test]
fn malformed_options() {
    for (number, data) in [
        (1, &b"a\0b"[..]),
        (1, b"\xff"),
        (1, &[b'a'; STRING_BYTES_MAX + 1]),
        (6, b""),
        (6, b"\0\0\0\x03ab"),
        (6, b"\xff\xff\xff\xffab"),
        (7, b"\0\0\0\x02ab\0\x02\0\x03"),
        (7, b"\0\0\0\x02ab\0\0extra"),
        (9, b"\0\0\0\x01d\xff\xff\xff\xff"),
        (10, b"\0\0\0\x01d\0\0\0\x01\0\0\0\x09base:"),
        (10, b"\0\0\0\x01d\0\0\0\0extra"),
    ] {
        assert!(ClientOption::decode(number, data).is_err(), "{number} {data:?}");
    }
}

#[test]
fn answers_to_options() {
    let magic = b"\x00\x03\xe8\x89\x04\x55\x65\xa9";
    let with = |rest: &[u8]| [&magic[..], rest].concat();
    assert_eq!(encoded(OptionAnswer::Ack, 7), with(b"\0\0\0\x07\0\0\0\x01\0\0\0\0"));
    assert_eq!(
        encoded(OptionAnswer::Server("ab"), 3),
        with(b"\0\0\0\x03\0\0\0\x02\0\0\0\x06\0\0\0\x02ab")
    );
    let flags = TransmissionFlags::default();
    assert_eq!(
        encoded(OptionAnswer::Info(Info::Export(0x1000, flags)), 6),
        with(b"\0\0\0\x06\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\0\x10\0\x09\x6d")
    );
    assert_eq!(
        encoded(OptionAnswer::Info(Info::BlockSize(1, 4096, 1 << 25)), 6),
        with(b"\0\0\0\x06\0\0\0\x03\0\0\0\x0e\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0")
    );
    assert_eq!(
        encoded(OptionAnswer::MetaContext { chosen: true }, 10),
        with(b"\0\0\0\x0a\0\0\0\x04\0\0\0\x13\0\0\0\x01base:allocation")
    );
    assert_eq!(
        encoded(OptionAnswer::Refused(Refusal::Unknown, "no"), 7),
        with(b"\0\0\0\x07\x80\0\0\x06\0\0\0\x02no")
    );
    let long = "ä".repeat(STRING_BYTES_MAX);
    assert_eq!(encoded(OptionAnswer::Refused(Refusal::Invalid, &long), 7).len(), 20 + 4096);
    let old = ClientFlags { fixed_newstyle: true, no_zeroes: false };
    assert_eq!(export_name_answer(1, flags, old).len(), 134);
    let new = ClientFlags { no_zeroes: true, ..old };
    assert_eq!(export_name_answer(1, flags, new), b"\0\0\0\0\0\0\0\x01\x09\x6d");
}

#[test]
fn requests() {
    let bytes = b"\x25\x60\x95\x13\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\
        \0\0\0\0\0\0\x10\0\0\0\x02\0";
    let write = Request {
        command: Command::Write,
        flags: CommandFlags(CommandFlags::FUA),
        cookie: 0x0102_0304_0506_0708,
        offset: 4096,
        len: 512,
    };
    assert_eq!(Request::decode(Headers::Simple, bytes), Ok(write));
    assert_eq!(Request::decode(Headers::Structured, bytes), Ok(write));
    assert_eq!(Request::decode(Headers::Extended, bytes), Err(BadRequest));
    assert_eq!(Request::decode(Headers::Simple, &bytes[..27]), Err(BadRequest));
    assert_eq!(write.payload_bytes(Headers::Simple), 512);
    let bytes = b"\x21\xe4\x1c\x71\0\x20\0\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0";
    let status = Request {
        command: Command::BlockStatus,
        flags: CommandFlags(CommandFlags::PAYLOAD),
        cookie: 9,
        offset: 0,
        len: 1 << 32,
    };
    assert_eq!(Request::decode(Headers::Extended, bytes), Ok(status));
    assert_eq!(status.payload_bytes(Headers::Extended), 1 << 32);
    assert_eq!(status.payload_bytes(Headers::Structured), 0);
}

#[test]
fn replies() {
    let about = (0x0a0b, 0x1000);
    let is = |head: Head, bytes: &[u8]| assert_eq!(head.as_slice(), bytes);
    is(done(Headers::Simple, about), b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\x0a\x0b");
    is(done(Headers::Structured, about), b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\x0a\x0b\0\0\0\0");
    is(
        done(Headers::Extended, about),
        b"\x6e\x8a\x27\x8c\0\x01\0\0\0\0\0\0\0\0\x0a\x0b\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0",
    );
    is(read_data(Headers::Simple, about, 9), done(Headers::Simple, about).as_slice());
    is(read_data(Headers::Structured, about, 0), done(Headers::Structured, about).as_slice());
    is(
        read_data(Headers::Structured, about, 512),
        b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\x0a\x0b\0\0\x02\x08\0\0\0\0\0\0\x10\0",
    );
    is(
        read_data(Headers::Extended, about, 512),
        b"\x6e\x8a\x27\x8c\0\x01\0\x01\0\0\0\0\0\0\x0a\x0b\0\0\0\0\0\0\x10\0\
        \0\0\0\0\0\0\x02\x08\0\0\0\0\0\0\x10\0",
    );
    let (head, body) = error(Headers::Structured, about, NbdError::NoSpace, "full");
    is(head, b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\x0a\x0b\0\0\0\x0a");
    assert_eq!(body, b"\0\0\0\x1c\0\x04full");
    let (head, body) = error(Headers::Simple, about, NbdError::Io, "broken");
    is(head, b"\x67\x44\x66\x98\0\0\0\x05\0\0\0\0\0\0\x0a\x0b");
    assert_eq!(body, b"");
}

#[test]
fn block_statuses() {
    let extents = [ExtentStatus { len: 4096, hole: true }, ExtentStatus { len: 512, hole: false }];
    let (head, body) = block_status(Headers::Structured, (1, 0), &extents);
    assert_eq!(head.as_slice(), b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x01\0\0\0\x14");
    assert_eq!(body, b"\0\0\0\x01\0\0\x10\0\0\0\0\x03\0\0\x02\0\0\0\0\0");
    let (head, body) = block_status(Headers::Extended, (1, 0), &extents[..1]);
    assert_eq!(
        head.as_slice(),
        b"\x6e\x8a\x27\x8c\0\x01\0\x06\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x18"
    );
    assert_eq!(body, b"\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\x03");
}
