//! Where a daemon's socket and log are, found again from its place alone: the mount point, or the
//! URL of the volume that it serves.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use weir_engine::BucketUrl;
use weir_tier::private;
use weir_types::{ErrorKind, FsError, Result};

/// In a directory of sockets, that of those which are open to all users. Short: see [`NAME_BYTES`].
const USERS: &str = "all";
/// Longest name made from a place; a socket's whole path must fit into 107 bytes.
const NAME_BYTES: usize = 64;

/// A place as one file name: `/mnt/my data` becomes `mnt-my%20data`. Different places have different
/// names.
pub(crate) fn escaped(place: &Path) -> String {
    let bytes = place.as_os_str().as_bytes();
    let inner = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let mut name = String::new();
    for byte in inner {
        match byte {
            b'/' => name.push('-'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => name.push(char::from(*byte)),
            // A dot at the start would hide the file.
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    match name.len() {
        0 => "%2f".to_owned(),
        1..=NAME_BYTES => name,
        _ => format!("{}%{:016x}", &name[..NAME_BYTES - 17], fnv1a(bytes)),
    }
}

/// FNV-1a: stable over versions, which the standard library's hashes do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The place of a daemon, as somebody names it: where it is mounted, or the URL of the volume that
/// it serves.
pub(crate) fn place(named: &Path) -> Result<PathBuf> {
    match named.to_str().filter(|text| text.contains("://")) {
        None => real(named),
        Some(url) => Ok(of_volume(&url.parse()?)),
    }
}

/// The place of a daemon that serves a volume without mounting it.
pub(crate) fn of_volume(url: &BucketUrl) -> PathBuf {
    url.to_string().into()
}

/// The path as the kernel names it, without touching what is mounted there: its daemon may be
/// gone. A symlink is followed.
pub(crate) fn real(path: &Path) -> Result<PathBuf> {
    let failed = |error| FsError::local_io(path.display(), error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    let real = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent).map_err(failed)?.join(name),
        _ => return Ok(absolute),
    };
    match fs::symlink_metadata(&real) {
        Ok(found) if found.is_symlink() => fs::canonicalize(&real).map_err(failed),
        _ => Ok(real),
    }
}

/// Directories in which sockets may be, best first: `$WEIR_RUN_DIR`, or `/run/weir` and
/// `$XDG_RUNTIME_DIR/weir`.
pub(crate) fn run_directories() -> Vec<PathBuf> {
    if let Some(directory) = std::env::var_os("WEIR_RUN_DIR") {
        return vec![directory.into()];
    }
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("weir"));
    std::iter::once(PathBuf::from("/run/weir")).chain(user).collect()
}

/// Directories of sockets that this user may open, best first.
pub(crate) fn open_directories() -> Vec<PathBuf> {
    let mut directories = run_directories();
    if !rustix::process::geteuid().is_root() {
        let open: Vec<_> = directories.iter().map(|own| own.join(USERS)).collect();
        directories.extend(open);
    }
    directories
}

/// Where root's daemons have the sockets that are open to all users; none for those of others.
pub(crate) fn users_directory(own: &Path) -> Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let open = own.join(USERS);
    let at = |error| FsError::local_io(open.display(), error);
    fs::DirBuilder::new().recursive(true).create(&open).map_err(at)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).map_err(at)?;
    // Others come through, and see nothing on the way.
    fs::set_permissions(own, fs::Permissions::from_mode(0o711)).map_err(at)?;
    Ok(Some(open))
}

/// The first of [`run_directories`] that is ours alone, made if need be.
pub(crate) fn own_run_directory() -> Result<PathBuf> {
    let mut why = Vec::new();
    for directory in run_directories() {
        match make_private(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => why.push(error.to_string()),
        }
    }
    let text = format!(
        "no directory for the admin socket ({}): set XDG_RUNTIME_DIR or WEIR_RUN_DIR to a \
         directory of yours",
        why.join("; ")
    );
    Err(FsError::new(ErrorKind::Permission, text))
}

