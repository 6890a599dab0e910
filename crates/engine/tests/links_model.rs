//! Both sides of a link change at random, with lost answers and kills in between. Held: what others
//! put stays in the bucket unless they or we took it away; what was written is never in neither;
//! after quiet both sides agree. `WEIR_SEED=N` repeats one run; `WEIR_SOAK=1` goes on for a minute.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::lake::{EXPORTS, Lake};
use common::{World, new_dir, new_file, read_all, settings};
use futures::TryStreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{LinkOptions, OpenFlags, Policy, RenameMode, Wrap};
use weir_object::testing::{Alone, AtomicStore, FaultPlan, FaultStore};
use weir_object::{Bucket, Component, ConnectOptions, Meter};
use weir_types::Ino;

const STEPS: usize = 60;
const LAKE: Component = Component::Bench;

type Place = (Ino, &'static str);

/// What became of the bytes of one write.
#[derive(Debug, Default)]
struct Fate {
    /// The key that others put it at.
    theirs: Option<String>,
    /// We renamed or moved the file that had it.
    moved: bool,
    /// Somebody put something else in its place, or deleted it, knowing it.
    gone: bool,
}

struct Run {
    lake: Lake,
    others: Bucket,
    alone: Alone,
    places: Vec<Place>,
    fates: BTreeMap<String, Fate>,
    rng: StdRng,
    trace: Vec<String>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.trace.join("\n"));
        }
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        let (alone, mut rng) = (Alone::default(), StdRng::seed_from_u64(seed));
        let (kept, chance) = (alone.clone(), [0.0, 0.02][rng.random_range(0..2)]);
        let wrap: Wrap = Arc::new(move |store| match store.to_string().contains("InMemory") {
            true => {
                let store = Arc::new(AtomicStore::new(store, kept.clone()));
                Arc::new(FaultStore::new(store, &FaultPlan::everywhere(chance, seed)))
            }
            false => store,
        });
        let mut lake = Lake { world: World::with(settings(), Some(wrap)), dir: Ino::ROOT };
        let url = format!("memory://model-{seed}-{:x}", rand::random::<u64>());
        let options = ConnectOptions::default();
        let others = Bucket::connect(&url.parse().expect("a URL"), &options, &Meter::new());
        let options = LinkOptions { url, export: EXPORTS, ..lake.options(Policy::ALL) };
        let engine = lake.engine();
        let (dir, below) = lake.run(async {
            let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
            engine.link_bucket(dir, "/lake", options).await.expect("links");
            (dir, engine.create(dir, b"d", new_dir()).await.expect("mkdir").ino)
        });
        lake.dir = dir;
        let mut places: Vec<Place> = ["a", "b", "c", "e"].map(|name| (dir, name)).to_vec();
        places.extend(["a", "b"].map(|name| (below, name)));
        places.extend(["out", "away"].map(|name| (Ino::ROOT, name)));
        lake.imported();
        let others = others.expect("connects");
        let (fates, trace) = Default::default();
        Self { lake, others, alone, places, fates, rng, trace }
    }

    fn place(&mut self) -> Place {
        self.places[self.rng.random_range(0..self.places.len())]
    }

    fn key(&self, (dir, name): Place) -> Option<String> {
        match dir {
            Ino::ROOT => None,
            dir if dir == self.lake.dir => Some(name.to_owned()),
            _ => Some(format!("d/{name}")),
        }
    }

    fn token(&mut self, who: &str, theirs: Option<String>) -> String {
        let token = format!("{who} {:06} ", self.fates.len());
        self.fates.insert(token.clone(), Fate { theirs, ..Fate::default() });
        token
    }

    /// The bytes of a token: mostly of one length, so that only ETags tell changes.
    fn bytes(&mut self, token: &str) -> Vec<u8> {
        let times = if self.rng.random_bool(0.8) { 4 } else { 9 };
        token.repeat(times).into_bytes()
    }

    /// The token of the file at a place, if one is there. One whose object changed cannot be read
    /// before the import that this asks for.
    fn there(&self, (dir, name): Place) -> Option<String> {
        let engine = self.lake.engine();
        self.lake.run(async {
            for _ in 0..50 {
                let ino = engine.lookup(dir, name.as_bytes()).await.ok()?.ino;
                if let Ok(bytes) = read_all(&engine, ino).await {
                    return Some(token_of(&bytes));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None
        })
    }

    fn fate(&mut self, token: Option<&String>, change: impl FnOnce(&mut Fate)) {
        if let Some(fate) = token.and_then(|token| self.fates.get_mut(token)) {
            change(fate);
        }
    }

    fn step(&mut self) {
        let (place, other) = (self.place(), self.place());
        match self.rng.random_range(0..100) {
            0..25 => self.write(place),
            25..35 => self.rename(place, other),
            35..43 => self.unlink(place),
            43..63 => self.put_by_others(place),
            63..70 => self.delete_by_others(place),
            70..80 => self.lake.refresh_all(),
            80..85 => {
                let engine = self.lake.engine();
                let _ = self.lake.run(engine.release_all());
            }
            85..95 => self.lake.rest(700),
            95..98 => {
                self.trace.push("kill".to_owned());
                self.lake.world.kill();
                self.lake.world.mount().expect("mounts");
            }
            _ => {
                self.trace.push("mount anew".to_owned());
                self.lake.world.unmount().expect("unmounts");
                self.lake.world.mount().expect("mounts");
            }
        }
    }

    fn conflicts(&self) -> u64 {
        self.lake.view().conflicts
    }

    fn write(&mut self, place: Place) {
        let (before, token) = (self.there(place), self.token("ours", None));
        let bytes = self.bytes(&token);
        self.trace.push(format!("write {place:?} {token:?} over {before:?}"));
        let (engine, (dir, name)) = (self.lake.engine(), place);
        let seen = self.lake.run(async {
            let ino = match engine.lookup(dir, name.as_bytes()).await {
                Ok(inode) => inode.ino,
                Err(_) => match engine.create(dir, name.as_bytes(), new_file()).await {
                    Ok(made) => made.ino,
                    // An import made it meanwhile.
                    Err(_) => return None,
                },
            };
            let old = read_all(&engine, ino).await.ok().map(|bytes| token_of(&bytes));
            let flags = OpenFlags { write: true, truncate: true, client: 0 };
            let file = engine.open(ino, flags).await.expect("opens");
            engine.write(&file, 0, &bytes).await.expect("writes");
            engine.close(file).await.expect("closes");
            Some(old)
        });
        match seen {
            Some(old) => self.fate(old.as_ref(), |fate| fate.gone = true),
            None => self.fate(Some(&token), |fate| fate.gone = true),
        }
    }

    fn rename(&mut self, from: Place, to: Place) {
        if from == to {
            return;
        }
        let conflicts = self.conflicts();
        let (moved, replaced) = (self.there(from), self.there(to));
        self.trace.push(format!("rename {from:?} {moved:?} to {to:?} {replaced:?}"));
        let engine = self.lake.engine();
        let (one, other) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        let done = self.lake.run(engine.rename(one, other, RenameMode::Replace)).is_ok();
        if done {
            self.fate(moved.as_ref(), |fate| fate.moved = true);
            self.fate(replaced.as_ref(), |fate| fate.gone = true);
            self.excuse(conflicts, &[from, to]);
        }
    }

    fn unlink(&mut self, place: Place) {
        let (conflicts, gone) = (self.conflicts(), self.there(place));
        self.trace.push(format!("unlink {place:?} {gone:?}"));
        let engine = self.lake.engine();
        if self.lake.run(engine.unlink(place.0, place.1.as_bytes())).is_ok() {
            self.fate(gone.as_ref(), |fate| fate.gone = true);
            self.excuse(conflicts, &[place]);
        }
    }

    /// An import gave the name to another file between the look and the change.
    fn excuse(&mut self, conflicts: u64, places: &[Place]) {
        if self.conflicts() == conflicts {
            return;
        }
        let keys: BTreeSet<_> = places.iter().filter_map(|place| self.key(*place)).collect();
        let of = |fate: &&mut Fate| fate.theirs.as_ref().is_some_and(|key| keys.contains(key));
        self.fates.values_mut().filter(of).for_each(|fate| fate.gone = true);
    }

    fn put_by_others(&mut self, place: Place) {
        let Some(key) = self.key(place) else { return };
        let token = self.token("theirs", Some(key.clone()));
        let bytes = self.bytes(&token);
        let old = self.lake.run(async {
            let _alone = self.alone.enter().await;
            let old = self.others.get(LAKE, &key).await.ok().map(|bytes| token_of(&bytes));
            self.others.put(LAKE, &key, bytes).await.expect("puts");
            old
        });
        self.trace.push(format!("others put {key} {token:?} over {old:?}"));
        self.fate(old.as_ref(), |fate| fate.gone = true);
    }

    fn delete_by_others(&mut self, place: Place) {
        let Some(key) = self.key(place) else { return };
        let old = self.lake.run(async {
            let _alone = self.alone.enter().await;
            let old = self.others.get(LAKE, &key).await.ok().map(|bytes| token_of(&bytes));
            self.others.delete(LAKE, &key).await.expect("deletes");
            old
        });
        self.trace.push(format!("others delete {key} {old:?}"));
        self.fate(old.as_ref(), |fate| fate.gone = true);
    }

    fn objects(&self) -> BTreeMap<String, String> {
        self.lake.run(async {
            let keys: Vec<_> = self.others.list(LAKE, "").try_collect().await.expect("lists");
            let mut objects = BTreeMap::new();
            for info in keys {
                let bytes = self.others.get(LAKE, &info.key).await.expect("there");
                objects.insert(info.key, token_of(&bytes));
            }
            objects
        })
    }

    /// All files by path, those of the link by their keys.
    fn files(&self, dir: Ino, prefix: &str) -> BTreeMap<String, Option<String>> {
        let engine = self.lake.engine();
        let entries = self.lake.run(engine.readdir(dir, 0, 1_000)).expect("lists");
        let mut files = BTreeMap::new();
        for entry in entries {
            let name = String::from_utf8(entry.name).expect("text");
            match entry.kind {
                weir_types::FileKind::Directory => {
                    files.extend(self.files(entry.ino, &format!("{prefix}{name}/")));
                }
                _ => {
                    let bytes = self.lake.run(read_all(&engine, entry.ino)).ok();
                    files.insert(format!("{prefix}{name}"), bytes.map(|b| token_of(&b)));
                }
            }
        }
        files
    }

    fn check(&mut self) {
        for _ in 0..2 {
            self.lake.settled();
            self.lake.refresh_all();
        }
        self.lake.settled();
        let (objects, all) = (self.objects(), self.files(Ino::ROOT, ""));
        let here: BTreeSet<_> = all.values().flatten().collect();
        let there: BTreeSet<_> = objects.values().collect();
        for (token, fate) in self.fates.iter().filter(|(_, fate)| !fate.gone) {
            let kept = here.contains(token) || there.contains(token);
            assert!(kept, "{token:?} is in neither: {fate:?}\n{objects:#?}\n{all:#?}");
            if let Some(key) = fate.theirs.as_ref().filter(|_| !fate.moved) {
                let stays = objects.get(key) == Some(token);
                assert!(stays, "{token:?} of others is not at {key}\n{objects:#?}\n{all:#?}");
            }
        }
        self.agree(&objects);
    }

    /// Each file is its object, and each object its file. A file whose bytes went with the object
    /// that somebody replaced cannot be read and is no object.
    fn agree(&self, objects: &BTreeMap<String, String>) {
        let files = self.files(self.lake.dir, "");
        let own = files.iter().filter(|(path, _)| !path.contains(".weir-conflict-"));
        for (path, token) in own.filter_map(|(path, token)| Some((path, token.as_ref()?))) {
            assert!(objects.get(path) == Some(token), "{path} is no object: {objects:#?}");
        }
        for (key, token) in objects {
            let shown = files.get(key) == Some(&Some(token.clone()));
            assert!(shown, "{key} {token:?} does not show: {files:#?}");
        }
    }
}

fn token_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let end = text.match_indices(' ').nth(1).map_or(text.len(), |(at, _)| at + 1);
    let token = &text[..end];
    assert!(text == token.repeat(text.len() / token.len().max(1)), "bytes of two writes: {text}");
    token.to_owned()
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.check();
    run.lake.world.unmount().expect("unmounts");
    run.lake.world.fsck();
}

#[test]
fn both_sides_change_at_random_and_nothing_is_lost() {
    if let Ok(seed) = std::env::var("WEIR_SEED") {
        return run(seed.parse().expect("WEIR_SEED is a number"));
    }
    let soak = std::env::var("WEIR_SOAK").is_ok_and(|soak| soak == "1");
    let began = Instant::now();
    let first = if soak { rand::random_range(1_000..u64::MAX / 2) } else { 1 };
    for (count, seed) in (first..).enumerate() {
        if count > 0 && (!soak || began.elapsed() > Duration::from_secs(60)) {
            break;
        }
        run(seed);
    }
}
