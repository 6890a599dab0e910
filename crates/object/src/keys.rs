//! Listings that show every object of a bucket, whatever its key: for links, where objects are
//! other people's.
//!
//! Keys are bytes here, below the URL's prefix, in byte order. The library's own listings fail on
//! a page with one key that its paths cannot express (`a//b`, `./x`, control characters), so on
//! `s3://` pages are asked for and read by [`crate::aws`], and on `file://` directories are walked
//! by [`crate::local`]; the other schemes go through the library.
//!
//! What must always hold: a [`KeyPage`] is all that there is in its interval when it was listed. A
//! store that lists out of order or skips is refused, because what a page does not show is taken
//! for deleted.

mod pages;
mod scan;
mod split;

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use weir_types::{ErrorKind, FsError, Result};

use crate::{Bucket, Component, Scheme};
#[cfg(feature = "testing")]
use crate::{aws, local};
pub(crate) use pages::{PAGE_KEYS, Page};
use pages::{PageAsk, Pages};
use scan::Scan;

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

/// Whether the object of this key can be read and written here, and not only listed: keys of
/// UTF-8 without control characters, whose parts between single slashes are neither empty nor `.`
/// nor `..`.
pub fn is_addressable(key: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(key) else { return false };
    let good = |part: &str| !matches!(part, "" | "." | "..");
    !key.iter().any(u8::is_ascii_control) && text.split('/').all(good)
}

impl Bucket {
    /// All objects whose key is in `range`, odd ones too. Pages come in any order; their intervals
    /// touch and cover the range. The stream ends after an error; what it said before holds.
    ///
    /// On `s3://` about `parallel` LISTs are on their way at any time, each for a page of up to
    /// 1,000 keys, and that many pages are in memory. Where the keys are is guessed, which costs up
    /// to as many LISTs again. Other schemes list one page after the other.
    ///
    /// # Errors
    /// As all calls; `Corrupt` for a store whose listings are out of order.
    pub fn scan_keys(
        &self,
        component: Component,
        range: KeyRange,
        parallel: usize,
    ) -> BoxStream<'static, Result<KeyPage>> {
        let pages = Pages::new(Arc::clone(self.caller()), component, String::new());
        match self.url().scheme() {
            Scheme::S3 => Scan::new(pages, range, parallel.max(1)).into_stream(),
            _ => scan::in_turn(pages, range),
        }
    }

    /// As [`Bucket::probe`], where keys may be odd ones: of a bucket to be linked.
    pub async fn probe_odd(&self, component: Component) -> Result<()> {
        match self.url().scheme() {
            Scheme::S3 => {
                self.list_directory(component, b"", None).next().await.transpose().map(drop)
            }
            _ => self.probe().await,
        }
    }

    /// The object of this very key, odd ones too, if it is there. One HEAD; for an odd key one LIST
    /// (on `file://` as many as its directory has thousands of names).
    pub async fn head_listed(
        &self,
        component: Component,
        key: &[u8],
    ) -> Result<Option<ListedObject>> {
        if let Some(text) = std::str::from_utf8(key).ok().filter(|_| as_path(key).is_some()) {
            let found = match self.head(component, text).await {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let (size, etag) = (found.size, found.etag);
            let last_modified_unix_ms = found.last_modified_unix_ms;
            let key = key.to_vec();
            let cannot_show = None;
            return Ok(Some(ListedObject { key, size, etag, last_modified_unix_ms, cannot_show }));
        }
        match self.url().scheme() {
            Scheme::S3 => pages::find(self.caller(), component, key)
                .await
                .map_err(|failure| self.tell("LIST", &key.escape_ascii().to_string(), failure)),
            Scheme::File if !key.is_empty() => {
                let after = Some(key[..key.len() - 1].to_vec());
                let range = KeyRange { after, until: Some(key.to_vec()) };
                let mut pages = self.scan_keys(component, range, 1);
                let mut last = None;
                while let Some(page) = pages.try_next().await? {
                    last = page.objects.into_iter().next_back();
                }
                Ok(last.filter(|object| object.key == key))
            }
            _ => Ok(None),
        }
    }

    /// What is directly in the directory `below` (empty, or ending with a slash) after the key or
    /// directory `after`, in order, odd names too. One LIST for each 1,000 entries.
    ///
    /// # Errors
    /// As [`Bucket::scan_keys`]; `Invalid` on `s3://` for a directory whose name is no UTF-8.
    pub fn list_directory(
        &self,
        component: Component,
        below: &[u8],
        after: Option<&[u8]>,
    ) -> BoxStream<'static, Result<DirectoryPage>> {
        let Ok(below) = String::from_utf8(below.to_vec()) else {
            let why = format!("`{}` cannot be listed: it is no UTF-8", below.escape_ascii());
            return stream::iter([Err(FsError::new(ErrorKind::Invalid, why))]).boxed();
        };
        let pages = Pages::new(Arc::clone(self.caller()), component, below);
        let ask = PageAsk { after: after.map(<[u8]>::to_vec), token: None, delimiter: true };
        stream::try_unfold((pages, Some(ask)), |(mut pages, ask)| async move {
            let Some(ask) = ask else { return Ok(None) };
            let page = pages.page(&ask).await?;
            let next = page.next(&ask, true);
            let (objects, directories) = (page.objects, page.directories);
            Ok(Some((DirectoryPage { objects, directories }, (pages, next))))
        })
        .try_filter(|page| {
            let something = !(page.objects.is_empty() && page.directories.is_empty());
            std::future::ready(something)
        })
        .boxed()
    }
}

/// Whether a `get_opts` with these options is a listing in truth.
#[cfg(feature = "testing")]
pub(crate) fn is_listing(options: &object_store::GetOptions) -> bool {
    let extensions = &options.extensions;
    extensions.get::<aws::ListAsk>().is_some() || extensions.get::<local::OpenWalk>().is_some()
}

/// `key` as a path of the library, if it can be one.
pub(crate) fn as_path(key: &[u8]) -> Option<Path> {
    let text = std::str::from_utf8(key).ok().filter(|_| is_addressable(key))?;
    Path::parse(text).ok()
}

#[cfg(test)]
mod tests;
