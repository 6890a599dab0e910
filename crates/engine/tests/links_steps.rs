//! Links: what comes between two steps of an import, an export, or the end of a link.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use common::lake::Lake;
use common::{new_dir, noise, read_all};
use weir_engine::{OpenFlags, Policy};
use weir_types::Ino;

/// Held by each test: a fail point is the whole process's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// Whoever comes to a fail point first waits there until this is dropped.
struct Pause {
    name: &'static str,
    reached: Receiver<()>,
    go_on: Option<Sender<()>>,
}

impl Pause {
    fn at(name: &'static str) -> Self {
        Self::before(name, || {})
    }

    /// Nobody goes on from there.
    fn crash_at(name: &'static str) -> Self {
        Self::before(name, || panic!("a crash"))
    }

    fn before(name: &'static str, then: impl Fn() + Send + Sync + 'static) -> Self {
        let (reach, reached) = channel();
        let (go_on, go) = channel::<()>();
        let (reach, go) = (Mutex::new(reach), Mutex::new(go));
        let wait = move || {
            let _ = reach.lock().send(());
            let _ = go.lock().recv();
            then();
        };
        fail::cfg_callback(name, wait).expect("a fail point");
        Self { name, reached, go_on: Some(go_on) }
    }

    fn reached(&self) {
        self.reached.recv_timeout(Duration::from_secs(20)).expect("somebody comes by");
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.go_on = None;
        fail::remove(self.name);
    }
}

/// Does `what` of the lake in a thread of its own; `meanwhile` once it has judged an object's file.
fn between(what: impl Fn() + Sync, meanwhile: impl FnOnce()) {
    let pause = Pause::at("engine::object-judged");
    std::thread::scope(|scope| {
        let doing = scope.spawn(&what);
        pause.reached();
        meanwhile();
        drop(pause);
        doing.join().expect("it does not fail");
    });
}

fn write_and_flush(lake: &Lake, path: &str, bytes: &[u8]) {
    lake.write(path, 0, bytes);
    lake.run(async { lake.engine().flush_all().await.expect("flushes") });
}

#[test]
fn the_end_of_a_link_keeps_what_is_written_meanwhile() {
    let _alone = alone();
    let lake = Lake::new(Policy::default());
    let unlink = || {
        lake.run(async { _ = lake.engine().unlink_bucket(lake.dir).await.expect("unlinks") });
    };
    between(unlink, || write_and_flush(&lake, "a", b"F"));
    assert_eq!(lake.names(), ["a"]);
    assert_eq!(lake.read("a"), b"First");
    assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()));
    lake.sound();
}

#[test]
fn an_import_that_replaces_keeps_what_is_written_meanwhile() {
    let _alone = alone();
    let lake = Lake::new(Policy::default());
    lake.read("a");
    lake.put("a", b"second!");
    between(|| lake.refresh(&["a"]), || write_and_flush(&lake, "a", b"F"));
    assert_eq!(lake.read("a"), b"second!");
    assert_eq!(lake.read(&lake.conflicts()[0]), b"First");
    lake.sound();
}

#[test]
fn an_import_that_removes_keeps_what_is_written_meanwhile() {
    let _alone = alone();
    for exports in [false, true] {
        let lake = if exports { Lake::exporting() } else { Lake::new(Policy::default()) };
        lake.read("a");
        lake.delete("a");
        between(|| lake.refresh(&["a"]), || write_and_flush(&lake, "a", b"F"));
        assert_eq!(lake.read("a"), b"First");
        if exports {
            lake.exported();
            assert_eq!(lake.stored("a").as_deref(), Some(b"First".as_slice()));
        }
        assert_eq!(lake.conflicts(), Vec::<String>::new());
        lake.sound();
    }
}

#[test]
fn a_rename_goes_on_after_a_crash_behind_its_copy() {
    let _alone = alone();
    for (imports_first, changes) in [(false, false), (true, false), (false, true), (true, true)] {
        let lake = Lake::exporting();
        fail::cfg("engine::export-copied", "1*panic").expect("a fail point");
        lake.rename((lake.dir, "a"), (lake.dir, "a2"));
        while lake.stored("a2").is_none() {
            lake.rest(10);
        }
        if changes {
            lake.write("a2", 0, b"F");
        }
        if imports_first {
            lake.refresh(&["a2"]);
        }
        lake.exported();
        fail::remove("engine::export-copied");
        assert_eq!(lake.conflicts(), Vec::<String>::new());
        let expected = if changes { b"First" } else { b"first" };
        assert_eq!(lake.stored("a2").as_deref(), Some(expected.as_slice()));
        assert_eq!(lake.stored("a"), None);
        assert_eq!(lake.names(), ["a2", "d"]);
        lake.refresh_all();
        lake.run(async { lake.engine().release_all().await.expect("releases") });
        assert_eq!(lake.read("a2"), expected);
        lake.sound();
    }
}

