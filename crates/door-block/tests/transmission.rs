//! What a disk does behind NBD, with each kind of header.

mod common;

use std::time::Duration;

use common::client::{
    CACHE, Client, DF, DISC, EINVAL, ENOSPC, ENOTSUP, EPERM, FAST, FLUSH, FUA, ONE, PAYLOAD, READ,
    STATUS, Style, TRIM, WRITE, ZEROES,
};
use common::{World, noise};
use weir_door_block::NbdOptions;
use weir_engine::DiskCache;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

#[test]
fn bytes_come_back_with_all_headers() {
    for cache in [DiskCache::None, DiskCache::Tier] {
        let world = World::with_disk("a", cache);
        world.run(async {
            let server = world.serve().await;
            for (seed, style) in
                [Style::Simple, Style::Structured, Style::Extended].iter().enumerate()
            {
                let mut client = Client::with(&server, "a", *style).await;
                let flags = if *style == Style::Extended { PAYLOAD } else { 0 };
                for (offset, len) in
                    [(0, 1), (777, 100_000), (3 * MIB, MIB as usize), (SIZE - 5, 5)]
                {
                    let data = noise(seed as u64 + 1, len);
                    assert_eq!(client.write(flags, offset, &data).await.error, 0);
                    assert_eq!(client.read(offset, len as u64).await, data);
                }
                assert_eq!(client.call(FLUSH, 0, 0, 0).await.error, 0);
                assert_eq!(client.call(READ, 0, 5, 0).await.data, b"");
                let data = client.header(DISC, 0, 0, 0);
                client.send(&data).await;
                client.assert_closed().await;
            }
            let counts = server.counts();
            assert_eq!((counts.writes, counts.reads, counts.flushes), (12, 15, 3));
            assert_eq!((counts.connections_total, counts.errors), (3, 0));
            assert_eq!(counts.bytes_read, 3 * (1 + 100_000 + MIB + 5));
            assert_eq!(counts.bytes_read, counts.bytes_written);
            server.stop().await;
            assert_eq!(server.counts().connections, 0);
        });
    }
}

#[test]
fn the_largest_request_passes_and_a_larger_one_is_read_past() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut client = Client::with(&server, "a", Style::Structured).await;
        let data = noise(3, 32 << 20);
        assert_eq!(client.write(0, 4096, &data).await.error, 0);
        let reply = client.call(READ, DF, 4096, 32 << 20).await;
        assert!(reply.data == data, "32 MiB differ");
        let larger = noise(4, (32 << 20) + 1);
        let reply = client.write(0, 0, &larger).await;
        assert_eq!(reply.error, EINVAL);
        assert!(reply.text.contains("the most is 33554432"), "{}", reply.text);
        assert_eq!(client.call(READ, 0, 0, (32 << 20) + 1).await.error, EINVAL);
        assert!(client.read(4096, 1 << 20).await == data[..1 << 20], "the connection lives on");
        server.stop().await;
    });
}

#[test]
fn many_requests_are_in_flight_and_each_gets_its_own_reply() {
    let world = World::with_disk("a", DiskCache::Tier);
    world.run(async {
        let server = world.serve().await;
        for style in [Style::Simple, Style::Extended] {
            let mut client = Client::with(&server, "a", style).await;
            let data = noise(9, 300 * 4096);
            let (mut bytes, mut cookies) = (Vec::new(), Vec::new());
            for block in data.chunks(4096) {
                let header = client.header(WRITE, 0, 4096 * cookies.len() as u64, 4096);
                cookies.push(header[8..16].to_vec());
                bytes.extend(header);
                bytes.extend_from_slice(block);
            }
            client.send(&bytes).await;
            let mut replied = Vec::new();
            for _ in 0..300 {
                let reply = client.reply().await;
                assert_eq!(reply.error, 0);
                replied.push(reply.cookie.to_be_bytes().to_vec());
            }
            replied.sort();
            assert_eq!(replied, cookies, "each once");

            let mut bytes = Vec::new();
            for at in 0..300 {
                bytes.extend(client.header(READ, 0, 4096 * at, 4096));
            }
            let first = u64::from_be_bytes(bytes[8..16].try_into().expect("eight"));
            client.send(&bytes).await;
            for _ in 0..300 {
                let reply = client.reply().await;
                let at = 4096 * (reply.cookie - first) as usize;
                assert!(reply.data == data[at..at + 4096], "block at {at}");
            }
        }
        server.stop().await;
    });
}

