//! Asynchronous direct writers (libaio) beside those who read through the page cache.
//!
//! Where FUSE cannot be used (a container without /dev/fuse) the tests say so and do nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]
#![allow(clippy::disallowed_methods, reason = "what is waited for is the kernel")]

mod common;

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::Volume;
use weir_door_fuse::FuseOptions;

const BLOCK: usize = 4096;
const BLOCKS: usize = 16;

/// `struct iocb` of linux/aio_abi.h, on machines of this byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    result_fd: u32,
}

/// `struct io_event`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

/// A context of the kernel's asynchronous I/O.
struct Asynchronous(libc::c_ulong);

#[allow(unsafe_code, reason = "no library has these calls")]
impl Asynchronous {
    fn new() -> Self {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number at the address.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Self(context)
    }

    /// Writes, and waits until it is written.
    fn write(&self, file: &File, block: &[u8], offset: usize) {
        const WRITE: u16 = 1;
        let mut control = Control {
            opcode: WRITE,
            fd: file.as_raw_fd() as u32,
            buffer: block.as_ptr() as u64,
            bytes: block.len() as u64,
            offset: offset as i64,
            ..Control::default()
        };
        let mut controls = [&raw mut control];
        let mut event = Event::default();
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the block and what is named here outlive the write, which is waited for.
        let submitted =
            unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, controls.as_mut_ptr()) };
        assert_eq!(submitted, 1, "{}", std::io::Error::last_os_error());
        let ended = loop {
            // SAFETY: the kernel writes one such struct at the address.
            let ended = unsafe {
                libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &raw mut event, none)
            };
            // The kernel's own work for this thread may interrupt it.
            let error = std::io::Error::last_os_error();
            if ended >= 0 || error.kind() != std::io::ErrorKind::Interrupted {
                break ended;
            }
        };
        assert_eq!((ended, event.result), (1, block.len() as i64));
    }
}

impl Drop for Asynchronous {
    #[allow(unsafe_code, reason = "as above")]
    fn drop(&mut self) {
        // SAFETY: the context is this one's, and nothing is under way in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// A block that says in which turn it was written, where direct writes take it.
fn block_of(turn: u64, room: &mut [u8]) -> &[u8] {
    let start = room.as_ptr().align_offset(BLOCK);
    let block = &mut room[start..start + BLOCK];
    block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&turn.to_ne_bytes()));
    block
}

fn turn_at(file: &File, block: usize) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, (block * BLOCK) as u64).unwrap();
    u64::from_ne_bytes(word)
}

/// Readers end also where the writer panics.
struct EndAtLast<'a>(&'a AtomicBool);

impl Drop for EndAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn readers_see_what_was_written(path: &Path, lasts: Duration) {
    let (ended, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let written: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let mut options = OpenOptions::new();
    options.write(true).create(true).custom_flags(libc::O_DIRECT);
    let writer = options.open(path).unwrap();
    writer.set_len((BLOCKS * BLOCK) as u64).unwrap();
    let reader = File::open(path).unwrap();
    std::thread::scope(|scope| {
        for at in 0..3 {
            let (reader, written, ended, reads) = (&reader, &written, &ended, &reads);
            scope.spawn(move || {
                for block in (0..BLOCKS).cycle().skip(at * 5) {
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let least = written[block].load(Ordering::SeqCst);
                    let found = turn_at(reader, block);
                    assert!(found >= least, "block {block} of turn {found}, {least} was written");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ends = EndAtLast(&ended);
        let (asynchronous, mut room) = (Asynchronous::new(), vec![0; 2 * BLOCK]);
        let end = Instant::now() + lasts;
        let mut turn = 0;
        while Instant::now() < end {
            turn += 1;
            let block = (turn as usize * 7) % BLOCKS;
            asynchronous.write(&writer, block_of(turn, &mut room), block * BLOCK);
            written[block].store(turn, Ordering::SeqCst);
        }
        eprintln!("{turn} writes beside {} reads", reads.load(Ordering::Relaxed));
    });
    for (block, written) in written.iter().enumerate() {
        assert_eq!(turn_at(&reader, block), written.load(Ordering::SeqCst), "in the end");
    }
}

#[test]
fn who_reads_through_the_cache_sees_what_asynchronous_direct_writers_wrote() {
    let modes: [fn(FuseOptions) -> FuseOptions; 2] = [|options| options, FuseOptions::shared];
    for mode in modes {
        let Some(volume) = Volume::new() else { return };
        let mounted = volume.mount(mode);
        readers_see_what_was_written(&mounted.path.join("f"), Duration::from_secs(2));
        volume.end(mounted);
    }
    let Some(volume) = Volume::new() else { return };
    let Some(mounted) = volume.mount_over_uring(|options| options) else { return };
    readers_see_what_was_written(&mounted.path.join("f"), Duration::from_secs(2));
    volume.end(mounted);
}
