//! `/dev/nbdN`: the kernel's NBD client, at the other end of a socket pair.
//!
//! One connection a device: on one, the kernel waits for an answer as long as it takes. With two it
//! sends a request that takes 30 s once more by the other one, and a late first write may then undo
//! what was written since.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;
use weir_types::{ErrorKind, FsError, Result};

use super::device::{BLOCK_BYTES, SYS_BLOCK};
use super::netlink::{Attributes, Netlink, attribute};

pub(super) const PREFIX: &str = "nbd";

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT_S: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT_S: u16 = 8;
const BACKEND: u16 = 10;

const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;

/// How long requests wait for a daemon that is started anew before they fail.
const AWAY_S: u64 = 60;
/// What a socket holds: some requests of the largest size, so that neither end waits for the other.
const SOCKET_BYTES: usize = 4 << 20;

/// A disk as the kernel is told of it.
pub(super) struct Wanted {
    /// Says whose bytes they are: a device is only taken up again with those that it had.
    pub(super) backend: String,
    pub(super) size_bytes: u64,
    /// What the protocol calls transmission flags. Kernels pass over those that they do not know.
    pub(super) flags: u64,
    /// N of `/dev/nbdN`; `None` for any.
    pub(super) index: Option<u32>,
}

/// Makes a device, or goes on with one that lost its server. N of `/dev/nbdN`, and the end of the
/// connection where its requests come.
pub(super) fn connect(wanted: &Wanted) -> Result<(u32, UnixStream)> {
    let netlink = open()?;
    let (ours, kernels) = socket_pair().map_err(|e| FsError::local_io("make a socket pair", e))?;
    let left = left(Path::new(SYS_BLOCK), wanted)?;
    let index = match left {
        Some(index) => {
            let list = reconnect_request(wanted, index, &kernels);
            netlink.call(RECONFIGURE, &list).map_err(|error| refused(index, error))?;
            index
        }
        None => {
            let answer = netlink
                .call(CONNECT, &connect_request(wanted, &kernels))
                .map_err(|error| refused(wanted.index.unwrap_or(0), error))?;
            let index = attribute(&answer, INDEX).and_then(|value| value.try_into().ok());
            index.map(u32::from_ne_bytes).ok_or_else(|| {
                FsError::new(ErrorKind::Bug, "the kernel does not say which NBD device it made")
            })?
        }
    };
    drop(kernels);
    if hung_up(&ours).map_err(|e| FsError::local_io("look at a socket", e))? {
        return Err(in_use(index));
    }
    Ok((index, ours))
}

/// Takes a device away.
pub(super) fn disconnect(index: u32) -> Result<()> {
    let list = Attributes::default().u32(INDEX, index);
    open()?.call(DISCONNECT, &list).map(drop).map_err(|error| refused(index, error))
}

/// Tells the kernel a new size.
pub(super) fn resize(index: u32, backend: &str, size_bytes: u64) -> Result<()> {
    let list =
        Attributes::default().u32(INDEX, index).u64(SIZE_BYTES, size_bytes).text(BACKEND, backend);
    open()?.call(RECONFIGURE, &list).map(drop).map_err(|error| refused(index, error))
}

fn connect_request(wanted: &Wanted, socket: &OwnedFd) -> Attributes {
    let list = Attributes::default();
    let list = match wanted.index {
        Some(index) => list.u32(INDEX, index),
        None => list,
    };
    list.u64(SIZE_BYTES, wanted.size_bytes)
        .u64(BLOCK_SIZE_BYTES, BLOCK_BYTES)
        .u64(SERVER_FLAGS, wanted.flags)
        .text(BACKEND, &wanted.backend)
        .timeouts()
        .socket(socket)
}

fn reconnect_request(wanted: &Wanted, index: u32, socket: &OwnedFd) -> Attributes {
    Attributes::default()
        .u32(INDEX, index)
        .u64(SIZE_BYTES, wanted.size_bytes)
        .text(BACKEND, &wanted.backend)
        .timeouts()
        .socket(socket)
}

impl Attributes {
    /// No request is given up while its server lives: a slow bucket is no dead one.
    fn timeouts(self) -> Self {
        self.u64(TIMEOUT_S, 0).u64(DEAD_CONNECTION_TIMEOUT_S, AWAY_S)
    }

    fn socket(self, socket: &OwnedFd) -> Self {
        let fd = Attributes::default().u32(SOCKET_FD, socket.as_raw_fd().cast_unsigned());
        self.nested(SOCKETS, &Attributes::default().nested(SOCKET_ITEM, &fd))
    }
}

fn socket_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, kernels) = UnixStream::pair()?;
    let kernels = OwnedFd::from(kernels);
    ours.set_nonblocking(true)?;
    for end in [ours.as_fd(), kernels.as_fd()] {
        // Root may have more than the machine's limit; others take that.
        sockopt::set_socket_send_buffer_size_force(end, SOCKET_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(end, SOCKET_BYTES))?;
    }
    Ok((ours, kernels))
}

/// Whether nobody is at the other end: the kernel took the connection and had no use for it.
fn hung_up(socket: &UnixStream) -> io::Result<bool> {
    let mut poll = [PollFd::new(socket, PollFlags::RDHUP)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut poll, Some(&Timespec::default())))?;
    Ok(poll[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP))
}

/// Whether a device has bytes behind it, of a server that lives or not.
fn configured(sys: &Path, index: u32) -> bool {
    sys.join(format!("{PREFIX}{index}/pid")).exists()
}

