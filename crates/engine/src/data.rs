//! Bytes between the mirror file, the bucket, and who reads and writes them.
//!
//! Nothing here knows a name. What is above is reached through two traits, which are defined here:
//! [`upward::NativeObjects`] (the objects of linked buckets) and [`upward::WaitedFor`].

pub(crate) mod admission;
pub(crate) mod ages;
pub(crate) mod capacity;
pub(crate) mod collect;
pub(crate) mod copy;
pub(crate) mod direct;
pub(crate) mod durability;
pub(crate) mod fetch;
pub(crate) mod flush;
pub(crate) mod followed;
pub(crate) mod holders;
pub(crate) mod journal;
pub(crate) mod mapped;
pub(crate) mod mirrors;
pub(crate) mod native;
pub(crate) mod nodes;
pub(crate) mod peers;
pub(crate) mod pins;
pub(crate) mod prefetch;
pub(crate) mod quotas;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod resize;
pub(crate) mod seek;
pub(crate) mod segments;
pub(crate) mod space;
pub(crate) mod streams;
pub(crate) mod throttle;
pub(crate) mod upward;
pub(crate) mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use admission::Admission;
use admission::budget::Budget;
use collect::Collector;
use copy::Copier;
use direct::DirectRecords;
use durability::Durability;
use fetch::{Fetcher, FetcherParts};
use flush::Flusher;
use holders::Holders;
use journal::Journal;
use mirrors::Mirrors;
use nodes::Nodes;
use peers::{Peers, Source};
use quotas::Quotas;
use read::Reader;
use segments::Segments;
use space::Space;
use upward::{NativeObjects, WaitedFor};
use weir_meta::Meta;
use weir_object::StripeSet;
use weir_tier::{AskSpace, Tier};
use write::Writer;

use crate::volume::context::Context;

/// The parts of the data plane. Only who puts a mount together has all of them.
pub(crate) struct DataPlane {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) buckets: StripeSet,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) segments: Arc<Segments>,
    /// Where nodes share the volume.
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) records: Arc<DirectRecords>,
    pub(crate) copier: Arc<Copier>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) collector: Arc<Collector>,
}

/// What a data plane stands on.
pub(crate) struct Ground {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) buckets: StripeSet,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) ask_space: AskSpace,
    /// What it asks of those above.
    pub(crate) natives: Arc<dyn NativeObjects>,
    pub(crate) waited_for: Arc<dyn WaitedFor>,
}

impl DataPlane {
    /// Puts the parts together, each from those before it.
    pub(crate) fn new(ground: Ground) -> Self {
        let Ground { context, meta, tier, buckets, journal, ask_space, .. } = ground;
        let (nodes, budget) = (Arc::new(Nodes::default()), Arc::new(Budget::default()));
        let admission = Arc::new(Admission::new(context.clone(), meta.clone(), budget.clone()));
        let space = Arc::new(Space::new(context.clone(), tier.clone()));
        let others = (context.read_only, context.is_shared());
        let mirrors =
            Mirrors::new(meta.clone(), tier.clone(), nodes.clone(), journal.clone(), others);
        let mirrors = Arc::new(mirrors);
        let peers = peers(&context, &buckets, (&ground.natives, &tier));
        let fetcher = Arc::new(Fetcher::new(FetcherParts {
            context: context.clone(),
            meta: meta.clone(),
            tier: tier.clone(),
            buckets: buckets.clone(),
            nodes: nodes.clone(),
            mirrors: mirrors.clone(),
            space: space.clone(),
            natives: ground.natives,
            budget: budget.clone(),
            peers: peers.clone(),
        }));
        mirrors.read_by(Arc::downgrade(&fetcher) as _);
        let reader = Arc::new(Reader::new(fetcher.clone(), budget.clone(), ground.waited_for));
        let segments = Arc::new(Segments::new(context.clone(), buckets.clone()));
        let flusher = Arc::new(Flusher::new(
            context.clone(),
            nodes.clone(),
            journal.clone(),
            mirrors.clone(),
            space.clone(),
            segments.clone(),
        ));
        let quotas = Arc::new(Quotas::new(&fetcher, flusher.clone()));
        let writer = Arc::new(Writer::new(fetcher.clone(), journal.clone(), quotas.clone()));
        let durability = Arc::new(Durability::new(
            context.clone(),
            nodes.clone(),
            journal.clone(),
            mirrors.clone(),
            flusher.clone(),
            ask_space,
        ));
        let (log, of) = (journal.clone(), segments.clone());
        let records = DirectRecords::new(fetcher.clone(), log, of, budget.clone());
        let (from, to) = (reader.clone(), writer.clone());
        let copier = Copier::new(admission.clone(), from, to, flusher.clone());
        let holders = Arc::new(Holders::new(context.clone(), meta.clone()));
        Self {
            collector: collector(&fetcher, &segments, &holders, budget),
            context,
            meta,
            tier,
            buckets,
            journal,
            nodes,
            mirrors,
            space,
            admission,
            segments,
            peers,
            fetcher,
            reader,
            quotas,
            writer,
            flusher,
            durability,
            records: Arc::new(records),
            copier: Arc::new(copier),
            holders,
        }
    }
}

fn collector(
    fetcher: &Arc<Fetcher>,
    segments: &Arc<Segments>,
    holders: &Arc<Holders>,
    budget: Arc<Budget>,
) -> Arc<Collector> {
    let uses = (segments.clone(), holders.clone());
    Arc::new(Collector::new(fetcher.clone(), uses, budget))
}

/// What the nodes that share the volume give each other.
fn peers(
    context: &Context,
    buckets: &StripeSet,
    (natives, tier): (&Arc<dyn NativeObjects>, &Arc<Tier>),
) -> Option<Arc<Peers>> {
    let (together, settings) = (context.together.clone()?, &context.settings);
    let source = Source::new(buckets.clone(), natives.clone());
    let bytes = (settings.peer_cache_bytes.0, settings.peer_give_bytes_per_s.0);
    match Peers::new(together, source, Some(tier.clone()), bytes) {
        Ok(peers) => Some(Arc::new(peers)),
        Err(error) => {
            tracing::warn!(%error, "this node does without the others");
            None
        }
    }
}
