//! `/dev/ublkbN`: the kernel hands requests over in shared memory; their data are read from and
//! written to `/dev/ublkcN`.
//!
//! One thread has the device's queue and only takes and gives back requests; tasks of the engine's
//! runtime answer them. When the process ends, so does the device. Before the engine ends, requests
//! are no longer begun or answered.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::task::Poll;

use bytes::Bytes;
use futures::future::join_all;
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::{UblkDev, UblkIOCtx, UblkQueue, with_task_io_ring, with_task_io_ring_mut};
use libublk::uring_async::{ublk_reap_io_events_with_update_queue, ublk_wake_task};
use libublk::{BufDesc, UblkError, UblkFlags, sys};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use weir_engine::Disk;
use weir_types::{ErrorKind, FsError, Result};

use super::blocking::blocking;
use super::device::{BLOCK_BYTES, REQUEST_BYTES};
use crate::body::whole;
use crate::counts::Counts;
use crate::nbd::connection::{STOP_WAIT, stopped};
use crate::nbd::errno::errno;

pub(super) const PREFIX: &str = "ublkb";
const CONTROL: &str = "/dev/ublk-control";

/// Requests of a device under way at once.
const DEPTH: u16 = 128;
/// The largest trim.
const ZEROES_BYTES: u64 = 1 << 30;
const SECTOR_SHIFT: u32 = 9;

/// Whether the kernel has the driver.
fn there() -> bool {
    Path::new(CONTROL).exists()
}

/// What answers the requests of a device.
#[derive(Clone)]
struct Door {
    disk: Disk,
    counts: Arc<Counts>,
    /// Where requests are answered.
    runtime: Handle,
    /// What each request takes one of while it is under way; closed when the engine is about to end.
    turns: Arc<Semaphore>,
}

/// Makes a device; N of `/dev/ublkbN`, and a task that ends when the device does.
pub(super) async fn connect(
    disk: Disk,
    counts: Arc<Counts>,
    read_only: bool,
    index: Option<u32>,
    cut: watch::Receiver<bool>,
) -> Result<(u32, JoinHandle<()>)> {
    if !there() {
        let text = "this machine's kernel has no ublk driver: load it with `modprobe ublk_drv`, on \
                    the host if this is a container, or attach with `--driver nbd`";
        return Err(FsError::new(ErrorKind::Unsupported, text));
    }
    let turns = Arc::new(Semaphore::new(DEPTH.into()));
    let door = Door { disk, counts, runtime: Handle::current(), turns: turns.clone() };
    let (made, ready) = mpsc::channel();
    let (over, ended) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("ublk".to_owned());
    let run = move || {
        if let Err(error) = serve(door, read_only, index, made.clone()) {
            // Nobody listens once the device was there.
            let _ = made.send(Err(error));
        }
        drop(over);
    };
    thread.spawn(run).map_err(|error| FsError::local_io("start a thread", error))?;
    let index = blocking(move || {
        ready.recv().unwrap_or_else(|_| {
            Err(FsError::new(ErrorKind::Bug, "the ublk device ended before it was there"))
        })
    })
    .await?;
    let served = tokio::spawn(async move {
        tokio::select! {
            // An error is its end.
            _ = ended => {}
            () = stopped(cut) => shut(&turns).await,
        }
    });
    Ok((index, served))
}

/// Lets no request begin, and waits for those under way for a while.
async fn shut(turns: &Semaphore) {
    let all = tokio::time::timeout(STOP_WAIT, turns.acquire_many(DEPTH.into())).await;
    // Before they are given back.
    turns.close();
    drop(all);
}

/// Tells the kernel a new size.
pub(super) fn resize(index: u32, size_bytes: u64) -> Result<()> {
    let control = UblkCtrl::new_simple(index.cast_signed());
    let told = control.and_then(|control| control.update_size(size_bytes >> SECTOR_SHIFT));
    told.map(drop).map_err(|error| {
        let text = format!(
            "the kernel keeps the old size of /dev/{PREFIX}{index} ({error}): detach it and attach \
             it again; Linux 6.16 and later can do without"
        );
        FsError::new(ErrorKind::Unsupported, text)
    })
}

/// Takes a device away: its requests under way fail, so nobody may have it open.
pub(super) fn disconnect(index: u32) -> Result<()> {
    let stopped = UblkCtrl::new_simple(index.cast_signed()).and_then(|control| control.kill_dev());
    stopped.map(drop).map_err(|error| refused(index, error))
}

