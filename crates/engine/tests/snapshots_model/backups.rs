//! Backups of the model's volume, and volumes that are made of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::{
    BackupOptions, BackupProgress, BucketUrl, Engine, FsckOptions, RestoreVolumeOptions, Taking,
    backups, delete_backups, fsck, restore_volume,
};
use weir_types::{ErrorKind, Ino};

use super::common::{World, mount_options, read_all};
use super::{Run, Tree, ino_of};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/backup-1");

fn place(world: &World, name: &str) -> BucketUrl {
    let path = world.path(name);
    std::fs::create_dir_all(&path).expect("a directory");
    format!("file://{}", path.display()).parse().expect("a URL")
}

/// The names and bytes of a volume that is made of a backup, at a place of its own.
async fn restored(world: &World, from: &BucketUrl, backup: Option<&str>, to: &str) -> Tree {
    let to = place(world, to);
    let connector = world.options.connector.clone();
    let options = RestoreVolumeOptions {
        from: from.clone(),
        backup: backup.map(str::to_owned),
        to: to.clone(),
        stripe: Vec::new(),
        metadata: None,
        keep_links: false,
        connector: connector.clone(),
        to_connector: connector.clone(),
        jobs: 3,
        host: world.options.host.clone(),
        clock: world.options.clock.clone(),
    };
    let restored = restore_volume(options.clone(), &BackupProgress::default()).await;
    assert_eq!(restored.expect("restores").damaged, Vec::<String>::new());
    let again = restore_volume(options, &BackupProgress::default()).await;
    assert_eq!(again.expect_err("there is a volume").kind(), ErrorKind::Exists);
    let tier = world.path("restored-tier");
    let engine = Engine::mount(mount_options(to.clone(), connector.clone(), &tier)).await;
    let engine = Arc::new(engine.expect("mounts"));
    let mut tree = Tree::new();
    for entry in engine.readdir(Ino::ROOT, 0, 1_000).await.expect("lists") {
        let ino =
            ino_of(&engine, Ino::ROOT, std::str::from_utf8(&entry.name).expect("a name")).await;
        let bytes = read_all(&engine, ino).await.expect("reads");
        tree.insert(String::from_utf8(entry.name).expect("a name"), bytes);
    }
    engine.shutdown().await.expect("ends");
    let checked = FsckOptions { url: to.clone(), connector, data: true, metadata_url: None };
    let report = fsck(checked, |_, _| ()).await.expect("checks");
    assert_eq!((report.problems, report.unnamed_objects), (Vec::new(), 0));
    for path in [to.directory().expect("a directory"), &tier] {
        std::fs::remove_dir_all(path).expect("removes");
    }
    tree
}

impl Run {
    /// Takes a snapshot that is there.
    pub(super) fn back_up(&mut self) {
        let Some(snapshot) = self.some_snapshot() else { return };
        let to = place(&self.world, "backups");
        let options = &self.world.options;
        let name = format!("b{}", self.step);
        let report = self.world.run(async {
            let taking =
                Taking::begin(&to, &options.connector, &options.host).await.expect("begins");
            let what = BackupOptions {
                url: options.url.clone(),
                connector: options.connector.clone(),
                snapshot: snapshot.clone(),
                name: name.clone(),
                jobs: 3,
                verify: self.step.is_multiple_of(3),
            };
            let report = taking.take(&what, &BackupProgress::default()).await.expect("takes");
            taking.end().await.expect("ends");
            report
        });
        assert_eq!(report.backup.damaged, Vec::<String>::new(), "{}", self.place());
        self.backups.insert(name, self.snapshots[&snapshot].clone());
    }

    fn some_backup(&mut self) -> Option<String> {
        let names: Vec<_> = self.backups.keys().cloned().collect();
        let at = rand::RngExt::random_range(&mut self.rng, 0..names.len().max(1));
        names.get(at).cloned()
    }

    pub(super) fn delete_backup(&mut self) {
        let Some(name) = self.some_backup() else { return };
        self.backups.remove(&name);
        let (to, options) = (place(&self.world, "backups"), &self.world.options);
        self.world.run(async {
            delete_backups(&to, &options.connector, &options.host, &[name]).await.expect("deletes");
            let left = backups(&to, &options.connector).await.expect("lists");
            assert_eq!(left.len(), self.backups.len(), "{}", self.place());
        });
        if self.backups.is_empty() {
            let left = super::common::still::objects_in(&self.world.path("backups"));
            assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{}", self.place());
        }
    }

    pub(super) fn restore_backup(&mut self) {
        let Some(name) = self.some_backup() else { return };
        let from = place(&self.world, "backups");
        let tree = self.world.run(restored(&self.world, &from, Some(&name), "restored"));
        let is_same = tree == self.backups[&name];
        assert!(is_same, "{}: backup {name} is another one", self.place());
    }

    /// Each backup is whole, whatever became of the volume; and when all are deleted nothing is left.
    pub(super) fn end_backups(&mut self) {
        self.unix_ms.fetch_add(1_000, Ordering::Relaxed);
        if !self.backups.is_empty() {
            self.restore_backup();
        }
        while !self.backups.is_empty() {
            self.delete_backup();
        }
    }
}

#[test]
fn a_backup_of_the_first_form_is_restored() {
    let world = World::new();
    let copied =
        std::process::Command::new("cp").args(["-r", GOLDEN]).arg(world.path("golden")).status();
    assert!(copied.expect("runs").success());
    let from = place(&world, "golden");
    let tree = world.run(restored(&world, &from, None, "restored"));
    let sizes: Vec<_> = tree.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect();
    assert_eq!(sizes, [("empty", 0), ("large", 1_500_000), ("small", 6)]);
    assert_eq!(tree["small"], b"small\n");
    assert!(tree["large"].chunks(10).all(|line| line == b"123456789\n"));
}
