//! Exports: what changes in a link's directory becomes native objects again.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use common::lake::{EXPORTS, Lake};
use common::{WRITE, World, new_dir, noise, read_all};
use weir_engine::{
    ACL_ACCESS, ActionKind, ActionRequest, LinkOptions, Policy, RenameMode, Root, XattrMode,
};
use weir_types::{Ino, LinkId};

#[test]
fn what_is_made_changed_and_removed_here_goes_to_the_bucket() {
    let lake = Lake::exporting();
    let dir = lake.run(async {
        lake.engine().create(lake.dir, b"made", new_dir()).await.expect("mkdir").ino
    });
    lake.make(dir, "new", b"made here");
    lake.make(dir, "large", &noise(7, 20_000_000));
    lake.write("d/b", 100, b"changed here");
    lake.run(async { lake.engine().unlink(lake.dir, b"a").await.expect("unlinks") });
    lake.exported();
    assert_eq!(lake.stored("made/new").as_deref(), Some(b"made here".as_slice()));
    assert!(lake.stored("made/large") == Some(noise(7, 20_000_000)));
    let mut expected = noise(1, 3_000_000);
    expected[100..112].copy_from_slice(b"changed here");
    assert!(lake.stored("d/b") == Some(expected.clone()));
    assert_eq!(lake.stored("a"), None);
    // Nothing twice, and nothing comes back.
    let puts = lake.puts();
    lake.refresh_all();
    lake.exported();
    assert_eq!(lake.puts(), puts);
    assert_eq!(lake.conflicts(), Vec::<String>::new());
    assert_eq!(lake.view().files, 3);
    // The bytes are in the objects, and in no segment.
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert!(lake.read("d/b") == expected);
    assert!(lake.read("made/large") == noise(7, 20_000_000));
    lake.sound();
}

#[test]
fn renames_are_copies_and_deletes_in_the_bucket() {
    let lake = Lake::exporting();
    let d = lake.find("d").expect("there");
    lake.rename((lake.dir, "a"), (lake.dir, "a2"));
    lake.make(lake.dir, "a", b"another a");
    lake.rename((lake.dir, "d"), (lake.dir, "moved"));
    lake.make(d, "c", b"in the moved one");
    lake.exported();
    assert_eq!(lake.stored("a2").as_deref(), Some(b"first".as_slice()));
    assert_eq!(lake.stored("a").as_deref(), Some(b"another a".as_slice()));
    assert_eq!(lake.stored("d/b"), None);
    assert!(lake.stored("moved/b") == Some(noise(1, 3_000_000)));
    assert_eq!(lake.stored("moved/c").as_deref(), Some(b"in the moved one".as_slice()));
    // Two files that swap their names.
    let exchange = RenameMode::Exchange;
    lake.run(async {
        let (one, other) = ((lake.dir, b"a".as_slice()), (lake.dir, b"a2".as_slice()));
        lake.engine().rename(one, other, exchange).await.expect("exchanges");
    });
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()));
    assert_eq!(lake.stored("a2").as_deref(), Some(b"another a".as_slice()));
    lake.refresh_all();
    assert_eq!(lake.conflicts(), Vec::<String>::new());
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    assert_eq!(lake.read("a"), b"first");
    assert_eq!(lake.read("a2"), b"another a");
    assert!(lake.read("moved/b") == noise(1, 3_000_000));
    lake.sound();
}

#[test]
fn what_leaves_the_link_leaves_the_bucket_and_stays_a_file() {
    let lake = Lake::exporting();
    lake.rename((lake.dir, "d"), (Ino::ROOT, "out"));
    lake.exported();
    assert_eq!(lake.stored("d/b"), None);
    let b = lake.run(async {
        let out = lake.engine().lookup(Ino::ROOT, b"out").await.expect("there").ino;
        lake.engine().release_all().await.expect("releases");
        lake.engine().lookup(out, b"b").await.expect("there").ino
    });
    let bytes = lake.run(async { read_all(&lake.engine(), b).await.expect("reads") });
    assert!(bytes == noise(1, 3_000_000));
    lake.sound();
}

#[test]
fn an_export_waits_for_the_last_writer() {
    let lake = Lake::exporting();
    let a = lake.find("a").expect("there");
    let file = lake.run(async {
        let engine = lake.engine();
        let file = engine.open(a, WRITE).await.expect("opens");
        engine.write(&file, 0, b"half").await.expect("writes");
        engine.flush_all().await.expect("flushes");
        file
    });
    lake.rest(2_500);
    assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()));
    lake.run(async {
        lake.engine().write(&file, 4, b" and half").await.expect("writes");
        lake.engine().close(file).await.expect("closes");
    });
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"half and half".as_slice()));
    lake.sound();
}

