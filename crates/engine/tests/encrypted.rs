//! Encrypted volumes: what who has the bucket sees of them, and who opens them.

mod common;

use std::path::Path;

use common::{World, create, noise, read_all, settings};
use weir_engine::testing::secret;
use weir_engine::{Connector, KeyChange, Secret, XattrMode, change_keys, volume_keys};
use weir_types::{ErrorKind, Ino, UnixTime};

fn sealed() -> World {
    World::opened_by(settings(), None, Some(secret()))
}

fn content(world: &World, name: &str) -> Vec<u8> {
    let engine = world.engine();
    let ino = world.run(engine.lookup(Ino::ROOT, name.as_bytes())).expect("is there").ino;
    world.run(read_all(&engine, ino)).expect("reads")
}

/// All objects of the bucket, each with its key.
fn objects(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false => found.push((path.display().to_string(), std::fs::read(&path).expect("reads"))),
        }
    }
    found
}

fn shows(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

#[test]
fn neither_bytes_nor_names_nor_attributes_are_in_any_object() {
    let mut world = sealed();
    let words = b"Nobody who has the bucket reads this sentence. ";
    let names = ["a-name-to-be-hidden", "another-name-to-be-hidden"];
    // Many flushes: each has its own objects of the metadata's log.
    for (turn, name) in names.iter().cycle().take(10).enumerate() {
        let bytes = words.repeat(1 + turn * 3_000);
        let name = format!("{name}-{turn}");
        let ino = world.run(create(&world.engine(), &name, &bytes));
        let engine = world.engine();
        let set = engine.xattr_set(ino, b"user.hidden-attribute", words, XattrMode::Any);
        world.run(set).expect("sets");
        world.run(world.engine().fsync(ino)).expect("syncs");
    }
    world.unmount().expect("unmounts");
    let objects = objects(&world.path("bucket"));
    let of = |part: &str| objects.iter().filter(|(key, _)| key.contains(part)).count();
    assert!(
        of("/seg/") >= 1
            && (world.over_postgres() || of("/meta/manifest/") >= 1 && of("/meta/wal/") >= 3),
        "{} objects",
        objects.len()
    );
    for (key, bytes) in &objects {
        for hidden in [&words[..], b"to-be-hidden", b"hidden-attribute"] {
            assert!(!shows(bytes, hidden), "{} shows in {key}", hidden.escape_ascii());
        }
    }
    world.fsck();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "another-name-to-be-hidden-9"), words.repeat(1 + 9 * 3_000));
}

#[test]
fn only_who_has_the_key_opens_it_and_no_key_opens_another_volume() {
    let mut world = sealed();
    world.run(create(&world.engine(), "a", b"bytes"));
    world.unmount().expect("unmounts");
    let right = world.options.connector.secret.replace(secret());
    let error = world.mount().expect_err("another key");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("opens none of its keys: first (key file)"), "{error}");
    world.options.connector.secret = None;
    let error = world.mount().expect_err("no key");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("--key-file"), "{error}");
    world.options.read_only = true;
    assert_eq!(world.mount().expect_err("no key").kind(), ErrorKind::Permission);
    world.options.read_only = false;
    world.options.connector.secret = right;
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), b"bytes");

    let mut plain = World::opened_by(settings(), None, None);
    plain.unmount().expect("unmounts");
    plain.options.connector.secret = Some(secret());
    let error = plain.mount().expect_err("a key for a volume that all may read");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn what_a_machine_had_comes_back_after_a_kill_and_after_its_loss() {
    let mut world = sealed();
    let bytes = noise(5, 5_000_000);
    world.run(create(&world.engine(), "a", &bytes));
    world.kill();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
    let ino = world.run(create(&world.engine(), "b", &bytes));
    world.run(world.engine().fsync(ino)).expect("syncs");
    world.lose_machine();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "b"), bytes);
    world.unmount().expect("unmounts");
    world.fsck();
}

/// Somebody who may write the bucket puts bytes of his own there, with checksums that hold.
#[test]
fn what_somebody_puts_in_the_place_of_a_record_is_not_read() {
    let mut world = sealed();
    let bytes = noise(6, 100_000);
    world.run(create(&world.engine(), "a", &bytes));
    world.unmount().expect("unmounts");
    let segment = objects(&world.path("bucket"))
        .into_iter()
        .find(|(key, _)| key.contains("/seg/"))
        .expect("a segment");
    let (key, mut bytes) = segment;
    // The first record begins at byte 80; its header has 40.
    bytes[200] ^= 1;
    std::fs::write(key, bytes).expect("writes");
    std::fs::remove_dir_all(world.path("tier")).expect("removes");
    world.mount().expect("mounts");
    let engine = world.engine();
    let ino = world.run(engine.lookup(Ino::ROOT, b"a")).expect("is there").ino;
    assert_eq!(
        world.run(read_all(&engine, ino)).expect_err("it was changed").kind(),
        ErrorKind::Corrupt
    );
}

fn change(
    world: &World,
    connector: &Connector,
    change: KeyChange,
) -> weir_types::Result<weir_types::Encryption> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(change_keys(&world.options.url, connector, change, UnixTime(5_000_000_000)))
}

#[test]
fn keys_come_and_go_while_it_is_mounted_and_what_was_written_stays() {
    let mut world = sealed();
    let first = world.options.connector.clone();
    let words = Secret::parse(b"a passphrase of words\n").expect("a passphrase");
    let second = Connector { secret: Some(words.clone()), ..first.clone() };
    world.run(create(&world.engine(), "before", b"before"));
    change(&world, &first, KeyChange::Add("words".into(), words.clone())).expect("adds");
    let error =
        change(&world, &first, KeyChange::Add("words".into(), secret())).expect_err("twice");
    assert_eq!(error.kind(), ErrorKind::Exists);
    change(&world, &first, KeyChange::Remove("first".into())).expect_err("the one that was given");
    let none = Connector { secret: None, ..first.clone() };
    assert_eq!(
        change(&world, &none, KeyChange::Remove("first".into())).expect_err("no key").kind(),
        ErrorKind::Permission
    );

    // A new key, which the passphrase opens and the first key does not.
    let rotated = change(
        &world,
        &second,
        KeyChange::Rotate { stay: Vec::new(), drop_others: true, metadata_url: None },
    )
    .expect("rotates");
    assert_eq!((rotated.wraps.len(), rotated.older.len()), (1, 1));
    let (url, runtime) =
        (world.options.url.clone(), tokio::runtime::Runtime::new().expect("a runtime"));
    assert_eq!(runtime.block_on(volume_keys(&url, &none)).expect("names need no key"), rotated);
    // The mount goes on by the key that it has, also after a kill.
    world.run(create(&world.engine(), "meanwhile", b"meanwhile"));
    world.run(world.engine().flush_all()).expect("flushes");
    world.kill();
    assert_eq!(world.mount().expect_err("the first key").kind(), ErrorKind::Permission);
    world.options.connector = second.clone();
    world.mount().expect("mounts");
    world.run(create(&world.engine(), "after", b"after"));
    world.unmount().expect("unmounts");
    world.fsck();
    std::fs::remove_dir_all(world.path("tier")).expect("removes");
    world.mount().expect("mounts");
    for name in ["before", "meanwhile", "after"] {
        assert_eq!(content(&world, name), name.as_bytes());
    }
}
