//! Which requests the kernel wants to be ended.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Interrupts that are remembered where nobody waits for them: mostly their requests are answered.
const EARLY_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Who waits; nobody to be woken any more where the interrupt came.
    waiting: HashMap<u64, Option<Waker>>,
    /// Those that came before anybody waited. Another thread may read the interrupt while the one
    /// that read the request has just begun with it.
    early: VecDeque<u64>,
}

impl Interrupts {
    /// The kernel wants this request to be ended.
    pub(crate) fn came(&self, unique: u64) {
        let waker = {
            let mut table = self.table.lock();
            match table.waiting.get_mut(&unique) {
                Some(waker) => waker.take(),
                None => {
                    if table.early.len() == EARLY_MAX {
                        table.early.pop_front();
                    }
                    table.early.push_back(unique);
                    None
                }
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Ready when the kernel wants the request to be ended: a signal came to the thread that waits for
/// its answer. The kernel says so once for each request.
#[derive(Debug)]
pub struct Interrupted {
    interrupts: Arc<Interrupts>,
    unique: u64,
    registered: bool,
    /// The thread of which a signal may have come unheard.
    unheard: Option<u32>,
}

impl Interrupted {
    pub(crate) fn new(interrupts: Arc<Interrupts>, unique: u64) -> Self {
        Self { interrupts, unique, registered: false, unheard: None }
    }

    /// Of a request of a ring. The kernel does not tell of a signal that comes while the request is
    /// on its way there, nor of others after it: so it is looked for, once, when somebody listens.
    /// Later ones the kernel tells.
    pub(crate) fn of_ring(interrupts: Arc<Interrupts>, unique: u64, tid: u32) -> Self {
        Self { interrupts, unique, registered: false, unheard: Some(tid) }
    }
}

/// Whether a signal waits for a thread, or for its process where that has no other thread that may
/// take it. (Of one that kills a process each thread has its own.)
fn has_signal(tid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    };
    let alone = status.lines().any(|line| line.split_whitespace().eq(["Threads:", "1"]));
    let of_process = if alone { mask("ShdPnd") } else { 0 };
    (mask("SigPnd") | of_process) & !mask("SigBlk") != 0
}

impl Future for Interrupted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let unique = self.unique;
        let waker = context.waker().clone();
        let is_first = !std::mem::replace(&mut self.registered, true);
        let signalled = is_first && self.unheard.is_some_and(has_signal);
        let mut table = self.interrupts.table.lock();
        if signalled {
            table.waiting.insert(unique, None);
        }
        if is_first && let Some(at) = table.early.iter().position(|early| *early == unique) {
            table.early.remove(at);
            table.waiting.insert(unique, None);
            return Poll::Ready(());
        }
        match table.waiting.entry(unique) {
            Entry::Occupied(entry) if entry.get().is_none() => return Poll::Ready(()),
            Entry::Occupied(mut entry) => drop(entry.insert(Some(waker))),
            Entry::Vacant(entry) => drop(entry.insert(Some(waker))),
        }
        Poll::Pending
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        if self.registered {
            self.interrupts.table.lock().waiting.remove(&self.unique);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(interrupted: &mut Interrupted) -> bool {
        Pin::new(interrupted).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn it_is_heard_whenever_it_comes_and_by_its_request_only() {
        let table = Arc::new(Interrupts::default());
        let mut before = Interrupted::new(table.clone(), 2);
        let mut other = Interrupted::new(table.clone(), 4);
        assert!(!poll(&mut before) && !poll(&mut other));
        table.came(2);
        table.came(6);
        assert!(poll(&mut before) && poll(&mut before) && !poll(&mut other));
        assert!(poll(&mut Interrupted::new(table.clone(), 6)), "it came first");
        drop((before, other));
        assert!(table.table.lock().waiting.is_empty() && table.table.lock().early.is_empty());
    }

    #[test]
    fn a_signal_that_the_kernel_did_not_tell_of_is_found_when_somebody_listens() {
        let table = Arc::new(Interrupts::default());
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("a child to be signalled");
        let pid = child.id();
        let listens = || poll(&mut Interrupted::of_ring(table.clone(), 2, pid));
        assert!(!listens(), "it has none");
        // What is stopped keeps its signals until it goes on.
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::STOP).expect("a stop");
        rustix::process::waitpid(Some(process), rustix::process::WaitOptions::UNTRACED)
            .expect("it stops");
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("a signal");
        assert!(listens());
        assert!(!poll(&mut Interrupted::new(table.clone(), 2)), "of the device all are told");
        child.kill().expect("it ends");
        child.wait().expect("it ended");
        assert!(table.table.lock().waiting.is_empty());
    }

    #[test]
    fn those_that_nobody_hears_do_not_pile_up() {
        let table = Arc::new(Interrupts::default());
        (0..5000).for_each(|unique| table.came(unique));
        assert_eq!(table.table.lock().early.len(), EARLY_MAX);
        assert!(poll(&mut Interrupted::new(table, 4999)));
    }
}
