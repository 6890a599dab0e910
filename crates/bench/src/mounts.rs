//! What the kernel has mounted where.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::suite::BenchError;

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub mountpoint: PathBuf,
    /// Type of its file system, such as `ext4` or `fuse.weir`.
    pub file_system: String,
    /// What is mounted.
    pub source: String,
    /// Options of the mount, then those of the file system that are not among them.
    pub options: String,
}

/// The mount that `path` lies in. The path is as the kernel names it: absolute, without symlinks.
///
/// # Errors
/// When the kernel does not tell.
pub fn holding(path: &Path) -> Result<Mount, BenchError> {
    let text = fs::read(MOUNTINFO).map_err(|error| BenchError::io(MOUNTINFO, error))?;
    let found = innermost(text.split(|byte| *byte == b'\n').filter_map(parse_line), path);
    found.ok_or_else(|| {
        BenchError::Unsuitable(format!("{} is in no mount of {MOUNTINFO}", path.display()))
    })
}

/// The deepest mount above `path`; of several on one directory the last, which covers the others.
fn innermost(mounts: impl Iterator<Item = Mount>, path: &Path) -> Option<Mount> {
    let above = mounts.filter(|mount| path.starts_with(&mount.mountpoint));
    above.max_by_key(|mount| mount.mountpoint.components().count())
}

/// One line. Source: proc_pid_mountinfo(5).
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let mountpoint = PathBuf::from(OsString::from_vec(unescape(words.nth(4)?)));
    let own = text(words.next()?);
    // Optional words stand between the options and the dash.
    words.find(|word| *word == b"-")?;
    let (file_system, source) = (text(words.next()?), text(words.next()?));
    let of_file_system = text(words.next().unwrap_or_default());
    let has = |option: &&str| !option.is_empty() && !own.split(',').any(|other| other == *option);
    let more: Vec<_> = of_file_system.split(',').filter(has).collect();
    let options = match more.is_empty() {
        true => own,
        false => format!("{own},{}", more.join(",")),
    };
    Some(Mount { mountpoint, file_system, source, options })
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(word)).into_owned()
}

/// Undoes the kernel's `\040` for a blank and the like.
fn unescape(word: &[u8]) -> Vec<u8> {
    let octal = |byte: &u8| byte.checked_sub(b'0').filter(|digit| *digit < 8).map(u32::from);
    let escape = |tail: &[u8]| match tail {
        [b'\\', a, b, c, ..] => u8::try_from(octal(a)? << 6 | octal(b)? << 3 | octal(c)?).ok(),
        _ => None,
    };
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let escaped = escape(rest);
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[4..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = b"36 35 0:53 / /mnt/my\\040data\\134x rw,noatime shared:1 master:2 - fuse.weir \
                     s3://b/my\\040vol rw,user_id=0";
        let wanted = Mount {
            mountpoint: PathBuf::from("/mnt/my data\\x"),
            file_system: "fuse.weir".to_owned(),
            source: "s3://b/my vol".to_owned(),
            options: "rw,noatime,user_id=0".to_owned(),
        };
        assert_eq!(parse_line(line), Some(wanted));
        let plain = parse_line(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw").expect("a mount");
        assert_eq!((plain.file_system.as_str(), plain.options.as_str()), ("ext4", "rw"));
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 0 8:1 / / rw"), None);
    }

    #[test]
    fn only_three_octal_digits_are_an_escape() {
        for (word, plain) in
            [("a\\040b", "a b"), ("a\\9b\\", "a\\9b\\"), ("\\04", "\\04"), ("\\777", "\\777")]
        {
            assert_eq!(unescape(word.as_bytes()), plain.as_bytes(), "{word}");
        }
    }

    #[test]
    fn the_deepest_and_last_mount_holds_a_path() {
        let mount = |at: &str, source: &str| Mount {
            mountpoint: at.into(),
            source: source.to_owned(),
            ..Mount::default()
        };
        let mounts =
            [mount("/", "root"), mount("/mnt", "a"), mount("/mnt/data", "b"), mount("/mnt", "c")];
        for (path, wanted) in
            [("/mnt/data/x", "b"), ("/mnt/database", "c"), ("/mnt", "c"), ("/home", "root")]
        {
            let found = innermost(mounts.iter().cloned(), Path::new(path)).expect("a mount");
            assert_eq!(found.source, wanted, "{path}");
        }
    }

    #[test]
    fn this_machine_has_a_root() {
        assert_eq!(holding(Path::new("/")).expect("a root").mountpoint, Path::new("/"));
    }
}
