//! Actions over trees: hydrate, release, archive; pins and states.

mod common;

use common::trees::{MIB, act, data_gets, put, request, resident, tree};
use common::{WRITE, World, new_dir, new_file, noise, read_all, settings};
use weir_engine::{ActionKind, ActionRequest, ActionState, ActionView, OpenFlags, Root};
use weir_types::{Bytes, ErrorKind, FileKind, Ino, Settings};

#[test]
fn a_tree_is_hydrated_whole_with_few_requests_and_released_again() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 3, 400).await;
        assert_eq!(resident(&engine, &tree).await, 1, "an empty file is never released");
        let before = data_gets(&world);
        let view = act(&engine, ActionKind::Hydrate, tree.root).await;
        let files = tree.files.len() as u64;
        assert_eq!((view.files_total, view.files_done, view.refused), (files, files, 0));
        assert_eq!((view.bytes_total, view.bytes_done), (tree.bytes, tree.bytes));
        assert!(view.counted);
        let after = data_gets(&world);
        let (gets, bytes) = (after.0 - before.0, after.1 - before.1);
        assert!(gets <= 30, "{gets} GETs for 36 MiB in 3 files and 8 MB in 400");
        assert!(bytes <= tree.bytes * 102 / 100, "{bytes} bytes for {}", tree.bytes);
        assert_eq!(resident(&engine, &tree).await, tree.files.len());
        for (ino, bytes) in &tree.files {
            assert!(read_all(&engine, *ino).await.expect("reads") == *bytes);
        }
        assert_eq!(data_gets(&world), after, "all of it was here");
        act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!(data_gets(&world), after, "what is here is not fetched again");

        let view = act(&engine, ActionKind::Release, tree.root).await;
        assert_eq!((view.files_done, view.refused), (files, 0));
        assert_eq!(resident(&engine, &tree).await, 1);
        assert_eq!(engine.status().await.expect("status").tier.used_bytes, 0);
        let (ino, bytes) = &tree.files[0];
        assert!(read_all(&engine, *ino).await.expect("reads") == *bytes);
    });
    world.fsck();
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let dir = engine.create(Ino::ROOT, b"dir", new_dir()).await.expect("creates").ino;
        let kind = |result: weir_types::Result<ActionView>| result.expect_err("refused").kind();
        let start = |request| engine.start_action(request);
        let hydrate = ActionKind::Hydrate;
        assert_eq!(kind(start(request(hydrate, dir, false)).await), ErrorKind::Invalid);
        assert_eq!(kind(start(request(hydrate, Ino(999), false)).await), ErrorKind::NotFound);
        let nothing = ActionRequest { roots: Vec::new(), ..request(hydrate, dir, true) };
        assert_eq!(kind(start(nothing).await), ErrorKind::Invalid);
        assert_eq!(kind(engine.action(weir_engine::ActionId(7)).await), ErrorKind::NotFound);
        assert_eq!(engine.file_state(dir).await.expect_err("no file").kind(), ErrorKind::Invalid);
    });
}

