//! What is promised of data through flushes, kills, reboots, lost machines and other writers:
//! one test for each cell of SEMANTICS.md that needs no kernel mount.

mod common;

use common::{WRITE, World, create, noise, read_all, settings};
use weir_engine::{Fallocate, OpenFlags, RenameMode, Seek, SnapshotOptions};
use weir_types::{Bytes, ErrorKind, Ino, Settings};

fn lookup(world: &World, name: &str) -> weir_types::Result<Ino> {
    world.run(world.engine().lookup(Ino::ROOT, name.as_bytes())).map(|inode| inode.ino)
}

fn content(world: &World, name: &str) -> Vec<u8> {
    let ino = lookup(world, name).expect("is there");
    world.run(read_all(&world.engine(), ino)).expect("reads")
}

#[test]
fn written_data_survives_a_kill_without_any_sync() {
    let mut world = World::new();
    let bytes = noise(1, 5_000_000);
    world.run(create(&world.engine(), "a", &bytes));
    world.run(create(&world.engine(), "b", b"small"));
    world.kill();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
    assert_eq!(content(&world, "b"), b"small");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_clean_unmount_leaves_everything_in_the_bucket() {
    let mut world = World::new();
    let bytes = noise(2, 3_000_000);
    world.run(create(&world.engine(), "a", &bytes));
    world.unmount().expect("unmounts");
    std::fs::remove_dir_all(world.path("tier")).expect("removes");
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn fsynced_data_survives_the_loss_of_the_machine() {
    let mut world = World::new();
    let bytes = noise(3, 1_500_000);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(world.engine().fsync(ino)).expect("syncs");
    world.lose_machine();
    let accepted = std::mem::take(&mut world.options.accept_loss);
    let error = world.mount().expect_err("what was not fsynced is not here");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("--accept-loss tier"), "{error}");
    world.options.accept_loss = accepted;
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
}

#[test]
fn a_machine_lost_without_fsync_costs_no_more_than_the_flush_ages() {
    let quick = Settings { flush_age_ms: 100, meta_flush_ms: 50, ..settings() };
    let mut world = World::with(quick, None);
    let bytes = noise(4, 700_000);
    world.run(create(&world.engine(), "a", &bytes));
    world.run(async {
        let engine = world.engine();
        // Until the background flush has it, and the metadata's flush after it.
        let began = std::time::Instant::now();
        while engine.status().await.expect("status").tier.dirty_bytes > 0 {
            assert!(began.elapsed().as_secs() < 60, "nothing is flushed by age");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    });
    world.lose_machine();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
}

#[test]
fn a_reboot_keeps_what_was_fsynced_and_no_stale_page() {
    let mut world = World::new();
    let (old, new) = (noise(5, 400_000), noise(6, 400_000));
    let ino = world.run(create(&world.engine(), "a", &old));
    world.run(world.engine().fsync(ino)).expect("syncs");
    world.unmount().expect("unmounts: now the mirror is sealed");
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 0, &new).await.expect("writes");
        engine.fsync(ino).await.expect("syncs");
        engine.write(&file, 0, b"never synced").await.expect("writes");
        engine.close(file).await.expect("closes");
    });
    world.reboot();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), new, "the fsynced bytes, and not the sealed ones");
}

#[test]
fn with_a_journal_fsync_sends_nothing_and_survives_the_loss_of_the_tier() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let bytes = noise(7, 300_000);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    let before = world.engine().meter().snapshot().bytes_sent();
    world.run(world.engine().fsync(ino)).expect("syncs");
    let sent = world.engine().meter().snapshot().bytes_sent() - before;
    assert!(sent < 100_000, "the data stayed here: {sent} bytes sent");
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 100, b"again").await.expect("writes");
        engine.fsync(ino).await.expect("syncs");
        engine.truncate(ino, 200_000).await.expect("truncates");
        engine.fsync(ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
    });
    world.reboot();
    world.lose_tier();
    world.mount().expect("mounts");
    let mut want = bytes[..200_000].to_vec();
    want[100..105].copy_from_slice(b"again");
    assert_eq!(content(&world, "a"), want);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_journal_that_is_left_out_is_asked_for() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    world.run(create(&world.engine(), "a", b"a"));
    world.kill();
    world.options.journal = None;
    let error = world.mount().expect_err("must not pass the journal by");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("--journal"), "{error}");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), b"a");
}

