//! Attributes, and names with them.

use std::time::Duration;

use crate::abi::STATX_KNOWN;
use crate::bytes::Output;

/// A moment: seconds since 1970, less than 0 before that, and nanoseconds after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Whole seconds.
    pub secs: i64,
    /// Nanoseconds after those, less than 10^9.
    pub nanos: u32,
}

/// A moment that a setattr is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// When it is served.
    Now,
    /// This one.
    At(Timestamp),
}

/// What `stat` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of its bytes.
    pub mtime: Timestamp,
    /// Last change.
    pub ctime: Timestamp,
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Which device it is.
    pub rdev: u32,
    /// Bytes that programs are to read at once.
    pub blksize: u32,
}

impl Attr {
    pub(crate) fn put(&self, out: &mut Output) {
        out.u64(self.ino).u64(self.size).u64(self.blocks);
        let times = [self.atime, self.mtime, self.ctime];
        for time in times {
            // The kernel takes the number for a signed one.
            out.u64(time.secs as u64);
        }
        for time in times {
            out.u32(time.nanos);
        }
        out.u32(self.mode).u32(self.nlink).u32(self.uid).u32(self.gid);
        out.u32(self.rdev).u32(self.blksize).u32(0);
    }
}

impl Attr {
    /// `struct fuse_statx`
    pub(crate) fn put_statx(&self, btime: Timestamp, out: &mut Output) {
        out.u32(STATX_KNOWN).u32(self.blksize).u64(0);
        out.u32(self.nlink).u32(self.uid).u32(self.gid).u16(self.mode as u16).u16(0);
        out.u64(self.ino).u64(self.size).u64(self.blocks).u64(0);
        for time in [self.atime, btime, self.ctime, self.mtime] {
            out.u64(time.secs as u64).u32(time.nanos).u32(0);
        }
        // The same bits as in the kernel's `new_decode_dev`.
        let (major, minor) =
            ((self.rdev >> 8) & 0xfff, (self.rdev & 0xff) | ((self.rdev >> 12) & 0xfff00));
        out.u32(major).u32(minor).zeros(8 + 14 * 8);
    }
}

/// What a name leads to, and how long the kernel may believe it. Inode number 0: to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub attr: Attr,
    /// By which number the kernel asks for it from then on, where that is not the inode's own; else 0.
    pub node: u64,
    /// How long it may remember the name.
    pub entry_ttl: Duration,
    /// How long it may remember the attributes.
    pub attr_ttl: Duration,
}

impl Entry {
    pub(crate) fn put(&self, out: &mut Output) {
        // Inode numbers are not used twice: all are of generation 0.
        out.u64(if self.node == 0 { self.attr.ino } else { self.node }).u64(0);
        out.u64(self.entry_ttl.as_secs()).u64(self.attr_ttl.as_secs());
        out.u32(self.entry_ttl.subsec_nanos()).u32(self.attr_ttl.subsec_nanos());
        self.attr.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_kernel() {
        let mut out = Output::default();
        Attr::default().put(&mut out);
        assert_eq!(out.0.len(), 88);
        let mut out = Output::default();
        Entry::default().put(&mut out);
        assert_eq!(out.0.len(), 128);
        let mut out = Output::default();
        Attr::default().put_statx(Timestamp::default(), &mut out);
        assert_eq!(out.0.len(), 256, "as struct statx");
    }

    #[test]
    fn a_time_before_1970_is_a_negative_number() {
        let mut out = Output::default();
        let atime = Timestamp { secs: -2, nanos: 800_000_000 };
        Attr { atime, ..Attr::default() }.put(&mut out);
        assert_eq!(out.0[24..32], (-2_i64).to_ne_bytes());
        assert_eq!(out.0[48..52], 800_000_000_u32.to_ne_bytes());
    }
}
