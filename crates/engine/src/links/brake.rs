//! What an import finds to be gone goes only after all was listed, and if it is not too much:
//! a listing that is empty by mistake must not empty the link.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::ObjectRow;
use weir_object::{Component, ListedObject};
use weir_types::{FsError, Result};

use super::apply::Import;
use super::import::BATCH;
use super::registry::Link;
use crate::engine::{Core, Engine};

/// So many files may go in one look, however few the link has.
const FEWEST: u64 = 20;
/// One file of so many may.
const SHARE: u64 = 4;
/// So many are kept in mind at most.
const MOST: u64 = 100_000;
/// Files removed at once, each with a HEAD before.
const AT_ONCE: usize = 16;

/// Deletions in the bucket that were not done here, because they are so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDeletions {
    /// Files whose objects the last import did not find.
    pub files: u64,
    /// Files that the link has.
    pub of: u64,
}

/// What is known to the metadata and not in the bucket.
#[derive(Debug)]
pub(super) enum Missing {
    /// An object.
    Object(ObjectRow),
    /// A directory of a lazy link into which nobody looked.
    Directory(ObjectRow),
}

/// What is missing in one import.
#[derive(Debug)]
pub(super) struct Brake {
    missing: Mutex<Found>,
    /// Files that the link has.
    of: u64,
    /// More than so many are held.
    most: u64,
}

#[derive(Debug, Default)]
struct Found {
    rows: Vec<Missing>,
    files: u64,
    /// What came beside missing ones, maybe in the place of them.
    news: Vec<ListedObject>,
}

impl Brake {
    /// For a link that has `of` files. Somebody has said that `confirmed` may go.
    pub(super) fn new(of: u64, confirmed: Option<u64>) -> Self {
        let usual = FEWEST.max(of / SHARE).min(MOST);
        let most = confirmed.map_or(usual, |files| files.saturating_add(usual));
        Self { missing: Mutex::default(), of, most }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.missing.lock()
    }

    /// Notes what is missing; of too much the number only.
    pub(super) fn note(&self, missing: Missing) {
        let mut found = self.found();
        let (Missing::Object(row) | Missing::Directory(row)) = &missing;
        found.files += u64::from(row.object.ino.is_some());
        match found.files > self.most {
            true => found.rows.clear(),
            false => found.rows.push(missing),
        }
    }

    /// Has objects made after what is missing has gone: they may need its names.
    pub(super) fn then_make(&self, news: Vec<ListedObject>) {
        self.found().news.extend(news);
    }
}

impl Import {
    /// Removes what is missing, if it is not too much, after all was listed. One HEAD for each.
    pub(super) async fn remove_missing(&self) -> Result<()> {
        let Found { rows, files, news } = std::mem::take(&mut *self.brake.found());
        let of = self.brake.of;
        if files > self.brake.most {
            let before = self.link.state().held.replace(HeldDeletions { files, of });
            if before.is_none_or(|before| before.files != files) {
                tracing::warn!(link = %self.link.id, path = self.link.path(), files, of,
                    "so many files are gone from the bucket that none is removed here: look \
                     whether that is so, then `weir refresh --confirm`");
            }
        } else {
            self.link.state().held = None;
            let removals = rows.into_iter().map(|missing| self.remove(missing).boxed());
            let mut removals = stream::iter(removals).buffer_unordered(AT_ONCE);
            while removals.try_next().await?.is_some() {}
        }
        for batch in news.chunks(BATCH) {
            self.create(batch).await?;
        }
        Ok(())
    }

    async fn remove(&self, missing: Missing) -> Result<()> {
        let row = match missing {
            Missing::Object(row) => row,
            Missing::Directory(row) => return self.unseen_directory_gone(&row).await,
        };
        // Changed since it was listed, by an export maybe.
        let now = self.core.seen(self.core.meta.object(self.link.id, &row.key).await)?;
        if now.is_none_or(|now| now.version != row.version) {
            return Ok(());
        }
        if row.object.ino.is_none() {
            return self.removed(&row).await;
        }
        match self.bucket.head_listed(Component::Link, &row.key).await? {
            None => self.removed(&row).await,
            Some(object) => {
                tracing::warn!(link = %self.link.id, key = %row.key.escape_ascii(),
                    "the bucket's listing leaves out an object that is there");
                self.compare(&object, &row).await
            }
        }
    }
}

impl Engine {
    /// Links of which deletions are held, by path.
    pub fn held_deletions(&self) -> Vec<(String, HeldDeletions)> {
        let held = |link: Arc<Link>| Some((link.path(), link.state().held?));
        self.core.links.all().into_iter().filter_map(held).collect()
    }

    /// Lets the next import remove as many files as the last one held, and takes the directory of a
    /// `file://` link for what it is by now; imports all of the link.
    pub async fn confirm_link(&self, id: weir_types::LinkId) -> Result<super::LinkView> {
        let core = &self.core;
        core.check_writable()?;
        let link = core.links.get(id)?;
        core.trust_root(&link).await?;
        {
            let mut state = link.state();
            state.confirmed = state.held.map(|held| held.files);
        }
        link.ask();
        core.links.wake();
        core.link_view(&link).await
    }
}

/// Which directory a `file://` link shows: its file system and inode.
pub(super) type RootId = (u64, u64);

impl Core {
    /// Takes the directory at the link's URL for the link's.
    async fn trust_root(&self, link: &Link) -> Result<()> {
        let root = super::registry::root_of(&link.record())?;
        let record = link.change_record(|record| record.root = root);
        link.state().root_strange = false;
        self.seen(self.meta.set_link(link.id, &record.encode()?).await)
    }

    /// Another directory is at the link's URL than the one that was: it is the same if any object
    /// that is known is in it (numbers of file systems may change with a boot).
    pub(super) async fn recognise_root(&self, link: &Link) -> Result<()> {
        const SAMPLE: usize = 100;
        let record = link.record();
        if super::registry::root_of(&record)? == record.root {
            link.state().root_strange = false;
            return Ok(());
        }
        let bucket = self.links.connect(&record)?;
        let rows = self.seen(self.meta.objects(link.id, None, None, SAMPLE).await)?;
        let rows: Vec<_> = rows.into_iter().filter(|row| row.object.etag.is_some()).collect();
        let mut known = rows.is_empty();
        for row in rows {
            let there = bucket.head_listed(Component::Link, &row.key).await?;
            if there.is_some_and(|there| there.etag == row.object.etag) {
                known = true;
                break;
            }
        }
        match known {
            true => self.trust_root(link).await,
            false => Ok(()),
        }
    }
}

/// Nothing is done with a directory that is not the link's.
pub(super) fn strange_root(url: &str) -> FsError {
    let text = format!(
        "another directory is at {url} than the one that was linked, and none of its objects is in \
         it: mount what was there; if it is meant to be this one, `weir refresh --confirm`"
    );
    FsError::new(weir_types::ErrorKind::Retry, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_may_go_and_a_quarter_of_many() {
        let most = |of, confirmed| Brake::new(of, confirmed).most;
        assert_eq!([0, 10, 80, 84].map(|of| most(of, None)), [20, 20, 20, 21]);
        assert_eq!((most(1_000_000, None), most(1_000, Some(900))), (100_000, 1_150));
    }
}
