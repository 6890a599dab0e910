//! Metadata that is lost, and restored from a dump of one of the model's snapshots.

use rand::RngExt;
use weir_engine::{BackupProgress, RestoreMetadataOptions, dumps, restore_metadata};
use weir_types::ErrorKind;

use super::Run;

impl Run {
    pub(super) fn dump(&mut self) {
        let Some(name) = self.some_snapshot() else { return };
        let view = self.world.run(self.world.engine().dump_snapshot(&name)).expect("dumps");
        assert!(view.dumped, "{}", self.place());
        self.dumps.insert(name);
    }

    /// Only dumps of snapshots that are there stay.
    pub(super) fn sweep(&mut self) {
        self.dumps.retain(|name| self.snapshots.contains_key(name));
        self.world.run(self.world.engine().sweep_dumps_now()).expect("sweeps");
        let options = &self.world.options;
        let there = self.world.run(dumps(&options.url, &options.connector)).expect("lists");
        let mut there: Vec<_> = there.into_iter().map(|dump| dump.name).collect();
        there.sort_unstable();
        let wanted: Vec<_> = self.dumps.iter().cloned().collect();
        assert_eq!(there, wanted, "{}", self.place());
    }

    /// The volume ends in one way or another, its metadata goes or not, and it is as a dump has it.
    pub(super) fn lose(&mut self) {
        self.dumps.retain(|name| self.snapshots.contains_key(name));
        let names: Vec<_> = self.dumps.iter().cloned().collect();
        let Some(name) = names.get(self.rng.random_range(0..names.len().max(1))).cloned() else {
            return;
        };
        self.end_clones();
        match self.rng.random_range(0..2) {
            0 => self.world.kill(),
            _ => self.world.unmount().expect("unmounts"),
        }
        let meta = self.world.path("bucket").join("meta");
        let gone = self.rng.random_range(0..2) == 0 && meta.exists();
        if gone {
            std::fs::remove_dir_all(meta).expect("removes");
        }
        let options = &self.world.options;
        let restore = RestoreMetadataOptions {
            url: options.url.clone(),
            dump: Some(name.clone()),
            metadata: None,
            accept_loss: gone,
            connector: options.connector.clone(),
            host: options.host.clone(),
            clock: options.clock.clone(),
        };
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let restored = runtime.block_on(async {
            let mut there: Vec<_> = dumps(&options.url, &options.connector).await.expect("lists");
            there.retain(|dump| dump.name == name);
            assert_eq!(there.len(), 1, "{}", self.place());
            if !gone {
                let refused = restore_metadata(restore.clone(), &BackupProgress::default()).await;
                assert_eq!(refused.expect_err("it is there").kind(), ErrorKind::Conflict);
            }
            let accepted = RestoreMetadataOptions { accept_loss: true, ..restore };
            restore_metadata(accepted, &BackupProgress::default()).await.expect("restores")
        });
        assert_eq!(restored.missing, Vec::<String>::new(), "{}", self.place());
        self.world.fsck();
        self.world.mount().expect("mounts");
        self.now = self.snapshots[&name].clone();
        self.snapshots.clear();
        self.dumps.clear();
        // Backups are of the volume that it was: another place is for those of this one.
        self.backups.clear();
        let _ = std::fs::remove_dir_all(self.world.path("backups"));
        self.learn_quotas();
        self.sweep();
        self.check_all();
    }
}
