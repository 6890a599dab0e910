//! Attributes of files in the protocol's form (RFC 8881, 5).

use weir_engine::Statfs;
use weir_types::{FileKind, Ino, Inode, UnixTime};

use crate::handle::Handle;
use crate::protocol::bitmap::Bitmap;
use crate::protocol::numbers::{NAME_BYTES_MAX, attr, ftype};
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::{ServerState, change_of};
use crate::state::sessions::DATA_BYTES_MAX;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = (1 << 63) - 1;
const LINKS_MAX: u32 = 65_000;
/// Longest owner by name.
const OWNER_BYTES_MAX: usize = 1_024;
/// Longest list of values that sets attributes.
const VALUES_BYTES_MAX: usize = 16 << 10;

const READABLE: Bitmap = Bitmap::of(&[
    attr::SUPPORTED_ATTRS,
    attr::TYPE,
    attr::FH_EXPIRE_TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::LINK_SUPPORT,
    attr::SYMLINK_SUPPORT,
    attr::NAMED_ATTR,
    attr::FSID,
    attr::UNIQUE_HANDLES,
    attr::LEASE_TIME,
    attr::RDATTR_ERROR,
    attr::ACLSUPPORT,
    attr::CANSETTIME,
    attr::CASE_INSENSITIVE,
    attr::CASE_PRESERVING,
    attr::CHOWN_RESTRICTED,
    attr::FILEHANDLE,
    attr::FILEID,
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::HOMOGENEOUS,
    attr::MAXFILESIZE,
    attr::MAXLINK,
    attr::MAXNAME,
    attr::MAXREAD,
    attr::MAXWRITE,
    attr::MODE,
    attr::NO_TRUNC,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_CREATE,
    attr::TIME_DELTA,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
    attr::SUPPATTR_EXCLCREAT,
]);
/// Those of minor version 2.
const READABLE_2: Bitmap =
    Bitmap::of(&[attr::CLONE_BLKSIZE, attr::CHANGE_ATTR_TYPE, attr::XATTR_SUPPORT]);
const SETTABLE: Bitmap = Bitmap::of(&[
    attr::SIZE,
    attr::MODE,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::TIME_ACCESS_SET,
    attr::TIME_MODIFY_SET,
]);
const SETTABLE_2: Bitmap = Bitmap::of(&[attr::MODE_UMASK]);
/// An exclusive create keeps its verifier in the times.
const TIMES: Bitmap = Bitmap::of(&[attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET]);
/// What needs the numbers of the volume.
const SPACE: Bitmap = Bitmap::of(&[
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
]);
/// Inode numbers never run out; this many are said to be free.
const FILES_FREE: u64 = 1 << 40;

fn union(a: Bitmap, b: Bitmap) -> Bitmap {
    let mut all = a;
    b.numbers().for_each(|number| all.insert(number));
    all
}

/// Those that there are in a minor version.
pub(crate) fn supported(minor: u32) -> Bitmap {
    let one = union(READABLE, SETTABLE);
    if minor < 2 { one } else { union(one, union(READABLE_2, SETTABLE_2)) }
}

/// Those that a client may ask for, of these. Whoever reads what can only be set is wrong.
pub(crate) fn readable(asked: Bitmap, minor: u32) -> Result<Bitmap, Status> {
    let only_set = union(TIMES, SETTABLE_2);
    match asked.and(only_set).is_empty() {
        true => Ok(asked.and(supported(minor))),
        false => Err(Status::INVAL),
    }
}

/// Whether these need the numbers of the volume.
pub(crate) fn need_space(asked: Bitmap) -> bool {
    !asked.and(SPACE).is_empty()
}

/// Which file attributes are asked for, and what has to be known beside its inode.
pub(crate) struct Subject<'a> {
    pub(crate) handle: Handle,
    pub(crate) inode: &'a Inode,
    pub(crate) space: Option<Statfs>,
    /// Whether it is the directory of an export that has a name.
    pub(crate) is_mount: bool,
    pub(crate) minor: u32,
}

