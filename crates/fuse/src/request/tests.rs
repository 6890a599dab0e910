//! Each request as `linux/fuse.h` lays it out, and what is no request.

use super::*;
use crate::bytes::Output;

type Numbers = fn(&mut Output) -> &mut Output;

/// What kernels agree on today.
const NEW: Dialect = Dialect { setxattr_ext: true };

/// The body of a message: numbers as the header's structs have them, then names and bytes.
fn body(numbers: Numbers, rest: &[u8]) -> Vec<u8> {
    let mut out = Output::default();
    numbers(&mut out);
    out.0.extend_from_slice(rest);
    out.0
}

/// Kinds of requests, bodies, and what they ask.
#[expect(clippy::too_many_lines, reason = "a table, of which no part means anything alone")]
fn requests() -> Vec<(u32, Vec<u8>, Operation<'static>)> {
    let none: Numbers = |out| out;
    let lock = LockRange { start: 10, end: 19, kind: libc::F_WRLCK, pid: 77 };
    // struct fuse_lk_in: fh, owner, { start, end, type, pid }, lk_flags, padding
    let lk: Numbers =
        |out| out.u64(5).u64(6).u64(10).u64(19).u32(libc::F_WRLCK as u32).u32(77).u32(1).u32(0);
    // struct fuse_read_in: fh, offset, size, read_flags, lock_owner, flags, padding
    let read: Numbers = |out| out.u64(5).u64(1 << 40).u32(4096).u32(2).u64(6).u32(0).u32(0);
    let owner_and_lock = |wait| Operation::Setlk { owner: 6, lock, lk_flags: 1, wait };
    let (fh, offset, size) = (5, 1 << 40, 4096);
    vec![
        (op::LOOKUP, body(none, b"n\0"), Operation::Lookup { name: b"n" }),
        (op::FORGET, body(|out| out.u64(1), b""), Operation::Forget),
        (op::BATCH_FORGET, body(|out| out.u32(1).u32(0).u64(2).u64(1), b""), Operation::Forget),
        // fuse_statx_in: getattr_flags, reserved, fh, sx_flags, sx_mask
        (op::STATX, body(|out| out.u32(1).u32(0).u64(5).u32(0).u32(0xfff), b""), Operation::Statx),
        // fuse_getattr_in: flags, dummy, fh
        (op::GETATTR, body(|out| out.u32(1).u32(0).u64(5), b""), Operation::Getattr),
        (op::READLINK, Vec::new(), Operation::Readlink),
        (op::SYMLINK, body(none, b"n\0to\0"), Operation::Symlink { name: b"n", target: b"to" }),
        // fuse_mknod_in: mode, rdev, umask, padding
        (
            op::MKNOD,
            body(|out| out.u32(0o100_644).u32(9).u32(0o22).u32(0), b"n\0"),
            Operation::Mknod { name: b"n", mode: 0o100_644, umask: 0o22, rdev: 9 },
        ),
        // fuse_mkdir_in: mode, umask
        (
            op::MKDIR,
            body(|out| out.u32(0o755).u32(0o22), b"n\0"),
            Operation::Mkdir { name: b"n", mode: 0o755, umask: 0o22 },
        ),
        (op::UNLINK, body(none, b"n\0"), Operation::Unlink { name: b"n" }),
        (op::RMDIR, body(none, b"n\0"), Operation::Rmdir { name: b"n" }),
        // fuse_rename_in: newdir; fuse_rename2_in: newdir, flags, padding
        (
            op::RENAME,
            body(|out| out.u64(9), b"a\0b\0"),
            Operation::Rename { name: b"a", to: 9, new_name: b"b", flags: 0 },
        ),
        (
            op::RENAME2,
            body(|out| out.u64(9).u32(2).u32(0), b"a\0b\0"),
            Operation::Rename { name: b"a", to: 9, new_name: b"b", flags: 2 },
        ),
        // fuse_link_in: oldnodeid
        (op::LINK, body(|out| out.u64(8), b"n\0"), Operation::Link { target: 8, name: b"n" }),
        // fuse_open_in: flags, open_flags
        (
            op::OPEN,
            body(|out| out.u32(2).u32(0), b""),
            Operation::Open { flags: 2, kills_privileges: false },
        ),
        (
            op::OPEN,
            body(|out| out.u32(0o1001).u32(1), b""),
            Operation::Open { flags: 0o1001, kills_privileges: true },
        ),
        (op::OPENDIR, body(|out| out.u32(2).u32(0), b""), Operation::Opendir),
        // fuse_create_in: flags, mode, umask, open_flags
        (
            op::CREATE,
            body(|out| out.u32(0o102).u32(0o640).u32(0o22).u32(0), b"n\0"),
            Operation::Create {
                name: b"n",
                mode: 0o640,
                umask: 0o22,
                flags: 0o102,
                kills_privileges: false,
            },
        ),
        (
            op::CREATE,
            body(|out| out.u32(0o1102).u32(0o640).u32(0o22).u32(1), b"n\0"),
            Operation::Create {
                name: b"n",
                mode: 0o640,
                umask: 0o22,
                flags: 0o1102,
                kills_privileges: true,
            },
        ),
        (op::READ, body(read, b""), Operation::Read { fh, offset, size }),
        (op::READDIR, body(read, b""), Operation::Readdir { fh, offset, size }),
        (op::READDIRPLUS, body(read, b""), Operation::Readdirplus { fh, offset, size }),
        (op::STATFS, Vec::new(), Operation::Statfs),
        // fuse_release_in: fh, flags, release_flags, lock_owner
        (
            op::RELEASE,
            body(|out| out.u64(5).u32(0).u32(2).u64(6), b""),
            Operation::Release { fh: 5, release_flags: 2, lock_owner: 6 },
        ),
        (
            op::RELEASEDIR,
            body(|out| out.u64(5).u32(0).u32(0).u64(0), b""),
            Operation::Releasedir { fh: 5 },
        ),
        // fuse_fsync_in: fh, fsync_flags, padding
        (op::FSYNC, body(|out| out.u64(5).u32(1).u32(0), b""), Operation::Fsync { fh: 5 }),
        (op::FSYNCDIR, body(|out| out.u64(5).u32(1).u32(0), b""), Operation::Fsyncdir),
        // fuse_setxattr_in: size, flags, setxattr_flags, padding
        (
            op::SETXATTR,
            body(|out| out.u32(3).u32(1).u32(1).u32(0), b"user.a\0val"),
            Operation::Setxattr { name: b"user.a", value: b"val", flags: 1, kills_set_gid: true },
        ),
        // fuse_getxattr_in: size, padding
        (
            op::GETXATTR,
            body(|out| out.u32(64).u32(0), b"user.a\0"),
            Operation::Getxattr { name: b"user.a", size: 64 },
        ),
        (op::LISTXATTR, body(|out| out.u32(64).u32(0), b""), Operation::Listxattr { size: 64 }),
        (op::REMOVEXATTR, body(none, b"user.a\0"), Operation::Removexattr { name: b"user.a" }),
        // fuse_flush_in: fh, unused, padding, lock_owner
        (
            op::FLUSH,
            body(|out| out.u64(5).u32(0).u32(0).u64(6), b""),
            Operation::Flush { lock_owner: 6 },
        ),
        (op::GETLK, body(lk, b""), Operation::Getlk { owner: 6, lock, lk_flags: 1 }),
        (op::SETLK, body(lk, b""), owner_and_lock(false)),
        (op::SETLKW, body(lk, b""), owner_and_lock(true)),
        (op::ACCESS, body(|out| out.u32(4).u32(0), b""), Operation::Access),
        (op::IOCTL, body(|out| out.zeros(32), b""), Operation::Ioctl),
        // fuse_fallocate_in: fh, offset, length, mode, padding
        (
            op::FALLOCATE,
            body(|out| out.u64(5).u64(4096).u64(100).u32(1).u32(0), b""),
            Operation::Fallocate { offset: 4096, len: 100, mode: 1 },
        ),
        // fuse_lseek_in: fh, offset, whence, padding
        (
            op::LSEEK,
            body(|out| out.u64(5).u64(-1_i64 as u64).u32(3).u32(0), b""),
            Operation::Lseek { offset: -1, whence: 3 },
        ),
        // fuse_copy_file_range_in: fh_in, off_in, nodeid_out, fh_out, off_out, len, flags
        (
            op::COPY_FILE_RANGE,
            body(|out| out.u64(5).u64(1).u64(9).u64(6).u64(2).u64(3).u64(0), b""),
            Operation::CopyFileRange { offset: 1, to: 9, to_offset: 2, len: 3, wide: false },
        ),
        (
            op::COPY_FILE_RANGE_64,
            body(|out| out.u64(5).u64(1).u64(9).u64(6).u64(2).u64(1 << 40).u64(0), b""),
            Operation::CopyFileRange { offset: 1, to: 9, to_offset: 2, len: 1 << 40, wide: true },
        ),
        (op::INTERRUPT, body(|out| out.u64(42), b""), Operation::Interrupt { unique: 42 }),
        (op::DESTROY, Vec::new(), Operation::Destroy),
    ]
}

