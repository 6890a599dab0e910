//! Snapshots that are made and deleted by themselves, by a clock of the test's own.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::World;
use weir_engine::{ScheduleView, SnapshotOptions, SnapshotPeriod, SnapshotRule};
use weir_types::{ErrorKind, UnixTime};

const HOUR_S: i64 = 3_600;
/// 2026-11-26, a Thursday, at noon.
const NOON_S: i64 = 1_795_694_400;

/// A volume, and a clock that goes when it is told to.
struct Scheduled {
    world: World,
    now_s: Arc<AtomicI64>,
}

fn rule(every: SnapshotPeriod, keep: u32) -> SnapshotRule {
    SnapshotRule { every, keep }
}

impl Scheduled {
    fn new() -> Self {
        let mut world = World::new();
        world.unmount().expect("unmounts");
        let now_s = Arc::new(AtomicI64::new(NOON_S));
        let told = now_s.clone();
        world.options.clock.now =
            Arc::new(move || UnixTime(told.load(Ordering::Acquire) * 1_000_000_000));
        world.mount().expect("mounts");
        Self { world, now_s }
    }

    fn set(&self, rules: &[SnapshotRule]) -> ScheduleView {
        let set = self.world.engine().clone();
        self.world.run(set.set_snapshot_schedule(rules.to_vec(), false)).expect("sets")
    }

    /// It is looked at this time.
    fn look_at(&self, now_s: i64) {
        self.now_s.store(now_s, Ordering::Release);
        self.world.run(self.world.engine().make_due_snapshots()).expect("makes what is due");
    }

    fn names(&self) -> Vec<String> {
        let all = self.world.run(self.world.engine().snapshots()).expect("lists");
        all.into_iter().map(|one| one.name).collect()
    }

    fn create(&self, name: &str, rule: Option<&str>) {
        let rule = rule.map(str::to_owned);
        let options = SnapshotOptions { name: name.to_owned(), flush: true, rule };
        self.world.run(self.world.engine().create_snapshot(&options)).expect("makes");
    }
}

#[test]
fn each_period_has_one_and_the_newest_are_kept() {
    let it = Scheduled::new();
    it.look_at(NOON_S);
    assert!(it.names().is_empty(), "there is no schedule");
    let view = it.set(&[rule(SnapshotPeriod::Hourly, 2), rule(SnapshotPeriod::Daily, 7)]);
    assert!(view.rules.iter().all(|rule| rule.next.0 == NOON_S * 1_000_000_000), "now: {view:?}");
    it.create("mine", None);
    for seconds in [0, 20, 3_599] {
        it.look_at(NOON_S + seconds);
    }
    assert_eq!(it.names(), ["mine", "hourly-2026-11-26T12:00Z", "daily-2026-11-26"]);
    it.world.run(it.world.engine().hold_snapshot("hourly-2026-11-26T12:00Z", true)).expect("holds");
    for hours in 1..=13 {
        it.look_at(NOON_S + hours * HOUR_S + 7);
    }
    let late = [
        "mine",
        "hourly-2026-11-26T12:00Z",
        "daily-2026-11-26",
        "hourly-2026-11-27T00:00Z",
        "daily-2026-11-27",
        "hourly-2026-11-27T01:00Z",
    ];
    assert_eq!(it.names(), late, "the one that is held, two more, and each day's");
    let view = it.world.run(it.world.engine().snapshot_schedule()).expect("tells");
    let told: Vec<_> = view.rules.iter().map(|rule| (rule.snapshots, rule.next.0)).collect();
    let next = |hours: i64| (NOON_S + hours * HOUR_S) * 1_000_000_000;
    assert_eq!((told, view.trouble), (vec![(3, next(14)), (2, next(36))], None));

    let fewer = it.set(&[rule(SnapshotPeriod::Hourly, 1)]);
    assert_eq!(fewer.rules[0].snapshots, 2);
    it.look_at(NOON_S + 13 * HOUR_S + 1_800);
    let left = ["mine", late[1], late[2], late[4], late[5]];
    assert_eq!(it.names(), left, "what a rule made that went stays");
    it.set(&[]);
    it.look_at(NOON_S + 100 * HOUR_S);
    assert_eq!(it.names(), left, "there is no schedule any more");
}

#[test]
fn clocks_that_jump_and_mounts_that_were_away_make_one() {
    let mut it = Scheduled::new();
    it.set(&[rule(SnapshotPeriod::Hourly, 3)]);
    it.look_at(NOON_S);
    let overdue_s = |it: &Scheduled| {
        it.world.run(it.world.engine().snapshot_schedule()).expect("tells").rules[0].overdue_s
    };
    it.now_s.store(NOON_S + HOUR_S - 1, Ordering::Release);
    assert_eq!(overdue_s(&it), 0);
    it.now_s.store(NOON_S + HOUR_S + 77, Ordering::Release);
    assert_eq!(overdue_s(&it), 77);
    it.world.unmount().expect("unmounts");
    it.now_s.store(NOON_S + 50 * HOUR_S, Ordering::Release);
    it.world.mount().expect("mounts");
    it.look_at(NOON_S + 50 * HOUR_S);
    assert_eq!(it.names(), ["hourly-2026-11-26T12:00Z", "hourly-2026-11-28T14:00Z"]);
    // Back by a little nothing is made; by much, the clock was wrong before.
    it.look_at(NOON_S + 49 * HOUR_S);
    assert_eq!(it.names().len(), 2);
    it.look_at(NOON_S + HOUR_S);
    it.look_at(NOON_S);
    assert_eq!(it.names().len(), 3, "{:?}", it.names());
    // There is one of that name already.
    it.look_at(NOON_S + 10_000 * HOUR_S);
    it.look_at(NOON_S + 9_000 * HOUR_S);
    let names = it.names();
    assert_eq!(names.len(), 3);
    assert_eq!(names[0], "hourly-2026-11-26T13:00Z", "the older ones went, by number: {names:?}");
    it.world.unmount().expect("unmounts");
    it.world.fsck();
}

#[test]
fn one_that_was_made_and_not_noted_is_not_made_again() {
    let mut it = Scheduled::new();
    it.set(&[rule(SnapshotPeriod::Daily, 1)]);
    it.create("daily-2026-11-25", Some("daily"));
    it.create("daily-2026-11-26", Some("daily"));
    it.world.kill();
    it.world.mount().expect("mounts");
    it.look_at(NOON_S);
    assert_eq!(it.names(), ["daily-2026-11-26"], "noted, and the one before is too many");
    it.look_at(NOON_S + 24 * HOUR_S);
    assert_eq!(it.names(), ["daily-2026-11-27"]);
}

#[test]
fn what_is_no_schedule_is_refused() {
    let mut it = Scheduled::new();
    let engine = it.world.engine();
    let two = vec![rule(SnapshotPeriod::Daily, 1), rule(SnapshotPeriod::Daily, 2)];
    for wrong in [two, vec![rule(SnapshotPeriod::Daily, 0)]] {
        let error = it.world.run(engine.set_snapshot_schedule(wrong, false)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    drop(engine);
    it.world.unmount().expect("unmounts");
    it.world.options.read_only = true;
    it.world.mount().expect("mounts");
    let engine = it.world.engine();
    let rules = vec![rule(SnapshotPeriod::Daily, 1)];
    it.world
        .run(engine.set_snapshot_schedule(rules, false))
        .expect_err("it is mounted for reading");
    assert_eq!(it.world.run(engine.snapshot_schedule()).expect("tells"), ScheduleView::default());
}
