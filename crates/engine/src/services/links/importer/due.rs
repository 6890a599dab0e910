//! Which imports are due, and having them done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_cost::{PriceBook, lists_of, polls_per_month};
use weir_object::{BucketUrl, Component, Scheme, is_same_etag};
use weir_types::{ErrorKind, Ino, Inode, NanoUsd, Native, Result};

use super::Importer;
use crate::services::links::registry::{Link, root_of};
use crate::services::links::views::{ImportView, Policy};

/// Rest after an import that failed, in milliseconds.
const FAILED_REST_MS: u64 = 30_000;
/// Polls that cost more a month are warned of, in nanodollars.
const WARN_NANO_USD: i64 = 10_000_000_000;
/// Where nobody knows the region.
const USUAL_REGION: &str = "us-east-1";

impl Importer {
    /// Which import of the link is due, if one is.
    pub(crate) fn due_import(&self, link: &Link) -> Option<Policy> {
        let record = link.record();
        let now_ms = self.context.now_ms();
        let mut state = link.state();
        if link.is_ending() || state.importing.is_some() {
            return None;
        }
        let first = record.imported_unix_ms.is_none();
        let polls = !record.options.import.is_none();
        let policy = match () {
            () if now_ms < state.due_ms => return None,
            () if std::mem::take(&mut state.asked) => Policy::ALL,
            // One node does it for all.
            () if !self.context.is_on_duty() => return None,
            () if first => Policy::ALL,
            () if polls => record.options.import,
            () => return None,
        };
        state.due_ms = now_ms + record.options.poll_s.max(1) * 1_000;
        state.importing = Some(ImportView {
            since_unix_ms: self.context.unix_ms().cast_signed(),
            ..Default::default()
        });
        Some(policy)
    }

    pub(crate) async fn import_due(self: &Arc<Self>, link: &Arc<Link>, policy: Policy) {
        let result = self.import(link, policy).await;
        let mut state = link.state();
        state.importing = None;
        state.import_error = result.as_ref().err().map(ToString::to_string);
        if result.is_ok() {
            state.confirmed = None;
        }
        if let Err(error) = result {
            state.due_ms = self.context.now_ms() + FAILED_REST_MS;
            state.asked |= policy == Policy::ALL;
            tracing::warn!(link = %link.id, %error, "an import failed: tried again");
        }
    }

    /// Notes that all of a link was imported.
    pub(crate) async fn imported(&self, link: &Link) -> Result<()> {
        if link.record().imported_unix_ms.is_none() {
            self.warn_of_polls(link).await?;
        }
        let now = Some(self.context.unix_ms().cast_signed());
        let root = root_of(&link.record())?;
        let record = link.change_record(|record| {
            record.imported_unix_ms = now;
            // Of a link of an older Weir.
            record.root = record.root.or(root);
        });
        self.meta.set_link(link.id, &record.encode()?).await
    }

    /// Says so if polls of this link cost much, once its objects are counted.
    async fn warn_of_polls(&self, link: &Link) -> Result<()> {
        let options = link.record().options;
        let amazon =
            options.endpoint.is_none() && options.url.parse::<BucketUrl>()?.scheme() == Scheme::S3;
        if !amazon || options.import.is_none() || options.lazy_dirs {
            return Ok(());
        }
        let usage = self.meta.link_usage(link.id).await?;
        let (objects, every) = (usage.files + usage.hidden, Duration::from_secs(options.poll_s));
        let book = PriceBook::built_in();
        let prices = book.at(USUAL_REGION);
        let cost = polls_per_month(prices, lists_of(objects), every).usd;
        if cost > NanoUsd(WARN_NANO_USD) {
            tracing::warn!(link = %link.id, path = link.path(), objects, poll_s = options.poll_s,
                "polling this link costs about {cost} a month at S3's list price: poll less often, \
                 or use `weir refresh --events`");
        }
        Ok(())
    }

    pub(crate) async fn look_at_suspects(
        self: &Arc<Self>,
        link: &Arc<Link>,
        suspects: BTreeSet<(String, Ino)>,
    ) {
        let policy = link.record().options.import;
        let (keys, inos): (Vec<_>, Vec<_>) = suspects.into_iter().unzip();
        for (key, ino) in keys.iter().zip(inos) {
            if let Err(error) = self.mark_lost(link, key, ino).await {
                tracing::debug!(%ino, %error, "a file whose object changed was not marked");
            }
        }
        if policy.is_none() {
            return;
        }
        if let Err(error) = self.import_keys(link, &keys, policy).await {
            tracing::warn!(link = %link.id, %error, "changed objects were not imported");
        }
    }

    /// Marks a file whose object really is another one, or none.
    async fn mark_lost(&self, link: &Link, key: &str, ino: Ino) -> Result<()> {
        let bucket = self.registry.bucket(link.id)?;
        let etag = match bucket.head(Component::Link, key).await {
            Ok(info) => info.etag,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let lost = |inode: &Inode| {
            let same = |native: &Native| is_same_etag(native.etag.as_deref(), etag.as_deref());
            let native = inode.native.clone().filter(|n| n.key == key && !same(n))?;
            Some(Some(Native { lost: true, ..native })).filter(|_| !native.lost)
        };
        self.detacher.change_native(ino, lost).await.map(drop)
    }
}
