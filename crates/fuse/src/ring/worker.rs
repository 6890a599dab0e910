//! The thread of one ring.
#![allow(unsafe_code, reason = "commands to the kernel name memory")]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry128;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, types};

use super::memory::Memory;
use super::queue::{Answered, Queue, Slot};
use crate::abi::uring;
use crate::bytes::{Input, Output};
use crate::device::Device;
use crate::request::Request;

/// Marks the completion of the read that others wake the thread by.
const WAKE: u64 = u64::MAX;
/// How long the kernel gets to hand all entries back after the end.
const END_MAX: Duration = Duration::from_secs(2);

/// One ring: the entries of some of the kernel's queues.
pub(super) struct Worker {
    ring: IoUring<Entry128, cqueue::Entry>,
    device: Arc<Device>,
    pub(super) queue: Arc<Queue>,
    /// Numbers of the kernel's queues.
    queues: Vec<u16>,
    /// Entries of each.
    depth: usize,
    /// Entries that the kernel has.
    at_kernel: usize,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({:?})", self.queues)
    }
}

impl Worker {
    pub(super) fn new(
        device: &Arc<Device>,
        queues: Vec<u16>,
        depth: usize,
        payload_bytes: usize,
    ) -> io::Result<Self> {
        let entries = queues.len() * depth;
        let mut builder = IoUring::builder();
        // The thread that runs it is another one: it enables the ring, and so becomes its issuer.
        builder.setup_single_issuer().setup_defer_taskrun().setup_r_disabled();
        let ring = builder.build((entries as u32 + 1).next_power_of_two())?;
        let queue = Arc::new(Queue::new(Memory::new(entries, payload_bytes)?)?);
        Ok(Self { ring, device: device.clone(), queue, queues, depth, at_kernel: 0 })
    }

    /// Serves until [`Queue::end`]. `refused` is told why the kernel takes an entry not at all.
    pub(super) fn run(
        mut self,
        serve: &dyn Fn(Request, Input<'_>, Slot),
        refused: &dyn Fn(io::Error),
    ) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        self.wait_for_wake();
        for entry in 0..self.queues.len() * self.depth {
            self.command(uring::REGISTER, entry, 0);
        }
        let (mut answered, mut done) = (Vec::new(), Vec::new());
        let mut ends_at = None;
        loop {
            let is_over = self.queue.take(&mut answered);
            answered.drain(..).for_each(|answer| self.commit(answer));
            if is_over {
                let end = *ends_at.get_or_insert_with(|| Instant::now() + END_MAX);
                if self.at_kernel == 0 || Instant::now() >= end {
                    break;
                }
            }
            self.enter(is_over)?;
            self.queue.is_awake();
            done.extend(self.ring.completion().map(|done| (done.user_data(), done.result())));
            for (entry, result) in done.drain(..) {
                match result {
                    _ if entry == WAKE => self.wait_for_wake(),
                    0.. => {
                        self.serve(entry as usize, serve);
                        if self.queue.take_much(&mut answered) {
                            answered.drain(..).for_each(|answer| self.commit(answer));
                            tolerate(self.ring.submit())?;
                        }
                    }
                    _ => self.lost(io::Error::from_raw_os_error(-result), refused),
                }
            }
        }
        Ok(())
    }

    /// Hands commands over and waits for a completion; at the end not for long.
    fn enter(&mut self, is_over: bool) -> io::Result<()> {
        let count = self.ring.submission().len();
        let submitter = self.ring.submitter();
        let entered = if is_over {
            let soon = types::Timespec::from(Duration::from_millis(100));
            submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&soon))
        } else {
            let mut flags = EnterFlags::GETEVENTS;
            if self.ring.params().is_feature_no_iowait() {
                // To wait for requests is no wait for a disk.
                flags |= EnterFlags::NO_IOWAIT;
            }
            // SAFETY: no argument goes with it, and what the commands name outlives them: see drop.
            unsafe { submitter.enter::<libc::sigset_t>(count as u32, 1, flags.bits(), None) }
        };
        tolerate(entered)
    }

    /// Serves the request that came in an entry.
    fn serve(&mut self, entry: usize, serve: &dyn Fn(Request, Input<'_>, Slot)) {
        self.at_kernel -= 1;
        let memory = &self.queue.memory;
        // SAFETY: the kernel gave the entry back, no slot is made for it yet, and this is copied.
        let headers = unsafe { *memory.headers_mut(entry) };
        let count = payload_bytes(&headers);
        // SAFETY: the kernel has the entry back only after this, on this thread, and a slot whose
        // request has bytes writes none there.
        let payload = unsafe { memory.bytes_of(entry, count) };
        let numbers = &headers[uring::NUMBERS_AT..uring::ENTRY_AT];
        match Request::parse_parts(&headers, numbers, payload) {
            Some((request, body)) => {
                let slot = Slot::new(&self.queue, entry, count > 0);
                serve(request, body, slot);
            }
            None => {
                tracing::error!("the kernel sent a request whose sizes do not fit");
                Slot::new(&self.queue, entry, true).answer(-libc::EIO, &[]);
            }
        }
    }

    /// The kernel gave an entry back for good.
    fn lost(&mut self, error: io::Error, refused: &dyn Fn(io::Error)) {
        self.at_kernel -= 1;
        match error.raw_os_error() {
            // It was unmounted or aborted.
            Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED) => {}
            _ => refused(error),
        }
    }

    /// Gives an entry back to the kernel, with the answer to its request.
    fn commit(&mut self, answered: Answered) {
        let Answered { entry, error, bytes, aside } = answered;
        let memory = &self.queue.memory;
        if !aside.is_empty() {
            // SAFETY: the entry's slot is gone, and who served its request returned.
            unsafe { memory.put(entry, &aside) };
        }
        // SAFETY: the entry is not the kernel's yet, and its slot is gone.
        let headers = unsafe { memory.headers_mut(entry) };
        let request = put_answer(headers, error, bytes);
        self.command(uring::COMMIT_AND_FETCH, entry, request);
    }

    fn command(&mut self, command: u32, entry: usize, request: u64) {
        let mut out = Output::default();
        let queue = self.queues[entry / self.depth];
        out.u64(0).u64(request).u16(queue).zeros(62);
        let mut words = [0; 80];
        words.copy_from_slice(&out.0);
        let device = types::Fd(self.device.0.as_raw_fd());
        let vectors = self.queue.memory.vectors(entry) as u64;
        let command = opcode::UringCmd80::new(device, command).cmd(words).addr(Some(vectors));
        self.push(with_len(command.build().user_data(entry as u64), 2));
        self.at_kernel += 1;
    }

    fn wait_for_wake(&mut self) {
        let event = types::Fd(self.queue.event.as_raw_fd());
        let read = opcode::Read::new(event, self.queue.memory.counter(), 8);
        self.push(read.build().user_data(WAKE).into());
    }

    fn push(&mut self, command: Entry128) {
        // SAFETY: what commands name lies in the queue's memory, which outlives them: see drop.
        let pushed = unsafe { self.ring.submission().push(&command) };
        // One for each entry and the wake: they are never more.
        assert!(pushed.is_ok(), "the ring has room for a command of each entry");
    }
}

