//! Holding a mount still: the threads that read its requests stop between two of them, and the
//! kernel keeps what comes meanwhile. Programs only wait.
#![allow(unsafe_code, reason = "no library sends signals to one thread")]

use std::io;
use std::os::unix::thread::RawPthread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How often a thread that waits for a request is woken, until it stands still: a signal that comes
/// just before it begins to wait wakes nobody.
const WAKE_EVERY: Duration = Duration::from_millis(2);

/// The threads that read a mount's requests.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    hold: AtomicBool,
    over: AtomicBool,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    readers: Vec<Arc<Reader>>,
    resting: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Reader {
    thread: RawPthread,
    /// It waits for a request, or has just done so: only then it may be woken by a signal.
    reading: AtomicBool,
}

/// A thread that reads, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Place {
    readers: Arc<Readers>,
    reader: Arc<Reader>,
}

impl Place {
    /// This thread reads from now on.
    pub(crate) fn take(readers: &Arc<Readers>) -> Self {
        // SAFETY: it has no arguments, and cannot fail.
        let thread = unsafe { libc::pthread_self() };
        let reader = Arc::new(Reader { thread, reading: AtomicBool::new(false) });
        readers.table.lock().readers.push(reader.clone());
        Self { readers: readers.clone(), reader }
    }

    /// Reads one request, once nobody wants the mount to stand still.
    pub(crate) fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        if self.readers.hold.load(Ordering::SeqCst) {
            self.readers.rest();
        }
        self.reader.reading.store(true, Ordering::SeqCst);
        let done = read();
        self.reader.reading.store(false, Ordering::SeqCst);
        done
    }

    /// Whether nothing more is to be read, although the kernel may have more.
    pub(crate) fn is_over(&self) -> bool {
        self.readers.over.load(Ordering::SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.readers.table.lock();
        table.readers.retain(|reader| !Arc::ptr_eq(reader, &self.reader));
        self.readers.changed.notify_all();
    }
}

impl Table {
    /// Ends the wait of each that waits for a request.
    fn wake(&self) {
        for reader in self.readers.iter().filter(|one| one.reading.load(Ordering::SeqCst)) {
            // SAFETY: a thread leaves the table, which is locked, before it ends; and its signal
            // has a handler that does nothing.
            unsafe { libc::pthread_kill(reader.thread, wake_up()) };
        }
    }
}

impl Readers {
    fn rest(&self) {
        let mut table = self.table.lock();
        table.resting += 1;
        self.changed.notify_all();
        while self.hold.load(Ordering::SeqCst) {
            self.changed.wait(&mut table);
        }
        table.resting -= 1;
    }

    /// Returns when all stand still; what each was serving itself is served then.
    pub(crate) fn hold(&self, limit: Duration) -> io::Result<()> {
        hear_wake_ups()?;
        let end = Instant::now() + limit;
        let mut table = self.table.lock();
        self.hold.store(true, Ordering::SeqCst);
        while table.resting < table.readers.len() && Instant::now() < end {
            table.wake();
            self.changed.wait_for(&mut table, WAKE_EVERY);
        }
        let still = table.resting == table.readers.len();
        let any = !table.readers.is_empty();
        drop(table);
        match (still, any) {
            (true, true) => return Ok(()),
            (true, false) => self.go_on(),
            (false, _) => {
                self.go_on();
                let text = "a thread that serves the mount is busy with one request all the time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, "nobody serves the mount any more"))
    }

    /// Has all leave after what each is serving, whatever the kernel has; `false` if one is busy for
    /// longer than `limit`, and leaves later.
    pub(crate) fn end(&self, limit: Duration) -> io::Result<bool> {
        hear_wake_ups()?;
        self.over.store(true, Ordering::SeqCst);
        let end = Instant::now() + limit;
        let mut table = self.table.lock();
        while !table.readers.is_empty() && Instant::now() < end {
            table.wake();
            self.changed.wait_for(&mut table, WAKE_EVERY);
        }
        Ok(table.readers.is_empty())
    }

    /// All read again.
    pub(crate) fn go_on(&self) {
        let _table = self.table.lock();
        self.hold.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

/// The signal that ends a wait for a request. Nobody else sends it.
fn wake_up() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

/// Gives the signal a handler that does nothing, so that it ends a wait and not the process.
fn hear_wake_ups() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a sigaction of zeros is a valid one, without SA_RESTART; the handler touches nothing.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(wake_up(), &raw const action, std::ptr::null_mut())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn who_waits_for_a_request_stands_still_and_goes_on_without_having_lost_one() {
        let readers = Arc::new(Readers::default());
        let (mut kernel, device) = UnixStream::pair().expect("a pair");
        let served = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (readers, served) = (readers.clone(), served.clone());
                let mut device = device.try_clone().expect("one more");
                std::thread::spawn(move || {
                    let place = Place::take(&readers);
                    loop {
                        match place.read(|| device.read(&mut [0])) {
                            Ok(1) => drop(served.fetch_add(1, Ordering::SeqCst)),
                            Ok(_) => return,
                            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
                        }
                    }
                })
            })
            .collect();
        let came = |count: usize| {
            let end = Instant::now() + Duration::from_secs(10);
            while served.load(Ordering::SeqCst) < count {
                assert!(Instant::now() < end, "a request is lost");
                std::thread::yield_now();
            }
        };
        while readers.table.lock().readers.len() < 3 {
            std::thread::yield_now();
        }
        for round in 0..20 {
            kernel.write_all(&[1]).expect("sends");
            came(2 * round + 1);
            readers.hold(Duration::from_secs(10)).expect("they stand still");
            kernel.write_all(&[1]).expect("sends");
            (0..100).for_each(|_| std::thread::yield_now());
            assert_eq!(served.load(Ordering::SeqCst), 2 * round + 1, "nobody reads");
            readers.go_on();
            came(2 * round + 2);
        }
        drop((kernel, device));
        for thread in threads {
            thread.join().expect("ends");
        }
        let gone = readers.hold(Duration::from_secs(1)).expect_err("nobody is there");
        assert_eq!(gone.kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn who_waits_for_a_request_leaves_when_nothing_more_is_to_be_read() {
        let readers = Arc::new(Readers::default());
        let (kernel, device) = UnixStream::pair().expect("a pair");
        let reading = readers.clone();
        let thread = std::thread::spawn(move || {
            let place = Place::take(&reading);
            let mut device = device;
            while !place.is_over() {
                let came = place.read(|| device.read(&mut [0]));
                assert_eq!(came.map_err(|e| e.kind()), Err(io::ErrorKind::Interrupted));
            }
        });
        while readers.table.lock().readers.is_empty() {
            std::thread::yield_now();
        }
        assert!(readers.end(Duration::from_secs(10)).expect("signals"), "it does not leave");
        thread.join().expect("ends");
        drop(kernel);
    }

    #[test]
    fn who_is_busy_for_too_long_is_told_of_and_all_go_on() {
        let readers = Arc::new(Readers::default());
        let place = Place::take(&readers);
        let busy = readers.hold(Duration::from_millis(10)).expect_err("this thread is busy");
        assert_eq!(busy.kind(), io::ErrorKind::TimedOut);
        assert_eq!(place.read(|| 7), 7);
    }
}
