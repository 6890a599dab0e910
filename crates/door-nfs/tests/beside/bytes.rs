//! Bytes, in the page cache and in files that the kernel reads by itself.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use weir_door_fuse::FuseOptions;

use crate::both::Both;
use crate::common::codes::{OK, stable};
use crate::common::noise;
use crate::common::ops::{Open, close, set_size};
use crate::common::ops_session::{allocate, clone, deallocate};

fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 21];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64).expect("reads") {
            0 => break,
            more => len += more,
        }
    }
    bytes.truncate(len);
    bytes
}

/// What NFS writes, cuts and copies is what a program of the mount reads that has the file open.
fn bytes_are_seen(both: &Both) {
    let mut client = both.client("a").minor2();
    let root = client.root();
    let mut model = noise(1, 1 << 20);
    fs::write(both.path("file"), &model).expect("writes");
    let held = File::open(both.path("file")).expect("opens");
    assert!(read_all(&held) == model && read_all(&held) == model);
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    for (seed, (offset, len)) in
        [(0, 1), (4095, 2), (300_000, 70_000), ((1 << 20) - 10, 100), (1_200_000, 5)]
            .into_iter()
            .enumerate()
    {
        let data = noise(seed as u64 + 7, len);
        client.write(&file, opened.id, offset, stable::UNSTABLE, &data).expect("writes");
        let end = offset as usize + len;
        model.resize(model.len().max(end), 0);
        model[offset as usize..end].copy_from_slice(&data);
        assert!(read_all(&held) == model, "a write at {offset}");
        assert!(fs::read(both.path("file")).expect("reads") == model, "an open at {offset}");
    }
    assert_eq!(client.set(&file, &set_size(500_001)), OK);
    model.truncate(500_001);
    assert!(read_all(&held) == model, "cut");
    assert_eq!(client.set(&file, &set_size(600_000)), OK);
    model.resize(600_000, 0);
    assert!(read_all(&held) == model, "grown");
    assert_eq!(client.stat(&file, deallocate(opened.id, 8_192, 4_096)), OK);
    model[8_192..12_288].fill(0);
    assert!(read_all(&held) == model, "a hole");
    assert_eq!(client.stat(&file, allocate(opened.id, 0, 700_000)), OK);
    model.resize(700_000, 0);
    assert!(read_all(&held) == model, "room");
    let (other, other_id) = client.make(&root, "other");
    client.write(&other, other_id, 0, stable::UNSTABLE, &noise(99, 65_536)).expect("writes");
    let copied = client.between(&other, &file, clone(other_id, opened.id, (0, 65_536), 65_536));
    assert_eq!(copied.stat, OK);
    model[65_536..131_072].copy_from_slice(&noise(99, 65_536));
    assert!(read_all(&held) == model, "a copy");
    assert_eq!(client.stat(&file, close(opened.id)), OK);
    let (file, opened) =
        client.open(&root, &crate::common::client::Client::truncating("file")).expect("opens");
    assert!(read_all(&held).is_empty(), "cut by an open");
    client.write(&file, opened.id, 0, stable::FILE_SYNC, b"anew").expect("writes");
    assert_eq!(read_all(&held), b"anew");
}

#[test]
fn bytes_written_by_nfs_are_read_through_the_page_cache() {
    let through = |options| FuseOptions { passthrough: false, ..options };
    let Some(both) = Both::with(through) else { return };
    bytes_are_seen(&both);
    assert_eq!(both.lent(), 0);
}

#[test]
fn bytes_written_by_nfs_are_read_by_who_reads_past_the_daemon() {
    let Some(both) = Both::new() else { return };
    bytes_are_seen(&both);
    eprintln!("{} opens were served by the kernel", both.lent());
}

#[test]
fn appends_of_the_mount_land_behind_what_nfs_wrote() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    let mut appends =
        OpenOptions::new().append(true).create(true).open(both.path("log")).expect("opens");
    let reads = File::open(both.path("log")).expect("opens");
    appends.write_all(b"one ").expect("appends");
    let (file, opened) = client.open(&root, &Open::both("log")).expect("opens");
    client.write(&file, opened.id, 4, stable::UNSTABLE, b"two ").expect("writes");
    appends.write_all(b"three ").expect("appends");
    assert_eq!(read_all(&reads), b"one two three ");
    assert_eq!(client.content(&file), b"one two three ");
    client.write(&file, opened.id, 14, stable::UNSTABLE, b"four ").expect("writes");
    appends.write_all(b"five").expect("appends");
    assert_eq!(fs::read(both.path("log")).expect("reads"), b"one two three four five");
    assert_eq!(fs::metadata(both.path("log")).expect("is there").len(), 23);
}

#[test]
fn who_writes_by_both_loses_nothing() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let own = options.open(both.path("file")).expect("opens");
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    let mut model = vec![0; 64 << 10];
    for round in 0..200u64 {
        // Both write parts of the same pages.
        let at = (round as usize * 613) % (60 << 10);
        let (by_mount, by_nfs) = (noise(round, 100), noise(round + 1_000, 100));
        own.write_at(&by_mount, at as u64).expect("writes");
        model[at..at + 100].copy_from_slice(&by_mount);
        let at = at + 50;
        client.write(&file, opened.id, at as u64, stable::UNSTABLE, &by_nfs).expect("writes");
        model[at..at + 100].copy_from_slice(&by_nfs);
        let mut seen = vec![0; 150];
        own.read_exact_at(&mut seen, at as u64 - 50).expect("reads");
        assert!(seen == model[at - 50..at + 100], "round {round}");
    }
    let len = fs::metadata(both.path("file")).expect("is there").len() as usize;
    assert!(read_all(&own) == model[..len] && client.content(&file) == model[..len]);
}
