//! What is not used moves into cheaper storage classes, by a clock of the test's own.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::aging::{DAY_S, aging_world};
use common::trees::{act, data_gets, put};
use common::{World, noise, read_all};
use weir_engine::testing::new_dir;
use weir_engine::{ActionKind, ColdTotals, Engine, LifecyclePlan, LifecycleView, SnapshotOptions};
use weir_object::testing::Classes;
use weir_types::{ErrorKind, FsError, Ino, StorageClass};

const MIB: usize = 1 << 20;

/// A volume in a store that has classes, and a clock that goes when it is told to.
struct Aging {
    world: World,
    classes: Classes,
    now_s: Arc<AtomicI64>,
}

impl Aging {
    fn new() -> Self {
        let (world, classes, now_s) = aging_world();
        Self { world, classes, now_s }
    }

    fn set(&self, dir: Ino, rule: &str) -> Result<LifecycleView, FsError> {
        let rule = rule.parse().expect("it is a rule");
        self.world.run(self.world.engine().set_lifecycle(dir, Some(rule)))
    }

    fn plan(&self, dir: Ino, rule: &str) -> LifecyclePlan {
        let rule = rule.parse().expect("it is a rule");
        self.world.run(self.world.engine().plan_lifecycle(dir, Some(rule))).expect("plans")
    }

    fn view(&self) -> LifecycleView {
        self.world.run(self.world.engine().lifecycle()).expect("says")
    }

    /// So many days later it is looked at.
    fn pass_after(&self, days: i64) {
        // What a read ahead brought since is of this day, too.
        self.used();
        self.now_s.fetch_add(days * DAY_S, Ordering::AcqRel);
        self.world.run(self.world.engine().lifecycle_pass_now()).expect("passes");
    }

    fn collect(&self) {
        self.world.run(self.world.engine().collect_now()).expect("collects");
    }

    /// Removed files are purged when nobody waits for it.
    fn collect_until(&self, done: impl Fn() -> bool) {
        for _ in 0..600 {
            self.world.run(self.world.engine().flush_all()).expect("flushes");
            self.collect();
            if done() {
                return;
            }
            let pause = std::time::Duration::from_millis(50);
            self.world.run(async { tokio::time::sleep(pause).await });
        }
        panic!("it is not collected");
    }

    /// Segments in the bucket.
    fn objects(&self) -> usize {
        common::still::objects_in(&self.world.path("bucket")).len()
    }

    fn dir(&self, name: &str) -> Ino {
        let engine = self.world.engine();
        let made = engine.create(Ino::ROOT, name.as_bytes(), new_dir());
        self.world.run(made).expect("makes").ino
    }

    /// A file that is in segments of its own.
    fn file(&self, dir: Ino, name: &str, bytes: usize) -> Ino {
        let engine = self.world.engine();
        self.world.run(async {
            let ino = put(&engine, dir, name, &noise(7, bytes)).await;
            engine.fsync(ino).await.expect("syncs");
            ino
        })
    }

    /// Reads a file from the bucket. Nothing is released of one that somebody has just closed.
    fn read(&self, ino: Ino, bytes: usize) {
        let engine = self.world.engine();
        let before = data_gets(&self.world).0;
        for _ in 0..100 {
            self.world.run(act(&engine, ActionKind::Release, ino));
            let read = self.world.run(read_all(&engine, ino)).expect("reads");
            assert!(read == noise(7, bytes), "other bytes");
            if data_gets(&self.world).0 > before {
                break;
            }
        }
        assert!(data_gets(&self.world).0 > before, "it is not read from the bucket");
        // It is noted now, and not on another day.
        self.used();
    }

    /// Classes of the objects that are in another one than the first, in order.
    fn cold(&self) -> Vec<StorageClass> {
        let mut cold: Vec<_> = self.classes.cold().into_values().collect();
        cold.sort_unstable();
        cold
    }

    /// Counters of the mount.
    fn used(&self) -> [ColdTotals; 3] {
        self.world.run(self.world.engine().used_here_since(None)).used.cold
    }