#[test]
fn an_import_waits_for_a_rename_on_its_way() {
    let _alone = alone();
    let lake = Lake::exporting();
    let pause = Pause::at("engine::export-copied");
    lake.rename((lake.dir, "a"), (lake.dir, "a2"));
    pause.reached();
    std::thread::scope(|scope| {
        let importing = scope.spawn(|| lake.refresh(&["a2"]));
        lake.rest(300);
        drop(pause);
        importing.join().expect("imports");
    });
    lake.exported();
    assert_eq!(lake.conflicts(), Vec::<String>::new());
    assert_eq!(lake.names(), ["a2", "d"]);
    assert_eq!(lake.stored("a"), None);
    lake.sound();
}

#[test]
fn a_file_removed_while_it_is_exported_reads_on_for_whoever_has_it_open() {
    let _alone = alone();
    let lake = Lake::exporting();
    let bytes = noise(5, 300_000);
    let pause = Pause::at("engine::export-put");
    let ino = lake.make(lake.dir, "new", &bytes);
    let engine = lake.engine();
    let file = lake.run(engine.open(ino, OpenFlags::default())).expect("opens");
    pause.reached();
    lake.run(engine.unlink(lake.dir, b"new")).expect("unlinks");
    drop(pause);
    lake.exported();
    assert_eq!(lake.stored("new"), None);
    lake.run(async {
        engine.release_all().await.expect("releases");
        assert!(engine.read(&file, 0, 300_000).await.expect("reads") == bytes);
        engine.close(file).await.expect("closes");
    });
    drop(engine);
    lake.sound();
}

#[test]
fn an_import_and_an_export_may_part_the_same_file_at_once() {
    // It would come to the points of the others.
    let _alone = alone();
    let lake = Lake::exporting();
    let names: Vec<String> = (0..40).map(|nth| format!("f{nth}")).collect();
    for name in &names {
        lake.make(lake.dir, name, &noise(1, 100_000));
    }
    lake.exported();
    // They leave the link, and their objects change.
    for name in &names {
        lake.rename((lake.dir, name), (Ino::ROOT, name));
        lake.put(name, b"theirs");
    }
    lake.refresh_all();
    assert_eq!(lake.view().import_error, None);
    lake.exported();
    // What left while the first one listed is for the next.
    lake.refresh_all();
    assert_eq!(lake.view().import_error, None);
    for name in &names {
        assert_eq!(lake.read(name), b"theirs");
    }
    lake.sound();
}

#[test]
fn a_directory_that_moves_is_followed_by_its_files_after_a_crash() {
    let _alone = alone();
    let mut lake = Lake::exporting();
    lake.exported();
    for (point, to) in [
        ("engine::directory-placed", (lake.dir, "moved")),
        ("engine::directory-left", (Ino::ROOT, "out")),
    ] {
        lake.put("d/b", b"theirs");
        lake.refresh_all();
        let from = lake.find("d").map(|_| (lake.dir, "d"));
        fail::cfg(point, "panic").expect("a fail point");
        lake.rename(from.expect("there"), to);
        lake.rest(2_500);
        lake.world.kill();
        fail::remove(point);
        lake.world.mount().expect("mounts");
        lake.exported();
        assert_eq!(lake.stored("d/b"), None, "{point}");
        lake.refresh_all();
        lake.exported();
        assert_eq!(lake.find("d"), None, "{point}");
        let there = lake.run(async { lake.engine().lookup(to.0, to.1.as_bytes()).await });
        let there = there.expect("there").ino;
        assert!(
            lake.name_of(
                there,
                lake.run(async { lake.engine().lookup(there, b"b").await.expect("there").ino })
            )
            .is_some()
        );
        if to.0 == lake.dir {
            assert_eq!(lake.stored("moved/b").as_deref(), Some(b"theirs".as_slice()));
        }
    }
    lake.sound();
}

#[test]
fn a_directory_that_moves_on_outside_of_the_link_leaves_no_object_behind() {
    let _alone = alone();
    for paused in [true, false] {
        let lake = Lake::exporting();
        let pause = match paused {
            // Before a pass comes to it.
            true => {
                let pause = Pause::at("engine::export-begun");
                lake.write("a", 0, b"F");
                pause
            }
            false => Pause::crash_at("engine::directory-left"),
        };
        let engine = lake.engine();
        let above = lake.run(engine.create(Ino::ROOT, b"above", new_dir())).expect("mkdir").ino;
        if paused {
            pause.reached();
        }
        lake.rename((lake.dir, "d"), (above, "out"));
        if !paused {
            pause.reached();
        }
        lake.rename((above, "out"), (Ino::ROOT, "on"));
        drop(pause);
        lake.exported();
        assert!(lake.stored("d/b").is_none(), "it stays in the bucket");
        let on = lake.run(engine.lookup(Ino::ROOT, b"on")).expect("there").ino;
        let b = lake.run(engine.lookup(on, b"b")).expect("there").ino;
        assert!(lake.run(read_all(&engine, b)).expect("reads") == noise(1, 3_000_000));
        lake.refresh_all();
        assert_eq!(lake.names(), ["a"]);
        drop(engine);
        lake.sound();
    }
}

