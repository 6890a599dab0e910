//! A file that an action has to do with.

use std::path::Path;
use std::sync::Arc;

use weir_types::{ByteRange, Ino, Inode};

use crate::data::mirrors::Mirrors;

/// A regular file that a walk came by.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    /// The directory that it was found in.
    pub(crate) dir: Ino,
    pub(crate) size: u64,
    /// Bytes of it that the bucket has.
    pub(crate) remote_bytes: u64,
    /// Of its extents, when it was looked at.
    pub(crate) generation: u64,
    /// It is, or was made of, an object of its own.
    pub(crate) is_native: bool,
    /// 1, or 0 where it counts as a file elsewhere.
    pub(crate) files: u64,
    /// What of it the action is about; `None`: all.
    wanted: Option<Box<[ByteRange]>>,
    directory: Arc<str>,
    name: Box<[u8]>,
}

impl Found {
    /// A file as `inode` has it, by this name of a directory that has that path.
    pub(crate) fn at(
        mirrors: &Mirrors,
        inode: Inode,
        (dir, directory): (Ino, Arc<str>),
        name: &[u8],
    ) -> Self {
        let (remote_bytes, generation) = (remote_bytes(&inode), inode.data.generation);
        let is_native = inode.native.is_some();
        let inode = mirrors.merged(inode);
        let (ino, size) = (inode.ino, inode.size);
        let (files, wanted, name) = (1, None, name.into());
        Self { ino, dir, size, remote_bytes, generation, is_native, files, wanted, directory, name }
    }

    /// One of this size that is in the bucket.
    #[cfg(test)]
    pub(crate) fn of_size(ino: Ino, size: u64) -> Self {
        Self {
            ino,
            dir: Ino::ROOT,
            size,
            remote_bytes: size,
            generation: 1,
            is_native: false,
            files: 1,
            wanted: None,
            directory: "".into(),
            name: [].into(),
        }
    }

    /// The action is about these ranges of it only, which are in order and apart.
    pub(crate) fn narrow(&mut self, wanted: Vec<ByteRange>) {
        self.wanted = Some(wanted.into());
    }

    /// What of it the action is about; the last range may reach past its end.
    pub(crate) fn ranges(&self) -> Vec<ByteRange> {
        match &self.wanted {
            None => vec![ByteRange::new(0, self.size)],
            Some(wanted) => wanted.to_vec(),
        }
    }

    /// How many bytes that are, if the file has `size`.
    pub(crate) fn bytes_of(&self, size: u64) -> u64 {
        match &self.wanted {
            None => size,
            Some(wanted) => wanted.iter().map(|range| range.within(0, size).len()).sum(),
        }
    }

    /// The same for the size that it was found with.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(self.size)
    }

    /// What of these ranges, which are in order and apart, the action is about.
    pub(crate) fn wanted_of(&self, ranges: Vec<ByteRange>) -> Vec<ByteRange> {
        let Some(wanted) = &self.wanted else { return ranges };
        let within = |range: &ByteRange| {
            let (start, end) = (range.start, range.end);
            wanted.iter().map(move |part| part.within(start, end)).filter(|part| !part.is_empty())
        };
        ranges.iter().flat_map(within).collect()
    }

    /// Its name in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its path below the mount, for people.
    pub(crate) fn path(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        Path::new(&*self.directory).join(&*name).display().to_string()
    }
}

/// Bytes of a file that the bucket has.
pub(crate) fn remote_bytes(inode: &Inode) -> u64 {
    inode.stored_bytes.max(inode.native.as_ref().map_or(0, |native| native.end))
}