#[test]
fn a_second_writer_is_refused_and_may_take_over() {
    let mut first = World::new();
    first.run(create(&first.engine(), "kept", b"kept"));
    first.run(first.engine().flush_all()).expect("flushes");
    let mut second = first.options.clone();
    second.tier = first.path("tier2");
    second.host.machine_id = "another machine".into();
    second.host.hardware_id = "other hardware".into();
    second.host.boot_id = "another-boot".into();
    second.host.name = "elsewhere".into();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let refused = runtime.block_on(weir_engine::Engine::mount(second.clone()));
    let error = refused.err().expect("two writers");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("--take-over"), "{error}");

    first.run(create(&first.engine(), "lost", &noise(8, 100_000)));
    second.take_over = true;
    let taken = runtime.block_on(weir_engine::Engine::mount(second)).expect("takes over");
    runtime.block_on(create(&std::sync::Arc::new(taken), "new", b"new"));
    if !first.over_postgres() {
        // There nothing is left to be made durable.
        let fenced = first.run(first.engine().fsync_dir(Ino::ROOT)).expect_err("fenced");
        assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    }
    let refused = first.run(first.engine().create(Ino::ROOT, b"x", common::new_file()));
    assert_eq!(refused.expect_err("fenced").kind(), ErrorKind::Fenced);
    drop(runtime);
    // The old machine comes back: what it had not flushed is set aside, not merged in.
    first.kill();
    first.options.take_over = true;
    first.mount().expect("mounts");
    let report = first.run(first.engine().status()).expect("status").mount;
    let aside = report.set_aside.expect("set aside");
    assert!(aside.files == 1 && aside.dirty_bytes >= 100_000, "{aside:?}");
    assert_eq!(aside.log_bytes > 0, !first.over_postgres(), "{aside:?}");
    assert_eq!(content(&first, "kept"), b"kept");
    match lookup(&first, "lost") {
        // The database had the name when it was told.
        Ok(ino) if first.over_postgres() => {
            assert_eq!(first.run(first.engine().getattr(ino)).expect("is there").size, 0);
        }
        other => assert_eq!(other.expect_err("not merged").kind(), ErrorKind::NotFound),
    }
    first.unmount().expect("unmounts");
    first.fsck();
}

