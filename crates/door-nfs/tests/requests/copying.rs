//! SEEK, ALLOCATE, DEALLOCATE, CLONE and COPY of NFS 4.2 (RFC 7862).

use crate::common::client::Client;
use crate::common::codes::{
    BAD_STATEID, FBIG, INVAL, ISDIR, NOSPC, NOTSUPP, NXIO, OK, OPENMODE, WRONG_TYPE, attr, op,
    share, stable,
};
use crate::common::ops::{self, Open, StateId, lookup, putfh, savefh};
use crate::common::ops_session::{allocate, clone, copy, deallocate, seek};
use crate::common::replies::{Body, Res};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any, noise};

const MIB: u64 = 1 << 20;

/// A client that speaks 4.2, with a file that is open for both.
fn with_file(served: &Served, bytes: &[u8]) -> (Client, Vec<u8>, StateId) {
    let mut client = served.client("a").minor2();
    let root = client.root();
    client.file(&root, "file", bytes);
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    (client, file, opened.id)
}

/// Where SEEK ends: offset, and whether the file does there.
fn sought(res: Res) -> (u64, bool) {
    match res.body {
        Body::Sought { eof, offset } => (offset, eof),
        other => panic!("{:?} {other:?}", res.stat),
    }
}

#[test]
fn seek_finds_data_and_holes() {
    let served = Served::new();
    let (mut client, file, id) = with_file(&served, b"");
    client.write(&file, id, 8 * MIB, stable::FILE_SYNC, &noise(1, MIB as usize)).expect("writes");
    assert_eq!(client.set(&file, &ops::set_size(20 * MIB)), OK);
    let mut at = |offset, hole| client.at(&file, seek(id, offset, hole));
    let (data, _) = sought(at(0, false));
    assert!(data <= 8 * MIB, "no byte of the data may be passed: {data}");
    assert_eq!(sought(at(8 * MIB, false)).0, 8 * MIB);
    assert_eq!(sought(at(8 * MIB + 5, false)).0, 8 * MIB + 5);
    let (hole, _) = sought(at(8 * MIB, true));
    assert!((9 * MIB..=20 * MIB).contains(&hole), "{hole}");
    // Of data behind the last: either none, or the file has no holes that are known.
    let after = at(19 * MIB, false);
    assert!(after.stat == NXIO || sought(after).0 >= 19 * MIB);
    for offset in [20 * MIB, 21 * MIB, u64::MAX] {
        for hole in [false, true] {
            assert_eq!(at(offset, hole).stat, NXIO, "RFC 7862, 15.11.3: {offset}");
        }
    }
    let root = client.root();
    assert_any(client.stat(&root, seek(StateId::ANONYMOUS, 0, true)), &[ISDIR, WRONG_TYPE]);
    assert_eq!(client.stat(&file, seek(id.with(9), 0, true)), BAD_STATEID);
}

#[test]
fn the_end_of_a_file_without_holes_is_its_hole() {
    let served = Served::new();
    let (mut client, file, id) = with_file(&served, &noise(1, 10_000));
    assert_eq!(sought(client.at(&file, seek(id, 0, false))).0, 0);
    let (offset, _) = sought(client.at(&file, seek(id, 0, true)));
    assert_eq!(offset, 10_000);
}

#[test]
fn allocate_makes_room_and_keeps_bytes() {
    let served = Served::new();
    let (mut client, file, id) = with_file(&served, b"bytes");
    let root = client.root();
    match client.stat(&file, allocate(id, 3, 100_000)) {
        OK => {}
        other => return assert_eq!(other, NOTSUPP, "or it is not there at all"),
    }
    assert_eq!(client.size(&file), 100_003);
    let mut wanted = b"bytes".to_vec();
    wanted.resize(100_003, 0);
    assert!(client.content(&file) == wanted, "the bytes differ");
    assert_eq!(client.stat(&file, allocate(id, 0, 10)), OK, "where it is already");
    assert_eq!(client.size(&file), 100_003);
    assert_any(client.stat(&file, allocate(id, 0, 0)), &[INVAL]);
    assert_any(client.stat(&file, allocate(id, u64::MAX, 5)), &[INVAL, FBIG]);
    assert_any(client.stat(&file, allocate(id, 1 << 62, 1 << 62)), &[INVAL, FBIG, NOSPC]);
    let reader = client.open_as(&root, "reader", Open::read("file")).expect("opens");
    assert_eq!(client.stat(&file, allocate(reader, 0, 10)), OPENMODE);
    assert_any(client.stat(&root, allocate(id, 0, 1)), &[ISDIR, WRONG_TYPE, BAD_STATEID]);
}

#[test]
fn deallocate_leaves_zeros() {
    let served = Served::new();
    let data = noise(3, 3 << 20);
    let (mut client, file, id) = with_file(&served, &data);
    let root = client.root();
    let change = client.change(&file);
    match client.stat(&file, deallocate(id, 1_000, 2 * MIB)) {
        OK => {}
        other => return assert_eq!(other, NOTSUPP, "or it is not there at all"),
    }
    let mut wanted = data;
    wanted[1_000..1_000 + (2 << 20)].fill(0);
    assert!(client.content(&file) == wanted, "the bytes differ");
    assert!(client.change(&file) > change);
    assert_eq!(client.size(&file), 3 * MIB);
    // Past the end: nothing grows.
    assert_eq!(client.stat(&file, deallocate(id, 3 * MIB - 10, 1_000)), OK);
    assert_eq!(client.stat(&file, deallocate(id, 30 * MIB, 1_000)), OK);
    assert_eq!(client.size(&file), 3 * MIB);
    assert_any(client.stat(&file, deallocate(id, u64::MAX, 5)), &[INVAL, FBIG]);
    let reader = client.open_as(&root, "reader", Open::read("file")).expect("opens");
    assert_eq!(client.stat(&file, deallocate(reader, 0, 10)), OPENMODE);
}

