//! The kernel's table of mounts: all that this driver knows of what is mounted, so that it forgets
//! nothing when it is restarted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::fault::{Result, Tried};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Names the mounted file system while it is mounted: all binds of it have the same.
    pub(crate) device: String,
    /// What of the file system is mounted.
    pub(crate) root: PathBuf,
    pub(crate) at: PathBuf,
    pub(crate) read_only: bool,
}

/// All mounts of this mount namespace, in the order in which they were made.
pub(crate) struct Table(Vec<Mount>);

impl Table {
    pub(crate) fn read() -> Result<Self> {
        let path = "/proc/self/mountinfo";
        Ok(Self::parse(&fs::read(path).tried(|| format!("read {path}"))?))
    }

    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// What is seen at a path, if something is mounted right there.
    pub(crate) fn at(&self, path: &Path) -> Option<&Mount> {
        self.0.iter().rev().find(|mount| mount.at == path)
    }

    /// All mounts of a file system.
    pub(crate) fn of_device<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(move |mount| mount.device == device)
    }
}

/// `ID PARENT MAJOR:MINOR ROOT AT OPTIONS ...`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let device = String::from_utf8(words.next()?.to_vec()).ok()?;
    let (root, at) = (unescaped(words.next()?), unescaped(words.next()?));
    let read_only = words.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    Some(Mount { device, root, at, read_only })
}

/// The kernel writes blanks and the like as `\040`.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_understood() {
        let table = Table::parse(
            b"44 27 0:41 / /a/vol rw,relatime - fuse.weir s3://b/v rw,user_id=0\n\
              45 27 0:41 /d/x /pods/a\\040b ro,relatime shared:3 master:1 - fuse.weir s3://b/v rw\n\
              46 45 0:9 / /pods/a\\040b rw - tmpfs none rw\n\nbroken\n",
        );
        let volume = table.at(Path::new("/a/vol")).unwrap();
        assert_eq!((volume.device.as_str(), volume.read_only), ("0:41", false));
        assert_eq!(table.at(Path::new("/pods/a b")).unwrap().device, "0:9", "the last one is seen");
        let binds: Vec<_> =
            table.of_device("0:41").map(|m| (m.root.to_str(), m.read_only)).collect();
        assert_eq!(binds, [(Some("/"), false), (Some("/d/x"), true)]);
        assert!(table.at(Path::new("/a")).is_none());
    }
}
