//! Caches between a program and the storage: emptied before what shall be read cold.

use std::fs::{self, File};

use crate::mounts;
use crate::program::Program;
use crate::report::Warning;
use crate::suite::{BenchError, Run};

/// The kernel's switch. Source: Linux, Documentation/admin-guide/sysctl/vm.rst, `drop_caches`.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Pages, and directory entries and inodes.
const ALL: &str = "3";

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
    note(drop_pages())?;
    Ok(warnings)
}

/// Only clean pages can be dropped, so all file systems are synced first: the pages of what a
/// directory holds may be those of files elsewhere, as those of a tier are.
fn drop_pages() -> Result<(), BenchError> {
    rustix::fs::sync();
    fs::write(DROP_CACHES, ALL)
        .map_err(|error| BenchError::io("the page cache could not be dropped", error))
}

/// What is not in the bucket yet cannot be released, so it is flushed first.
fn release_tier(run: &Run<'_>) -> Result<(), BenchError> {
    let mountpoint = mounts::holding(run.dir)?.mountpoint;
    let weir = || Program::new(&run.weir, "weir");
    weir().arg("flush").arg(mountpoint).run(run.stop)?;
    weir().args(["release", "-r"]).arg(run.dir).run(run.stop)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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
        let told = |warning: &Warning| matches!(warning, Warning::Cached { why } if why.contains("still dirty"));
        assert!(warnings.iter().any(told), "{warnings:?}");
        let (_, said) = noted(&Bed::new(), "exit 1", Empty::PageCache);
        assert_eq!(said, "");
    }
}
