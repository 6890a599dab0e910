//! Objects in archive classes, which must be restored before they can be read.

use object_store::{Attribute, PutOptions, PutPayload};
use weir_types::{ArchiveClass, Restore, Result};

use crate::asks::{ArchiveSays, RestoreAsk};
use crate::bucket::Bucket;
use crate::caller::Ask;
use crate::failure::mentions;
use crate::request::{Component, RequestKind};

/// Whether an object can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable {
    /// At once.
    Yes,
    /// It is being restored.
    Soon,
    /// It must be restored first.
    No {
        /// The class that it is in.
        class: ArchiveClass,
        /// Its size in bytes.
        size: u64,
    },
}

impl Bucket {
    /// Whether an object of this link or volume can be read, or lies in an archive class. One HEAD.
    ///
    /// # Errors
    /// As [`Bucket::head`]; `Unsupported` where the store has no classes.
    pub async fn readable(&self, component: Component, key: &str) -> Result<Readable> {
        let found = self.head_with_class(component, key).await?;
        let says = found.extensions.get::<ArchiveSays>().cloned().unwrap_or_default();
        let class = found.attributes.get(&Attribute::StorageClass);
        Ok(judge(class.map_or("", |class| class.as_ref()), &says, found.meta.size))
    }

    /// Has an object in an archive class be readable again after minutes or hours: see [`Bucket::readable`]. It stays in its
    /// class; the copy is paid beside it for those days, and the request by its tier. One that is being restored already stays
    /// at that. One POST, which counts as a PUT.
    ///
    /// # Errors
    /// `NotFound` where there is none; `Unsupported` where the store has no such classes, or the class no such tier;
    /// `Retry` where the store has no room for expedited ones just now.
    pub async fn restore(
        &self,
        component: Component,
        key: &str,
        class: ArchiveClass,
        restore: Restore,
    ) -> Result<()> {
        let path = self.path(key)?;
        let ask = Ask::new(component, RequestKind::Put);
        let days = (class != ArchiveClass::IntelligentTiering).then_some(restore.days);
        let (caller, mut options) = (self.caller(), PutOptions::default());
        options.extensions.insert(RestoreAsk { tier: restore.tier, days });
        let asked =
            caller.run(ask, |_| {
                let (path, options) = (&path, options.clone());
                async move {
                    Ok((caller.store.put_opts(path, PutPayload::default(), options).await?, 0))
                }
            });
        match asked.await {
            Err(failure) if mentions(&failure.error, &["RestoreAlreadyInProgress"]) => Ok(()),
            asked => asked.map(drop).map_err(|failure| self.tell("RESTORE", key, failure)),
        }
    }
}

/// What the store's words mean.
fn judge(class: &str, says: &ArchiveSays, size: u64) -> Readable {
    // What it has put away stays readable once it was restored.
    let is_tiering = |class: &ArchiveClass| *class == ArchiveClass::IntelligentTiering;
    let is_away = |class: &ArchiveClass| !is_tiering(class) || says.status.is_some();
    let Some(class) = ArchiveClass::named(class).filter(is_away) else { return Readable::Yes };
    match says.restore.as_deref() {
        Some(restore) if restore.contains("ongoing-request=\"true\"") => Readable::Soon,
        // A restored copy lies beside what is away; of what was put away by itself it takes the place.
        Some(_) if !is_tiering(&class) => Readable::Yes,
        _ => Readable::No { class, size },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_readable_unless_its_class_and_no_copy_say_otherwise() {
        let of = |class: &str, restore: Option<&str>, status: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            judge(class, &ArchiveSays { restore: own(restore), status: own(status) }, 7)
        };
        let no = |class| Readable::No { class, size: 7 };
        let (goes_on, done) = (
            "ongoing-request=\"true\"",
            "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\"",
        );
        for class in ["", "STANDARD", "GLACIER_IR", "STANDARD_IA"] {
            assert_eq!(of(class, None, None), Readable::Yes);
        }
        for class in [ArchiveClass::Glacier, ArchiveClass::DeepArchive] {
            assert_eq!(of(class.name(), None, None), no(class));
            assert_eq!(of(class.name(), Some(goes_on), None), Readable::Soon);
            assert_eq!(of(class.name(), Some(done), None), Readable::Yes);
        }
        let tiering = ArchiveClass::IntelligentTiering;
        assert_eq!(of(tiering.name(), None, None), Readable::Yes);
        assert_eq!(of(tiering.name(), None, Some("ARCHIVE_ACCESS")), no(tiering));
        assert_eq!(of(tiering.name(), Some(goes_on), Some("ARCHIVE_ACCESS")), Readable::Soon);
    }
}
