//! Lazy links: names of a directory are imported when somebody first looks into it.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{World, new_dir, new_file, read_all};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{
    ActionKind, ActionRequest, Attributes, Engine, LinkOptions, LinkView, Policy, RenameMode, Root,
};
use weir_object::{Component, RequestKind};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result};

/// A world with a second bucket, the lake, linked at `/lake`.
struct Lake {
    world: World,
    dir: Ino,
}

impl Lake {
    fn new(keys: &[&str]) -> Self {
        Self::with(Policy::default(), |lake| keys.iter().for_each(|key| lake.put(key, key)))
    }

    fn with(export: Policy, fill: impl Fn(&Lake)) -> Self {
        let world = World::new();
        std::fs::create_dir(world.path("lake")).expect("makes");
        let mut lake = Self { world, dir: Ino::ROOT };
        fill(&lake);
        let options = LinkOptions {
            url: format!("file://{}", lake.world.path("lake").display()),
            import: Policy::default(),
            export,
            lazy_dirs: true,
            attributes: Attributes::Auto,
            poll_s: 3_600,
            endpoint: None,
            region: None,
            profile: None,
            anonymous: false,
        };
        let engine = lake.engine();
        lake.dir = lake.run(async {
            let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
            engine.link_bucket(dir, "/lake", options).await.expect("links");
            dir
        });
        lake.until(|view| view.imported_unix_ms.is_some());
        lake
    }

    fn engine(&self) -> Arc<Engine> {
        self.world.engine()
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.world.run(future)
    }

    fn object(&self, key: &str) -> PathBuf {
        self.world.path("lake").join(key)
    }

    /// Puts an object as another tool would: whole, by rename.
    fn put(&self, key: &str, text: &str) {
        let path = self.object(key);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        let new = self.world.path("new-object");
        std::fs::write(&new, text).expect("writes");
        std::fs::rename(new, path).expect("renames");
    }

    fn delete(&self, key: &str) {
        std::fs::remove_file(self.object(key)).expect("removes");
    }

    fn view(&self) -> LinkView {
        self.run(async { self.engine().links().await.expect("links").remove(0) })
    }

    fn spawn<F>(&self, future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.run(async { tokio::runtime::Handle::current() }).spawn(future)
    }

