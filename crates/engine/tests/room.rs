//! Small disks below tier and journal, and what is in their way: bytes, inodes, others who fill
//! them. The disks are simulated: they count what lies in their directory.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{WRITE, World, create, new_dir, new_file, noise, read_all, settings};
use weir_engine::{ActionKind, ActionRequest, ActionState, AskSpace, DiskSpace, Root};
use weir_types::{Bytes, ErrorKind, Ino, Settings};

const MIB: u64 = 1 << 20;

/// A disk of this size for every directory that it is asked for, and what others take of it.
struct Disk {
    bytes: u64,
    files: u64,
    others_bytes: AtomicU64,
}

impl Disk {
    fn new(bytes: u64, files: u64) -> Arc<Self> {
        Arc::new(Self { bytes, files, others_bytes: AtomicU64::new(0) })
    }

    fn ask(self: &Arc<Self>) -> AskSpace {
        let disk = self.clone();
        Arc::new(move |directory: &Path| {
            let (bytes, files) = taken(directory);
            let others = disk.others_bytes.load(Ordering::Relaxed);
            Ok(DiskSpace {
                bytes: disk.bytes,
                free_bytes: disk.bytes.saturating_sub(bytes + others),
                files: disk.files,
                free_files: disk.files.saturating_sub(files),
            })
        })
    }
}

/// Bytes and files below a directory. What goes meanwhile is none.
fn taken(directory: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(of) = entry.metadata() else { continue };
        let (bytes, files) = match of.is_dir() {
            true => taken(&entry.path()),
            false => (of.blocks() * 512, 1),
        };
        sum = (sum.0 + bytes, sum.1 + files);
    }
    sum
}

/// A mount with the default room, on this disk.
fn on(disk: &Arc<Disk>) -> World {
    let default = Settings::default();
    let settings = Settings {
        tier_bytes: default.tier_bytes,
        free_floor_bytes: default.free_floor_bytes,
        ..settings()
    };
    mounted(disk, settings)
}

fn mounted(disk: &Arc<Disk>, settings: Settings) -> World {
    let mut world = World::with(settings, None);
    world.unmount().expect("unmounts");
    world.options.ask_space = disk.ask();
    world.mount().expect("mounts");
    world
}

async fn tree(world: &World, files: u64, bytes: u64) -> (Ino, Vec<Ino>) {
    let engine = world.engine();
    let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
    let mut inos = Vec::new();
    for n in 0..files {
        let name = format!("f{n}");
        let inode = engine.create(root, name.as_bytes(), new_file()).await.expect("creates");
        let file = engine.open(inode.ino, WRITE).await.expect("opens");
        engine.write(&file, 0, &noise(n, bytes as usize)).await.expect("writes");
        engine.close(file).await.expect("closes");
        inos.push(inode.ino);
    }
    (root, inos)
}