#[test]
fn whoever_needs_a_clean_end_takes_nothing_from_a_writer_that_died() {
    let mut first = World::new();
    first.run(create(&first.engine(), "kept", b"kept"));
    let mut temporary = first.options.clone();
    (temporary.only_clean, temporary.tier) = (true, first.path("tier2"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let refused = |options| runtime.block_on(weir_engine::Engine::mount(options)).err();
    assert_eq!(refused(temporary.clone()).expect("it runs").kind(), ErrorKind::Conflict);
    first.kill();
    let error = refused(temporary.clone()).expect("it was killed");
    assert!(error.to_string().contains("the same --tier"), "{error}");
    first.mount().expect("mounts");
    assert_eq!(content(&first, "kept"), b"kept");
    first.unmount().expect("unmounts");
    let passed = runtime.block_on(weir_engine::Engine::mount(temporary)).expect("a clean end");
    runtime.block_on(passed.shutdown()).expect("ends");
    first.mount().expect("mounts again");
    assert_eq!(content(&first, "kept"), b"kept");
    first.unmount().expect("unmounts");
}

#[test]
fn who_passes_and_is_killed_leaves_nothing_behind() {
    let mut first = World::new();
    first.run(create(&first.engine(), "kept", b"kept"));
    first.unmount().expect("unmounts");
    let passing = first.path("tier2");
    let tier = std::mem::replace(&mut first.options.tier, passing);
    first.options.only_clean = true;
    for name in ["one", "two"] {
        // The second of them finds the first one dead, and its tier, too.
        first.mount().expect("passes");
        let options = SnapshotOptions { name: name.to_owned(), flush: true, rule: None };
        let view = first.run(first.engine().create_snapshot(&options));
        assert_eq!(view.expect("a snapshot").name, name);
        first.kill();
        std::fs::remove_dir_all(&first.options.tier).expect("is cleared away");
    }
    (first.options.only_clean, first.options.tier) = (false, tier);
    first.mount().expect("mounts with the tier that it had");
    assert_eq!(content(&first, "kept"), b"kept");
    let report = first.run(first.engine().status()).expect("status").mount;
    assert!(report.set_aside.is_none(), "{report:?}");
    first.unmount().expect("unmounts");
    first.fsck();
}

#[test]
fn a_reader_follows_a_writer_and_changes_nothing() {
    let world = World::new();
    let ino = world.run(create(&world.engine(), "a", b"one"));
    world.run(world.engine().flush_all()).expect("flushes");
    let mut reader = world.options.clone();
    (reader.read_only, reader.tier) = (true, world.path("tier2"));
    let follower =
        std::sync::Arc::new(world.run(weir_engine::Engine::mount(reader)).expect("mounts"));
    assert_eq!(world.run(read_all(&follower, ino)).expect("reads"), b"one");
    let error = world.run(follower.create(Ino::ROOT, b"b", common::new_file()));
    assert_eq!(error.expect_err("read-only").kind(), ErrorKind::ReadOnly);
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 0, b"two and longer").await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.flush_all().await.expect("flushes");
        let began = std::time::Instant::now();
        while read_all(&follower, ino).await.expect("reads") != b"two and longer" {
            assert!(began.elapsed().as_secs() < 60, "the reader does not follow");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    world.run(follower.shutdown()).expect("ends");
}

#[test]
fn an_unlinked_open_file_lives_until_its_last_close() {
    let mut world = World::new();
    let bytes = noise(9, 200_000);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.unlink(Ino::ROOT, b"a").await.expect("unlinks");
        assert_eq!(engine.getattr(ino).await.expect("still there").nlink, 0);
        assert_eq!(engine.read(&file, 1000, 10).await.expect("reads"), bytes[1000..1010]);
        engine.write(&file, 0, b"x").await.expect("writes");
        engine.fsync(ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
        // For a moment who found the name before may still open it.
        let gone = loop {
            match engine.open(ino, OpenFlags::default()).await {
                Ok(file) => engine.close(file).await.expect("closes"),
                Err(error) => break error,
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    });
    world.unmount().expect("unmounts");
    world.mount().expect("mounts");
    assert_eq!(
        world.run(world.engine().statfs(Ino::ROOT)).expect("statfs").files,
        1,
        "only the root"
    );
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_tier_smaller_than_the_data_pages_in_and_out() {
    let small = Settings { tier_bytes: Bytes::mib(64), ..settings() };
    let mut world = World::with(small, None);
    let files: Vec<_> = (0..10).map(|i| noise(100 + i, 12 << 20)).collect();
    for (i, bytes) in files.iter().enumerate() {
        world.run(create(&world.engine(), &format!("f{i}"), bytes));
    }
    for (i, bytes) in files.iter().enumerate() {
        assert!(content(&world, &format!("f{i}")) == *bytes, "file {i}");
        let usage = world.run(world.engine().status()).expect("status").tier;
        assert!(usage.used_bytes <= usage.tier_bytes, "{usage:?}");
    }
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn holes_are_made_found_and_kept() {
    let mut world = World::new();
    let bytes = noise(10, 3 << 20);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    let mut want = bytes;
    want[100_001..2_500_000].fill(0);
    for round in 0..3 {
        world.run(async {
            let engine = world.engine();
            if round == 0 {
                let (offset, len) = (100_001, 2_500_000 - 100_001);
                engine.fallocate(ino, Fallocate::PunchHole, offset, len).await.expect("punches");
            }
            assert!(read_all(&engine, ino).await.expect("reads") == want, "round {round}");
            let hole = engine.seek(ino, 0, Seek::Hole).await.expect("a hole");
            assert_eq!(hole, 102_400, "the first whole page");
            let data = engine.seek(ino, hole, Seek::Data).await.expect("data");
            assert_eq!(data, 2_498_560, "the last page in part");
            assert_eq!(engine.seek(ino, data, Seek::Hole).await.expect("the end"), 3 << 20);
            assert!(engine.seek(ino, 3 << 20, Seek::Data).await.is_err());
            engine.flush_all().await.expect("flushes");
            engine.release_all().await.expect("releases");
        });
    }
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn copies_share_extents_and_part_when_written() {
    let mut world = World::new();
    let bytes = noise(11, (8 << 20) + 777);
    let a = world.run(create(&world.engine(), "a", &bytes));
    let b = world.run(create(&world.engine(), "b", b""));
    world.run(async {
        let engine = world.engine();
        engine.fsync(a).await.expect("syncs");
        let before = engine.meter().snapshot().bytes_sent();
        let copied = engine.copy_range((a, 0), (b, 0), u64::MAX >> 8, 0).await.expect("copies");
        assert_eq!(copied, bytes.len() as u64);
        engine.fsync(b).await.expect("syncs");
        let sent = engine.meter().snapshot().bytes_sent() - before;
        assert!(sent < 1 << 20, "shared, not copied: {sent}");
        let file = engine.open(b, WRITE).await.expect("opens");
        engine.write(&file, 5_000_000, b"changed").await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.flush_all().await.expect("flushes");
        engine.unlink(Ino::ROOT, b"a").await.expect("unlinks");
        engine.release_all().await.expect("releases");
    });
    let mut want = bytes;
    want[5_000_000..5_000_007].copy_from_slice(b"changed");
    assert!(content(&world, "b") == want);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn rename_replaces_in_one_step_over_a_kill() {
    let mut world = World::new();
    world.run(create(&world.engine(), "old", b"old"));
    world.run(create(&world.engine(), "new", b"new"));
    let root = Ino::ROOT;
    let renamed = world.engine().clone();
    world
        .run(renamed.rename((root, b"new"), (root, b"old"), RenameMode::Replace))
        .expect("renames");
    drop(renamed);
    world.kill();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "old"), b"new");
    assert!(lookup(&world, "new").is_err());
}

#[test]
fn a_flush_that_is_given_up_leaves_nothing_behind() {
    let slow = weir_object::testing::Slow {
        latency: std::time::Duration::from_millis(5),
        bytes_per_s: 200 << 20,
    };
    let wrap: weir_engine::Wrap = std::sync::Arc::new(move |store| {
        std::sync::Arc::new(weir_object::testing::SlowStore::new(store, slow))
    });
    let mut world = World::with(settings(), Some(wrap));
    let bytes = noise(20, 20 << 20);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(async {
        for wait_ms in [0, 1, 3, 10, 30, 60] {
            let engine = world.engine();
            let flush = tokio::spawn(async move { engine.flush_all().await });
            tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await;
            flush.abort();
        }
        world.engine().fsync(ino).await.expect("syncs");
    });
    world.lose_machine();
    world.mount().expect("mounts");
    assert!(content(&world, "a") == bytes, "fsync said that all of it is in the bucket");
}

#[test]
fn a_journal_comes_back_though_another_mount_came_first() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let bytes = noise(21, 200_000);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(world.engine().fsync(ino)).expect("syncs");
    world.reboot();
    world.lose_tier();
    // Whoever only reads takes nothing up, and must not make the writer believe that all is well.
    let journal = world.options.journal.take();
    world.options.read_only = true;
    world.mount().expect("mounts");
    world.unmount().expect("unmounts");
    (world.options.read_only, world.options.journal) = (false, journal);
    world.options.accept_loss = weir_engine::AcceptLoss::Tier;
    world.mount().expect("mounts");
    assert!(content(&world, "a") == bytes);
}

#[test]
fn times_that_are_set_while_a_flush_runs_stay() {
    let slow = weir_object::testing::Slow {
        latency: std::time::Duration::from_millis(300),
        bytes_per_s: 1 << 40,
    };
    let wrap: weir_engine::Wrap = std::sync::Arc::new(move |store| {
        std::sync::Arc::new(weir_object::testing::SlowStore::new(store, slow))
    });
    let mut world = World::with(settings(), Some(wrap));
    let ino = world.run(create(&world.engine(), "a", &noise(22, 100_000)));
    let when = weir_types::UnixTime(42);
    world.run(async {
        let engine = world.engine();
        let flush = tokio::spawn(async move { engine.flush_all().await });
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let set = weir_engine::SetAttr { mtime: Some(when), ..weir_engine::SetAttr::default() };
        world.engine().setattr(ino, set).await.expect("sets");
        flush.await.expect("ends").expect("flushes");
        assert_eq!(world.engine().getattr(ino).await.expect("there").mtime, when);
    });
    world.unmount().expect("unmounts");
    world.mount().expect("mounts");
    assert_eq!(world.run(world.engine().getattr(ino)).expect("there").mtime, when);
}

#[test]
fn a_killed_writers_tier_is_not_for_readers() {
    let mut world = World::new();
    let ino = world.run(create(&world.engine(), "a", &noise(23, 100_000)));
    world.run(world.engine().fsync(ino)).expect("syncs");
    world.kill();
    world.options.read_only = true;
    let error = world.mount().expect_err("the redo log may hold what the bucket has not");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    world.options.read_only = false;
    world.mount().expect("mounts");
}

#[test]
fn a_file_in_fragments_is_flushed_in_parts_that_a_commit_can_hold() {
    let mut world = World::new();
    // Three entries of a flush, of a chunk each time, in one segment.
    let chunks = 600_u64;
    let page = |chunk: u64| noise(chunk + 7, 4096);
    let ino = world.run(create(&world.engine(), "a", b""));
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        for chunk in 0..chunks {
            engine.write(&file, chunk << 20, &page(chunk)).await.expect("writes");
        }
        engine.close(file).await.expect("closes");
        engine.fsync(ino).await.expect("syncs");
        assert_eq!(engine.residency(ino).await.expect("counts").dirty, 0, "nothing is left dirty");
    });
    world.lose_machine();
    world.mount().expect("mounts");
    let inode = world.run(world.engine().getattr(ino)).expect("is there");
    assert_eq!(inode.size, ((chunks - 1) << 20) + 4096);
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, OpenFlags::default()).await.expect("opens");
        for chunk in [0, 1, 255, 256, 257, 511, 512, 599] {
            let got = engine.read(&file, chunk << 20, 4096).await.expect("reads");
            assert_eq!(got, page(chunk), "chunk {chunk}");
        }
        engine.close(file).await.expect("closes");
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

/// Makes metadata durable and no data.
fn sync_names(world: &World) {
    world.run(world.engine().fsync_dir(Ino::ROOT)).expect("syncs");
}

#[test]
fn a_rename_that_replaces_a_file_is_not_durable_before_its_bytes() {
    let mut world = World::new();
    let (old, new) = (noise(11, 70_000), noise(12, 90_000));
    let a = world.run(create(&world.engine(), "a", &old));
    world.run(world.engine().fsync(a)).expect("syncs");
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        world.run(create(&world.engine(), "a.new", &new));
        let root = Ino::ROOT;
        world.run(world.engine().rename((root, b"a.new"), (root, b"a"), mode)).expect("renames");
        sync_names(&world);
        world.lose_machine();
        world.mount().expect("mounts");
        assert_eq!(content(&world, "a"), new, "{mode:?}");
    }
    assert_eq!(content(&world, "a.new"), new);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn with_a_journal_a_rename_that_replaces_a_file_is_not_durable_before_its_bytes() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let (old, new) = (noise(13, 70_000), noise(14, 90_000));
    let a = world.run(create(&world.engine(), "a", &old));
    world.run(world.engine().fsync(a)).expect("syncs");
    world.run(create(&world.engine(), "a.new", &new));
    let (from, to) = ((Ino::ROOT, &b"a.new"[..]), (Ino::ROOT, &b"a"[..]));
    world.run(world.engine().rename(from, to, RenameMode::Replace)).expect("renames");
    sync_names(&world);
    world.reboot();
    std::fs::remove_dir_all(world.path("tier")).expect("removes");
    world.options.accept_loss = weir_engine::AcceptLoss::Tier;
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), new);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_file_written_anew_from_nothing_leaves_when_it_is_closed() {
    let mut world = World::new();
    let (old, new) = (noise(15, 70_000), noise(16, 90_000));
    let a = world.run(create(&world.engine(), "a", &old));
    world.run(world.engine().fsync(a)).expect("syncs");
    world.run(async {
        let engine = world.engine();
        let file = engine.open(a, OpenFlags { truncate: true, ..WRITE }).await.expect("opens");
        engine.write(&file, 0, &new).await.expect("writes");
        engine.close(file).await.expect("closes");
        // Long before the flush age, which is 30 s.
        let closed = std::time::Instant::now();
        while engine.residency(a).await.expect("counts").dirty > 0 {
            assert!(closed.elapsed().as_secs() < 25, "it waits for the flush by age");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    sync_names(&world);
    world.lose_machine();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), new);
    world.unmount().expect("unmounts");
    world.fsck();
}
