//! Says of what the bucket refuses which action it is, on what, and whose keys were used.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::credentials::Keys;
use crate::asks::{ChangeAsk, HeadAsk, ListAsk, RestoreAsk, UploadAsk, WhoAsk};
use crate::extended::{answer, no_meta};
use crate::failure::refused;

const GET: &str = "s3:GetObject";
const PUT: &str = "s3:PutObject";
const DELETE: &str = "s3:DeleteObject";
const LIST: &str = "s3:ListBucket";

/// A store whose refusals say whose keys they are about.
#[derive(Debug)]
pub(super) struct ExplainedRefusals<S> {
    pub(super) inner: S,
    pub(super) teller: Teller,
}

/// What is said of refusals.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    pub(super) bucket: String,
    /// None where requests are not signed.
    pub(super) keys: Option<Arc<Keys>>,
}

impl Teller {
    fn who(&self) -> String {
        match &self.keys {
            Some(keys) => keys.who(),
            None => "requests without a signature".to_owned(),
        }
    }

    fn tell(&self, action: &str, key: &str, error: Error) -> Error {
        refused(error, || {
            let who = self.who();
            let slash = if key.is_empty() { "" } else { "/" };
            format!("{action} on s3://{}{slash}{key} is denied to {who}", self.bucket)
        })
    }
}

impl<S: fmt::Display> fmt::Display for ExplainedRefusals<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn written_by(options: &PutOptions) -> &'static str {
    match (options.extensions.get::<ChangeAsk>(), options.extensions.get::<UploadAsk>()) {
        (Some(ChangeAsk::Delete), _) => DELETE,
        (Some(ChangeAsk::Copy { .. }), _) => "s3:PutObject, or s3:GetObject of what is copied,",
        (None, Some(UploadAsk::Abort { .. })) => "s3:AbortMultipartUpload",
        _ if options.extensions.get::<RestoreAsk>().is_some() => "s3:RestoreObject",
        _ => PUT,
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for ExplainedRefusals<S> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let action = written_by(&options);
        let put = self.inner.put_opts(location, payload, options).await;
        put.map_err(|error| self.teller.tell(action, location.as_ref(), error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, options).await;
        begun.map_err(|error| self.teller.tell(PUT, location.as_ref(), error))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.extensions.get::<WhoAsk>().is_some() {
            return Ok(answer(self.teller.who().into(), no_meta(location), Attributes::default()));
        }
        let (action, key) = match options.extensions.get::<HeadAsk>() {
            Some(HeadAsk(key)) if key.is_empty() => (LIST, String::new()),
            Some(HeadAsk(key)) => (GET, key.clone()),
            None if options.extensions.get::<ListAsk>().is_some() => (LIST, String::new()),
            None => (GET, location.to_string()),
        };
        let got = self.inner.get_opts(location, options).await;
        got.map_err(|error| self.teller.tell(action, &key, error))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let teller = self.teller.clone();
        let deleted = self.inner.delete_stream(locations);
        // Which one it was is in the cause.
        deleted.map(move |one| one.map_err(|error| teller.tell(DELETE, "", error))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let teller = self.teller.clone();
        let listed = self.inner.list(prefix);
        listed.map(move |one| one.map_err(|error| teller.tell(LIST, "", error))).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let teller = self.teller.clone();
        let listed = self.inner.list_with_offset(prefix, offset);
        listed.map(move |one| one.map_err(|error| teller.tell(LIST, "", error))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await;
        listed.map_err(|error| self.teller.tell(LIST, "", error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.inner.copy_opts(from, to, options).await;
        copied.map_err(|error| self.teller.tell(PUT, to.as_ref(), error))
    }
}
