//! External data representation (RFC 4506): big-endian numbers, everything in units of four bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// What was sent is not what the protocol has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadXdr;

pub(crate) type Xdr<T> = Result<T, BadXdr>;

/// Takes a message apart, without a copy.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    rest: Bytes,
}

impl Reader {
    pub(crate) fn new(rest: Bytes) -> Self {
        Self { rest }
    }

    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn u32(&mut self) -> Xdr<u32> {
        self.rest.try_get_u32().map_err(|_| BadXdr)
    }

    pub(crate) fn u64(&mut self) -> Xdr<u64> {
        self.rest.try_get_u64().map_err(|_| BadXdr)
    }

    pub(crate) fn i64(&mut self) -> Xdr<i64> {
        self.rest.try_get_i64().map_err(|_| BadXdr)
    }

    pub(crate) fn bool(&mut self) -> Xdr<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadXdr),
        }
    }

    /// Bytes of a length that the protocol fixes, which is a multiple of four.
    pub(crate) fn fixed<const N: usize>(&mut self) -> Xdr<[u8; N]> {
        let mut bytes = [0; N];
        self.rest.try_copy_to_slice(&mut bytes).map_err(|_| BadXdr)?;
        Ok(bytes)
    }

    /// Bytes with their length before them, at most `max`.
    pub(crate) fn opaque(&mut self, max: usize) -> Xdr<Bytes> {
        let len = self.u32()? as usize;
        let padded = len.checked_next_multiple_of(4).ok_or(BadXdr)?;
        if len > max || padded > self.rest.len() {
            return Err(BadXdr);
        }
        let bytes = self.rest.split_to(len);
        self.rest.advance(padded - len);
        Ok(bytes)
    }

    /// A list with its length before it, at most `max` long.
    pub(crate) fn list<T>(
        &mut self,
        max: usize,
        mut one: impl FnMut(&mut Self) -> Xdr<T>,
    ) -> Xdr<Vec<T>> {
        let len = self.u32()? as usize;
        // Each element takes four bytes at least.
        if len > max || len > self.rest.len() / 4 {
            return Err(BadXdr);
        }
        (0..len).map(|_| one(self)).collect()
    }
}

/// Pieces from this size on are handed on without a copy.
const OWN_PIECE_BYTES: usize = 4 << 10;

/// Puts a message together.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    done: Vec<Bytes>,
    done_bytes: usize,
    last: BytesMut,
}

/// A place in a [`Writer`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pieces: usize,
    done_bytes: usize,
    last: usize,
}

impl Writer {
    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.done_bytes + self.last.len()
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.last.put_u32(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.last.put_u64(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.last.put_i64(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.last.put_u32(u32::from(value));
    }

    /// Bytes of a length that the protocol fixes, which is a multiple of four.
    pub(crate) fn fixed(&mut self, bytes: &[u8]) {
        self.last.put_slice(bytes);
    }

    /// Bytes with their length before them.
    pub(crate) fn opaque(&mut self, bytes: &[u8]) {
        self.last.put_u32(bytes.len() as u32);
        self.last.put_slice(bytes);
        self.pad(bytes.len());
    }

    /// The same; what is long is not copied.
    pub(crate) fn opaque_bytes(&mut self, bytes: Bytes) {
        if bytes.len() < OWN_PIECE_BYTES {
            return self.opaque(&bytes);
        }
        let len = bytes.len();
        self.last.put_u32(len as u32);
        self.end_piece();
        self.done_bytes += len;
        self.done.push(bytes);
        self.pad(len);
    }

    fn pad(&mut self, len: usize) {
        self.last.put_bytes(0, len.next_multiple_of(4) - len);
    }

    fn end_piece(&mut self) {
        let piece = self.last.split().freeze();
        self.done_bytes += piece.len();
        self.done.push(piece);
    }

    /// Where it is now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { pieces: self.done.len(), done_bytes: self.done_bytes, last: self.last.len() }
    }

    /// Takes back what was written after `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        if self.done.len() > mark.pieces {
            self.last = BytesMut::from(&self.done[mark.pieces][..]);
            self.done.truncate(mark.pieces);
        }
        self.done_bytes = mark.done_bytes;
        self.last.truncate(mark.last);
    }

    /// Writes a number over the one at `mark`.
    pub(crate) fn set_u32(&mut self, mark: Mark, value: u32) {
        let bytes = value.to_be_bytes();
        match self.done.get_mut(mark.pieces) {
            None => self.last[mark.last..mark.last + 4].copy_from_slice(&bytes),
            Some(piece) => {
                let mut changed = BytesMut::from(&piece[..]);
                changed[mark.last..mark.last + 4].copy_from_slice(&bytes);
                *piece = changed.freeze();
            }
        }
    }

    /// All of it, in pieces.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        self.end_piece();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Writer::default();
        out.u32(7);
        out.bool(true);
        out.opaque(b"abcde");
        out.opaque_bytes(Bytes::from(vec![9; 5_001]));
        out.i64(-3);
        let len = out.len();
        let all = out.finish().concat();
        assert_eq!(all.len(), len);
        assert_eq!(len, 4 + 4 + 12 + 4 + 5_004 + 8);
        let mut input = Reader::new(all.into());
        assert_eq!((input.u32(), input.bool()), (Ok(7), Ok(true)));
        assert_eq!(input.opaque(5).as_deref(), Ok(&b"abcde"[..]));
        assert_eq!(input.opaque(6_000).map(|bytes| bytes.len()), Ok(5_001));
        assert_eq!((input.i64(), input.remaining()), (Ok(-3), 0));
        assert_eq!(input.u32(), Err(BadXdr));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let opaque = |len: u32, have: usize, max| {
            let mut bytes = len.to_be_bytes().to_vec();
            bytes.resize(4 + have, 0);
            Reader::new(bytes.into()).opaque(max)
        };
        assert!(opaque(5, 8, 5).is_ok());
        assert!(opaque(5, 5, 5).is_err(), "padding is missing");
        assert!(opaque(5, 8, 4).is_err() && opaque(u32::MAX, 8, usize::MAX).is_err());
        let mut list = Reader::new(Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1]));
        assert!(list.list(usize::MAX, Reader::u32).is_err(), "and takes no memory for it");
    }

    #[test]
    fn what_was_written_is_taken_back() {
        let mut out = Writer::default();
        out.u32(1);
        let at = out.mark();
        out.u32(2);
        let mark = out.mark();
        out.opaque_bytes(Bytes::from(vec![1; 10_000]));
        out.u32(4);
        out.set_u32(at, 3);
        out.rewind(mark);
        out.u32(5);
        assert_eq!(out.len(), 12);
        assert_eq!(out.finish().concat(), [0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 5]);
    }
}
