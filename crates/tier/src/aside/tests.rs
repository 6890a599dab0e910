//! An entry is whole whenever its making was cut off, and old ones are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::{ByteRange, FileKind, Inode, UnixTime};

use super::*;
use crate::{DiskSpace, PAGE_BYTES, TierOptions};

fn tier(directory: &Path) -> Tier {
    let ticks = AtomicU64::new(0);
    let options = TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 100 * PAGE_BYTES,
        high_water_percent: 90,
        low_water_percent: 50,
        free_floor_bytes: 0,
        memory_bytes: 1 << 30,
        ask_space: DiskSpace::kernel(),
        inherited: crate::Inherited::default(),
        sealed: Vec::new(),
        boot_id: "boot".to_owned(),
        now_ms: Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed)),
    };
    let (tier, _) = Tier::open(options).expect("opens");
    tier.confirm().expect("confirms");
    tier
}

fn write(tier: &Tier, ino: u64, at: u64, bytes: &[u8]) {
    let inode = Inode::new(Ino(ino), FileKind::Regular, Ino::ROOT, UnixTime(1));
    let mirror = tier.mirror(&inode).expect("a mirror");
    assert!(mirror.write_at(at, bytes, UnixTime(7)).expect("writes").is_empty());
}

fn cause() -> Cause {
    Cause { why: Why::AnotherWriter, mounts: vec!["m".into()], unix_ms: 5, ..Cause::default() }
}

#[test]
fn what_is_set_aside_is_listed_with_all_that_is_known_of_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    write(&tier, 2, 0, b"one");
    write(&tier, 3, 8192, b"three");
    let aside = tier.set_aside("a", &cause()).expect("sets aside");
    assert_eq!((aside.files, aside.dirty_bytes, aside.label.as_str()), (2, 8, "a"));
    let manifest = Manifest::read(&aside.directory).expect("reads").expect("is there");
    assert!(manifest.complete && manifest.cause == cause(), "{manifest:?}");
    let three = manifest.files.iter().find(|kept| kept.ino == Ino(3)).expect("listed");
    assert_eq!((three.size, three.generation), (8197, Some(0)));
    assert_eq!(
        (&three.dirty[..], three.mtime),
        (&[ByteRange::new(8192, 12288)][..], Some(UnixTime(7)))
    );
    let mode = |path: &Path| path.metadata().expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode(&aside.directory), 0o700);
    for name in ["manifest.json", "0000000000000002", "0000000000000003"] {
        assert_eq!(mode(&aside.directory.join(name)), 0o600, "{name}");
    }
    assert!(tier.unflushed().is_empty() && tier.dirty_bytes() == 0);
    // The same file once more.
    write(&tier, 3, 0, b"again");
    let more = tier.set_aside("a", &cause()).expect("sets aside");
    let manifest = Manifest::read(&more.directory).expect("reads").expect("is there");
    assert_eq!(manifest.files.len(), 3);
    let bytes = fs::read(more.directory.join(&manifest.files[2].file)).expect("reads");
    assert_eq!(bytes, b"again");
}

#[test]
fn a_move_that_was_cut_off_is_finished_when_the_tier_is_opened() {
    let dir = tempfile::tempdir().expect("tempdir");
    let old = dir.path().join(ASIDE).join("b");
    for moved in [0, 1, 2] {
        let tier = tier(dir.path());
        write(&tier, 2, 0, b"one");
        write(&tier, 3, 0, b"two");
        // As far as the manifest, and as many renames.
        let mut manifest = Manifest::new(cause());
        for mirror in tier.unflushed() {
            let kept = manifest.kept(&mirror);
            manifest.files.push(kept);
        }
        make_private(&old).expect("makes");
        manifest.write(&old).expect("writes");
        for kept in manifest.files.iter().take(moved) {
            let from = tier.find(kept.ino).expect("a mirror").path();
            fs::rename(from, old.join(&kept.file)).expect("moves");
        }
        drop(tier);
        let tier = self::tier(dir.path());
        assert!(tier.unflushed().is_empty(), "nothing of it is flushed after {moved} moves");
        let manifest = Manifest::read(&old).expect("reads").expect("is there");
        assert!(manifest.complete && manifest.files.iter().all(|kept| kept.moved));
        for (name, bytes) in [("0000000000000002", b"one"), ("0000000000000003", b"two")] {
            assert_eq!(fs::read(old.join(name)).expect("moved"), bytes, "after {moved} moves");
        }
        fs::remove_dir_all(&old).expect("removes");
    }
}

#[test]
fn an_entry_of_an_earlier_build_is_read_without_a_manifest() {
    let dir = tempfile::tempdir().expect("tempdir");
    let old = dir.path().join(ASIDE).join("1700000000000000000");
    fs::create_dir_all(&old).expect("makes");
    fs::write(old.join("000000000000000a"), [7; 5000]).expect("writes");
    fs::create_dir_all(dir.path().join(ASIDE).join("empty")).expect("makes");
    drop(tier(dir.path()));
    assert!(!dir.path().join(ASIDE).join("empty").exists(), "an empty one is none");
    assert!(Manifest::read(&old).expect("reads").is_none());
    let manifest = Manifest::guess(&old).expect("guesses");
    assert_eq!(manifest.cause.unix_ms, 1_700_000_000_000);
    let kept = &manifest.files[0];
    assert_eq!((kept.ino, kept.size, kept.generation, kept.bytes()), (Ino(10), 5000, None, 5000));
}

#[test]
fn manifests_are_written_as_ever() {
    let text = r#"{"version":1,"why":"a reason to come","unix_ms":3,"complete":true,
        "files":[{"ino":2,"file":"0000000000000002","size":5,"resized":true,"mtime":4,"ctime":null,
                  "generation":1,"dirty":[[0,4096]]}]}"#;
    let manifest: Manifest = serde_json::from_str(text).expect("parses");
    assert_eq!((manifest.cause.why, manifest.bytes()), (Why::Unknown, 5));
    let written = serde_json::to_value(Manifest { files: Vec::new(), ..manifest }).expect("writes");
    let want = r#"{"version":1,"why":"unknown","detail":"","mounts":[],"unix_ms":3,"log":null,
        "commits_hold":false,"complete":true,"discarded":false,"files":[],"remade":{}}"#;
    assert_eq!(written, serde_json::from_str::<serde_json::Value>(want).expect("parses"));
    let newer = tempfile::tempdir().expect("tempdir");
    fs::write(newer.path().join("manifest.json"), r#"{"version":2}"#).expect("writes");
    assert!(Manifest::read(newer.path()).expect_err("newer").to_string().contains("newer weir"));
}
