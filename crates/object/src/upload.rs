//! Writes to objects that are not ours alone: with attributes, on a condition, in parts.
//!
//! What must always hold: a write whose condition does not hold leaves the object as it is; a
//! write whose answer was lost is looked up by the name that it left in the object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attribute, Attributes, Error, PutMode, PutOptions, PutPayload};
use parking_lot::Mutex;
use weir_types::{ErrorKind, FsError, Result};

use crate::asks::UploadAsk;
use crate::caller::{Ask, Caller, ConditionalPut, Failure, PUT_ID, Patience};
use crate::failure::judge;
use crate::{Bucket, Component, ObjectInfo, PutCondition, RequestKind};

/// Parts are not smaller, but for the last.
const PART_BYTES_MIN: u64 = 8 << 20;
/// No store takes more.
pub(crate) const PARTS_MAX: u64 = 10_000;
/// Stores put thousands of parts together before they answer: Amazon "may take several minutes".
pub(crate) const COMPLETION: Patience =
    Patience { attempt: Duration::from_secs(600), in_all: Duration::from_secs(1_800) };

impl Bucket {
    /// Stores an object with `attributes` as its user metadata, if `condition` holds; none if
    /// somebody else's object is there. Durable on return. `last_modified_unix_ms` of the answer is
    /// 0: stores do not say. On `file://` attributes are kept only as long as this process remembers them.
    ///
    /// One PUT; after a lost answer, if there is a condition, one HEAD. Where the store does not hold
    /// the condition ([`Bucket::with_conditions`]), one HEAD before each attempt.
    ///
    /// # Errors
    /// `Invalid` for attributes that cannot be sent: names are of `a-z`, `0-9`, `-`, `_` and `.`,
    /// values of visible ASCII and single spaces.
    pub async fn put_object(
        &self,
        component: Component,
        key: &str,
        bytes: impl Into<PutPayload>,
        attributes: &BTreeMap<String, String>,
        condition: &PutCondition,
    ) -> Result<Option<ObjectInfo>> {
        let (path, payload) = (self.path(key)?, bytes.into());
        condition.check()?;
        let mut options = PutOptions::from(self.mode(condition));
        options.attributes = user_metadata(attributes)?;
        let size = payload.content_length() as u64;
        let caller = self.caller();
        let outcome = match condition {
            PutCondition::Any => {
                caller.put(component, &path, payload, options).await.map(ConditionalPut::Won)
            }
            _ if self.conditions.hold(condition) => {
                caller.put_if(component, &path, payload, options).await
            }
            _ => caller.put_looked(component, &path, payload, options, condition).await,
        };
        match outcome.map_err(|failure| self.tell("PUT", key, failure))? {
            ConditionalPut::Won(put) => Ok(Some(written(key, size, put.e_tag))),
            ConditionalPut::Lost(_) | ConditionalPut::Unknown(_) => Ok(None),
        }
    }

    /// What the store is told: nothing of which it takes no notice.
    fn mode(&self, condition: &PutCondition) -> PutMode {
        match self.conditions.hold(condition) {
            true => condition.mode(),
            false => PutMode::Overwrite,
        }
    }

    /// Begins to store an object of `size` bytes in parts. Nothing is seen of it before it is
    /// complete. One PUT.
    ///
    /// Parts of an upload that neither was completed nor could be aborted (the process was killed)
    /// stay in the bucket and cost money: let a lifecycle rule abort incomplete uploads.
    ///
    /// # Errors
    /// As [`Bucket::put_object`].
    pub async fn begin_upload(
        &self,
        component: Component,
        key: &str,
        size: u64,
        attributes: &BTreeMap<String, String>,
    ) -> Result<Upload> {
        let mut attributes = user_metadata(attributes)?;
        let id = format!("{:032x}", rand::random::<u128>());
        attributes.insert(Attribute::Metadata(PUT_ID.into()), id.clone().into());
        let part_bytes = part_bytes(size);
        let parts = size.div_ceil(part_bytes).max(1) as usize;
        let mut open = Open {
            bucket: self.clone(),
            component,
            key: key.to_owned(),
            path: self.path(key)?,
            upload: String::new(),
            id,
            attributes,
        };
        let begun = open.step(RequestKind::Put, UploadAsk::Begin, Bytes::new(), PutMode::Overwrite);
        let begun = begun.await.map_err(|failure| self.tell("PUT", key, failure))?;
        open.upload = begun.version.unwrap_or_default();
        let parts = Mutex::new(vec![None; parts]);
        Ok(Upload { open: Some(Arc::new(open)), size, part_bytes, parts })
    }
}

