//! Listing directories.

use weir_engine::DirEntryPlus;
use weir_types::{Ino, Inode};

use crate::attributes::{Subject, above, mounted_on, need_space, readable};
use crate::caller::READ;
use crate::compound::Compound;
use crate::handle::Handle;
use crate::protocol::bitmap::Bitmap;
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};

/// Cookies mean the same for ever, so that listings are always the same one.
const VERIFIER: [u8; 8] = [0; 8];
/// Those that the protocol keeps for itself.
const COOKIE_MIN: u64 = 3;
/// What an answer has beside its entries: verifier, the end of the list, whether it is all.
const BESIDE_BYTES: usize = 16;
/// The least that an entry takes: its presence, cookie, name and attributes.
const ENTRY_BYTES_MIN: usize = 32;
/// Entries asked of the engine at once.
const PAGE_MAX: usize = 1_024;

/// What is asked of a listing.
struct Asked {
    cookie: u64,
    /// Bytes that the answer may have.
    bytes: usize,
    attributes: Bitmap,
}

/// An entry as it is sent.
struct Entry {
    cookie: u64,
    name: Vec<u8>,
    handle: Handle,
    inode: Inode,
    is_mount: bool,
}

impl Compound {
    pub(crate) async fn readdir(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (cookie, verifier) = (input.u64()?, input.fixed::<8>()?);
        let (_names_bytes, bytes) = (input.u32()?, input.u32()?);
        let (attributes, _) = Bitmap::read(input)?;
        let handle = self.handle()?;
        if cookie != 0 && verifier != VERIFIER {
            return Err(Status::NOT_SAME.into());
        }
        if cookie > 0 && cookie < COOKIE_MIN {
            return Err(Status::BAD_COOKIE.into());
        }
        let bytes = (bytes as usize).min(self.room);
        let bytes = bytes.checked_sub(BESIDE_BYTES).ok_or(Status::TOOSMALL)?;
        let asked = Asked { cookie, bytes, attributes: readable(attributes, self.minor)? };
        out.fixed(&VERIFIER);
        match handle {
            Handle::Above => self.list_exports(&asked, out).await,
            Handle::Inode { .. } => self.list(&asked, out).await,
        }
    }

    async fn list(&self, asked: &Asked, out: &mut Writer) -> Served<()> {
        let target = self.target()?;
        self.directory(&target, READ).await?;
        let engine = &self.server.engine;
        let mut after = asked.cookie;
        let mut left = asked.bytes;
        let mut any = false;
        loop {
            let limit = (left / (ENTRY_BYTES_MIN * 4)).clamp(16, PAGE_MAX);
            let page = engine.readdir_plus(target.ino, after, limit).await?;
            let is_last = page.len() < limit;
            let mut page = page.into_iter().peekable();
            while let Some(first) = page.next() {
                // Entries of one cookie go together.
                let cookie = first.entry.cookie;
                let mut group = vec![self.entry(target.export.id, first)];
                while let Some(next) = page.next_if(|next| next.entry.cookie == cookie) {
                    group.push(self.entry(target.export.id, next));
                }
                let mark = out.mark();
                let before = out.len();
                for entry in &group {
                    self.write_entry(entry, asked, out).await?;
                }
                let took = out.len() - before;
                if took > left {
                    out.rewind(mark);
                    return Self::end(any, false, out);
                }
                (left, any, after) = (left - took, true, cookie);
            }
            if is_last {
                return Self::end(true, true, out);
            }
        }
    }

    /// The end of a list, of which none was sent if not one entry had room.
    fn end(any: bool, is_all: bool, out: &mut Writer) -> Served<()> {
        if !any {
            return Err(Status::TOOSMALL.into());
        }
        out.bool(false);
        out.bool(is_all);
        Ok(())
    }

    fn entry(&self, export: u32, found: DirEntryPlus) -> Entry {
        let handle = Handle::Inode { export, ino: found.inode.ino };
        let DirEntryPlus { entry, inode } = found;
        Entry { cookie: entry.cookie, name: entry.name, handle, inode, is_mount: false }
    }

    async fn write_entry(&self, entry: &Entry, asked: &Asked, out: &mut Writer) -> Served<()> {
        out.bool(true);
        out.u64(entry.cookie);
        out.opaque(&entry.name);
        let space = match need_space(asked.attributes) {
            true => Some(self.server.engine.statfs(entry.inode.ino).await?),
            false => None,
        };
        let (handle, inode, is_mount) = (entry.handle, &entry.inode, entry.is_mount);
        let subject = Subject { handle, inode, space, is_mount, minor: self.minor };
        subject.write(&self.server, asked.attributes, out);
        Ok(())
    }

    /// The directory above all exports has one entry for each.
    async fn list_exports(&self, asked: &Asked, out: &mut Writer) -> Served<()> {
        let mut left = asked.bytes;
        let mut any = false;
        for export in self.server.exports.list(self.from()) {
            let cookie = COOKIE_MIN + u64::from(export.id);
            if cookie <= asked.cookie {
                continue;
            }
            let handle = Handle::Inode { export: export.id, ino: export.root };
            // Whoever asks from here sees the directory, not what the export lets it see.
            let mut inode = match self.server.engine.getattr(export.root).await {
                Ok(inode) => inode,
                Err(_) => above(&self.server),
            };
            if inode.ino == above(&self.server).ino {
                inode.ino = Ino(mounted_on(handle));
            }
            let name = export.name.clone().into_bytes();
            let entry = Entry { cookie, name, handle, inode, is_mount: true };
            let (mark, before) = (out.mark(), out.len());
            self.write_entry(&entry, asked, out).await?;
            let took = out.len() - before;
            if took > left {
                out.rewind(mark);
                return Self::end(any, false, out);
            }
            (left, any) = (left - took, true);
        }
        Self::end(true, true, out)
    }
}