/// What could not be handed over is with the next call: there was no memory, or a signal came.
fn tolerate(entered: io::Result<usize>) -> io::Result<()> {
    match entered.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) => Ok(()),
        Err((Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.at_kernel > 0 {
            // The kernel may write there yet: it stays for good.
            tracing::debug!(entries = self.at_kernel, "the kernel did not give all memory back");
            std::mem::forget(self.queue.clone());
        }
    }
}

/// Bytes of the payload that a request has.
fn payload_bytes(headers: &[u8; uring::HEADERS_BYTES]) -> usize {
    let mut input = Input::new(&headers[uring::ENTRY_AT..]);
    let bytes = input.skip(16).and_then(|()| input.u32());
    bytes.map_or(0, |bytes| bytes as usize)
}

/// Puts what an answer says beside its payload in the place of the request's; answers with the
/// number by which the kernel knows the request.
fn put_answer(headers: &mut [u8; uring::HEADERS_BYTES], error: i32, bytes: usize) -> u64 {
    let mut unique = [0; 8];
    unique.copy_from_slice(&headers[8..16]);
    let mut request = [0; 8];
    request.copy_from_slice(&headers[uring::ENTRY_AT + 8..uring::ENTRY_AT + 16]);
    headers[..4].copy_from_slice(&(16 + bytes as u32).to_ne_bytes());
    headers[4..8].copy_from_slice(&error.to_ne_bytes());
    headers[8..16].copy_from_slice(&unique);
    headers[uring::ENTRY_AT + 16..uring::ENTRY_AT + 20]
        .copy_from_slice(&(bytes as u32).to_ne_bytes());
    u64::from_ne_bytes(request)
}

/// Sets the field `len` of `struct io_uring_sqe`, which the library leaves 0 in such commands.
fn with_len(mut command: Entry128, len: u32) -> Entry128 {
    const LEN_AT: usize = 24;
    const _: () = assert!(size_of::<Entry128>() == 128);
    // SAFETY: the type is laid out as the kernel's struct, of which this is a field.
    unsafe { (&raw mut command).cast::<u8>().add(LEN_AT).cast::<u32>().write(len) };
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_which_request_it_is_for_and_how_long_it_is() {
        let mut headers = [0xff; uring::HEADERS_BYTES];
        headers[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        headers[264..272].copy_from_slice(&9_u64.to_ne_bytes());
        headers[272..276].copy_from_slice(&5_u32.to_ne_bytes());
        assert_eq!(payload_bytes(&headers), 5);
        assert_eq!(put_answer(&mut headers, -2, 4), 9);
        // struct fuse_out_header: len, error, unique
        assert_eq!(headers[..4], 20_u32.to_ne_bytes());
        assert_eq!(headers[4..8], (-2_i32).to_ne_bytes());
        assert_eq!(headers[8..16], 7_u64.to_ne_bytes());
        assert_eq!(headers[272..276], 4_u32.to_ne_bytes());
    }

    #[test]
    fn the_length_of_a_command_is_where_the_kernel_reads_it() {
        // A read sets it by the library's own hand.
        let read = opcode::Read::new(types::Fd(3), std::ptr::null_mut(), 77).build();
        let without = opcode::Read::new(types::Fd(3), std::ptr::null_mut(), 0).build();
        let bytes = |command: Entry128| {
            // SAFETY: the type is plain bytes.
            unsafe { std::mem::transmute::<Entry128, [u8; 128]>(command) }
        };
        assert_eq!(bytes(read.into()), bytes(with_len(without.into(), 77)));
    }
}
