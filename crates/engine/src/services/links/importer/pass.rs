//! The import: listing and rows side by side.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt};
use weir_meta::{LinkObject, ObjectRow};
use weir_object::{Component, KeyPage, KeyRange, ListedObject, is_same_etag};
use weir_types::{ErrorKind, FsError, Native, Result};

use super::apply::{BATCH, Import};
use super::brake::{Brake, Missing};
use crate::services::links::importer::Importer;
use crate::services::links::registry::{Link, Sampled};
use crate::services::links::views::Policy;
use crate::volume::locks::apart;

/// LISTs in flight at once.
pub(in crate::services::links) const LISTS: usize = 16;
/// Pages compared at once.
const PAGES: usize = 4;
/// Rows read at once.
pub(super) const ROWS: usize = 1_000;

impl Importer {
    /// Imports all that is new, changed or gone, as far as `policy` goes. One LIST for each 1,000
    /// objects, and one HEAD for each new one where attributes are asked for. Of a lazy link those
    /// directories only that somebody looked into: one LIST for each, or for each 1,000 entries.
    pub(crate) async fn import(self: &Arc<Self>, link: &Arc<Link>, policy: Policy) -> Result<()> {
        let _import = link.import.lock().await;
        let before = self.meta.newest().await?;
        let import = Import::new(self.clone(), link.clone(), policy, before)?;
        let files = self.meta.link_usage(link.id).await?.files;
        let confirmed = link.state().confirmed;
        let import = Arc::new(import.with_brake(Brake::new(files, confirmed)));
        if link.is_lazy() {
            import.levels().await?;
            import.remove_missing().await?;
            import.finish().await?;
            return self.imported(link).await;
        }
        *link.sampled() = Sampled::default();
        let pages = import.bucket.scan_keys(Component::Link, KeyRange::default(), LISTS);
        pages
            .map(|page| {
                let import = import.clone();
                apart(async move { import.page(page?).await }).boxed()
            })
            .buffer_unordered(PAGES)
            .try_collect::<()>()
            .await?;
        import.remove_missing().await?;
        import.finish().await?;
        self.imported(link).await
    }

    /// Imports these objects, which may be new, changed or gone. One HEAD each.
    pub(crate) async fn import_keys(
        self: &Arc<Self>,
        link: &Arc<Link>,
        keys: &[String],
        policy: Policy,
    ) -> Result<()> {
        let _import = link.import.lock().await;
        let import = Import::new(self.clone(), link.clone(), policy, u64::MAX)?;
        for key in keys {
            import.key(key).await?;
        }
        import.finish().await
    }
}

