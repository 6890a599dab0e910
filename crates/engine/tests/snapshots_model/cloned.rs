//! Volumes that begin as a snapshot of the model was, and share its objects.

use std::sync::Arc;

use rand::RngExt;
use weir_engine::{BackupProgress, CloneOptions, Engine, FsckOptions, clone_volume, fsck};
use weir_types::{ErrorKind, Ino};

use super::common::{WRITE, create, mount_options, noise, read_all};
use super::{Run, Tree, ino_of};

const CLONES_MAX: usize = 2;

/// A clone, which holds a snapshot for as long as it is there.
pub(super) struct Cloned {
    snapshot: String,
    now: Tree,
}

impl Run {
    pub(super) fn clone_one(&mut self) {
        let Some(snapshot) = self.some_snapshot() else { return };
        if self.clones.len() == CLONES_MAX {
            let oldest = self.clones.keys().next().cloned().expect("there are some");
            self.end_clone(&oldest);
        }
        let Some(tree) = self.snapshots.get(&snapshot).cloned() else { return };
        let name = format!("clone{}", self.step);
        let to = self.world.path(&name);
        std::fs::create_dir_all(&to).expect("a bucket");
        let options = &self.world.options;
        let what = CloneOptions {
            from: options.url.clone(),
            snapshot: snapshot.clone(),
            to: format!("file://{}", to.display()).parse().expect("a URL"),
            stripe: Vec::new(),
            metadata: None,
            keep_links: false,
            connector: options.connector.clone(),
            host: options.host.clone(),
            clock: options.clock.clone(),
        };
        self.world.run(async {
            self.world.engine().hold_snapshot(&snapshot, true).await.expect("holds");
            clone_volume(what, &BackupProgress::default()).await.expect("clones");
        });
        self.clones.insert(name, Cloned { snapshot, now: tree });
    }

    pub(super) fn is_cloned(&self, snapshot: &str) -> bool {
        self.clones.values().any(|clone| clone.snapshot == snapshot)
    }

    /// Mounts one, which must be as it was left, and changes it.
    pub(super) fn use_clone(&mut self) {
        let names: Vec<_> = self.clones.keys().cloned().collect();
        let Some(name) = names.get(self.rng.random_range(0..names.len().max(1))) else { return };
        let (changed, step) = (self.name(), self.step);
        let content = noise(step, self.rng.random_range(1..1 << 20));
        let options = &self.world.options;
        let url: weir_engine::BucketUrl =
            format!("file://{}", self.world.path(name).display()).parse().expect("a URL");
        let mut mounted = mount_options(
            url.clone(),
            options.connector.clone(),
            &self.world.path(&format!("{name}-tier")),
        );
        mounted.settings = options.settings.clone();
        mounted.clock = options.clock.clone();
        let clone = &self.clones[name];
        let place = format!("seed {} step {step}: {name}", self.seed);
        let wrote = self.world.run(async {
            let engine = Arc::new(Engine::mount(mounted).await.expect("mounts"));
            for (file, content) in &clone.now {
                let ino = ino_of(&engine, Ino::ROOT, file).await;
                let read = read_all(&engine, ino).await;
                let read = read.unwrap_or_else(|e| panic!("{place}/{file}: {e}"));
                assert!(read == *content, "{place}/{file} is another one");
            }
            if clone.now.contains_key(&changed) {
                engine.unlink(Ino::ROOT, changed.as_bytes()).await.expect("removes");
            }
            let ino = create(&engine, &changed, b"").await;
            let file = engine.open(ino, WRITE).await.expect("opens");
            // It has the quotas that the snapshot had, and may be full.
            let wrote = engine.write(&file, 0, &content).await;
            engine.close(file).await.expect("closes");
            engine.flush_all().await.expect("flushes");
            engine.collect_now().await.expect("collects");
            engine.shutdown().await.expect("ends");
            let connector = options.connector.clone();
            let checked = FsckOptions { url, connector, data: true, metadata_url: None };
            let report = fsck(checked, |_, _| ()).await.expect("checks");
            assert_eq!(report.problems, Vec::<String>::new(), "{place}");
            wrote
        });
        if let Err(error) = &wrote {
            assert_eq!(error.kind(), ErrorKind::Quota, "{place}: {error}");
        }
        let (name, content) = (name.clone(), if wrote.is_ok() { content } else { Vec::new() });
        self.clones.get_mut(&name).expect("it is there").now.insert(changed, content);
    }

    /// The clone goes, and nobody holds its snapshot any more.
    pub(super) fn end_clone(&mut self, name: &str) {
        let clone = self.clones.remove(name).expect("it is there");
        std::fs::remove_dir_all(self.world.path(name)).expect("removes");
        let _ = std::fs::remove_dir_all(self.world.path(&format!("{name}-tier")));
        if !self.is_cloned(&clone.snapshot) {
            let held = self.world.run(self.world.engine().delete_snapshot(&clone.snapshot));
            assert_eq!(held.expect_err("it is held").kind(), ErrorKind::Permission);
            let engine = self.world.engine();
            self.world.run(engine.hold_snapshot(&clone.snapshot, false)).expect("lets go");
        }
    }

    pub(super) fn end_clones(&mut self) {
        while let Some(name) = self.clones.keys().next().cloned() {
            self.use_clone();
            self.end_clone(&name);
        }
    }
}