    fn sound(mut self) {
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

use StorageClass::{GlacierIr, StandardIa};

#[test]
fn what_nobody_reads_grows_cold_and_what_is_read_stays_warm() {
    let it = Aging::new();
    let rule = "cold after 30d: STANDARD_IA; after 180d: GLACIER_IR";
    assert!(it.view().rules.is_empty());
    let (a, b) = (it.file(Ino::ROOT, "a", MIB), it.file(Ino::ROOT, "b", MIB));
    it.set(Ino::ROOT, rule).expect("sets");
    assert_eq!(it.view().rules[0].text, rule);
    it.pass_after(29);
    assert_eq!(it.cold(), []);
    assert_eq!(it.plan(Ino::ROOT, "cold after 7d: GLACIER_IR").moves[0].objects, 2);
    it.read(a, MIB);
    it.pass_after(1);
    assert_eq!(it.cold(), [StandardIa], "a was read yesterday");
    assert_eq!(it.view().moved, 1);
    // The end of a read may be noted with the next pass.
    it.pass_after(31);
    assert_eq!(it.cold(), [StandardIa; 2]);
    it.read(b, MIB);
    it.pass_after(150);
    assert_eq!(it.cold(), [StandardIa, GlacierIr], "a was not read for 180 days, b for 150");

    let [ia, _, glacier] = it.used();
    assert_eq!((ia.moved, glacier.moved, glacier.requests), (2, 1, 0));
    assert!(ia.requests > 0 && ia.read_bytes >= MIB as u64, "{ia:?}");
    assert_eq!(ia.early_byte_days + glacier.early_byte_days, 0);
    assert_eq!(
        it.view().classes.iter().map(|of| of.class).collect::<Vec<_>>(),
        [StorageClass::Standard, StandardIa, GlacierIr]
    );
    // It leaves on the first of 90 days for which it is paid.
    it.world.run(it.world.engine().unlink(Ino::ROOT, b"a")).expect("removes");
    it.collect_until(|| it.cold() == [StandardIa]);
    assert!(it.used()[2].early_byte_days >= 90 * MIB as u64, "{:?}", it.used());
    it.read(b, MIB);
    it.sound();
}

#[test]
fn what_a_mount_reads_that_may_not_write_costs_as_much_and_keeps_nothing_warm() {
    let it = Aging::new();
    let a = it.file(Ino::ROOT, "a", MIB);
    it.set(Ino::ROOT, "cold after 30d: GLACIER_IR").expect("sets");
    it.pass_after(30);
    assert_eq!(it.cold(), [GlacierIr]);
    it.world.run(it.world.engine().flush_all()).expect("others see it then");
    let mut options = it.world.options.clone();
    (options.read_only, options.tier) = (true, it.world.path("reader"));
    let reader = Arc::new(it.world.run(Engine::mount(options)).expect("mounts"));
    let glacier = it.world.run(async {
        assert!(read_all(&reader, a).await.expect("reads") == noise(7, MIB));
        let mut glacier = ColdTotals::default();
        // The end of a read may be noted a moment later.
        for _ in 0..200 {
            glacier = reader.used_here_since(None).await.used.cold[2];
            if glacier.read_bytes >= MIB as u64 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        glacier
    });
    assert!(glacier.requests > 0 && glacier.read_bytes >= MIB as u64, "{glacier:?}");
    assert_eq!(it.used()[2].requests, 0, "it is no read of this mount");
    it.world.run(reader.shutdown()).expect("ends");
    it.set(Ino::ROOT, "cold after 30d: GLACIER_IR; back when read").expect("sets");
    it.pass_after(1);
    assert_eq!(it.cold(), [GlacierIr], "nothing of it is noted");
    it.sound();
}

#[test]
fn the_nearest_directory_says_and_files_of_several_come_apart() {
    let it = Aging::new();
    let (raw, reference) = (it.dir("raw"), it.dir("ref"));
    it.set(Ino::ROOT, "cold after 30d: STANDARD_IA").expect("sets");
    it.set(raw, "cold after 7d: GLACIER_IR").expect("sets");
    it.set(reference, "never").expect("sets");
    let text: Vec<_> = it.view().rules.iter().map(|rule| rule.path.clone()).collect();
    assert_eq!(text.into_iter().flatten().collect::<Vec<_>>(), ["/", "/raw", "/ref"]);
    let files = [(Ino::ROOT, "top"), (raw, "old"), (reference, "new")];
    let files = files.map(|(dir, name)| it.file(dir, name, MIB));
    // Small ones come together in one segment.
    let dirs = (0..16).map(|n| (if n % 4 == 0 { reference } else { raw }, format!("small-{n}")));
    let small: Vec<_> = dirs.map(|(dir, name)| it.file(dir, &name, MIB / 32)).collect();
    let engine = it.world.engine();
    let before = it.plan(raw, "cold after 7d: GLACIER_IR");
    assert_eq!((before.moves.len(), before.old), (0, 0), "nothing is old enough");
    it.pass_after(1);
    it.collect();
    let objects = it.objects();
    it.collect();
    assert_eq!((objects, it.objects()), (20, 4), "small ones are merged");
    it.pass_after(6);
    assert_eq!(it.cold(), [GlacierIr; 2], "what is in /raw, and what came apart, as old as before");
    assert_eq!(it.view().separated, 1);
    it.collect();
    assert_eq!(it.objects(), 5, "what it was is gone");
    it.pass_after(0);
    assert_eq!(it.cold(), [GlacierIr; 2]);
    it.pass_after(23);
    assert_eq!(it.cold(), [StandardIa, GlacierIr, GlacierIr]);
    it.pass_after(400);
    assert_eq!(it.cold(), [StandardIa, GlacierIr, GlacierIr], "/ref stays");
    let all = files.into_iter().map(|ino| (ino, MIB));
    let all = all.chain(small.into_iter().map(|ino| (ino, MIB / 32)));
    all.for_each(|(ino, bytes)| it.read(ino, bytes));
    // Rules of directories that are gone go with the next change.
    let gone = it.dir("gone");
    it.set(gone, "cold after 1d: STANDARD_IA").expect("sets");
    it.world.run(engine.rmdir(Ino::ROOT, b"gone")).expect("removes");
    let removed = it.world.run(engine.set_lifecycle(raw, None)).expect("removes");
    assert_eq!(removed.rules.len(), 2, "{removed:?}");
    let none = it.world.run(engine.set_lifecycle(raw, None));
    assert_eq!(none.expect_err("it has none").kind(), ErrorKind::NotFound);
    drop(engine);
    it.sound();
}

#[test]
fn what_only_snapshots_have_moves_in_its_place() {
    let it = Aging::new();
    it.set(Ino::ROOT, "cold after 30d: STANDARD_IA").expect("sets");
    let ino = it.file(Ino::ROOT, "a", MIB);
    let options = SnapshotOptions { name: "kept".to_owned(), flush: true, rule: None };
    let engine = it.world.engine();
    it.world.run(engine.create_snapshot(&options)).expect("keeps");
    it.world.run(engine.unlink(Ino::ROOT, b"a")).expect("removes");
    let held = || it.world.run(engine.snapshot_totals()).expect("says").bytes;
    it.collect_until(|| held() > 0);
    let objects = it.objects();
    it.pass_after(31);
    assert_eq!(it.cold(), [StandardIa]);
    assert_eq!(it.objects(), objects);
    let kept = it.world.run(async {
        let all = engine.lookup(Ino::ROOT, b".snapshots").await.expect("is there").ino;
        let one = engine.lookup(all, b"kept").await.expect("is there").ino;
        let past = engine.lookup(one, b"a").await.expect("is there").ino;
        read_all(&engine, past).await.expect("reads")
    });
    assert!(kept == noise(7, MIB) && ino != Ino::ROOT);
    drop(engine);
    it.sound();
}

#[test]
fn what_is_packed_anew_is_as_old_as_before() {
    let it = Aging::new();
    it.set(Ino::ROOT, "cold after 30d: GLACIER_IR").expect("sets");
    let names: Vec<_> = (0..16).map(|n| format!("small-{n}")).collect();
    let files: Vec<_> = names.iter().map(|name| it.file(Ino::ROOT, name, 16 << 10)).collect();
    it.pass_after(20);
    it.collect();
    it.collect();
    let objects = it.objects();
    assert_eq!(objects, 1, "small ones are merged");
    it.pass_after(9);
    assert_eq!(it.cold(), []);
    it.pass_after(1);
    assert_eq!(it.cold(), [GlacierIr], "30 days after they were written, not merged");
    files.into_iter().for_each(|ino| it.read(ino, 16 << 10));
    it.sound();
}

#[test]
fn what_is_read_again_moves_back_where_the_rule_says_so() {
    let it = Aging::new();
    it.set(Ino::ROOT, "cold after 30d: GLACIER_IR; back when read").expect("sets");
    let ino = it.file(Ino::ROOT, "a", MIB);
    it.pass_after(40);
    assert_eq!(it.cold(), [GlacierIr]);
    it.now_s.fetch_add(10 * DAY_S, Ordering::AcqRel);
    it.read(ino, MIB);
    it.pass_after(0);
    assert_eq!(it.cold(), []);
    let early = it.used()[2].early_byte_days;
    assert!((80 * MIB as u64..81 * MIB as u64).contains(&early), "80 of 90 days are left: {early}");
    it.sound();
}

#[test]
fn a_store_without_classes_takes_no_rule() {
    let it = Aging::new();
    it.classes.ignore();
    let rule = "cold after 30d: GLACIER_IR";
    assert_eq!(it.set(Ino::ROOT, rule).expect_err("it has none").kind(), ErrorKind::Unsupported);
    assert!(it.view().rules.is_empty());
    let file = it.file(Ino::ROOT, "a", MIB);
    assert_eq!(it.set(file, rule).expect_err("a file").kind(), ErrorKind::NotDirectory);
    assert_eq!(it.set(Ino(999), rule).expect_err("nothing").kind(), ErrorKind::NotFound);
    it.set(Ino::ROOT, "never").expect("asks for no class");
    let plain = World::new();
    let rule = rule.parse().expect("it is a rule");
    let set = plain.run(plain.engine().set_lifecycle(Ino::ROOT, Some(rule)));
    assert_eq!(set.expect_err("a directory has none").kind(), ErrorKind::Unsupported);
}