/// The device to go on with, if there is one; `WouldBlock` if the one that is wanted has bytes of
/// somebody else. Even to tell it a size would do harm then.
fn left(sys: &Path, wanted: &Wanted) -> Result<Option<u32>> {
    match wanted.index {
        None => Ok(left_by(sys, &wanted.backend)),
        Some(index) if !configured(sys, index) => Ok(None),
        Some(index) if is_of(sys, index, &wanted.backend) => Ok(Some(index)),
        Some(index) => Err(in_use(index)),
    }
}

/// The device that had these bytes before.
fn left_by(sys: &Path, backend: &str) -> Option<u32> {
    let names = fs::read_dir(sys).ok()?.flatten().filter_map(|e| e.file_name().into_string().ok());
    let mut devices = names.filter_map(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
    devices.find(|index| is_of(sys, *index, backend) && configured(sys, *index))
}

/// Whether a device has these bytes. Before Linux 5.14 none can say so.
fn is_of(sys: &Path, index: u32, backend: &str) -> bool {
    let said = fs::read_to_string(sys.join(format!("{PREFIX}{index}/backend")));
    said.is_ok_and(|said| said.trim_end() == backend)
}

/// The way to the driver, which is loaded where that can be.
fn open() -> Result<Netlink> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let opened = match Netlink::open(PREFIX) {
        Err(error) if missing(&error) => {
            // A kernel without modules may lack the program as well; the next line tells.
            let _ = Command::new("modprobe").arg("nbd").stderr(Stdio::null()).status();
            Netlink::open(PREFIX)
        }
        opened => opened,
    };
    opened.map_err(|error| match missing(&error) {
        true => {
            let text = "this machine's kernel has no NBD driver: load it with `modprobe nbd`, on \
                        the host if this is a container; where there is none, serve disks with \
                        `weir serve --nbd` to a machine that has one";
            FsError::new(ErrorKind::Unsupported, text)
        }
        false => FsError::local_io("ask the kernel for its NBD driver", error),
    })
}

fn refused(index: u32, error: io::Error) -> FsError {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            let text = "only root (CAP_SYS_ADMIN) may attach and detach block devices";
            FsError::new(ErrorKind::Permission, text).with_source(error)
        }
        Some(Errno::BUSY) => in_use(index),
        _ => {
            let text = format!(
                "the kernel's NBD driver refuses /dev/{PREFIX}{index} ({error}): its log says why"
            );
            FsError::new(ErrorKind::Invalid, text).with_source(error)
        }
    }
}

fn in_use(index: u32) -> FsError {
    let text = format!(
        "/dev/{PREFIX}{index} is in use by another server: take another one, or none to get any \
         that is free"
    );
    FsError::new(ErrorKind::WouldBlock, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(index: Option<u32>) -> Wanted {
        Wanted { backend: "weir v d".to_owned(), size_bytes: 1 << 30, flags: 0x16f, index }
    }

    #[test]
    fn a_connection_is_asked_for_with_all_that_the_kernel_needs() {
        let (_ours, kernels) = socket_pair().unwrap();
        let fd = Attributes::default().u32(1, kernels.as_raw_fd().cast_unsigned());
        let sockets = Attributes::default().nested(1, &fd);
        let expected = Attributes::default()
            .u32(1, 3)
            .u64(2, 1 << 30)
            .u64(3, 4096)
            .u64(5, 0x16f)
            .text(10, "weir v d")
            .u64(4, 0)
            .u64(8, 60)
            .nested(7, &sockets);
        assert_eq!(connect_request(&wanted(Some(3)), &kernels), expected);
        assert_ne!(connect_request(&wanted(None), &kernels), expected);
    }

    #[test]
    fn a_socket_whose_other_end_goes_is_noticed() {
        let (ours, kernels) = socket_pair().unwrap();
        assert!(!hung_up(&ours).unwrap());
        drop(kernels);
        assert!(hung_up(&ours).unwrap());
    }

    #[test]
    fn a_device_that_was_left_is_found_by_its_bytes() {
        let sys = tempfile::tempdir().unwrap();
        for (name, backend) in [("nbd0", "weir v other"), ("nbd1", "weir v d"), ("sda", "weir v d")]
        {
            let dir = sys.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("backend"), format!("{backend}\n")).unwrap();
        }
        // Nothing is behind it any more.
        assert_eq!(left_by(sys.path(), "weir v d"), None);
        fs::write(sys.path().join("nbd1/pid"), "1\n").unwrap();
        assert_eq!(left_by(sys.path(), "weir v d"), Some(1));
        assert_eq!(left_by(sys.path(), "weir v"), None);
        let taken_up = |index| left(sys.path(), &wanted(index)).map_err(|e| e.kind());
        assert_eq!((taken_up(None), taken_up(Some(1))), (Ok(Some(1)), Ok(Some(1))));
        assert_eq!(taken_up(Some(0)), Ok(None), "nothing is behind it");
        fs::write(sys.path().join("nbd0/pid"), "1\n").unwrap();
        assert_eq!(taken_up(Some(0)), Err(ErrorKind::WouldBlock), "somebody else's");
        fs::remove_file(sys.path().join("nbd0/backend")).unwrap();
        assert_eq!(taken_up(Some(0)), Err(ErrorKind::WouldBlock), "nobody knows whose");
        fs::remove_file(sys.path().join("nbd0/pid")).unwrap();
        assert!(configured(sys.path(), 1) && !configured(sys.path(), 0));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let of = |errno: Errno| refused(2, errno.into());
        assert_eq!(of(Errno::PERM).kind(), ErrorKind::Permission);
        assert_eq!(of(Errno::BUSY).kind(), ErrorKind::WouldBlock);
        assert!(of(Errno::BUSY).to_string().contains("/dev/nbd2"));
        assert_eq!(of(Errno::INVAL).kind(), ErrorKind::Invalid);
    }
}
