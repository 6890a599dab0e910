//! Removing what an import found to be gone.

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use weir_object::Component;
use weir_types::Result;

use super::apply::{BATCH, Import};
use super::brake::{Found, Missing};
use crate::services::links::views::HeldDeletions;
use crate::volume::locks::apart;

/// Files removed at once, each with a HEAD before.
const AT_ONCE: usize = 16;

impl Import {
    /// Removes what is missing, if it is not too much, after all was listed. One HEAD for each.
    pub(super) async fn remove_missing(&self) -> Result<()> {
        let Found { rows, files, added } = std::mem::take(&mut *self.brake.found());
        let of = self.brake.of;
        if files > self.brake.most {
            let before = self.link.state().held.replace(HeldDeletions { files, of });
            if before.is_none_or(|before| before.files != files) {
                tracing::warn!(link = %self.link.id, path = self.link.path(), files, of,
                    "so many files are gone from the bucket that none is removed here: look \
                     whether that is so, then `weir refresh --confirm`");
            }
        } else {
            self.link.state().held = None;
            let removals = rows.into_iter().map(|missing| apart(self.remove(missing)).boxed());
            let mut removals = stream::iter(removals).buffer_unordered(AT_ONCE);
            while removals.try_next().await?.is_some() {}
        }
        for batch in added.chunks(BATCH) {
            self.create(batch).await?;
        }
        Ok(())
    }

    async fn remove(&self, missing: Missing) -> Result<()> {
        let row = match missing {
            Missing::Object(row) => row,
            Missing::Directory(row) => return self.unseen_directory_gone(&row).await,
        };
        // Changed since it was listed, by an export maybe.
        let now = self.importer.meta.object(self.link.id, &row.key).await?;
        if now.is_none_or(|now| now.version != row.version) {
            return Ok(());
        }
        if row.object.ino.is_none() {
            return self.removed(&row).await;
        }
        match self.bucket.head_listed(Component::Link, &row.key).await? {
            None => self.removed(&row).await,
            Some(object) => {
                tracing::warn!(link = %self.link.id, key = %row.key.escape_ascii(),
                    "the bucket's listing leaves out an object that is there");
                self.compare(&object, &row).await
            }
        }
    }
}
