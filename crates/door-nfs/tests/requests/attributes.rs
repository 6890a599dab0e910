//! GETATTR, VERIFY, NVERIFY.

use crate::common::Served;
use crate::common::assert_any;
use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{ATTRNOTSUPP, INVAL, NOT_SAME, OK, SAME, attr, kind, stable};
use crate::common::ops::{
    self, StateId, close, getattr, mkdir, nverify, putfh, remove, symlink, verify,
};
use crate::common::xdr::Writer;

/// All that a file supports.
fn supported(client: &mut Client, file: &[u8]) -> Vec<u32> {
    client.attrs(file, &[attr::SUPPORTED_ATTRS]).bits(attr::SUPPORTED_ATTRS).to_vec()
}

/// Those that can only be set.
const WRITE_ONLY: [u32; 4] =
    [attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET, attr::MODE_SET_MASKED, attr::MODE_UMASK];

#[test]
fn what_is_required_is_supported_and_all_that_is_supported_is_told() {
    let served = Served::new();
    let mut client = served.client("a").minor2();
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    assert_eq!(client.stat(&root, symlink("link", "file")), OK);
    let link = client.lookup(&root, "link").expect("a symlink");
    for handle in [&root, &file, &link] {
        let supported = supported(&mut client, handle);
        let required = (attr::SUPPORTED_ATTRS..=attr::RDATTR_ERROR)
            .chain([attr::FILEHANDLE, attr::SUPPATTR_EXCLCREAT])
            // What a client of Linux works with.
            .chain([attr::FILEID, attr::MODE, attr::NUMLINKS, attr::OWNER, attr::OWNER_GROUP])
            .chain([attr::SPACE_USED, attr::TIME_ACCESS, attr::TIME_METADATA, attr::TIME_MODIFY])
            .chain([attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET, attr::RAWDEV])
            .chain([attr::MAXREAD, attr::MAXWRITE, attr::MAXNAME, attr::MAXFILESIZE])
            .chain([attr::SPACE_AVAIL, attr::SPACE_FREE, attr::SPACE_TOTAL])
            .chain([attr::FILES_AVAIL, attr::FILES_FREE, attr::FILES_TOTAL])
            .chain([attr::MOUNTED_ON_FILEID, attr::CASE_INSENSITIVE, attr::CASE_PRESERVING]);
        for number in required {
            assert!(supported.contains(&number), "{number} is not in {supported:?}");
        }
        let readable: Vec<u32> =
            supported.into_iter().filter(|number| !WRITE_ONLY.contains(number)).collect();
        assert_eq!(client.attrs(handle, &readable).numbers(), readable);
    }
}

#[test]
fn attributes_are_sane() {
    let served = Served::with(|options| options.lease_ms = 7_000);
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", &[1; 5_000]);
    let asked: Vec<u32> = supported(&mut client, &file)
        .into_iter()
        .filter(|number| !WRITE_ONLY.contains(number))
        .collect();
    let of_file = client.attrs(&file, &asked);
    let of_root = client.attrs(&root, &asked);
    assert_eq!((of_file.kind(), of_root.kind()), (kind::REG, kind::DIR));
    assert_eq!(of_file.number(attr::FH_EXPIRE_TYPE), 0, "handles do not expire");
    assert_eq!(of_file.size(), 5_000);
    assert!(of_file.number(attr::SPACE_USED) >= 5_000);
    assert!(of_file.bool(attr::LINK_SUPPORT) && of_file.bool(attr::SYMLINK_SUPPORT));
    assert!(!of_file.bool(attr::NAMED_ATTR) && of_file.bool(attr::UNIQUE_HANDLES));
    assert_eq!(of_file.number(attr::LEASE_TIME), 7, "in seconds");
    assert_eq!(of_file.number(attr::RDATTR_ERROR), 0);
    assert_eq!(of_file.bytes(attr::FILEHANDLE), file);
    assert_eq!(of_file.pair(attr::FSID), of_root.pair(attr::FSID));
    assert_ne!(of_file.number(attr::FILEID), of_root.number(attr::FILEID));
    assert_eq!(of_file.number(attr::FILEID), of_file.number(attr::MOUNTED_ON_FILEID));
    assert!(!of_file.bool(attr::CASE_INSENSITIVE) && of_file.bool(attr::CASE_PRESERVING));
    assert_eq!(of_file.number(attr::MAXNAME), 255);
    assert!(of_file.number(attr::MAXREAD) >= 65_536 && of_file.number(attr::MAXWRITE) >= 65_536);
    assert!(of_file.number(attr::MAXFILESIZE) > 1 << 40);
    assert_eq!((of_file.mode(), of_file.number(attr::NUMLINKS)), (0o644, 1));
    assert_eq!((of_root.mode(), of_root.number(attr::NUMLINKS)), (0o755, 2));
    assert_eq!((of_file.owners(), of_root.owners()), ((0, 0), (0, 0)));
    let spaces = [attr::SPACE_AVAIL, attr::SPACE_FREE, attr::SPACE_TOTAL];
    let [avail, free, total] = spaces.map(|number| of_file.number(number));
    assert!(avail <= free && free <= total && total > 0, "{avail} {free} {total}");
    let files = [attr::FILES_AVAIL, attr::FILES_FREE, attr::FILES_TOTAL];
    let [avail, free, total] = files.map(|number| of_file.number(number));
    assert!(avail <= free && free <= total, "{avail} {free} {total}");
    for number in [attr::TIME_ACCESS, attr::TIME_MODIFY, attr::TIME_METADATA] {
        let (seconds, nanos) = of_file.time(number);
        assert!(seconds > 1_600_000_000 && nanos < 1_000_000_000, "{number}");
    }
    let exclusive = of_file.bits(attr::SUPPATTR_EXCLCREAT);
    assert!(exclusive.contains(&attr::MODE), "{exclusive:?}");
    assert!(exclusive.iter().all(|number| of_file.bits(0).contains(number)), "{exclusive:?}");
}

