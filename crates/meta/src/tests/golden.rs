//! Values as version 1 of the format has them. The bytes were put together from docs/format.md, not
//! by this code: volumes hold such bytes, so they never change.

use weir_types::{
    Account, ByteRange, DataChange, Extent, FileKind, Ino, Inode, LinkId, Native, RecordRef,
    SegmentId, TreeId, UnixTime,
};

use crate::codec::{
    Dirent, decode, decode_inode, encode, encode_inode, encode_time, lend, lent_to, merge_times,
};
use crate::kv::Versioned;
use crate::session::SessionId;
use crate::{ActionEnd, ActionRow, ActionRowKind, LastMount, LinkObject, QuotaRow};

const INODE: &str = "01ac0202ff03e8076401090001aab4aed8c7bfce972f04060107018020ffffffffffffffffff010001092e2e2f746172676574";
/// What follows an inode in version 2.
const NATIVE: &str = "0303642f66010165ac02c8010100010001";
const OBJECT: &str = "0101ac0200010165ac020b";
const EXTENTS: &str = "0102008020ef9baf85808080808080808880808080900350d00f802088ef99abc5e88c911100804064ef9baf858080808080808088808080809003a0108c01640100";
const DIRENT: &str = "01ac0201";
const LAST_MOUNT: &str = "01016d0168022f7401022f6a01";
const ACTION: &str = "010101ac02022f610101808040\
    0a010c010302ac02c8010101042f612f6203776879";

fn inode() -> Inode {
    Inode {
        ino: Ino(300),
        kind: FileKind::Symlink,
        mode: 0o777,
        uid: 1000,
        gid: 100,
        nlink: 1,
        size: 9,
        rdev: 0,
        atime: UnixTime(-1),
        mtime: UnixTime(1_700_000_000_123_456_789),
        ctime: UnixTime(2),
        btime: UnixTime(3),
        parent: Ino(1),
        data: DataChange { generation: 7, dropped: Some(ByteRange::new(4096, u64::MAX)) },
        stored_bytes: 0,
        target: Some(b"../target".to_vec()),
        account: Account::default(),
        native: None,
    }
}

fn action() -> ActionRow {
    let end = ActionEnd {
        unix_ms: 6,
        cancelled: true,
        files: (3, 2),
        bytes: (300, 200),
        refused: 1,
        reasons: vec![("/a/b".to_owned(), "why".to_owned())],
    };
    ActionRow {
        kind: ActionRowKind::Release,
        roots: vec![(Ino(300), "/a".to_owned())],
        recursive: true,
        max_bytes_per_s: Some(1 << 20),
        asked_unix_ms: 5,
        end: Some(end),
    }
}

