//! What was set aside is told of until it is settled, and comes back where nobody changed it.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use common::{ACL, WRITE, World, create, new_dir, new_file, noise, read_all, settings};
use weir_engine::{
    ACL_ACCESS, ACL_DEFAULT, AcceptLoss, AsideView, Engine, NewInode, Standing, XattrMode,
};
use weir_types::{ByteRange, ErrorKind, Ino, Result, Settings};

/// Fail points are of the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// Nothing leaves by itself.
fn world() -> World {
    World::with(Settings { flush_age_ms: 3_600_000, meta_flush_ms: 60_000, ..settings() }, None)
}

/// Another machine takes the volume over, does something, and ends; then the first comes back.
fn takeover(first: &mut World, work: impl AsyncFnOnce(Arc<Engine>)) {
    let mut second = first.options.clone();
    (second.tier, second.journal) = (first.path("tier2"), None);
    second.host.machine_id = "another machine".into();
    second.host.boot_id = "another-boot".into();
    second.host.name = "elsewhere".into();
    (second.take_over, second.accept_loss) = (true, AcceptLoss::All);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Arc::new(Engine::mount(second).await.expect("takes over"));
        work(engine.clone()).await;
        engine.shutdown().await.expect("ends");
    });
    first.kill();
    first.mount().expect("comes back");
}

async fn write(engine: &Arc<Engine>, name: &str, at: u64, bytes: &[u8]) {
    let ino = engine.lookup(Ino::ROOT, name.as_bytes()).await.expect("is there").ino;
    let file = engine.open(ino, WRITE).await.expect("opens");
    engine.write(&file, at, bytes).await.expect("writes");
    engine.close(file).await.expect("closes");
}

fn content(world: &World, path: &str) -> Result<Vec<u8>> {
    world.run(async {
        let engine = world.engine();
        let mut at = Ino::ROOT;
        for name in path.split('/') {
            at = engine.lookup(at, name.as_bytes()).await?.ino;
        }
        read_all(&engine, at).await
    })
}

fn list(world: &World) -> Vec<AsideView> {
    world.run(world.engine().recover_list()).expect("lists")
}

fn standings(view: &AsideView) -> BTreeMap<String, Standing> {
    let path = |file: &weir_engine::AsideFile| file.path.clone().unwrap_or_default();
    view.files.iter().map(|file| (path(file), file.standing)).collect()
}

/// The bytes of a file before, and with what was written last.
fn versions(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let before = noise(seed, 300_000);
    let mut after = before.clone();
    after[5_000..105_000].copy_from_slice(&noise(seed + 100, 100_000));
    (before, after)
}

/// Four files, changed without a flush, and new ones; elsewhere one is changed and one removed.
fn leave_things(first: &mut World) {
    let names = ["same", "longer", "changed", "gone"];
    first.run(async {
        let engine = first.engine();
        for (seed, name) in names.iter().enumerate() {
            create(&engine, name, &versions(seed as u64).0).await;
        }
        engine.flush_all().await.expect("flushes");
        for (seed, name) in names.iter().enumerate() {
            let after = versions(seed as u64).1;
            write(&engine, name, 5_000, &after[5_000..105_000]).await;
        }
        write(&engine, "longer", 300_000, b"and more").await;
        create(&engine, "new", &noise(9, 50_000)).await;
        let dir = engine.create(Ino::ROOT, b"dir", new_dir()).await.expect("makes").ino;
        let inner = engine.create(dir, b"inner", new_file()).await.expect("creates").ino;
        let file = engine.open(inner, WRITE).await.expect("opens");
        engine.write(&file, 4_096, b"inner").await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.create(dir, b"empty", new_file()).await.expect("creates");
        create(&engine, "taken", b"ours").await;
        engine.link(inner, Ino::ROOT, b"hard").await.expect("links");
    });
    takeover(first, async |engine| {
        write(&engine, "changed", 0, b"theirs").await;
        engine.unlink(Ino::ROOT, b"gone").await.expect("removes");
        create(&engine, "taken", b"theirs").await;
    });
}

