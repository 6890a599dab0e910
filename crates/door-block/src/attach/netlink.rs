//! Generic netlink: one request to a driver of the kernel, one answer.
//!
//! By hand: the library that is maintained (`neli`) brings nine crates that nothing else here needs,
//! seven of them for macros, and what it does of this is some eighty lines.
//!
//! Numbers are in the machine's own order, and everything begins at a multiple of four bytes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of a message's own header, and of the generic one behind it.
const HEADER_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;

/// Message types below the first family's.
const TYPE_ERROR: u16 = 2;
const TYPE_CONTROL: u16 = 0x10;

const FLAG_REQUEST: u16 = 1;
const FLAG_ACK: u16 = 4;

const CONTROL_GET_FAMILY: u8 = 3;
const CONTROL_FAMILY_ID: u16 = 1;
const CONTROL_FAMILY_NAME: u16 = 2;

const ATTRIBUTE_NESTED: u16 = 1 << 15;
/// The bits of an attribute's type that name it.
const ATTRIBUTE_TYPE: u16 = (1 << 14) - 1;

/// The answers that we ask for are short.
const ANSWER_BYTES: usize = 16 << 10;

/// Attributes of a request, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn bytes(mut self, name: u16, value: &[u8]) -> Self {
        let len = (4 + value.len()) as u16;
        self.0.extend(len.to_ne_bytes());
        self.0.extend(name.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn u32(self, name: u16, value: u32) -> Self {
        self.bytes(name, &value.to_ne_bytes())
    }

    pub(super) fn u64(self, name: u16, value: u64) -> Self {
        self.bytes(name, &value.to_ne_bytes())
    }

    /// Text with the zero at its end that the kernel wants.
    pub(super) fn text(self, name: u16, value: &str) -> Self {
        self.bytes(name, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn nested(self, name: u16, value: &Attributes) -> Self {
        self.bytes(name | ATTRIBUTE_NESTED, &value.0)
    }
}

/// The value of the first attribute of a name.
pub(super) fn attribute(mut list: &[u8], name: u16) -> Option<&[u8]> {
    while let Some((head, _)) = list.split_at_checked(4) {
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = list.get(4..len)?;
        if u16::from_ne_bytes([head[2], head[3]]) & ATTRIBUTE_TYPE == name {
            return Some(value);
        }
        list = list.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// A way to one family of the kernel.
pub(super) struct Netlink {
    socket: OwnedFd,
    family: u16,
}

impl Netlink {
    /// Asks for a family by name; an error of kind `NotFound` if the kernel has none of it.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(GENERIC),
        )?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let control = Self { socket, family: TYPE_CONTROL };
        let wanted = Attributes::default().text(CONTROL_FAMILY_NAME, name);
        let answer = control.call(CONTROL_GET_FAMILY, &wanted)?;
        let id = attribute(&answer, CONTROL_FAMILY_ID).and_then(|id| id.try_into().ok());
        let family = u16::from_ne_bytes(id.ok_or_else(garbled)?);
        Ok(Self { socket: control.socket, family })
    }

    /// Sends a command; the answer's attributes, or the kernel's error.
    pub(super) fn call(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        let message = request(self.family, command, attributes);
        let sent = rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        if sent != message.len() {
            return Err(garbled());
        }
        let mut found = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let (_, len) = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty())
            })?;
            if read_answer(buffer.get(..len).ok_or_else(garbled)?, &mut found)? {
                return Ok(found);
            }
        }
    }
}

/// A request that the kernel says the end of. One is under way at a time, so that none is numbered.
fn request(family: u16, command: u8, attributes: &Attributes) -> Vec<u8> {
    let len = (HEADER_BYTES + GENERIC_BYTES + attributes.0.len()) as u32;
    let mut message = Vec::with_capacity(len as usize);
    message.extend(len.to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend((FLAG_REQUEST | FLAG_ACK).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(&attributes.0);
    message
}

/// Goes through what came in one piece; the attributes of an answer go to `found`. Whether it was
/// the end.
fn read_answer(mut bytes: &[u8], found: &mut Vec<u8>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let head = bytes.get(..HEADER_BYTES).ok_or_else(garbled)?;
        let len = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let body = bytes.get(HEADER_BYTES..len).ok_or_else(garbled)?;
        if u16::from_ne_bytes([head[4], head[5]]) == TYPE_ERROR {
            let code = body.first_chunk().ok_or_else(garbled)?;
            return match i32::from_ne_bytes(*code) {
                0 => Ok(true),
                code => Err(io::Error::from_raw_os_error(-code)),
            };
        }
        found.clear();
        found.extend(body.get(GENERIC_BYTES..).ok_or_else(garbled)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn garbled() -> io::Error {
    Errno::PROTO.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_kernel_reads() {
        let inner = Attributes::default().u32(1, 0x0102_0304);
        let list = Attributes::default().u64(2, 5).text(10, "ab").nested(7, &inner);
        let message = request(0x21, 3, &list);
        let mut wanted = Vec::new();
        wanted.extend(52u32.to_ne_bytes());
        wanted.extend(0x21u16.to_ne_bytes());
        wanted.extend(5u16.to_ne_bytes());
        wanted.extend([0; 8]);
        wanted.extend([3, 1, 0, 0]);
        for (len, name) in [(12u16, 2u16), (7, 10), (12, 7 | 0x8000), (8, 1)] {
            wanted.extend(len.to_ne_bytes());
            wanted.extend(name.to_ne_bytes());
            match name {
                2 => wanted.extend(5u64.to_ne_bytes()),
                10 => wanted.extend(b"ab\0\0"),
                1 => wanted.extend(0x0102_0304u32.to_ne_bytes()),
                _ => {}
            }
        }
        assert_eq!(message, wanted);
    }

    #[test]
    fn attributes_are_found_and_broken_lists_end() {
        let list = Attributes::default().text(3, "x").u32(9, 77).0;
        assert_eq!(attribute(&list, 3), Some(&b"x\0"[..]));
        assert_eq!(attribute(&list, 9), Some(&77u32.to_ne_bytes()[..]));
        assert_eq!(attribute(&list, 4), None);
        // A length that reaches past the end, and one that is less than its own head.
        assert_eq!(attribute(&[200, 0, 9, 0], 9), None);
        assert_eq!(attribute(&[0, 0, 3, 0, 1, 2, 3, 4], 9), None);
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn an_answer_ends_with_its_acknowledgement() {
        let list = Attributes::default().u32(1, 4).0;
        let answer = message(0x21, &[&[1, 1, 0, 0], list.as_slice()].concat());
        let done = message(TYPE_ERROR, &0i32.to_ne_bytes());
        let mut found = Vec::new();
        assert!(!read_answer(&answer, &mut found).unwrap());
        assert_eq!(found, list);
        assert!(read_answer(&[answer, done].concat(), &mut found).unwrap());

        let refused = message(TYPE_ERROR, &(-16i32).to_ne_bytes());
        let error = read_answer(&refused, &mut found).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(16));
        assert!(read_answer(&[9, 0, 0], &mut found).is_err());
        assert!(read_answer(&message(TYPE_ERROR, &[]), &mut found).is_err());
    }

    #[test]
    fn this_kernel_answers() {
        // The family that lists families is in every kernel.
        let control = Netlink::open("nlctrl").unwrap();
        assert_eq!(control.family, TYPE_CONTROL);
        let missing = Netlink::open("weir-none").err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
