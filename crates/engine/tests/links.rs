//! Links: objects of a bucket as files, whatever either side does to them.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use common::lake::Lake;
use common::{WRITE, World, new_dir, new_file, noise};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{Fallocate, LinkOptions, OpenFlags, Policy, RenameMode};
use weir_types::{ErrorKind, FileKind, Ino};

#[test]
fn objects_are_files() {
    let lake = Lake::new(Policy::default());
    assert_eq!(lake.names(), ["a", "d"]);
    assert_eq!(lake.read("a"), b"first");
    assert_eq!(lake.read("d/b"), noise(1, 3_000_000));
    assert_eq!(lake.read("d/e/c"), b"");
    let view = lake.view();
    assert_eq!((view.files, view.bytes, view.hidden), (3, 3_000_005, 0));
    let b = lake.find("d/b").expect("there");
    let inode = lake.run(async { lake.engine().getattr(b).await.expect("there") });
    assert_eq!((inode.size, inode.kind), (3_000_000, FileKind::Regular));
    let modified = std::fs::metadata(lake.object("d/b")).expect("there").modified().expect("has");
    let since = modified.duration_since(std::time::UNIX_EPOCH).expect("after").as_millis() as i64;
    assert_eq!(inode.mtime.0 / 1_000_000, since);
    lake.sound();
}

#[test]
fn reading_what_is_here_asks_the_bucket_for_nothing() {
    let lake = Lake::new(Policy::default());
    lake.read("d/b");
    let fetched = |lake: &Lake| {
        lake.run(async { lake.engine().status().await.expect("status").since_mount.bytes_fetched })
    };
    let before = fetched(&lake);
    assert_eq!(before, 3_000_000);
    lake.read("d/b");
    assert_eq!(fetched(&lake), before);
    // What somebody looks at just then is not released.
    let released = (0..100).any(|_| {
        lake.run(async { lake.engine().release_all().await.expect("releases") }) >= before
    });
    assert!(released, "it stays");
    lake.read("d/b");
    assert_eq!(fetched(&lake), 2 * before);
    lake.sound();
}

#[test]
fn what_changes_in_the_bucket_is_imported() {
    let lake = Lake::new(Policy::default());
    let old = lake.find("a").expect("there");
    lake.put("a", b"second!");
    lake.put("d/new", b"new");
    lake.delete("d/e/c");
    lake.refresh_all();
    assert_eq!(lake.read("a"), b"second!");
    assert_ne!(lake.find("a"), Some(old), "another object is another inode");
    assert_eq!(lake.read("d/new"), b"new");
    assert_eq!(lake.find("d/e/c"), None);
    assert_eq!(lake.view().files, 3);
    assert_eq!(lake.view().conflicts, 0);
    lake.sound();
}

#[test]
fn single_keys_are_imported_when_asked_for() {
    let lake = Lake::new(Policy::default());
    lake.put("a", b"second!");
    lake.put("x/y/z", b"new");
    lake.put("untold", b"?");
    lake.delete("d/b");
    lake.refresh(&["a", "x/y/z", "d/b", "never/was"]);
    assert_eq!(lake.read("a"), b"second!");
    assert_eq!(lake.read("x/y/z"), b"new");
    assert_eq!(lake.find("d/b"), None);
    assert_eq!(lake.find("untold"), None);
    lake.sound();
}

#[test]
fn polls_go_as_far_as_the_policy() {
    let lake = Lake::of(Policy { new: true, ..Policy::default() }, |lake| {
        lake.put("a", b"first");
        lake.put("b", b"stays");
    });
    // The first poll comes an hour after the import; a mount has one at once.
    lake.put("a", b"second");
    lake.put("c", b"new");
    lake.delete("b");
    let mut lake = lake;
    lake.world.unmount().expect("unmounts");
    lake.world.mount().expect("mounts");
    for _ in 0..500 {
        if lake.find("c").is_some() {
            break;
        }
        lake.rest(10);
    }
    assert_eq!(lake.names(), ["a", "b", "c"]);
    lake.sound();
}