/// Makes the device and serves it until it is taken away.
fn serve(
    door: Door,
    read_only: bool,
    index: Option<u32>,
    made: mpsc::Sender<Result<u32>>,
) -> Result<()> {
    let control = UblkCtrlBuilder::default()
        .name("weir")
        .id(index.map_or(-1, u32::cast_signed))
        .nr_queues(1_u16)
        .depth(DEPTH)
        .io_buf_bytes(REQUEST_BYTES as u32)
        .ctrl_flags(sys::UBLK_F_USER_COPY.into())
        .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
        .build()
        .map_err(|error| refused(index.unwrap_or(0), error))?;
    let index = control.dev_info().dev_id;
    let (size_bytes, record_bytes) = (door.disk.size_bytes(), door.disk.record_bytes());
    let describe = move |device: &mut UblkDev| {
        device.set_default_params(size_bytes);
        describe(&mut device.tgt.params, record_bytes, read_only);
        Ok(())
    };
    let queue = move |id, device: &UblkDev| {
        if let Err(error) = serve_queue(id, device, &door) {
            tracing::error!(device = index, "a ublk queue ended: {error}");
        }
    };
    let there = move |control: &UblkCtrl| {
        // Whoever asked for the device may have gone.
        let _ = made.send(Ok(control.dev_info().dev_id));
    };
    let ran = control.run_target(describe, queue, there);
    ran.map(drop).map_err(|error| refused(index, error))
}

/// What the kernel is told of a disk, besides its size.
fn describe(params: &mut sys::ublk_params, record_bytes: u64, read_only: bool) {
    let sectors = |bytes: u64| (bytes >> SECTOR_SHIFT) as u32;
    params.types |= sys::UBLK_PARAM_TYPE_DISCARD;
    params.basic.attrs = sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA;
    if read_only {
        params.basic.attrs |= sys::UBLK_ATTR_READ_ONLY;
    }
    params.basic.logical_bs_shift = BLOCK_BYTES.ilog2() as u8;
    params.basic.physical_bs_shift = BLOCK_BYTES.ilog2() as u8;
    params.basic.io_min_shift = BLOCK_BYTES.ilog2() as u8;
    params.basic.io_opt_shift = record_bytes.ilog2() as u8;
    params.basic.max_sectors = sectors(REQUEST_BYTES);
    params.discard.discard_granularity = BLOCK_BYTES as u32;
    params.discard.max_discard_sectors = sectors(ZEROES_BYTES);
    params.discard.max_write_zeroes_sectors = sectors(ZEROES_BYTES);
    params.discard.max_discard_segments = 1;
}

/// Takes requests and gives them back until the device goes.
fn serve_queue(id: u16, device: &UblkDev, door: &Door) -> Result<(), UblkError> {
    let queue = UblkQueue::new(id, device)?;
    // The first of a device's files is its `/dev/ublkcN`.
    let data = Arc::new(File::from(clone(device.tgt.fds[0])?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let ring = with_task_io_ring(|ring| clone(ring.as_raw_fd()))?;
        let ring = watch(ring)?;
        let tags = join_all(queue.tags().map(|tag| serve_tag(&queue, tag, door, &data)));
        let mut tags = pin!(tags);
        poll_fn(|context| {
            loop {
                if tags.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Ok(()));
                }
                with_task_io_ring_mut(|ring| ring.submit())?;
                match ring.poll_read_ready(context)? {
                    Poll::Ready(mut ready) => ready.clear_ready(),
                    Poll::Pending => return Poll::Pending,
                }
                ublk_reap_io_events_with_update_queue(&queue, false, None, |entry| {
                    ublk_wake_task(entry.user_data(), entry);
                })?;
            }
        })
        .await
    })
}

/// One more number of an open file.
#[allow(unsafe_code, reason = "the library shows its files by number only")]
fn clone(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the queue, which has the ring, and the device, which has its file, outlive the call.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}

#[allow(unsafe_code, reason = "the number of a file must stay its own")]
fn watch(ring: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the number is owned, and nobody has the means to change or close it.
    unsafe { AsyncFd::register(ring) }.map_err(io::Error::from)
}

/// The requests of one slot of the queue, one after the other.
async fn serve_tag(queue: &UblkQueue<'_>, tag: u16, door: &Door, data: &Arc<File>) {
    let nothing = || BufDesc::Slice(&[]);
    let mut next = queue.submit_io_prep_cmd(tag, nothing(), 0, None).await;
    // The queue is down when the device goes.
    while next.is_ok() {
        let request = Request::of(queue, tag);
        let (door, data) = (door.clone(), data.clone());
        let runtime = door.runtime.clone();
        let answer = runtime.spawn(async move { answer_in_turn(&door, &request, &data).await });
        let result = match answer.await {
            Ok(Some(result)) => result,
            // Nobody can say any more what became of it: it waits for the end of the process.
            Ok(None) => return std::future::pending().await,
            Err(_) => -errno_of(ErrorKind::Bug),
        };
        next = queue.submit_io_commit_cmd(tag, nothing(), result).await;
    }
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug)]
struct Request {
    operation: u32,
    /// It is durable when it is answered.
    fua: bool,
    offset: u64,
    len: u64,
    /// Where its data are in the data file.
    data_at: u64,
}

