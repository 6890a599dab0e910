//! Objects in archive classes, which must be restored before they can be read.

use object_store::{Attribute, PutOptions, PutPayload};
use weir_types::{Restore, Result};

use crate::asks::{ArchiveSays, RestoreAsk};
use crate::bucket::Bucket;
use crate::caller::Ask;
use crate::failure::mentions;
use crate::request::{Component, RequestKind};

/// Classes whose objects are never readable at once.
const CLASSES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];
/// The class that puts objects away by itself. What it has put away stays readable once it was restored.
const TIERING: &str = "INTELLIGENT_TIERING";

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
        class: String,
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
        class: &str,
        restore: Restore,
    ) -> Result<()> {
        let path = self.path(key)?;
        let ask = Ask::new(component, RequestKind::Put);
        let days = (class != TIERING).then_some(restore.days);
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
    let is_away = match class {
        TIERING => says.status.is_some(),
        _ => CLASSES.contains(&class),
    };
    match says.restore.as_deref() {
        _ if !is_away => Readable::Yes,
        Some(restore) if restore.contains("ongoing-request=\"true\"") => Readable::Soon,
        // A restored copy lies beside what is away; of what was put away by itself it takes the place.
        Some(_) if class != TIERING => Readable::Yes,
        _ => Readable::No { class: class.to_owned(), size },
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
        let no = |class: &str| Readable::No { class: class.to_owned(), size: 7 };
        let (goes_on, done) = (
            "ongoing-request=\"true\"",
            "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\"",
        );
        for class in ["", "STANDARD", "GLACIER_IR", "STANDARD_IA"] {
            assert_eq!(of(class, None, None), Readable::Yes);
        }
        for class in CLASSES {
            assert_eq!(of(class, None, None), no(class));
            assert_eq!(of(class, Some(goes_on), None), Readable::Soon);
            assert_eq!(of(class, Some(done), None), Readable::Yes);
        }
        assert_eq!(of(TIERING, None, None), Readable::Yes);
        assert_eq!(of(TIERING, None, Some("ARCHIVE_ACCESS")), no(TIERING));
        assert_eq!(of(TIERING, Some(goes_on), Some("ARCHIVE_ACCESS")), Readable::Soon);
    }
}