impl Import {
    /// Compares one page of the listing with the rows of the same keys.
    async fn page(&self, page: KeyPage) -> Result<()> {
        if self.link.is_ending() {
            let text = "the import was stopped: the link is being removed";
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        let listed = page.objects.len() as u64;
        let mut objects = page.objects.into_iter().peekable();
        let mut after = page.after;
        let (mut added, mut missing) = (Vec::new(), false);
        loop {
            let (from, until) = (after.as_deref(), page.until.as_deref());
            let rows = self.importer.meta.objects(self.link.id, from, until, ROWS).await;
            let rows = rows?;
            let full = rows.len() == ROWS;
            after = rows.last().map(|row| row.key.clone()).or(after);
            for row in rows {
                while let Some(object) = objects.next_if(|object| object.key < row.key) {
                    added.push(object);
                }
                match objects.next_if(|object| object.key == row.key) {
                    Some(object) => self.compare(&object, &row).await?,
                    None => missing |= self.missing(row).await?,
                }
            }
            if !full {
                break;
            }
        }
        added.extend(objects);
        if self.policy.new && missing {
            self.brake.then_make(added);
        } else if self.policy.new {
            for batch in added.chunks(BATCH) {
                self.create(batch).await?;
            }
        }
        fail::fail_point!("engine::import-page");
        self.importer.registry.notify_doors().await;
        self.link.count(|view| view.listed += listed);
        Ok(())
    }

    pub(super) async fn compare(&self, object: &ListedObject, row: &ObjectRow) -> Result<()> {
        // A row that was written since the listing began knows better.
        if is_same(object, &row.object) || row.version > self.before || !self.policy.changed {
            return Ok(());
        }
        if let Some(ino) = row.object.ino {
            // An export of this very object may be about to say what it wrote.
            let node = self.importer.nodes.get(ino);
            let _object = node.object.lock().await;
        }
        let now = self.importer.meta.object(self.link.id, &row.key).await;
        if now?.is_none_or(|now| now.version != row.version) {
            return Ok(());
        }
        self.changed(object, row).await
    }

    /// An object was not listed: it goes at the end, unless that cannot harm anybody. Answers
    /// whether something may still have its name.
    pub(super) async fn missing(&self, row: ObjectRow) -> Result<bool> {
        if row.version > self.before || !self.policy.deleted {
            return Ok(false);
        }
        if row.object.ino.is_none() && !row.key.ends_with(b"/") {
            return self.removed(&row).await.map(|()| false);
        }
        self.brake.note(Missing::Object(row));
        Ok(true)
    }

    /// An object is gone, as a HEAD said.
    async fn gone(&self, row: &ObjectRow) -> Result<()> {
        if row.version > self.before || !self.policy.deleted {
            return Ok(());
        }
        self.removed(row).await
    }

    /// The object is what it should be: if its file was called lost, it is not.
    async fn found(&self, row: &ObjectRow) -> Result<()> {
        let Some(ino) = row.object.ino else { return Ok(()) };
        let found = |inode: &weir_types::Inode| {
            let same =
                |etag: &Option<String>| is_same_etag(etag.as_deref(), row.object.etag.as_deref());
            let native = inode.native.clone().filter(|n| n.lost && same(&n.etag))?;
            Some(Some(Native { lost: false, ..native }))
        };
        self.importer.detacher.change_native(ino, found).await.map(drop)
    }

    /// Looks at one object. One HEAD, or one LIST where no request can name it.
    async fn key(&self, key: &str) -> Result<()> {
        let row = self.importer.meta.object(self.link.id, key.as_bytes()).await?;
        let found = self.bucket.head_listed(Component::Link, key.as_bytes()).await?;
        self.link.count(|view| view.listed += 1);
        match (found, row) {
            (Some(object), Some(row)) if is_same(&object, &row.object) => self.found(&row).await,
            (Some(object), Some(row)) => self.compare(&object, &row).await,
            (Some(object), None) if self.policy.new && self.is_in_sight(key).await? => {
                self.create(&[object]).await
            }
            (None, Some(row)) => self.gone(&row).await,
            _ => Ok(()),
        }
    }
}

fn is_same(object: &ListedObject, known: &LinkObject) -> bool {
    // Deleted by us: whatever is there now is another one.
    if known.removed && known.modified_ms < 0 {
        return false;
    }
    // A store without ETags tells by the time.
    let same_version = match (&object.etag, &known.etag) {
        (Some(_), Some(_)) => is_same_etag(object.etag.as_deref(), known.etag.as_deref()),
        _ => object.last_modified_unix_ms == known.modified_ms,
    };
    same_version && object.size == known.object_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_make_no_other_version() {
        let object = |etag: &str| ListedObject {
            key: b"a".to_vec(),
            size: 5,
            etag: Some(etag.to_owned()),
            last_modified_unix_ms: 9,
            cannot_show: None,
        };
        let known = |etag: &str| LinkObject {
            ino: None,
            removed: false,
            etag: Some(etag.to_owned()),
            object_bytes: 5,
            modified_ms: 7,
        };
        assert!(is_same(&object("\"5d41\""), &known("5d41")));
        assert!(is_same(&object("5d41"), &known("\"5d41\"")));
        assert!(!is_same(&object("5d42"), &known("\"5d41\"")));
    }
}
