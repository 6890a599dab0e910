//! Files written into a directory: under another name first, with their attributes, then moved.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, SeekFrom as Hole, Uid, XattrFlags};
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use crate::entry::{Entry, Kind};
use crate::place::Root;
use crate::target::{Target, own, times};
use crate::unfinished::unfinished;
use crate::walk::mtime_ns;

/// Bytes that are moved at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Copies a file, and answers what its bytes hash to, unless an earlier run had begun it. `step` is told
/// of each block, and may end it.
pub(crate) fn copy(
    from: &Root,
    to: &Root,
    entry: &Entry,
    step: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<Option<u64>> {
    let mut source = open_source(from, entry)?;
    let is = format!("{} {}", entry.size(), entry.mtime_ns);
    let mut target = Target::begin(to, &entry.path, Some(is))?;
    let begun = target.noted();
    step(begun)?;
    let hash = copy_data(&mut source, &mut target, entry.size(), step)?;
    copy_xattrs(&source, target.file());
    unchanged(&source, entry)?;
    target.finish(entry)?;
    Ok(Some(hash).filter(|_| begun == 0))
}

/// Opens a file that was listed; an error if it is another one by now.
pub(crate) fn open_source(root: &Root, entry: &Entry) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(root.open(&entry.path, flags, Mode::empty())?);
    unchanged(&file, entry)?;
    Ok(file)
}

/// An error of kind `Interrupted` if the file is not as it was listed.
pub(crate) fn unchanged(file: &File, entry: &Entry) -> io::Result<()> {
    let now = rustix::fs::fstat(file)?;
    let same = u64::try_from(now.st_size) == Ok(entry.size()) && mtime_ns(&now) == entry.mtime_ns;
    match same {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::Interrupted, "it changed while it was copied")),
    }
}

/// Copies what is no hole, from where an earlier run came to. The hash is that of these bytes, holes
/// among them as zeros.
fn copy_data(
    source: &mut File,
    target: &mut Target,
    size: u64,
    step: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut hash, mut block, mut at) = (Xxh3::new(), vec![0; BLOCK_BYTES], target.noted());
    while at < size {
        let data = data_from(source, at, size)?;
        if data > at {
            hash_zeros(&mut hash, data - at);
            step(data - at)?;
            at = data;
            continue;
        }
        let wanted = usize::try_from(size - at).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        source.seek(SeekFrom::Start(at))?;
        let got = source.read(&mut block[..wanted])?;
        if got == 0 {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "it was cut while it was copied",
            ));
        }
        hash.update(&block[..got]);
        target.write(&block[..got], at)?;
        at += got as u64;
        step(got as u64)?;
    }
    target.file().set_len(size)?;
    Ok(hash.digest())
}

/// Where the next data is, from `at` on; the end if there is none.
fn data_from(source: &File, at: u64, size: u64) -> io::Result<u64> {
    match rustix::fs::seek(source, Hole::Data(at)) {
        Ok(data) => Ok(data.min(size)),
        Err(Errno::NXIO) => Ok(size),
        // A file system that does not know holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(at),
        Err(error) => Err(error.into()),
    }
}

fn hash_zeros(hash: &mut Xxh3, mut count: u64) {
    let zeros = [0; 4096];
    while count > 0 {
        let now = count.min(zeros.len() as u64);
        hash.update(&zeros[..now as usize]);
        count -= now;
    }
}

/// What users attached to a file, where both file systems have that.
fn copy_xattrs(source: &File, target: &File) {
    let mut names = vec![0; 64 << 10];
    let Ok(length) = rustix::fs::flistxattr(source, &mut names[..]) else { return };
    let names = names[..length].split(|byte| *byte == 0);
    for name in names.filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0; 64 << 10];
        if let Ok(length) = rustix::fs::fgetxattr(source, name, &mut value[..]) {
            let set = rustix::fs::fsetxattr(target, name, &value[..length], XattrFlags::empty());
            if let Err(error) = set {
                tracing::debug!(%error, "an extended attribute was not copied");
            }
        }
    }
}

/// What the bytes of a file hash to, read from its disk where the kernel lets go of them.
pub(crate) fn hash(
    root: &Root,
    path: &[u8],
    step: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let mut file = File::from(root.open(path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?);
    rustix::fs::fdatasync(&file)?;
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let (mut hash, mut block) = (Xxh3::new(), vec![0; BLOCK_BYTES]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hash.digest()),
            got => hash.update(&block[..got]),
        }
        step(0)?;
    }
}

/// Makes a symbolic link, in the place of what is there if that is no directory.
pub(crate) fn link(root: &Root, entry: &Entry, target: &[u8]) -> io::Result<()> {
    let (parent, name) = root.open_parent(&entry.path)?;
    let made_as = unfinished(name);
    let _ = rustix::fs::unlinkat(&parent, &made_as, AtFlags::empty());
    rustix::fs::symlinkat(target, &parent, &made_as)?;
    if let Some(owner) = entry.owner.filter(|_| rustix::process::geteuid().is_root()) {
        let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
        rustix::fs::chownat(&parent, &made_as, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::utimensat(&parent, &made_as, &times(entry.mtime_ns), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(rustix::fs::renameat(&parent, &made_as, &parent, name)?)
}

/// Gives a file that is there one more name.
pub(crate) fn name_again(root: &Root, existing: &[u8], path: &[u8]) -> io::Result<()> {
    let (from, old) = root.open_parent(existing)?;
    let (parent, name) = root.open_parent(path)?;
    let made_as = unfinished(name);
    let _ = rustix::fs::unlinkat(&parent, &made_as, AtFlags::empty());
    rustix::fs::linkat(&from, old, &parent, &made_as, AtFlags::empty())?;
    rustix::fs::renameat(&parent, &made_as, &parent, name)?;
    // Of two names of one file a rename takes none away.
    let _ = rustix::fs::unlinkat(&parent, &made_as, AtFlags::empty());
    Ok(())
}

/// Mode, owner and time of a directory, once all is in it.
pub(crate) fn finish_directory(root: &Root, entry: &Entry) -> io::Result<()> {
    let directory = root.open_directory(&entry.path)?;
    if let Some(owner) = &entry.owner {
        own(&directory, owner)?;
    }
    Ok(rustix::fs::futimens(&directory, &times(entry.mtime_ns))?)
}

/// Removes what only the destination has. What is gone is fine.
pub(crate) fn remove(root: &Root, entry: &Entry) -> io::Result<()> {
    let (parent, name) = match entry.path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&entry.path[..at], &entry.path[at + 1..]),
        None => (&b""[..], &entry.path[..]),
    };
    let parent = match root.open_directory(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    let flags = match entry.kind {
        Kind::Directory => AtFlags::REMOVEDIR,
        _ => AtFlags::empty(),
    };
    match rustix::fs::unlinkat(&parent, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
