//! What goes on without being asked: flushing by age and pressure, letting go, tidying, collecting.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_tier::{Amount, Tier};

use super::Engine;
use crate::data::collect::collect_loop;
use crate::data::durability::log::log_loop;
use crate::data::flush::background::{flush_loop, soon_loop};
use crate::data::flush::bring::bring_loop;
use crate::data::nodes::Nodes;
use crate::data::peers::peers_loop;
use crate::data::space::Space;
use crate::names::atimes::atimes_loop;
use crate::names::reclaims::reclaims_loop;
use crate::names::removed::orphans_loop;
use crate::names::tree::purge_loop;
use crate::services::lifecycle::{cold_reads_loop, lifecycle_loop};
use crate::services::quotas::quotas_loop;
use crate::services::scrub::scrub_loop;
use crate::services::snapshots::schedule::schedule_loop;
use crate::services::{actions, disks, limits, links};
use crate::volume::age::age_loop;
use crate::volume::context::blocking;
use crate::volume::fence::guard_loop;
use crate::volume::names_log::{directories_loop, names_loop};
use crate::volume::standby::standby_loop;
use crate::volume::together::beat_loop;

/// How often the tier is looked at, in milliseconds.
const TIER_LOOK_MS: u64 = 250;
/// How often logs are looked at, in milliseconds.
const TIDY_MS: u64 = 1_000;
/// How often mirrors are sealed, in milliseconds: what a power cut may cost of the cache.
const SEAL_MS: u64 = 600_000;

/// Starts the engine's tasks. They end when the set is shut down.
pub(super) fn start(engine: &Engine) -> JoinSet<()> {
    let Engine { data, names, links, actions, disks, limits, quotas, snapshots, .. } = engine;
    let mut tasks = JoinSet::new();
    tasks.spawn(release_loop(data.space.clone(), data.tier.clone()));
    tasks.spawn(seal_loop(data.tier.clone()));
    tasks.spawn(tidy_loop(data.nodes.clone(), data.tier.clone()));
    tasks.spawn(actions::run_loop(actions.clone()));
    tasks.spawn(limits::throughput_loop(limits.clone()));
    tasks.spawn(quotas_loop(quotas.clone()));
    if data.context.read_only {
        let (mirrors, nodes) = (data.mirrors.clone(), data.nodes.clone());
        tasks.spawn(links::follow_loop(mirrors, nodes, links.registry.clone()));
        tasks.spawn(cold_reads_loop(engine.lifecycle.clone()));
    } else {
        tasks.spawn(flush_loop(data.flusher.clone()));
        tasks.spawn(soon_loop(data.flusher.clone()));
        tasks.spawn(schedule_loop(snapshots.clone()));
        tasks.spawn(scrub_loop(engine.scrubber.clone()));
        tasks.spawn(lifecycle_loop(engine.lifecycle.clone()));
        tasks.spawn(log_loop(data.durability.clone()));
        tasks.spawn(purge_loop(names.clone()));
        tasks.spawn(atimes_loop(names.atimes.clone()));
        tasks.spawn(collect_loop(data.collector.clone()));
        tasks.spawn(links::links_loop(links.clone()));
    }
    if let Some(beats) = engine.beats.clone() {
        tasks.spawn(standby_loop(beats, data.context.fence.clone()));
    }
    if let Some(guard) = engine.guard.clone() {
        let (context, meta) = (data.context.clone(), data.meta.clone());
        tasks.spawn(guard_loop(meta.clone(), guard, context.fence.clone()));
        tasks.spawn(age_loop(context, meta, data.buckets.clone()));
    }
    if let Some(together) = data.context.together.clone() {
        let (fence, kv) = (data.context.fence.clone(), data.meta.kv().clone());
        tasks.spawn(beat_loop(together.clone(), fence.clone(), kv.clone(), names.clone()));
        tasks.spawn(limits::shares_loop(limits.clone(), together.clone()));
        tasks.spawn(reclaims_loop(together.clone(), fence, kv.clone()));
        tasks.spawn(actions::claims_loop(actions.clone(), together.clone()));
        tasks.spawn(disks::hold_loop(disks.clone(), together));
        if let Some(leases) = data.meta.leases() {
            let (takes, gives, of_takes) = (leases.clone(), leases.clone(), kv.clone());
            tasks.spawn(async move { takes.take_loop(&*of_takes).await });
            tasks.spawn(async move { gives.give_back_loop(&*kv).await });
            if data.context.settings.write_leases {
                tasks.spawn(bring_loop(data.flusher.clone(), leases.clone()));
                leases.write_behind();
            }
            if let Some(behind) = leases.behind() {
                tasks.spawn(names_loop(behind.clone()));
                tasks.spawn(directories_loop(leases.clone(), data.meta.kv().clone()));
            }
        }
        tasks.spawn(links::follow_nodes_loop(links.clone()));
        tasks.spawn(orphans_loop(names.clone()));
    }
    if let Some(peers) = data.peers.clone() {
        tasks.spawn(peers_loop(peers));
    }
    tasks
}

async fn tidy_loop(nodes: Arc<Nodes>, tier: Arc<Tier>) {
    loop {
        tokio::time::sleep(Duration::from_millis(TIDY_MS)).await;
        nodes.sweep();
        let tidy = tier.clone();
        if let Err(error) = blocking(move || tidy.tidy()).await {
            tracing::warn!(%error, "tidying the tier failed: tried again");
        }
    }
}

async fn release_loop(space: Arc<Space>, tier: Arc<Tier>) {
    loop {
        tokio::time::sleep(Duration::from_millis(TIER_LOOK_MS)).await;
        let (space, tier) = (space.clone(), tier.clone());
        let released = blocking(move || match tier.above_high_water()? {
            true => space.release(Amount::default()),
            false => Ok(0),
        });
        if let Err(error) = released.await {
            tracing::warn!(%error, "releasing pages failed: tried again");
        }
    }
}

async fn seal_loop(tier: Arc<Tier>) {
    loop {
        tokio::time::sleep(Duration::from_millis(SEAL_MS)).await;
        let tier = tier.clone();
        if let Err(error) = blocking(move || tier.seal()).await {
            tracing::warn!(%error, "sealing the tier failed: tried again");
        }
    }
}
