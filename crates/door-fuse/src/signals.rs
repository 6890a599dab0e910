//! Who has a request interrupted, and why.
//!
//! The kernel tells of every signal that comes to a thread while it waits for an answer, once for
//! each request, and not which signal it is. Programs expect that locks are interrupted by any, and
//! that no other use of a file is: a timer of theirs must not make an `open` or a `stat` fail. So
//! all other requests go on, also after a signal, until one comes that is to end the program.

use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What is waited for where nobody can say which signal came: longer than a bucket takes that
/// answers, so that a timer interrupts only who waits for one that does not.
const UNSEEN: Duration = Duration::from_secs(5);

/// Those that are sent to have a program end, and that it may catch to do so in its own way.
const TO_END: u64 = bit(libc::SIGHUP) | bit(libc::SIGINT) | bit(libc::SIGQUIT) | bit(libc::SIGTERM);
/// Those that do nothing, or stop a process, where they are not caught.
const HARMLESS: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGCONT)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

/// The bit of a signal in the masks of /proc/…/status.
const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Waits until thread `tid`, which has had a signal, is to end.
pub(crate) async fn until_ending(tid: u32) {
    let path = format!("/proc/{tid}/status");
    loop {
        match std::fs::read_to_string(&path) {
            Ok(status) if is_ending(&status) => return,
            Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
            // A thread of another PID namespace has the number 0 here, or cannot be seen.
            Err(_) => return tokio::time::sleep(UNSEEN).await,
        }
    }
}

/// Whether /proc/…/status tells of a signal that is to end the thread. One for the whole process
/// counts, too: the kernel chose this thread to take it.
fn is_ending(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk") & !mask("SigIgn");
    let caught = mask("SigCgt");
    // Nobody can catch SIGKILL, which the kernel makes for each thread of most fatal signals.
    pending & (TO_END | !caught & !HARMLESS) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u64 = 0;

    fn status(own: u64, shared: u64, blocked: u64, ignored: u64, caught: u64) -> String {
        format!(
            "Name:\tx\nThreads:\t4\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
        )
    }

    #[test]
    fn what_kills_ends_also_where_it_leaves_a_core() {
        for signal in [libc::SIGKILL, libc::SIGALRM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGXCPU] {
            assert!(is_ending(&status(bit(signal), NONE, NONE, NONE, NONE)), "{signal}");
            assert!(is_ending(&status(NONE, bit(signal), NONE, NONE, NONE)), "{signal}");
        }
        assert!(!is_ending(&status(NONE, NONE, NONE, NONE, NONE)));
        assert!(!is_ending(""));
    }

    #[test]
    fn who_catches_a_signal_is_ended_only_by_those_that_ask_for_it() {
        let all = u64::MAX;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            assert!(is_ending(&status(NONE, bit(signal), NONE, NONE, all)), "{signal}");
        }
        for signal in [libc::SIGALRM, libc::SIGPROF, libc::SIGURG, libc::SIGCHLD, libc::SIGUSR1] {
            assert!(!is_ending(&status(bit(signal), NONE, NONE, NONE, all)), "{signal}");
        }
    }

    #[test]
    fn what_is_blocked_ignored_or_harmless_ends_nobody() {
        let term = bit(libc::SIGTERM);
        assert!(!is_ending(&status(term, NONE, term, NONE, NONE)));
        assert!(!is_ending(&status(NONE, term, NONE, term, NONE)));
        for signal in [libc::SIGCHLD, libc::SIGWINCH, libc::SIGTSTP, libc::SIGCONT, libc::SIGURG] {
            assert!(!is_ending(&status(bit(signal), NONE, NONE, NONE, NONE)), "{signal}");
        }
    }
}
