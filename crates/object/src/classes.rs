//! The storage classes that objects are in.

use object_store::path::Path;
use object_store::{
    Attribute, GetOptions, GetResult, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};
use weir_types::{ErrorKind, FsError, Result, StorageClass};

use crate::asks::{ClassAsk, HeadAsk, Kept, Written};
use crate::bucket::{Bucket, ObjectInfo};
use crate::caller::{Ask, Failure};
use crate::change::is_refusal;
use crate::conditions::PutCondition;
use crate::etags::{check_etag, is_same};
use crate::probe::PROBE_PREFIX;
use crate::request::{Component, RequestKind};

/// How a change of the storage class of an object that others write, too, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassChange {
    /// It is in that class, and this is what the store says of it now.
    Moved(ObjectInfo),
    /// It stays where it was, in the class of this name: it is the one, a colder one, or one that is not read at once.
    Stays(String),
    /// It is another object by now, or gone.
    Another,
}

impl Bucket {
    /// Moves an object into another storage class, in place: a copy onto itself, by the store. Its bytes and its name stay,
    /// and who reads it meanwhile has them. Repeating it does no harm. Durable on return. One COPY.
    ///
    /// # Errors
    /// `NotFound` where there is none; `Unsupported` where the store has no such classes, or for one over 5 GiB.
    pub async fn set_class(
        &self,
        component: Component,
        key: &str,
        size: u64,
        class: StorageClass,
    ) -> Result<()> {
        let path = self.path(key)?;
        let ask = Ask { expects: size, ..Ask::new(component, RequestKind::Copy) };
        let moved = self.ask_for_class(ask, &path, ClassAsk { class, etag: None }).await;
        moved.map(drop).map_err(|failure| self.tell("COPY", key, failure))
    }

