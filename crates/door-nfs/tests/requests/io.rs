//! READ, WRITE, COMMIT.

use weir_engine::testing::{WRITE, create, read_all};

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    BAD_STATEID, BADXDR, FBIG, INVAL, ISDIR, NOSPC, OK, OLD_STATEID, OPENMODE, REP_TOO_BIG,
    SYMLINK, WRONG_TYPE, attr, kind, share, stable,
};
use crate::common::ops::{self, Open, StateId, close, commit, symlink};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any, noise};

#[test]
fn bytes_come_back_at_any_offset() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let mut model = vec![0; 3 << 20];
    for (seed, (offset, len)) in
        [(0, 1), (1 << 20, 300_000), (4_095, 2), (777, 100_000), ((3 << 20) - 5, 5)]
            .into_iter()
            .enumerate()
    {
        let data = noise(seed as u64, len);
        let written = client.write(&file, id, offset, stable::UNSTABLE, &data).expect("writes");
        assert_eq!(written.count as usize, len);
        model[offset as usize..offset as usize + len].copy_from_slice(&data);
    }
    assert!(client.content(&file) == model, "the bytes differ");
    for (offset, len) in [(0usize, 1usize), (4_094, 4), (1_000_000, 60_000), ((3 << 20) - 1, 1)] {
        let (bytes, _) = client.read(&file, id, offset as u64, len as u32).expect("reads");
        assert!(bytes == model[offset..offset + bytes.len()], "{offset}");
        assert_eq!(bytes.len(), len);
    }
}

#[test]
fn the_end_of_a_file_is_said() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"0123456789");
    let mut read =
        |offset, count| client.read(&file, StateId::ANONYMOUS, offset, count).expect("reads");
    assert_eq!(read(0, 10), (b"0123456789".to_vec(), true), "18.22.3");
    assert_eq!(read(0, 9), (b"012345678".to_vec(), false));
    assert_eq!(read(9, 1), (b"9".to_vec(), true));
    assert_eq!(read(9, 1_000), (b"9".to_vec(), true));
    assert_eq!(read(10, 1), (vec![], true));
    assert_eq!(read(u64::MAX - 5, 5), (vec![], true));
    assert_eq!(read(u64::MAX, 1_000), (vec![], true));
    assert_eq!(read(5, 0).0, b"");
    let empty = client.file(&root, "empty", b"");
    let got = client.read(&empty, StateId::ANONYMOUS, 0, 10).expect("reads");
    assert_eq!(got, (vec![], true));
}

#[test]
fn a_read_of_more_than_fits_is_short() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", &noise(1, 3 << 20));
    let max = client.attrs(&file, &[attr::MAXREAD]);
    let max = max.number(attr::MAXREAD);
    match client.read(&file, StateId::ANONYMOUS, 0, u32::MAX) {
        Ok((bytes, eof)) => {
            assert!(!bytes.is_empty() && bytes.len() as u64 <= max.max(1 << 20) && !eof);
        }
        Err(stat) => assert_any(stat, &[INVAL, REP_TOO_BIG]),
    }
}

#[test]
fn only_files_are_read_and_written() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    assert_eq!(client.stat(&root, symlink("link", "x")), OK);
    let fifo = ops::create(Writer::new().u32(kind::FIFO), b"fifo", &Set::new());
    assert_eq!(client.stat(&root, fifo), OK);
    let link = client.lookup(&root, "link").expect("a symlink");
    let fifo = client.lookup(&root, "fifo").expect("a fifo");
    for (file, wanted) in [
        (&root, &[ISDIR][..]),
        (&link, &[SYMLINK, WRONG_TYPE, INVAL]),
        (&fifo, &[WRONG_TYPE, INVAL]),
    ] {
        let anonymous = StateId::ANONYMOUS;
        assert_any(client.read(file, anonymous, 0, 1).unwrap_err(), wanted);
        let written = client.write(file, anonymous, 0, stable::UNSTABLE, b"x");
        assert_any(written.unwrap_err(), wanted);
        assert_any(client.stat(file, commit(0, 0)), wanted);
    }
}

#[test]
fn the_state_of_reads_and_writes_is_looked_at() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let other = client.file(&root, "other", b"other");
    client.file(&root, "file", b"bytes");
    client.open_as(&root, "both", Open::read("file")).expect("opens");
    let id = client.open_as(&root, "both", Open::both("file")).expect("opens");
    let file = client.lookup(&root, "file").expect("is there");
    let mut stranger = served.client("b");
    let nobody = StateId { seqid: 1, other: [0x77; 12] };
    let both = |client: &mut Client, file: &[u8], id| {
        let read = client.read(file, id, 0, 1).err().unwrap_or(OK);
        let written = client.write(file, id, 0, stable::UNSTABLE, b"x").err().unwrap_or(OK);
        [read, written]
    };
    assert_eq!(both(&mut client, &file, id), [OK; 2]);
    assert_eq!(both(&mut client, &file, id.with(0)), [OK; 2], "8.2.2");
    assert_eq!(both(&mut client, &file, id.with(1)), [OLD_STATEID; 2]);
    assert_eq!(both(&mut client, &file, id.with(7)), [BAD_STATEID; 2]);
    assert_eq!(both(&mut client, &file, nobody), [BAD_STATEID; 2]);
    assert_eq!(both(&mut client, &file, StateId::INVALID), [BAD_STATEID; 2]);
    assert_eq!(both(&mut client, &file, StateId::CURRENT), [BAD_STATEID; 2], "there is none");
    assert_eq!(both(&mut client, &other, id), [BAD_STATEID; 2], "of another file");
    assert_eq!(both(&mut stranger, &file, id), [BAD_STATEID; 2], "of another client");
    for special in [StateId::ANONYMOUS, StateId::BYPASS] {
        assert_eq!(both(&mut client, &file, special), [OK; 2]);
    }
}

