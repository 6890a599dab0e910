//! Quotas over an engine: what is let in, and what all counts in the end.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::time::Duration;

use common::{WRITE, World, new_dir, new_file, noise};
use weir_engine::{QuotaChange, QuotaSubject, QuotaView, RenameMode, SetAttr};
use weir_types::{ErrorKind, Ino};

const MIB: u64 = 1 << 20;

fn make(world: &World, dir: Ino, name: &str, len: u64) -> weir_types::Result<Ino> {
    world.run(async {
        let engine = world.engine();
        let ino = engine.create(dir, name.as_bytes(), new_file()).await?.ino;
        let file = engine.open(ino, WRITE).await?;
        let wrote = engine.write(&file, 0, &noise(1, len as usize)).await;
        engine.close(file).await?;
        wrote.map(|_| ino)
    })
}

fn set(world: &World, subject: QuotaSubject, bytes: u64, files: u64) -> QuotaView {
    let change = QuotaChange { bytes_max: Some(bytes), files_max: Some(files) };
    world.run(world.engine().set_quota(subject, change)).expect("sets");
    counted(world, subject)
}

fn of(world: &World, subject: QuotaSubject) -> Option<QuotaView> {
    let all = world.run(world.engine().quotas()).expect("lists");
    all.into_iter().find(|quota| quota.subject == subject)
}

fn rest(world: &World) {
    world.run(async { tokio::time::sleep(Duration::from_millis(5)).await });
}

/// The quota, once all that is there counts.
fn counted(world: &World, subject: QuotaSubject) -> QuotaView {
    for _ in 0..1_000 {
        let quota = of(world, subject).expect("there is one");
        if quota.counting.is_none() {
            return quota;
        }
        rest(world);
    }
    panic!("the counting does not end");
}

fn is_full<T: std::fmt::Debug>(refused: weir_types::Result<T>) {
    assert_eq!(refused.expect_err("it is full").kind(), ErrorKind::Quota);
}