/// A second file that is open for both.
fn second(client: &mut Client) -> (Vec<u8>, StateId) {
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::making("second")).expect("opens");
    (file, opened.id)
}

#[test]
fn clone_is_a_copy_that_goes_its_own_way() {
    let served = Served::new();
    let data = noise(4, 2 << 20);
    let (mut client, file, id) = with_file(&served, &data);
    let (to, to_id) = second(&mut client);
    let block = {
        let told = client.attrs(&file, &[attr::CLONE_BLKSIZE]);
        if told.numbers().is_empty() { 1 } else { told.number(attr::CLONE_BLKSIZE).max(1) }
    };
    let done = client.between(&file, &to, clone(id, to_id, (0, 0), 0)).stat;
    if done != OK {
        return assert_eq!(done, NOTSUPP, "or it is not there at all");
    }
    assert!(client.content(&to) == data, "all of it");
    client.write(&file, id, 0, stable::UNSTABLE, b"changed").expect("writes");
    assert!(client.content(&to) == data, "it goes its own way");
    let piece = clone(id, to_id, (MIB, 4 * MIB), MIB / block * block);
    assert_any(client.between(&file, &to, piece).stat, &[OK, INVAL]);
    let beyond = clone(id, to_id, (MIB, 0), 2 * MIB);
    assert_eq!(client.between(&file, &to, beyond).stat, INVAL, "RFC 7862, 15.13.3");
    let overlapping = clone(id, id, (0, MIB / 2), MIB);
    assert_any(client.between(&file, &file, overlapping).stat, &[INVAL]);
    let root = client.root();
    let reader = client.open_as(&root, "reader", Open::read("second")).expect("opens");
    assert_eq!(client.between(&file, &to, clone(id, reader, (0, 0), 0)).stat, OPENMODE);
    let nobody = StateId { seqid: 1, other: [6; 12] };
    assert_eq!(client.between(&file, &to, clone(nobody, to_id, (0, 0), 0)).stat, BAD_STATEID);
}

#[test]
fn copy_copies_a_range() {
    let served = Served::new();
    let data = noise(5, 2 << 20);
    let (mut client, file, id) = with_file(&served, &data);
    let (to, to_id) = second(&mut client);
    client.write(&to, to_id, 0, stable::UNSTABLE, b"0123456789").expect("writes");
    let (mut done, len) = (0u64, 1_500_000u64);
    while done < len {
        let res = client.between(&file, &to, copy(id, to_id, (100 + done, 5 + done), len - done));
        if done == 0 && res.stat == NOTSUPP {
            return;
        }
        assert_eq!(res.stat, OK);
        let written = res.written();
        assert!(written.count > 0 && written.stable <= 2, "{written:?}");
        done += written.count;
    }
    assert_eq!(done, len);
    let wanted = [b"01234", &data[100..100 + len as usize]].concat();
    assert!(client.content(&to) == wanted, "the bytes differ");
    // To the end, which 0 stands for.
    let res = client.between(&file, &to, copy(id, to_id, (2 * MIB - 7, 0), 0));
    assert_eq!((res.stat, res.written().count), (OK, 7));
    let beyond = client.between(&file, &to, copy(id, to_id, (MIB, 0), 2 * MIB));
    assert_any(beyond.stat, &[INVAL, OK]);
    let writer = client.open_as(&to, "writer", Open::handle(share::WRITE)).expect("opens");
    let res = client.between(&to, &file, copy(writer, id, (0, 0), 1));
    assert_any(res.stat, &[OPENMODE, OK]);
    let root = client.root();
    let reader = client.open_as(&root, "reader", Open::read("second")).expect("opens");
    assert_eq!(client.between(&file, &to, copy(id, reader, (0, 0), 1)).stat, OPENMODE);
    assert_eq!(client.size(&file), 2 * MIB);
}

#[test]
fn what_is_not_for_us_of_4_2_is_not_supported() {
    let served = Served::new();
    let (mut client, file, id) = with_file(&served, b"bytes");
    let state = || Writer::new().stateid(id);
    for op in [
        ops::raw(op::READ_PLUS, state().u64(0).u32(10)),
        ops::raw(op::OFFLOAD_CANCEL, state()),
        ops::raw(op::OFFLOAD_STATUS, state()),
        ops::raw(op::LAYOUTSTATS, state()),
        ops::raw(op::WRITE_SAME, state()),
    ] {
        let number = op.number;
        assert_eq!(client.stat(&file, op), NOTSUPP, "operation {number}");
    }
    let advice = ops::raw(op::IO_ADVISE, state().u64(0).u32(10).bitmap(&[4]));
    assert_any(client.stat(&file, advice), &[OK, NOTSUPP]);
    let root = client.root();
    client.call(&[putfh(&root), savefh(), lookup("file")]).ok();
}
