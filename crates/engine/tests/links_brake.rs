//! Listings that are empty by mistake, and directories that are not what they were.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::Arc;

use common::lake::{EXPORTS, Lake};
use common::{World, new_dir, settings};
use weir_engine::{HeldDeletions, LinkOptions, Policy, Wrap};
use weir_object::testing::{AtomicStore, Listings};
use weir_object::{Component, RequestKind};
use weir_types::Ino;

fn many(count: usize) -> Lake {
    Lake::of(Policy::ALL, |lake| {
        (0..count).for_each(|n| lake.put(&format!("d{}/f{n}", n % 7), b"x"));
    })
}

fn files(lake: &Lake) -> u64 {
    lake.view().files
}

#[test]
fn a_bucket_that_is_nearly_empty_empties_nothing_before_somebody_says_so() {
    let lake = many(100);
    (0..90).for_each(|n| lake.delete(&format!("d{}/f{n}", n % 7)));
    lake.put("new", b"comes all the same");
    lake.refresh_all();
    let held = HeldDeletions { files: 90, of: 100 };
    assert_eq!((files(&lake), lake.view().held_deletions), (101, Some(held)));
    assert_eq!(lake.engine().held_deletions(), [("/lake".to_owned(), held)]);
    lake.refresh_all();
    assert_eq!(files(&lake), 101, "to ask is not to confirm");
    lake.confirm();
    assert_eq!((files(&lake), lake.view().held_deletions), (11, None));
    lake.sound();
}

#[test]
fn what_comes_back_is_not_held_any_more() {
    let lake = many(100);
    let away = lake.world.path("away");
    for dir in 0..7 {
        std::fs::create_dir_all(&away).expect("makes");
        let from = lake.object(&format!("d{dir}"));
        std::fs::rename(from, away.join(format!("d{dir}"))).expect("moves");
    }
    lake.refresh_all();
    assert_eq!(lake.view().held_deletions, Some(HeldDeletions { files: 100, of: 100 }));
    for dir in 0..7 {
        let to = lake.object(&format!("d{dir}"));
        std::fs::rename(away.join(format!("d{dir}")), to).expect("moves");
    }
    lake.refresh_all();
    assert_eq!((files(&lake), lake.view().held_deletions), (100, None));
    lake.sound();
}

#[test]
fn a_quarter_may_go_by_itself() {
    let lake = many(100);
    (0..25).for_each(|n| lake.delete(&format!("d{}/f{n}", n % 7)));
    lake.refresh_all();
    assert_eq!((files(&lake), lake.view().held_deletions), (75, None));
    lake.sound();
}

#[test]
fn a_confirmation_is_for_what_was_shown() {
    let lake = many(200);
    (0..60).for_each(|n| lake.delete(&format!("d{}/f{n}", n % 7)));
    lake.refresh_all();
    assert_eq!(lake.view().held_deletions, Some(HeldDeletions { files: 60, of: 200 }));
    // Before anybody's answer comes all the rest is gone.
    (60..200).for_each(|n| lake.delete(&format!("d{}/f{n}", n % 7)));
    lake.confirm();
    assert_eq!(lake.view().held_deletions, Some(HeldDeletions { files: 200, of: 200 }));
    assert_eq!(files(&lake), 200);
    lake.sound();
}

#[test]
fn a_file_may_take_the_place_of_a_directory_in_one_look() {
    let lake = Lake::of(Policy::ALL, |lake| {
        lake.put("a/b", b"in a directory");
        lake.put("c", b"a file");
    });
    lake.delete("a/b");
    std::fs::remove_dir(lake.object("a")).expect("removes");
    lake.put("a", b"a file by now");
    lake.delete("c");
    lake.put("c/d", b"a directory by now");
    lake.refresh_all();
    lake.refresh_all();
    assert_eq!(lake.read("c/d"), b"a directory by now");
    assert_eq!(lake.names().len(), 2 + usize::from(lake.find("a.weir-object").is_some()));
    lake.sound();
}

/// A few files are no brake's business, but each is looked at before it goes.
#[test]
fn a_listing_that_leaves_all_out_removes_nothing_that_is_there() {
    let listings = Listings::default();
    let listed = listings.clone();
    let wrap: Wrap = Arc::new(move |store| match store.to_string().contains("InMemory") {
        true => Arc::new(AtomicStore::careless(store, true).listing(listed.clone())),
        false => store,
    });
    let mut lake = Lake { world: World::with(settings(), Some(wrap)), dir: Ino::ROOT };
    let url = format!("memory://forgets-{:x}", rand::random::<u64>());
    let others = lake.world.options.connector.connect(&url.parse().expect("a URL"));
    let others = others.expect("connects");
    lake.run(async {
        for n in 0..5 {
            others.put(Component::Bench, &format!("f{n}"), "x").await.expect("puts");
        }
    });
    let options = LinkOptions { url, ..lake.options(Policy::ALL) };
    let engine = lake.engine();
    lake.dir = lake.run(async {
        let dir = engine.create(Ino::ROOT, b"lake", new_dir()).await.expect("mkdir").ino;
        engine.link_bucket(dir, "/lake", options).await.expect("links");
        dir
    });
    lake.imported();
    assert_eq!(files(&lake), 5);
    lake.run(others.delete(Component::Bench, "f3")).expect("deletes");
    listings.forget();
    lake.refresh_all();
    assert_eq!(lake.names(), ["f0", "f1", "f2", "f4"], "what is there stays, what is not goes");
    let status = lake.run(async { engine.status().await.expect("status") });
    let heads = status.requests.row(Component::Link, RequestKind::Head).expect("some").requests;
    assert!(heads >= 5, "{heads}");
    drop(engine);
    lake.sound();
}

/// The disk of a `file://` link was not mounted when Weir started.
#[test]
fn a_directory_that_is_another_one_after_a_restart_is_left_alone() {
    let mut lake = Lake::exporting_with(World::new(), Policy::ALL, EXPORTS);
    lake.world.unmount().expect("unmounts");
    let (at, disk) = (lake.world.path("lake"), lake.world.path("disk"));
    std::fs::rename(&at, &disk).expect("moves");
    std::fs::create_dir(&at).expect("the mount point");
    lake.world.mount().expect("mounts");
    lake.ask();
    lake.make(lake.dir, "new", b"made here");
    lake.rest(2_500);
    let view = lake.view();
    let error = view.import_error.expect("it fails");
    assert!(error.contains("another directory is at") && error.contains("--confirm"), "{error}");
    assert_eq!((view.files, view.export_waiting), (2, 1));
    assert_eq!(std::fs::read_dir(&at).expect("lists").count(), 0, "nothing goes there");
    // Its disk is mounted.
    std::fs::remove_dir(&at).expect("removes");
    std::fs::rename(&disk, &at).expect("moves");
    lake.ask();
    lake.imported();
    lake.exported();
    assert_eq!(lake.stored("new").as_deref(), Some(b"made here".as_slice()));
    assert_eq!(lake.read("a"), b"first");
    lake.sound();
}

#[test]
fn a_directory_that_is_another_one_is_taken_when_somebody_says_so() {
    let mut lake = Lake::exporting_with(World::new(), Policy::ALL, EXPORTS);
    lake.world.unmount().expect("unmounts");
    let (at, disk) = (lake.world.path("lake"), lake.world.path("disk"));
    std::fs::rename(&at, &disk).expect("moves");
    std::fs::create_dir(&at).expect("another one");
    lake.world.mount().expect("mounts");
    lake.put("other", b"another object");
    lake.rest(1_500);
    lake.confirm();
    assert_eq!(lake.names(), ["d", "other"]);
    lake.sound();
}
