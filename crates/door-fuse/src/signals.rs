//! Whether a waiting thread has a signal to see to.
//!
//! fuser refuses the kernel's FUSE_INTERRUPT, after which the kernel does not send it any more and
//! a thread that waits for an answer cannot even be killed. For waits without an end, which are
//! those for locks and for throughput, the door looks for pending signals itself.

use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until thread `tid` has a signal to see to; for ever if it cannot be looked at.
pub(crate) async fn until_signalled(tid: u32) {
    until(tid, has_signal).await;
}

/// Waits until thread `tid` is to die; for ever if it cannot be looked at. Programs do not expect
/// that reads and writes of files are interrupted by anything else.
pub(crate) async fn until_killed(tid: u32) {
    until(tid, is_killed).await;
}

async fn until(tid: u32, tells: fn(&str) -> bool) {
    let path = format!("/proc/{tid}/status");
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // A thread of another PID namespace has the number 0 here, or cannot be seen.
        match std::fs::read_to_string(&path) {
            Ok(status) if tells(&status) => return,
            Ok(_) => {}
            Err(_) => std::future::pending().await,
        }
    }
}

/// Whether /proc/…/status tells of a signal that is pending for the thread itself, neither blocked
/// nor ignored. One for the whole process counts only where there is no other thread to take it:
/// a call that is answered EINTR without a signal for its thread would return nonsense.
fn has_signal(status: &str) -> bool {
    let field = |name: &str| {
        status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let mask = |name: &str| field(name).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let mut pending = mask("SigPnd").unwrap_or(0);
    if field("Threads") == Some("1") {
        pending |= mask("ShdPnd").unwrap_or(0);
    }
    pending & !mask("SigBlk").unwrap_or(0) & !mask("SigIgn").unwrap_or(0) != 0
}

/// Whether the thread is to die: the kernel makes a SIGKILL for each thread of every fatal signal
/// that leaves no core.
fn is_killed(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    pending.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0) & SIGKILL != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(threads: u32, own: u64, shared: u64, blocked: u64, ignored: u64) -> String {
        format!(
            "Name:\tx\nThreads:\t{threads}\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t0\n"
        )
    }

    #[test]
    fn only_signals_that_this_thread_would_take_count() {
        assert!(!has_signal(&status(1, 0, 0, 0, 0)));
        assert!(has_signal(&status(4, 1 << 8, 0, 0, 0)), "SIGKILL");
        assert!(has_signal(&status(1, 0, 1 << 14, 0, 0)), "SIGTERM to the process");
        assert!(!has_signal(&status(2, 0, 1 << 14, 0, 0)), "another thread may take it");
        assert!(!has_signal(&status(1, 1 << 14, 0, 1 << 14, 0)), "blocked");
        assert!(!has_signal(&status(1, 1 << 14, 0, 0, 1 << 14)), "ignored");
        assert!(!has_signal(""));
    }

    #[test]
    fn who_is_interrupted_is_not_killed() {
        assert!(is_killed(&status(4, 1 << 8, 0, 0, 0)));
        assert!(!is_killed(&status(1, 1 << 14 | 1 << 22, 1 << 8, 0, 0)));
        assert!(!is_killed(""));
    }
}