#[test]
fn a_reader_never_sees_two_versions_of_an_object() {
    let lake = Lake::new(Policy { changed: true, ..Policy::default() });
    let (old, new) = (noise(1, 3_000_000), noise(2, 3_000_000));
    let ino = lake.find("d/b").expect("there");
    let file = lake.run(async {
        let engine = lake.engine();
        let file = engine.open(ino, OpenFlags::default()).await.expect("opens");
        assert_eq!(engine.read(&file, 0, 4096).await.expect("reads"), &old[..4096]);
        file
    });
    // Read-ahead may have brought more: what is here goes, but for nothing that was read.
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    lake.put("d/b", &new);
    let read = lake.run(async { lake.engine().read(&file, 2_000_000, 4096).await });
    assert_eq!(read.expect_err("the object is another").kind(), ErrorKind::Conflict);
    // Such a read has the link look at the object, without a poll.
    for _ in 0..500 {
        if lake.find("d/b") != Some(ino) {
            break;
        }
        lake.rest(10);
    }
    assert_eq!(lake.read("d/b"), new);
    let read = lake.run(async { lake.engine().read(&file, 0, 4096).await });
    assert!(read.is_err(), "the old file has no bytes of the new object");
    lake.run(async { lake.engine().close(file).await.expect("closes") });
    lake.sound();
}

#[test]
fn who_has_all_of_the_old_version_keeps_it() {
    let lake = Lake::new(Policy::default());
    let ino = lake.find("d/b").expect("there");
    lake.read("d/b");
    let file =
        lake.run(async { lake.engine().open(ino, OpenFlags::default()).await.expect("opens") });
    lake.put("d/b", b"short now");
    lake.refresh_all();
    assert_eq!(lake.read("d/b"), b"short now");
    let old = lake.run(async { lake.engine().read(&file, 0, 3_000_000).await.expect("reads") });
    assert_eq!(old, noise(1, 3_000_000));
    lake.run(async { lake.engine().close(file).await.expect("closes") });
    lake.sound();
}

#[test]
fn where_both_sides_changed_the_bucket_has_the_name_and_nothing_is_lost() {
    let lake = Lake::new(Policy::default());
    lake.write("d/b", 1_000_000, b"written here");
    lake.write("a", 0, b"F");
    lake.put("a", b"of the bucket");
    lake.refresh_all();
    assert_eq!(lake.read("a"), b"of the bucket");
    let beside = lake.conflicts();
    assert_eq!(beside.len(), 1, "{beside:?}");
    assert_eq!(lake.read(&beside[0]), b"First");
    assert_eq!(lake.view().conflicts, 1);
    // The other file has no conflict, and is what was written here.
    let mut expected = noise(1, 3_000_000);
    expected[1_000_000..1_000_012].copy_from_slice(b"written here");
    assert_eq!(lake.read("d/b"), expected);
    // Once more with nothing new: nothing happens.
    lake.refresh_all();
    assert_eq!(lake.conflicts(), beside);
    let mut lake = lake;
    lake.world.unmount().expect("unmounts");
    lake.world.mount().expect("mounts");
    assert_eq!(lake.read(&beside[0]), b"First");
    assert_eq!(lake.read("d/b"), expected);
    lake.sound();
}

#[test]
fn a_file_of_ours_gives_its_name_to_a_new_object() {
    let lake = Lake::new(Policy::default());
    lake.run(async {
        let engine = lake.engine();
        let made = engine.create(lake.dir, b"mine", new_file()).await.expect("creates");
        let file = engine.open(made.ino, WRITE).await.expect("opens");
        engine.write(&file, 0, b"local").await.expect("writes");
        engine.close(file).await.expect("closes");
    });
    lake.put("mine", b"theirs");
    lake.refresh_all();
    assert_eq!(lake.read("mine"), b"theirs");
    assert_eq!(lake.read(&lake.conflicts()[0]), b"local");
    lake.sound();
}