    /// The same of an object that others write, too, while it has this ETag. From `from`, or from what can be read at
    /// once and is warmer than `class`, it moves; out of an archive, or out of a class that Weir does not know, nothing does.
    /// What goes with an object (metadata, tags) goes along; its ETag is another one if it was uploaded in parts. One HEAD and
    /// one COPY; of one over 5 GiB two PUTs, one COPY for each GiB and another HEAD.
    ///
    /// After a lost answer it may have moved and be told as [`ClassChange::Another`].
    ///
    /// # Errors
    /// `Unsupported` where the store has no such classes, or, for one over 5 GiB, holds no conditions.
    pub async fn change_class(
        &self,
        component: Component,
        (key, etag): (&str, &str),
        from: StorageClass,
        class: StorageClass,
    ) -> Result<ClassChange> {
        check_etag(etag)?;
        let path = self.path(key)?;
        let found = match self.head_with_class(component, key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ClassChange::Another),
            found => found?,
        };
        let (name, kept) = (class_name(&found), found.extensions.get::<Kept>().cloned());
        // Its body, if it had one, may not cross threads.
        let (size, e_tag) = (found.meta.size, found.meta.e_tag.clone());
        drop(found);
        if !is_same(Some(etag), e_tag.as_deref()) {
            return Ok(ClassChange::Another);
        }
        let known = StorageClass::ALL.into_iter().find(|known| known.name() == name);
        if !known.is_some_and(|known| known != class && (known == from || known < class)) {
            return Ok(ClassChange::Stays(name));
        }
        let changed = match size > self.copy_bytes_max {
            // What somebody puts there while it is copied, for minutes, would be lost.
            true if !self.conditions.hold(&PutCondition::Matches(etag.to_owned())) => {
                let url = self.url().key_url(key);
                let why = format!("{url} is over 5 GiB, and this store holds no conditions");
                return Err(FsError::new(ErrorKind::Unsupported, why));
            }
            true => {
                let version = UpdateVersion { e_tag: e_tag.clone(), version: None };
                let (keys, mode) = ((&path, &path), PutMode::Update(version));
                self.copy_in_parts(component, keys, (size, e_tag, kept), Some(class), mode).await
            }
            false => {
                let ask = Ask { expects: size, ..Ask::new(component, RequestKind::Copy) };
                let wanted = ClassAsk { class, etag: e_tag };
                self.ask_for_class(ask, &path, wanted).await
            }
        };
        match changed {
            Ok(put) => {
                let last_modified_unix_ms = put.extensions.get().map_or(0, |Written(ms)| *ms);
                let (key, etag) = (key.to_owned(), put.e_tag);
                Ok(ClassChange::Moved(ObjectInfo { key, size, etag, last_modified_unix_ms }))
            }
            Err(failure) if is_refusal(&failure) => Ok(ClassChange::Another),
            Err(failure) => Err(self.tell("COPY", key, failure)),
        }
    }

    async fn ask_for_class(
        &self,
        ask: Ask,
        path: &Path,
        wanted: ClassAsk,
    ) -> Result<PutResult, Failure> {
        let (caller, mut options) = (self.caller(), PutOptions::default());
        options.extensions.insert(wanted);
        let asked =
            caller.run(ask, |_| {
                let options = options.clone();
                async move {
                    Ok((caller.store.put_opts(path, PutPayload::default(), options).await?, 0))
                }
            });
        asked.await
    }

    /// The name of the storage class that an object is in, as the store says it. One HEAD.
    ///
    /// # Errors
    /// As [`Bucket::head`]; `Unsupported` where the store has no classes.
    pub async fn class_of(&self, component: Component, key: &str) -> Result<String> {
        Ok(class_name(&self.head_with_class(component, key).await?))
    }

    /// What a HEAD says, with the class and what goes with that. One HEAD.
    pub(crate) async fn head_with_class(
        &self,
        component: Component,
        key: &str,
    ) -> Result<GetResult> {
        let path = self.path(key)?;
        let ask = Ask::new(component, RequestKind::Head);
        let (caller, mut options) =
            (self.caller(), GetOptions { head: true, ..GetOptions::default() });
        options.extensions.insert(HeadAsk(path.to_string()));
        let asked = caller.run(ask, |_| {
            let (path, options) = (&path, options.clone());
            async move { Ok((caller.store.get_opts(path, options).await?, 0)) }
        });
        asked.await.map_err(|failure| self.tell("HEAD", key, failure))
    }

    /// Learns whether the store moves objects into this class, by moving one of our own, whose name begins with
    /// [`PROBE_PREFIX`], and removing it: in a class that is paid for days, one of 37 bytes is. 1 PUT, 1 COPY, 1 HEAD and
    /// 1 DELETE.
    ///
    /// # Errors
    /// `Unsupported`, with what to do, where it does not; as [`Bucket::put`].
    pub async fn probe_class(&self, component: Component, class: StorageClass) -> Result<()> {
        let key = format!("{PROBE_PREFIX}{:032x}", rand::random::<u128>());
        let text = "a probe of weir's: it may be removed";
        self.put(component, &key, text).await?;
        let probed = async {
            self.set_class(component, &key, text.len() as u64, class).await?;
            self.class_of(component, &key).await
        };
        let probed = probed.await;
        if let Err(error) = self.delete(component, &key).await {
            tracing::warn!(key, %error, "a probe is left behind in the bucket: remove it");
        }
        let why = match probed {
            Ok(found) if found == class.name() => return Ok(()),
            Ok(found) => format!("what is moved into {class} is in {found} there"),
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        let text = format!(
            "{} has no storage class {class}: such rules need Amazon S3, or a store that has its classes ({why})",
            self.url()
        );
        Err(FsError::new(ErrorKind::Unsupported, text))
    }
}

fn class_name(found: &GetResult) -> String {
    // S3 says nothing of the first one.
    let class = found.attributes.get(&Attribute::StorageClass);
    class.map_or(StorageClass::Standard.name(), |class| class.as_ref()).to_owned()
}
