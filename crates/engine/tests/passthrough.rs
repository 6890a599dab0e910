//! Files that programs have from the tier itself. Another descriptor of the mirror file stands for
//! a mapping of it.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::Duration;

use common::{World, create, noise, read_all, settings};
use weir_engine::{Engine, Fallocate, OpenFile, OpenFlags, Seek};
use weir_types::{Ino, Settings};

/// Opens and lends the file, also for writing; answers what stands for a mapping.
async fn map(engine: &Arc<Engine>, ino: Ino) -> (Arc<OpenFile>, File) {
    let file = engine
        .open(ino, OpenFlags { write: true, truncate: false, client: 0 })
        .await
        .expect("opens");
    let lent = file.passthrough().expect("lends").expect("all of it is here").file;
    engine.passthrough_writable(&file).await.expect("lends");
    let path = format!("/proc/self/fd/{}", lent.as_raw_fd());
    (file, File::options().read(true).write(true).open(path).expect("opens the mirror file"))
}

#[test]
fn a_store_is_uploaded_once_though_its_mapping_stays() {
    let settings = Settings { flush_age_ms: 100, ..settings() };
    let mut world = World::with(settings, None);
    let ino = world.run(create(&world.engine(), "a", &noise(1, 1 << 20)));
    world.run(async {
        let engine = world.engine();
        engine.fsync(ino).await.expect("syncs");
        let (file, mapped) = map(&engine, ino).await;
        let sent = async || engine.status().await.expect("status").since_mount.bytes_flushed;
        let before = sent().await;
        mapped.write_all_at(b"stored", 5_000).expect("stores");
        while sent().await == before || engine.status().await.expect("status").tier.dirty_bytes > 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let after = sent().await;
        // Many looks: one comes every 25 ms.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(sent().await, after, "nothing was stored since");
        assert!(engine.may_be_stored(ino));
        drop(mapped);
        engine.end_passthrough_writable(&file).await.expect("takes back");
        file.end_passthrough(0).expect("takes back");
        assert!(!engine.may_be_stored(ino));
        engine.close(file).await.expect("closes");
        assert_eq!(&read_all(&engine, ino).await.expect("reads")[5_000..5_006], b"stored");
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_is_stored_into_a_hole_is_data() {
    let mut world = World::new();
    let ino = world.run(create(&world.engine(), "a", &noise(2, 4096)));
    world.run(async {
        let engine = world.engine();
        let kind = Fallocate::Allocate { keep_size: false };
        engine.fallocate(ino, kind, 0, 1 << 20).await.expect("grows");
        engine.fsync(ino).await.expect("syncs");
        read_all(&engine, ino).await.expect("the hole is known");
        let (file, mapped) = map(&engine, ino).await;
        assert!(engine.seek(ino, 4096, Seek::Data).await.is_err(), "a hole up to the end");
        mapped.write_all_at(b"stored", 500_000).expect("stores");
        let found = engine.seek(ino, 4096, Seek::Data).await.expect("data");
        assert!((4096..=500_000).contains(&found), "{found}");
        drop(mapped);
        engine.end_passthrough_writable(&file).await.expect("takes back");
        file.end_passthrough(0).expect("takes back");
        engine.close(file).await.expect("closes");
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

/// A mirror that cannot be looked at: a directory stands where its file was.
#[test]
fn one_file_that_cannot_be_looked_at_keeps_no_other_here_and_is_told() {
    let mut world = World::new();
    let bad = world.run(create(&world.engine(), "bad", &noise(3, 1 << 20)));
    let good = world.run(create(&world.engine(), "good", &noise(4, 1 << 20)));
    world.run(async {
        let engine = world.engine();
        engine.flush_all().await.expect("flushes");
        let (file, mapped) = map(&engine, bad).await;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", mapped.as_raw_fd()));
        let path = path.expect("a path");
        assert_eq!(path.metadata().expect("stat").ino(), mapped.metadata().expect("stat").ino());
        engine.end_passthrough_writable(&file).await.expect("takes back");
        let aside = path.with_extension("aside");
        std::fs::rename(&path, &aside).expect("moves");
        std::fs::create_dir(&path).expect("stands in the way");
        write_over(&engine, good).await;
        assert!(engine.flush_all().await.is_err());
        let dirty = engine.residency(good).await.expect("asks").dirty;
        assert_eq!(dirty, 0, "it is in the bucket all the same");
        std::fs::remove_dir(&path).expect("removes");
        std::fs::rename(&aside, &path).expect("moves back");
        engine.flush_all().await.expect("flushes");
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

async fn write_over(engine: &Arc<Engine>, ino: Ino) {
    let file = engine
        .open(ino, OpenFlags { write: true, truncate: false, client: 0 })
        .await
        .expect("opens");
    engine.write(&file, 0, b"new").await.expect("writes");
    engine.close(file).await.expect("closes");
}
