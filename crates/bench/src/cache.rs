//! Caches between a program and the storage: emptied before what shall be read cold.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::mounts;
use crate::report::Warning;
use crate::suite::{BenchError, Run, Stop};

/// The kernel's switch. Source: Linux, Documentation/admin-guide/sysctl/vm.rst, `drop_caches`.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Pages, and directory entries and inodes.
const ALL: &str = "3";

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is to be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// The kernel's page cache: what is read next comes from the storage, or from its own cache.
    PageCache,
    /// The tier of a Weir mount as well: what is read next comes from the bucket.
    Tier,
}

/// Whether the page cache may be dropped here.
pub fn can_drop() -> bool {
    File::options().write(true).open(DROP_CACHES).is_ok()
}

/// Empties caches for what lies in the run's directory; what stays is in the warnings.
///
/// # Errors
/// When somebody stops the run.
pub fn empty(what: Empty, run: &Run<'_>) -> Result<Vec<Warning>, BenchError> {
    let mut warnings = Vec::new();
    let mut note = |done: Result<(), BenchError>| match done {
        Err(BenchError::Stopped) => Err(BenchError::Stopped),
        Err(error) => {
            warnings.push(Warning::Cached { why: error.to_string() });
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    if run.is_weir && what == Empty::Tier {
        note(release_tier(run))?;
    }
    note(drop_pages(run.dir))?;
    Ok(warnings)
}

/// Only clean pages can be dropped, so the file system is synced first.
fn drop_pages(dir: &Path) -> Result<(), BenchError> {
    let opened = File::open(dir).map_err(|error| BenchError::io(dir.display(), error))?;
    rustix::fs::syncfs(&opened)
        .map_err(|error| BenchError::io(format_args!("sync {}", dir.display()), error.into()))?;
    fs::write(DROP_CACHES, ALL)
        .map_err(|error| BenchError::io("the page cache could not be dropped", error))
}

/// What is not in the bucket yet cannot be released, so it is flushed first.
fn release_tier(run: &Run<'_>) -> Result<(), BenchError> {
    let mountpoint = mounts::holding(run.dir)?.mountpoint;
    weir(&run.weir, &["flush".as_ref(), mountpoint.as_os_str()], run.stop)?;
    weir(&run.weir, &["release".as_ref(), "-r".as_ref(), run.dir.as_os_str()], run.stop)
}

fn weir(program: &Path, words: &[&OsStr], stop: &Stop) -> Result<(), BenchError> {
    let shown = words.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
    let failed = |why: String| BenchError::Program { program: format!("weir {shown}"), why };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let (sender, says) = channel();
    let stderr = child.stderr.take();
    // Standard error ends when the program does.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut text));
        let _ = sender.send(text);
    });
    let said = loop {
        match says.recv_timeout(LOOK_EVERY) {
            Ok(text) => break text,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(stopped) = stop.check() {
            let _ = child.kill();
            let _ = child.wait();
            let _ = reader.join();
            return Err(stopped);
        }
    };
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(said.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;

    /// A run on a mount of a `weir` that notes what it is called with, and then does as `last` says.
    fn noted(bed: &Bed, last: &str, what: Empty) -> (Vec<Warning>, String) {
        let run = bed.run();
        let (weir, log) = (run.scratch.join("weir"), run.scratch.join("log"));
        let text = format!("#!/bin/sh\necho \"$@\" >>{}\n{last}\n", log.display());
        // Written by another process: no fork of ours can hold it open while it is run.
        let write = r#"printf %s "$1" >"$2" && chmod +x "$2""#;
        let words = [write, "sh", &text, &weir.display().to_string()];
        let written = Command::new("/bin/sh").arg("-c").args(words).status().expect("a shell");
        assert!(written.success());
        let warnings = empty(what, &Run { is_weir: true, weir, ..run }).expect("not stopped");
        (warnings, fs::read_to_string(log).unwrap_or_default())
    }

    #[test]
    fn a_tier_is_flushed_and_then_released() {
        let bed = Bed::new();
        let (warnings, said) = noted(&bed, "exit 0", Empty::Tier);
        let run = bed.run();
        let mountpoint = mounts::holding(run.dir).expect("a mount").mountpoint;
        let wanted = format!("flush {}\nrelease -r {}\n", mountpoint.display(), run.dir.display());
        assert_eq!(said, wanted);
        assert_eq!(warnings.is_empty(), can_drop(), "{warnings:?}");
    }

    #[test]
    fn a_tier_that_stays_is_told_and_left_alone_when_not_asked_for() {
        let (warnings, _) = noted(&Bed::new(), "echo still dirty >&2; exit 1", Empty::Tier);
        let why = "weir flush failed: still dirty".to_owned();
        assert!(warnings.contains(&Warning::Cached { why }), "{warnings:?}");
        let (_, said) = noted(&Bed::new(), "exit 1", Empty::PageCache);
        assert_eq!(said, "");
    }

    #[test]
    fn a_program_that_fails_gives_its_last_words() {
        let stop = Stop::default();
        let shell = |text: &str| weir("/bin/sh".as_ref(), &["-c".as_ref(), text.as_ref()], &stop);
        shell("exit 0").expect("succeeds");
        let error = shell("echo no such mount >&2; exit 1").expect_err("fails").to_string();
        assert!(error.contains("no such mount"), "{error}");
        let missing = weir("/nowhere/weir".as_ref(), &["flush".as_ref()], &stop);
        let error = missing.expect_err("is not there").to_string();
        assert!(error.contains("weir flush failed: No such file"), "{error}");
    }

    #[test]
    fn a_program_ends_when_the_run_is_stopped() {
        let stop = Stop::default();
        stop.now();
        let ended = weir("/bin/sleep".as_ref(), &["1000".as_ref()], &stop);
        assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
    }
}
