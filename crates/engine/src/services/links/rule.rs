//! Which object is which file: the rule of names, in both directions. Pure.
//!
//! docs/linked-buckets.md tells it to people; change both or neither.

use weir_meta::{NAME_BYTES_MAX, TARGET_BYTES_MAX};
use weir_object::{PROBE_PREFIX, is_addressable};
use weir_types::Native;

/// What the name of an object's file has behind it where a directory has the name itself.
pub(crate) const BESIDE_DIRECTORY: &str = ".weir-object";
/// What a file's name has behind it, before the time, when the bucket's version took the name.
pub(crate) const CONFLICT: &str = ".weir-conflict-";

/// Where an object belongs below its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// A file: its directories, from the link's on, and its name.
    File { dirs: Vec<&'a str>, name: &'a str },
    /// A directory by itself: a key that ends with a slash, or is the link's prefix and a slash.
    Directory { dirs: Vec<&'a str> },
}

/// Where the object of this key belongs, or why it cannot show.
pub(crate) fn place(key: &[u8]) -> Result<Place<'_>, &'static str> {
    let key = std::str::from_utf8(key).map_err(|_| "its key is no UTF-8")?;
    let (path, is_dir) = match key.strip_suffix('/') {
        Some(path) => (path, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Ok(Place::Directory { dirs: Vec::new() });
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    for part in &parts {
        if let Some(why) = bad_part(part) {
            return Err(why);
        }
    }
    if path.len() > TARGET_BYTES_MAX {
        return Err("its path is longer than the system allows");
    }
    if is_dir {
        return Ok(Place::Directory { dirs: parts });
    }
    if !is_addressable(key.as_bytes()) {
        return Err("its key has control characters, which no request can name");
    }
    let name = parts.pop().unwrap_or_default();
    if name.starts_with(PROBE_PREFIX) {
        return Err("it is a probe of weir's, which a crash left behind: it may be removed");
    }
    Ok(Place::File { dirs: parts, name })
}

fn bad_part(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("a part of its key is empty (two slashes, or one at the start)"),
        "." | ".." => Some("a part of its key is `.` or `..`"),
        _ if part.len() > NAME_BYTES_MAX => Some("a part of its key is longer than 255 bytes"),
        _ if part.contains('\0') => Some("its key has a zero byte in it"),
        _ => None,
    }
}

/// The key of the file of this name in a directory, if it can have one.
pub(crate) fn child_key(above: &Native, name: &[u8]) -> Option<String> {
    let key = format!("{}{}", above.key, std::str::from_utf8(name).ok()?);
    matches!(place(key.as_bytes()), Ok(Place::File { .. })).then_some(key)
}

/// A key for people: what is no UTF-8 or no printable character is written `\xNN`.
pub(crate) fn show(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => key.escape_ascii().to_string(),
    }
}

/// The name of a local version whose name the bucket's version takes. `unix_ms` tells two apart.
pub(crate) fn conflict_name(name: &[u8], unix_ms: u64, nth: u32) -> Vec<u8> {
    let seconds = unix_ms / 1_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (h, m, s) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let nth = if nth == 0 { String::new() } else { format!("-{nth}") };
    let tail = format!("{CONFLICT}{year:04}{month:02}{day:02}T{h:02}{m:02}{s:02}Z{nth}");
    let keep = name.len().min(NAME_BYTES_MAX - tail.len());
    [&name[..keep], tail.as_bytes()].concat()
}

/// Whether the file of this name is a version that lost a conflict: it is never exported.
pub(crate) fn is_conflict(name: &[u8]) -> bool {
    name.windows(CONFLICT.len()).any(|part| part == CONFLICT.as_bytes())
}

/// Year, month and day of a day since 1970, by the rule of leap years (Howard Hinnant, "chrono-
/// Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_paths_are_paths() {
        let file = |dirs: &[&'static str], name| Ok(Place::File { dirs: dirs.to_vec(), name });
        assert_eq!(place(b"a"), file(&[], "a"));
        assert_eq!(place(b"a/b c/d"), file(&["a", "b c"], "d"));
        assert_eq!(place("ü/…".as_bytes()), file(&["ü"], "…"));
        assert_eq!(place(b"a/"), Ok(Place::Directory { dirs: vec!["a"] }));
    }

    #[test]
    fn odd_keys_are_told_apart() {
        let long = [b"x/".as_slice(), &[b'n'; 256]].concat();
        for key in [
            b"/".as_slice(),
            b"/a",
            b"a//b",
            b"a//",
            b".",
            b"a/../b",
            b"./a",
            b"a/.",
            b"\xff",
            b"a\0b",
            b"a\nb",
            &long,
        ] {
            assert!(place(key).is_err(), "{}", key.escape_ascii());
        }
        assert_eq!(show(b"a\xffb"), "a\\xffb");
        assert_eq!(show("ü".as_bytes()), "ü");
    }

    #[test]
    fn conflict_names_tell_the_time_and_fit() {
        let name = conflict_name(b"f", 1_700_000_000_000, 0);
        assert_eq!(name, b"f.weir-conflict-20231114T221320Z");
        assert!(is_conflict(&name) && !is_conflict(b"f"));
        let long = conflict_name(&[b'x'; 255], 951_782_399_000, 3);
        assert_eq!(long.len(), 255);
        assert!(long.ends_with(b".weir-conflict-20000228T235959Z-3"));
    }
}
