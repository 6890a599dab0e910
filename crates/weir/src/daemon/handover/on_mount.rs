//! What a new binary reads before it serves must not lie on the mount that it is to serve: it would
//! wait for itself.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_types::{ErrorKind, FsError, Result};

use crate::daemon::work::Work;
use crate::passphrase::is_asked_for;

/// Variables of the environment that name files or directories to read, by how their names begin.
const READ: [&str; 6] = ["HOME", "AWS_", "SSL_CERT_", "LD_", "XDG_", "WEIR_"];
/// Files in the home directory that may be links to elsewhere.
const IN_HOME: [&str; 2] = [".aws/config", ".aws/credentials"];

/// An error if something that is read before the mount is served lies on it.
pub(crate) fn check(work: &Work, mountpoint: &Path) -> Result<()> {
    let device = device(mountpoint);
    let on_mount = named(work).into_iter().chain(in_environment(std::env::vars_os()));
    match on_mount.into_iter().find(|(_, path)| self::device(path) == device) {
        None => Ok(()),
        Some((what, path)) => {
            let text = format!(
                "{what} {} is on the mount, where nobody could read it while this binary begins: have \
                 it elsewhere, or unmount, and mount with this version",
                path.display()
            );
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

/// What the command line names.
fn named(work: &Work) -> Vec<(String, PathBuf)> {
    let (args, nbd) = (work.engine(), work.nbd());
    // What was asked for is in the environment.
    let key_file = args.connect.key.key_file.clone().filter(|path| !is_asked_for(path));
    let files = [
        ("--config", &args.config),
        ("--log-file", &args.log_file),
        ("the log file", &args.daemon),
        ("--admin-token-file", &args.admin_token_file),
        ("--key-file", &key_file),
        ("--nbd-tls-cert", &nbd.nbd_tls_cert),
        ("--nbd-tls-key", &nbd.nbd_tls_key),
        ("--nbd-tls-client-ca", &nbd.nbd_tls_client_ca),
    ];
    let given = files.into_iter().filter_map(|(what, path)| Some((what, path.clone()?)));
    given.map(|(what, path)| (what.to_owned(), path)).collect()
}

/// What the environment names.
fn in_environment(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for (name, value) in all {
        let Some(name) = name.to_str().filter(|name| READ.iter().any(|one| name.starts_with(one)))
        else {
            continue;
        };
        // Some are lists.
        for path in std::env::split_paths(&value).filter(|path| path.is_absolute()) {
            found.push((name.to_owned(), path.clone()));
            if name == "HOME" {
                found.extend(IN_HOME.map(|file| (format!("{name}'s"), path.join(file))));
            }
        }
    }
    found
}

/// The file system of a path, or of where it would be made.
fn device(path: &Path) -> Option<u64> {
    path.ancestors().find_map(|at| {
        let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        fs::metadata(at).ok().map(|found| found.dev())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_found_in_the_environment() {
        let all = [
            ("HOME", "/h"),
            ("AWS_CONFIG_FILE", "/c"),
            ("AWS_REGION", "eu-west-1"),
            ("LD_LIBRARY_PATH", "/l:/m:n"),
            ("PWD", "/p"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into())).into_iter();
        let found = in_environment(all);
        let paths: Vec<_> = found.iter().map(|(_, path)| path.to_str().expect("text")).collect();
        assert_eq!(paths, ["/h", "/h/.aws/config", "/h/.aws/credentials", "/c", "/l", "/m"]);
    }

    #[test]
    fn what_is_not_made_yet_is_where_it_would_be() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = device(directory.path());
        assert!(here.is_some());
        assert_eq!(device(&directory.path().join("a/b/c")), here);
        assert_eq!(device(Path::new("nowhere")), device(Path::new(".")));
        assert_ne!(device(Path::new("/proc")), here);
    }
}
