//! Exports of files with several names, and of names that cannot be keys.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use common::lake::Lake;
use common::{WRITE, new_dir, new_file, noise, read_all};
use weir_engine::{
    ActionKind, ActionRequest, ActionState, LinkOptions, LinkView, Policy, RenameMode, Root,
};
use weir_types::Ino;

fn link(lake: &Lake, ino: Ino, name: &str) {
    lake.run(async { lake.engine().link(ino, lake.dir, name.as_bytes()).await.expect("links") });
}

fn unlink(lake: &Lake, name: &str) {
    lake.run(async { lake.engine().unlink(lake.dir, name.as_bytes()).await.expect("unlinks") });
}

#[test]
fn an_object_keeps_its_name_while_the_file_has_it() {
    let lake = Lake::exporting();
    let a = lake.find("a").expect("there");
    for passes_between in [true, false] {
        let puts = lake.puts();
        link(&lake, a, "a.lock");
        if passes_between {
            lake.exported();
        }
        unlink(&lake, "a.lock");
        lake.exported();
        assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()));
        assert_eq!((lake.stored("a.lock"), lake.puts()), (None, puts));
    }
    // Another file of the second name is another object.
    lake.make(lake.dir, "a.lock", b"locked");
    lake.write("a", 0, b"F");
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"First".as_slice()));
    assert_eq!(lake.stored("a.lock").as_deref(), Some(b"locked".as_slice()));
    lake.sound();
}

#[test]
fn an_object_goes_to_a_name_that_stays() {
    let lake = Lake::exporting();
    let a = lake.find("a").expect("there");
    let deep = lake.run(async {
        let engine = lake.engine();
        let deep = engine.create(lake.dir, b"deep", new_dir()).await.expect("mkdir").ino;
        engine.link(a, deep, b"other").await.expect("links");
        deep
    });
    lake.exported();
    unlink(&lake, "a");
    lake.make(lake.dir, "a", b"another");
    lake.exported();
    assert_eq!(lake.stored("deep/other").as_deref(), Some(b"first".as_slice()));
    assert_eq!(lake.stored("a").as_deref(), Some(b"another".as_slice()));
    // The same where another file takes the name.
    link(&lake, a, "third");
    lake.make(deep, "new", b"new");
    lake.exported();
    lake.rename((deep, "new"), (deep, "other"));
    lake.exported();
    assert_eq!(lake.stored("third").as_deref(), Some(b"first".as_slice()));
    assert_eq!(lake.stored("deep/other").as_deref(), Some(b"new".as_slice()));
    assert_eq!(lake.stored("deep/new"), None);
    lake.refresh_all();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert_eq!((lake.read("third"), lake.read("a")), (b"first".to_vec(), b"another".to_vec()));
    assert_eq!(lake.conflicts(), Vec::<String>::new());
    lake.sound();
}

#[test]
fn a_new_file_is_exported_whichever_of_its_names_goes() {
    let lake = Lake::exporting();
    let ino = lake.make(lake.dir, "new", b"new");
    link(&lake, ino, "new.lock");
    unlink(&lake, "new.lock");
    lake.exported();
    assert_eq!(lake.stored("new").as_deref(), Some(b"new".as_slice()));
    assert_eq!(lake.stored("new.lock"), None);
    lake.sound();
}

#[test]
fn names_outside_of_the_link_keep_the_file_and_not_the_object() {
    let lake = Lake::exporting();
    let (a, b) = (lake.find("a").expect("there"), lake.find("d/b").expect("there"));
    lake.run(async { lake.engine().link(a, Ino::ROOT, b"out").await.expect("links") });
    link(&lake, b, "b2");
    lake.exported();
    assert!(lake.stored("a").is_some() && lake.stored("b2").is_none());
    unlink(&lake, "a");
    lake.rename((lake.find("d").expect("there"), "b"), (Ino::ROOT, "b"));
    lake.exported();
    assert_eq!((lake.stored("a"), lake.stored("d/b")), (None, None));
    assert!(lake.stored("b2") == Some(noise(1, 3_000_000)), "the link has this name of it");
    let engine = lake.engine();
    lake.run(async {
        engine.release_all().await.expect("releases");
        assert_eq!(read_all(&engine, a).await.expect("reads"), b"first");
        assert!(read_all(&engine, b).await.expect("reads") == noise(1, 3_000_000));
    });
    drop(engine);
    lake.sound();
}

