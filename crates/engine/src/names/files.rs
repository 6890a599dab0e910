//! Open files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use weir_meta::Meta;
use weir_throughput::efs::Io;
use weir_tier::Mirror;
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::data::admission::Admission;
use crate::data::admission::areas::Tenant;
use crate::data::direct::DirectRecords;
use crate::data::fetch::Fetcher;
use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::{Node, Nodes};
use crate::data::read::Reader;
use crate::data::space::Space;
use crate::data::write::Writer;
use crate::names::orphans::Orphans;
use crate::names::past;
use crate::names::promises::{Changing, Promises};
use crate::names::tree::LinkedNames;
use crate::volume::context::{Context, Counts};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// Writes will come.
    pub write: bool,
    /// Cut it to nothing first.
    pub truncate: bool,
    /// The user who opens it: whom the meter counts.
    pub client: u32,
}

/// An open regular file. Keeps an unlinked file's bytes until `Engine::close`.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) node: Arc<Node>,
    pub(crate) mirror: Arc<Mirror>,
    /// Smaller files are not lent.
    pub(crate) passthrough_bytes_min: u64,
    write: bool,
    /// The directory that it was made in or moved to last.
    dir: Ino,
    tenant: Mutex<Tenant>,
    /// No promise is made of a file that may be written.
    _changing: Option<Changing>,
}

impl OpenFile {
    /// The inode that is open.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// How long it is by now, in bytes.
    pub fn size(&self) -> u64 {
        self.mirror.size()
    }

    /// Stays the same as long as nobody but this mount changed its bytes.
    pub fn epoch(&self) -> u64 {
        self.mirror.epoch()
    }

    /// Whether it may be written through it.
    pub fn writes(&self) -> bool {
        self.write
    }

    /// The user who opened it.
    pub fn client(&self) -> u32 {
        self.known_tenant().client
    }

    /// Subject I/O on it is, by the rules of now.
    pub(crate) async fn tenant(&self, files: &OpenFiles) -> Tenant {
        let known = self.known_tenant();
        if files.admission.is_of_now(&known) {
            return known;
        }
        let tenant = files.admission.tenant(self.dir, known.client).await;
        *self.tenant.lock() = tenant.clone();
        tenant
    }

    fn known_tenant(&self) -> Tenant {
        self.tenant.lock().clone()
    }

    /// Whether the daemon must see every byte of it.
    pub(crate) fn is_metered(&self) -> bool {
        self.known_tenant().sees_all()
    }

    pub(crate) fn count_unmetered(&self) {
        self.known_tenant().used.opens_unmetered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn check_write(&self) -> Result<()> {
        match self.write {
            true => Ok(()),
            false => Err(FsError::new(ErrorKind::Invalid, "the file is open for reading only")),
        }
    }
}

/// Opens, reads and writes files for programs: let in, counted, and then the data plane's.
pub(crate) struct OpenFiles {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) records: Arc<DirectRecords>,
    pub(crate) linked: Arc<dyn LinkedNames>,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) promises: Arc<Promises>,
}

impl OpenFiles {
    /// Opens a regular file. One read of the metadata.
    pub(crate) async fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        let file = self.open_as_it_is(ino, flags).await?;
        if flags.truncate
            && let Err(error) = self.writer.truncate(ino, 0).await
        {
            self.close(file).await?;
            return Err(error);
        }
        Ok(file)
    }

    /// Ends an open file. The last close of an unlinked file removes its bytes.
    pub(crate) async fn close(&self, file: Arc<OpenFile>) -> Result<()> {
        let ino = file.ino();
        let wrote = file.write && file.mirror.has_unflushed();
        self.end(file);
        if wrote && self.linked.exports() {
            self.meta.export_changed(ino).await?;
        }
        Ok(())
    }

    /// Keeps an inode, a directory's say, from going when its last name does, until
    /// [`OpenFiles::let_go`].
    pub(crate) fn hold(&self, ino: Ino) -> Result<()> {
        self.nodes.open(ino).map(drop)
    }

    /// Ends what [`OpenFiles::hold`] began.
    pub(crate) fn let_go(&self, ino: Ino) {
        self.closed(ino);
    }

    async fn open_as_it_is(&self, ino: Ino, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        let mut changing = None;
        if flags.write || flags.truncate {
            self.context.check_writable()?;
            past::check_present(&[ino])?;
            changing = Some(self.promises.changing(ino).await);
        }
        let node = self.nodes.open(ino)?;
        if flags.write {
            node.writers.fetch_add(1, Ordering::AcqRel);
        }
        let opened = async {
            let (mirror, inode) = self.mirrors.open_mirror_of(&node).await?;
            self.orphans.opened(&inode).await?;
            Ok::<_, FsError>((mirror, inode.parent))
        };
        let (mirror, dir) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                if flags.write {
                    node.writers.fetch_sub(1, Ordering::AcqRel);
                }
                self.closed(ino);
                return Err(error);
            }
        };
        if !flags.truncate {
            self.reader.needed(ino);
        }
        let tenant = self.admission.tenant(dir, flags.client).await;
        tenant.used.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(OpenFile {
            node,
            mirror,
            passthrough_bytes_min: self.context.settings.passthrough_least_bytes.0,
            write: flags.write,
            dir,
            tenant: Mutex::new(tenant),
            _changing: changing,
        }))
    }

    /// Ends an open file that nobody uses any more.
    pub(crate) fn end(&self, file: Arc<OpenFile>) {
        let (ino, mirror) = (file.ino(), file.mirror.clone());
        if file.write
            && file.node.writers.fetch_sub(1, Ordering::AcqRel) == 1
            && file.node.emptied.swap(false, Ordering::AcqRel)
            && mirror.has_unflushed()
        {
            self.flusher.background.flush_soon(ino);
        }
        drop(file);
        if self.closed(ino) {
            mirror.idle();
        }
    }

    /// One open less; answers whether it was the last.
    fn closed(&self, ino: Ino) -> bool {
        let (last, purge) = self.nodes.close(ino);
        if purge {
            self.nodes.purge_soon(ino);
        }
        last
    }
}

