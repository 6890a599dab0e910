//! Attributes: looked at, compared, set.

use weir_engine::{DoorChange, SetAttr};
use weir_types::{ByteRange, FileKind, Inode};

use crate::attributes::{Subject, TimeTo, Wanted, above, need_space, readable, supported};
use crate::caller::{EXECUTE, READ, WRITE};
use crate::compound::{Compound, Target, check_regular};
use crate::exports::is_top;
use crate::handle::Handle;
use crate::protocol::bitmap::Bitmap;
use crate::protocol::numbers::{access, attr, open};
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::stateid::{Meant, Stateid};

/// Longest list of values that is compared, in bytes.
const VALUES_BYTES_MAX: usize = 16 << 10;

impl Compound {
    pub(crate) async fn getattr(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (asked, _) = Bitmap::read(input)?;
        let handle = self.handle()?;
        let asked = readable(asked, self.minor)?;
        self.write_attributes(handle, asked, out).await
    }

    /// Writes the attributes of what a handle leads to.
    async fn write_attributes(
        &self,
        handle: Handle,
        asked: Bitmap,
        out: &mut Writer,
    ) -> Served<()> {
        let (inode, is_mount) = match handle {
            Handle::Above => (above(&self.server), false),
            Handle::Inode { ino, .. } => {
                let target = self.target_of(handle)?;
                let named = !target.export.name.is_empty();
                (self.inode(ino).await?, named && is_top(&target.export, ino))
            }
        };
        let space = match need_space(asked) {
            true => Some(self.server.engine.statfs(inode.ino).await?),
            false => None,
        };
        let minor = self.minor;
        Subject { handle, inode: &inode, space, is_mount, minor }.write(&self.server, asked, out);
        Ok(())
    }

    /// Whether the attributes are these: `SAME` or `NOT_SAME`.
    async fn compare(&self, input: &mut Reader) -> Served<Status> {
        let mut sent = Writer::default();
        let (asked, more) = Bitmap::read(input)?;
        let handle = self.handle()?;
        if more || !asked.without(supported(self.minor)).is_empty() {
            return Err(Status::ATTRNOTSUPP.into());
        }
        if asked.has(attr::RDATTR_ERROR) {
            return Err(Status::INVAL.into());
        }
        let asked = readable(asked, self.minor)?;
        asked.write(&mut sent);
        sent.opaque(&input.opaque(VALUES_BYTES_MAX)?);
        let mut here = Writer::default();
        self.write_attributes(handle, asked, &mut here).await?;
        let same = sent.finish().concat() == here.finish().concat();
        Ok(if same { Status::SAME } else { Status::NOT_SAME })
    }

    pub(crate) async fn verify(&self, input: &mut Reader, wanted: Status) -> Served<()> {
        match self.compare(input).await? {
            found if found == wanted => Ok(()),
            found => Err(found.into()),
        }
    }

    /// What of what a client asks about its user may do.
    pub(crate) async fn access(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let asked = input.u32()?;
        let (inode, allowed, writable) = match self.handle()? {
            Handle::Above => (above(&self.server), READ | EXECUTE, false),
            Handle::Inode { ino, .. } => {
                let target = self.target()?;
                let inode = self.inode(ino).await?;
                let allowed = self.server.allowed(&target.caller, &inode).await?;
                let writable = self.check_writable(&target).is_ok();
                (inode, allowed, writable)
            }
        };
        let is_dir = inode.kind == FileKind::Directory;
        let mut known = access::READ | access::MODIFY | access::EXTEND;
        known |= if is_dir { access::LOOKUP | access::DELETE } else { access::EXECUTE };
        if self.minor >= 2 {
            known |= access::XAREAD | access::XAWRITE | access::XALIST;
        }
        let mut may = 0;
        if allowed & READ != 0 {
            may |= access::READ | access::XAREAD | access::XALIST;
        }
        if allowed & EXECUTE != 0 {
            may |= access::LOOKUP | access::EXECUTE;
        }
        if allowed & WRITE != 0 && writable {
            may |= access::MODIFY | access::EXTEND | access::DELETE | access::XAWRITE;
        }
        out.u32(asked & known);
        out.u32(asked & known & may);
        Ok(())
    }