    fn rest(&self, ms: u64) {
        self.run(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    fn until(&self, ready: impl Fn(&LinkView) -> bool) {
        for _ in 0..1_500 {
            if ready(&self.view()) {
                return;
            }
            self.rest(10);
        }
        panic!("it does not end: {:?}", self.view());
    }

    /// Compares all that somebody looked into with the bucket.
    fn refresh(&self) {
        let before = self.view();
        // Two ends of imports must be told apart.
        self.rest(2);
        self.run(async { self.engine().refresh_link(before.id, None).await.expect("asks") });
        self.until(|now| now.importing.is_none() && now.imported_unix_ms > before.imported_unix_ms);
    }

    async fn at(&self, path: &str) -> Result<Ino> {
        let mut at = self.dir;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = self.engine().lookup(at, part.as_bytes()).await?.ino;
        }
        Ok(at)
    }

    fn find(&self, path: &str) -> Option<Ino> {
        match self.run(self.at(path)) {
            Ok(ino) => Some(ino),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    fn read(&self, path: &str) -> String {
        let ino = self.find(path).expect(path);
        let bytes = self.run(async { read_all(&self.engine(), ino).await.expect(path) });
        String::from_utf8(bytes).expect("text")
    }

    async fn names_of(&self, path: &str) -> Result<Vec<String>> {
        let dir = self.at(path).await?;
        let entries = self.engine().readdir(dir, 0, 10_000).await?;
        let mut names: Vec<_> =
            entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn names(&self, path: &str) -> Vec<String> {
        self.run(self.names_of(path)).expect(path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.run(async {
            let split = |path: &str| match path.rsplit_once('/') {
                Some((dir, name)) => (dir.to_owned(), name.to_owned()),
                None => (String::new(), path.to_owned()),
            };
            let ((from_dir, from), (to_dir, to)) = (split(from), split(to));
            let (from_dir, to_dir) = (self.at(&from_dir).await?, self.at(&to_dir).await?);
            let (from, to) = ((from_dir, from.as_bytes()), (to_dir, to.as_bytes()));
            self.engine().rename(from, to, RenameMode::Replace).await
        })
    }

    fn rmdir(&self, dir: &str, name: &str) -> Result<()> {
        self.run(async { self.engine().rmdir(self.at(dir).await?, name.as_bytes()).await })
    }

    fn unlink(&self, dir: &str, name: &str) -> Result<()> {
        self.run(async { self.engine().unlink(self.at(dir).await?, name.as_bytes()).await })
    }

    /// LISTs of the link's bucket so far.
    fn lists(&self) -> u64 {
        let status = self.run(async { self.engine().status().await.expect("status") });
        let lists = |row: &&weir_object::MeterRow| {
            row.component == Component::Link && row.kind == RequestKind::List
        };
        status.requests.rows.iter().filter(lists).map(|row| row.requests).sum()
    }

    /// Every file below a directory, with what is in it.
    fn tree(&self, path: &str) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut to_do = vec![path.to_owned()];
        while let Some(dir) = to_do.pop() {
            let ino = self.find(&dir).expect("there");
            let page = self.run(async { self.engine().readdir_plus(ino, 0, 10_000).await });
            for entry in page.expect("reads") {
                let name = String::from_utf8_lossy(&entry.entry.name).into_owned();
                let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                match entry.inode.kind {
                    FileKind::Directory => to_do.push(path),
                    _ => drop(files.insert(path.clone(), self.read(&path))),
                }
            }
        }
        files
    }

    fn sound(mut self) {
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.map_err(|error: FsError| error.kind()).expect_err("refused")
}

#[test]
fn directories_are_listed_when_somebody_looks_and_only_then() {
    let lake = Lake::new(&["a", "d/b", "d/e/c", "d/e.f", "x/y/z"]);
    let linked = lake.lists();
    assert_eq!(lake.view().files, 0);
    assert_eq!(lake.names(""), ["a", "d", "x"]);
    assert_eq!((lake.lists(), lake.view().files), (linked + 1, 1));
    assert_eq!(lake.read("d/e/c"), "d/e/c", "a name is found without reading its directory");
    assert_eq!(lake.lists(), linked + 3);
    assert_eq!(lake.names("d"), ["b", "e", "e.f"]);
    assert_eq!(lake.names(""), ["a", "d", "x"]);
    assert_eq!(lake.find("d/nothing"), None);
    assert_eq!(lake.lists(), linked + 3, "once is enough");
    let d = lake.find("d").expect("there");
    let inode = lake.run(async { lake.engine().getattr(d).await.expect("there") });
    assert_eq!(inode.nlink, 3);
    assert_eq!(lake.view().files, 4);
    lake.sound();
}

#[test]
fn nobody_takes_a_name_or_a_directory_that_was_not_listed() {
    let lake = Lake::new(&["d/b", "e/f", "g/h", "empty/x"]);
    lake.run(async {
        let engine = lake.engine();
        let d = lake.at("d").await.expect("there");
        assert_eq!(kind(engine.create(d, b"b", new_file()).await), ErrorKind::Exists);
        let file = engine.create(Ino::ROOT, b"file", new_file()).await.expect("creates").ino;
        let e = lake.at("e").await.expect("there");
        assert_eq!(kind(engine.link(file, e, b"f").await), ErrorKind::Exists);
        engine.create(Ino::ROOT, b"dir", new_dir()).await.expect("makes");
        let over = engine.rename((Ino::ROOT, b"dir"), (lake.dir, b"g"), RenameMode::Replace);
        assert_eq!(kind(over.await), ErrorKind::NotEmpty);
    });
    lake.delete("empty/x");
    assert_eq!(kind(lake.rmdir("", "d")), ErrorKind::NotEmpty);
    lake.rmdir("", "empty").expect("its listing says that it is empty");
    assert_eq!(lake.names(""), ["d", "e", "g"]);
    lake.sound();
}

#[test]
fn a_name_can_be_removed_or_moved_before_its_directory_was_read() {
    let lake = Lake::new(&["d/b", "d/c", "e/f"]);
    lake.unlink("d", "b").expect("removes");
    lake.rename("e/f", "d/f").expect("moves");
    assert_eq!(lake.names("d"), ["c", "f"]);
    assert_eq!(lake.read("d/f"), "e/f");
    lake.refresh();
    assert_eq!((lake.names("d"), lake.names("e")), (vec!["c".into(), "f".into()], vec![]));
    lake.sound();
}

#[test]
fn a_directory_moved_before_it_was_listed_has_its_names() {
    let lake = Lake::new(&["d/b", "d/e/c", "x"]);
    lake.rename("d", "moved").expect("moves");
    lake.refresh();
    assert_eq!(lake.names(""), ["moved", "x"], "it does not come back");
    assert_eq!(lake.names("moved"), ["b", "e"]);
    lake.refresh();
    assert_eq!(lake.names(""), ["moved", "x"]);
    assert_eq!(lake.read("moved/e/c"), "d/e/c");
    lake.put("d/new", "new");
    lake.refresh();
    assert_eq!(lake.names(""), ["d", "moved", "x"], "what is new is where its key says");
    assert_eq!(lake.names("d"), ["new"]);
    lake.sound();
}

#[test]
fn what_was_removed_here_stays_away_and_what_is_new_comes() {
    let lake = Lake::new(&["d/b", "d/e/c", "x"]);
    lake.unlink("d/e", "c").expect("removes");
    lake.unlink("d", "b").expect("removes");
    lake.rmdir("d", "e").expect("removes");
    lake.rmdir("", "d").expect("removes");
    lake.refresh();
    lake.refresh();
    assert_eq!(lake.names(""), ["x"]);
    lake.put("d/e/new", "new");
    lake.refresh();
    assert_eq!(lake.names("d"), ["e"]);
    assert_eq!(lake.names("d/e"), ["new"]);
    lake.sound();
}

#[test]
fn a_refresh_compares_what_is_listed_already() {
    let lake = Lake::new(&["a", "d/b", "d/c", "e/f", "g/h", "u/v/w"]);
    assert_eq!(lake.names(""), ["a", "d", "e", "g", "u"]);
    assert_eq!(lake.names("d"), ["b", "c"]);
    assert_eq!(lake.names("g"), ["h"]);
    lake.put("a", "again");
    lake.put("d/new/deep", "deep");
    lake.put("e/new", "unseen");
    lake.put("n/m", "m");
    lake.delete("d/b");
    lake.delete("g/h");
    std::fs::remove_dir(lake.object("g")).expect("removes");
    std::fs::remove_dir_all(lake.object("u")).expect("removes");
    let before = lake.lists();
    lake.refresh();
    // The link's own, d and g, which is gone.
    assert_eq!(lake.lists(), before + 3);
    assert_eq!(lake.names(""), ["a", "d", "e", "g", "n"], "g was seen, so it stays, empty");
    assert_eq!(lake.names("g"), [""; 0]);
    assert_eq!(lake.names("d"), ["c", "new"]);
    assert_eq!(lake.read("a"), "again");
    assert_eq!(lake.read("d/new/deep"), "deep");
    assert_eq!(lake.read("e/new"), "unseen");
    lake.sound();
}

#[test]
fn events_reach_listed_directories_and_leave_others_to_the_one_who_looks() {
    let lake = Lake::new(&["a", "d/b", "e/f"]);
    lake.names("");
    lake.names("d");
    lake.put("d/new", "new");
    lake.put("e/new", "new");
    lake.put("n/m/o", "o");
    lake.put("n/p", "p");
    let keys = ["d/new", "e/new", "n/m/o", "d//odd"].map(str::to_owned).to_vec();
    let id = lake.view().id;
    let lists = lake.lists();
    lake.run(async { lake.engine().refresh_link(id, Some(keys)).await.expect("refreshes") });
    // No request but a LIST can name the odd one.
    assert_eq!((lake.lists(), lake.view().files), (lists + 1, 4));
    assert_eq!(lake.names("d"), ["b", "new"]);
    assert_eq!(lake.names("e"), ["f", "new"]);
    assert_eq!(lake.names("n"), ["m", "p"]);
    assert_eq!(lake.names("n/m"), ["o"]);
    lake.sound();
}

#[test]
fn a_listing_that_fails_is_an_error_and_tried_again() {
    let mut lake = Lake::new(&["d/b"]);
    lake.world.unmount().expect("unmounts");
    lake.world.options.connector.options.timeout_ms = 500;
    lake.world.mount().expect("mounts");
    let away = lake.world.path("away");
    std::fs::rename(lake.world.path("lake"), &away).expect("renames");
    assert_eq!(kind(lake.run(lake.names_of(""))), ErrorKind::Retry);
    assert_eq!(kind(lake.run(lake.at("nothing"))), ErrorKind::Retry);
    std::fs::rename(&away, lake.world.path("lake")).expect("renames");
    assert_eq!(lake.names(""), ["d"]);
    lake.sound();
}

#[test]
fn many_look_and_one_lists() {
    let lake = Lake::new(&[]);
    (0..2_500).for_each(|n| lake.put(&format!("d/{n}"), ""));
    let before = lake.lists();
    lake.run(async {
        let looks = (0..20).map(|n| {
            let name = format!("{}", n * 100);
            let (engine, dir) = (lake.engine(), lake.dir);
            tokio::spawn(async move {
                let d = engine.lookup(dir, b"d").await.expect("there").ino;
                engine.lookup(d, name.as_bytes()).await.expect("there")
            })
        });
        for look in looks.collect::<Vec<_>>() {
            look.await.expect("ends");
        }
    });
    assert_eq!(lake.lists(), before + 4);
    assert_eq!(lake.view().files, 2_500);
    lake.sound();
}

#[test]
fn a_listing_goes_on_after_a_kill() {
    let mut lake = Lake::new(&[]);
    (0..3_000).for_each(|n| lake.put(&format!("d/{n}/f"), ""));
    (0..3_000).for_each(|n| lake.put(&format!("d/f{n}"), ""));
    let engine = lake.engine();
    let d = lake.find("d").expect("there");
    let looking = lake.spawn(async move { engine.readdir(d, 0, 1).await });
    while lake.view().files < 500 && !looking.is_finished() {
        std::thread::yield_now();
    }
    lake.world.kill();
    lake.world.mount().expect("mounts");
    assert_eq!(lake.names("d").len(), 6_000);
    assert_eq!(lake.view().files, 3_000);
    assert_eq!(lake.names("d/17"), ["f"]);
    lake.sound();
}

#[test]
fn the_end_of_a_link_leaves_what_was_moved_out() {
    let lake = Lake::new(&["a", "d/b", "d/e/c", "x/y", "out/f", "out/g/h"]);
    lake.read("d/b");
    lake.run(async {
        let to = (Ino::ROOT, b"out".as_slice());
        lake.engine().rename((lake.dir, b"out"), to, RenameMode::Replace).await.expect("moves");
    });
    lake.run(async { lake.engine().unlink_bucket(lake.dir).await.expect("unlinks") });
    assert_eq!(lake.names(""), [""; 0]);
    std::fs::remove_dir_all(lake.object("")).expect("removes");
    let mut there = lake;
    there.dir = there.run(async { there.engine().lookup(Ino::ROOT, b"out").await.unwrap().ino });
    let files = there.tree("");
    let expected = [("f", "out/f"), ("g/h", "out/g/h")];
    assert_eq!(files, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    there.sound();
}

#[test]
fn the_end_of_a_link_leaves_a_directory_of_another_one_as_it_was() {
    let mut lake = Lake::new(&["a", "d/b"]);
    let engine = lake.engine();
    std::fs::create_dir(lake.world.path("pool")).expect("makes");
    let options = LinkOptions {
        url: format!("file://{}", lake.world.path("pool").display()),
        lazy_dirs: false,
        ..lake.view().options
    };
    assert_eq!(lake.names(""), ["a", "d"]);
    let pool = lake.run(async {
        let pool = engine.create(Ino::ROOT, b"pool", new_dir()).await.expect("mkdir").ino;
        engine.link_bucket(pool, "/pool", options).await.expect("links");
        let (from, to) = ((lake.dir, b"d".as_slice()), (pool, b"d".as_slice()));
        engine.rename(from, to, RenameMode::Replace).await.expect("moves");
        engine.unlink_bucket(pool).await.expect("unlinks");
        pool
    });
    drop(engine);
    lake.dir = pool;
    assert_eq!(lake.tree(""), [("d/b".to_owned(), "d/b".to_owned())].into());
    lake.sound();
}

#[test]
fn walks_see_what_nobody_looked_into() {
    let lake = Lake::new(&["a", "d/b", "d/e/c", "x/y/z"]);
    let view = lake.run(async {
        let roots = vec![Root { ino: lake.dir, path: "/lake".to_owned() }];
        let request = ActionRequest {
            kind: ActionKind::Hydrate,
            roots,
            recursive: true,
            max_bytes_per_s: None,
            restore: None,
        };
        let started = lake.engine().start_action(request).await.expect("starts");
        lake.engine().wait_for_action(started.id, 30_000).await.expect("ends")
    });
    assert_eq!((view.files_done, lake.view().files), (4, 4));
    lake.sound();
}

#[test]
fn a_moved_directory_is_exported_with_all_that_is_in_it() {
    let lake = Lake::with(Policy::ALL, |lake| {
        ["d/b", "d/e/c", "x"].iter().for_each(|key| lake.put(key, key));
    });
    lake.rename("d", "moved").expect("moves");
    lake.until(|view| view.export_waiting == 0);
    assert_eq!(std::fs::read_to_string(lake.object("moved/b")).expect("there"), "d/b");
    assert_eq!(std::fs::read_to_string(lake.object("moved/e/c")).expect("there"), "d/e/c");
    assert!(!lake.object("d/b").exists() && !lake.object("d/e/c").exists());
    assert_eq!(lake.read("moved/e/c"), "d/e/c");
    lake.refresh();
    assert_eq!(lake.view().conflicts, 0);
    lake.sound();
}

/// Keys whose files and directories sort close to each other.
const PARTS: [&str; 6] = ["a", "a.b", "a-", "b", "a0", "ü"];

/// Whatever is put and deleted in the bucket, and whoever looked where: after a refresh the tree is
/// the bucket.
#[test]
fn any_changes_of_the_bucket_are_seen() {
    let seed = rand::random::<u64>();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let lake = Lake::new(&[]);
    let mut objects: BTreeMap<String, String> = BTreeMap::new();
    for step in 0..120 {
        for _ in 0..random.random_range(1..6) {
            let depth = random.random_range(1..4);
            let mut parts: Vec<_> =
                (0..depth).map(|_| PARTS[random.random_range(0..PARTS.len())]).collect();
            parts.push(["f", "g"][random.random_range(0..2)]);
            let key = parts.join("/");
            if random.random_bool(0.5) {
                let text = format!("{key} {step} {}", random.random::<u16>());
                lake.put(&key, &text);
                objects.insert(key, text);
            } else if objects.remove(&key).is_some() {
                lake.delete(&key);
                // In a bucket directories are where their objects are.
                let mut above = lake.object(&key);
                while above.pop() && above != lake.object("") {
                    let _ = std::fs::remove_dir(&above);
                }
            }
        }
        match random.random_range(0..4) {
            0 => lake.refresh(),
            1 => {
                lake.refresh();
                assert_eq!(lake.tree(""), objects, "seed {seed}, step {step}");
            }
            _ => {
                let depth = random.random_range(1..4);
                let parts: Vec<_> =
                    (0..depth).map(|_| PARTS[random.random_range(0..PARTS.len())]).collect();
                lake.find(&parts.join("/"));
            }
        }
    }
    // The first one removes the files of directories that are gone, the next ones their rows.
    lake.refresh();
    assert_eq!(lake.tree(""), objects, "seed {seed}");
    let view = lake.view();
    assert_eq!((view.files, view.conflicts), (objects.len() as u64, 0), "seed {seed}");
    lake.sound();
}
