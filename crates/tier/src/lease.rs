//! Whether anybody else has a file open.
//!
//! A mapping of a file that the kernel reads past its FUSE door outlives the open file that it was
//! made with, and nobody is told when it goes. But it keeps the file below open, and the kernel
//! grants a lease only where nobody stands in its way.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `F_SETSIG` of fcntl(2); libc names it for few targets.
const F_SETSIG: libc::c_int = 10;

/// Whether this descriptor is the only one, of this process or any other, that has the file open.
/// An error where the file system knows no leases.
pub(crate) fn nobody_else(file: &File) -> io::Result<bool> {
    granted(file, libc::F_WRLCK)
}

/// Whether nobody has the file open for writing; `file` itself must be open for reading only.
pub(crate) fn no_writer(file: &File) -> io::Result<bool> {
    granted(file, libc::F_RDLCK)
}

/// Takes a lease and gives it back at once. Who opens the file in between waits for that long.
#[expect(unsafe_code, reason = "neither std nor rustix knows leases")]
fn granted(file: &File, kind: libc::c_int) -> io::Result<bool> {
    let fd = file.as_raw_fd();
    // Whoever is in the way of a lease has its holder signalled: by one that is ignored.
    for (command, value) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, kind)] {
        // SAFETY: the descriptor is open as long as `file` is, and both commands take an integer.
        if unsafe { libc::fcntl(fd, command, value) } != 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(false),
                _ => Err(error),
            };
        }
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) } {
        0 => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_descriptor_is_in_the_way_and_a_reader_is_no_writer() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let path = file.path().to_owned();
        let path = file.into_temp_path().keep().unwrap_or(path);
        let open = || File::open(&path).expect("open");
        let first = open();
        assert!(nobody_else(&first).expect("lease"));
        let second = open();
        assert!(!nobody_else(&first).expect("lease"));
        assert!(no_writer(&first).expect("lease"));
        drop(second);
        let writer = File::options().write(true).open(&path).expect("open");
        assert!(!no_writer(&first).expect("lease"));
        drop(writer);
        assert!(nobody_else(&first).expect("lease"), "a lease is given back");
        std::fs::remove_file(&path).expect("remove");
    }
}
