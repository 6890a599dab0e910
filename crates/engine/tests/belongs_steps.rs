//! A mount that ends at any of its steps: the next one with the same tier and journal goes on.
#![cfg(feature = "failpoints")]

mod common;

use common::{World, create, read_all};
use weir_engine::AcceptLoss;
use weir_types::{ErrorKind, Ino};

const STEPS: [&str; 7] =
    ["tier-noted", "log-noted", "log-placed", "taken", "durable", "leased", "recovered"];

fn content(world: &World, name: &str) -> Vec<u8> {
    let engine = world.engine();
    let ino = world.run(engine.lookup(Ino::ROOT, name.as_bytes())).expect("is there").ino;
    world.run(read_all(&engine, ino)).expect("reads")
}

/// One after the other in one test: fail points are the process's.
#[test]
fn a_mount_that_ends_at_any_step_costs_nothing() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    for (at, step) in STEPS.into_iter().enumerate() {
        for (clean, fresh_tier) in [(false, false), (false, true), (true, true)] {
            let what = format!("{step}, clean {clean}, fresh tier {fresh_tier}");
            world.mount().expect("mounts");
            let (synced, written) = (format!("synced {what}"), format!("written {what}"));
            let ino = world.run(create(&world.engine(), &synced, b"fsynced"));
            world.run(world.engine().fsync(ino)).expect("syncs");
            world.run(create(&world.engine(), &written, b"written"));
            match clean {
                true => world.unmount().unwrap_or_else(|error| panic!("{what}: {error}")),
                false => world.kill(),
            }
            if fresh_tier {
                world.options.tier = world.path(&what);
                world.options.accept_loss = AcceptLoss::Tier;
            }
            let accept_loss = world.options.accept_loss;
            // Twice: what the first left is what the second finds.
            for stopped in [at, STEPS.len() - 1 - at] {
                let point = format!("engine::mount-{}", STEPS[stopped]);
                fail::cfg(&point, "return").expect("a point");
                let error = world.mount().expect_err("it is stopped");
                fail::remove(&point);
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{what}: {error}");
            }
            // Where the tier was given up, that has to be said until it is done.
            world.options.accept_loss = accept_loss;
            world.mount().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(content(&world, &synced), b"fsynced", "{what}");
            if clean || !fresh_tier {
                assert_eq!(content(&world, &written), b"written", "{what}");
            }
            let report = world.run(world.engine().status()).expect("status").mount;
            assert!(report.set_aside.is_none(), "{what}: {report:?}");
            world.unmount().expect("unmounts");
        }
    }
    world.fsck();
}