#[test]
fn release_refuses_what_is_dirty_open_or_pinned_and_says_why() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let bytes = noise(1, 300_000);
        let mut inos = Vec::new();
        for name in ["clean", "dirty", "open", "pinned"] {
            inos.push(put(&engine, root, name, &bytes).await);
        }
        let [clean, dirty, open, pinned] = inos[..] else { panic!("four files") };
        engine.flush_all().await.expect("flushes");
        let file = engine.open(dirty, WRITE).await.expect("opens");
        engine.write(&file, 0, b"new").await.expect("writes");
        engine.close(file).await.expect("closes");
        let held = engine.open(open, OpenFlags::default()).await.expect("opens");
        let pin = vec![Root { ino: pinned, path: "/tree/pinned".to_owned() }];
        assert_eq!(engine.pin(&pin, false, true).await.expect("pins"), 1);
        let states = async || {
            let mut states = Vec::new();
            for ino in [clean, dirty, open, pinned] {
                let s = engine.file_state(ino).await.expect("a state");
                assert!(s.exists && s.size == 300_000);
                states.push((s.released, s.dirty, s.archived, s.pinned));
            }
            states
        };
        let before = [
            (false, false, true, false),
            (false, true, false, false),
            (false, false, true, false),
            (false, false, true, true),
        ];
        assert_eq!(states().await, before);

        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!((view.files_total, view.files_done, view.refused), (4, 4, 3));
        let why = |name: &str| {
            let path = format!("/tree/{name}");
            let found = view.reasons.iter().find(|r| r.path == path);
            found.unwrap_or_else(|| panic!("{view:?}")).reason.clone()
        };
        assert!(why("dirty").contains("has changes that are not in the bucket"));
        assert!(why("open").contains("open"));
        assert!(why("pinned").contains("pinned"));
        let mut after = before;
        after[0].0 = true;
        assert_eq!(states().await, after);

        // Nothing else takes a pinned file either.
        engine.release_all().await.expect("releases");
        assert!(!engine.file_state(pinned).await.expect("a state").released);

        let view = act(&engine, ActionKind::Archive, root).await;
        assert_eq!((view.files_done, view.refused), (4, 0));
        assert!(engine.file_state(dirty).await.expect("a state").archived);
        engine.close(held).await.expect("closes");
        assert_eq!(engine.pin(&pin, false, false).await.expect("unpins"), 1);
        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!(view.refused, 0, "{view:?}");
        let all = [clean, dirty, open, pinned];
        for ino in all {
            assert!(engine.file_state(ino).await.expect("a state").released);
        }
    });
    world.fsck();
}

#[test]
fn archived_files_survive_the_loss_of_the_machine() {
    let mut world = World::new();
    let bytes = noise(1, 3 * MIB);
    let ino = world.run(async {
        let engine = world.engine();
        let ino = put(&engine, Ino::ROOT, "a", &bytes).await;
        assert!(!engine.file_state(ino).await.expect("a state").exists);
        act(&engine, ActionKind::Archive, ino).await;
        ino
    });
    world.lose_machine();
    world.mount().expect("mounts");
    assert!(world.run(read_all(&world.engine(), ino)).expect("reads") == bytes);
}

#[test]
fn pins_survive_a_kill_and_go_with_their_file() {
    let mut world = World::new();
    let (root, inos) = world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let mut inos = Vec::new();
        for i in 0..5 {
            inos.push(put(&engine, root, &format!("f{i}"), &noise(i, 10_000)).await);
        }
        let roots = [Root { ino: root, path: "/tree".to_owned() }];
        let error = engine.pin(&roots, false, true).await.expect_err("a directory");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(engine.pin(&roots, true, true).await.expect("pins"), 5);
        put(&engine, root, "later", b"not pinned").await;
        engine.flush_all().await.expect("flushes");
        (root, inos)
    });
    world.kill();
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!((view.files_done, view.refused), (6, 5));
        assert!(engine.file_state(inos[0]).await.expect("a state").pinned);
        for i in 0..5 {
            engine.unlink(root, format!("f{i}").as_bytes()).await.expect("unlinks");
        }
    });
    world.unmount().expect("ends");
    // A pin without its file is a problem to the check.
    world.fsck();
}

#[test]
fn pins_that_fill_the_tier_give_writers_an_error_and_readers_their_bytes() {
    let world = World::with(Settings { tier_bytes: Bytes::mib(64), ..settings() }, None);
    world.run(async {
        let engine = world.engine();
        let cold = noise(9, 4 * MIB);
        let cold_ino = put(&engine, Ino::ROOT, "cold", &cold).await;
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        let mut roots = Vec::new();
        for i in 0..6 {
            let ino = put(&engine, Ino::ROOT, &format!("f{i}"), &noise(i, 10 * MIB)).await;
            roots.push(Root { ino, path: format!("/f{i}") });
        }
        engine.flush_all().await.expect("flushes");
        engine.pin(&roots, false, true).await.expect("pins");
        let ino = engine.create(Ino::ROOT, b"new", new_file()).await.expect("creates").ino;
        let file = engine.open(ino, WRITE).await.expect("opens");
        let error = loop {
            let at = engine.getattr(ino).await.expect("a size").size;
            match engine.write(&file, at, &noise(7, MIB)).await {
                Ok(_) => engine.fsync(ino).await.expect("syncs"),
                Err(error) => break error,
            }
            // What is written and flushed goes again: make it stay.
            let root = Root { ino, path: "/new".to_owned() };
            engine.pin(&[root], false, true).await.expect("pins");
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("weir unpin"), "{error}");
        engine.close(file).await.expect("closes");
        assert!(read_all(&engine, cold_ino).await.expect("reads") == cold);
        engine.pin(&roots[..3], false, false).await.expect("unpins");
        put(&engine, Ino::ROOT, "more", &noise(8, 10 * MIB)).await;
    });
}

