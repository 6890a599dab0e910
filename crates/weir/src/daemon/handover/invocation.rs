//! How the daemon was called, so that another binary can be called so too.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::binary::Question;
use crate::command_line::insert_behind;

/// How the daemon was called.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    /// Its command line, without what was handed over.
    pub(crate) argv: Vec<OsString>,
    /// Where relative paths in it begin.
    pub(crate) directory: PathBuf,
}

/// The word behind which the daemon's own options go. Only mounts are handed over.
const COMMAND: &str = "mount";
const FLAG: &str = "--handed-over";

impl Invocation {
    /// Of this process.
    pub(crate) fn new(argv: &[OsString], directory: PathBuf) -> Self {
        let ours = |word: &OsStr| {
            word.to_str().and_then(|word| word.strip_prefix(FLAG)?.strip_prefix('=')).is_some()
        };
        let argv = argv.iter().filter(|word| !ours(word)).cloned().collect();
        Self { argv, directory }
    }

    /// The same call, of one that goes on by what it reads from this descriptor.
    pub(crate) fn handed(&self, descriptor: i32) -> Vec<OsString> {
        let flag = OsString::from(format!("{FLAG}={descriptor}"));
        insert_behind(&self.argv, COMMAND, flag)
    }

    /// What a binary is asked that is to be called so.
    pub(crate) fn question(&self, mountpoint: &Path) -> Question {
        let (argv, directory) = (self.argv.clone(), self.directory.clone().into());
        Question { argv, directory, mountpoint: mountpoint.into() }
    }

    /// Whether relative paths begin below the mount point.
    pub(crate) fn directory_in(&self, mountpoint: &Path) -> bool {
        self.directory.starts_with(mountpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_heir_is_called_as_we_were_and_so_is_its_own() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let line = words("weir -v mount --daemon=/l --tier /t -- s3://b /mnt");
        let first = Invocation::new(&line, "/".into());
        let heir = first.handed(7);
        assert_eq!(
            heir,
            words("weir -v mount --handed-over=7 --daemon=/l --tier /t -- s3://b /mnt")
        );
        let second = Invocation::new(&heir, "/".into());
        assert_eq!(second.argv, line);
        assert_eq!(second.handed(7), heir);
        assert!(!second.directory_in(Path::new("/mnt")));
        assert!(Invocation::new(&line, "/mnt/a".into()).directory_in(Path::new("/mnt")));
    }
}