#[test]
fn an_export_never_overwrites_what_somebody_else_put() {
    let lake = Lake::exporting();
    lake.write("a", 0, b"F");
    lake.put("a", b"theirs");
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"theirs".as_slice()));
    assert_eq!(lake.read("a"), b"theirs");
    assert_eq!(lake.read(&lake.conflicts()[0]), b"First");
    assert_eq!(lake.stored(&lake.conflicts()[0]), None, "it is for somebody to look at");
    lake.sound();
}

#[test]
fn an_export_goes_on_after_a_kill() {
    let mut lake = Lake::exporting();
    for n in 0..50 {
        lake.make(lake.dir, &format!("f{n}"), format!("file {n}").as_bytes());
    }
    lake.write("d/b", 0, b"changed");
    lake.world.kill();
    lake.world.mount().expect("mounts");
    lake.exported();
    for n in 0..50 {
        let object = lake.stored(&format!("f{n}"));
        assert_eq!(object.as_deref(), Some(format!("file {n}").as_bytes()));
    }
    assert_eq!(&lake.stored("d/b").expect("there")[..7], b"changed");
    assert_eq!(lake.conflicts(), Vec::<String>::new());
    lake.sound();
}

#[test]
fn editors_that_replace_a_file_change_its_object() {
    let lake = Lake::with_export(Policy { changed: true, deleted: true, ..Policy::default() });
    lake.make(lake.dir, "a.tmp", b"replaced here");
    lake.rename((lake.dir, "a.tmp"), (lake.dir, "a"));
    lake.make(lake.dir, "new", b"new files are not exported");
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"replaced here".as_slice()));
    assert_eq!((lake.stored("a.tmp"), lake.stored("new")), (None, None));
    lake.sound();
}

#[test]
fn a_file_that_got_its_name_by_a_link_is_exported() {
    let lake = Lake::exporting();
    let ino = lake.make(lake.dir, "tmp", b"linked, then unlinked");
    lake.run(async {
        lake.engine().link(ino, lake.dir, b"final").await.expect("links");
        lake.engine().unlink(lake.dir, b"tmp").await.expect("unlinks");
    });
    lake.exported();
    assert_eq!(lake.stored("final").as_deref(), Some(b"linked, then unlinked".as_slice()));
    assert_eq!(lake.stored("tmp"), None);
    lake.sound();
}

#[test]
fn a_file_that_can_be_no_object_takes_the_object_of_the_one_it_replaces() {
    let lake = Lake::exporting();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    let b = lake.find("d/b").expect("there");
    let file = lake.run(async {
        let file = lake.engine().open(b, WRITE).await.expect("opens");
        lake.engine().write(&file, 2_000_000, b"ours").await.expect("writes");
        file
    });
    lake.put("d/b", b"theirs");
    lake.run(async { lake.engine().close(file).await.expect("closes") });
    lake.exported();
    assert_eq!(lake.read("d/b"), b"theirs");
    // Bytes of ours went with the object: it cannot be exported, whatever its name.
    let d = lake.find("d").expect("there");
    let ours = lake.name_of(d, b).expect("it is beside theirs");
    lake.rename((d, &ours), (lake.dir, "a"));
    lake.exported();
    assert_eq!(lake.find("a"), Some(b));
    assert_eq!(lake.stored("a"), None, "the file that it was is gone");
    lake.refresh_all();
    assert_eq!(lake.find("a"), Some(b));
    // Nor does it keep the export busy where it is none to export.
    lake.rename((lake.dir, "a"), (Ino::ROOT, "out"));
    lake.exported();
    lake.run(async {
        let file = lake.engine().open(b, WRITE).await.expect("opens");
        lake.engine().write(&file, 1 << 20, &noise(8, 1 << 18)).await.expect("writes");
        lake.engine().close(file).await.expect("closes");
    });
    lake.exported();
    lake.sound();
}