#[test]
fn what_is_set_aside_is_told_of_by_every_mount_until_it_is_settled() {
    let _turn = turn();
    let mut first = world();
    leave_things(&mut first);
    let told = |world: &World| {
        let status = world.run(world.engine().status()).expect("status");
        assert_eq!(status.aside.entries.len(), 1, "{:?}", status.aside);
        assert!(status.aside.files == 7 && status.aside.log_bytes > 0, "{:?}", status.aside);
        status.aside.entries[0].label.clone()
    };
    let label = told(&first);
    assert_eq!(
        first.run(first.engine().status()).expect("status").mount.set_aside.expect("now").label,
        label
    );
    for _ in 0..2 {
        first.unmount().expect("unmounts");
        first.mount().expect("mounts");
        assert_eq!(told(&first), label);
        assert!(first.run(first.engine().status()).expect("status").mount.set_aside.is_none());
    }
    first.unmount().expect("unmounts");
    first.options.read_only = true;
    first.mount().expect("mounts");
    assert_eq!(told(&first), label);
    let refused = first.run(first.engine().recover_merge(None)).expect_err("read-only");
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let view = &list(&first)[0];
    assert_eq!(view.problem, None);
    let want = [
        ("/changed", Standing::Changed),
        ("/dir", Standing::New),
        ("/dir/empty", Standing::New),
        ("/gone", Standing::Removed),
        ("/hard", Standing::New),
        ("/longer", Standing::Unchanged),
        ("/new", Standing::New),
        ("/same", Standing::Unchanged),
        ("/taken", Standing::Blocked),
    ];
    let mut have = standings(view);
    // A removed file's name is in no log that is left, unless it was made or renamed there.
    if let Some(gone) = have.remove("") {
        have.insert("/gone".to_owned(), gone);
    }
    let want: BTreeMap<_, _> = want.map(|(path, s)| (path.to_owned(), s)).into();
    assert_eq!(have, want, "{view:#?}");
    let same = view.files.iter().find(|f| f.path.as_deref() == Some("/same")).expect("listed");
    assert_eq!(
        (&same.ranges[..], same.size_now),
        (&[ByteRange::new(4_096, 106_496)][..], Some(300_000))
    );
}

#[test]
fn a_merge_puts_back_what_nobody_changed_and_leaves_the_rest() {
    let _turn = turn();
    let mut first = world();
    leave_things(&mut first);
    let before = list(&first)[0].clone();
    let report = first.run(first.engine().recover_merge(None)).expect("merges");
    assert_eq!((report.files, report.settled.len(), report.left.len()), (6, 0, 1), "{report:#?}");
    let left = standings(&report.left[0]);
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!((left["/changed"], left["/taken"]), (Standing::Changed, Standing::Blocked));
    let mut longer = versions(1).1;
    longer.extend(b"and more");
    let mut inner = vec![0; 4_096];
    inner.extend(b"inner");
    let mut changed = versions(2).0;
    changed[..6].copy_from_slice(b"theirs");
    let check = |world: &World| {
        let same = |path: &str, want: &[u8]| {
            assert!(content(world, path).expect(path) == want, "{path} is not as it should be");
        };
        same("same", &versions(0).1);
        same("longer", &longer);
        same("new", &noise(9, 50_000));
        same("dir/inner", &inner);
        same("hard", &inner);
        same("dir/empty", b"");
        same("changed", &changed);
        same("taken", b"theirs");
        assert_eq!(content(world, "gone").expect_err("stays away").kind(), ErrorKind::NotFound);
    };
    check(&first);
    let written = before.files.iter().find(|f| f.path.as_deref() == Some("/same")).expect("it");
    let now = first.run(first.engine().lookup(Ino::ROOT, b"same")).expect("is there");
    assert_eq!(Some(now.mtime.0), written.mtime_ns, "its time came back");
    // Again: nothing is done twice.
    let again = first.run(first.engine().recover_merge(None)).expect("merges");
    assert_eq!((again.files, again.left.len()), (0, 1));
    first.unmount().expect("unmounts");
    first.fsck();
    std::fs::rename(first.path("tier"), first.path("tier-before")).expect("moves");
    first.mount().expect("mounts with an empty tier");
    check(&first);
}

#[test]
fn all_that_is_merged_leaves_nothing_set_aside() {
    let _turn = turn();
    let mut first = world();
    first.run(async {
        let engine = first.engine();
        create(&engine, "kept", &versions(0).0).await;
        engine.flush_all().await.expect("flushes");
        write(&engine, "kept", 5_000, &versions(0).1[5_000..105_000]).await;
    });
    takeover(&mut first, async |engine| _ = create(&engine, "theirs", b"theirs").await);
    let report = first.run(first.engine().recover_merge(None)).expect("merges");
    assert_eq!((report.files, report.settled.len(), report.left.len()), (1, 1, 0), "{report:#?}");
    assert!(list(&first).is_empty());
    assert!(content(&first, "kept").expect("reads") == versions(0).1);
    let status = first.run(first.engine().status()).expect("status");
    assert_eq!(status.aside, weir_engine::AsideSummary::default());
    first.unmount().expect("unmounts");
    first.fsck();
    first.mount().expect("mounts");
    assert!(content(&first, "kept").expect("reads") == versions(0).1);
}

