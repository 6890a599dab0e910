//! Files that are not yet in their place.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::time::Duration;

use object_store::{PutMode, PutPayload};
use rustix::fs::OFlags;

use super::beneath::Place;
use super::root::{LOCK_FILE, Root};
use crate::etags::etag;

/// A file that is not yet in its place, whose name listings leave out.
pub(super) struct Staged {
    pub(super) file: File,
    pub(super) place: Place,
}

impl Staged {
    /// A new one beside `target`.
    pub(super) fn beside(root: &Root, target: &Place) -> io::Result<Self> {
        let place = target.beside(&format!("#{}", rand::random::<u64>()));
        Ok(Self { file: place.create(root.file_mode)?, place })
    }

    /// A file that was written before.
    pub(super) fn found(place: Place) -> io::Result<Self> {
        Ok(Self { file: place.write()?, place })
    }

    /// Puts it in the place of `target`, if `mode` allows it. Answers the ETag.
    pub(super) fn publish(
        &self,
        root: &Root,
        target: &Place,
        mode: &PutMode,
    ) -> io::Result<Option<String>> {
        match mode {
            PutMode::Overwrite => self.replace(target).map(Some),
            PutMode::Create => self.create(target),
            PutMode::Update(version) => {
                self.replace_if(root, target, version.e_tag.as_deref().unwrap_or_default())
            }
        }
    }

    /// Puts it in the place of `target`, whatever object is there. What is there and no object,
    /// such as a symbolic link, is somebody's and stays.
    fn replace(&self, target: &Place) -> io::Result<String> {
        match target.kind() {
            Ok(kind) if !kind.is_file() => {
                let why = "something that is no regular file has its name";
                return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file.sync_all()?;
        let etag = etag(&self.file.metadata()?);
        self.place.rename(target)?;
        target.sync()?;
        Ok(etag)
    }

    /// Puts it at `target` unless something is there.
    fn create(&self, target: &Place) -> io::Result<Option<String>> {
        self.file.sync_all()?;
        let etag = etag(&self.file.metadata()?);
        let linked = self.place.link(target);
        // The winner of a race may not have come to this yet.
        target.sync()?;
        match linked {
            Ok(()) => {
                // What stays behind is hidden.
                let _ = self.place.remove();
                Ok(Some(etag))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts it in the place of `target` if that is there and has the ETag `expected`; returns the
    /// new one.
    fn replace_if(
        &self,
        root: &Root,
        target: &Place,
        expected: &str,
    ) -> io::Result<Option<String>> {
        self.file.sync_all()?;
        let _lock = locked(root)?;
        let Some(before) = still(target, expected)? else { return Ok(None) };
        // Inode numbers come back and clocks are coarse: without this an old ETag might fit again.
        let later = before.modified()? + Duration::from_micros(1);
        if self.file.metadata()?.modified()? < later {
            self.file.set_modified(later)?;
            self.file.sync_all()?;
        }
        let after = etag(&self.file.metadata()?);
        self.place.rename(target)?;
        target.sync()?;
        Ok(Some(after))
    }
}

/// The lock of all updates, held until it is dropped.
pub(super) fn locked(root: &Root) -> io::Result<File> {
    let open = || root.directory.file(LOCK_FILE.as_bytes(), OFlags::WRONLY).map(|(file, _)| file);
    let lock = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match root.directory.create(LOCK_FILE.as_bytes(), root.file_mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open()?,
                made => made?,
            }
        }
        other => other?,
    };
    lock.lock()?;
    Ok(lock)
}

/// What the object at `place` is, if it is there and has the ETag `expected`.
pub(super) fn still(place: &Place, expected: &str) -> io::Result<Option<Metadata>> {
    match place.look() {
        Ok(meta) => Ok(Some(meta).filter(|meta| etag(meta) == expected)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes `payload` to `target`, if `mode` allows it. Answers the ETag.
pub(super) fn put(
    root: &Root,
    target: &Place,
    payload: &PutPayload,
    mode: &PutMode,
) -> io::Result<Option<String>> {
    let mut staged = Staged::beside(root, target)?;
    let written = payload.iter().try_for_each(|piece| staged.file.write_all(piece));
    let put = written.and_then(|()| staged.publish(root, target, mode));
    if !matches!(put, Ok(Some(_))) {
        // It may have been renamed already; all that could stay behind is hidden.
        let _ = staged.place.remove();
    }
    put
}
