//! What a link would do, told before it does it.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use common::lake::{EXPORTS, Lake};
use common::{World, noise};
use weir_engine::{LinkPlan, PlannedChange, PlannedExport, Policy, Wrap};
use weir_object::testing::{FaultControl, FaultPlan, FaultStore};
use weir_types::Ino;

use std::sync::Arc;

use parking_lot::Mutex;

#[test]
fn a_plan_counts_the_bucket_and_writes_nothing() {
    let lake = Lake::exporting();
    let puts = lake.puts();
    lake.put(".weir-probe-0", b"hidden");
    let options = weir_engine::LinkOptions { export: EXPORTS, ..lake.options(Policy::ALL) };
    let plan = lake.run(async { lake.engine().plan_link(options).await.expect("plans") });
    let want = LinkPlan { objects: 3, bytes: 3_000_011, hidden: 1, lists: 1, heads_most: 3 };
    assert_eq!(plan, want);
    assert_eq!(lake.puts(), puts);
    lake.sound();
}

/// A lake that is away while it should be.
fn away() -> (Lake, FaultControl) {
    let found: Arc<Mutex<Option<FaultControl>>> = Arc::default();
    let kept = found.clone();
    let wrap: Wrap = Arc::new(move |store| match store.to_string().ends_with("/lake") {
        true => {
            let store = FaultStore::new(store, &FaultPlan::default());
            kept.lock().replace(store.control());
            Arc::new(store)
        }
        false => store,
    });
    let lake = Lake::exporting_from(World::with(common::settings(), Some(wrap)), EXPORTS);
    let control = found.lock().clone().expect("made");
    (lake, control)
}

#[test]
fn what_waits_is_what_will_be_done() {
    let (lake, control) = away();
    lake.read("d/b");
    control.set_vanished(true);
    lake.write("d/b", 0, b"changed");
    lake.make(lake.dir, "new", b"made here");
    lake.make(lake.dir, "large", &noise(3, 20_000_000));
    lake.rename((lake.dir, "a"), (lake.dir, "a2"));
    lake.make(lake.dir, "gone", b"x");
    lake.run(async { lake.engine().unlink(lake.dir, b"gone").await.expect("unlinks") });
    let id = lake.view().id;
    let planned = lake.run(async { lake.engine().planned_exports(id, 100).await.expect("plans") });
    assert!(!planned.more);
    let mut told: Vec<_> = planned.exports.iter().map(told).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            (PlannedChange::Put, "d/b", None, 3_000_000, 1),
            (PlannedChange::Put, "large", None, 20_000_000, 5),
            (PlannedChange::Put, "new", None, 9, 1),
            (PlannedChange::Copy, "a2", Some("a"), 5, 1),
        ]
    );
    let some = lake.run(async { lake.engine().planned_exports(id, 2).await.expect("plans") });
    assert_eq!((some.exports.len(), some.more), (2, true));
    control.set_vanished(false);
    lake.settled();
    let planned = lake.run(async { lake.engine().planned_exports(id, 100).await.expect("plans") });
    assert_eq!(planned.exports, []);
    // Deletions, too, and what leaves.
    control.set_vanished(true);
    lake.run(async { lake.engine().unlink(lake.dir, b"new").await.expect("unlinks") });
    lake.rename((lake.dir, "large"), (Ino::ROOT, "out"));
    let planned = lake.run(async { lake.engine().planned_exports(id, 100).await.expect("plans") });
    let mut told: Vec<_> = planned.exports.iter().map(told_key).collect();
    told.sort_unstable();
    assert_eq!(told, [(PlannedChange::Delete, "large"), (PlannedChange::Delete, "new")]);
    control.set_vanished(false);
    lake.settled();
    assert_eq!((lake.stored("large"), lake.stored("new")), (None, None));
    assert!(lake.stored("a2").is_some() && lake.stored("a").is_none());
    lake.sound();
}

fn told(export: &PlannedExport) -> (PlannedChange, &str, Option<&str>, u64, u64) {
    (export.change, export.key.as_str(), export.from.as_deref(), export.bytes, export.puts)
}

fn told_key(export: &PlannedExport) -> (PlannedChange, &str) {
    (export.change, export.key.as_str())
}
