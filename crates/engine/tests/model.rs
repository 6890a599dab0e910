//! Generated operations against a model in memory: after every one the volume is as the model
//! says, through flushes, releases, clean remounts and kills, with a sound bucket and a failing one.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{WRITE, World, new_dir, new_file, noise, read_all, settings};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{Engine, Fallocate, OpenFlags, RenameMode};
use weir_object::testing::{FaultPlan, FaultStore};
use weir_types::{Bytes, ErrorKind, Ino, Settings};

const FILES: usize = 12;
const SIZE_MAX: u64 = 3 << 20;

/// What the volume should hold: names in two directories, and the bytes of each file.
#[derive(Default)]
struct Model {
    names: BTreeMap<(usize, String), usize>,
    files: BTreeMap<usize, (Ino, Vec<u8>)>,
    made: usize,
}

struct Run {
    world: World,
    model: Model,
    dirs: Vec<Ino>,
    rng: StdRng,
    seed: u64,
    step: usize,
}

fn seeds(default: &[u64]) -> Vec<u64> {
    match std::env::var("WEIR_SEED") {
        Ok(seed) => vec![seed.parse().expect("WEIR_SEED is a number")],
        Err(_) => default.to_vec(),
    }
}

impl Run {
    fn new(seed: u64, mut world: World) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        let engine = world.engine();
        let made = world.run(engine.create(Ino::ROOT, b"dir", new_dir())).expect("mkdir").ino;
        drop(engine);
        world.kill();
        world.mount().expect("mounts");
        let rng = StdRng::seed_from_u64(seed);
        Self { world, model: Model::default(), dirs: vec![Ino::ROOT, made], rng, seed, step: 0 }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step += 1;
            let engine = self.world.engine();
            match self.rng.random_range(0..100) {
                0..30 => self.write(&engine),
                30..40 => self.check_one(&engine),
                40..48 => self.truncate(&engine),
                48..54 => self.punch(&engine),
                54..60 => self.copy(&engine),
                60..68 => self.rename(&engine),
                68..74 => self.unlink(&engine),
                74..78 => self.link(&engine),
                78..84 => self.fsync(&engine),
                84..88 => {
                    self.world.run(engine.release_all()).expect("releases");
                }
                88..90 => self.world.run(engine.flush_all()).expect("flushes"),
                _ => {
                    drop(engine);
                    self.remount();
                }
            }
        }
        self.check_all();
    }

    fn remount(&mut self) {
        match self.rng.random_range(0..4) {
            0 => self.world.unmount().expect("unmounts"),
            1 => {
                // What is fsynced and flushed is all there is: the machine is lost.
                let engine = self.world.engine();
                self.world.run(engine.flush_all()).expect("flushes");
                drop(engine);
                self.world.lose_machine();
            }
            _ => self.world.kill(),
        }
        self.world.mount().expect("mounts");
        self.check_all();
    }

    fn pick(&mut self) -> Option<usize> {
        let ids: Vec<_> = self.model.files.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.rng.random_range(0..ids.len())])
    }

    fn pick_name(&mut self) -> Option<(usize, String)> {
        let names: Vec<_> = self.model.names.keys().cloned().collect();
        (!names.is_empty()).then(|| names[self.rng.random_range(0..names.len())].clone())
    }

    fn free_name(&mut self) -> (usize, String) {
        let dir = self.rng.random_range(0..self.dirs.len());
        (dir, format!("name {}", self.rng.random_range(0..2 * FILES)))
    }

    /// Offsets that like edges: of pages, chunks and the file.
    fn offset(&mut self, size: u64) -> u64 {
        let edge = [0, 1, 4095, 4096, 8192, 1 << 20, (1 << 20) + 5, 2 << 20, size, size / 2];
        let base = edge[self.rng.random_range(0..edge.len())];
        let near = base.saturating_add(self.rng.random_range(0..3)).saturating_sub(1);
        if self.rng.random_bool(0.5) { near } else { self.rng.random_range(0..=size.max(1)) }
    }

    fn create(&mut self, engine: &Arc<Engine>) {
        let (dir, name) = self.free_name();
        if self.model.names.contains_key(&(dir, name.clone())) {
            return;
        }
        let made = self.world.run(engine.create(self.dirs[dir], name.as_bytes(), new_file()));
        self.model.made += 1;
        self.model.files.insert(self.model.made, (made.expect("creates").ino, Vec::new()));
        self.model.names.insert((dir, name), self.model.made);
    }

    fn write(&mut self, engine: &Arc<Engine>) {
        if self.model.files.len() < FILES && self.rng.random_bool(0.4) {
            self.create(engine);
        }
        let Some(id) = self.pick() else { return };
        let size = self.model.files[&id].1.len() as u64;
        let offset = self.offset(size).min(SIZE_MAX);
        let most = [10, 4096, 70_000, 1_300_000][self.rng.random_range(0..4)];
        let bytes = noise(self.rng.random(), self.rng.random_range(1..=most));
        let (ino, content) = self.model.files.get_mut(&id).expect("picked");
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(&bytes);
        let ino = *ino;
        self.world.run(async {
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, offset, &bytes).await.expect("writes");
            engine.close(file).await.expect("closes");
        });
    }

    fn truncate(&mut self, engine: &Arc<Engine>) {
        let Some(id) = self.pick() else { return };
        let size = self.model.files[&id].1.len() as u64;
        let to = self.offset(size).min(SIZE_MAX);
        let (ino, content) = self.model.files.get_mut(&id).expect("picked");
        content.resize(to as usize, 0);
        self.world.run(engine.truncate(*ino, to)).expect("truncates");
    }

    fn punch(&mut self, engine: &Arc<Engine>) {
        let Some(id) = self.pick() else { return };
        let size = self.model.files[&id].1.len() as u64;
        let (start, len) = (self.offset(size), self.rng.random_range(1..1_500_000));
        let zero = self.rng.random_bool(0.3);
        let (ino, content) = self.model.files.get_mut(&id).expect("picked");
        let end = start + len;
        if zero && end > size {
            content.resize(end as usize, 0);
        }
        let last = content.len().min(end as usize);
        content[(start as usize).min(last)..last].fill(0);
        let mode = match zero {
            true => Fallocate::ZeroRange { keep_size: false },
            false => Fallocate::PunchHole,
        };
        self.world.run(engine.fallocate(*ino, mode, start, len)).expect("fallocates");
    }

    fn copy(&mut self, engine: &Arc<Engine>) {
        let (Some(from), Some(to)) = (self.pick(), self.pick()) else { return };
        let source = self.model.files[&from].1.clone();
        let (at, len) = (self.offset(source.len() as u64), self.rng.random_range(1..2_500_000));
        let target = self.offset(self.model.files[&to].1.len() as u64).min(SIZE_MAX);
        let len = (source.len() as u64).saturating_sub(at).min(len);
        if len == 0 || (from == to && at.abs_diff(target) < len) {
            return;
        }
        let from_ino = self.model.files[&from].0;
        let (to_ino, content) = self.model.files.get_mut(&to).expect("picked");
        let end = (target + len) as usize;
        if content.len() < end {
            content.resize(end, 0);
        }
        content[target as usize..end].copy_from_slice(&source[at as usize..(at + len) as usize]);
        let copied = self.world.run(engine.copy_range((from_ino, at), (*to_ino, target), len, 0));
        assert_eq!(copied.expect("copies"), len);
    }

    fn rename(&mut self, engine: &Arc<Engine>) {
        let Some(from) = self.pick_name() else { return };
        let to = self.free_name();
        let source = (self.dirs[from.0], from.1.as_bytes());
        let target = (self.dirs[to.0], to.1.as_bytes());
        self.world.run(engine.rename(source, target, RenameMode::Replace)).expect("renames");
        let id = self.model.names[&from];
        // Two names of one file: POSIX says that nothing happens.
        if self.model.names.get(&to) == Some(&id) {
            return;
        }
        self.model.names.remove(&from);
        if let Some(gone) = self.model.names.insert(to, id) {
            self.forget(gone);
        }
    }

    fn unlink(&mut self, engine: &Arc<Engine>) {
        let Some(name) = self.pick_name() else { return };
        let gone = self.world.run(engine.unlink(self.dirs[name.0], name.1.as_bytes()));
        gone.expect("unlinks");
        let id = self.model.names.remove(&name).expect("picked");
        self.forget(id);
    }

    fn forget(&mut self, id: usize) {
        if !self.model.names.values().any(|other| *other == id) {
            self.model.files.remove(&id);
        }
    }

    fn link(&mut self, engine: &Arc<Engine>) {
        let Some(id) = self.pick() else { return };
        let (dir, name) = self.free_name();
        let linked =
            self.world.run(engine.link(self.model.files[&id].0, self.dirs[dir], name.as_bytes()));
        if self.model.names.contains_key(&(dir, name.clone())) {
            assert_eq!(linked.expect_err("taken").kind(), ErrorKind::Exists);
            return;
        }
        linked.expect("links");
        self.model.names.insert((dir, name), id);
    }

    fn fsync(&mut self, engine: &Arc<Engine>) {
        let Some(id) = self.pick() else { return };
        self.world.run(engine.fsync(self.model.files[&id].0)).expect("syncs");
    }

    fn check_one(&mut self, engine: &Arc<Engine>) {
        let Some(id) = self.pick() else { return };
        let (ino, content) = &self.model.files[&id];
        let offset = self.rng.random_range(0..=content.len() as u64);
        let len = self.rng.random_range(1..400_000);
        let have = self.world.run(async {
            let file = engine.open(*ino, OpenFlags::default()).await.expect("opens");
            let bytes = engine.read(&file, offset, len).await.expect("reads");
            engine.close(file).await.expect("closes");
            bytes
        });
        let end = content.len().min(offset as usize + len);
        let where_ = format!("seed {} step {} file {ino} at {offset}", self.seed, self.step);
        assert!(have == content[offset as usize..end], "{where_}: wrong bytes");
    }

    fn check_all(&self) {
        let engine = self.world.engine();
        let at = format!("seed {} step {}", self.seed, self.step);
        let mut listed = 0;
        for dir in &self.dirs {
            let entries = self.world.run(engine.readdir(*dir, 0, 1_000)).expect("lists");
            listed += entries.iter().filter(|e| e.name.starts_with(b"name")).count();
        }
        assert_eq!(listed, self.model.names.len(), "{at}: names");
        for ((dir, name), id) in &self.model.names {
            let (ino, content) = &self.model.files[id];
            let found = self.world.run(engine.lookup(self.dirs[*dir], name.as_bytes()));
            let found = found.unwrap_or_else(|e| panic!("{at}: {name}: {e}"));
            assert_eq!(found.ino, *ino, "{at}: {name}");
            assert_eq!(found.size, content.len() as u64, "{at}: size of {name}");
            let links = self.model.names.values().filter(|other| *other == id).count();
            assert_eq!(found.nlink as usize, links, "{at}: links of {name}");
            let have = self.world.run(read_all(&engine, *ino)).expect("reads");
            if let Some(i) = have.iter().zip(content).position(|(a, b)| a != b) {
                panic!("{at}: {name} (inode {ino}) differs from byte {i} on");
            }
            assert_eq!(have.len(), content.len(), "{at}: length of {name}");
        }
    }

    fn finish(mut self) {
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

#[test]
fn agrees_with_the_model_through_kills_and_remounts() {
    for seed in seeds(&[1, 2, 3, 4]) {
        let mut run = Run::new(seed, World::by_seed(seed, settings(), None));
        run.steps(250);
        run.finish();
    }
}

#[test]
fn agrees_with_the_model_while_everything_happens_at_once() {
    // Flushes by age all the time, and a tier that holds a part of the data.
    let busy = Settings {
        flush_age_ms: 100,
        meta_flush_ms: 20,
        tier_bytes: Bytes::mib(64),
        flush_start_bytes: Bytes::mib(1),
        read_ahead_bytes: Bytes::mib(1),
        ..settings()
    };
    for seed in seeds(&[11, 12]) {
        let mut run = Run::new(seed, World::by_seed(seed, busy.clone(), None));
        run.steps(250);
        run.finish();
    }
}

#[test]
fn agrees_with_the_model_under_five_percent_bucket_faults() {
    for seed in seeds(&[21, 22]) {
        let quick = Settings { flush_age_ms: 200, meta_flush_ms: 50, ..settings() };
        let plan = FaultPlan::everywhere(0.05, seed);
        let wrap: weir_engine::Wrap =
            Arc::new(move |store| Arc::new(FaultStore::new(store, &plan)));
        let mut run = Run::new(seed, World::by_seed(seed, quick, Some(wrap)));
        run.steps(120);
        run.finish();
    }
}
