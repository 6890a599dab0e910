//! Disks of nodes that share a volume: one node has each.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::sync::Arc;
use std::time::Duration;

use weir_engine::testing::{World, noise};
use weir_engine::{Bytes, Disk, DiskCache, DiskOptions, Engine};
use weir_types::ErrorKind;

use crate::whole::{Node, shared, wait_until};

const MIB: u64 = 1 << 20;

fn make(world: &World) {
    let options = DiskOptions {
        name: "d".to_owned(),
        size_bytes: 8 * MIB,
        record_bytes: None,
        cache: DiskCache::None,
    };
    world.run(world.engine().create_disk(options)).expect("creates");
}

/// Opens it as soon as no other node has it any more.
async fn taken(engine: &Arc<Engine>) -> Disk {
    let mut found = None;
    wait_until("the disk is free", async || {
        match engine.open_disk("d").await {
            Ok(disk) => found = Some(disk),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        found.is_some()
    })
    .await;
    found.expect("it was opened")
}

async fn read(disk: &Disk, start: u64, len: u64) -> Vec<u8> {
    disk.read(start, len).await.expect("reads").concat()
}

#[test]
fn a_disk_is_one_nodes_and_anothers_once_it_is_closed() {
    let world = shared();
    make(&world);
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let (whole, part) = (noise(1, MIB as usize), noise(2, 5_000));
    world.run(async {
        let disk = engine.open_disk("d").await.expect("opens");
        disk.write(0, Bytes::from(whole.clone()), false).await.expect("writes");
        disk.write(3 * MIB + 4_096, Bytes::from(part.clone()), false).await.expect("writes");
        let again = engine.open_disk("d").await.expect("it is this node's");
        drop(again);
        for refused in [
            other.engine.open_disk("d").await.map(drop),
            other.engine.delete_disk("d").await,
            other.engine.resize_disk("d", MIB, true).await.map(drop),
            other.engine.snapshot_disk("d", "s").await.map(drop),
            other.engine.clone_disk("d", "e").await.map(drop),
        ] {
            let error = refused.expect_err("another node has it");
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            assert!(error.to_string().contains("in use at node"), "{error}");
        }
        let seen = other.engine.disk("d").await.expect("is there");
        assert!(seen.node.is_some() && seen.opens == 0, "{seen:?}");
        engine.snapshot_disk("d", "s").await.expect("freezes");
        drop(disk);
    });
    other.run(async {
        let frozen = other.engine.open_disk("d@s").await.expect("a snapshot is for all");
        assert!(read(&frozen, 0, MIB).await == whole);
        let disk = taken(&other.engine).await;
        assert!(read(&disk, 0, MIB).await == whole);
        assert!(read(&disk, 3 * MIB + 4_096, 5_000).await == part);
        disk.write(0, Bytes::from(vec![7; MIB as usize]), false).await.expect("writes");
        disk.write(3 * MIB + 4_096, Bytes::from(vec![8; 5_000]), false).await.expect("writes");
    });
    world.run(async {
        let disk = taken(&engine).await;
        assert!(read(&disk, 0, MIB).await == vec![7; MIB as usize], "not what is here of before");
        assert!(read(&disk, 3 * MIB + 4_096, 5_000).await == vec![8; 5_000]);
        assert!(engine.delete_disk("d").await.is_err(), "it is open");
        drop(disk);
        wait_until("it is given up", async || {
            engine.disk("d").await.expect("is there").node.is_none()
        })
        .await;
        engine.delete_disk("d").await.expect("deletes");
    });
    let error = other.run(other.engine.open_disk("d")).map(drop).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    other.unmount();
}

#[test]
fn what_a_dead_node_had_not_flushed_never_comes_after_who_took_its_disk() {
    let world = shared();
    make(&world);
    let engine = world.engine();
    let other = Node::of(&world, "other");
    other.run(async {
        let disk = other.engine.open_disk("d").await.expect("opens");
        disk.write(0, Bytes::from(vec![1; 8_192]), true).await.expect("writes");
        disk.write(0, Bytes::from(vec![2; 4_096]), false).await.expect("writes");
    });
    other.kill();
    let early = world.run(engine.open_disk("d")).map(drop).expect_err("it may live");
    assert_eq!(early.kind(), ErrorKind::WouldBlock, "{early}");
    let disk = world.run(taken(&engine));
    // Nothing is changed: that somebody has seen it is enough.
    assert!(
        world.run(read(&disk, 0, 8_192)) == vec![1; 8_192],
        "what was not flushed is not there"
    );
    let other = Node::of(&world, "other");
    other.run(async {
        let status = other.engine.status().await.expect("tells");
        assert!(!status.aside.entries.is_empty(), "it is set aside: {status:?}");
        let refused = other.engine.open_disk("d").await.map(drop).expect_err("another has it");
        assert_eq!(refused.kind(), ErrorKind::WouldBlock, "{refused}");
        other.engine.flush_all().await.expect("flushes");
    });
    world.run(async {
        disk.write(4_096, Bytes::from(vec![3; 4_096]), true).await.expect("writes");
        drop(disk);
    });
    let disk = other.run(taken(&other.engine));
    assert!(other.run(read(&disk, 0, 4_096)) == vec![1; 4_096]);
    assert!(other.run(read(&disk, 4_096, 4_096)) == vec![3; 4_096]);
    drop(disk);
    other.unmount();
}

#[test]
fn a_node_that_comes_back_before_others_took_its_disk_goes_on_with_it() {
    let world = shared();
    make(&world);
    let engine = world.engine();
    let other = Node::of(&world, "other");
    other.run(async {
        let disk = other.engine.open_disk("d").await.expect("opens");
        disk.write(0, Bytes::from(vec![2; 4_096]), false).await.expect("writes");
    });
    other.kill();
    let other = Node::of(&world, "other");
    let disk = other.run(other.engine.open_disk("d")).expect("it is its own");
    assert!(other.run(read(&disk, 0, 4_096)) == vec![2; 4_096], "clients live on");
    let refused = world.run(engine.open_disk("d")).map(drop).expect_err("another has it");
    assert_eq!(refused.kind(), ErrorKind::WouldBlock, "{refused}");
    drop(disk);
    let disk = world.run(taken(&engine));
    assert!(world.run(read(&disk, 0, 4_096)) == vec![2; 4_096]);
    drop(disk);
    // One that comes back and opens it no more gives it up, too.
    let disk = other.run(taken(&other.engine));
    other.run(disk.write(0, Bytes::from(vec![4; 4_096]), false)).expect("writes");
    drop(disk);
    other.kill();
    let other = Node::of(&world, "other");
    let disk = world.run(async {
        tokio::time::timeout(Duration::from_secs(9), taken(&engine))
            .await
            .expect("before it is shut out")
    });
    assert!(world.run(read(&disk, 0, 4_096)) == vec![4; 4_096]);
    drop(disk);
    other.unmount();
}