impl Subject<'_> {
    /// Writes a `fattr4` with those of `asked` that there are.
    pub(crate) fn write(&self, server: &ServerState, asked: Bitmap, out: &mut Writer) {
        asked.write(out);
        let mut values = Writer::default();
        for number in asked.numbers() {
            self.write_one(server, number, &mut values);
        }
        out.opaque(&values.finish().concat());
    }

    fn write_one(&self, server: &ServerState, number: u32, out: &mut Writer) {
        let inode = self.inode;
        match number {
            attr::TYPE => out.u32(type_of(inode.kind)),
            attr::CHANGE => out.u64(change_of(inode)),
            attr::SIZE => out.u64(match inode.kind {
                FileKind::Directory => 4_096,
                _ => inode.size,
            }),
            attr::FILEHANDLE => out.opaque(&server.handles.encode(self.handle)),
            attr::FILEID => out.u64(inode.ino.0),
            attr::MOUNTED_ON_FILEID => out.u64(match self.is_mount {
                true => mounted_on(self.handle),
                false => inode.ino.0,
            }),
            attr::MODE => out.u32(inode.mode & 0o7777),
            attr::NUMLINKS => out.u32(inode.nlink),
            attr::OWNER => out.opaque(inode.uid.to_string().as_bytes()),
            attr::OWNER_GROUP => out.opaque(inode.gid.to_string().as_bytes()),
            attr::RAWDEV => {
                out.u32(device_major(inode.rdev));
                out.u32(device_minor(inode.rdev));
            }
            attr::SPACE_USED => out.u64(inode.stored_bytes),
            attr::TIME_ACCESS => write_time(inode.atime, out),
            attr::TIME_CREATE => write_time(inode.btime, out),
            attr::TIME_METADATA => write_time(inode.ctime, out),
            attr::TIME_MODIFY => write_time(inode.mtime, out),
            _ => self.write_one_of_volume(server, number, out),
        }
    }

    fn write_one_of_volume(&self, server: &ServerState, number: u32, out: &mut Writer) {
        let nothing = Statfs { total_bytes: 0, used_bytes: 0, files: 0, files_max: None };
        let space = self.space.unwrap_or(nothing);
        let files_free = space.files_max.map_or(FILES_FREE, |max| max.saturating_sub(space.files));
        let free = space.total_bytes.saturating_sub(space.used_bytes);
        match number {
            attr::SUPPORTED_ATTRS => supported(self.minor).write(out),
            attr::SUPPATTR_EXCLCREAT => {
                let all = if self.minor < 2 { SETTABLE } else { union(SETTABLE, SETTABLE_2) };
                all.without(TIMES).write(out);
            }
            attr::FSID => {
                let minor = match self.handle {
                    Handle::Above => u64::MAX,
                    Handle::Inode { export, .. } => u64::from(export),
                };
                out.u64(server.fsid);
                out.u64(minor);
            }
            // Handles never expire, access control lists are xattrs.
            attr::FH_EXPIRE_TYPE | attr::ACLSUPPORT | attr::RDATTR_ERROR => out.u32(0),
            attr::NAMED_ATTR | attr::CASE_INSENSITIVE => out.bool(false),
            attr::LINK_SUPPORT
            | attr::SYMLINK_SUPPORT
            | attr::UNIQUE_HANDLES
            | attr::CANSETTIME
            | attr::CASE_PRESERVING
            | attr::CHOWN_RESTRICTED
            | attr::HOMOGENEOUS
            | attr::NO_TRUNC
            | attr::XATTR_SUPPORT => out.bool(true),
            attr::LEASE_TIME => out.u32(server.books.lease.as_secs().max(1) as u32),
            attr::MAXFILESIZE => out.u64(FILE_BYTES_MAX),
            attr::MAXLINK => out.u32(LINKS_MAX),
            attr::MAXNAME => out.u32(NAME_BYTES_MAX as u32),
            attr::MAXREAD | attr::MAXWRITE => out.u64(u64::from(DATA_BYTES_MAX)),
            attr::FILES_AVAIL | attr::FILES_FREE => out.u64(files_free),
            attr::FILES_TOTAL => out.u64(space.files.saturating_add(files_free)),
            attr::SPACE_AVAIL | attr::SPACE_FREE => out.u64(free),
            attr::SPACE_TOTAL => out.u64(space.total_bytes),
            attr::TIME_DELTA => {
                out.i64(0);
                out.u32(1);
            }
            attr::CLONE_BLKSIZE => out.u32(4_096),
            // NFS4_CHANGE_TYPE_IS_TIME_METADATA: it is one, of which nobody set the clock back.
            attr::CHANGE_ATTR_TYPE => out.u32(4),
            _ => {}
        }
    }
}

/// The number that an export's directory has for who looks at it from above.
pub(crate) fn mounted_on(handle: Handle) -> u64 {
    match handle {
        Handle::Above => 1,
        Handle::Inode { export, .. } => 1 << 62 | u64::from(export),
    }
}