fn extents() -> Vec<Extent> {
    let segment = SegmentId((0x0190_0000_0001 << 80) | 0x00ab_cdef);
    let first = RecordRef {
        segment,
        position: 80,
        stored_bytes: 2000,
        raw_bytes: 4096,
        checksum: 0x1122_3344_5566_7788,
    };
    let second =
        RecordRef { segment, position: 2080, stored_bytes: 140, raw_bytes: 100, checksum: 1 };
    vec![
        Extent { start: 0, len: 4096, record: first, skip: 0 },
        Extent { start: 8192, len: 100, record: second, skip: 0 },
    ]
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn version_1_values_are_read_and_written_as_ever() {
    assert_eq!(encode(&inode()).unwrap(), bytes(INODE));
    assert_eq!(decode::<Inode>(b"I", &bytes(INODE)).unwrap(), inode());
    assert_eq!(encode(&extents()).unwrap(), bytes(EXTENTS));
    assert_eq!(decode::<Vec<Extent>>(b"E", &bytes(EXTENTS)).unwrap(), extents());
    assert_eq!(encode(&action()).unwrap(), bytes(ACTION));
    assert_eq!(decode::<ActionRow>(b"A", &bytes(ACTION)).unwrap(), action());
    let dirent = Dirent { ino: Ino(300), kind: FileKind::Directory };
    assert_eq!(encode(&dirent).unwrap(), bytes(DIRENT));
    assert_eq!(decode::<Dirent>(b"D", &bytes(DIRENT)).unwrap(), dirent);
    let mount = LastMount {
        node: "m".to_owned(),
        host: "h".to_owned(),
        tier: "/t".to_owned(),
        journal: Some("/j".to_owned()),
        clean: true,
    };
    assert_eq!(encode(&mount).unwrap(), bytes(LAST_MOUNT));
    assert_eq!(decode::<LastMount>(b"M", &bytes(LAST_MOUNT)).unwrap(), mount);
}

#[test]
fn an_inode_of_a_link_has_its_object_behind_it() {
    let native = Native {
        link: LinkId(3),
        key: "d/f".to_owned(),
        etag: Some("e".to_owned()),
        object_bytes: 300,
        end: 200,
        changed: true,
        lost: false,
        detached: true,
        exports: false,
        unlisted: true,
    };
    let inode = Inode { native: Some(native), ..inode() };
    let stored = bytes(&format!("02{}{NATIVE}", &INODE[2..]));
    assert_eq!(encode_inode(&inode).unwrap(), stored);
    assert_eq!(decode_inode(b"I", &stored).unwrap(), inode);
    let object = LinkObject {
        ino: Some(Ino(300)),
        removed: false,
        etag: Some("e".to_owned()),
        object_bytes: 300,
        modified_ms: -6,
    };
    assert_eq!(encode(&object).unwrap(), bytes(OBJECT));
    assert_eq!(decode::<LinkObject>(b"K", &bytes(OBJECT)).unwrap(), object);
}

#[test]
fn an_inode_that_is_lent_has_the_sessions_before_it() {
    let plain = bytes(INODE);
    let sessions = [SessionId(7), SessionId(u64::MAX)];
    let lent = lend(&plain, &sessions);
    assert_eq!(lent, bytes(&format!("03020000000000000007ffffffffffffffff{INODE}")));
    assert_eq!(decode_inode(b"I", &lent).unwrap(), inode());
    assert_eq!(lent_to(&lent), sessions);
    assert_eq!(lent_to(&plain), []);
    assert_eq!(lend(&lent, &sessions[..1]), bytes(&format!("03010000000000000007{INODE}")));
    assert_eq!(lend(&lent, &[]), plain);
    for cut in [1, 2, 9, 17] {
        assert!(decode_inode(b"I", &lent[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn an_inode_that_quotas_count_has_them_before_it() {
    let account = Account { tree: Some(TreeId(258)), owners: true };
    let counted = Inode { account, ..inode() };
    let stored = bytes(&format!("040100000102{INODE}"));
    assert_eq!(encode_inode(&counted).unwrap(), stored);
    assert_eq!(decode_inode(b"I", &stored).unwrap(), counted);
    let lent = lend(&stored, &[SessionId(7)]);
    assert_eq!(lent, bytes(&format!("03010000000000000007040100000102{INODE}")));
    assert_eq!(decode_inode(b"I", &lent).unwrap(), counted);
    for cut in 1..7 {
        assert!(decode_inode(b"I", &stored[..cut]).is_err(), "{cut}");
    }
    let row = QuotaRow {
        root: Some(Ino(300)),
        bytes_max: Some(1 << 41),
        files_max: None,
        counting: true,
        removed: false,
    };
    assert_eq!(encode(&row).unwrap(), bytes("0101ac0201808080808040000100"));
    assert_eq!(decode::<QuotaRow>(b"q", &bytes("0101ac0201808080808040000100")).unwrap(), row);
}

#[test]
fn times_of_entries_are_read_in_both_versions_and_later_ones_are_greater() {
    let read = |value: Vec<u8>| {
        let mut inode = Inode { mtime: UnixTime(-9), ctime: UnixTime(-9), ..inode() };
        let found = Versioned { version: 2, value: value.into() };
        merge_times(&mut inode, Some(&found)).map(|()| (inode.mtime.0, inode.ctime.0))
    };
    assert_eq!(read(bytes("01ac02ae02")).unwrap(), (150, 151));
    let first = bytes("028000000000000096");
    assert_eq!(encode_time(UnixTime(150)), first);
    assert_eq!(read(first).unwrap(), (150, 150));
    let times = [i64::MIN, -1, 0, 1, 255, 256, 1_700_000_000_123_456_789, i64::MAX];
    let stored = times.map(|time| encode_time(UnixTime(time)));
    assert!(stored.is_sorted() && bytes("01ffffffffffffffffffff01") < stored[0]);
    for (time, stored) in times.into_iter().zip(stored) {
        assert_eq!(read(stored.to_vec()).unwrap(), (time, time.max(-9)));
    }
    assert!(read(bytes("0280")).is_err() && read(bytes("03ac02ae02")).is_err());
}

#[test]
fn a_newer_version_of_a_value_is_refused() {
    let mut newer = bytes(DIRENT);
    newer[0] = 2;
    assert!(decode::<Dirent>(b"D", &newer).is_err());
}
