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
use weir_types::{ErrorKind, FsError, Result};

use crate::listed::{DirectoryPage, KeyPage, KeyRange, ListedObject, as_path};
use crate::{Bucket, Component, Scheme};
use pages::{PageAsk, Pages};
use scan::Scan;

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
                let mut listed = self.hasty().list_directory(component, b"", None);
                listed.next().await.transpose().map(drop)
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

#[cfg(test)]
mod tests;
