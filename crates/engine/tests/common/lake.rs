//! A second bucket, the lake, whose objects are files of a volume.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_engine::{
    ActionKind, ActionRequest, Attributes, Engine, LinkOptions, LinkView, Policy, RenameMode, Root,
};
use weir_object::{Bucket, Component, ConnectOptions, Meter};
use weir_types::Ino;

use super::{WRITE, World, new_dir, new_file, noise, read_all};

pub const EXPORTS: Policy = Policy::ALL;

/// A world with a second bucket, the lake, which is a directory that tests change as other tools
/// would, linked at `/lake`.
pub struct Lake {
    pub world: World,
    pub dir: Ino,
}

impl Lake {
    pub fn new(import: Policy) -> Self {
        Self::of(import, |lake| {
            lake.put("a", b"first");
            lake.put("d/b", &noise(1, 3_000_000));
            lake.put("d/e/c", b"");
        })
    }

    pub fn of(import: Policy, fill: impl Fn(&Lake)) -> Self {
        let world = World::new();
        std::fs::create_dir(world.path("lake")).expect("makes");
        let mut lake = Self { world, dir: Ino::ROOT };
        fill(&lake);
        let (engine, options) = (lake.engine(), lake.options(import));
        lake.dir = lake.run(async {
            let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
            engine.link_bucket(dir, "/lake", options).await.expect("links");
            dir
        });
        lake.imported();
        lake
    }

    pub fn options(&self, import: Policy) -> LinkOptions {
        LinkOptions {
            url: format!("file://{}", self.world.path("lake").display()),
            import,
            export: Policy::default(),
            lazy_dirs: false,
            attributes: Attributes::Auto,
            poll_s: 3_600,
            endpoint: None,
            region: None,
            profile: None,
            anonymous: false,
        }
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.world.engine()
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.world.run(future)
    }

    pub fn object(&self, key: &str) -> PathBuf {
        self.world.path("lake").join(key)
    }