/// An upload in parts that is under way. Dropped without being completed, it is aborted in the
/// background.
pub struct Upload {
    /// None when it is over.
    open: Option<Arc<Open>>,
    size: u64,
    part_bytes: u64,
    /// The store's name of each part that is there.
    parts: Mutex<Vec<Option<String>>>,
}

/// What each request of an upload needs.
struct Open {
    bucket: Bucket,
    component: Component,
    key: String,
    path: Path,
    /// The store's name of it.
    upload: String,
    /// Our name of it, which the object will carry.
    id: String,
    attributes: Attributes,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.open.as_ref().map(|open| open.key.as_str());
        write!(f, "Upload({key:?}, {} bytes)", self.size)
    }
}

impl Upload {
    /// Bytes of each part but the last, which has what is left.
    pub fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// How many parts there are: at least one, which may be empty.
    pub fn parts(&self) -> usize {
        lock(&self.parts).len()
    }

    /// Stores part `number`, counted from 1, over an earlier one of that number. Several at a time
    /// and in any order. One PUT.
    ///
    /// # Errors
    /// `Invalid` for a part that there is not or that has another length.
    pub async fn part(&self, number: usize, bytes: Bytes) -> Result<()> {
        let open = self.open()?;
        let index = number.wrapping_sub(1);
        let offset = (index as u64).saturating_mul(self.part_bytes);
        let want = self.size.saturating_sub(offset).min(self.part_bytes);
        if index >= self.parts() || bytes.len() as u64 != want {
            let why = format!("part {number} of {} has {} bytes", open.key, bytes.len());
            return Err(FsError::new(ErrorKind::Invalid, why));
        }
        let ask = UploadAsk::Part { upload: open.upload.clone(), index, offset };
        let put = open.step(RequestKind::Put, ask, bytes, PutMode::Overwrite).await;
        let put = put.map_err(|failure| open.bucket.tell("PUT", &open.key, failure))?;
        lock(&self.parts)[index] = Some(put.e_tag.unwrap_or_default());
        Ok(())
    }

    /// Makes the object of its parts if `condition` holds; else throws them away and answers none:
    /// somebody else's object is there.
    /// Durable on return. `last_modified_unix_ms` of the answer is 0.
    ///
    /// With a condition the object is looked at before; S3 and directories hold the condition
    /// themselves, too, other stores leave a moment between the look and the write. One PUT; with a
    /// condition, or where it was not answered, a HEAD each. The store is given ten minutes for an
    /// attempt and half an hour in all: it may have thousands of parts to put together.
    ///
    /// # Errors
    /// `Invalid` when parts are missing. After any error the upload is over.
    pub async fn complete(mut self, condition: &PutCondition) -> Result<Option<ObjectInfo>> {
        let open = self.open()?;
        condition.check()?;
        let parts: Option<Vec<String>> = lock(&self.parts).iter().cloned().collect();
        let Some(parts) = parts else {
            let why = format!("the upload of {} lacks parts", open.key);
            return Err(FsError::new(ErrorKind::Invalid, why));
        };
        if !open.holds(condition).await? {
            self.abort().await?;
            return Ok(None);
        }
        let ask = UploadAsk::Complete { upload: open.upload.clone(), parts };
        let done =
            open.step(RequestKind::Put, ask, Bytes::new(), open.bucket.mode(condition)).await;
        let failure = match done {
            Ok(put) => {
                self.open = None;
                return Ok(Some(written(&open.key, self.size, put.e_tag)));
            }
            Err(failure) => failure,
        };
        let refused =
            matches!(failure.error, Error::AlreadyExists { .. } | Error::Precondition { .. });
        // It may be done and the answer been lost: all would be uploaded again.
        if (failure.attempts > 1 || !refused)
            && let Ok(Some(info)) = open.finished().await
        {
            self.open = None;
            return Ok(Some(info));
        }
        match refused {
            true => {
                self.abort().await?;
                Ok(None)
            }
            false => Err(open.bucket.tell("PUT", &open.key, failure)),
        }
    }

    /// Throws the parts away. One DELETE.
    pub async fn abort(mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => open.abort().await,
            None => Ok(()),
        }
    }

    fn open(&self) -> Result<Arc<Open>> {
        let over = || FsError::new(ErrorKind::Bug, "the upload is over");
        self.open.clone().ok_or_else(over)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(open) = self.open.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(error) = open.abort().await {
                    tracing::warn!(key = open.key, %error, "parts of an upload are left behind");
                }
            });
        }
    }
}

impl Open {
    fn caller(&self) -> &Caller {
        self.bucket.caller()
    }

