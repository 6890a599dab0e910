//! Uploads in parts to a directory: a hidden file into which parts are written where they belong.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path as FilePath, PathBuf};

use object_store::path::Path;
use object_store::{Error, PutMode, PutOptions, PutPayload, PutResult, Result};

use super::{LocalStore, Staged, blocking, generic, sync_parent};
use crate::extended::UploadAsk;

impl LocalStore {
    pub(super) async fn upload(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
        ask: UploadAsk,
    ) -> Result<PutResult> {
        let file = self.prepared(location).await?;
        let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
        match ask {
            UploadAsk::Begin => {
                let name = rand::random::<u64>().to_string();
                let path = staged(&file, &name)?;
                blocking(path.clone(), move || File::create_new(path).map(drop)).await?;
                result.version = Some(name);
            }
            UploadAsk::Part { upload, offset, .. } => {
                let path = staged(&file, &upload)?;
                blocking(path.clone(), move || write_part(&path, &payload, offset)).await?;
                result.e_tag = Some(String::new());
            }
            UploadAsk::Complete { upload, .. } => {
                let path = staged(&file, &upload)?;
                let etag = self.publish(location, file, path, options.mode).await?;
                self.remember(location, Some(&etag), options.attributes);
                result.e_tag = Some(etag);
            }
            UploadAsk::Abort { upload } => {
                let path = staged(&file, &upload)?;
                blocking(path.clone(), move || fs::remove_file(path)).await?;
            }
        }
        Ok(result)
    }

    /// Puts the staged file in the object's place, if the condition holds. Answers the ETag.
    async fn publish(
        &self,
        location: &Path,
        file: PathBuf,
        staged: PathBuf,
        mode: PutMode,
    ) -> Result<String> {
        let (root, path) = (self.root.clone(), location.to_string());
        let create = mode == PutMode::Create;
        let work = move || Staged::found(&staged)?.publish(&root, &file, &mode);
        let refused = || "the object is not what it should be".into();
        blocking(self.root.clone(), work).await?.ok_or_else(|| match create {
            true => Error::AlreadyExists { path, source: refused() },
            false => Error::Precondition { path, source: refused() },
        })
    }
}

/// The hidden file of an upload.
fn staged(file: &FilePath, upload: &str) -> Result<PathBuf> {
    if upload.is_empty() || !upload.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(generic("no such upload"));
    }
    let mut path = file.as_os_str().to_owned();
    path.push(format!("#{upload}"));
    Ok(path.into())
}

fn write_part(path: &FilePath, payload: &PutPayload, mut offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    for piece in payload {
        file.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

impl Staged {
    /// A file that was written before.
    fn found(path: &FilePath) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, path: path.to_owned() })
    }

    /// Puts it in the place of `target`, if `mode` allows it. Answers the ETag.
    pub(super) fn publish(
        &self,
        root: &FilePath,
        target: &FilePath,
        mode: &PutMode,
    ) -> io::Result<Option<String>> {
        match mode {
            PutMode::Overwrite => self.replace(target).map(Some),
            PutMode::Create => self.create(target),
            PutMode::Update(version) => {
                self.replace_if(root, target, version.e_tag.as_deref().unwrap_or_default())
            }
        }
    }

    /// Puts it in the place of `target`, whatever is there.
    fn replace(&self, target: &FilePath) -> io::Result<String> {
        self.file.sync_all()?;
        let etag = super::etag(&self.file.metadata()?);
        fs::rename(&self.path, target)?;
        sync_parent(target)?;
        Ok(etag)
    }

    /// Puts it at `target` unless something is there.
    fn create(&self, target: &FilePath) -> io::Result<Option<String>> {
        self.file.sync_all()?;
        let etag = super::etag(&self.file.metadata()?);
        let linked = fs::hard_link(&self.path, target);
        // The winner of a race may not have come to this yet.
        sync_parent(target)?;
        match linked {
            Ok(()) => {
                // What stays behind is hidden.
                let _ = fs::remove_file(&self.path);
                Ok(Some(etag))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }
}