    /// Puts an object as another tool would: whole, by rename.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.object(key);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        let new = self.world.path("new-object");
        std::fs::write(&new, bytes).expect("writes");
        std::fs::rename(new, path).expect("renames");
    }

    pub fn delete(&self, key: &str) {
        std::fs::remove_file(self.object(key)).expect("removes");
    }

    pub fn view(&self) -> LinkView {
        self.run(async { self.engine().links().await.expect("links").remove(0) })
    }

    pub fn rest(&self, ms: u64) {
        self.run(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    /// Waits for the import that runs or is about to.
    pub fn imported(&self) {
        for _ in 0..1_000 {
            let view = self.view();
            if view.importing.is_none() && view.imported_unix_ms.is_some() {
                assert_eq!(view.import_error, None);
                return;
            }
            self.rest(10);
        }
        panic!("the import does not end: {:?}", self.view());
    }

    pub fn refresh(&self, keys: &[&str]) {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let id = self.view().id;
        self.run(async { self.engine().refresh_link(id, Some(keys)).await.expect("refreshes") });
    }

    /// Asks for an import, and does not wait.
    pub fn ask(&self) {
        let id = self.view().id;
        self.run(async { self.engine().refresh_link(id, None).await.expect("asks") });
    }

    /// Says that what is held is meant, and waits for the import.
    pub fn confirm(&self) {
        let view = self.view();
        self.run(async { self.engine().confirm_link(view.id).await.expect("confirms") });
        self.imported_since(&view);
    }

    pub fn refresh_all(&self) {
        let view = self.view();
        self.run(async { self.engine().refresh_link(view.id, None).await.expect("refreshes") });
        self.imported_since(&view);
    }

    fn imported_since(&self, view: &LinkView) {
        for _ in 0..1_000 {
            let now = self.view();
            if now.importing.is_none() && now.imported_unix_ms > view.imported_unix_ms {
                return;
            }
            self.rest(10);
        }
        panic!("the refresh does not end: {:?}", self.view());
    }

    pub fn find(&self, path: &str) -> Option<Ino> {
        self.run(async {
            let mut at = self.dir;
            for part in path.split('/') {
                at = self.engine().lookup(at, part.as_bytes()).await.ok()?.ino;
            }
            Some(at)
        })
    }

    /// The name that a file has in a directory.
    pub fn name_of(&self, dir: Ino, ino: Ino) -> Option<String> {
        let entries =
            self.run(async { self.engine().readdir(dir, 0, 1_000).await.expect("lists") });
        let found = entries.into_iter().find(|entry| entry.ino == ino)?;
        Some(String::from_utf8(found.name).expect("text"))
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        let ino = self.find(path).expect(path);
        self.run(async { read_all(&self.engine(), ino).await.expect(path) })
    }

    pub fn write(&self, path: &str, offset: u64, bytes: &[u8]) {
        let ino = self.find(path).expect(path);
        self.run(async {
            let file = self.engine().open(ino, WRITE).await.expect("opens");
            self.engine().write(&file, offset, bytes).await.expect("writes");
            self.engine().close(file).await.expect("closes");
        });
    }

    pub fn names(&self) -> Vec<String> {
        self.run(async {
            let entries = self.engine().readdir(self.dir, 0, 1_000).await.expect("lists");
            let mut names: Vec<_> =
                entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()).collect();
            names.sort();
            names
        })
    }

    pub fn conflicts(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.contains(".weir-conflict-")).collect()
    }

    pub fn sound(mut self) {
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

impl Lake {
    pub fn exporting() -> Self {
        Self::with_export(EXPORTS)
    }

    pub fn with_export(export: Policy) -> Self {
        Self::exporting_from(World::new(), export)
    }

    pub fn lazy_exporting() -> Self {
        let options = |lake: &Self| LinkOptions {
            export: EXPORTS,
            lazy_dirs: true,
            ..lake.options(Policy::default())
        };
        Self::linked(World::new(), options)
    }

    /// Exports to a bucket that keeps user metadata, which a directory does not. It is empty.
    pub fn exporting_to_memory() -> Self {
        let url = format!("memory://lake-{:x}", rand::random::<u64>());
        let options =
            |lake: &Self| LinkOptions { url, export: EXPORTS, ..lake.options(Policy::default()) };
        Self::linked(World::new(), options)
    }

    /// Exports from this world, whose bucket may be a strange one.
    pub fn exporting_from(world: World, export: Policy) -> Self {
        Self::exporting_with(world, Policy::default(), export)
    }

    pub fn exporting_with(world: World, import: Policy, export: Policy) -> Self {
        Self::linked(world, |lake| LinkOptions { export, ..lake.options(import) })
    }

    fn linked(world: World, options: impl FnOnce(&Self) -> LinkOptions) -> Self {
        std::fs::create_dir(world.path("lake")).expect("makes");
        let mut lake = Self { world, dir: Ino::ROOT };
        lake.put("a", b"first");
        lake.put("d/b", &noise(1, 3_000_000));
        let (engine, options) = (lake.engine(), options(&lake));
        lake.dir = lake.run(async {
            let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
            engine.link_bucket(dir, "/lake", options).await.expect("links");
            dir
        });
        lake.imported();
        lake
    }

    pub fn make(&self, dir: Ino, name: &str, bytes: &[u8]) -> Ino {
        self.run(async {
            let engine = self.engine();
            let made = engine.create(dir, name.as_bytes(), new_file()).await.expect("creates");
            let file = engine.open(made.ino, WRITE).await.expect("opens");
            engine.write(&file, 0, bytes).await.expect("writes");
            engine.close(file).await.expect("closes");
            made.ino
        })
    }

    /// Waits until nothing is to be exported any more.
    pub fn exported(&self) {
        for _ in 0..1_500 {
            let view = self.view();
            if view.export_waiting == 0 {
                assert_eq!(view.export_error, None);
                return;
            }
            self.rest(10);
        }
        panic!("the export does not end: {:?}", self.view());
    }

    /// Waits until nothing is to be exported any more, whatever failed on the way.
    pub fn settled(&self) {
        for _ in 0..1_500 {
            let view = self.view();
            if view.export_waiting == 0 && view.export_error.is_none() {
                return;
            }
            self.rest(10);
        }
        panic!("the export does not end: {:?}", self.view());
    }

    /// Archives a file, whatever the link's policy is, and waits for the end.
    pub fn archive(&self, path: &str) {
        self.archive_file(self.find(path).expect(path), &format!("/lake/{path}"));
    }

    /// The same for any file.
    pub fn archive_file(&self, ino: Ino, path: &str) {
        let roots = vec![Root { ino, path: path.to_owned() }];
        let kind = ActionKind::Archive;
        let request =
            ActionRequest { kind, roots, recursive: false, max_bytes_per_s: None, restore: None };
        self.run(async {
            let engine = self.engine();
            let id = engine.start_action(request).await.expect("starts").id;
            engine.wait_for_action(id, 30_000).await.expect("ends");
        });
    }

    pub fn stored(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.object(key)).ok()
    }

    /// What the object of this key says of its file.
    pub fn attribute(&self, key: &str, name: &str) -> String {
        let url = self.view().options.url.parse().expect("a url");
        let bucket = Bucket::connect(&url, &ConnectOptions::default(), &Meter::new());
        let bucket = bucket.expect("connects");
        let found = self.run(bucket.head_attributes(Component::Link, key)).expect("is there");
        found.1[name].clone()
    }

    pub fn rename(&self, from: (Ino, &str), to: (Ino, &str)) {
        let mode = RenameMode::Replace;
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        self.run(async { self.engine().rename(from, to, mode).await.expect("renames") });
    }

    pub fn puts(&self) -> u64 {
        let status = self.run(async { self.engine().status().await.expect("status") });
        let puts = |row: &&weir_object::MeterRow| {
            row.component == weir_object::Component::Link
                && row.kind == weir_object::RequestKind::Put
        };
        status.requests.rows.iter().filter(puts).map(|row| row.requests).sum()
    }
}
