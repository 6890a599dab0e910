//! Generated operations on a volume with snapshots, clones, backups and quotas against a model of it: whatever is
//! written, cut, copied, removed, collected, deleted or killed, each snapshot and each clone has the bytes that it
//! was made with, quotas count what is there, and when all are gone nothing is left.
//!
//! `WEIR_SEED=N` repeats one run; `WEIR_SOAK=N` goes on for N minutes.
#![allow(clippy::disallowed_methods, reason = "the collector is told when to look, by no clock")]

#[path = "snapshots_model/backups.rs"]
mod backups;
#[path = "snapshots_model/cloned.rs"]
mod cloned;
mod common;
#[path = "snapshots_model/lost.rs"]
mod lost;
#[path = "snapshots_model/quotas.rs"]
mod quotas;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cloned::Cloned;
use common::{WRITE, World, create, noise, read_all, settings};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{Engine, OpenFlags, SnapshotOptions};
use weir_types::{ErrorKind, Ino, Settings, UnixTime};

const FILES: u64 = 6;
const FILE_BYTES_MAX: usize = 3 << 20;
const SNAPSHOTS_MAX: usize = 6;

type Tree = BTreeMap<String, Vec<u8>>;

struct Run {
    world: World,
    now: Tree,
    snapshots: BTreeMap<String, Tree>,
    backups: BTreeMap<String, Tree>,
    clones: BTreeMap<String, Cloned>,
    /// Limits of bytes, 0 for none, by the place of their subjects.
    quotas: BTreeMap<usize, u64>,
    /// Not all may count for one of them yet.
    counting: bool,
    /// Snapshots that have a dump, as long as they are there.
    dumps: BTreeSet<String>,
    rng: StdRng,
    unix_ms: Arc<AtomicU64>,
    seed: u64,
    step: u64,
}

fn options(name: &str) -> SnapshotOptions {
    SnapshotOptions { name: name.to_owned(), flush: true, rule: None }
}

async fn ino_of(engine: &Arc<Engine>, dir: Ino, name: &str) -> Ino {
    engine.lookup(dir, name.as_bytes()).await.expect("it is there").ino
}

async fn snapshot_root(engine: &Arc<Engine>, name: &str) -> Ino {
    let all = ino_of(engine, Ino::ROOT, ".snapshots").await;
    ino_of(engine, all, name).await
}