#[test]
fn each_request_is_read_as_the_kernel_lays_it_out() {
    for (opcode, body, wanted) in requests() {
        assert_eq!(
            Operation::parse(NEW, opcode, Input::new(&body)),
            Some(wanted),
            "opcode {opcode}"
        );
    }
}

/// Bytes of the numbers with which a request begins: its first argument.
fn numbers_bytes(opcode: u32, body: &[u8], wanted: &Operation<'_>) -> usize {
    let names = match *wanted {
        Operation::Lookup { name }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. }
        | Operation::Getxattr { name, .. }
        | Operation::Removexattr { name } => name.len() + 1,
        Operation::Symlink { name, target } => name.len() + target.len() + 2,
        Operation::Rename { name, new_name, .. } => name.len() + new_name.len() + 2,
        Operation::Setxattr { name, value, .. } => name.len() + 1 + value.len(),
        _ if opcode == op::BATCH_FORGET => 16,
        _ => 0,
    };
    body.len() - names
}

#[test]
fn each_request_is_read_where_its_numbers_lie_apart() {
    for (opcode, body, wanted) in requests() {
        let (numbers, payload) = body.split_at(numbers_bytes(opcode, &body, &wanted));
        // Behind them lies what came before.
        let apart = [numbers, &[0xff; 128]].concat();
        let len = 40 + body.len() as u32;
        let mut header = Output::default();
        header.u32(len).u32(opcode).u64(7).u64(1).u32(1000).u32(100).u32(99).u32(0);
        let (_, input) = Request::parse_parts(&header.0, &apart, payload).expect("a request");
        assert_eq!(Operation::parse(NEW, opcode, input), Some(wanted), "opcode {opcode}");
        let longer = [payload, &[0; 200]].concat();
        assert!(Request::parse_parts(&header.0, &apart, &longer).is_none(), "opcode {opcode}");
    }
}