/// Whoever can write there could speak in the daemon's name, so nobody else may.
fn make_private(directory: &Path) -> Result<()> {
    let at = |error| FsError::local_io(directory.display(), error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
    let found = fs::metadata(directory).map_err(at)?;
    let mine = rustix::process::geteuid().as_raw();
    match open_to_others(found.uid(), mine, found.mode() & 0o777) {
        None => Ok(()),
        Some(why) => {
            let text = format!("{} {why}", directory.display());
            Err(FsError::new(ErrorKind::Permission, text))
        }
    }
}

/// Why others than user `mine` can get at a directory.
fn open_to_others(owner: u32, mine: u32, mode: u32) -> Option<String> {
    match owner == mine {
        false => Some(format!("belongs to user {owner}, not to user {mine}")),
        // What is in it is nobody else's to see or change; passing through is not seeing.
        true => (mode & 0o066 != 0).then(|| format!("must have mode 700, not {mode:o}")),
    }
}

/// The socket of the daemon of a place, in `directory`.
pub(crate) fn socket(directory: &Path, place: &Path) -> PathBuf {
    directory.join(format!("{}.sock", escaped(place)))
}

/// Opens the log of a daemon: the file asked for, else in `/var/log/weir`, else in the tier.
pub(crate) fn open_log(
    asked: Option<&Path>,
    place: &Path,
    tier: &Path,
) -> Result<(PathBuf, fs::File)> {
    if let Some(path) = asked {
        return open_log_file(path);
    }
    let name = format!("{}.log", escaped(place));
    open_log_file(&Path::new("/var/log/weir").join(&name))
        .or_else(|_| open_log_file(&tier.join(&name)))
}

/// Opens a log file, and answers its absolute path. It names files, so it is for this user alone.
pub(crate) fn open_log_file(path: &Path) -> Result<(PathBuf, fs::File)> {
    let open = || {
        let path = std::path::absolute(path)?;
        private::make_directories(path.parent().unwrap_or(Path::new("/")))?;
        let file = private::options().append(true).open(&path)?;
        let meta = file.metadata()?;
        // A group that was let in on purpose may stay.
        if meta.is_file() && meta.mode() & 0o007 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok((path, file))
    };
    let failed = |error| FsError::local_io(format!("open the log file {}", path.display()), error);
    open().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_directory_is_is_told_before_its_mode() {
        assert_eq!(open_to_others(7, 7, 0o700), None);
        let told = |owner, mode| open_to_others(owner, 7, mode).expect("told");
        assert_eq!(told(0, 0o700), "belongs to user 0, not to user 7");
        assert_eq!(told(7, 0o755), "must have mode 700, not 755");
    }

    #[test]
    fn mount_points_become_names_that_differ() {
        for (path, name) in [
            ("/", "%2f"),
            ("/mnt", "mnt"),
            ("/mnt/data", "mnt-data"),
            ("/mnt-data", "mnt%2ddata"),
            ("/mnt/my data", "mnt-my%20data"),
            ("/.hidden/v1.2", "%2ehidden-v1.2"),
            ("/50%", "50%25"),
            ("s3://b/v", "s3%3a--b-v"),
        ] {
            assert_eq!(escaped(Path::new(path)), name);
        }
        let long = format!("/{}", "x".repeat(300));
        let (a, b) =
            (escaped(Path::new(&format!("{long}a"))), escaped(Path::new(&format!("{long}b"))));
        assert_eq!((a.len(), b.len()), (NAME_BYTES, NAME_BYTES));
        assert_ne!(a, b);
    }

    #[test]
    fn a_url_is_a_place_whichever_way_it_is_written() {
        for url in ["s3://b/v", "s3://b//v/"] {
            assert_eq!(place(Path::new(url)).expect(url), Path::new("s3://b/v"));
        }
        assert!(place(Path::new("s4://b/v")).is_err());
        assert_eq!(place(Path::new("/")).expect("a directory"), Path::new("/"));
    }

    #[test]
    fn a_directory_that_others_may_enter_is_no_place_for_a_socket() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("dir");
        let inner = dir.path().join("weir");
        make_private(&inner).expect("made");
        make_private(&inner).expect("there already");
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).expect("chmod");
        let error = make_private(&inner).expect_err("open to all");
        assert!(error.to_string().contains("700"), "{error}");
    }

    #[test]
    fn a_symlink_leads_to_the_mount_point() {
        let dir = tempfile::tempdir().expect("dir");
        let there = dir.path().canonicalize().expect("path").join("there");
        fs::create_dir(&there).expect("mkdir");
        std::os::unix::fs::symlink(&there, dir.path().join("link")).expect("symlink");
        assert_eq!(real(&dir.path().join("link")).expect("real"), there);
        assert_eq!(real(&dir.path().join("there/../there")).expect("real"), there);
    }
}
