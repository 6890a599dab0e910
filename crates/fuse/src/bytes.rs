//! Numbers and names in messages, in the byte order of this machine.

use std::ffi::CStr;

/// Reads a message from its start. `None` where it is too short.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    /// What comes when those are read: rings have numbers apart from names and bytes.
    then: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self::in_parts(bytes, &[])
    }

    /// A message in two parts. No number and no name lies in both.
    pub(crate) fn in_parts(bytes: &'a [u8], then: &'a [u8]) -> Self {
        Self { bytes, then }
    }

    /// What is left of the part that is read.
    pub(crate) fn part(&mut self) -> &'a [u8] {
        if self.bytes.is_empty() {
            self.bytes = std::mem::take(&mut self.then);
        }
        self.bytes
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.part().split_first_chunk()?;
        self.bytes = rest;
        Some(u32::from_ne_bytes(*number))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.part().split_first_chunk()?;
        self.bytes = rest;
        Some(u64::from_ne_bytes(*number))
    }

    pub(crate) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.part().get(bytes..)?;
        Some(())
    }

    /// A name that a zero byte ends.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        let name = CStr::from_bytes_until_nul(self.part()).ok()?.to_bytes();
        self.bytes = &self.bytes[name.len() + 1..];
        Some(name)
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.part().split_at_checked(count)?;
        self.bytes = rest;
        Some(bytes)
    }
}

/// Writes a message.
#[derive(Debug, Default)]
pub(crate) struct Output(pub(crate) Vec<u8>);

impl Output {
    pub(crate) fn u16(&mut self, number: u16) -> &mut Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut out = Output::default();
        out.u32(7).u64(1 << 40).zeros(4);
        out.0.extend_from_slice(b"name\0rest");
        let mut input = Input::new(&out.0);
        assert_eq!((input.u32(), input.u64()), (Some(7), Some(1 << 40)));
        input.skip(4).expect("four bytes");
        assert_eq!(input.name(), Some(&b"name"[..]));
        assert_eq!(input.bytes(5), None);
        assert_eq!(input.name(), None, "no zero byte ends it");
        assert_eq!(input.bytes(4), Some(&b"rest"[..]));
        assert_eq!(input.u32(), None);
    }
}