#[test]
fn a_request_that_is_cut_short_is_none_or_lacks_only_what_is_not_read() {
    for (opcode, body, wanted) in requests() {
        for length in 0..body.len() {
            let read = Operation::parse(NEW, opcode, Input::new(&body[..length]));
            assert!(read.is_none_or(|read| read == wanted), "opcode {opcode}, {length} bytes");
        }
    }
}

#[test]
fn a_message_ends_where_its_header_says() {
    let message = body(
        |out| out.u32(42).u32(op::LOOKUP).u64(7).u64(1).u32(1000).u32(100).u32(99).u32(0),
        b"n\0behind",
    );
    let (request, mut rest) = Request::parse(&message).expect("a request");
    let wanted = Request { opcode: op::LOOKUP, unique: 7, ino: 1, uid: 1000, gid: 100, pid: 99 };
    assert_eq!((request, rest.part()), (wanted, &b"n\0"[..]));
    assert!(Request::parse(&message[..41]).is_none(), "shorter than it says");
}

#[test]
fn a_time_before_1970_is_what_it_is() {
    let mut out = Output::default();
    out.u32(fattr::MTIME | fattr::ATIME | fattr::ATIME_NOW).zeros(28);
    out.u64(0).u64(-2_i64 as u64).u64(0).u32(0).u32(800_000_000).u32(0).zeros(20);
    let Some(Operation::Setattr(set)) = Operation::parse(NEW, op::SETATTR, Input::new(&out.0))
    else {
        panic!("no setattr");
    };
    let mtime = Time::At(Timestamp { secs: -2, nanos: 800_000_000 });
    let wanted = SetAttr { atime: Some(Time::Now), mtime: Some(mtime), ..SetAttr::default() };
    assert_eq!(set, wanted);
}

#[test]
fn a_cut_by_somebody_without_the_capability_says_so() {
    // fuse_setattr_in: valid, padding, fh, size, …
    let mut out = Output::default();
    out.u32(fattr::SIZE | 1 << 11).u32(0).u64(0).u64(5).zeros(64);
    let cut = Operation::parse(NEW, op::SETATTR, Input::new(&out.0));
    let wanted = SetAttr { size: Some(5), kills_privileges: true, ..SetAttr::default() };
    assert_eq!(cut, Some(Operation::Setattr(wanted)));
}

#[test]
fn a_write_has_its_bytes_and_flags() {
    // fuse_write_in: fh, offset, size, write_flags, lock_owner, flags, padding
    let numbers: Numbers =
        |out| out.u64(3).u64(4096).u32(5).u32(4).u64(0).u32(libc::O_APPEND as u32).u32(0);
    let message = body(numbers, b"hello");
    let flags = libc::O_APPEND;
    let wanted = Operation::Write { fh: 3, offset: 4096, write_flags: 4, flags, data: b"hello" };
    assert_eq!(Operation::parse(NEW, op::WRITE, Input::new(&message)), Some(wanted));
    assert_eq!(Operation::parse(NEW, op::WRITE, Input::new(&message[..44])), None, "cut short");
}

#[test]
fn an_older_kernel_sets_attributes_in_fewer_words() {
    let message = body(|out| out.u32(3).u32(1), b"user.a\0val");
    let old = Operation::parse(Dialect::default(), op::SETXATTR, Input::new(&message));
    let value = b"val";
    let wanted = Operation::Setxattr { name: b"user.a", value, flags: 1, kills_set_gid: false };
    assert_eq!(old, Some(wanted));
}
