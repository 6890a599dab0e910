//! Copies and deletions of files on conditions.

use std::fs::Metadata;
use std::io;

use object_store::path::Path;
use object_store::{ObjectMeta, PutMode, PutResult, Result};
use rustix::fs::OFlags;

use super::beneath::Place;
use super::root::{LocalStore, Root, refused};
use super::staged::{Staged, locked, still};
use crate::asks::{ChangeAsk, Written};
use crate::etags::etag;

/// What a copy is, and what it is a copy of.
pub(super) struct Copy {
    from_etag: String,
    etag: String,
    written: Metadata,
}

impl LocalStore {
    pub(super) async fn change(
        &self,
        location: &Path,
        mode: PutMode,
        ask: ChangeAsk,
    ) -> Result<PutResult> {
        let refused = || refused(location, false);
        let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
        match ask {
            ChangeAsk::Delete => {
                let deleted = self.at(location, move |root, key| delete(root, key, &mode)).await?;
                deleted.then_some(()).ok_or_else(refused)?;
            }
            ChangeAsk::Copy { from, etag } => {
                let copied = self.copied(&from, etag, location, mode).await?;
                let copy = copied.ok_or_else(refused)?;
                self.remember_copy(&from, location, &copy);
                let modified = copy.written.modified().map(chrono::DateTime::<chrono::Utc>::from);
                let modified = modified.map_or(0, |time| time.timestamp_millis());
                result.extensions.insert(Written(modified));
                result.e_tag = Some(copy.etag);
            }
        }
        Ok(result)
    }

    /// Copies the bytes of the object `from`, if it has the ETag `expected` before and after, to
    /// `to`, if `mode` allows it. None where not.
    pub(super) async fn copied(
        &self,
        from: &Path,
        expected: Option<String>,
        to: &Path,
        mode: PutMode,
    ) -> Result<Option<Copy>> {
        let (this, from) = (self.clone(), self.key(from)?);
        self.at(to, move |root, key| {
            let target = this.prepared(root, key)?;
            copy(root, &from, expected.as_deref(), &target, &mode)
        })
        .await
    }

    /// The attributes of the source, if they are known, are those of the copy.
    fn remember_copy(&self, from: &Path, to: &Path, copy: &Copy) {
        let meta = ObjectMeta {
            location: from.clone(),
            last_modified: Default::default(),
            size: 0,
            e_tag: Some(copy.from_etag.clone()),
            version: None,
        };
        let attributes = self.remembered.lock().find(&meta);
        self.remember(to, Some(&copy.etag), attributes);
    }
}

/// Deletes the object `key`, if `mode` allows it.
fn delete(root: &Root, key: &str, mode: &PutMode) -> io::Result<bool> {
    let place = root.place(key)?;
    let _lock = locked(root)?;
    if let PutMode::Update(version) = mode
        && still(&place, version.e_tag.as_deref().unwrap_or_default())?.is_none()
    {
        return Ok(false);
    }
    remove(&place)?;
    Ok(true)
}

/// Deletes the object at `place`, durably. What is there and no object is left.
pub(super) fn remove(place: &Place) -> io::Result<()> {
    place.look()?;
    place.remove()?;
    place.sync()
}

fn copy(
    root: &Root,
    source: &str,
    expected: Option<&str>,
    target: &Place,
    mode: &PutMode,
) -> io::Result<Option<Copy>> {
    let (mut source, before) = root.directory.file(source.as_bytes(), OFlags::RDONLY)?;
    let from_etag = etag(&before);
    if expected.is_some_and(|expected| expected != from_etag) {
        return Ok(None);
    }
    let mut staged = Staged::beside(root, target)?;
    let copied = io::copy(&mut source, &mut staged.file).and_then(|_| {
        if etag(&source.metadata()?) != from_etag {
            return Ok(None);
        }
        let Some(etag) = staged.publish(root, target, mode)? else { return Ok(None) };
        Ok(Some(Copy { from_etag, etag, written: staged.file.metadata()? }))
    });
    if !matches!(copied, Ok(Some(_))) {
        // It may have been renamed already; all that could stay behind is hidden.
        let _ = staged.place.remove();
    }
    copied
}