impl Run {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        let told = Settings { collect_interval_s: 3_600, collect_grace_s: 0, ..settings() };
        let mut world = World::by_seed(seed, told, None);
        world.unmount().expect("unmounts");
        let unix_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
        let time = unix_ms.clone();
        world.options.clock.now =
            Arc::new(move || UnixTime(time.load(Ordering::Relaxed) as i64 * 1_000_000));
        world.mount().expect("mounts");
        let rng = StdRng::seed_from_u64(seed);
        let (now, snapshots, backups) = (Tree::new(), BTreeMap::new(), BTreeMap::new());
        let (dumps, clones, quotas) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (step, counting) = (0, false);
        Self {
            world,
            now,
            snapshots,
            backups,
            clones,
            quotas,
            counting,
            dumps,
            rng,
            unix_ms,
            seed,
            step,
        }
    }

    fn place(&self) -> String {
        format!("seed {} step {}", self.seed, self.step)
    }

    fn name(&mut self) -> String {
        format!("f{}", self.rng.random_range(0..FILES))
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            self.step += 1;
            // Clocks go on, mostly.
            let ahead = self.rng.random_range(0..4) > 0;
            let by = self.rng.random_range(0..40_000_000);
            match ahead {
                true => self.unix_ms.fetch_add(by, Ordering::Relaxed),
                false => self.unix_ms.fetch_sub(by, Ordering::Relaxed),
            };
            match self.rng.random_range(0..100) {
                0..27 => self.write(),
                27..30 => self.back_up(),
                30 => self.delete_backup(),
                31 => self.restore_backup(),
                32 => self.clone_one(),
                33 => self.use_clone(),
                34..36 => self.set_quota(),
                36..39 => self.truncate(),
                39..44 => self.unlink(),
                44..50 => self.copy(),
                50..54 => self.flush(),
                54..56 => self.dump(),
                56..58 => self.lose(),
                58..68 => self.snapshot(),
                68..73 => self.delete(),
                73..83 => self.collect(),
                83..88 => self.check_one(),
                88..91 => self.restore(),
                91..94 => {
                    self.world.run(self.world.engine().release_all()).expect("releases");
                }
                94..97 => {
                    self.world.kill();
                    self.world.mount().expect("mounts");
                }
                _ => {
                    self.world.unmount().expect("unmounts");
                    self.world.mount().expect("mounts");
                }
            }
        }
        self.check_all();
    }

    fn write(&mut self) {
        let name = self.name();
        let engine = self.world.engine();
        if !self.now.contains_key(&name) {
            self.world.run(create(&engine, &name, b""));
            self.now.insert(name.clone(), Vec::new());
        }
        let size = self.now[&name].len();
        let at = self.rng.random_range(0..=size.min(FILE_BYTES_MAX - 1));
        let most = (FILE_BYTES_MAX - at).min(1 << 20);
        let bytes = noise(self.step, self.rng.random_range(1..=most));
        let end = at + bytes.len();
        let wrote = self.world.run(async {
            let ino = ino_of(&engine, Ino::ROOT, &name).await;
            let file = engine.open(ino, WRITE).await.expect("opens");
            let wrote = engine.write(&file, at as u64, &bytes).await;
            engine.close(file).await.expect("closes");
            wrote
        });
        self.judge(end.saturating_sub(size) as u64, wrote.as_ref().err());
        if wrote.is_ok() {
            let content = self.now.get_mut(&name).expect("it is there");
            content.resize(size.max(end), 0);
            content[at..end].copy_from_slice(&bytes);
        }
    }

    fn truncate(&mut self) {
        let name = self.name();
        let Some(content) = self.now.get_mut(&name) else { return };
        let size = self.rng.random_range(0..=content.len());
        content.truncate(size);
        let engine = self.world.engine();
        self.world.run(async {
            let ino = ino_of(&engine, Ino::ROOT, &name).await;
            engine.truncate(ino, size as u64).await.expect("cuts");
        });
    }

    fn unlink(&mut self) {
        let name = self.name();
        if self.now.remove(&name).is_some() {
            let engine = self.world.engine();
            self.world.run(engine.unlink(Ino::ROOT, name.as_bytes())).expect("removes");
        }
    }

    /// All of a file, onto another one that takes its place.
    fn copy_from(&mut self, dir: Option<String>, from: &str, to: &str, mut content: Vec<u8>) {
        if dir.is_none() && from == to {
            return;
        }
        let engine = self.world.engine();
        let is_new = !self.now.contains_key(to);
        let place = self.place();
        let (done, refused) = self.world.run(async {
            if is_new {
                create(&engine, to, b"").await;
            }
            let onto = ino_of(&engine, Ino::ROOT, to).await;
            engine.truncate(onto, 0).await.expect("cuts");
            let dir = match &dir {
                Some(snapshot) => snapshot_root(&engine, snapshot).await,
                None => Ino::ROOT,
            };
            let source = ino_of(&engine, dir, from).await;
            let mut done = 0;
            while done < content.len() as u64 {
                let left = content.len() as u64 - done;
                match engine.copy_range((source, done), (onto, done), left, 0).await {
                    Ok(0) => panic!("{place}: it ends at {done}"),
                    Ok(copied) => done += copied,
                    Err(error) => return (done, Some(error)),
                }
            }
            (done, None)
        });
        let left = content.split_off(done as usize);
        self.now.insert(to.to_owned(), content);
        match &refused {
            Some(_) => self.judge(left.len() as u64, refused.as_ref()),
            None => self.judge(0, None),
        }
    }

    fn copy(&mut self) {
        let (from, to) = (self.name(), self.name());
        if let Some(content) = self.now.get(&from).cloned() {
            self.copy_from(None, &from, &to, content);
        }
    }

    fn some_snapshot(&mut self) -> Option<String> {
        let count = self.snapshots.len();
        let at = if count == 0 { return None } else { self.rng.random_range(0..count) };
        self.snapshots.keys().nth(at).cloned()
    }

    fn restore(&mut self) {
        let Some(snapshot) = self.some_snapshot() else { return };
        let (from, to) = (self.name(), self.name());
        if let Some(content) = self.snapshots[&snapshot].get(&from).cloned() {
            self.copy_from(Some(snapshot), &from, &to, content);
        }
    }

    fn flush(&mut self) {
        self.world.run(self.world.engine().flush_all()).expect("flushes");
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() >= SNAPSHOTS_MAX {
            self.delete();
        }
        let name = format!("s{}", self.step);
        let engine = self.world.engine();
        self.world.run(engine.create_snapshot(&options(&name))).expect("a snapshot");
        self.snapshots.insert(name, self.now.clone());
    }

    fn delete(&mut self) {
        let Some(name) = self.some_snapshot() else { return };
        let deleted = self.world.run(self.world.engine().delete_snapshot(&name));
        match self.is_cloned(&name) {
            true => assert_eq!(deleted.expect_err("is held").kind(), ErrorKind::Permission),
            false => {
                deleted.expect("deletes");
                self.snapshots.remove(&name);
            }
        }
    }

    fn collect(&mut self) {
        self.world.run(self.world.engine().collect_now()).expect("collects");
    }

    fn check_one(&mut self) {
        if let Some(name) = self.some_snapshot() {
            self.check(&name);
        }
    }

    fn check(&self, name: &str) {
        let (engine, place) = (self.world.engine(), self.place());
        let want = &self.snapshots[name];
        self.world.run(async {
            let root = snapshot_root(&engine, name).await;
            let listed = engine.readdir(root, 0, 100).await.expect("lists");
            let mut names: Vec<_> = listed.iter().map(|entry| entry.name.clone()).collect();
            names.sort_unstable();
            let wanted: Vec<_> = want.keys().map(|name| name.clone().into_bytes()).collect();
            assert_eq!(names, wanted, "{place}: the names of {name}");
            for (file, content) in want {
                let ino = ino_of(&engine, root, file).await;
                let read = read_all(&engine, ino).await;
                let read = read.unwrap_or_else(|e| panic!("{place}: {name}/{file}: {e}"));
                assert!(read == *content, "{place}: {name}/{file} is another one");
            }
        });
    }

    fn check_all(&self) {
        for name in self.snapshots.keys() {
            self.check(name);
        }
        let engine = self.world.engine();
        self.world.run(async {
            for (file, content) in &self.now {
                let ino = ino_of(&engine, Ino::ROOT, file).await;
                let read = read_all(&engine, ino).await.expect("reads");
                assert!(read == *content, "{}: {file} is another one", self.place());
            }
        });
        self.check_quotas();
    }

    /// Once all is removed, nothing is left in the bucket.
    fn end(&mut self) {
        self.end_backups();
        self.end_clones();
        self.sweep();
        self.world.unmount().expect("unmounts");
        self.world.fsck();
        self.world.mount().expect("mounts");
        self.world.run(self.world.engine().release_all()).expect("releases");
        self.check_all();
        for name in std::mem::take(&mut self.snapshots).into_keys() {
            self.world.run(self.world.engine().delete_snapshot(&name)).expect("deletes");
        }
        for name in std::mem::take(&mut self.now).into_keys() {
            let engine = self.world.engine();
            self.world.run(engine.unlink(Ino::ROOT, name.as_bytes())).expect("removes");
        }
        self.world.unmount().expect("unmounts");
        self.world.mount().expect("mounts");
        self.unix_ms.fetch_add(10_000_000_000, Ordering::Relaxed);
        // What a look takes a name from goes with the next one.
        (0..3).for_each(|_| self.collect());
        let left = common::still::objects_in(&self.world.path("bucket"));
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{}", self.place());
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn seeds() -> Vec<u64> {
    match number("WEIR_SEED") {
        Some(seed) => vec![seed],
        None => vec![1, 2, rand::random_range(3..u64::MAX)],
    }
}

#[test]
fn snapshots_keep_their_bytes_whatever_becomes_of_the_volume() {
    let (began, soak) =
        (Instant::now(), Duration::from_secs(60 * number("WEIR_SOAK").unwrap_or(0)));
    let mut seeds = seeds();
    while let Some(seed) = seeds.pop() {
        let mut run = Run::new(seed);
        run.steps(120);
        run.end();
        if seeds.is_empty() && began.elapsed() < soak {
            seeds.push(rand::random_range(3..u64::MAX));
        }
    }
}

#[test]
fn nobody_changes_what_is_in_a_snapshot() {
    let world = World::new();
    let engine = world.engine();
    world.run(async {
        let live = create(&engine, "f", b"as it was").await;
        engine.create_snapshot(&options("monday")).await.expect("a snapshot");
        let root = snapshot_root(&engine, "monday").await;
        let past = ino_of(&engine, root, "f").await;
        assert_ne!(past, live);
        assert_eq!(engine.parent(root).await.expect("a parent"), Ino::SNAPSHOTS);
        assert_eq!(engine.parent(Ino::SNAPSHOTS).await.expect("a parent"), Ino::ROOT);
        let refused = [
            engine.open(past, WRITE).await.map(drop),
            engine.open(past, OpenFlags { truncate: true, ..WRITE }).await.map(drop),
            engine.truncate(past, 0).await.map(drop),
            engine.setattr(past, weir_engine::SetAttr::default()).await.map(drop),
            engine.unlink(root, b"f").await,
            engine.rmdir(Ino::SNAPSHOTS, b"monday").await,
            engine.create(root, b"g", common::new_file()).await.map(drop),
            engine.create(Ino::SNAPSHOTS, b"g", common::new_dir()).await.map(drop),
            engine.link(past, Ino::ROOT, b"g").await.map(drop),
            engine.link(live, root, b"g").await.map(drop),
            engine.rename((root, b"f"), (Ino::ROOT, b"g"), weir_engine::RenameMode::Replace).await,
            engine.rename((Ino::ROOT, b"f"), (root, b"g"), weir_engine::RenameMode::Replace).await,
            engine.xattr_set(past, b"user.a", b"", weir_engine::XattrMode::Any).await,
            engine.copy_range((live, 0), (past, 0), 4, 0).await.map(drop),
        ];
        for (at, result) in refused.into_iter().enumerate() {
            let error = result.expect_err("nobody changes it");
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{at}: {error}");
        }
        assert!(!engine.note_read(past).await.expect("no time changes"));
        let taken = engine.create(Ino::ROOT, b".snapshots", common::new_dir()).await;
        assert_eq!(taken.expect_err("the name is taken").kind(), ErrorKind::Permission);
        assert_eq!(read_all(&engine, past).await.expect("reads"), b"as it was");
        let listed = engine.readdir(Ino::ROOT, 0, 10).await.expect("lists");
        assert_eq!(listed.len(), 1, "no listing shows the directory");
        let again = engine.create_snapshot(&options("monday")).await;
        assert_eq!(again.expect_err("the name is taken").kind(), ErrorKind::Exists);
        engine.hold_snapshot("monday", true).await.expect("holds");
        let held = engine.delete_snapshot("monday").await.expect_err("it is held");
        assert_eq!(held.kind(), ErrorKind::Permission);
        engine.hold_snapshot("monday", false).await.expect("lets go");
        engine.delete_snapshot("monday").await.expect("deletes");
        assert_eq!(engine.getattr(past).await.expect_err("gone").kind(), ErrorKind::NotFound);
        for name in ["", ".", "a/b", "-a", "a b", "ä", &"a".repeat(129)] {
            let error = engine.create_snapshot(&options(name)).await.expect_err("no name");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        }
    });
}

#[test]
fn a_snapshot_tells_what_it_holds_alone() {
    let told = Settings { collect_interval_s: 3_600, collect_grace_s: 0, ..settings() };
    let mut world = World::with(told, None);
    let engine = world.engine();
    let sizes = |engine: &Arc<Engine>| {
        let all = world.run(engine.snapshots()).expect("lists");
        all.iter()
            .map(|one| (one.name.clone(), one.past_bytes, one.alone_bytes))
            .collect::<Vec<_>>()
    };
    world.run(create(&engine, "old", &noise(1, 1 << 20)));
    world.run(engine.create_snapshot(&options("one"))).expect("a snapshot");
    world.run(create(&engine, "new", &noise(2, 2 << 20)));
    world.run(engine.create_snapshot(&options("two"))).expect("a snapshot");
    assert!(sizes(&engine).iter().all(|(_, past, alone)| (*past, *alone) == (0, 0)));
    world.run(async {
        engine.unlink(Ino::ROOT, b"old").await.expect("removes");
        engine.unlink(Ino::ROOT, b"new").await.expect("removes");
        engine.flush_all().await.expect("flushes");
    });
    // The purge of what was removed goes on in the background.
    let began = std::time::Instant::now();
    loop {
        world.run(engine.collect_now()).expect("collects");
        let found = sizes(&engine);
        let (one, two) = (&found[0], &found[1]);
        if two.1 > 3 << 20 {
            assert!(one.1 > 1 << 20 && one.1 < 2 << 20, "{found:?}");
            assert_eq!(one.2, 0, "the second one has it too: {found:?}");
            assert!(two.2 > 2 << 20 && two.2 < 3 << 20, "{found:?}");
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{found:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    world.run(engine.delete_snapshot("two")).expect("deletes");
    (0..2).for_each(|_| world.run(engine.collect_now()).expect("collects"));
    let found = sizes(&engine);
    assert!(found.len() == 1 && found[0].1 > 1 << 20 && found[0].1 == found[0].2, "{found:?}");
    let left = common::still::objects_in(&world.path("bucket")).len();
    assert_eq!(left, 1, "what only the deleted one had is gone");
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
}