#[test]
fn an_object_stays_while_a_file_that_another_link_exports_has_its_name() {
    for what in ["removed", "renamed", "removed there"] {
        let lake = Lake::exporting();
        let engine = lake.engine();
        std::fs::create_dir(lake.world.path("pool")).expect("makes");
        let url = format!("file://{}", lake.world.path("pool").display());
        let all = Policy { new: true, changed: true, deleted: true };
        let options = LinkOptions { url, export: all, ..lake.options(Policy::default()) };
        let a = lake.find("a").expect("there");
        let pool = lake.run(async {
            let pool = engine.create(Ino::ROOT, b"pool", new_dir()).await.expect("mkdir").ino;
            engine.link_bucket(pool, "/pool", options).await.expect("links");
            pool
        });
        let stored = || {
            let waiting = |link: &LinkView| link.importing.is_some() || link.export_waiting > 0;
            while lake.run(engine.links()).expect("links").iter().any(waiting) {
                lake.rest(10);
            }
            (lake.stored("a"), std::fs::read(lake.world.path("pool").join("a")).ok())
        };
        let first = || Some(b"first".to_vec());
        lake.run(engine.link(a, pool, b"a")).expect("links");
        assert_eq!(stored(), (first(), first()), "it has both names");
        lake.refresh_all();
        assert_eq!(lake.read("a"), b"first");
        match what {
            "removed" => unlink(&lake, "a"),
            "renamed" => lake.rename((lake.dir, "a"), (Ino::ROOT, "out")),
            _ => lake.run(engine.unlink(pool, b"a")).expect("unlinks"),
        }
        match what {
            "removed there" => {
                assert_eq!(stored(), (first(), None));
                lake.write("a", 0, b"F");
                assert_eq!(stored(), (Some(b"First".to_vec()), None), "it is an object again");
            }
            _ => assert_eq!(stored(), (None, first()), "now that name is gone"),
        }
        drop(engine);
        lake.sound();
    }
}

#[test]
fn other_names_of_an_object_that_changes_keep_what_is_here_of_the_old_one() {
    for exports in [false, true] {
        let lake = if exports { Lake::exporting() } else { Lake::new(Policy::default()) };
        let (a, b) = (lake.find("a").expect("there"), lake.find("d/b").expect("there"));
        link(&lake, a, "old");
        link(&lake, b, "b2");
        assert_eq!(lake.read("a"), b"first");
        assert!(lake.read("d/b") == noise(1, 3_000_000));
        lake.put("a", b"second!");
        lake.delete("d/b");
        lake.refresh_all();
        if exports {
            lake.exported();
            assert_eq!(lake.stored("old").as_deref(), Some(b"first".as_slice()));
            assert!(lake.stored("b2") == Some(noise(1, 3_000_000)));
        }
        lake.run(async { lake.engine().release_all().await.expect("releases") });
        assert_eq!((lake.read("a"), lake.read("old")), (b"second!".to_vec(), b"first".to_vec()));
        assert!(lake.read("b2") == noise(1, 3_000_000));
        assert_eq!(lake.find("d/b"), None);
        // Their end is nothing to the new object.
        unlink(&lake, "old");
        unlink(&lake, "b2");
        lake.refresh_all();
        if exports {
            lake.exported();
        }
        assert_eq!(lake.stored("a").as_deref(), Some(b"second!".as_slice()));
        assert_eq!(lake.read("a"), b"second!");
        assert_eq!(lake.conflicts(), Vec::<String>::new());
        let files = lake.view().files;
        assert_eq!(files, if exports { 1 } else { 2 });
        lake.sound();
    }
}

#[test]
fn a_link_that_ends_takes_all_names_of_its_objects_and_no_other() {
    let lake = Lake::new(Policy::default());
    let (a, b) = (lake.find("a").expect("there"), lake.find("d/b").expect("there"));
    link(&lake, a, "other");
    lake.run(async {
        lake.engine().link(b, Ino::ROOT, b"out").await.expect("links");
        lake.engine().unlink_bucket(lake.dir).await.expect("unlinks");
    });
    assert_eq!(lake.names(), Vec::<String>::new());
    assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()));
    lake.delete("d/b");
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    let bytes = lake.run(async { read_all(&lake.engine(), b).await.expect("reads") });
    assert!(bytes == noise(1, 3_000_000), "this name is none of the link's");
    lake.sound();
}

