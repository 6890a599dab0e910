//! What an object carries of the file that it was, as FSx for Lustre and Weir's links write it.
//!
//! Source: FSx for Lustre, "Posix metadata support for data repositories".

use std::collections::BTreeMap;

use crate::entry::{Entry, Kind};

/// `st_mode` of a regular file and of a symbolic link.
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// The user metadata of the object that `entry` becomes.
pub(crate) fn of(entry: &Entry) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    if let Some(owner) = &entry.owner {
        let kind = match entry.kind {
            Kind::Symlink { .. } => SYMLINK,
            _ => REGULAR,
        };
        told.insert("file-permissions".to_owned(), format!("{:07o}", kind | owner.mode));
        told.insert("file-owner".to_owned(), owner.user.to_string());
        told.insert("file-group".to_owned(), owner.group.to_string());
    }
    told.insert("file-mtime".to_owned(), format!("{}ns", entry.mtime_ns));
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Owner, file};

    #[test]
    fn they_are_as_links_read_them() {
        let owner = Owner { mode: 0o664, user: 1000, group: 100, ctime_ns: 0, shared: None };
        let entry =
            Entry { owner: Some(owner), mtime_ns: 1_595_002_920_000_000_001, ..file("a", 1) };
        let told = of(&entry);
        assert_eq!(told["file-permissions"], "0100664");
        assert_eq!(told["file-mtime"], "1595002920000000001ns");
        assert_eq!((told["file-owner"].as_str(), told["file-group"].as_str()), ("1000", "100"));
        let link = Entry { kind: Kind::Symlink { target: b"x".to_vec() }, ..entry };
        assert_eq!(of(&link)["file-permissions"], "0120664");
    }
}
