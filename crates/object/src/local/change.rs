//! Copies and deletions of files on conditions.

use std::fs::{self, File};
use std::io;
use std::path::Path as FilePath;

use object_store::path::Path;
use object_store::{Error, ObjectMeta, PutMode, PutResult, Result};

use super::{LocalStore, Staged, blocking, etag, locked, still, sync_parent};
use crate::extended::{ChangeAsk, Written};

/// What a copy is, and what it is a copy of.
struct Copy {
    from_etag: String,
    etag: String,
    written: fs::Metadata,
}

impl LocalStore {
    pub(super) async fn change(
        &self,
        location: &Path,
        mode: PutMode,
        ask: ChangeAsk,
    ) -> Result<PutResult> {
        let refused = || Error::Precondition {
            path: location.to_string(),
            source: "an object is not what it should be".into(),
        };
        let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
        let (this, root) = (self.clone(), self.root.clone());
        match ask {
            ChangeAsk::Delete => {
                let file = self.inner.path_to_filesystem(location)?;
                let path = file.clone();
                let work = move || this.check_root().and_then(|()| delete(&root, &file, &mode));
                blocking(path, work).await?.then_some(()).ok_or_else(refused)?;
            }
            ChangeAsk::Copy { from, etag } => {
                let source = self.inner.path_to_filesystem(&from)?;
                let (file, path) = (self.prepared(location).await?, source.clone());
                let work = move || copy(&root, &source, etag.as_deref(), &file, &mode);
                let copy = blocking(path, work).await?.ok_or_else(refused)?;
                self.remember_copy(&from, location, &copy);
                let modified = copy.written.modified().map(chrono::DateTime::<chrono::Utc>::from);
                let modified = modified.map_or(0, |time| time.timestamp_millis());
                result.extensions.insert(Written(modified));
                result.e_tag = Some(copy.etag);
            }
        }
        Ok(result)
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
        let remembered = self.remembered.lock();
        let attributes = remembered.unwrap_or_else(std::sync::PoisonError::into_inner).find(&meta);
        self.remember(to, Some(&copy.etag), attributes);
    }
}

/// Deletes `file`, if `mode` allows it.
fn delete(root: &FilePath, file: &FilePath, mode: &PutMode) -> io::Result<bool> {
    let _lock = locked(root)?;
    if let PutMode::Update(version) = mode
        && still(file, version.e_tag.as_deref().unwrap_or_default())?.is_none()
    {
        return Ok(false);
    }
    fs::remove_file(file)?;
    sync_parent(file)?;
    Ok(true)
}

/// Copies the bytes of `source`, if it has the ETag `expected` before and after, to `target`, if
/// `mode` allows it. None where not.
fn copy(
    root: &FilePath,
    source: &FilePath,
    expected: Option<&str>,
    target: &FilePath,
    mode: &PutMode,
) -> io::Result<Option<Copy>> {
    let mut source = File::open(source)?;
    let before = source.metadata()?;
    let from_etag = etag(&before);
    if !before.is_file() || expected.is_some_and(|expected| expected != from_etag) {
        return Ok(None);
    }
    let mut staged = Staged::beside(target)?;
    let copied = io::copy(&mut source, &mut staged.file).and_then(|_| {
        if etag(&source.metadata()?) != from_etag {
            return Ok(None);
        }
        let Some(etag) = staged.publish(root, target, mode)? else { return Ok(None) };
        Ok(Some(Copy { from_etag, etag, written: staged.file.metadata()? }))
    });
    if !matches!(copied, Ok(Some(_))) {
        // It may have been renamed already; all that could stay behind is hidden.
        let _ = fs::remove_file(&staged.path);
    }
    copied
}
