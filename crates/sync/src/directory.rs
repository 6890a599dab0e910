//! Files written into a directory: under another name first, with their attributes, then moved.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom as Hole, Uid};
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use crate::entry::{Entry, Kind};
use crate::place::Root;
use crate::target::{Target, own, times};
use crate::unfinished::unfinished;
use crate::walk::mtime_ns;
use crate::xattrs;

/// Bytes that are moved at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes that the file system is asked to copy at once.
const SHARED_BYTES: usize = 256 << 20;

/// Copies a file, and answers what its bytes hash to, unless an earlier run had begun it or they are not
/// read because both files `share` them. `step` is told of each block, and may end it.
pub(crate) fn copy(
    from: &Root,
    to: &Root,
    entry: &Entry,
    share: bool,
    step: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<Option<u64>> {
    let mut source = open_source(from, entry)?;
    let is = format!("{} {}", entry.size(), entry.mtime_ns);
    let mut target = Target::begin(to, &entry.path, Some(is))?;
    let begun = target.noted();
    step(begun)?;
    let hash = match share && share_data(&source, &target, entry.size(), step)? {
        true => None,
        false => Some(copy_data(&mut source, &mut target, entry.size(), step)?),
    };
    unchanged(&source, entry)?;
    if share {
        // What replaces a file has its bytes stored first: here many at once, and not one after the other, each while
        // the kernel keeps the directory.
        rustix::fs::fdatasync(target.file())?;
    }
    target.finish(entry, Some(&source))?;
    Ok(hash.filter(|_| begun == 0))
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
    let mut end = at;
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
        end = at;
        step(got as u64)?;
    }
    target.set_size(size, end)?;
    Ok(hash.digest())
}

/// Lets the file system copy what is no hole, without reading it where it can. Answers whether it could;
/// if not, nothing was written.
fn share_data(
    source: &File,
    target: &Target,
    size: u64,
    step: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<bool> {
    let mut at = target.noted();
    let mut written = at;
    while at < size {
        let data = data_from(source, at, size)?;
        if data > at {
            step(data - at)?;
            at = data;
            continue;
        }
        let end = match rustix::fs::seek(source, Hole::Hole(at)) {
            Ok(end) => end.min(size),
            Err(_) => size,
        };
        let (mut from, mut to) = (at, at);
        let wanted = usize::try_from(end - at).unwrap_or(SHARED_BYTES).min(SHARED_BYTES);
        let copied = rustix::fs::copy_file_range(
            source,
            Some(&mut from),
            target.file(),
            Some(&mut to),
            wanted,
        );
        match copied {
            Ok(0) => {
                let text = "it was cut while it was copied";
                return Err(io::Error::new(io::ErrorKind::Interrupted, text));
            }
            Ok(copied) => {
                at += copied as u64;
                written = at;
                step(copied as u64)?;
            }
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
                if at == target.noted() =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    target.set_size(size, written)?;
    Ok(true)
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

/// Makes a device, a socket or a pipe, in the place of what is there if that is no directory.
pub(crate) fn node(root: &Root, entry: &Entry, type_bits: u32, device: u64) -> io::Result<()> {
    let (parent, name) = root.open_parent(&entry.path)?;
    let made_as = unfinished(name);
    let _ = rustix::fs::unlinkat(&parent, &made_as, AtFlags::empty());
    let kind = FileType::from_raw_mode(type_bits);
    rustix::fs::mknodat(&parent, &made_as, kind, Mode::from_raw_mode(0o600), device)?;
    if let Some(owner) = &entry.owner {
        if rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&parent, &made_as, Some(user), Some(group), flags)?;
        }
        // Made just now, for us alone: it is no symbolic link.
        let mode = Mode::from_raw_mode(owner.mode);
        rustix::fs::chmodat(&parent, &made_as, mode, AtFlags::empty())?;
    }
    rustix::fs::utimensat(&parent, &made_as, &times(entry.mtime_ns), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(rustix::fs::renameat(&parent, &made_as, &parent, name)?)
}

/// Whether what is attached to a file or directory is the same in both places.
pub(crate) fn has_same_attributes(from: &Root, to: &Root, path: &[u8]) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |root: &Root| root.open(path, flags, Mode::empty());
    xattrs::are_same(open(from)?, open(to)?)
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

/// Mode, owner, attributes and time of a directory, once all is in it.
pub(crate) fn finish_directory(from: &Root, to: &Root, entry: &Entry) -> io::Result<()> {
    let directory = to.open_directory(&entry.path)?;
    if let Some(owner) = &entry.owner {
        own(&directory, owner)?;
    }
    // One that cannot be read was told of where it was listed.
    if let Ok(source) = from.open_directory(&entry.path) {
        xattrs::copy(source, &directory)?;
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
