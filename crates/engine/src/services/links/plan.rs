//! What a link would do, before it does it: nothing here writes, to a bucket or to the metadata.

use std::sync::Arc;

use futures::TryStreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_cost::lists_of;
use weir_object::{BucketUrl, Component, KeyRange};
use weir_types::Result;

use super::importer::pass::LISTS;
use super::registry::LinkRecord;
use super::rule;
use super::views::LinkOptions;
use crate::services::links::parts::Links;

/// What a link would show, and ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkPlan {
    /// Objects below its URL; of a lazy link those of its first directory.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that cannot show as files.
    pub hidden: u64,
    /// LISTs of the first import, and of each poll; up to as many again where keys are uneven.
    pub lists: u64,
    /// HEADs of the first import at most.
    pub heads_most: u64,
}

impl Links {
    /// What a link of these options would show, and what it would ask for. LISTs only: as many as
    /// its first import.
    pub(crate) async fn plan_link(self: &Arc<Self>, options: LinkOptions) -> Result<LinkPlan> {
        let url: BucketUrl = options.url.parse()?;
        self.check_apart(&url)?;
        let (lazy, asks) =
            (options.lazy_dirs, options.attributes != super::views::Attributes::Never);
        let bucket = self.registry.connect(&LinkRecord::planned(options))?;
        bucket.probe_odd(Component::Link).await?;
        let mut plan = LinkPlan { objects: 0, bytes: 0, hidden: 0, lists: 0, heads_most: 0 };
        let mut count = |object: &weir_object::ListedObject| {
            plan.objects += 1;
            plan.bytes += object.size;
            let hidden = object.cannot_show.is_some() || rule::place(&object.key).is_err();
            plan.hidden += u64::from(hidden);
        };
        if lazy {
            let mut pages = bucket.list_directory(Component::Link, b"", None);
            while let Some(page) = pages.try_next().await? {
                page.objects.iter().for_each(&mut count);
            }
        } else {
            let mut pages = bucket.scan_keys(Component::Link, KeyRange::default(), LISTS);
            while let Some(page) = pages.try_next().await? {
                page.objects.iter().for_each(&mut count);
            }
        }
        plan.lists = lists_of(plan.objects);
        plan.heads_most = if asks { plan.objects } else { 0 };
        Ok(plan)
    }
}
