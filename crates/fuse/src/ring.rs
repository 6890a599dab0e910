//! Requests over io_uring: a queue for each processor, and a request and its answer with one system
//! call, where `/dev/fuse` takes two.
//!
//! The kernel sends forgets and interrupts to `/dev/fuse` all the same, and all requests as long as
//! not every queue has an entry.

mod memory;
mod queue;
mod worker;

use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use io_uring::IoUring;

use self::queue::Queue;
pub(crate) use self::queue::Slot;
use self::worker::Worker;
use crate::bytes::Input;
use crate::device::Device;
use crate::request::Request;

/// Requests of one processor that are served at a time, answered later or not; more wait in the
/// kernel. Each takes memory of the largest request once one was there.
const DEPTH: RangeInclusive<usize> = 8..=64;
/// Of all processors together, where that leaves each as many.
const ENTRIES: usize = 512;
/// What the kernel wants at least, however small requests are.
const PAYLOAD_BYTES_MIN: usize = 8192;
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// How the requests of a mount come.
#[derive(Clone, Debug)]
pub struct Transport(Arc<OnceLock<String>>);

impl Transport {
    pub(crate) fn rings() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn device(why: impl Into<String>) -> Self {
        Self(Arc::new(OnceLock::from(why.into())))
    }

    /// Why they come from `/dev/fuse`; `None` if they come over io_uring.
    pub fn without_rings(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// The rings of a mount, before they run.
#[derive(Debug)]
pub(crate) struct Rings(Vec<Worker>);

/// The threads of a mount's rings.
#[derive(Debug)]
pub(crate) struct Running(Vec<(Arc<Queue>, JoinHandle<io::Result<()>>)>);

impl Rings {
    /// Makes them, for requests of so many bytes and so many pages.
    pub(crate) fn new(device: &Arc<Device>, write_bytes: u32, pages: u32) -> io::Result<Self> {
        // Some machines make rings and do not let them be used.
        IoUring::new(2)?.submit()?;
        let page_bytes = rustix::param::page_size();
        let payload_bytes = (write_bytes as usize).max(pages as usize * page_bytes);
        let payload_bytes = payload_bytes.max(PAYLOAD_BYTES_MIN).next_multiple_of(page_bytes);
        let queues = possible_cpus(&std::fs::read_to_string(POSSIBLE)?)?;
        let threads = std::thread::available_parallelism()?.get().min(usize::from(queues));
        let of_thread = |thread| (thread as u16..queues).step_by(threads).collect();
        let depth = (ENTRIES / usize::from(queues)).clamp(*DEPTH.start(), *DEPTH.end());
        let worker = |thread| Worker::new(device, of_thread(thread), depth, payload_bytes);
        Ok(Self((0..threads).map(worker).collect::<io::Result<_>>()?))
    }

    /// Starts a thread for each. `serve` serves one request.
    pub(crate) fn start<F>(self, transport: &Transport, serve: &Arc<F>) -> io::Result<Running>
    where
        F: Fn(Request, Input<'_>, Slot) + Send + Sync + 'static,
    {
        let mut running = Running(Vec::new());
        for worker in self.0 {
            let (queue, serve) = (worker.queue.clone(), serve.clone());
            let transport = transport.clone();
            let work = move || {
                let refused = |error: io::Error| {
                    let why = format!("the kernel did not take a queue's memory: {error}");
                    if transport.0.set(why).is_ok() {
                        tracing::warn!(%error, "requests come from /dev/fuse, not over io_uring");
                    }
                };
                let ran = worker.run(&*serve, &refused);
                if let Err(error) = &ran {
                    tracing::error!(%error, "a ring that serves a mount ended, and who asked it waits: end the mount by force");
                }
                ran
            };
            let thread = std::thread::Builder::new().name("weir-fuse-ring".to_owned());
            match thread.spawn(work) {
                Ok(thread) => running.0.push((queue, thread)),
                Err(error) => return running.end().and(Err(error)),
            }
        }
        Ok(running)
    }
}

impl Running {
    /// Ends them all, once the kernel sends nothing more.
    pub(crate) fn end(self) -> io::Result<()> {
        self.0.iter().for_each(|(queue, _)| queue.end());
        let ended = self.0.into_iter().map(|(_, thread)| {
            thread.join().map_err(|_| io::Error::other("a ring's thread panicked")).flatten()
        });
        ended.fold(Ok(()), io::Result::and)
    }
}

/// How many processors the kernel may have at all, of a list such as `0-3,8-11`.
fn possible_cpus(list: &str) -> io::Result<u16> {
    let strange = || io::Error::other(format!("{POSSIBLE} says {list}"));
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        (last.checked_sub(first)?).checked_add(1)
    };
    let counts = list.trim().split(',').map(count);
    let all = counts.sum::<Option<u16>>().filter(|count| *count > 0);
    all.ok_or_else(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        let count = |list| possible_cpus(list).ok();
        assert_eq!(
            (count("0\n"), count("0-1\n"), count("0-3,8-11\n")),
            (Some(1), Some(2), Some(8))
        );
        assert_eq!((count(""), count("3-1"), count("all")), (None, None, None));
    }
}
