//! Runs other programs: until they end or the run is stopped, with their time and what they used.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::suite::{self, BenchError, Stop};

/// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// What writes a program's input.
type Feed<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'a>;

/// A program that is to be run, with its arguments.
pub struct Program<'a> {
    name: String,
    package: &'static str,
    command: Command,
    feed: Option<Feed<'a>>,
}

/// What came of a program that ended well.
#[derive(Debug)]
pub struct Finished {
    /// What it said, unless that went to a file.
    pub stdout: Vec<u8>,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Seconds of processor time that it and its children used.
    pub cpu_seconds: f64,
    /// The most memory that it had, in bytes.
    pub memory_bytes: u64,
}

impl<'a> Program<'a> {
    /// The program called `name`, a path or a name in `PATH`, that is in Debian's `package`.
    pub fn new(name: impl AsRef<OsStr>, package: &'static str) -> Self {
        let mut command = Command::new(name.as_ref());
        // A group of its own: a Ctrl-C in the terminal is ours to handle, and all can be ended.
        command.process_group(0).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { name: name.as_ref().to_string_lossy().into(), package, command, feed: None }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// The directory that it runs in: names of files that it splits or cuts at some characters are
    /// then free of whatever is above.
    pub fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// What it says goes into a file.
    pub fn stdout_to(mut self, path: &Path) -> Result<Self, BenchError> {
        self.command.stdout(File::create(path).map_err(suite::io(path))?);
        Ok(self)
    }

    /// Writes its input while it runs.
    pub fn feed(mut self, feed: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'a) -> Self {
        self.command.stdin(Stdio::piped());
        self.feed = Some(Box::new(feed));
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it is not there, fails, or the run is stopped: then it and its group are gone.
    pub fn run(self, stop: &Stop) -> Result<Finished, BenchError> {
        self.run_ticking(stop, &mut || ())
    }

    /// Runs it to its end and calls `tick` for each second that went by.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_ticking(
        mut self,
        stop: &Stop,
        tick: &mut dyn FnMut(),
    ) -> Result<Finished, BenchError> {
        stop.check()?;
        let began = Instant::now();
        let mut child = self.command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(&self.name, self.package),
            _ => BenchError::Io { what: format!("start {}", self.name), source: error },
        })?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tell, ended) = mpsc::channel();
        let pid = pid_of(&child);
        let feed = self.feed.take();
        thread::scope(|scope| {
            let fed = scope.spawn(move || match (feed, stdin) {
                (Some(feed), Some(stdin)) => {
                    let mut buffered = io::BufWriter::with_capacity(1 << 20, stdin);
                    feed(&mut buffered).and_then(|()| buffered.flush())
                }
                _ => Ok(()),
            });
            let said = scope.spawn(move || slurp(stdout));
            let complained = scope.spawn(move || slurp(stderr));
            scope.spawn(move || {
                wait_for_end(pid);
                // Whoever listens no longer has its answer.
                let _ = tell.send(Instant::now());
            });
            let at = watch(pid, &ended, stop, began, tick);
            let (status, used) = reap(pid).map_err(io_of(&self.name))?;
            let at = at?;
            let (stdout, stderr) = (joined(said), joined(complained));
            if !status.success() {
                let why = last_words(&stderr, &stdout, status);
                return Err(BenchError::Program { program: self.name, why });
            }
            fed.join().unwrap_or(Ok(())).map_err(io_of(&self.name))?;
            let seconds = at.duration_since(began).as_secs_f64();
            let cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
            let memory_bytes = u64::try_from(used.ru_maxrss).unwrap_or(0) << 10;
            Ok(Finished { stdout, seconds, cpu_seconds, memory_bytes })
        })
    }
}

/// Fails if a program is not in `PATH`: to be asked before work is done for it.
///
/// # Errors
/// That it is missing, and the package that has it.
pub fn require(name: &str, package: &'static str) -> Result<(), BenchError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir: PathBuf| dir.join(name));
    match places.any(|place| place.is_file()) {
        true => Ok(()),
        false => Err(missing(name, package)),
    }
}

fn missing(program: &str, package: &str) -> BenchError {
    BenchError::Missing { program: program.into(), package: package.into() }
}

fn io_of(name: &str) -> impl FnOnce(io::Error) -> BenchError {
    let what = format!("run {name}");
    move |source| BenchError::Io { what, source }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn slurp(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read until a pipe broke is all that there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

fn joined(reader: thread::ScopedJoinHandle<'_, Vec<u8>>) -> Vec<u8> {
    reader.join().unwrap_or_default()
}

/// Waits for a child's end and leaves it unreaped, so that its number stays its own until
/// [`reap`].
fn wait_for_end(pid: Pid) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(rustix::process::waitid(WaitId::Pid(pid), how), Err(rustix::io::Errno::INTR)) {}
}

/// Waits until it has ended, by itself or by our hand when the run is stopped.
fn watch(
    pid: Pid,
    ended: &Receiver<Instant>,
    stop: &Stop,
    began: Instant,
    tick: &mut dyn FnMut(),
) -> Result<Instant, BenchError> {
    let mut ticks = 0;
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(at) => return Ok(at),
            Err(RecvTimeoutError::Disconnected) => return Ok(Instant::now()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(stopped) = stop.check() {
            // Errors here say that nobody is left in the group.
            let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            let _ = ended.recv_timeout(GRACE);
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            return Err(stopped);
        }
        while ticks < began.elapsed().as_secs() {
            ticks += 1;
            tick();
        }
    }
}

/// Takes a child that has ended, or is about to, from the kernel.
#[expect(unsafe_code, reason = "neither std nor rustix tells what a child has used")]
fn reap(pid: Pid) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    loop {
        // SAFETY: all zeroes is a valid rusage.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places are ours and live through the call.
        match unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut used) }
        {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
            _ => return Ok((ExitStatus::from_raw(status), used)),
        }
    }
}

fn seconds_of(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// The last lines that it wrote, for whoever has to find out what is wrong.
fn last_words(stderr: &[u8], stdout: &[u8], status: ExitStatus) -> String {
    let said = if stderr.trim_ascii().is_empty() { stdout } else { stderr };
    let text = String::from_utf8_lossy(said);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(3)).1 {
        [] => status.to_string(),
        last => format!("{} ({status})", last.join("; ")),
    }
}

#[cfg(test)]
mod tests;
