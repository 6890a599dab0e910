//! Each answer and notification as `linux/fuse.h` lays it out, seen where the kernel reads.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::*;
use crate::notify::Notifier;

const UNIQUE: u64 = 77;

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// A device that is one end of a socket, and the other.
fn device() -> (Arc<Device>, OwnedFd) {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a socket");
    (Arc::new(Device(ours)), theirs)
}

fn sent(theirs: &OwnedFd) -> Vec<u8> {
    let mut message = vec![0; 4096];
    let count = rustix::io::read(theirs, &mut message[..]).expect("a message");
    message.truncate(count);
    message
}

/// struct fuse_out_header: len, error, unique; and what follows.
fn message(error: i32, unique: u64, body: &[u8]) -> Vec<u8> {
    [words(&[16 + body.len() as u32, error as u32]), longs(&[unique]), body.to_vec()].concat()
}

fn attributes() -> Attr {
    let at = |secs, nanos| Timestamp { secs, nanos };
    Attr {
        ino: 1,
        size: 2,
        blocks: 3,
        atime: at(4, 7),
        mtime: at(-5, 8),
        ctime: at(6, 9),
        mode: 0o100_644,
        nlink: 10,
        uid: 11,
        gid: 12,
        rdev: 0x0012_3456,
        blksize: 4096,
    }
}

/// struct fuse_attr: ino, size, blocks, atime, mtime, ctime, atimensec, mtimensec, ctimensec, mode,
/// nlink, uid, gid, rdev, blksize, flags
fn attribute_bytes() -> Vec<u8> {
    let longs = longs(&[1, 2, 3, 4, -5_i64 as u64, 6]);
    let words = words(&[7, 8, 9, 0o100_644, 10, 11, 12, 0x0012_3456, 4096, 0]);
    [longs, words].concat()
}

fn an_entry() -> Entry {
    let (entry_ttl, attr_ttl) = (Duration::new(20, 21), Duration::new(30, 31));
    Entry { attr: attributes(), node: 0, entry_ttl, attr_ttl }
}

/// struct fuse_entry_out: nodeid, generation, entry_valid, attr_valid, entry_valid_nsec,
/// attr_valid_nsec, attr
fn entry_bytes() -> Vec<u8> {
    [longs(&[1, 0, 20, 30]), words(&[21, 31]), attribute_bytes()].concat()
}

type Given = Box<dyn FnOnce(Reply)>;

fn given(answer: impl FnOnce(Reply) + 'static) -> Given {
    Box::new(answer)
}

/// Answers, their error and their bytes.
fn answers() -> Vec<(&'static str, Given, i32, Vec<u8>)> {
    let ttl = Duration::new(5, 6);
    let opened = Opened { handle: 9, flags: 0x81, backing: None };
    // struct fuse_open_out: fh, open_flags, backing_id
    let open_bytes = [longs(&[9]), words(&[0x81, 0])].concat();
    let created_bytes = [entry_bytes(), open_bytes.clone()].concat();
    // struct fuse_attr_out: attr_valid, attr_valid_nsec, dummy, attr
    let attr_bytes = [longs(&[5]), words(&[6, 0]), attribute_bytes()].concat();
    // struct fuse_lk_out: start, end, type, pid
    let lock = LockRange { start: 3, end: 9, kind: libc::F_WRLCK, pid: 42 };
    let lock_bytes = [longs(&[3, 9]), words(&[libc::F_WRLCK as u32, 42])].concat();
    let space = Space {
        blocks: 100,
        free: 60,
        files: 70,
        files_free: 7,
        block_bytes: 4096,
        name_bytes_max: 255,
    };
    // struct fuse_kstatfs: blocks, bfree, bavail, files, ffree, bsize, namelen, frsize, padding,
    // spare[6]
    let space_words = words(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0]);
    let space_bytes = [longs(&[100, 60, 60, 70, 7]), space_words].concat();
    vec![
        ("error", given(|reply| reply.error(Errno(libc::ENOENT))), -libc::ENOENT, vec![]),
        ("ok", given(Reply::ok), 0, vec![]),
        ("dropped", given(drop), -libc::EIO, vec![]),
        ("bytes", given(|reply| reply.bytes(b"some")), 0, b"some".to_vec()),
        ("entry", given(|reply| reply.entry(&an_entry())), 0, entry_bytes()),
        ("attr", given(move |reply| reply.attr(&attributes(), ttl)), 0, attr_bytes),
        ("statx", given(move |reply| statx(reply, ttl)), 0, statx_bytes()),
        ("opened", given(move |reply| reply.opened(opened)), 0, open_bytes),
        ("created", given(move |reply| reply.created(&an_entry(), opened)), 0, created_bytes),
        // struct fuse_write_out and fuse_getxattr_out: size, padding
        ("size", given(|reply| reply.size(4096)), 0, words(&[4096, 0])),
        // struct fuse_copy_file_range_out: bytes_copied
        ("copied", given(|reply| reply.copied(5 << 30)), 0, longs(&[5 << 30])),
        // struct fuse_lseek_out: offset
        ("offset", given(|reply| reply.offset(1 << 40)), 0, longs(&[1 << 40])),
        ("lock", given(move |reply| reply.lock(lock)), 0, lock_bytes),
        ("space", given(move |reply| reply.space(space)), 0, space_bytes),
    ]
}

