//! POSIX attributes in object metadata, as FSx for Lustre writes them. Pure.
//!
//! Source: "POSIX metadata support for data repositories", FSx for Lustre User Guide: the keys
//! `file-permissions` (octal, as `st_mode`), `file-owner`, `file-group` (decimal), `file-atime` and
//! `file-mtime` (nanoseconds since 1970, with `ns` behind), and `user-agent`.

use std::collections::BTreeMap;

use weir_types::{FileKind, Inode, UnixTime};

const PERMISSIONS: &str = "file-permissions";
const OWNER: &str = "file-owner";
const GROUP: &str = "file-group";
const ATIME: &str = "file-atime";
const MTIME: &str = "file-mtime";
const USER_AGENT: &str = "user-agent";

const KIND_MASK: u32 = 0o170_000;
const SYMLINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// What an object's metadata says of the file; `None` where it says nothing that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) kind: Option<FileKind>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) atime: Option<UnixTime>,
    pub(crate) mtime: Option<UnixTime>,
}

impl Attributes {
    /// Reads what is there.
    pub(crate) fn read(metadata: &BTreeMap<String, String>) -> Self {
        let get = |name: &str| metadata.get(name).map(|value| value.trim());
        let mode = get(PERMISSIONS).and_then(|text| u32::from_str_radix(text, 8).ok());
        let kind = mode.and_then(|mode| match mode & KIND_MASK {
            REGULAR => Some(FileKind::Regular),
            SYMLINK => Some(FileKind::Symlink),
            DIRECTORY => Some(FileKind::Directory),
            _ => None,
        });
        Self {
            kind,
            // Set-user-id from a bucket would let its writers become root here.
            mode: mode.map(|mode| mode & 0o1777),
            uid: get(OWNER).and_then(|text| text.parse().ok()),
            gid: get(GROUP).and_then(|text| text.parse().ok()),
            atime: get(ATIME).and_then(time),
            mtime: get(MTIME).and_then(time),
        }
    }

    /// Whether there was anything to read.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What an inode's object says of it.
pub(crate) fn write(inode: &Inode) -> BTreeMap<String, String> {
    let kind = match inode.kind {
        FileKind::Symlink => SYMLINK,
        FileKind::Directory => DIRECTORY,
        _ => REGULAR,
    };
    let text = |name: &str, value: String| (name.to_owned(), value);
    BTreeMap::from([
        text(PERMISSIONS, format!("0{:o}", kind | (inode.mode & 0o7777))),
        text(OWNER, inode.uid.to_string()),
        text(GROUP, inode.gid.to_string()),
        text(ATIME, format!("{}ns", inode.atime.0)),
        text(MTIME, format!("{}ns", inode.mtime.0)),
        text(USER_AGENT, "weir".to_owned()),
    ])
}

/// Nanoseconds with `ns` behind; without it seconds, which other tools write.
fn time(text: &str) -> Option<UnixTime> {
    match text.strip_suffix("ns") {
        Some(nanos) => nanos.parse().ok().map(UnixTime),
        None => {
            let seconds: i64 = text.parse().ok()?;
            Some(UnixTime::from_parts(seconds, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_example_of_the_user_guide_is_understood() {
        let metadata = of(&[
            ("user-agent", "aws-fsx-lustre"),
            ("file-atime", "1595002920000000000ns"),
            ("file-owner", "500"),
            ("file-permissions", "0100664"),
            ("file-group", "501"),
            ("file-mtime", "1595002920000000001ns"),
        ]);
        let read = Attributes::read(&metadata);
        assert_eq!(read.kind, Some(FileKind::Regular));
        assert_eq!((read.mode, read.uid, read.gid), (Some(0o664), Some(500), Some(501)));
        assert_eq!(read.mtime, Some(UnixTime(1_595_002_920_000_000_001)));
    }

    #[test]
    fn nonsense_is_left_out_and_set_uid_is_not_taken() {
        let read = Attributes::read(&of(&[
            ("file-permissions", "0104755"),
            ("file-owner", "root"),
            ("file-mtime", "yesterday"),
        ]));
        assert_eq!((read.mode, read.uid, read.mtime), (Some(0o755), None, None));
        assert!(Attributes::read(&of(&[("x", "y")])).is_empty());
        assert_eq!(
            Attributes::read(&of(&[("file-permissions", "0120777")])).kind,
            Some(FileKind::Symlink)
        );
    }
}
