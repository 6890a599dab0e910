//! Names that a node makes before the database has them.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use weir_engine::RenameMode;
use weir_engine::testing::{new_dir, new_file};
use weir_types::Ino;

use crate::whole::{shared, wait_until};

const ROUNDS: usize = 60;

#[test]
fn a_directory_is_moved_while_names_in_it_wait() {
    let mut world = shared();
    let engine = world.engine();
    world.run(async {
        for round in 0..ROUNDS {
            let (old, new) = (format!("old{round}"), format!("new{round}"));
            let (old, new) = ((Ino::ROOT, old.as_bytes()), (Ino::ROOT, new.as_bytes()));
            let dir = engine.create(old.0, old.1, new_dir()).await.expect("mkdir").ino;
            engine.create(dir, b"first", new_file()).await.expect("creates");
            wait_until("the database has all", async || {
                let leases = engine.status().await.expect("tells").leases;
                leases.is_some_and(|leases| leases.deferred == 0)
            })
            .await;
            engine.create(dir, b"second", new_file()).await.expect("creates");
            engine.rename(old, new, RenameMode::NoReplace).await.expect("renames");
            let moved = engine.lookup(new.0, new.1).await.expect("is there").ino;
            for name in [&b"first"[..], b"second"] {
                engine.lookup(moved, name).await.expect("is there");
            }
        }
    });
    world.unmount().expect("unmounts");
    world.fsck();
}