#[test]
fn it_is_written_out_whole_where_all_is_known_and_given_up_when_told() {
    let _turn = turn();
    let mut first = world();
    leave_things(&mut first);
    let out = first.path("out");
    std::fs::create_dir(&out).expect("makes");
    let report = first.run(first.engine().recover_extract(None, &out)).expect("extracts");
    let label = list(&first)[0].label.clone();
    let read = |path: &str| std::fs::read(out.join(&label).join(path)).expect(path);
    let whole = |path: &str| {
        let path = Path::new(&label).join(path);
        report.files.iter().find(|file| file.path == path).expect("told").whole
    };
    assert!(read("same") == versions(0).1 && whole("same"));
    assert!(read("new") == noise(9, 50_000) && whole("new"));
    assert!(read("taken") == b"ours" && whole("taken"));
    let changed = read("changed");
    assert!(changed[5_000..105_000] == versions(2).1[5_000..105_000] && !whole("changed"));
    assert!(changed[200_000..].iter().all(|byte| *byte == 0) && changed.len() == 300_000);
    let unknown = first.run(first.engine().recover_discard("no such")).expect_err("none");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    first.run(first.engine().recover_discard(&label)).expect("gives up");
    assert!(list(&first).is_empty());
    first.unmount().expect("unmounts");
    first.mount().expect("mounts");
    assert!(list(&first).is_empty());
    assert!(content(&first, "same").expect("reads") == versions(0).0);
}

#[test]
fn an_entry_of_an_earlier_build_is_listed_and_written_out_but_never_merged() {
    let _turn = turn();
    let mut first = world();
    leave_things(&mut first);
    let directory = list(&first)[0].directory.clone();
    let log = list(&first)[0].log.clone().expect("it has one");
    first.unmount().expect("unmounts");
    for part in [&directory, &log] {
        std::fs::remove_file(part.join("manifest.json")).expect("removes");
    }
    first.mount().expect("mounts");
    let view = list(&first)[0].clone();
    assert_eq!((view.files.len(), view.unix_ms), (9, 0), "{view:#?}");
    assert_eq!(standings(&view)["/same"], Standing::Unknown);
    let report = first.run(first.engine().recover_merge(None)).expect("merges");
    assert!(content(&first, "same").expect("reads") == versions(0).0, "as the volume had it");
    assert!(content(&first, "new").expect("reads") == noise(9, 50_000), "it was nowhere else");
    assert!(report.left[0].files.iter().any(|file| file.path.as_deref() == Some("/same")));
}

#[test]
fn fsynced_data_of_a_journal_that_comes_back_is_made_again() {
    let _turn = turn();
    let mut first = world();
    first.unmount().expect("unmounts");
    first.options.journal = Some(first.path("journal"));
    first.mount().expect("mounts");
    let bytes = noise(3, 200_000);
    first.run(async {
        let engine = first.engine();
        let ino = create(&engine, "synced", &bytes).await;
        engine.fsync(ino).await.expect("syncs");
    });
    let tier = first.path("tier");
    takeover(&mut first, async |_| std::fs::remove_dir_all(&tier).expect("the tier is lost"));
    let view = list(&first)[0].clone();
    assert_eq!(standings(&view)["/synced"], Standing::New, "{view:#?}");
    let report = first.run(first.engine().recover_merge(None)).expect("merges");
    assert_eq!((report.files, report.left.len()), (1, 0), "{report:#?}");
    assert!(content(&first, "synced").expect("reads") == bytes);
    first.unmount().expect("unmounts");
    first.fsck();
}