#[test]
fn a_flush_of_one_connection_covers_the_writes_of_another() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut one = Client::with(&server, "a", Style::Structured).await;
        let mut other = Client::with(&server, "a", Style::Simple).await;
        let data = noise(5, 8192);
        assert_eq!(one.write(0, 4096, &data).await.error, 0);
        assert_eq!(other.read(4096, 8192).await, data, "visible at once");
        assert_eq!(other.call(FLUSH, 0, 0, 0).await.error, 0);
        let stored = world.engine().disk("a").await.expect("a disk").stored_bytes;
        assert!(stored >= 8192, "{stored} bytes are in the bucket");
        assert_eq!(one.write(FUA, MIB, &data).await.error, 0);
        let with_fua = world.engine().disk("a").await.expect("a disk").stored_bytes;
        assert!(with_fua > stored, "{with_fua} bytes are in the bucket");
        server.stop().await;
    });
}

#[test]
fn wrong_requests_are_refused_and_the_connection_lives_on() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        for style in [Style::Simple, Style::Structured, Style::Extended] {
            let mut client = Client::with(&server, "a", style).await;
            for (command, flags, offset, len, error) in [
                (READ, 0, SIZE - 1, 2, EINVAL),
                (READ, 0, u64::MAX, 2, EINVAL),
                (TRIM, 0, SIZE, 1, EINVAL),
                (ZEROES, 0, SIZE, 4096, ENOSPC),
                (ZEROES, FAST, 1, 4096, ENOTSUP),
                (READ, ONE, 0, 1, EINVAL),
                (CACHE, 0, 0, 4096, EINVAL),
                (77, 0, 0, 0, EINVAL),
                (STATUS, 0, 0, 0, EINVAL),
                (STATUS, 0, SIZE, 4096, EINVAL),
            ] {
                let reply = client.call(command, flags, offset, len).await;
                assert_eq!(reply.error, error, "command {command} at {offset}: {}", reply.text);
            }
            assert_eq!(client.write(0, SIZE - 1, b"two").await.error, ENOSPC);
            assert_eq!(client.write(DF, 0, b"flags").await.error, EINVAL);
            assert_eq!(client.read(SIZE - 4, 4).await, [0; 4], "nothing was written");
        }
        let mut client = Client::with(&server, "a", Style::Simple).await;
        assert_eq!(client.call(READ, DF, 0, 4).await.error, EINVAL, "not agreed on");
        assert_eq!(client.call(STATUS, 0, 0, 4096).await.error, EINVAL, "not agreed on");
        assert_eq!(server.counts().errors, 3 * 12 + 2);
        server.stop().await;
    });
}

#[test]
fn holes_are_told_as_such() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        for style in [Style::Structured, Style::Extended] {
            let mut client = Client::with(&server, "a", style).await;
            assert_eq!(client.call(TRIM, FUA, 0, SIZE).await.error, 0);
            assert_eq!(client.call(STATUS, 0, 0, SIZE).await.extents, [(SIZE, 3)]);
            assert_eq!(client.write(0, MIB, &noise(1, MIB as usize)).await.error, 0);
            let whole = [(MIB, 3), (MIB, 0), (SIZE - 2 * MIB, 3)];
            assert_eq!(client.call(STATUS, 0, 0, SIZE).await.extents, whole);
            assert_eq!(client.call(FLUSH, 0, 0, 0).await.error, 0);
            assert_eq!(client.call(STATUS, 0, 0, SIZE).await.extents, whole);
            assert_eq!(client.call(STATUS, ONE, 0, SIZE).await.extents, [(MIB, 3)]);
            assert_eq!(client.call(STATUS, ONE, MIB + 4096, 8192).await.extents, [(8192, 0)]);
            assert_eq!(client.call(ZEROES, FAST, MIB, MIB / 2).await.error, 0);
            let half = [(MIB / 2, 3), (MIB / 2, 0)];
            assert_eq!(client.call(STATUS, 0, MIB, MIB).await.extents, half);
            assert_eq!(client.read(MIB, MIB / 2).await, vec![0; MIB as usize / 2]);
        }
        server.stop().await;
    });
}

#[test]
fn a_disk_that_grew_is_used_to_its_new_end() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut client = Client::with(&server, "a", Style::Structured).await;
        assert_eq!(client.write(0, SIZE, b"late").await.error, ENOSPC);
        world.engine().resize_disk("a", 2 * SIZE, false).await.expect("grows");
        assert_eq!(client.write(0, SIZE, b"late").await.error, 0);
        let mut other = Client::connect(&server).await;
        assert_eq!(other.go("a").await.0, 2 * SIZE);
        assert_eq!(other.read(SIZE, 4).await, b"late");
        server.stop().await;
    });
}