    async fn step(
        &self,
        kind: RequestKind,
        ask: UploadAsk,
        bytes: Bytes,
        mode: PutMode,
    ) -> std::result::Result<object_store::PutResult, Failure> {
        let patience = match ask {
            UploadAsk::Complete { .. } => COMPLETION,
            _ => Patience::default(),
        };
        let mut options = PutOptions::from(mode);
        options.attributes = self.attributes.clone();
        options.extensions.insert(ask);
        let sends = bytes.len() as u64;
        let request = Ask { sends, patience, ..Ask::new(self.component, kind) };
        let (caller, path) = (self.caller(), &self.path);
        let attempt = |_| {
            let (payload, options) = (PutPayload::from(bytes.clone()), options.clone());
            async move { Ok((caller.store.put_opts(path, payload, options).await?, 0)) }
        };
        caller.run(request, attempt).await
    }

    /// Whether `condition` holds now.
    async fn holds(&self, condition: &PutCondition) -> Result<bool> {
        if *condition == PutCondition::Any {
            return Ok(true);
        }
        let found = match self.caller().head(self.component, &self.path).await {
            Ok(found) => Some(found.meta),
            Err(failure) if judge(&failure.error).kind == ErrorKind::NotFound => None,
            Err(failure) => return Err(self.bucket.tell("HEAD", &self.key, failure)),
        };
        Ok(condition.holds_for(found.as_ref()))
    }

    /// The object, if it was made of this upload.
    async fn finished(&self) -> Result<Option<ObjectInfo>> {
        let found = match self.caller().head(self.component, &self.path).await {
            Ok(found) => found,
            Err(failure) if matches!(failure.error, Error::NotFound { .. }) => return Ok(None),
            Err(failure) => return Err(self.bucket.tell("HEAD", &self.key, failure)),
        };
        let name = found.attributes.get(&Attribute::Metadata(PUT_ID.into()));
        let ours = name.is_some_and(|name| name.as_ref() == self.id);
        Ok(ours.then(|| self.bucket.info(found.meta)))
    }

    async fn abort(&self) -> Result<()> {
        let ask = UploadAsk::Abort { upload: self.upload.clone() };
        let done = self.step(RequestKind::Delete, ask, Bytes::new(), PutMode::Overwrite).await;
        match done {
            Err(Failure { error: Error::NotFound { .. }, .. }) => Ok(()),
            other => other.map(drop).map_err(|f| self.bucket.tell("DELETE", &self.key, f)),
        }
    }
}

/// Bytes of each part of an object of `size` bytes: from 8 MiB, and up to 64 MiB for 625 GiB.
fn part_bytes(size: u64) -> u64 {
    size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PART_BYTES_MIN)
}

fn written(key: &str, size: u64, etag: Option<String>) -> ObjectInfo {
    ObjectInfo { key: key.to_owned(), size, etag, last_modified_unix_ms: 0 }
}

/// `attributes` as the library takes them, which panics on what no header can carry.
fn user_metadata(attributes: &BTreeMap<String, String>) -> Result<Attributes> {
    let mut user = Attributes::new();
    for (name, value) in attributes {
        let token = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        let text = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let plain = value.trim() == value && !value.contains("  ") && value.bytes().all(text);
        if name.is_empty() || name == PUT_ID || !name.bytes().all(token) || !plain {
            let why = format!("`{name}: {value}` cannot be user metadata of an object");
            return Err(FsError::new(ErrorKind::Invalid, why));
        }
        user.insert(Attribute::Metadata(name.clone().into()), value.clone().into());
    }
    Ok(user)
}

fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_suffice() {
        for size in [0, 1, 8 << 20, 80_000 << 20, (80_000 << 20) + 1, 625 << 30, 5 << 40] {
            let part = part_bytes(size);
            assert!(part >= 8 << 20 && size.div_ceil(part) <= 10_000, "{size}: {part}");
        }
        assert_eq!((part_bytes(80_000 << 20), part_bytes(625 << 30)), (8 << 20, 64 << 20));
    }

    #[test]
    fn metadata_is_what_headers_carry() {
        let one = |name: &str, value: &str| {
            user_metadata(&BTreeMap::from([(name.to_owned(), value.to_owned())])).is_ok()
        };
        assert!(one("file-permissions", "0100644") && one("a.b_c-1", "") && one("x", "a b"));
        for (name, value) in [
            ("", "x"),
            ("A", "x"),
            ("a b", "x"),
            ("a", "ü"),
            ("a", " x"),
            ("a", "x\ny"),
            (PUT_ID, "x"),
        ] {
            assert!(!one(name, value), "{name}: {value}");
        }
    }
}