/// Names that cannot be keys, made and written at the top of a link.
fn odd_names(lake: &Lake) {
    let engine = lake.engine();
    lake.run(async {
        for name in [b"\xff".as_slice(), b"a\nb"] {
            let made = engine.create(lake.dir, name, new_file()).await.expect("creates");
            let file = engine.open(made.ino, WRITE).await.expect("opens");
            engine.write(&file, 0, b"cannot go").await.expect("writes");
            engine.close(file).await.expect("closes");
        }
        let dir = engine.create(lake.dir, b"dir", new_dir()).await.expect("mkdir").ino;
        let made = engine.create(dir, b"f", new_file()).await.expect("creates");
        let to = (lake.dir, b"\xfe".as_slice());
        let mode = RenameMode::Replace;
        engine.rename((lake.dir, b"dir"), to, mode).await.expect("renames");
        engine.create(dir, b"g", new_file()).await.expect("creates");
        engine.link(made.ino, lake.dir, b"f").await.expect("links");
    });
}

#[test]
fn names_that_cannot_be_keys_stay_here_and_harm_nothing() {
    let lake = Lake::exporting();
    odd_names(&lake);
    lake.write("a", 0, b"F");
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"First".as_slice()));
    assert!(lake.stored("f").is_some(), "one of its names can be a key");
    assert_eq!(lake.stored("dir/f"), None);
    assert_eq!((lake.stored("dir/g"), lake.stored("g")), (None, None));
    lake.refresh_all();
    assert_eq!(lake.names().len(), 6, "{:?}", lake.names());
    lake.sound();
}

#[test]
fn a_name_that_cannot_be_a_key_leaves_a_lazy_link_whole() {
    let lake = Lake::lazy_exporting();
    assert_eq!(lake.names(), ["a", "d"]);
    odd_names(&lake);
    let a = lake.find("a").expect("there");
    let file = lake.run(async {
        let file = lake.engine().open(a, WRITE).await.expect("opens");
        lake.engine().write(&file, 0, b"F").await.expect("writes");
        file
    });
    // Passes in which nothing else can be done.
    lake.rest(3_500);
    lake.run(async { lake.engine().close(file).await.expect("closes") });
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"First".as_slice()));
    lake.make(lake.dir, "new", b"new");
    lake.exported();
    assert_eq!(lake.stored("new").as_deref(), Some(b"new".as_slice()));
    lake.refresh(&[""]);
    lake.write("new", 0, b"N");
    lake.exported();
    assert_eq!(lake.stored("new").as_deref(), Some(b"New".as_slice()));
    lake.sound();
}

/// Writes what is in the link to its objects now.
/// Beside a directory of its name the object's file would have a longer one than there can be.
#[test]
fn a_name_as_long_as_can_be_stops_no_import() {
    let lake = Lake::new(Policy::ALL);
    let long = "n".repeat(255);
    lake.put(&long, b"long");
    lake.refresh_all();
    lake.rename((lake.dir, &long), (lake.dir, "renamed"));
    lake.put(&long, b"changed");
    lake.refresh_all();
    assert_eq!(lake.read(&long), b"changed");
    lake.sound();
}

fn archive(lake: &Lake) {
    let roots = vec![Root { ino: lake.dir, path: "/lake".to_owned() }];
    let kind = ActionKind::Archive;
    let request =
        ActionRequest { kind, roots, recursive: true, max_bytes_per_s: None, restore: None };
    let engine = lake.engine();
    lake.run(async {
        let view = engine.start_action(request).await.expect("starts");
        let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
        assert_eq!((view.state, view.refused), (ActionState::Done, 0));
    });
}

#[test]
fn what_is_archived_has_the_name_that_its_directory_has_now() {
    let lake = Lake::new(Policy::default());
    lake.rename((lake.dir, "d"), (lake.dir, "moved"));
    lake.write("moved/b", 0, b"changed");
    let moved = lake.find("moved").expect("there");
    lake.make(moved, "new", b"new");
    archive(&lake);
    assert_eq!(&lake.stored("moved/b").expect("there")[..7], b"changed");
    assert_eq!(lake.stored("moved/new").as_deref(), Some(b"new".as_slice()));
    assert_eq!(lake.stored("d/new"), None);
    assert!(lake.stored("d/b") == Some(noise(1, 3_000_000)), "nobody asked for its end");
    lake.refresh_all();
    assert_eq!(lake.names(), ["a", "moved"]);
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert_eq!(&lake.read("moved/b")[..7], b"changed");
    lake.sound();
}