#[test]
fn snapshots_and_read_only_servers_take_no_writes() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut client = Client::with(&server, "a", Style::Structured).await;
        assert_eq!(client.write(0, 0, b"old").await.error, 0);
        world.engine().snapshot_disk("a", "s").await.expect("a snapshot");
        assert_eq!(client.write(0, 0, b"new").await.error, 0);
        let mut snapshot = Client::connect(&server).await;
        assert_eq!(snapshot.go("a@s").await.1 & 2, 2, "READ_ONLY");
        assert_eq!(snapshot.read(0, 3).await, b"old");
        assert_eq!(snapshot.write(0, 0, b"new").await.error, EPERM);

        let read_only =
            world.serve_with(NbdOptions { read_only: true, ..NbdOptions::default() }).await;
        let mut client = Client::connect(&read_only).await;
        assert_eq!(client.go("a").await.1 & 2, 2, "READ_ONLY");
        for (command, error) in [(TRIM, EPERM), (ZEROES, EPERM), (FLUSH, 0)] {
            assert_eq!(client.call(command, 0, 0, 0).await.error, error, "command {command}");
        }
        assert_eq!(client.write(0, 0, b"new").await.error, EPERM);
        assert_eq!(client.read(0, 3).await, b"new");
        read_only.stop().await;
        server.stop().await;
    });
}

#[test]
fn clients_that_vanish_or_talk_nonsense_hurt_nobody() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut good = Client::with(&server, "a", Style::Structured).await;
        assert_eq!(good.write(0, 0, &[7; 100_000]).await.error, 0);

        let mut vanishes = Client::with(&server, "a", Style::Simple).await;
        let mut half = vanishes.header(WRITE, 0, 0, 100_000);
        half.extend_from_slice(&[9; 50_000]);
        vanishes.send(&half).await;
        drop(vanishes);

        let mut asks_only = Client::with(&server, "a", Style::Simple).await;
        let reads: Vec<u8> =
            (0..200).flat_map(|_| asks_only.header(READ, 0, 0, 32 << 20)).collect();
        asks_only.send(&reads).await;

        let mut nonsense = Client::with(&server, "a", Style::Simple).await;
        nonsense.send(&[0xab; 28]).await;
        nonsense.assert_closed().await;

        assert_eq!(good.read(0, 100_000).await, [7; 100_000], "half a write is none");
        // The one that reads nothing is still connected: stopping does not wait for it for ever.
        server.stop().await;
        drop(asks_only);
        good.assert_closed().await;
        assert_eq!(server.counts().connections, 0);
    });
}

#[test]
fn what_came_before_a_goodbye_is_done() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let data = noise(11, 8 * MIB as usize);
        let mut leaves = Client::with(&server, "a", Style::Simple).await;
        let mut bytes = leaves.header(WRITE, 0, MIB, data.len() as u64);
        bytes.extend_from_slice(&data);
        bytes.extend(leaves.header(DISC, 0, 0, 0));
        leaves.send(&bytes).await;
        assert_eq!(leaves.reply().await.error, 0);
        leaves.assert_closed().await;
        let mut other = Client::with(&server, "a", Style::Simple).await;
        assert!(other.read(MIB, data.len() as u64).await == data, "the write is not there");
        server.stop().await;
    });
}

#[test]
fn a_client_that_vanishes_leaves_no_request_behind() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let mut good = Client::with(&server, "a", Style::Simple).await;
        let data = noise(12, MIB as usize);
        assert_eq!(good.write(FUA, 0, &data).await.error, 0);
        let stuck = world.stuck();
        let mut vanishes = Client::with(&server, "a", Style::Simple).await;
        let read = vanishes.header(READ, 0, 0, MIB);
        vanishes.send(&read).await;
        // It has begun: what comes behind it has its answer.
        let flush = vanishes.header(FLUSH, 0, 0, 0);
        vanishes.send(&flush).await;
        vanishes.reply().await;
        assert_eq!(server.counts().connections, 2);
        drop(vanishes);
        // Its read waits for the bucket for ever, its connection does not.
        while server.counts().connections > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(server.counts().reads, 0, "the read ended");
        drop(stuck);
        assert!(good.read(0, MIB).await == data, "the object is back");
        server.stop().await;
    });
}

#[test]
fn all_connections_share_one_memory() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        // As little as there can be: one of the largest requests.
        let server = world.serve_with(NbdOptions::default()).await;
        let mut greedy = Client::with(&server, "a", Style::Simple).await;
        let read = greedy.header(READ, 0, 0, 32 << 20);
        greedy.send(&read).await;
        while server.counts().reads == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut small = Client::with(&server, "a", Style::Simple).await;
        assert_eq!(small.call(FLUSH, 0, 0, 0).await.error, 0, "it takes no memory");
        let read = small.header(READ, 0, 0, 4096);
        small.send(&read).await;
        let mut byte = [0];
        let reply = small.stream.peek(&mut byte);
        let early = tokio::time::timeout(Duration::from_millis(200), reply).await;
        assert!(early.is_err(), "32 MiB and 4 KiB were in memory");
        assert_eq!(greedy.reply().await.data, vec![0; 32 << 20]);
        assert_eq!(small.reply().await.data, [0; 4096]);
        server.stop().await;
    });
}