/// Ends a merge at a fail point, again and again, as `kill -9` would; then lets it end.
#[cfg(feature = "failpoints")]
fn merge_in_pieces(first: &mut World, point: &str) -> u32 {
    let mut kills = 0;
    loop {
        fail::cfg(point, "return").expect("a fail point");
        let merged = first.run(first.engine().recover_merge(None));
        fail::cfg(point, "off").expect("a fail point");
        if merged.is_ok() {
            return kills;
        }
        kills += 1;
        assert!(kills < 50, "no piece gets further: {merged:?}");
        first.kill();
        first.mount().expect("mounts");
        assert!(!list(first).is_empty(), "it is told of until it is done");
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn a_merge_that_is_killed_is_gone_on_with() {
    let _turn = turn();
    let mut first = world();
    let before = noise(1, 14 << 20);
    let mut after = before.clone();
    after[1 << 20..13 << 20].copy_from_slice(&noise(2, 12 << 20));
    first.run(async {
        let engine = first.engine();
        create(&engine, "large", &before).await;
        create(&engine, "small", &before[..10_000]).await;
        engine.flush_all().await.expect("flushes");
        write(&engine, "large", 1 << 20, &after[1 << 20..13 << 20]).await;
        write(&engine, "small", 0, b"small").await;
        create(&engine, "new", &noise(3, 9 << 20)).await;
        create(&engine, "another", b"another").await;
    });
    takeover(&mut first, async |engine| _ = create(&engine, "theirs", b"theirs").await);
    let kills = merge_in_pieces(&mut first, "engine::aside-committed");
    assert!(kills >= 4, "a large file takes several commits: {kills}");
    assert!(list(&first).is_empty(), "{:#?}", list(&first));
    let check = |world: &World| {
        assert!(content(world, "large").expect("reads") == after);
        assert!(content(world, "small").expect("reads").starts_with(b"small"));
        assert!(content(world, "new").expect("reads") == noise(3, 9 << 20));
        assert_eq!(content(world, "another").expect("reads"), b"another");
    };
    check(&first);
    first.unmount().expect("unmounts");
    first.fsck();
    first.mount().expect("mounts");
    check(&first);
}

#[test]
#[cfg(feature = "failpoints")]
fn a_file_that_was_named_before_the_kill_is_not_made_twice() {
    let _turn = turn();
    let mut first = world();
    leave_things(&mut first);
    let kills = merge_in_pieces(&mut first, "engine::aside-named");
    assert!(kills >= 3, "{kills}");
    let left = standings(&list(&first)[0]);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(content(&first, "new").expect("reads") == noise(9, 50_000));
    first.unmount().expect("unmounts");
    first.fsck();
}

#[test]
#[cfg(feature = "failpoints")]
fn a_file_with_two_names_has_both_after_a_kill_between_them() {
    let _turn = turn();
    let mut first = world();
    first.run(async {
        let engine = first.engine();
        let ino = create(&engine, "one", b"bytes").await;
        engine.link(ino, Ino::ROOT, b"two").await.expect("links");
    });
    takeover(&mut first, async |engine| _ = create(&engine, "theirs", b"theirs").await);
    assert!(merge_in_pieces(&mut first, "engine::aside-named") > 0);
    for name in ["one", "two"] {
        assert_eq!(content(&first, name).expect("is there"), b"bytes");
    }
    assert!(list(&first).is_empty(), "{:#?}", list(&first));
    first.unmount().expect("unmounts");
    first.fsck();
}

#[test]
fn lists_come_back_and_give_a_group_no_more_than_they_did() {
    let _turn = turn();
    for obeyed in [true, false] {
        let mut first = world();
        first.run(async {
            let engine = first.engine();
            let set = |ino, name: &'static [u8], value: &'static [u8]| {
                let engine = engine.clone();
                async move { engine.xattr_set(ino, name, value, XattrMode::Any).await }
            };
            create(&engine, "before", b"bytes").await;
            engine.flush_all().await.expect("flushes");
            let new = NewInode { mode: 0o2770, ..new_dir() };
            let dir = engine.create(Ino::ROOT, b"dir", new).await.expect("makes").ino;
            for (name, value) in [(ACL_ACCESS, ACL), (ACL_DEFAULT, ACL), (b"user.a", b"v")] {
                set(dir, name, value).await.expect("sets");
            }
            let file = engine.create(dir, b"file", new_file()).await.expect("creates").ino;
            set(file, ACL_ACCESS, ACL).await.expect("sets");
            let plain = NewInode { mode: 0o1775, ..new_dir() };
            engine.create(Ino::ROOT, b"plain", plain).await.expect("makes");
        });
        takeover(&mut first, async |_| {});
        if obeyed {
            first.engine().obey_acls();
        }
        first.run(first.engine().recover_merge(None)).expect("merges");
        first.run(async {
            let engine = first.engine();
            let of = |dir, name: &'static [u8]| engine.lookup(dir, name);
            let dir = of(Ino::ROOT, b"dir").await.expect("is there");
            let file = of(dir.ino, b"file").await.expect("is there");
            assert_eq!(of(Ino::ROOT, b"plain").await.expect("is there").mode, 0o1775);
            // A volume without lists is mounted by a door that obeys none.
            let group = if obeyed { 0o070 } else { 0 };
            assert_eq!((dir.mode, file.mode), (0o2700 | group, 0o700 | group), "{obeyed}");
            for ino in [dir.ino, file.ino] {
                let list = engine.xattr_get(ino, ACL_ACCESS).await.expect("is there");
                assert_eq!(list == ACL, obeyed);
            }
            assert_eq!(engine.xattr_get(dir.ino, ACL_DEFAULT).await.expect("is there"), ACL);
            assert_eq!(engine.xattr_get(dir.ino, b"user.a").await.expect("is there"), "v");
        });
        first.unmount().expect("unmounts");
        first.fsck();
    }
}
