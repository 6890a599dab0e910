//! One process at a time changes a place of backups, or restores to a place.

use weir_object::{Bucket, Component, StripeSet};
use weir_types::{ErrorKind, FsError, Result};

use crate::volume::claim::{end_lease, read_lease, write_lease};
use crate::volume::host::Host;

/// The right to change a place, until [`Held::end`]. One that its process left behind is taken over once that is known
/// to be dead.
pub(super) struct Held {
    buckets: StripeSet,
    pub(super) id: String,
    /// The name of the process that left it behind.
    pub(super) before: Option<String>,
}

impl Held {
    /// One GET and one PUT. `Conflict` while another process has it.
    pub(super) async fn begin(bucket: &Bucket, host: &Host) -> Result<Self> {
        let other = read_lease(bucket).await?;
        if let Some(other) = other.as_ref().filter(|other| !host.knows_dead(&other.host)) {
            let url = bucket.url();
            let text = format!(
                "{url} is in the hands of {}, which makes, deletes or restores backups there: wait until it has ended; if \
                 that machine is gone, remove {url}/writer.json",
                other.host.shown()
            );
            return Err(FsError::new(ErrorKind::Conflict, text));
        }
        let (buckets, id) =
            (StripeSet::new(vec![bucket.clone()])?, uuid::Uuid::new_v4().to_string());
        write_lease(host, &buckets, &id).await?;
        Ok(Self { buckets, id, before: other.map(|other| other.id) })
    }

    pub(super) fn bucket(&self) -> &Bucket {
        self.buckets.first()
    }

    pub(super) fn buckets(&self) -> &StripeSet {
        &self.buckets
    }

    /// Before what cannot be taken back: nobody else took it meanwhile. One GET.
    pub(super) async fn check(&self) -> Result<()> {
        match read_lease(self.bucket()).await?.is_some_and(|lease| lease.id == self.id) {
            true => Ok(()),
            false => {
                let text =
                    format!("{} went into other hands meanwhile: try again", self.bucket().url());
                Err(FsError::new(ErrorKind::Conflict, text))
            }
        }
    }

    /// Gives it back. A GET and a DELETE.
    pub(super) async fn end(self) -> Result<()> {
        end_lease(&self.buckets, &self.id).await
    }

    /// Removes an object of what was begun here.
    pub(super) async fn delete(&self, component: Component, key: &str) -> Result<()> {
        self.bucket().delete(component, key).await
    }
}
