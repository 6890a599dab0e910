//! The buffer of a listing, as large as the kernel has room.

use crate::attr::Entry;
use crate::bytes::Output;

/// Bytes of an entry without its name and its inode.
const HEAD_BYTES: usize = 24;
/// Bytes of what comes before an entry with its inode.
const INODE_BYTES: usize = 128;
/// Where in that it is how long the kernel may remember the name and the attributes.
const TTLS: std::ops::Range<usize> = 16..40;

/// Entries of a directory for one answer.
#[derive(Debug)]
pub struct DirBuffer {
    out: Output,
    room: usize,
    /// Where entries with inodes begin.
    inodes: Vec<usize>,
}

impl DirBuffer {
    /// One that holds `room` bytes: what the request says.
    pub fn new(room: u32) -> Self {
        let room = room as usize;
        Self { out: Output(Vec::with_capacity(room)), room, inodes: Vec::new() }
    }

    /// How many more entries of names with so many bytes it holds.
    pub fn holds(&self, name_bytes: usize, with_inodes: bool) -> usize {
        let before = if with_inodes { INODE_BYTES } else { 0 };
        (self.room - self.out.0.len()) / (before + HEAD_BYTES + name_bytes.next_multiple_of(8))
    }

    /// Adds a name; answers whether it did not fit. A reader goes on after it at `offset`; `kind` is
    /// the type in `st_mode`.
    pub fn add(&mut self, ino: u64, offset: u64, kind: u32, name: &[u8]) -> bool {
        if self.is_full(name, 0) {
            return true;
        }
        self.put(ino, offset, kind, name);
        false
    }

    /// Adds a name with its inode, whose kind is in its mode.
    pub fn add_with(&mut self, entry: &Entry, ino: u64, offset: u64, name: &[u8]) -> bool {
        if self.is_full(name, INODE_BYTES) {
            return true;
        }
        self.inodes.push(self.out.0.len());
        entry.put(&mut self.out);
        self.put(ino, offset, entry.attr.mode, name);
        false
    }

    /// Has the kernel remember nothing of what it holds.
    pub fn for_now(&mut self) {
        for at in &self.inodes {
            self.out.0[at + TTLS.start..at + TTLS.end].fill(0);
        }
    }

    /// What there is.
    pub fn bytes(&self) -> &[u8] {
        &self.out.0
    }

    fn is_full(&self, name: &[u8], before: usize) -> bool {
        let bytes = before + (HEAD_BYTES + name.len()).next_multiple_of(8);
        self.out.0.len() + bytes > self.room
    }

    fn put(&mut self, ino: u64, offset: u64, kind: u32, name: &[u8]) {
        let kind = (kind & libc::S_IFMT) >> 12;
        self.out.u64(ino).u64(offset).u32(name.len() as u32).u32(kind);
        self.out.0.extend_from_slice(name);
        let padding = self.out.0.len().next_multiple_of(8) - self.out.0.len();
        self.out.zeros(padding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_where_the_room_does() {
        let mut buffer = DirBuffer::new(70);
        assert!(!buffer.add(5, 1, libc::S_IFDIR, b"."));
        assert!(!buffer.add(6, 2, libc::S_IFREG | 0o644, b"abcdefgh"));
        assert!(buffer.add(7, 3, libc::S_IFREG, b"x"), "64 of 70 bytes are taken");
        let bytes = buffer.bytes();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[20..24], 4_u32.to_ne_bytes(), "DT_DIR");
        assert_eq!(bytes[32 + 20..32 + 24], 8_u32.to_ne_bytes(), "DT_REG");
        let mut plus = DirBuffer::new(160);
        assert!(!plus.add_with(&Entry::default(), 5, 1, b"12345678"));
        assert_eq!(plus.bytes().len(), 160);
        assert!(plus.add_with(&Entry::default(), 5, 1, b""));
    }

    #[test]
    fn what_is_for_now_is_as_if_it_had_no_lifetimes() {
        let long = std::time::Duration::new(77, 88);
        let entry = Entry { node: 5, entry_ttl: long, attr_ttl: long, ..Entry::default() };
        let short = Entry { node: 5, ..Entry::default() };
        let (mut buffer, mut wanted) = (DirBuffer::new(4096), DirBuffer::new(4096));
        for name in [&b"a"[..], b"longer than eight"] {
            assert!(!buffer.add_with(&entry, 5, 1, name) && !wanted.add_with(&short, 5, 1, name));
        }
        assert_ne!(buffer.bytes(), wanted.bytes());
        buffer.for_now();
        assert_eq!(buffer.bytes(), wanted.bytes());
    }
}
