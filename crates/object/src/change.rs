//! Copies and deletions of objects that others may replace meanwhile.
//!
//! What must always hold: nothing is copied but the version that was asked for, and nothing is
//! replaced or deleted but what the caller knows. Where the store holds no conditions itself
//! (it does not know them, or takes no notice), the object is looked at right before each attempt,
//! and what is left is the moment between that look and the request.

use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, PutMode, PutOptions, PutPayload, PutResult,
};
use weir_types::{ErrorKind, FsError, Result};

use crate::asks::{ChangeAsk, Kept, Written};
use crate::caller::{Ask, Caller, ConditionalPut, Failure, PUT_ID};
use crate::etags::{check_etag, is_same};
use crate::failure::judge;
use crate::read::Got;
use crate::{Bucket, Component, ObjectInfo, PutCondition, RequestKind, Scheme};

/// Two objects are compared in steps of so many bytes.
const COMPARE_BYTES: usize = 8 << 20;

/// How a copy on conditions ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy is there. This is what it is.
    Done(ObjectInfo),
    /// The source is gone or has another ETag. The target is as it was.
    SourceChanged,
    /// The condition does not hold: somebody else's object is at the target, or none.
    TargetChanged,
}

impl Bucket {
    /// Copies an object within the bucket, attributes included, while it has `source_etag` (or
    /// whatever it has now), if `condition` holds for what is at `to`. Durable on return. A HEAD and
    /// a COPY; with a condition on the target another HEAD; two more when refused.
    ///
    /// The source's ETag goes with the request on `s3://`; on `file://` it is looked at before and
    /// after the bytes are copied; elsewhere right before. The target's condition goes with the
    /// request on `s3://` too, and is held under the lock of all updates on `file://`. A server
    /// that does not know it or takes no notice of it leaves the moment between the look and the
    /// copy, in which somebody else's new object is lost; so do a program that writes into the
    /// directory without that lock, and, for [`PutCondition::Matches`], the other schemes.
    ///
    /// After a lost answer an object at the target that has the size, the attributes and the
    /// bytes of the source is this copy. The bytes are known to be the same by the ETag on
    /// `s3://`, or by the mark of a conditional write of Weir's that the attributes carry; else
    /// both are read. If the source has changed meanwhile and they cannot be, it is not this copy:
    /// it is somebody else's, and nothing is lost.
    ///
    /// An object over 5 GiB is copied in parts: two HEADs and two PUTs more, and one COPY for each GiB.
    ///
    /// # Errors
    /// `Unsupported` by a store that cannot copy, or, for an object over 5 GiB, that is not S3: store it anew.
    pub async fn copy_object_if(
        &self,
        component: Component,
        from: &str,
        source_etag: Option<&str>,
        to: &str,
        condition: &PutCondition,
    ) -> Result<Copied> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        source_etag.map_or(Ok(()), check_etag)?;
        condition.check()?;
        let Some(found) = self.look(component, from, &source).await? else {
            return Ok(Copied::SourceChanged);
        };
        let etag = found.meta.e_tag.clone();
        if source_etag.is_some_and(|want| !is_same(Some(want), etag.as_deref())) {
            return Ok(Copied::SourceChanged);
        }
        let size = found.meta.size;
        let copied = match size > self.copy_bytes_max {
            true => self.copy_large(component, (from, &source), &target, &etag, condition).await?,
            false => {
                // The store reads and writes it all before it answers.
                let ask = Ask { expects: size, ..Ask::new(component, RequestKind::Copy) };
                let change = ChangeAsk::Copy { from: source.clone(), etag };
                self.caller().change(ask, &target, change, condition).await
            }
        };
        let failure = match copied {
            Ok(put) => {
                let last_modified_unix_ms = put.extensions.get().map_or(0, |Written(ms)| *ms);
                let (key, etag) = (to.to_owned(), put.e_tag);
                return Ok(Copied::Done(ObjectInfo { key, size, etag, last_modified_unix_ms }));
            }
            Err(failure) => failure,
        };
        if !is_refusal(&failure) {
            return Err(self.tell("COPY", from, failure));
        }
        let now = self.look(component, from, &source).await?;
        let changed = now.is_none_or(|now| !is_same_version(&found, &now));
        // An earlier attempt may have done it and its answer been lost.
        if failure.attempts > 1
            && let Some(there) = self.look(component, to, &target).await?
            && self.is_copy(component, from, &found, to, &there, !changed).await?
        {
            return Ok(Copied::Done(self.info(there.meta)));
        }
        match condition {
            _ if changed => Ok(Copied::SourceChanged),
            PutCondition::Any => Err(self.tell("COPY", from, failure)),
            _ => Ok(Copied::TargetChanged),
        }
    }

    /// What is at `to`, if that is a copy that [`Bucket::copy_object_if`] would know as its own
    /// after a lost answer, of the object `from` as long as it has `source_etag`. Two HEADs, and
    /// both objects are read where ETags do not tell.
    pub async fn find_copy(
        &self,
        component: Component,
        from: &str,
        source_etag: Option<&str>,
        to: &str,
    ) -> Result<Option<ObjectInfo>> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        source_etag.map_or(Ok(()), check_etag)?;
        let Some(found) = self.look(component, from, &source).await? else { return Ok(None) };
        if source_etag.is_some_and(|want| !is_same(Some(want), found.meta.e_tag.as_deref())) {
            return Ok(None);
        }
        let Some(there) = self.look(component, to, &target).await? else { return Ok(None) };
        let is_copy = self.is_copy(component, from, &found, to, &there, true).await?;
        Ok(is_copy.then(|| self.info(there.meta)))
    }

    /// Deletes an object while it has `etag`: `false` when another is there by now, `true` when
    /// none is. Durable on return. A HEAD and a DELETE; a HEAD more when refused.
    ///
    /// The condition goes with the request on `s3://`, and is held under the lock of all updates on
    /// `file://`. The other schemes, S3 servers that do not know it or take no notice of it, and
    /// programs that write into a directory without that lock leave the moment between the look and
    /// the DELETE, in which somebody else's new object is lost.
    pub async fn delete_if(&self, component: Component, key: &str, etag: &str) -> Result<bool> {
        let path = self.path(key)?;
        check_etag(etag)?;
        let condition = PutCondition::Matches(etag.to_owned());
        let ask = Ask::new(component, RequestKind::Delete);
        match self.caller().change(ask, &path, ChangeAsk::Delete, &condition).await {
            Ok(_) => Ok(true),
            Err(failure) if is_refusal(&failure) => {
                Ok(self.look(component, key, &path).await?.is_none())
            }
            Err(failure) => Err(self.tell("DELETE", key, failure)),
        }
    }

    /// The copy of a version that is too large to be copied at once.
    async fn copy_large(
        &self,
        component: Component,
        (from, source): (&str, &Path),
        target: &Path,
        etag: &Option<String>,
        condition: &PutCondition,
    ) -> Result<std::result::Result<PutResult, Failure>> {
        if !self.conditions.hold(condition) {
            let url = self.url().key_url(from);
            let why =
                format!("{url} is over 5 GiB, and this store holds no conditions: store it anew");
            return Err(FsError::new(ErrorKind::Unsupported, why));
        }
        let found = self.head_with_class(component, from).await?;
        // Each part asks for that version.
        let version = (found.meta.size, etag.clone(), found.extensions.get::<Kept>().cloned());
        drop(found);
        let keys = (source, target);
        Ok(self.copy_in_parts(component, keys, version, None, condition.mode()).await)
    }

    /// The object, if it is there.
    async fn look(&self, component: Component, key: &str, path: &Path) -> Result<Option<Got>> {
        match self.caller().head(component, path).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if judge(&failure.error).kind == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(self.tell("HEAD", key, failure)),
        }
    }

    /// Whether `there`, at `to`, has all that `source` had, which can be read if it `is_there`.
    async fn is_copy(
        &self,
        component: Component,
        from: &str,
        source: &Got,
        to: &str,
        there: &Got,
        is_there: bool,
    ) -> Result<bool> {
        let (had, has) = (&source.meta, &there.meta);
        if had.size != has.size || user(&source.attributes) != user(&there.attributes) {
            return Ok(false);
        }
        let marked = source.attributes.get(&Attribute::Metadata(PUT_ID.into())).is_some();
        let hashed = self.url().scheme() == Scheme::S3;
        if marked || (hashed && is_same(had.e_tag.as_deref(), has.e_tag.as_deref())) {
            return Ok(true);
        }
        if !is_there {
            return Ok(false);
        }
        for start in (0..had.size).step_by(COMPARE_BYTES) {
            let range = start..had.size.min(start + COMPARE_BYTES as u64);
            let read = async |key: &str, etag: &Option<String>| match etag {
                Some(etag) => self.get_range_if_match(component, key, range.clone(), etag).await,
                None => self.get_range(component, key, range.clone()).await,
            };
            let both = futures::try_join!(read(from, &had.e_tag), read(to, &has.e_tag));
            match both {
                Ok((ours, theirs)) if ours == theirs => {}
                Ok(_) => return Ok(false),
                Err(error) => match error.kind() {
                    ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt => {
                        return Ok(false);
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(true)
    }
}

impl Caller {
    /// Makes a change if `condition` holds for the object at `path`: it is looked at before each
    /// attempt, and the store is told the condition as long as it takes it.
    async fn change(
        &self,
        ask: Ask,
        path: &Path,
        change: ChangeAsk,
        condition: &PutCondition,
    ) -> std::result::Result<PutResult, Failure> {
        let mut mode = condition.mode();
        loop {
            let mut options = PutOptions::from(mode.clone());
            options.extensions.insert(change.clone());
            let look = || self.check(ask.component, path, condition);
            let attempt = |_| {
                let options = options.clone();
                async move { Ok((self.store.put_opts(path, PutPayload::default(), options).await?, 0)) }
            };
            let failure = match self.run_after(look, ask, attempt).await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let verdict = judge(&failure.error).kind;
            let unknown = matches!(verdict, ErrorKind::Unsupported | ErrorKind::Invalid);
            if !unknown || mode == PutMode::Overwrite {
                return Err(failure);
            }
            mode = PutMode::Overwrite;
        }
    }

    /// As [`Caller::put_if`], where the store does not hold the condition: the object is looked at
    /// before each attempt.
    pub(crate) async fn put_looked(
        &self,
        component: Component,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
        condition: &PutCondition,
    ) -> std::result::Result<ConditionalPut, Failure> {
        let look = || self.check(component, path, condition);
        self.put_if_after(look, component, path, payload, options).await
    }

    /// Fails if `condition` does not hold now. One HEAD, none without a condition.
    async fn check(
        &self,
        component: Component,
        path: &Path,
        condition: &PutCondition,
    ) -> object_store::Result<()> {
        if *condition == PutCondition::Any {
            return Ok(());
        }
        let mut count = self.begin(Ask::new(component, RequestKind::Head));
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = match self.store.get_opts(path, options).await {
            Ok(found) => Some(found.meta),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        count.counted.failed = false;
        drop(count);
        let holds = condition.holds_for(found.as_ref());
        let (path, source) = (path.to_string(), "the object is not what it should be".into());
        if holds { Ok(()) } else { Err(Error::Precondition { path, source }) }
    }
}

/// Whether a condition did not hold, or there was nothing to do it with.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    matches!(judge(&failure.error).kind, ErrorKind::Conflict | ErrorKind::NotFound)
}

fn is_same_version(one: &Got, other: &Got) -> bool {
    let (one, other) = (&one.meta, &other.meta);
    match (&one.e_tag, &other.e_tag) {
        (None, None) => (one.size, one.last_modified) == (other.size, other.last_modified),
        (one, other) => is_same(one.as_deref(), other.as_deref()),
    }
}

/// User metadata, in order; the rest a store may change in a copy.
fn user(attributes: &Attributes) -> Vec<(&str, &str)> {
    let mut user: Vec<_> = attributes
        .iter()
        .filter_map(|(name, value)| match name {
            Attribute::Metadata(name) => Some((name.as_ref(), value.as_ref())),
            _ => None,
        })
        .collect();
    user.sort_unstable();
    user
}
