//! Objects of links move into cheaper storage classes by rules of directories in the link.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use common::aging::{DAY_S, aging_world};
use common::lake::{EXPORTS, Lake};
use common::trees::act;
use common::{noise, read_all};
use weir_engine::{ActionKind, LifecyclePlan, LifecycleView, Policy};
use weir_object::testing::Classes;
use weir_object::{Component, RequestKind};
use weir_types::StorageClass::{GlacierIr, StandardIa};
use weir_types::{ErrorKind, FsError, Ino, StorageClass};

const MIB: usize = 1 << 20;
const RULE: &str = "cold after 30d: STANDARD_IA; after 180d: GLACIER_IR";

/// A linked bucket that has classes, and a clock that goes when it is told to.
struct Lakes {
    lake: Lake,
    classes: Classes,
    now_s: Arc<AtomicI64>,
}

impl Lakes {
    fn new(export: Policy) -> Self {
        let (world, classes, now_s) = aging_world();
        Self { lake: Lake::exporting_from(world, export), classes, now_s }
    }

    /// An object of another program's, so many days old.
    fn put(&self, key: &str, bytes: usize, days: i64) {
        self.lake.put(key, &noise(7, bytes));
        let written = self.now_s.load(Ordering::Acquire) - days * DAY_S;
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(written.cast_unsigned());
        let file = File::options().write(true).open(self.lake.object(key)).expect("is there");
        file.set_modified(written).expect("sets");
    }

    fn refresh(&self) {
        // It is over once it is later than it was.
        self.now_s.fetch_add(1, Ordering::AcqRel);
        self.lake.refresh_all();
    }

    fn set(&self, dir: Ino, rule: &str) -> Result<LifecycleView, FsError> {
        let rule = rule.parse().expect("it is a rule");
        self.lake.run(self.lake.engine().set_lifecycle(dir, Some(rule)))
    }

    fn plan(&self, dir: Ino, rule: &str) -> LifecyclePlan {
        let rule = rule.parse().expect("it is a rule");
        self.lake.run(self.lake.engine().plan_lifecycle(dir, Some(rule))).expect("plans")
    }

    fn pass_after(&self, days: i64) -> LifecycleView {
        self.noted();
        self.now_s.fetch_add(days * DAY_S, Ordering::AcqRel);
        self.lake.run(self.lake.engine().lifecycle_pass_now()).expect("passes");
        self.lake.run(self.lake.engine().lifecycle()).expect("says")
    }

    /// What was read is noted.
    fn noted(&self) -> [weir_engine::ColdTotals; 3] {
        self.lake.run(self.lake.engine().used_here_since(None)).used.cold
    }

    /// Reads a file from the bucket. Nothing is released of one that somebody has just closed.
    fn read(&self, path: &str, bytes: usize) {
        let (engine, ino) = (self.lake.engine(), self.lake.find(path).expect(path));
        let gets = || {
            let row = engine.meter().snapshot();
            row.row(Component::Link, RequestKind::Get).map_or(0, |row| row.requests)
        };
        let before = gets();
        for _ in 0..100 {
            self.lake.run(act(&engine, ActionKind::Release, ino));
            let read = self.lake.run(read_all(&engine, ino)).expect("reads");
            assert!(read == noise(7, bytes), "other bytes");
            if gets() > before {
                break;
            }
            self.lake.rest(20);
        }
        assert!(gets() > before, "it is not read from the bucket");
        // What a read ahead brings is of this day, too.
        let mut last = 0;
        while last != gets() {
            last = gets();
            self.lake.rest(100);
        }
        self.noted();
    }

    /// Keys of the linked bucket and of the volume's that are not in the first class.
    fn cold(&self) -> Vec<(String, StorageClass)> {
        let short =
            |key: String| key.rsplit_once("lake/").map_or(key.clone(), |(_, k)| k.to_owned());
        self.classes.cold().into_iter().map(|(key, class)| (short(key), class)).collect()
    }
}

fn cold(keys: &[(&str, StorageClass)]) -> Vec<(String, StorageClass)> {
    keys.iter().map(|(key, class)| ((*key).to_owned(), *class)).collect()
}

