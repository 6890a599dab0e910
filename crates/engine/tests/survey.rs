//! How much is below the directories, and how much of it is here.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use common::{WRITE, World, new_dir, new_file, noise};
use weir_engine::{ActionKind, ActionRequest, ActionState, Root};
use weir_types::Ino;

const KIB: u64 = 1 << 10;

#[test]
fn directories_are_summed_and_say_what_is_here() {
    let mut world = World::new();
    world.run(async {
        let engine = world.engine();
        let mut dirs = Vec::new();
        for (name, kib) in [("a", 64), ("b", 256)] {
            let dir = engine.create(Ino::ROOT, name.as_bytes(), new_dir()).await.expect("makes");
            let file = engine.create(dir.ino, b"f", new_file()).await.expect("creates");
            let open = engine.open(file.ino, WRITE).await.expect("opens");
            engine.write(&open, 0, &noise(1, kib * 1_024)).await.expect("writes");
            engine.close(open).await.expect("closes");
            dirs.push(dir.ino);
        }
        let survey = engine.survey().await.expect("looks");
        assert!(survey.complete && survey.names == 4, "{survey:?}");
        let told = |of: &weir_engine::Surveyed| (of.name.clone(), of.bytes, of.resident_bytes);
        let rows: Vec<_> = survey.root.directories.iter().map(told).collect();
        let kib = |n: u64| n * KIB;
        let wanted = [("b".to_owned(), kib(256), kib(256)), ("a".to_owned(), kib(64), kib(64))];
        assert_eq!(rows, wanted);
        assert_eq!((survey.root.files, survey.root.bytes), (2, kib(320)));

        // What is released is in the bucket only; the next minute is told of it.
        engine.flush_all().await.expect("flushes");
        let roots = vec![Root { ino: dirs[1], path: "/b".to_owned() }];
        let request = ActionRequest {
            kind: ActionKind::Release,
            roots,
            recursive: true,
            max_bytes_per_s: None,
            restore: None,
        };
        let action = engine.start_action(request).await.expect("begins");
        let action = engine.wait_for_action(action.id, 10_000).await.expect("waits");
        assert_eq!(action.state, ActionState::Done, "{action:?}");
        let again = engine.survey().await.expect("tells");
        assert_eq!(again.unix_ms, survey.unix_ms, "nobody looks twice in a minute");
        assert_eq!(again.root, survey.root);
    });
    world.unmount().expect("unmounts");

    world.mount().expect("mounts");
    world.run(async {
        let survey = world.engine().survey().await.expect("looks");
        let b = &survey.root.directories[0];
        assert_eq!((b.name.as_str(), b.bytes, b.resident_bytes), ("b", 256 * KIB, 0));
        assert_eq!(survey.root.resident_bytes, 64 * KIB);
    });
    world.unmount().expect("unmounts");
}
