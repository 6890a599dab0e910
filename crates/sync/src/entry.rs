//! What a place has at a path.

use std::cmp::Ordering;

use weir_types::{ErrorKind, FsError, Result};

/// What a place has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the place, `/`-separated, without a slash at either end.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// When its contents changed, in nanoseconds since 1970; on a bucket when it was written.
    pub(crate) mtime_ns: i128,
    /// What only directories know.
    pub(crate) owner: Option<Owner>,
}

/// Mode and owner of a file in a directory, and which of several names of one file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// When anything of it changed, in nanoseconds since 1970.
    pub(crate) ctime_ns: i128,
    /// Device and inode of a file that has other names, too.
    pub(crate) shared: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File {
        size: u64,
    },
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    /// A device, a socket or a pipe.
    Node {
        /// Which of them: the upper bits of `st_mode`.
        type_bits: u32,
        /// Of a device, its number.
        device: u64,
    },
    /// An object whose key cannot be a path, as that which marks a directory.
    Special,
}

impl Entry {
    /// The order in which both places are listed: that of keys, in which a directory ends with a
    /// slash.
    pub(crate) fn order(&self, other: &Entry) -> Ordering {
        let slash = |of: &Entry| (of.kind == Kind::Directory).then_some(b'/');
        let (ours, theirs) = (slash(self), slash(other));
        self.path.iter().copied().chain(ours).cmp(other.path.iter().copied().chain(theirs))
    }

    /// The path as the key of an object.
    ///
    /// # Errors
    /// `Invalid` for a name that is no UTF-8: stores know no other keys.
    pub(crate) fn key(&self) -> Result<&str> {
        std::str::from_utf8(&self.path).map_err(|_| {
            let text = "its name is no UTF-8, and so no key of an object: rename it";
            FsError::new(ErrorKind::Invalid, text)
        })
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.kind {
            Kind::File { size } => *size,
            _ => 0,
        }
    }
}

#[cfg(test)]
pub(crate) fn file(path: &str, size: u64) -> Entry {
    Entry { path: path.into(), kind: Kind::File { size }, mtime_ns: 0, owner: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_where_its_first_file_would_be() {
        let directory = |path| Entry { kind: Kind::Directory, ..file(path, 0) };
        let sorted = [file("a-b", 0), directory("a"), file("a/b", 0), file("a0", 0)];
        for pair in sorted.windows(2) {
            assert_eq!(pair[0].order(&pair[1]), Ordering::Less, "{pair:?}");
        }
        assert_eq!(file("a", 0).order(&directory("a")), Ordering::Less);
    }
}