#[test]
fn what_was_removed_or_renamed_here_does_not_come_back() {
    let lake = Lake::new(Policy::default());
    lake.run(async {
        let engine = lake.engine();
        engine.unlink(lake.dir, b"a").await.expect("unlinks");
        let d = engine.lookup(lake.dir, b"d").await.expect("there").ino;
        engine.rename((d, b"b"), (lake.dir, b"moved"), RenameMode::Replace).await.expect("renames");
    });
    lake.refresh_all();
    assert_eq!(lake.names(), ["d", "moved"]);
    assert_eq!(lake.read("moved"), noise(1, 3_000_000));
    assert_eq!(lake.view().files, 2);
    // Unless it is another object by now.
    lake.put("a", b"again");
    lake.put("d/b", b"again");
    lake.refresh_all();
    assert_eq!(lake.read("a"), b"again");
    assert_eq!(lake.read("d/b"), b"again");
    assert_eq!(lake.read("moved"), noise(1, 3_000_000), "it was here whole");
    lake.sound();
}

#[test]
fn an_object_that_goes_while_its_file_was_changed_here_leaves_the_file() {
    let lake = Lake::new(Policy::default());
    lake.write("a", 5, b" and more");
    lake.delete("a");
    lake.refresh_all();
    assert_eq!(lake.read("a"), b"first and more");
    lake.sound();
}

#[test]
fn a_link_that_ends_leaves_what_is_ours() {
    let lake = Lake::new(Policy::default());
    lake.write("a", 0, b"F");
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    let view = lake.run(async { lake.engine().unlink_bucket(lake.dir).await.expect("unlinks") });
    assert_eq!(view.files, 3);
    assert_eq!(lake.names(), ["a"]);
    lake.delete("a");
    lake.run(async {
        assert_eq!(lake.engine().links().await.expect("links"), []);
        lake.engine().release_all().await.expect("releases");
    });
    assert_eq!(lake.read("a"), b"First", "it needs the bucket no more");
    assert!(lake.object("d/b").exists(), "the bucket is not touched");
    lake.sound();
}

#[test]
fn bad_links_are_refused() {
    let lake = Lake::new(Policy::default());
    let good = lake.options(Policy::default());
    lake.run(async {
        let engine = lake.engine();
        let try_at = |ino: Ino, options: LinkOptions| {
            let engine = engine.clone();
            async move { engine.link_bucket(ino, "/x", options).await.expect_err("refused").kind() }
        };
        let made = engine.create(Ino::ROOT, b"x", new_dir()).await.expect("mkdir").ino;
        let volume = format!("file://{}", lake.world.path("bucket").display());
        let own = LinkOptions { url: format!("{volume}/seg"), ..good.clone() };
        assert_eq!(try_at(made, own).await, ErrorKind::Invalid);
        let above = format!("file://{}", lake.world.dir.path().display());
        let above = LinkOptions { url: above, ..good.clone() };
        assert_eq!(try_at(made, above).await, ErrorKind::Invalid);
        let nowhere = LinkOptions { url: "file:///no/such/directory".into(), ..good.clone() };
        assert_eq!(try_at(made, nowhere).await, ErrorKind::NotFound);
        assert_eq!(try_at(Ino::ROOT, good.clone()).await, ErrorKind::NotEmpty);
        let d = engine.lookup(lake.dir, b"d").await.expect("there").ino;
        assert_eq!(try_at(d, good.clone()).await, ErrorKind::Exists);
        let a = engine.lookup(lake.dir, b"a").await.expect("there").ino;
        assert_eq!(try_at(a, good).await, ErrorKind::NotDirectory);
        let removed = engine.rmdir(Ino::ROOT, b"lake").await.expect_err("it is a link");
        assert_eq!(removed.kind(), ErrorKind::NotEmpty);
    });
    lake.sound();
}