#[test]
fn a_file_that_leaves_a_directory_that_just_left_the_link_leaves_no_object_behind() {
    let _alone = alone();
    let lake = Lake::exporting();
    let pause = Pause::at("engine::directory-left");
    let out = lake.find("d").expect("there");
    lake.rename((lake.dir, "d"), (Ino::ROOT, "out"));
    pause.reached();
    lake.rename((out, "b"), (Ino::ROOT, "b"));
    drop(pause);
    lake.exported();
    assert!(lake.stored("d/b").is_none(), "it stays in the bucket");
    lake.sound();
}

#[test]
fn a_directory_renamed_while_the_one_above_moves_is_followed_by_its_files() {
    let _alone = alone();
    let lake = Lake::exporting();
    lake.put("d/e/c", b"below");
    lake.refresh_all();
    let d = lake.find("d").expect("there");
    let pause = Pause::at("engine::entries-read");
    lake.rename((lake.dir, "d"), (lake.dir, "moved"));
    pause.reached();
    lake.rename((d, "e"), (d, "f"));
    drop(pause);
    lake.exported();
    assert_eq!(lake.stored("moved/f/c").as_deref(), Some(b"below".as_slice()));
    assert_eq!((lake.stored("d/e/c"), lake.stored("moved/e/c")), (None, None));
    lake.sound();
}

#[test]
fn an_export_that_comes_between_two_looks_of_an_import_is_no_conflict() {
    let _alone = alone();
    let lake = Lake::exporting_to_memory();
    let crash = Pause::crash_at("engine::export-put");
    lake.make(lake.dir, "new", b"ours");
    crash.reached();
    let export = Pause::at("engine::export-begun");
    drop(crash);
    export.reached();
    let import = Pause::at("engine::object-met");
    std::thread::scope(|scope| {
        let importing = scope.spawn(|| lake.refresh(&["new"]));
        import.reached();
        drop(export);
        lake.exported();
        drop(import);
        importing.join().expect("imports");
    });
    assert_eq!(lake.names(), ["new"]);
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert_eq!(lake.read("new"), b"ours");
    lake.sound();
}

#[test]
fn an_object_that_a_crash_left_shows_if_its_file_left_the_link() {
    let _alone = alone();
    let lake = Lake::exporting_to_memory();
    let dir = lake.run(lake.engine().create(lake.dir, b"d", new_dir())).expect("mkdir").ino;
    lake.exported();
    let crash = Pause::crash_at("engine::export-put");
    lake.make(dir, "new", b"ours");
    crash.reached();
    lake.rename((lake.dir, "d"), (Ino::ROOT, "out"));
    drop(crash);
    lake.exported();
    lake.refresh_all();
    assert_eq!(lake.read("d/new"), b"ours");
    let file = lake.run(lake.engine().lookup(dir, b"new")).expect("there").ino;
    let bytes = lake.run(async { read_all(&lake.engine(), file).await.expect("reads") });
    assert_eq!(bytes, b"ours");
    lake.sound();
}

#[test]
fn what_a_crashed_export_put_is_the_file_if_bytes_are_nowhere_else() {
    let _alone = alone();
    let mut lake = Lake::exporting_to_memory();
    let mut bytes = noise(5, 300_000);
    lake.make(lake.dir, "new", &bytes);
    lake.exported();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    let crash = Pause::crash_at("engine::export-put");
    lake.write("new", 200_000, b"ours");
    bytes[200_000..200_004].copy_from_slice(b"ours");
    crash.reached();
    // Nor does a later pass go on.
    fail::cfg("engine::export-begun", "panic").expect("a fail point");
    drop(crash);
    lake.world.kill();
    let pause = Pause::at("engine::export-begun");
    lake.world.mount().expect("mounts");
    pause.reached();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    drop(pause);
    lake.exported();
    assert_eq!(lake.names(), ["new"]);
    lake.refresh_all();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert!(lake.read("new") == bytes);
    lake.sound();
}

#[test]
fn an_export_says_when_the_bytes_were_written_that_it_puts() {
    let _alone = alone();
    let lake = Lake::exporting_to_memory();
    let pause = Pause::at("engine::export-begun");
    let ino = lake.make(lake.dir, "new", b"first");
    pause.reached();
    write_and_flush(&lake, "new", b"after");
    drop(pause);
    lake.exported();
    let mtime = lake.run(lake.engine().getattr(ino)).expect("there").mtime;
    assert_eq!(lake.attribute("new", "file-mtime"), format!("{}ns", mtime.0));
    lake.sound();
}