    /// Sets attributes. The result has which were set, also where it is refused.
    pub(crate) async fn setattr(&self, input: &mut Reader) -> Served<Bitmap> {
        let id = Stateid::read(input)?;
        let wanted = Wanted::read(input, self.minor, crate::names::id_of)?;
        if wanted.umask.is_some() {
            return Err(Status::INVAL.into());
        }
        let target = self.target_to_change()?;
        let inode = self.inode(target.ino).await?;
        if wanted.size.is_some() {
            self.check_size_change(&target, &inode, id).await?;
        }
        self.check_changes(&target, &inode, &wanted).await?;
        self.recall(target.ino).await?;
        self.apply(&target, &inode, &wanted).await?;
        self.settle(&target).await?;
        Ok(wanted.set)
    }

    async fn check_size_change(&self, target: &Target, inode: &Inode, id: Stateid) -> Served<()> {
        check_regular(inode).map_err(|status| match status {
            Status::ISDIR => Status::ISDIR,
            _ => Status::INVAL,
        })?;
        match id.meant() {
            Meant::Anonymous | Meant::Bypass => {
                let (grace, denied) = {
                    let all = self.server.books.lock();
                    (all.grace.is_on(), all.held.denies(target.ino, open::WRITE))
                };
                if grace || denied {
                    return Err(if grace { Status::GRACE } else { Status::LOCKED }.into());
                }
                if target.caller.uid == inode.uid {
                    return Ok(());
                }
                self.need(target, inode, WRITE).await
            }
            _ => {
                let id = match id.meant() {
                    Meant::Current => self.current_stateid.ok_or(Status::BAD_STATEID)?,
                    _ => id,
                };
                self.opened(target, id, open::WRITE).await.map(drop)
            }
        }
    }

    /// Whether the caller may set these, but for the size.
    async fn check_changes(&self, target: &Target, inode: &Inode, wanted: &Wanted) -> Served<()> {
        let caller = &target.caller;
        let owns = caller.is_root() || caller.uid == inode.uid;
        if wanted.mode.is_some() && !owns {
            return Err(Status::PERM.into());
        }
        if wanted.uid.is_some() || wanted.gid.is_some() {
            caller.may_give(inode, wanted.uid, wanted.gid)?;
        }
        let times = [wanted.atime, wanted.mtime];
        if times.iter().flatten().any(|time| matches!(time, TimeTo::At(_))) && !owns {
            return Err(Status::PERM.into());
        }
        if times.contains(&Some(TimeTo::Now)) && !owns {
            self.need(target, inode, WRITE).await?;
        }
        Ok(())
    }

    /// Sets what was found to be allowed.
    pub(crate) async fn apply(
        &self,
        target: &Target,
        inode: &Inode,
        wanted: &Wanted,
    ) -> Served<()> {
        let applied = self.set(target, inode, wanted).await;
        if let Some(size) = wanted.size {
            self.server.tell([DoorChange::Bytes(target.ino, from(size.min(inode.size)))]).await;
        }
        self.server.tell([DoorChange::Attributes(target.ino)]).await;
        applied
    }

    async fn set(&self, target: &Target, inode: &Inode, wanted: &Wanted) -> Served<()> {
        let (engine, caller) = (&self.server.engine, &target.caller);
        if let Some(size) = wanted.size {
            engine.truncate(target.ino, size).await?;
        }
        let now = (self.server.now)();
        let time = |to| match to {
            TimeTo::Now => now,
            TimeTo::At(time) => time,
        };
        let owner_set = wanted.uid.is_some() || wanted.gid.is_some();
        let cut = wanted.size.is_some() && caller.takes_privileges(inode);
        // A change of owner takes the privileges away, whoever makes it.
        let clear_privileges = owner_set || cut;
        let set = SetAttr {
            mode: wanted.mode.map(|mode| caller.mode_for(inode, mode)),
            uid: wanted.uid,
            gid: wanted.gid,
            atime: wanted.atime.map(time),
            mtime: wanted.mtime.map(time),
            ctime: None,
            clear_privileges,
            clear_set_gid: clear_privileges && caller.is_outside_group_of(inode),
        };
        if set != SetAttr::default() {
            engine.setattr(target.ino, set).await?;
        }
        Ok(())
    }
}

/// All bytes from there on.
pub(crate) fn from(start: u64) -> ByteRange {
    ByteRange::new(start, u64::MAX)
}
