//! What a ring's thread shares with those who answer its requests.
#![allow(unsafe_code, reason = "answers are put into memory that the kernel reads")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::EventfdFlags;

use super::memory::Memory;

/// Bytes of answers that are not held back for those of the requests behind them.
const MUCH_BYTES: usize = 64 << 10;

/// Entries that go back to the kernel.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) memory: Memory,
    /// Wakes the ring's thread.
    pub(super) event: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answered: Vec<Answered>,
    /// Of their payloads.
    bytes: usize,
    /// The ring's thread waits in the kernel, and takes no answers.
    is_asleep: bool,
    is_over: bool,
}

/// The answer that an entry has.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) entry: usize,
    pub(super) error: i32,
    /// Of the payload.
    pub(super) bytes: usize,
    /// Those bytes, where they are not in the payload yet.
    pub(super) aside: Vec<u8>,
}

impl State {
    fn hand_over(&mut self, answered: &mut Vec<Answered>) {
        std::mem::swap(&mut self.answered, answered);
        self.bytes = 0;
    }

    fn add(&mut self, answered: Answered) {
        self.bytes += answered.bytes;
        self.answered.push(answered);
    }
}

impl Queue {
    pub(super) fn new(memory: Memory) -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { memory, event, state: Mutex::default() })
    }

    /// Takes what was answered, and lets those who answer from now on wake the ring's thread. Says
    /// whether it is over.
    pub(super) fn take(&self, answered: &mut Vec<Answered>) -> bool {
        let mut state = self.state.lock();
        state.hand_over(answered);
        state.is_asleep = true;
        state.is_over
    }

    /// Takes what was answered if that is much: whoever waits for it should not wait for those who
    /// are served next. Says whether it did.
    pub(super) fn take_much(&self, answered: &mut Vec<Answered>) -> bool {
        let mut state = self.state.lock();
        let is_much = state.bytes >= MUCH_BYTES;
        if is_much {
            state.hand_over(answered);
        }
        is_much
    }

    /// The ring's thread will take answers by itself.
    pub(super) fn is_awake(&self) {
        self.state.lock().is_asleep = false;
    }

    /// The ring's thread is to end.
    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let must_wake = {
            let mut state = self.state.lock();
            change(&mut state);
            std::mem::take(&mut state.is_asleep)
        };
        if must_wake && let Err(error) = rustix::io::write(&self.event, &1_u64.to_ne_bytes()) {
            tracing::error!(%error, "a thread that serves a mount was not woken");
        }
    }
}

/// An entry whose request is being served: ours until it is answered.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Arc<Queue>,
    entry: usize,
    /// The request has bytes in the payload, which its handler may still read while it answers.
    is_read: bool,
}

impl Slot {
    pub(super) fn new(queue: &Arc<Queue>, entry: usize, is_read: bool) -> Self {
        Self { queue: queue.clone(), entry, is_read }
    }

    /// Answers: from the ring's own thread without a system call, from others with one if it
    /// sleeps.
    pub(crate) fn answer(self, error: i32, body: &[u8]) {
        let Self { queue, entry, is_read } = self;
        let (error, body) = match body.len() <= queue.memory.payload_bytes() {
            true => (error, body),
            false => (-libc::EIO, &[][..]),
        };
        let aside = if is_read { body.to_vec() } else { Vec::new() };
        if !is_read {
            // SAFETY: the entry is ours, whoever has the slot is alone with it, and the request
            // has no bytes in the payload that anybody could be reading.
            unsafe { queue.memory.put(entry, body) };
        }
        let answered = Answered { entry, error, bytes: body.len(), aside };
        queue.change(|state| state.add(answered));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<Queue> {
        Arc::new(Queue::new(Memory::new(2, 8192).expect("memory")).expect("a queue"))
    }

    /// How often the ring's thread was woken since it was asked last.
    fn wakes(queue: &Queue) -> u64 {
        let mut count = [0; 8];
        rustix::io::ioctl_fionbio(&queue.event, true).expect("it does not block");
        rustix::io::read(&queue.event, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn only_a_thread_that_sleeps_is_woken_and_once() {
        let (queue, mut answered) = (queue(), Vec::new());
        Slot::new(&queue, 0, false).answer(0, b"inline");
        assert_eq!(wakes(&queue), 0, "it takes answers by itself");
        assert!(!queue.take(&mut answered));
        assert_eq!((answered.len(), answered[0].bytes), (1, 6));
        answered.clear();
        Slot::new(&queue, 0, false).answer(0, b"later");
        Slot::new(&queue, 1, false).answer(-libc::EIO, b"");
        assert_eq!(wakes(&queue), 1);
        queue.is_awake();
        queue.end();
        assert_eq!(wakes(&queue), 0);
        assert!(queue.take(&mut answered), "it is over");
        assert_eq!((answered.len(), answered[1].error), (2, -libc::EIO));
    }

    #[test]
    fn what_a_handler_may_still_read_stays_as_it_is() {
        let (queue, mut answered) = (queue(), Vec::new());
        // SAFETY: nobody else has the queue.
        unsafe { queue.memory.put(0, b"request") };
        Slot::new(&queue, 0, true).answer(0, b"answer");
        Slot::new(&queue, 1, false).answer(0, b"answer");
        // SAFETY: nobody writes there.
        let bytes = |entry| unsafe { queue.memory.bytes_of(entry, 7) };
        assert_eq!((bytes(0), bytes(1)), (&b"request"[..], &b"answer\0"[..]));
        queue.take(&mut answered);
        assert_eq!((&answered[0].aside[..], answered[1].aside.len()), (&b"answer"[..], 0));
    }

    #[test]
    fn much_is_handed_over_at_once_and_too_much_not_at_all() {
        let (queue, mut answered) = (queue(), Vec::new());
        Slot::new(&queue, 0, false).answer(0, &[1; 100]);
        assert!(!queue.take_much(&mut answered) && answered.is_empty());
        Slot::new(&queue, 1, false).answer(0, &[1; 8193]);
        queue.take(&mut answered);
        assert_eq!((answered[1].error, answered[1].bytes), (-libc::EIO, 0));
    }
}