fn statx(reply: Reply, ttl: Duration) {
    reply.statx(&attributes(), Timestamp { secs: 13, nanos: 14 }, ttl);
}

/// struct fuse_statx_out: attr_valid, attr_valid_nsec, flags, spare[2], stat
fn statx_bytes() -> Vec<u8> {
    let time = |secs: i64, nanos| [longs(&[secs as u64]), words(&[nanos, 0])].concat();
    // mode and its padding are of 16 bits each
    let mode = [0o100_644_u16.to_ne_bytes(), [0; 2]].concat();
    [
        [longs(&[5]), words(&[6, 0]), longs(&[0, 0])].concat(),
        // mask, blksize, attributes, nlink, uid, gid
        [words(&[0xfff, 4096]), longs(&[0]), words(&[10, 11, 12])].concat(),
        mode,
        // ino, size, blocks, attributes_mask
        longs(&[1, 2, 3, 0]),
        // atime, btime, ctime, mtime
        [time(4, 7), time(13, 14), time(6, 9), time(-5, 8)].concat(),
        // rdev_major, rdev_minor, dev_major, dev_minor, spare2[14]
        [words(&[0x234, 0x156, 0, 0]), longs(&[0; 14])].concat(),
    ]
    .concat()
}

#[test]
fn each_answer_is_as_the_kernel_lays_it_out() {
    let (device, theirs) = device();
    for (name, give, error, body) in answers() {
        give(Reply::new(&device, UNIQUE));
        assert_eq!(sent(&theirs), message(error, UNIQUE, &body), "{name}");
    }
}

#[test]
fn each_notification_is_as_the_kernel_lays_it_out() {
    let (device, theirs) = device();
    let notifier = Notifier::new(device);
    // struct fuse_notify_inval_inode_out: ino, off, len; FUSE_NOTIFY_INVAL_INODE is 2
    notifier.inval_inode(5, -1, 0).expect("sent");
    assert_eq!(sent(&theirs), message(2, 0, &longs(&[5, u64::MAX, 0])));
    // struct fuse_notify_inval_entry_out: parent, namelen, flags; FUSE_NOTIFY_INVAL_ENTRY is 3,
    // FUSE_EXPIRE_ONLY 1
    notifier.expire_entry(5, b"name").expect("sent");
    let body = [longs(&[5]), words(&[4, 1]), b"name\0".to_vec()].concat();
    assert_eq!(sent(&theirs), message(3, 0, &body));
    // FUSE_NOTIFY_INC_EPOCH is 8, and has nothing to say.
    notifier.inc_epoch().expect("sent");
    assert_eq!(sent(&theirs), message(8, 0, b""));
}

#[test]
fn a_listing_is_as_the_kernel_lays_it_out() {
    // struct fuse_dirent: ino, off, namelen, type, name, to a multiple of 8
    let names = [longs(&[1, 12]), words(&[3, 8]), b"abc\0\0\0\0\0".to_vec()].concat();
    let mut listing = crate::dirs::DirBuffer::new(4096);
    assert!(!listing.add(1, 12, libc::S_IFREG | 0o644, b"abc"));
    assert_eq!(listing.bytes(), names);
    // struct fuse_direntplus: entry_out, dirent
    let mut listing = crate::dirs::DirBuffer::new(4096);
    assert!(!listing.add_with(&an_entry(), 1, 12, b"abc"));
    assert_eq!(listing.bytes(), [entry_bytes(), names].concat());
}
