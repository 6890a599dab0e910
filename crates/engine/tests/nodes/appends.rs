//! Appends to a file with a write lease where its node has little room, or a limit: they wait, lose nothing, and another
//! node finds all of it.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::testing::{WRITE, new_file, noise, read_all};
use weir_engine::{Engine, Subject, ThroughputChange};
use weir_throughput::efs::Mode;
use weir_types::{Bytes, Ino};

use crate::whole::{Node, share, shared, wait_until};

const MIB: u64 = 1 << 20;

/// Appends a MiB at a time, and closes the file each eighth time.
async fn append_all(engine: &Arc<Engine>, ino: Ino, bytes: &[u8]) {
    for part in bytes.chunks(8 * MIB as usize) {
        let file = engine.open(ino, WRITE).await.expect("opens");
        for piece in part.chunks(MIB as usize) {
            engine.append(&file, piece).await.expect("appends");
        }
        engine.flush_for_others(ino).await.expect("as the doors do at a close");
        engine.close(file).await.expect("closes");
    }
}

async fn make(engine: &Arc<Engine>, name: &str) -> Ino {
    engine.create(Ino::ROOT, name.as_bytes(), new_file()).await.expect("creates").ino
}

#[test]
fn a_file_grows_past_the_tier_of_the_node_that_has_a_write_lease_on_it() {
    let world = shared();
    let small = Node::with(&world, "small", |options| {
        options.settings.tier_bytes = Bytes::mib(64);
    });
    let bytes = noise(7, 160 * MIB as usize);
    let ino = small.run(async {
        let ino = make(&small.engine, "log").await;
        append_all(&small.engine, ino, &bytes[..4 * MIB as usize]).await;
        let status = small.engine.status().await.expect("status");
        assert!(
            status.leases.expect("shares the volume").writes > 0,
            "a file that is made has a write lease"
        );
        append_all(&small.engine, ino, &bytes[4 * MIB as usize..]).await;
        ino
    });
    let engine = world.engine();
    assert!(
        world.run(read_all(&engine, ino)).expect("reads") == bytes,
        "what the other node reads"
    );
    assert!(
        small.run(read_all(&small.engine, ino)).expect("reads") == bytes,
        "what it reads itself"
    );
    small.unmount();
}

#[test]
fn a_limit_holds_for_appends_to_a_file_with_a_write_lease() {
    const RATE: u64 = 8 * MIB;
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let provisioned = Mode::Provisioned { mib_per_s: (RATE / MIB) as f64 };
    let change = ThroughputChange { mode: Some(provisioned), ..ThroughputChange::default() };
    world.run(engine.set_throughput(Subject::VOLUME, "/", change)).expect("sets");
    let bytes = noise(8, 32 * MIB as usize);
    let (ino, took) = other.run(async {
        let ino = make(&other.engine, "log").await;
        wait_until("it has a part of the limit", async || share(&other.engine).await.share > 0.0)
            .await;
        append_all(&other.engine, ino, &bytes[..MIB as usize]).await;
        let began = Instant::now();
        append_all(&other.engine, ino, &bytes[MIB as usize..]).await;
        (ino, began.elapsed())
    });
    // Each node may be ahead by 50 ms of the rate and one I/O.
    let least = Duration::from_secs_f64((31 * MIB - MIB) as f64 / RATE as f64 - 0.1);
    assert!(took >= least, "31 MiB took {took:?}, less than {least:?}");
    assert!(
        world.run(read_all(&engine, ino)).expect("reads") == bytes,
        "what the other node reads"
    );
    other.unmount();
}