/// The directory above all exports.
pub(crate) fn above(server: &ServerState) -> Inode {
    let mut inode = Inode::new(Ino(1 << 62), FileKind::Directory, Ino(1 << 62), server.began);
    inode.mode = 0o555;
    inode.nlink = 2;
    inode.ctime = UnixTime(server.began.0.saturating_add(server.exports.changes() as i64));
    inode
}

fn type_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => ftype::REG,
        FileKind::Directory => ftype::DIR,
        FileKind::Symlink => ftype::LNK,
        FileKind::Fifo => ftype::FIFO,
        FileKind::CharDevice => ftype::CHR,
        FileKind::BlockDevice => ftype::BLK,
        FileKind::Socket => ftype::SOCK,
    }
}

/// The major number of a device, as the kernel's protocols pack it.
fn device_major(rdev: u32) -> u32 {
    (rdev & 0xfff00) >> 8
}

fn device_minor(rdev: u32) -> u32 {
    (rdev & 0xff) | ((rdev >> 12) & 0xfff00)
}

/// A device's number of its parts.
pub(crate) fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn write_time(time: UnixTime, out: &mut Writer) {
    let (secs, nanos) = time.parts();
    out.i64(secs);
    out.u32(nanos);
}

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeTo {
    Now,
    At(UnixTime),
}

/// What is to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) size: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) umask: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) atime: Option<TimeTo>,
    pub(crate) mtime: Option<TimeTo>,
    /// All of it.
    pub(crate) set: Bitmap,
}

impl Wanted {
    /// Reads a `fattr4` that sets. `owner` is who an owner by name is, a group if it is told so.
    pub(crate) fn read(
        input: &mut Reader,
        minor: u32,
        owner: impl Fn(&str, bool) -> Option<u32>,
    ) -> Result<Self, Status> {
        let bad = |_| Status::BADXDR;
        let (asked, more) = Bitmap::read(input).map_err(bad)?;
        let mut values = Reader::new(input.opaque(VALUES_BYTES_MAX).map_err(bad)?);
        let settable = if minor < 2 { SETTABLE } else { union(SETTABLE, SETTABLE_2) };
        if more || !asked.without(supported(minor)).is_empty() {
            return Err(Status::ATTRNOTSUPP);
        }
        if !asked.without(settable).is_empty() {
            return Err(Status::INVAL);
        }
        let mut wanted = Self { set: asked, ..Self::default() };
        for number in asked.numbers() {
            match number {
                attr::SIZE => wanted.size = Some(values.u64().map_err(bad)?),
                attr::MODE => wanted.mode = Some(values.u32().map_err(bad)? & 0o7777),
                attr::MODE_UMASK => {
                    wanted.mode = Some(values.u32().map_err(bad)? & 0o7777);
                    wanted.umask = Some(values.u32().map_err(bad)? & 0o777);
                }
                attr::OWNER => wanted.uid = Some(id(&mut values, false, &owner)?),
                attr::OWNER_GROUP => wanted.gid = Some(id(&mut values, true, &owner)?),
                attr::TIME_ACCESS_SET => wanted.atime = Some(time_to(&mut values)?),
                _ => wanted.mtime = Some(time_to(&mut values)?),
            }
        }
        match values.remaining() {
            0 => Ok(wanted),
            _ => Err(Status::BADXDR),
        }
    }
}

fn id(
    values: &mut Reader,
    group: bool,
    owner: impl Fn(&str, bool) -> Option<u32>,
) -> Result<u32, Status> {
    let text = values.opaque(OWNER_BYTES_MAX).map_err(|_| Status::BADXDR)?;
    let text = std::str::from_utf8(&text).map_err(|_| Status::INVAL)?;
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
    match number {
        Some(number) => number.ok_or(Status::BADOWNER),
        // What is behind the @ is the domain, which is one here.
        None => owner(text.split('@').next().unwrap_or(text), group).ok_or(Status::BADOWNER),
    }
}

fn time_to(values: &mut Reader) -> Result<TimeTo, Status> {
    let bad = |_| Status::BADXDR;
    match values.u32().map_err(bad)? {
        0 => Ok(TimeTo::Now),
        _ => {
            let secs = values.i64().map_err(bad)?;
            let nanos = values.u32().map_err(bad)?;
            if nanos >= 1_000_000_000 {
                return Err(Status::INVAL);
            }
            Ok(TimeTo::At(UnixTime::from_parts(secs, nanos)))
        }
    }
}