impl Request {
    fn of(queue: &UblkQueue<'_>, tag: u16) -> Self {
        let said = queue.get_iod(tag);
        Self {
            operation: said.op_flags & 0xff,
            fua: said.op_flags & sys::UBLK_IO_F_FUA != 0,
            offset: said.start_sector << SECTOR_SHIFT,
            len: u64::from(said.nr_sectors) << SECTOR_SHIFT,
            data_at: UblkIOCtx::ublk_user_copy_pos(queue.get_qid(), tag, 0),
        }
    }
}

/// Does a request while there is an engine; `None` if it ended before.
async fn answer_in_turn(door: &Door, request: &Request, data: &File) -> Option<i32> {
    let _turn = door.turns.acquire().await.ok()?;
    let result = answer(door, request, data).await;
    (!door.turns.is_closed()).then_some(result)
}

/// Does a request; the bytes that were moved, or the negative number of the error.
async fn answer(door: &Door, request: &Request, data: &File) -> i32 {
    match perform(door, request, data).await {
        Ok(bytes) => bytes,
        Err(error) => {
            door.counts.errors.fetch_add(1, Relaxed);
            let disk = door.disk.name();
            tracing::warn!(disk, ?request, %error, "a request of the kernel failed");
            -errno_of(error.kind())
        }
    }
}

async fn perform(door: &Door, request: &Request, data: &File) -> Result<i32> {
    let &Request { operation, fua, offset, len, data_at } = request;
    let (disk, counts) = (&door.disk, &door.counts);
    let moved = |error| FsError::local_io("move the data of a request", error);
    let count = |counter: &AtomicU64, more: u64| {
        counter.fetch_add(more, Relaxed);
    };
    match operation {
        sys::UBLK_IO_OP_READ => {
            let mut at = data_at;
            for piece in whole(disk.read(offset, len).await?, len)? {
                data.write_all_at(&piece, at).map_err(moved)?;
                at += piece.len() as u64;
            }
            count(&counts.reads, 1);
            count(&counts.bytes_read, len);
            Ok(len as i32)
        }
        sys::UBLK_IO_OP_WRITE => {
            let mut bytes = vec![0; len as usize];
            data.read_exact_at(&mut bytes, data_at).map_err(moved)?;
            disk.write(offset, Bytes::from(bytes), fua).await?;
            count(&counts.writes, 1);
            count(&counts.bytes_written, len);
            Ok(len as i32)
        }
        sys::UBLK_IO_OP_FLUSH => {
            disk.flush().await?;
            count(&counts.flushes, 1);
            Ok(0)
        }
        sys::UBLK_IO_OP_DISCARD => {
            disk.trim(offset, len, fua).await?;
            count(&counts.trims, 1);
            Ok(0)
        }
        sys::UBLK_IO_OP_WRITE_ZEROES => {
            disk.write_zeroes(offset, len, fua).await?;
            count(&counts.writes, 1);
            Ok(0)
        }
        other => {
            let text = format!("operation {other} of ublk is not known");
            Err(FsError::new(ErrorKind::Unsupported, text))
        }
    }
}

/// The protocol of NBD has Linux's own numbers.
fn errno_of(kind: ErrorKind) -> i32 {
    errno(kind) as i32
}

fn refused(index: u32, error: UblkError) -> FsError {
    let number = match &error {
        UblkError::OtherError(number) | UblkError::UringIOError(number) => number.abs(),
        UblkError::IOError(error) => error.raw_os_error().unwrap_or(0),
        _ => 0,
    };
    let kind = match io::Error::from_raw_os_error(number).kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists => ErrorKind::WouldBlock,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        _ => ErrorKind::Invalid,
    };
    let text = format!(
        "the kernel's ublk driver refuses /dev/{PREFIX}{index} ({error}, error {number}): it needs \
         root and Linux 6.6 or later; NBD does with less"
    );
    FsError::new(kind, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_of_flushes_and_trims() {
        let mut params = sys::ublk_params::default();
        describe(&mut params, 1 << 20, false);
        assert_eq!(params.basic.attrs, 4 | 8);
        assert_eq!(params.basic.logical_bs_shift, 12);
        assert_eq!(params.basic.io_opt_shift, 20);
        assert_eq!(params.basic.max_sectors, 2048);
        assert_eq!(params.discard.max_discard_sectors, 2 << 20);
        describe(&mut params, 1 << 20, true);
        assert_eq!(params.basic.attrs, 1 | 4 | 8);
    }

    #[test]
    fn refusals_have_their_kinds() {
        let of = |number| refused(0, UblkError::OtherError(number)).kind();
        assert_eq!(of(-1), ErrorKind::Permission);
        assert_eq!(of(-17), ErrorKind::WouldBlock);
        assert_eq!(of(-22), ErrorKind::Invalid);
        assert_eq!(errno_of(ErrorKind::NoSpace), 28);
    }
}
