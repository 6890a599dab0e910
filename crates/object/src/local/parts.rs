//! Uploads in parts to a directory: a hidden file into which parts are written where they belong.

use std::io;
use std::os::unix::fs::FileExt;

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{
    MultipartUpload, PutMode, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::beneath::Place;
use super::root::{LocalStore, Root, generic, refused};
use super::staged::Staged;
use crate::asks::UploadAsk;

impl LocalStore {
    pub(super) async fn upload(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
        ask: UploadAsk,
    ) -> Result<PutResult> {
        let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
        match ask {
            UploadAsk::Begin => result.version = Some(self.begin(location).await?),
            UploadAsk::Part { upload, offset, .. } => {
                self.part(location, &upload, payload, offset).await?;
                result.e_tag = Some(String::new());
            }
            UploadAsk::Complete { upload, .. } => {
                let etag = self.complete(location, &upload, options.mode).await?;
                self.remember(location, Some(&etag), options.attributes);
                result.e_tag = Some(etag);
            }
            UploadAsk::Abort { upload } => self.abort(location, &upload).await?,
        }
        Ok(result)
    }

    /// Begins an upload in parts. Answers its name.
    pub(super) async fn begin(&self, location: &Path) -> Result<String> {
        let (this, upload) = (self.clone(), rand::random::<u64>().to_string());
        let more = behind(&upload)?;
        let work = move |root: &Root, key: &str| {
            this.prepared(root, key)?.beside(&more).create(root.file_mode).map(drop)
        };
        self.at(location, work).await?;
        Ok(upload)
    }

    async fn part(
        &self,
        location: &Path,
        upload: &str,
        payload: PutPayload,
        offset: u64,
    ) -> Result<()> {
        let more = behind(upload)?;
        let work = move |root: &Root, key: &str| {
            write_part(&root.place(key)?.beside(&more), &payload, offset)
        };
        self.at(location, work).await
    }

    /// Puts the staged file in the object's place, if the condition holds. Answers the ETag.
    async fn complete(&self, location: &Path, upload: &str, mode: PutMode) -> Result<String> {
        let (more, create) = (behind(upload)?, mode == PutMode::Create);
        let work = move |root: &Root, key: &str| {
            let target = root.place(key)?;
            Staged::found(target.beside(&more))?.publish(root, &target, &mode)
        };
        self.at(location, work).await?.ok_or_else(|| refused(location, create))
    }

    async fn abort(&self, location: &Path, upload: &str) -> Result<()> {
        let more = behind(upload)?;
        self.at(location, move |root, key| root.place(key)?.beside(&more).remove()).await
    }
}

/// What the name of an upload's hidden file has behind the object's.
fn behind(upload: &str) -> Result<String> {
    if upload.is_empty() || !upload.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(generic("no such upload"));
    }
    Ok(format!("#{upload}"))
}

fn write_part(staged: &Place, payload: &PutPayload, mut offset: u64) -> io::Result<()> {
    let file = staged.write()?;
    for piece in payload {
        file.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// An upload as the library has it. Dropped before its end, its bytes go with it.
#[derive(Debug)]
pub(super) struct Upload {
    store: LocalStore,
    location: Path,
    upload: String,
    /// Bytes of the parts so far.
    offset: u64,
    ended: bool,
}

impl Upload {
    pub(super) fn new(store: LocalStore, location: Path, upload: String) -> Self {
        Self { store, location, upload, offset: 0, ended: false }
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let at = self.offset;
        self.offset += payload.content_length() as u64;
        let (store, location) = (self.store.clone(), self.location.clone());
        let upload = self.upload.clone();
        Box::pin(async move { store.part(&location, &upload, payload, at).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let etag = self.store.complete(&self.location, &self.upload, PutMode::Overwrite).await?;
        self.ended = true;
        Ok(PutResult { e_tag: Some(etag), version: None, extensions: Default::default() })
    }

    async fn abort(&mut self) -> Result<()> {
        self.ended = true;
        self.store.abort(&self.location, &self.upload).await
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let (Ok(root), Ok(more)) = (self.store.root(), behind(&self.upload))
            && let Ok(place) = root.place(self.location.as_ref())
        {
            let _ = place.beside(&more).remove();
        }
    }
}
