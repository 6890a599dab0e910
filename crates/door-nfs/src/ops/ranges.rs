//! Ranges of files: room, holes, copies (RFC 7862).

use weir_engine::{DoorChange, Fallocate, Seek};
use weir_types::{ByteRange, ErrorKind};

use crate::compound::Compound;
use crate::handle::Handle;
use crate::protocol::numbers::{open, stable};
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::stateid::Stateid;

/// `NFS4ERR_NXIO`: past the end.
const NXIO: Status = Status(6);
/// Bytes that one call of the engine may be asked to copy.
const COPY_BYTES_MAX: u64 = 1 << 30;

/// A range of the saved file and where it goes in the current one.
struct Copying {
    source: Stateid,
    target: Stateid,
    from: u64,
    to: u64,
    len: u64,
}

impl Compound {
    pub(crate) async fn allocate(&self, input: &mut Reader, mode: Fallocate) -> Served<()> {
        let id = self.stateid(input)?;
        let (offset, len) = (input.u64()?, input.u64()?);
        let target = self.target_to_change()?;
        self.opened(&target, id, open::WRITE).await?;
        if len == 0 || offset.checked_add(len).is_none() {
            return Err(Status::INVAL.into());
        }
        let done = self.server.engine.fallocate(target.ino, mode, offset, len).await;
        let range = ByteRange::new(offset, offset + len);
        self.server.tell([DoorChange::Bytes(target.ino, range)]).await;
        done?;
        self.settle(&target).await
    }

    pub(crate) async fn seek(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let id = self.stateid(input)?;
        let offset = input.u64()?;
        let what = match input.u32()? {
            0 => Seek::Data,
            1 => Seek::Hole,
            _ => return Err(Status::UNION_NOTSUPP.into()),
        };
        let target = self.target()?;
        let opened = self.opened(&target, id, open::READ).await?;
        let found = match self.server.engine.seek(target.ino, offset, what).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(NXIO.into()),
            Err(error) => return Err(error.into()),
        };
        out.bool(found >= opened.file().size());
        out.u64(found);
        Ok(())
    }

    fn read_copying(&self, input: &mut Reader) -> Served<Copying> {
        let source = Stateid::read(input)?;
        let target = self.stateid(input)?;
        let (from, to, len) = (input.u64()?, input.u64()?, input.u64()?);
        Ok(Copying { source, target, from, to, len })
    }

    /// Copies; answers how many bytes, fewer at the end of the source.
    async fn copy_range(&self, copying: &Copying, whole: bool) -> Served<u64> {
        let target = self.target_to_change()?;
        let saved: Handle = self.saved.ok_or(Status::NOFILEHANDLE)?;
        let source = self.target_of(saved)?;
        if source.export.id != target.export.id {
            return Err(Status::XDEV.into());
        }
        let id = match copying.source.meant() {
            crate::state::stateid::Meant::Current => {
                self.saved_stateid.ok_or(Status::BAD_STATEID)?
            }
            _ => copying.source,
        };
        let reads = self.opened(&source, id, open::READ).await?;
        let _writes = self.opened(&target, copying.target, open::WRITE).await?;
        let size = reads.file().size();
        let here = size.saturating_sub(copying.from);
        let len = if copying.len == 0 { here } else { copying.len };
        if whole && (copying.from > size || len > here) {
            return Err(Status::INVAL.into());
        }
        let (len, mut done) = (len.min(here), 0);
        while done < len {
            let (from, to) = (copying.from + done, copying.to + done);
            let piece = (len - done).min(COPY_BYTES_MAX);
            let client = target.caller.uid;
            let engine = &self.server.engine;
            let copied = engine.copy_range((source.ino, from), (target.ino, to), piece, client);
            let copied = copied.await;
            let range = ByteRange::new(to, to.saturating_add(piece));
            self.server.tell([DoorChange::Bytes(target.ino, range)]).await;
            let copied = copied?;
            if copied == 0 {
                break;
            }
            done += copied;
        }
        self.settle(&target).await?;
        Ok(done)
    }

    pub(crate) async fn clone_range(&self, input: &mut Reader) -> Served<()> {
        let copying = self.read_copying(input)?;
        self.copy_range(&copying, true).await.map(drop)
    }

    /// A copy within the server, done when it is answered.
    pub(crate) async fn copy(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let copying = self.read_copying(input)?;
        let (_consecutive, _synchronous) = (input.bool()?, input.bool()?);
        // Servers to copy from: what lies elsewhere is not copied.
        if input.u32()? > 0 {
            return Err(Status::NOTSUPP.into());
        }
        let copied = self.copy_range(&copying, false).await?;
        out.u32(0);
        out.u64(copied);
        out.u32(stable::UNSTABLE);
        out.fixed(&self.server.verifier);
        out.bool(true);
        out.bool(true);
        Ok(())
    }
}
