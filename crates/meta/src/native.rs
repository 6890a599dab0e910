//! Which object of a link a name in one of its directories stands for.

use weir_types::{FileKind, Inode, Native};

/// What a new entry of a directory of a link gets: directories know where they are.
pub(crate) fn in_link(dir: &Inode, new: &Inode, name: &[u8]) -> Option<Native> {
    let above = dir.native.as_ref().filter(|_| new.kind == FileKind::Directory)?;
    Some(Native { key: child_key(above, name)? + "/", unlisted: false, ..above.clone() })
}

/// The key of the object that is called `name` in a directory of a link.
pub(crate) fn child_key(above: &Native, name: &[u8]) -> Option<String> {
    // What is no UTF-8 is no key.
    Some(format!("{}{}", above.key, std::str::from_utf8(name).ok()?))
}
