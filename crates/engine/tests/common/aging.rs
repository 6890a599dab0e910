//! A world whose store has storage classes, and whose clock goes when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use weir_engine::Wrap;
use weir_object::testing::Classes;
use weir_types::{Settings, UnixTime};

use super::{World, settings};

pub const DAY_S: i64 = 86_400;
/// 2026-11-26 at noon.
pub const NOON_S: i64 = 1_795_694_400;

/// The world, the classes of its stores, and the seconds of its clock.
pub fn aging_world() -> (World, Classes, Arc<AtomicI64>) {
    let classes = Classes::default();
    let of_store = classes.clone();
    let wrap: Wrap = Arc::new(move |store| Arc::new(of_store.store(store)));
    let quiet = Settings { collect_grace_s: 0, collect_interval_s: 3_600, ..settings() };
    let mut world = World::with(quiet, Some(wrap));
    world.unmount().expect("unmounts");
    let now_s = Arc::new(AtomicI64::new(NOON_S));
    let told = now_s.clone();
    world.options.clock.now =
        Arc::new(move || UnixTime(told.load(Ordering::Acquire) * 1_000_000_000));
    world.mount().expect("mounts");
    (world, classes, now_s)
}
