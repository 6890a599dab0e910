//! One page of keys, from whichever kind of store.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta};
use parking_lot::Mutex;
use weir_types::{ErrorKind, FsError, Result};

use super::split::utf8_len;
use crate::asks::{ListAsk, OpenWalk};
use crate::aws::listing::read_listing;
use crate::caller::{Ask, Caller, Failure};
use crate::listed::{ListedObject, PAGE_KEYS, Page, as_path};
use crate::local::walk::{Walk, opened};
use crate::{Component, RequestKind, Scheme};

/// Greater than what names begin with.
const LAST: char = char::MAX;

/// Which page.
#[derive(Clone, Debug, Default)]
pub(super) struct PageAsk {
    /// Keys, or directories, greater than this.
    pub(super) after: Option<Vec<u8>>,
    /// The store's own word for where to go on.
    pub(super) token: Option<String>,
    /// Only what is directly in the directory.
    pub(super) delimiter: bool,
}

impl PageAsk {
    pub(super) fn after(key: Vec<u8>) -> Self {
        Self { after: Some(key), ..Self::default() }
    }
}

impl Page {
    fn last(&self) -> Option<&[u8]> {
        let object = self.objects.last().map(|object| object.key.as_slice());
        object.max(self.directories.last().map(Vec::as_slice))
    }

    /// What to ask for next, if anything. The key says it unless it cannot be written in a
    /// request; in a directory, where several keys show as one, the token.
    pub(super) fn next(&self, ask: &PageAsk, prefer_token: bool) -> Option<PageAsk> {
        if !self.truncated {
            return None;
        }
        let after = self.last().map(<[u8]>::to_vec).or_else(|| ask.after.clone());
        let plain = self.last().is_some_and(|key| utf8_len(key) == key.len());
        let token = self.token.clone().filter(|_| prefer_token || !plain);
        Some(PageAsk { after, token, delimiter: ask.delimiter })
    }
}

type Stream = BoxStream<'static, object_store::Result<ObjectMeta>>;

/// Asks for pages below a directory; clones do so independently.
pub(super) struct Pages {
    caller: Arc<Caller>,
    component: Component,
    /// Empty, or ending with a slash.
    below: String,
    /// The walk or stream whose next entry comes behind the last page.
    open: Open,
}

enum Open {
    Nothing,
    Walk(Walk),
    Stream(Mutex<Stream>),
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.caller), self.component, self.below.clone())
    }
}

impl Pages {
    pub(super) fn new(caller: Arc<Caller>, component: Component, below: String) -> Self {
        Self { caller, component, below, open: Open::Nothing }
    }

    /// One page. One LIST.
    pub(super) async fn page(&mut self, ask: &PageAsk) -> Result<Page> {
        let page = match self.caller.url.scheme() {
            Scheme::S3 => self.page_of_s3(ask).await?,
            Scheme::File => self.page_of_directory(ask).await?,
            _ if ask.delimiter => self.whole_level(ask).await?,
            _ => self.page_of_library(ask).await?,
        };
        self.check(page, ask)
    }

    fn request(&self) -> Ask {
        Ask::new(self.component, RequestKind::List)
    }

    fn tell(&self, failure: Failure) -> FsError {
        failure.tell("LIST", &self.caller.url.key_url(&self.below))
    }

    async fn page_of_s3(&self, ask: &PageAsk) -> Result<Page> {
        let root = self.caller.root();
        let after = ask.after.as_deref().map(|after| {
            let mut text = String::from_utf8_lossy(&after[..utf8_len(after)]).into_owned();
            if ask.delimiter && text.ends_with('/') {
                // Behind what is in that directory.
                text.push(LAST);
            }
            format!("{root}{text}")
        });
        let listing = ListAsk {
            prefix: format!("{root}{}", self.below).into_bytes(),
            after,
            token: ask.token.clone(),
            delimiter: ask.delimiter,
            most: PAGE_KEYS,
        };
        let listed = s3_page(&self.caller, self.component, &listing).await;
        listed.map_err(|failure| self.tell(failure))
    }

