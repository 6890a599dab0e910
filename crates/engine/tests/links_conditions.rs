//! Exports to servers that take no notice of conditions, or tell no ETags.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::Arc;

use common::lake::{EXPORTS, Lake};
use common::{World, new_dir, noise, settings};
use weir_engine::{Conditions, LinkOptions, Policy, Wrap};
use weir_object::testing::AtomicStore;
use weir_object::{Bucket, Component, ConnectOptions, Meter, PROBE_PREFIX};
use weir_types::Ino;

/// Only buckets of links are careless: that of the volume could not be worked with.
fn careless(etags: bool) -> World {
    let wrap: Wrap = Arc::new(move |store| {
        match store.to_string().contains("/lake") || store.to_string().contains("InMemory") {
            true => Arc::new(AtomicStore::careless(store, etags)),
            false => store,
        }
    });
    World::with(settings(), Some(wrap))
}

#[test]
fn a_server_that_holds_conditions_is_known_by_a_probe_of_our_own() {
    let lake = Lake::exporting();
    assert_eq!(lake.view().conditions, Some(Conditions::ALL));
    let names = std::fs::read_dir(lake.world.path("lake")).expect("lists");
    let names: Vec<_> = names.map(|entry| entry.expect("one").file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("probe")), "{names:?}");
    lake.sound();
}

#[test]
fn what_is_not_exported_is_not_probed_before_somebody_archives() {
    let lake = Lake::with_export(Policy::default());
    assert_eq!((lake.view().conditions, lake.puts()), (None, 0));
    lake.sound();
}

#[test]
fn a_probe_that_was_left_behind_does_not_show() {
    let lake = Lake::exporting();
    lake.put(&format!("{PROBE_PREFIX}0123"), b"left");
    lake.refresh_all();
    assert_eq!(lake.names(), ["a", "d"]);
    assert_eq!(lake.view().hidden, 1);
    lake.sound();
}

#[test]
fn a_server_without_conditions_has_no_stranger_overwritten() {
    let lake = Lake::exporting_from(careless(true), EXPORTS);
    let none = Conditions { absent: false, matches: false };
    assert_eq!(lake.view().conditions, Some(none));
    lake.write("a", 0, b"F");
    lake.put("a", b"theirs");
    lake.make(lake.dir, "new", b"ours");
    lake.put("new", b"theirs, too");
    lake.make(lake.dir, "large", &noise(5, 20_000_000));
    lake.put("large", b"and this");
    lake.write("d/b", 0, b"ours alone");
    lake.exported();
    assert_eq!(lake.stored("a").as_deref(), Some(b"theirs".as_slice()));
    assert_eq!(lake.stored("new").as_deref(), Some(b"theirs, too".as_slice()));
    assert_eq!(lake.stored("large").as_deref(), Some(b"and this".as_slice()));
    assert_eq!(&lake.stored("d/b").expect("there")[..10], b"ours alone");
    assert_eq!(lake.conflicts().len(), 3);
    assert_eq!(lake.read("new"), b"theirs, too");
    lake.sound();
}

#[test]
fn a_link_of_an_older_weir_is_probed_before_its_first_export() {
    let mut lake = Lake::exporting_from(careless(true), Policy::default());
    lake.world.unmount().expect("unmounts");
    lake.world.mount().expect("mounts");
    assert_eq!(lake.view().conditions, None);
    lake.write("a", 0, b"F");
    lake.put("a", b"theirs");
    lake.archive("a");
    assert_eq!(lake.view().conditions, Some(Conditions { absent: false, matches: false }));
    assert_eq!(lake.stored("a").as_deref(), Some(b"theirs".as_slice()));
    lake.sound();
}

/// Without ETags an object is told by its size and its time.
#[test]
fn a_server_without_etags_has_no_stranger_overwritten() {
    let world = careless(false);
    let mut lake = Lake { world, dir: Ino::ROOT };
    let url = format!("memory://no-etags-{:x}", rand::random::<u64>());
    let of_others =
        Bucket::connect(&url.parse().expect("a URL"), &ConnectOptions::default(), &Meter::new());
    let of_others = of_others.expect("connects");
    let put = async |key: &str, bytes: &'static str| {
        of_others.put(Component::Bench, key, bytes).await.expect("puts");
    };
    let get = async |key: &str| of_others.get(Component::Bench, key).await.expect("there");
    lake.run(async {
        put("a", "first").await;
        put("b", "first").await;
    });
    let options = LinkOptions { url, export: EXPORTS, ..lake.options(Policy::default()) };
    let engine = lake.engine();
    lake.dir = lake.run(async {
        let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
        engine.link_bucket(dir, "/lake", options).await.expect("links");
        dir
    });
    lake.imported();
    lake.write("a", 0, b"F");
    lake.write("b", 0, b"F");
    lake.rest(5);
    lake.run(put("a", "theirs"));
    lake.exported();
    lake.run(async {
        assert_eq!(get("a").await, "theirs");
        assert_eq!(get("b").await, "First");
    });
    assert_eq!(lake.read("a"), b"theirs");
    assert_eq!(lake.read(&lake.conflicts()[0]), b"First");
    // What we wrote is known as ours: by nobody else's change.
    lake.refresh_all();
    assert_eq!(lake.conflicts().len(), 1);
    lake.write("b", 0, b"X");
    lake.exported();
    assert_eq!(lake.run(get("b")), "Xirst");
    // A copy of what somebody else put there would not be the file.
    lake.rest(5);
    lake.rename((lake.dir, "b"), (lake.dir, "c"));
    lake.run(put("b", "other"));
    lake.exported();
    assert_eq!(lake.run(get("c")), "Xirst");
    assert_eq!(lake.run(get("b")), "other");
    drop(engine);
    lake.sound();
}
