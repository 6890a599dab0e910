//! The storage classes that objects are in.

use object_store::{Attribute, GetOptions, GetResult, PutOptions, PutPayload};
use weir_types::{ErrorKind, FsError, Result, StorageClass};

use crate::asks::{ClassAsk, HeadAsk};
use crate::bucket::Bucket;
use crate::caller::Ask;
use crate::probe::PROBE_PREFIX;
use crate::request::{Component, RequestKind};

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
        let (caller, mut options) = (self.caller(), PutOptions::default());
        options.extensions.insert(ClassAsk(class));
        let moved =
            caller.run(ask, |_| {
                let (path, options) = (&path, options.clone());
                async move {
                    Ok((caller.store.put_opts(path, PutPayload::default(), options).await?, 0))
                }
            });
        moved.await.map(drop).map_err(|failure| self.tell("COPY", key, failure))
    }

    /// The name of the storage class that an object is in, as the store says it. One HEAD.
    ///
    /// # Errors
    /// As [`Bucket::head`]; `Unsupported` where the store has no classes.
    pub async fn class_of(&self, component: Component, key: &str) -> Result<String> {
        let found = self.head_with_class(component, key).await?;
        // S3 says nothing of the first one.
        let class = found.attributes.get(&Attribute::StorageClass);
        Ok(class.map_or(StorageClass::Standard.name(), |class| class.as_ref()).to_owned())
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