#[test]
fn bytes_are_let_in_up_to_the_quota_and_what_is_overwritten_needs_none() {
    let mut world = World::new();
    let dir = world.run(world.engine().create(Ino::ROOT, b"d", new_dir())).expect("mkdir").ino;
    let subject = QuotaSubject::Directory(dir.0);
    assert_eq!(set(&world, subject, 3 * MIB, 0).files_used, 1);
    let ino = make(&world, dir, "a", 2 * MIB).expect("fits");
    is_full(make(&world, dir, "b", 2 * MIB));
    make(&world, Ino::ROOT, "outside", 8 * MIB).expect("nothing is full outside");
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        for round in 0..4 {
            engine.write(&file, 0, &noise(round, 2 * MIB as usize)).await.expect("overwrites");
        }
        engine.fsync(ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
        let spare = MIB - 4096;
        let b = engine.lookup(dir, b"b").await.expect("its name came first").ino;
        let file = engine.open(b, WRITE).await.expect("opens");
        engine.write(&file, 0, &noise(9, spare as usize)).await.expect("there is room for that");
        engine.close(file).await.expect("closes");
        engine.flush_all().await.expect("flushes");
    });
    let quota = of(&world, subject).expect("there");
    assert_eq!((quota.files_used, quota.bytes_used), (3, 3 * MIB - 4096));
    let shown = world.run(world.engine().statfs(dir)).expect("statfs");
    assert_eq!((shown.total_bytes, shown.used_bytes), (3 * MIB, 3 * MIB - 4096));
    world.run(async { world.engine().unlink(dir, b"a").await.expect("removes") });
    make(&world, dir, "c", 2 * MIB).expect("what was removed is free again");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn trees_in_each_other_all_hold_and_outlive_mounts() {
    let mut world = World::new();
    let outer = world.run(world.engine().create(Ino::ROOT, b"o", new_dir())).expect("mkdir").ino;
    let inner = world.run(world.engine().create(outer, b"i", new_dir())).expect("mkdir").ino;
    make(&world, inner, "f", 100).expect("makes");
    let (of_outer, of_inner) = (QuotaSubject::Directory(outer.0), QuotaSubject::Directory(inner.0));
    assert_eq!(set(&world, of_inner, 0, 3).files_used, 2);
    assert_eq!(set(&world, of_outer, 0, 4).files_used, 3, "the inner one as well");
    make(&world, inner, "g", 0).expect("the last one of both");
    is_full(make(&world, inner, "h", 0));
    is_full(make(&world, outer, "h", 0));
    let over = world.run(world.engine().quotas_over(inner)).expect("tells");
    let subjects: Vec<_> = over.iter().map(|quota| quota.subject).collect();
    assert_eq!(subjects, [of_inner, of_outer]);
    world.kill();
    world.mount().expect("mounts");
    is_full(make(&world, outer, "h", 0));
    world.run(async { world.engine().remove_quota(of_inner).await.expect("removes") });
    for _ in 0..1_000 {
        if of(&world, of_inner).is_none() {
            break;
        }
        rest(&world);
    }
    assert_eq!(of(&world, of_inner), None, "it goes");
    assert_eq!(of(&world, of_outer).expect("stays").files_used, 4);
    is_full(make(&world, inner, "h", 0));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_moves_in_or_is_given_away_must_fit() {
    let mut world = World::new();
    let dir = world.run(world.engine().create(Ino::ROOT, b"d", new_dir())).expect("mkdir").ino;
    set(&world, QuotaSubject::Directory(dir.0), MIB, 0);
    set(&world, QuotaSubject::User(77), 0, 1);
    make(&world, Ino::ROOT, "large", 2 * MIB).expect("makes");
    let small = make(&world, Ino::ROOT, "small", 1_000).expect("makes");
    let large = world.run(world.engine().lookup(Ino::ROOT, b"large")).expect("there").ino;
    let (engine, mode) = (world.engine(), RenameMode::Replace);
    let moved =
        |name: &'static [u8]| world.run(engine.rename((Ino::ROOT, name), (dir, name), mode));
    is_full(moved(b"large"));
    moved(b"small").expect("fits");
    let give = || SetAttr { uid: Some(77), ..SetAttr::default() };
    world.run(engine.setattr(small, give())).expect("the first file of that user");
    is_full(world.run(engine.setattr(large, give())));
    world.run(engine.setattr(small, give())).expect("it is that user's already");
    let exchange = RenameMode::Exchange;
    is_full(world.run(engine.rename((Ino::ROOT, b"large"), (dir, b"small"), exchange)));
    is_full(world.run(engine.rename((dir, b"small"), (Ino::ROOT, b"large"), exchange)));
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_was_overwritten_since_somebody_looked_counts_once() {
    let mut world = World::new();
    let dir = world.run(world.engine().create(Ino::ROOT, b"d", new_dir())).expect("mkdir").ino;
    let subject = QuotaSubject::Directory(dir.0);
    set(&world, subject, 4 * MIB, 0);
    let first = make(&world, dir, "first", 2 * MIB).expect("fits");
    let second = make(&world, dir, "second", MIB).expect("fits");
    world.run(world.engine().flush_all()).expect("flushes");
    let overwrite = |ino: Ino, len: u64| {
        world.run(async {
            let engine = world.engine();
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, 0, &noise(2, len as usize)).await.expect("overwrites");
            engine.close(file).await.expect("closes");
        });
    };
    overwrite(second, MIB);
    assert_eq!(of(&world, subject).expect("there").bytes_used, 4 * MIB, "stored, and dirty");
    overwrite(first, 2 * MIB);
    make(&world, dir, "third", MIB).expect("there is room for it");
    is_full(make(&world, dir, "fourth", 4096));
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_quota_that_is_set_again_while_it_goes_counts_all_again() {
    let mut world = World::new();
    let dir = world.run(world.engine().create(Ino::ROOT, b"d", new_dir())).expect("mkdir").ino;
    for n in 0..400 {
        make(&world, dir, &format!("f{n}"), 10).expect("makes");
    }
    world.run(world.engine().flush_all()).expect("flushes");
    let subject = QuotaSubject::Directory(dir.0);
    assert_eq!(set(&world, subject, 0, 0).files_used, 401);
    for round in 0..20 {
        world.run(world.engine().remove_quota(subject)).expect("removes");
        world.run(async { tokio::time::sleep(Duration::from_millis(round % 5)).await });
        let quota = set(&world, subject, 0, 0);
        assert_eq!((quota.files_used, quota.bytes_used), (401, 4_000), "round {round}");
    }
    world.unmount().expect("unmounts");
    world.fsck();
}