#[test]
fn a_file_whose_bytes_went_is_an_object_again_once_it_is_written_anew() {
    let lake = Lake::exporting();
    lake.run(async { lake.engine().release_all().await.expect("releases") });
    let b = lake.find("d/b").expect("there");
    let file = lake.run(async {
        let file = lake.engine().open(b, WRITE).await.expect("opens");
        lake.engine().write(&file, 2_000_000, b"ours").await.expect("writes");
        file
    });
    lake.delete("d/b");
    lake.refresh_all();
    lake.run(async { lake.engine().close(file).await.expect("closes") });
    lake.exported();
    assert_eq!(lake.find("d/b"), Some(b));
    assert_eq!(lake.stored("d/b"), None, "most of its bytes went with the object");
    // A part of it does not bring back what went.
    lake.write("d/b", 1 << 20, &noise(8, 1 << 18));
    lake.exported();
    assert_eq!(lake.stored("d/b"), None);
    let whole = noise(7, 3_000_000);
    lake.write("d/b", 0, &whole);
    lake.exported();
    assert!(lake.stored("d/b") == Some(whole), "it is no object");
    assert_eq!(lake.find("d/b"), Some(b));
    lake.sound();
}

#[test]
fn a_renamed_file_that_loses_its_new_name_takes_its_old_object_along() {
    let lake = Lake::exporting();
    lake.put("new", b"theirs");
    let a = lake.find("a").expect("there");
    lake.rename((lake.dir, "a"), (lake.dir, "new"));
    lake.refresh_all();
    lake.exported();
    assert_eq!(lake.read("new"), b"theirs");
    let beside = lake.name_of(lake.dir, a).expect("it is beside theirs");
    assert_eq!(lake.read(&beside), b"first");
    assert_eq!(lake.stored("a"), None, "nothing here has its name");
    lake.refresh_all();
    assert_eq!(lake.names(), ["d", "new", beside.as_str()]);
    lake.sound();
}

/// Another link, of a directory `pool` beside the lake, that exports nothing.
fn pool(lake: &Lake) -> (Ino, LinkId) {
    std::fs::create_dir(lake.world.path("pool")).expect("makes");
    let url = format!("file://{}", lake.world.path("pool").display());
    let options = LinkOptions { url, ..lake.options(Policy::default()) };
    let engine = lake.engine();
    let pool = lake.run(async {
        let pool = engine.create(Ino::ROOT, b"pool", new_dir()).await.expect("mkdir").ino;
        (pool, engine.link_bucket(pool, "/pool", options).await.expect("links").id)
    });
    while lake.run(engine.links()).expect("links")[1].importing.is_some() {
        lake.rest(10);
    }
    pool
}

#[test]
fn a_file_that_loses_its_name_in_another_link_leaves_no_object_behind() {
    let lake = Lake::exporting();
    let ((pool, id), engine) = (pool(&lake), lake.engine());
    let a = lake.find("a").expect("there");
    std::fs::write(lake.world.path("pool").join("a"), b"theirs").expect("writes");
    lake.rename((lake.dir, "a"), (pool, "a"));
    let keys = Some(vec!["a".to_owned()]);
    lake.run(engine.refresh_link(id, keys)).expect("refreshes");
    assert!(lake.name_of(pool, a).expect("it is beside theirs").contains(".weir-conflict-"));
    lake.exported();
    assert_eq!(lake.stored("a"), None, "the file left the link");
    let bytes = lake.run(async {
        engine.release_all().await.expect("releases");
        read_all(&engine, a).await.expect("reads")
    });
    assert_eq!(bytes, b"first");
    drop(engine);
    lake.sound();
}

#[test]
fn what_moved_to_another_link_is_archived_there() {
    let lake = Lake::with_export(Policy::default());
    let (pool, _) = pool(&lake);
    lake.rename((lake.dir, "a"), (pool, "a"));
    let ino = lake.run(lake.engine().lookup(pool, b"a")).expect("there").ino;
    lake.archive_file(ino, "/pool/a");
    let stored = std::fs::read(lake.world.path("pool").join("a")).ok();
    assert_eq!(stored.as_deref(), Some(b"first".as_slice()));
    assert_eq!(lake.stored("a").as_deref(), Some(b"first".as_slice()), "that is not exported");
    lake.sound();
}