#[test]
fn many_objects_survive_a_kill_in_the_middle_of_their_import() {
    let count = 3_000;
    let world = World::new();
    std::fs::create_dir(world.path("lake")).expect("makes");
    let mut lake = Lake { world, dir: Ino::ROOT };
    for n in 0..count {
        let path = lake.object(&format!("{:02}/{n}", n % 37));
        std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        std::fs::write(path, format!("{n}")).expect("writes");
    }
    let (engine, options) = (lake.engine(), lake.options(Policy::default()));
    lake.dir = lake.run(async {
        let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
        engine.link_bucket(dir, "/lake", options).await.expect("links");
        dir
    });
    while lake.view().importing.is_none_or(|import| import.imported < 500) {
        if lake.view().imported_unix_ms.is_some() {
            break;
        }
        std::thread::yield_now();
    }
    drop(engine);
    lake.world.kill();
    lake.world.mount().expect("mounts");
    lake.imported();
    assert_eq!(lake.view().files, count);
    for n in (0..count).step_by(97) {
        assert_eq!(lake.read(&format!("{:02}/{n}", n % 37)), format!("{n}").as_bytes());
    }
    lake.sound();
}

/// One native file and what it should hold, through writes, holes, truncations, releases, kills.
#[test]
fn a_changed_native_file_is_what_a_plain_one_would_be() {
    let seed = rand::random::<u64>();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let size = 5_500_000;
    let mut lake = Lake::of(Policy::default(), |lake| lake.put("f", &noise(3, size)));
    let mut model = noise(3, size);
    let ino = lake.find("f").expect("there");
    for step in 0..60 {
        let engine = lake.engine();
        let at = rng.random_range(0..model.len().max(1) + 100_000) as u64;
        let len = rng.random_range(1..300_000_usize);
        match rng.random_range(0..10) {
            0..=3 => {
                let bytes = noise(rng.random(), len);
                lake.write("f", at, &bytes);
                model.resize(model.len().max(at as usize + len), 0);
                model[at as usize..at as usize + len].copy_from_slice(&bytes);
            }
            4 => {
                let size = if rng.random_bool(0.1) { 0 } else { at };
                lake.run(async { engine.truncate(ino, size).await.expect("truncates") });
                model.resize(size as usize, 0);
            }
            5 => {
                let hole = Fallocate::PunchHole;
                let punch = engine.fallocate(ino, hole, at, len as u64 * 8);
                lake.run(async { punch.await.expect("punches") });
                let end = (at as usize + len * 8).min(model.len());
                if (at as usize) < end {
                    model[at as usize..end].fill(0);
                }
            }
            6 => lake.run(async { engine.fsync(ino).await.expect("syncs") }),
            7 => {
                lake.run(async { engine.flush_all().await.expect("flushes") });
                lake.run(async { engine.release_all().await.expect("releases") });
            }
            8 => {
                drop(engine);
                lake.world.kill();
                lake.world.mount().expect("mounts");
            }
            _ => {
                let got = lake.read("f");
                assert!(got == model, "seed {seed}, step {step}: {} bytes", got.len());
            }
        }
    }
    assert!(lake.read("f") == model, "seed {seed}");
    lake.run(async { lake.engine().flush_all().await.expect("flushes") });
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert!(lake.read("f") == model, "seed {seed}, out of the buckets");
    lake.sound();
}

#[test]
fn who_has_a_file_open_for_writing_keeps_what_is_written() {
    let lake = Lake::new(Policy::default());
    let a = lake.find("a").expect("there");
    let file = lake.run(async { lake.engine().open(a, WRITE).await.expect("opens") });
    lake.put("a", b"of the bucket");
    lake.refresh(&["a"]);
    lake.run(async {
        lake.engine().write(&file, 0, b"all of it anew").await.expect("writes");
        lake.engine().close(file).await.expect("closes");
    });
    assert_eq!(lake.read("a"), b"of the bucket");
    assert_eq!(lake.read(&lake.conflicts()[0]), b"all of it anew");
    lake.sound();
}

#[test]
fn holes_of_a_native_file_go_with_it() {
    let lake = Lake::new(Policy::default());
    let ino = lake.find("d/b").expect("there");
    lake.run(async {
        let engine = lake.engine();
        engine.fallocate(ino, Fallocate::PunchHole, 0, 2_000_000).await.expect("punches");
        engine.truncate(ino, 1_500_000).await.expect("truncates");
        let d = engine.lookup(lake.dir, b"d").await.expect("there").ino;
        engine.unlink(d, b"b").await.expect("unlinks");
    });
    lake.sound();
}