impl OpenFiles {
    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file. Bytes that are not
    /// here cost ranged GETs, shared with everybody who wants them.
    pub(crate) async fn read(&self, file: &OpenFile, offset: u64, len: usize) -> Result<Bytes> {
        let len = (len as u64).min(file.mirror.size().saturating_sub(offset));
        if len == 0 {
            return Ok(Bytes::new());
        }
        let tenant = file.tenant(self).await;
        self.admission.admit(&tenant, Io::Read, len).await;
        let read = self.reader.read_stream((&file.node, &file.mirror), offset, len).await;
        let (bytes, fetched) = read?;
        self.admission.meter(&tenant, Io::Read, bytes.len() as u64);
        tenant.used.bytes_fetched.fetch_add(fetched, Ordering::Relaxed);
        Counts::add(&self.context.counts.bytes_read, bytes.len() as u64);
        Ok(bytes)
    }

    /// Writes all of `data` at `offset`. Returns when it is with the kernel of this machine: safe
    /// from `kill -9`, not yet from a power cut. Waits while the tier has no room.
    pub(crate) async fn write(&self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<usize> {
        self.context.check_writable()?;
        file.check_write()?;
        let _grant = self.writer.capacity.check(&file.mirror, offset, data.len() as u64).await?;
        let tenant = file.tenant(self).await;
        self.admission.admit(&tenant, Io::Write, data.len() as u64).await;
        self.writer.write_mirror(&file.mirror, offset, data).await?;
        self.admission.meter(&tenant, Io::Write, data.len() as u64);
        Counts::add(&self.context.counts.bytes_written, data.len() as u64);
        Ok(data.len())
    }

    /// Writes as [`OpenFiles::write`] does, if that waits for nothing; `None`, and nothing is
    /// written, if it may have to.
    pub(crate) fn try_write(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<usize>> {
        self.context.check_writable()?;
        file.check_write()?;
        let tenant = file.known_tenant();
        if !self.admission.is_of_now(&tenant) || self.may_be_held_back(file) {
            return Ok(None);
        }
        let grant = self.writer.capacity.surely_holds(file.ino(), data.len() as u64);
        if grant.is_none() || !self.writer.try_write_mirror(&file.mirror, offset, data)? {
            return Ok(None);
        }
        self.admission.meter(&tenant, Io::Write, data.len() as u64);
        Counts::add(&self.context.counts.bytes_written, data.len() as u64);
        Ok(Some(data.len()))
    }

    /// Writes all of `data` at the end of the file, wherever that is by then.
    pub(crate) async fn append(&self, file: &OpenFile, data: &[u8]) -> Result<usize> {
        let _append = file.node.append.lock().await;
        if self.context.is_shared() && !self.appends_alone(file.ino()).await? {
            return self.append_among_nodes(file, data).await;
        }
        let end = file.mirror.size();
        self.write(file, end, data).await
    }

    /// Whether other nodes ask this one before they look at a file, and so before they append to it, for as long as
    /// this is under way; then its mirror is in step.
    async fn appends_alone(&self, ino: Ino) -> Result<bool> {
        let Some(leases) = self.meta.leases().filter(|leases| leases.spares_flush(ino)) else {
            return Ok(false);
        };
        self.mirrors.known(ino).await?;
        Ok(leases.spares_flush(ino))
    }

    /// The same where other nodes append as well: what this returns is where they find it.
    async fn append_among_nodes(&self, file: &OpenFile, data: &[u8]) -> Result<usize> {
        self.context.check_writable()?;
        file.check_write()?;
        let len = data.len() as u64;
        if file.mirror.has_unflushed() {
            self.flusher.flush_file(file.ino()).await?;
        }
        let _grant = self.writer.capacity.check(&file.mirror, file.mirror.size(), len).await?;
        let tenant = file.tenant(self).await;
        self.admission.admit(&tenant, Io::Write, len).await;
        let bytes = Bytes::copy_from_slice(data);
        self.records.append((&file.node, &file.mirror), &bytes).await?;
        self.meta.leases().into_iter().for_each(|leases| leases.waited_for_bucket(file.ino()));
        self.admission.meter(&tenant, Io::Write, len);
        Counts::add(&self.context.counts.bytes_written, len);
        Ok(data.len())
    }
}