#[test]
fn a_tier_on_a_small_disk_goes_on_by_letting_go_of_what_is_clean() {
    let disk = Disk::new(96 * MIB, 1 << 20);
    let mut world = on(&disk);
    let began = Instant::now();
    world.run(async {
        let (_, inos) = tree(&world, 24, MIB).await;
        world.engine().flush_all().await.expect("flushes");
        let big = noise(99, 150 << 20);
        let ino = create(&world.engine(), "big", b"").await;
        let file = world.engine().open(ino, WRITE).await.expect("opens");
        for (at, piece) in big.chunks(MIB as usize).enumerate() {
            world.engine().write(&file, at as u64 * MIB, piece).await.expect("writes");
        }
        world.engine().close(file).await.expect("closes");
        let usage = world.engine().status().await.expect("status").tier;
        assert!(
            usage.limit_bytes <= 96 * MIB && usage.used_bytes <= usage.limit_bytes,
            "{usage:?}"
        );
        assert_eq!(usage.tier_bytes, Settings::default().tier_bytes.0);
        assert!(read_all(&world.engine(), ino).await.expect("reads") == big);
        assert!(read_all(&world.engine(), inos[3]).await.expect("reads") == noise(3, 1 << 20));
    });
    assert!(began.elapsed().as_secs() < 15, "nobody stalls: {:?}", began.elapsed());
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn inodes_are_room_and_small_files_make_it() {
    let disk = Disk::new(1 << 40, 600);
    let mut world = on(&disk);
    world.run(async {
        let (_, inos) = tree(&world, 1_500, 100).await;
        let usage = world.engine().status().await.expect("status").tier;
        // Mirrors that have no file yet, or none any more, count on both sides.
        assert!(usage.limit_files < 1_200 && usage.mirrors <= usage.limit_files, "{usage:?}");
        // On a busy machine what lets go of mirrors comes a moment later.
        let until = Instant::now() + std::time::Duration::from_secs(20);
        while taken(&world.path("tier")).1 >= 600 {
            assert!(Instant::now() < until, "{}", taken(&world.path("tier")).1);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        for (n, ino) in inos.into_iter().enumerate() {
            let bytes = read_all(&world.engine(), ino).await.expect("reads");
            assert!(bytes == noise(n as u64, 100), "file {n}");
        }
        assert!(taken(&world.path("tier")).1 < 600);
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_disk_that_others_filled_is_said_to_be_so_at_once() {
    let disk = Disk::new(96 * MIB, 1 << 20);
    let world = on(&disk);
    world.run(async {
        let engine = world.engine();
        let ino = create(&engine, "a", &noise(1, 1000)).await;
        engine.flush_all().await.expect("flushes");
        disk.others_bytes.store(96 * MIB, Ordering::Relaxed);
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        let began = Instant::now();
        let new = engine.create(Ino::ROOT, b"b", new_file()).await.expect("creates").ino;
        let file = engine.open(new, WRITE).await.expect("opens");
        let error = engine.write(&file, 0, &noise(2, 100_000)).await.expect_err("no room");
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("other users of that disk"), "{error}");
        assert_eq!(read_all(&engine, ino).await.expect("reads"), noise(1, 1000), "past the tier");
        disk.others_bytes.store(0, Ordering::Relaxed);
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        engine.write(&file, 0, &noise(2, 100_000)).await.expect("there is room again");
        engine.close(file).await.expect("closes");
    });
}

#[test]
fn a_hydration_says_what_is_here_in_the_end() {
    let disk = Disk::new(64 * MIB, 1 << 20);
    let world = on(&disk);
    world.run(async {
        let engine = world.engine();
        let (root, inos) = tree(&world, 60, 2 * MIB).await;
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        let roots = vec![Root { ino: root, path: "/tree".to_owned() }];
        let request = ActionRequest {
            kind: ActionKind::Hydrate,
            roots,
            recursive: true,
            max_bytes_per_s: None,
            restore: None,
        };
        let view = engine.start_action(request).await.expect("starts");
        let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
        assert_eq!((view.state, view.files_done), (ActionState::Done, 60), "{view:?}");
        // The background looks four times a second whether something must go.
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        let mut here = 0;
        for ino in inos {
            here += u64::from(!engine.file_state(ino).await.expect("a state").released);
        }
        assert!((10..32).contains(&here), "{here} of 60 fit");
        assert_eq!(view.files_done - view.refused, here, "{view:?}");
        assert_eq!(view.bytes_done, here * 2 * MIB, "{view:?}");
        assert!(view.reasons[0].reason.contains("what its disk can give"), "{view:?}");
    });
}

#[test]
fn a_journal_is_no_larger_than_its_disk_and_refuses_nobody() {
    let disk = Disk::new(48 * MIB, 1 << 20);
    let mut world = World::new();
    world.unmount().expect("unmounts");
    let kernel = DiskSpace::kernel();
    let small = disk.ask();
    world.options.journal = Some(world.path("journal"));
    world.options.ask_space = Arc::new(move |directory: &Path| {
        match directory.components().any(|part| part.as_os_str() == "journal") {
            true => small(directory),
            false => kernel(directory),
        }
    });
    world.mount().expect("mounts");
    world.run(async {
        for n in 0..120 {
            let bytes = noise(n, MIB as usize);
            let ino = create(&world.engine(), &format!("f{n}"), &bytes).await;
            world.engine().fsync(ino).await.expect("syncs");
            let journal = world.engine().status().await.expect("status").journal;
            assert!(journal.durable && journal.limit_bytes < 48 * MIB, "{journal:?}");
            assert!(journal.used_bytes <= journal.limit_bytes + 2 * MIB, "{journal:?}");
        }
        assert!(taken(&world.path("journal")).0 <= 48 * MIB);
    });
    world.reboot();
    std::fs::remove_dir_all(world.path("tier")).expect("the instance store is empty");
    world.options.accept_loss = weir_engine::AcceptLoss::Tier;
    world.mount().expect("mounts");
    world.run(async {
        for n in 0..120 {
            let inode = world.engine().lookup(Ino::ROOT, format!("f{n}").as_bytes()).await;
            let bytes = read_all(&world.engine(), inode.expect("is there").ino).await;
            assert!(bytes.expect("reads") == noise(n, MIB as usize), "file {n}");
        }
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

/// Fsyncs 150 MiB into a journal, loses the tier, and mounts again with another one.
fn replayed_into(disk: &Arc<Disk>) {
    let late = Settings {
        tier_bytes: Bytes::mib(512),
        flush_start_bytes: Bytes::gib(1),
        flush_age_ms: 3_600_000,
        ..settings()
    };
    let mut world = World::with(late.clone(), None);
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let (mut big, small) = (noise(1, 150 << 20), noise(2, 300_000));
    world.run(async {
        let engine = world.engine();
        let ino = create(&engine, "big", b"").await;
        let file = engine.open(ino, WRITE).await.expect("opens");
        for (at, piece) in big.chunks(MIB as usize).enumerate() {
            engine.write(&file, at as u64 * MIB, piece).await.expect("writes");
            engine.fsync(ino).await.expect("syncs");
        }
        // Over bytes that the journal has already.
        engine.write(&file, 1000, b"newer").await.expect("writes");
        engine.fsync(ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
        let ino = create(&engine, "small", &small).await;
        engine.fsync(ino).await.expect("syncs");
        let status = engine.status().await.expect("status");
        assert_eq!((status.tier.dirty_bytes >> 20, status.journal.refused_fsyncs), (150, 0));
    });
    big[1000..1005].copy_from_slice(b"newer");
    world.reboot();
    std::fs::remove_dir_all(world.path("tier")).expect("the instance store is empty");
    world.options.accept_loss = weir_engine::AcceptLoss::Tier;
    world.options.settings = Settings { tier_bytes: Bytes::mib(64), ..late };
    world.options.ask_space = disk.ask();
    world.mount().expect("a journal larger than the tier is no reason to fail");
    world.run(async {
        for (name, want) in [("big", &big), ("small", &small)] {
            let ino = world.engine().lookup(Ino::ROOT, name.as_bytes()).await.expect("there").ino;
            assert!(read_all(&world.engine(), ino).await.expect("reads") == *want, "{name}");
        }
    });
    disk.others_bytes.store(0, Ordering::Relaxed);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_journal_that_the_tier_cannot_hold_is_replayed_in_portions() {
    replayed_into(&Disk::new(1 << 40, 1 << 20));
}

#[test]
fn a_journal_is_replayed_past_a_tier_whose_disk_others_filled() {
    let disk = Disk::new(1 << 30, 1 << 20);
    disk.others_bytes.store(1 << 30, Ordering::Relaxed);
    replayed_into(&disk);
}

#[test]
fn whoever_goes_on_in_the_place_of_an_engine_is_to_have_room_for_that() {
    let disk = Disk::new(1 << 30, 1 << 20);
    let world = on(&disk);
    world.engine().check_room_for_heir().expect("there is room");
    disk.others_bytes.store((1 << 30) - 8 * MIB, Ordering::Relaxed);
    let error = world.engine().check_room_for_heir().expect_err("others filled the disk");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("16 MiB"), "{error}");
}