#[test]
fn a_file_that_kept_only_its_name_in_another_link_is_archived_there() {
    let lake = Lake::with_export(Policy::default());
    let ((pool, _), engine) = (pool(&lake), lake.engine());
    lake.run(async {
        let ino = engine.lookup(lake.dir, b"a").await.expect("there").ino;
        engine.link(ino, pool, b"b").await.expect("links");
        engine.unlink(lake.dir, b"a").await.expect("unlinks");
        let request = ActionRequest {
            kind: ActionKind::Archive,
            roots: vec![Root { ino: pool, path: "/pool".to_owned() }],
            recursive: true,
            max_bytes_per_s: None,
            restore: None,
        };
        let id = engine.start_action(request).await.expect("starts").id;
        engine.wait_for_action(id, 30_000).await.expect("ends");
    });
    let stored = std::fs::read(lake.world.path("pool").join("b")).ok();
    assert_eq!(stored.as_deref(), Some(b"first".as_slice()));
    drop(engine);
    lake.sound();
}

#[test]
fn a_file_whose_bytes_went_with_its_link_keeps_no_export_busy() {
    let lake = Lake::exporting();
    let ((pool, id), engine) = (pool(&lake), lake.engine());
    let object = lake.world.path("pool").join("x");
    std::fs::write(&object, noise(3, 300_000)).expect("writes");
    lake.run(engine.refresh_link(id, Some(vec!["x".to_owned()]))).expect("refreshes");
    std::fs::write(&object, b"another").expect("writes");
    lake.rename((pool, "x"), (Ino::ROOT, "x"));
    lake.run(engine.unlink_bucket(pool)).expect("unlinks");
    lake.rename((Ino::ROOT, "x"), (lake.dir, "x"));
    lake.make(lake.dir, "y", b"after it");
    lake.exported();
    assert_eq!(lake.stored("y").as_deref(), Some(b"after it".as_slice()));
    assert_eq!(lake.stored("x"), None, "nobody has its bytes");
    let x = lake.find("x").expect("there");
    assert!(lake.run(read_all(&engine, x)).is_err());
    drop(engine);
    lake.sound();
}

#[test]
fn an_object_beside_a_directory_of_its_name_keeps_its_key() {
    let world = World::new();
    let mut lake = Lake { world, dir: Ino::ROOT };
    let name = format!("memory://beside-{:x}", rand::random::<u64>());
    let url: weir_object::BucketUrl = name.parse().expect("a URL");
    let bucket = lake.world.options.connector.connect(&url).expect("connects");
    let put = |key: &'static str, bytes: &'static str| {
        let bucket = bucket.clone();
        async move {
            let component = weir_object::Component::Bench;
            bucket.put(component, key, bytes::Bytes::from(bytes)).await.expect("puts");
        }
    };
    let get = |key: &'static str| {
        let bucket = bucket.clone();
        async move { bucket.get(weir_object::Component::Bench, key).await.ok() }
    };
    lake.run(async {
        put("a", "the object").await;
        put("a/b", "below it").await;
        put("c", "a file first").await;
    });
    let options = LinkOptions { url: name, export: EXPORTS, ..lake.options(Policy::default()) };
    let engine = lake.engine();
    lake.dir = lake.run(async {
        let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
        engine.link_bucket(dir, "/lake", options).await.expect("links");
        dir
    });
    lake.imported();
    assert_eq!(lake.names(), ["a", "a.weir-object", "c"]);
    // A file makes room for a directory; and one that was written stays what it is.
    lake.run(put("c/d", "below it"));
    lake.refresh(&["c/d"]);
    lake.write("a.weir-object", 0, b"THE");
    lake.exported();
    assert_eq!(lake.names(), ["a", "a.weir-object", "c", "c.weir-object"]);
    lake.run(async {
        assert_eq!(get("a").await.as_deref(), Some(b"THE object".as_slice()));
        assert_eq!(get("c").await.as_deref(), Some(b"a file first".as_slice()));
        assert_eq!(get("a/b").await.as_deref(), Some(b"below it".as_slice()));
        assert_eq!(get("a.weir-object").await, None);
        assert_eq!(get("c.weir-object").await, None);
    });
    drop(engine);
    lake.sound();
}

#[test]
fn an_object_gives_a_group_what_the_list_gives_it_and_not_the_mask() {
    let lake = Lake::exporting_to_memory();
    let ino = lake.make(lake.dir, "listed", b"bytes");
    lake.run(async {
        let engine = lake.engine();
        engine.xattr_set(ino, ACL_ACCESS, common::ACL, XattrMode::Any).await.expect("sets");
    });
    assert_eq!(lake.run(lake.engine().getattr(ino)).expect("there").mode, 0o770);
    lake.exported();
    assert_eq!(lake.attribute("listed", "file-permissions"), "0100750");
    lake.sound();
}