#[test]
fn an_open_for_one_thing_is_not_for_the_other() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let reader = client.open_as(&root, "reader", Open::read("file")).expect("opens");
    let only = Open::new(share::WRITE, "file");
    let writer = client.open_as(&root, "writer", only).expect("opens");
    let written = client.write(&file, reader, 0, stable::UNSTABLE, b"x");
    assert_eq!(written.unwrap_err(), OPENMODE);
    client.write(&file, writer, 0, stable::UNSTABLE, b"B").expect("writes");
    // 18.22.3 lets a server allow this, as clients write parts of pages.
    match client.read(&file, writer, 0, 1) {
        Ok((bytes, _)) => assert_eq!(bytes, b"B"),
        Err(stat) => assert_eq!(stat, OPENMODE),
    }
}

#[test]
fn writes_are_as_stable_as_was_asked_for() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let mut verifiers = Vec::new();
    for asked in [stable::UNSTABLE, stable::DATA_SYNC, stable::FILE_SYNC] {
        let written = client.write(&file, id, 0, asked, b"x").expect("writes");
        assert!(written.stable >= asked && written.stable <= 2, "{written:?}");
        verifiers.push(written.verifier);
    }
    let res = client.at(&file, commit(0, 0));
    assert_eq!(res.stat, OK);
    verifiers.push(res.verifier());
    let other = client.file(&root, "other", b"");
    verifiers.push(client.at(&other, commit(0, 0)).verifier());
    verifiers.dedup();
    assert_eq!(verifiers.len(), 1, "one life, one verifier");
    let written = client.write(&file, id, 0, 7, b"x");
    assert_any(written.unwrap_err(), &[BADXDR, INVAL]);
}

#[test]
fn commit_takes_any_range() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    client.write(&file, id, 0, stable::UNSTABLE, &[1; 9_000]).expect("writes");
    for (offset, count) in [(0, 0), (0, 9_000), (4_000, 1), (100_000, 5), (1 << 62, 0)] {
        assert_eq!(client.stat(&file, commit(offset, count)), OK, "{offset} {count}");
    }
    assert_any(client.stat(&file, commit(u64::MAX, 2)), &[INVAL, OK]);
}

#[test]
fn what_is_committed_outlives_the_server_and_the_verifier_does_not() {
    let mut served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let bytes = noise(9, 100_000);
    let first = client.write(&file, id, 0, stable::UNSTABLE, &bytes).expect("writes");
    assert_eq!(client.stat(&file, commit(0, 0)), OK);
    let (synced, other) = client.make(&root, "synced");
    client.write(&synced, other, 0, stable::FILE_SYNC, &bytes).expect("writes");
    let dir = client.mkdir(&root, "dir", 0o755);
    client.file(&dir, "in it", b"");
    served.kill();
    let mut client = served.client("a");
    for handle in [&file, &synced] {
        assert!(client.content(handle) == bytes, "bytes that were said to be kept");
    }
    assert_eq!(client.names(&dir), ["in it"], "names are durable when they are answered");
    let (file, id) = client.make(&root, "file");
    let second = client.write(&file, id, 0, stable::UNSTABLE, b"x").expect("writes");
    assert_ne!(first.verifier, second.verifier, "18.32.3");
    assert_eq!(client.at(&file, commit(0, 0)).verifier(), second.verifier);
    served.restart();
    let mut client = served.client("a");
    assert_ne!(client.at(&file, commit(0, 0)).verifier(), first.verifier);
}

#[test]
fn writes_have_an_end() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let written = client.write(&file, id, 5, stable::UNSTABLE, b"").expect("writes nothing");
    assert_eq!(written.count, 0);
    assert_eq!(client.size(&file), 0, "nothing written is no growth");
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let written = client.write(&file, id, offset, stable::UNSTABLE, b"xyz");
        assert_any(written.unwrap_err(), &[INVAL, FBIG, NOSPC]);
    }
    assert_eq!(client.size(&file), 0);
}

#[test]
fn one_client_reads_at_once_what_another_wrote() {
    let served = Served::new();
    let mut first = served.client("a");
    let mut second = served.client("b");
    let root = first.root();
    let (file, id) = first.make(&root, "file");
    let (_, theirs) = second.open(&root, &Open::both("file")).expect("opens");
    for round in 0..50u64 {
        let data = noise(round, 1_000);
        let at = round * 700;
        first.write(&file, id, at, stable::UNSTABLE, &data).expect("writes");
        assert_eq!(second.read(&file, theirs.id, at, 1_000).expect("reads").0, data);
        assert_eq!(second.size(&file), at + 1_000);
    }
    assert_eq!(first.stat(&file, close(id)), OK);
    second.read(&file, theirs.id, 0, 1).expect("its own open is open");
}

#[test]
fn clients_and_local_programs_see_what_the_others_write() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let engine = served.world.engine();
    let ino = served.world.run(create(&engine, "file", b"local"));
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    assert_eq!(client.content(&file), b"local");
    client.write(&file, opened.id, 5, stable::UNSTABLE, b" and not").expect("writes");
    assert_eq!(served.world.run(read_all(&engine, ino)).expect("reads"), b"local and not");
    let change = client.change(&file);
    served.world.run(async {
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 0, b"LOCAL").await.expect("writes");
        engine.close(file).await.expect("closes");
    });
    assert!(client.change(&file) > change, "a client throws away what it remembers by this");
    assert_eq!(client.content(&file), b"LOCAL and not");
    served.world.run(engine.unlink(weir_types::Ino::ROOT, b"file")).expect("removes");
    assert_eq!(client.read(&file, opened.id, 0, 5).expect("reads").0, b"LOCAL", "it is open");
}
