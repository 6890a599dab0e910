//! What listings show: objects by keys that are bytes, and pages of them.

use object_store::path::Path;

/// Keys in one page.
pub(crate) const PAGE_KEYS: usize = 1000;

/// An object as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Key below the bucket URL's prefix. Empty for an object whose key is the prefix and a slash,
    /// which some tools put there to mark a directory.
    pub key: Vec<u8>,
    /// Length in bytes.
    pub size: u64,
    /// Changes whenever the object does. Some stores have none.
    pub etag: Option<String>,
    /// When it was written, in milliseconds since 1970.
    pub last_modified_unix_ms: i64,
    /// Why it can be neither read nor written, if that is so: on `file://`, a name in the directory
    /// that is no regular file.
    pub cannot_show: Option<&'static str>,
}

/// An interval of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// Keys greater than this; none: from the first one.
    pub after: Option<Vec<u8>>,
    /// Keys up to this one; none: to the last one.
    pub until: Option<Vec<u8>>,
}

/// All objects of an interval of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// The interval's lower end, which is not in it; none: from the first key.
    pub after: Option<Vec<u8>>,
    /// The interval's upper end, which is in it; none: to the last key.
    pub until: Option<Vec<u8>>,
    /// What is there, by key.
    pub objects: Vec<ListedObject>,
}

/// Some of what is directly in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryPage {
    /// Objects, by key; keys are those below the bucket URL's prefix, not only names. One whose
    /// key is that of the directory marks it.
    pub objects: Vec<ListedObject>,
    /// Directories, by key, each with the slash at its end.
    pub directories: Vec<Vec<u8>>,
}

/// A page, sorted, keys below the bucket URL's prefix, all of them after what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<ListedObject>,
    pub(crate) directories: Vec<Vec<u8>>,
    /// There is more behind it.
    pub(crate) truncated: bool,
    pub(crate) token: Option<String>,
}

/// Whether the object of this key can be read and written here, and not only listed: keys of
/// UTF-8 without control characters, whose parts between single slashes are neither empty nor `.`
/// nor `..`.
pub fn is_addressable(key: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(key) else { return false };
    let good = |part: &str| !matches!(part, "" | "." | "..");
    !key.iter().any(u8::is_ascii_control) && text.split('/').all(good)
}

/// `key` as a path of the library, if it can be one.
pub(crate) fn as_path(key: &[u8]) -> Option<Path> {
    let text = std::str::from_utf8(key).ok().filter(|_| is_addressable(key))?;
    Path::parse(text).ok()
}