#[test]
fn holes_take_no_room_and_are_never_released() {
    let world = World::with(Settings { tier_bytes: Bytes::mib(64), ..settings() }, None);
    world.run(async {
        let engine = world.engine();
        let inode = engine.create(Ino::ROOT, b"sparse", new_file()).await.expect("creates");
        let hole = engine.create(Ino::ROOT, b"hole", new_file()).await.expect("creates").ino;
        let file = engine.open(inode.ino, WRITE).await.expect("opens");
        engine.write(&file, 0, b"begin").await.expect("writes");
        engine.write(&file, 300 << 20, b"end").await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.truncate(hole, 1 << 40).await.expect("grows");
        engine.flush_all().await.expect("flushes");
        let state = async |ino| engine.file_state(ino).await.expect("a state");
        assert!(!state(inode.ino).await.released);
        assert!(!state(hole).await.released && state(hole).await.resident_bytes == 0);
        let view = act(&engine, ActionKind::Release, inode.ino).await;
        assert_eq!(view.refused, 0);
        assert!(state(inode.ino).await.released);
        let view = act(&engine, ActionKind::Hydrate, inode.ino).await;
        assert_eq!(view.refused, 0, "{view:?}");
        assert!(!state(inode.ino).await.released);
        act(&engine, ActionKind::Hydrate, hole).await;
        assert_eq!(engine.getattr(hole).await.expect("is there").kind, FileKind::Regular);
    });
}

#[test]
fn many_actions_run_side_by_side_and_old_ones_are_forgotten() {
    let mut world = World::new();
    let last = world.run(async {
        let engine = world.engine();
        let mut started = Vec::new();
        let mut inos = Vec::new();
        for i in 0..150 {
            inos.push(put(&engine, Ino::ROOT, &format!("f{i}"), &noise(i, 20_000)).await);
        }
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        for ino in &inos {
            let view = engine.start_action(request(ActionKind::Hydrate, *ino, false)).await;
            started.push(view.expect("starts").id);
        }
        for id in &started {
            // Those that ended first may be forgotten by now.
            if let Ok(view) = engine.wait_for_action(*id, 60_000).await {
                assert_eq!((view.state, view.files_done), (ActionState::Done, 1));
            }
        }
        for ino in inos {
            let state = engine.file_state(ino).await.expect("a state");
            assert!(!state.released && state.action.is_none());
        }
        let kept = engine.actions().await.expect("lists").len();
        assert!((100..=101).contains(&kept), "{kept} are kept");
        *started.last().expect("some")
    });
    world.kill();
    world.mount().expect("mounts");
    let kept = world.run(world.engine().actions()).expect("lists");
    assert!((100..=101).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().expect("some").id, last);
}

#[test]
fn a_reader_hydrates_and_releases_its_own_tier() {
    let mut world = World::new();
    let tree = world.run(async { tree(&world.engine(), 1, 20).await });
    world.unmount().expect("ends");
    world.options.read_only = true;
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let files = tree.files.len();
        let view = act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!((view.files_done, view.refused), (files as u64, 0));
        assert_eq!(resident(&engine, &tree).await, files);
        act(&engine, ActionKind::Release, tree.root).await;
        assert_eq!(resident(&engine, &tree).await, 1);
        let archive = request(ActionKind::Archive, tree.root, true);
        let refused = engine.start_action(archive).await.expect_err("it writes nothing");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    });
}
