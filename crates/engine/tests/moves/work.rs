//! What is done with the files of a mount.

use rand::RngExt;
use weir_engine::AcceptLoss;
use weir_types::{ErrorKind, Ino};

use super::common::{WRITE, new_file};
use super::{BLOCK, BLOCKS, FILES, Lab, block, name};

impl Lab {
    pub(super) fn use_it(&mut self) {
        match self.rng.random_range(0..100) {
            0..40 => self.write(),
            40..50 => self.come_or_go(),
            50..55 => self.cut(),
            55..68 => self.fsync(),
            68..71 => self.flush(),
            71..74 => {
                self.note("release");
                let engine = self.world.engine();
                self.world.run(engine.release_all()).expect("releases");
            }
            74..78 => self.check(AcceptLoss::Nothing),
            78..88 => self.kill(),
            88..91 => self.reboot(),
            91..97 => self.unmount(),
            97 => self.unmount_without_bucket(),
            _ => self.taken_alive(),
        }
    }

    fn come_or_go(&mut self) {
        let file = self.rng.random_range(0..FILES);
        let engine = self.world.engine();
        let there = self.files[file].there.now();
        self.note(format!("{} f{file}", if there { "unlink" } else { "create" }));
        match there {
            true => self.world.run(engine.unlink(Ino::ROOT, &name(file))).expect("unlinks"),
            false => drop(
                self.world.run(engine.create(Ino::ROOT, &name(file), new_file())).expect("creates"),
            ),
        }
        let model = &mut self.files[file];
        model.there.set(!there);
        if there {
            model.blocks.iter_mut().for_each(|block| block.set(0));
        }
    }

    pub(super) fn write(&mut self) {
        let file = self.rng.random_range(0..FILES);
        if !self.files[file].there.now() {
            return self.come_or_go();
        }
        let from = self.rng.random_range(0..BLOCKS);
        let to = (from + self.rng.random_range(1..8)).min(BLOCKS);
        self.stamp += 1;
        let stamp = self.stamp;
        self.note(format!("write {stamp} to f{file} {from}..{to}"));
        let bytes: Vec<u8> = (from..to).flat_map(|at| block(stamp, file, at)).collect();
        let engine = self.world.engine();
        self.world.run(async {
            let ino = engine.lookup(Ino::ROOT, &name(file)).await.expect("is there").ino;
            let open = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&open, (from * BLOCK) as u64, &bytes).await.expect("writes");
            engine.close(open).await.expect("closes");
        });
        self.files[file].blocks[from..to].iter_mut().for_each(|block| block.set(stamp));
    }

    fn cut(&mut self) {
        let file = self.rng.random_range(0..FILES);
        let to = self.rng.random_range(0..BLOCKS);
        let Some(ino) = self.ino(file) else { return };
        self.note(format!("truncate f{file} to {to}"));
        let engine = self.world.engine();
        self.world.run(engine.truncate(ino, (to * BLOCK) as u64)).expect("truncates");
        self.files[file].blocks[to..].iter_mut().for_each(|block| block.set(0));
    }

    pub(super) fn ino(&self, file: usize) -> Option<Ino> {
        let engine = self.world.engine();
        match self.world.run(engine.lookup(Ino::ROOT, &name(file))) {
            Ok(inode) => Some(inode.ino),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("seed {}: f{file}: {error}", self.seed),
        }
    }

    fn fsync(&mut self) {
        let file = self.rng.random_range(0..FILES);
        let Some(ino) = self.ino(file) else { return };
        self.note(format!("fsync f{file}"));
        let engine = self.world.engine();
        self.world.run(engine.fsync(ino)).expect("syncs");
        let to_bucket = self.journal.is_none();
        self.files[file].blocks.iter_mut().for_each(|block| block.sync(to_bucket));
        self.files.iter_mut().for_each(|file| file.there.sync(to_bucket));
    }

    fn flush(&mut self) {
        self.note("flush");
        let engine = self.world.engine();
        self.world.run(engine.flush_all()).expect("flushes");
        self.all_in_bucket();
    }

    pub(super) fn all_in_bucket(&mut self) {
        for file in &mut self.files {
            file.there.sync(true);
            file.blocks.iter_mut().for_each(|block| block.sync(true));
        }
    }
}