#[test]
fn objects_of_a_link_move_by_its_own_rules_and_stay_the_files_that_they_are() {
    for other_etags in [false, true] {
        let it = Lakes::new(EXPORTS);
        if other_etags {
            it.classes.change_etags();
        }
        it.put("old", MIB, 20);
        it.put("ref/old", MIB, 20);
        it.put("small", 100, 20);
        it.put("young", MIB, 0);
        it.refresh();
        let before: Vec<_> = ["old", "young"].map(|name| it.lake.find(name)).into();
        // A rule above the link is for the volume's own objects.
        it.set(Ino::ROOT, "cold after 1d: GLACIER_IR").expect("sets");
        let view = it.pass_after(0);
        assert_eq!((view.objects.looked, it.cold()), (0, cold(&[])));
        let plan = it.plan(it.lake.dir, "cold after 7d: STANDARD_IA");
        assert_eq!((plan.moves.len(), plan.moves[0].objects, plan.moves[0].to), (1, 2, StandardIa));
        for never in ["ref", "d"] {
            it.set(it.lake.find(never).expect("is there"), "never").expect("sets");
        }
        let view = it.set(it.lake.dir, RULE).expect("sets");
        let links: Vec<_> = view.rules.iter().map(|rule| rule.link.is_some()).collect();
        assert_eq!(links, [false, true, true, true]);
        let view = it.pass_after(20);
        assert_eq!(it.cold(), cold(&[("old", StandardIa)]));
        assert_eq!((view.objects.moved, view.objects.moved_bytes), (1, MIB as u64));
        assert_eq!((view.object_classes.len(), view.object_classes[0].bytes), (1, MIB as u64));

        // It is the same file, also for who looks at the bucket.
        it.refresh();
        let after: Vec<_> = ["old", "young"].map(|name| it.lake.find(name)).into();
        assert_eq!(before, after, "with other ETags: {other_etags}");
        it.read("old", MIB);
        assert!(it.noted()[0].read_bytes >= MIB as u64);
        assert_eq!(it.pass_after(20).objects.moved, 1, "young is 40 days old");
        // What was read counts from that day on, not from the day on which it moved.
        it.pass_after(139);
        assert_eq!(it.cold(), cold(&[("old", StandardIa), ("young", StandardIa)]));
        it.pass_after(1);
        assert_eq!(it.cold(), cold(&[("old", StandardIa), ("young", GlacierIr)]));
        it.pass_after(20);
        assert_eq!(it.cold(), cold(&[("old", GlacierIr), ("young", GlacierIr)]));

        // What is changed here is another object, in the first class, and young.
        it.lake.write("young", 0, b"changed");
        it.lake.exported();
        assert!(it.lake.stored("young").expect("is there").starts_with(b"changed"));
        assert_eq!(it.pass_after(0).object_classes[0].bytes, MIB as u64);
        assert_eq!(it.cold(), cold(&[("old", GlacierIr)]));
        it.lake.run(async {
            it.lake.engine().unlink(it.lake.dir, b"old").await.expect("removes");
        });
        it.lake.exported();
        assert_eq!(it.pass_after(0).object_classes, []);
        assert_eq!(it.lake.conflicts(), Vec::<String>::new());
        it.lake.sound();
    }
}

#[test]
fn what_is_read_comes_back_where_the_rule_says_so() {
    let it = Lakes::new(EXPORTS);
    it.put("old", MIB, 40);
    it.refresh();
    it.set(it.lake.dir, "cold after 30d: GLACIER_IR; back when read").expect("sets");
    it.pass_after(0);
    assert_eq!(it.cold(), cold(&[("old", GlacierIr)]));
    it.now_s.fetch_add(10 * DAY_S, Ordering::AcqRel);
    it.read("old", MIB);
    it.pass_after(0);
    assert_eq!(it.cold(), cold(&[]));
    assert_eq!(it.noted()[2].early_byte_days, 80 * MIB as u64, "80 of 90 days are left");
    it.lake.sound();
}

#[test]
fn what_others_did_to_an_object_stays_as_it_is() {
    let it = Lakes::new(EXPORTS);
    for key in ["replaced", "gone", "colder", "changed"] {
        it.put(key, MIB, 20);
    }
    it.refresh();
    it.set(it.lake.dir, RULE).expect("sets");
    let full = it.lake.object("colder");
    it.classes.put(full.to_str().expect("text").trim_start_matches('/'), GlacierIr);
    it.classes.put("colder", GlacierIr);
    it.put("replaced", MIB + 1, 20);
    it.lake.delete("gone");
    let (engine, changed) = (it.lake.engine(), it.lake.find("changed").expect("is there"));
    // Written and not exported yet, as long as somebody has it open.
    let open = it.lake.run(async {
        let open = engine.open(changed, common::WRITE).await.expect("opens");
        engine.write(&open, 0, b"new").await.expect("writes");
        open
    });
    let view = it.pass_after(20);
    assert_eq!((view.objects.moved, view.objects.refused), (0, 0), "{view:?}");
    assert_eq!(view.object_classes[0].class, GlacierIr, "what is found is known");
    it.lake.run(engine.close(open)).expect("closes");
    it.lake.exported();
    drop(engine);
    it.lake.sound();
}

#[test]
fn a_link_that_does_not_export_takes_no_rule() {
    let it = Lakes::new(Policy::default());
    it.put("old", MIB, 40);
    it.refresh();
    let refused = it.set(it.lake.dir, RULE).expect_err("it writes nothing");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("does not export"), "{refused}");
    assert_eq!(it.cold(), cold(&[]));
    it.lake.sound();
}