#[test]
fn what_is_not_supported_is_left_out() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let supported = supported(&mut client, &root);
    let asked: Vec<u32> = (0..160).filter(|number| !WRITE_ONLY.contains(number)).collect();
    let told = client.attrs(&root, &asked).numbers();
    assert!(told.iter().all(|number| supported.contains(number)), "{told:?}");
    assert_eq!(client.attrs(&root, &[]).numbers(), Vec::<u32>::new());
    // A bitmap with words that nobody knows.
    let op = ops::raw(9, Writer::new().words(&[1 << attr::SIZE, 0, 0, 0, u32::MAX, u32::MAX]));
    assert_eq!(client.at(&root, op).attrs().numbers(), [attr::SIZE]);
    for number in [attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET] {
        assert_eq!(client.stat(&root, getattr(&[attr::SIZE, number])), INVAL, "18.7.3");
    }
}

#[test]
fn the_change_attribute_goes_up_with_each_change_and_with_nothing_else() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let mut last = client.change(&file);
    let mut check = |client: &mut Client, what: &str| {
        let change = client.change(&file);
        assert!(change > last, "{what}: {last} to {change}");
        last = change;
    };
    client.write(&file, id, 0, stable::UNSTABLE, b"1").expect("writes");
    check(&mut client, "a write");
    client.write(&file, id, 0, stable::UNSTABLE, b"1").expect("writes");
    check(&mut client, "the same write");
    assert_eq!(client.set(&file, &Set::new().mode(0o600)), OK);
    check(&mut client, "a mode");
    assert_eq!(client.set(&file, &Set::new().size(0)), OK);
    check(&mut client, "a size");
    assert_eq!(client.set(&file, &Set::new().modified(Some((5, 5)))), OK);
    check(&mut client, "a time");
    assert_eq!(client.between(&file, &root, ops::link("other")).stat, OK);
    check(&mut client, "a link");
    assert_eq!(client.stat(&root, remove("other")), OK);
    check(&mut client, "the end of a link");
    let before = client.change(&file);
    client.read(&file, id, 0, 10).expect("reads");
    assert_eq!(client.stat(&file, close(id)), OK);
    assert_eq!(client.change(&file), before, "not by reading and closing");
    let mut last = client.change(&root);
    for round in 0..20 {
        assert_eq!(client.stat(&root, mkdir(&format!("d{round}"), 0o755)), OK);
        let change = client.change(&root);
        assert!(change > last, "a directory, by each name in it");
        last = change;
    }
}

#[test]
fn times_follow_what_is_done() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let asked = [attr::TIME_MODIFY, attr::TIME_METADATA];
    let times = |client: &mut Client| {
        let attrs = client.attrs(&file, &asked);
        asked.map(|number| attrs.time(number))
    };
    let [modified, changed] = times(&mut client);
    served.wait(20);
    client.write(&file, id, 0, stable::UNSTABLE, b"1").expect("writes");
    let after = times(&mut client);
    assert!(after[0] > modified && after[1] > changed, "{after:?}");
    served.wait(20);
    assert_eq!(client.set(&file, &Set::new().mode(0o600)), OK);
    let last = times(&mut client);
    assert!(last[0] == after[0] && last[1] > after[1], "{last:?}");
}

#[test]
fn verify_goes_on_where_attributes_are_the_same() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let change = client.change(&file);
    let with_change =
        |change: u64| Set::new().size(5).mode(0o644).raw(attr::CHANGE, Writer::new().u64(change));
    let is = with_change(change);
    let is_not = with_change(change + 1);
    assert_eq!(client.stat(&file, verify(&is)), OK);
    assert_eq!(client.stat(&file, verify(&is_not)), NOT_SAME);
    assert_eq!(client.stat(&file, nverify(&is)), SAME);
    assert_eq!(client.stat(&file, nverify(&is_not)), OK);
    for size in [0, 4, 6] {
        assert_eq!(client.stat(&file, verify(&Set::new().size(size))), NOT_SAME);
    }
    let owner = Set::new().owner("0").group("0");
    assert_eq!(client.stat(&file, verify(&owner)), OK);
    // A write that is done only where nobody changed it since.
    let write = ops::write(StateId::ANONYMOUS, 0, stable::FILE_SYNC, b"B");
    let reply = client.call(&[putfh(&file), verify(&is), write.clone()]);
    assert_eq!(reply.stat, OK);
    assert_eq!(client.call(&[putfh(&file), verify(&is), write]).stat, NOT_SAME);
}

#[test]
fn verify_knows_what_it_cannot_compare() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let supported = supported(&mut client, &root);
    let unknown = (12..80).find(|number| !supported.contains(number)).expect("one");
    let set = Set::new().raw(unknown, Writer::new().u32(0));
    assert_eq!(client.stat(&root, verify(&set)), ATTRNOTSUPP, "18.30.3");
    assert_eq!(client.stat(&root, nverify(&set)), ATTRNOTSUPP);
    for set in [Set::new().raw(attr::RDATTR_ERROR, Writer::new().u32(0)), Set::new().modified(None)]
    {
        assert_any(client.stat(&root, verify(&set)), &[INVAL]);
        assert_any(client.stat(&root, nverify(&set)), &[INVAL]);
    }
}
