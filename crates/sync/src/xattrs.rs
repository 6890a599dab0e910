//! What is attached to files and directories besides owner, mode and times.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::unfinished::NOTE;

/// The longest list of names, and the longest value, that Linux knows.
const BYTES_MAX: usize = 64 << 10;
/// Access control lists: not every file system lists them.
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// Attributes that users see and may set: theirs, access control lists and capabilities. None where the
/// file system has no such thing.
fn all(file: impl AsFd) -> io::Result<Attributes> {
    let mut found = Attributes::new();
    let mut names = vec![0; BYTES_MAX];
    let length = match rustix::fs::flistxattr(&file, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(found),
        length => length?,
    };
    let is_kept = |name: &&[u8]| {
        (name.starts_with(b"user.") && *name != NOTE.as_bytes()) || *name == b"security.capability"
    };
    let listed = names[..length].split(|byte| *byte == 0).filter(is_kept);
    let mut value = vec![0; BYTES_MAX];
    for name in listed.chain(ACLS) {
        match rustix::fs::fgetxattr(&file, name, &mut value[..]) {
            Ok(length) => drop(found.insert(name.to_vec(), value[..length].to_vec())),
            // Gone, or not for everybody to see.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Whether both have the same.
pub(crate) fn are_same(ours: impl AsFd, theirs: impl AsFd) -> io::Result<bool> {
    Ok(all(ours)? == all(theirs)?)
}

/// Gives `to` what `from` has, and takes away what that has not. What the file system of `to` has not, or
/// this user may not set, stays as it is.
pub(crate) fn copy(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    let (wanted, there) = (all(from)?, all(&to)?);
    let done = |name: &[u8], result: Result<(), Errno>| match result {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(error @ (Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS)) => {
            let name = String::from_utf8_lossy(name);
            tracing::debug!(%name, %error, "an extended attribute was not copied");
            Ok(())
        }
        Err(error) => {
            let error = io::Error::from(error);
            let text = format!("its attribute {}: {error}", String::from_utf8_lossy(name));
            Err(io::Error::new(error.kind(), text))
        }
    };
    for name in there.keys().filter(|name| !wanted.contains_key(*name)) {
        done(name, rustix::fs::fremovexattr(&to, &name[..]))?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| there.get(*name) != Some(value)) {
        done(name, rustix::fs::fsetxattr(&to, &name[..], value, XattrFlags::empty()))?;
    }
    Ok(())
}