    async fn page_of_directory(&mut self, ask: &PageAsk) -> Result<Page> {
        let walk = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Walk(walk) => Some(walk),
            _ => None,
        };
        let open = OpenWalk {
            below: self.below.clone().into_bytes(),
            after: ask.after.clone(),
            one_level: ask.delimiter,
        };
        let walk = &Mutex::new(walk);
        let (caller, path) = (&self.caller, &self.caller.prefix);
        let attempt = |_| {
            let kept = walk.lock().take();
            let mut options = GetOptions::default();
            options.extensions.insert(open.clone());
            async move {
                let walk = match kept {
                    Some(walk) => walk,
                    None => opened(caller.store.get_opts(path, options).await?)?,
                };
                Ok((walk.page(PAGE_KEYS).await?, 0))
            }
        };
        let listed = caller.run(self.request(), attempt).await;
        let (walk, page) = listed.map_err(|failure| self.tell(failure))?;
        self.open = Open::Walk(walk);
        Ok(page)
    }

    /// A page of a listing that the library makes.
    async fn page_of_library(&mut self, ask: &PageAsk) -> Result<Page> {
        let open = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Stream(stream) => Some(stream.into_inner()),
            _ => None,
        };
        let below = Some(&self.caller.prefix).filter(|prefix| !prefix.is_root());
        let from = ask.after.as_deref().and_then(as_path).map(|after| self.caller.full(&after));
        let after = ask.after.as_deref();
        let open = &Mutex::new(open);
        let (caller, from) = (&self.caller, &from);
        let attempt = |_| {
            let kept = open.lock().take();
            async move {
                let mut stream = kept.unwrap_or_else(|| match from {
                    Some(from) => caller.store.list_with_offset(below, from),
                    None => caller.store.list(below),
                });
                let mut page = Page::default();
                while page.objects.len() < PAGE_KEYS {
                    let Some(meta) = stream.try_next().await? else {
                        return Ok(((page, None), 0));
                    };
                    let object = listed(caller, meta);
                    if after.is_none_or(|after| object.key.as_slice() > after) {
                        page.objects.push(object);
                    }
                }
                page.truncated = true;
                Ok(((page, Some(stream)), 0))
            }
        };
        let listed = caller.run(self.request(), attempt).await;
        let (page, stream) = listed.map_err(|failure| self.tell(failure))?;
        self.open = stream.map_or(Open::Nothing, |stream| Open::Stream(Mutex::new(stream)));
        Ok(page)
    }

    /// A directory as the library lists it: whole.
    async fn whole_level(&self, ask: &PageAsk) -> Result<Page> {
        let path = match self.below.trim_end_matches('/') {
            "" => self.caller.prefix.clone(),
            below => match as_path(below.as_bytes()) {
                Some(path) => self.caller.full(&path),
                // Where keys are the library's paths, nothing is in such a directory.
                None => return Ok(Page::default()),
            },
        };
        let (caller, path) = (&self.caller, &path);
        let attempt =
            |_| async move { Ok((caller.store.list_with_delimiter(Some(path)).await?, 0)) };
        let level = caller.run(self.request(), attempt).await;
        let level = level.map_err(|failure| self.tell(failure))?;
        let key = |path: Path| format!("{}/", caller.relative(path)).into_bytes();
        let mut page = Page {
            objects: level.objects.into_iter().map(|meta| listed(caller, meta)).collect(),
            directories: level.common_prefixes.into_iter().map(key).collect(),
            ..Page::default()
        };
        page.objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        page.directories.sort_unstable();
        let wanted = |key: &[u8]| ask.after.as_deref().is_none_or(|after| key > after);
        page.objects.retain(|object| wanted(&object.key));
        page.directories.retain(|key| wanted(key));
        Ok(page)
    }

    /// Drops what was not asked for, and refuses a page that is out of order.
    fn check(&self, mut page: Page, ask: &PageAsk) -> Result<Page> {
        let rising = page.objects.is_sorted_by(|a, b| a.key < b.key)
            && page.directories.is_sorted_by(|a, b| a < b);
        let after = ask.after.as_deref().unwrap_or_default();
        let asked = ask.after.as_deref().map_or(0, utf8_len);
        let plain = ask.after.is_some() && asked == after.len() && !ask.delimiter;
        let repeats = plain && page.objects.first().is_some_and(|first| *first.key <= *after);
        if ask.after.is_some() {
            page.objects.retain(|object| *object.key > *after);
            page.directories.retain(|key| **key > *after);
        }
        let stuck = page.truncated && page.last().is_none() && page.token.is_none();
        if !rising || repeats || stuck {
            let url = self.caller.url.key_url(&self.below);
            let why = format!(
                "LIST {url}: the store does not list keys in their order (after `{}`): \
                 what it left out cannot be told from what is gone",
                after.escape_ascii()
            );
            return Err(FsError::new(ErrorKind::Corrupt, why));
        }
        Ok(page)
    }
}

/// The object of this key as S3 lists it: the first of those that begin with it. One LIST.
pub(super) async fn find(
    caller: &Caller,
    component: Component,
    key: &[u8],
) -> Result<Option<ListedObject>, Failure> {
    let prefix = [caller.root().as_bytes(), key].concat();
    let mut ask = ListAsk { prefix, after: None, token: None, delimiter: false, most: 1 };
    loop {
        let page = s3_page(caller, component, &ask).await?;
        if let Some(first) = page.objects.into_iter().next() {
            return Ok(Some(first).filter(|object| object.key == key));
        }
        // A page may be empty and yet not the last.
        match page.token.filter(|_| page.truncated) {
            Some(token) => ask.token = Some(token),
            None => return Ok(None),
        }
    }
}

/// One page as S3 lists it. One LIST.
async fn s3_page(
    caller: &Caller,
    component: Component,
    listing: &ListAsk,
) -> Result<Page, Failure> {
    let root = caller.root();
    let attempt = |_| {
        let mut options = GetOptions::default();
        options.extensions.insert(listing.clone());
        let root = root.as_bytes();
        async move {
            let body = caller.store.get_opts(&caller.prefix, options).await?.bytes().await?;
            Ok((read_listing(&body, root)?, 0))
        }
    };
    caller.run(Ask::new(component, RequestKind::List), attempt).await
}

fn listed(caller: &Caller, meta: ObjectMeta) -> ListedObject {
    ListedObject {
        key: String::from(caller.relative(meta.location)).into_bytes(),
        size: meta.size,
        etag: meta.e_tag,
        last_modified_unix_ms: meta.last_modified.timestamp_millis(),
        cannot_show: None,
    }
}
