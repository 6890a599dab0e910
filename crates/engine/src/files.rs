//! Open files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use weir_tier::Mirror;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result};

use crate::engine::{Core, Engine};
use crate::nodes::Node;
use crate::throughput::Tenant;

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

/// An open regular file. Keeps an unlinked file's bytes until [`Engine::close`].
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) node: Arc<Node>,
    pub(crate) mirror: Arc<Mirror>,
    /// Smaller files are not lent.
    pub(crate) lend_least_bytes: u64,
    write: bool,
    /// The directory that it was made in or moved to last.
    dir: Ino,
    tenant: Mutex<Tenant>,
}

impl OpenFile {
    /// The inode that is open.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// Whose I/O on it is, by the rules of now.
    pub(crate) async fn tenant(&self, core: &Core) -> Tenant {
        let known = self.known_tenant();
        if core.is_of_now(&known) {
            return known;
        }
        let tenant = core.tenant(self.dir, known.client).await;
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

impl Engine {
    /// Opens a regular file. One read of the metadata.
    pub async fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        let file = self.core.open(ino, flags).await?;
        if flags.truncate
            && let Err(error) = self.truncate(ino, 0).await
        {
            self.close(file).await?;
            return Err(error);
        }
        Ok(file)
    }

    /// Keeps an inode, a directory's say, from going when its last name does, until
    /// [`Engine::let_go`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        self.core.nodes.open(ino).map(drop)
    }

    /// Ends what [`Engine::hold`] began.
    pub async fn let_go(&self, ino: Ino) {
        self.core.closed(ino);
    }

    /// Ends an open file. The last close of an unlinked file removes its bytes.
    pub async fn close(&self, file: Arc<OpenFile>) -> Result<()> {
        let core = &self.core;
        let ino = file.ino();
        let wrote = file.write && file.mirror.has_news();
        core.close(file);
        if wrote && core.links.exports() {
            core.seen(core.meta.export_changed(ino).await)?;
        }
        Ok(())
    }
}

impl Core {
    /// [`Engine::open`], but for cutting.
    pub(crate) async fn open(
        self: &Arc<Self>,
        ino: Ino,
        flags: OpenFlags,
    ) -> Result<Arc<OpenFile>> {
        if flags.write || flags.truncate {
            self.check_writable()?;
        }
        let node = self.nodes.open(ino)?;
        if flags.write {
            node.writers.fetch_add(1, Ordering::AcqRel);
        }
        let opened = self.open_mirror_of(&node).await;
        let (mirror, dir) = match opened {
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
            self.actions.needed(ino);
        }
        let tenant = self.tenant(dir, flags.client).await;
        tenant.used.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(OpenFile {
            node,
            mirror,
            lend_least_bytes: self.settings.passthrough_least_bytes.0,
            write: flags.write,
            dir,
            tenant: Mutex::new(tenant),
        }))
    }

    /// Ends an open file that nobody uses any more.
    pub(crate) fn close(self: &Arc<Self>, file: Arc<OpenFile>) {
        let (ino, mirror) = (file.ino(), file.mirror.clone());
        if file.write
            && file.node.writers.fetch_sub(1, Ordering::AcqRel) == 1
            && file.node.emptied.swap(false, Ordering::AcqRel)
            && mirror.has_news()
        {
            self.flusher.flush_soon(ino);
        }
        drop(file);
        if self.closed(ino) {
            mirror.idle();
        }
    }

    /// The file's mirror, in step with its extents: none of them may change meanwhile.
    pub(crate) async fn open_mirror(&self, node: &Node) -> Result<Arc<Mirror>> {
        self.open_mirror_of(node).await.map(|(mirror, _)| mirror)
    }

    /// The same, with the directory that the file was made in or moved to last.
    pub(crate) async fn open_mirror_of(&self, node: &Node) -> Result<(Arc<Mirror>, Ino)> {
        let _change = node.change.lock().await;
        let ino = node.ino;
        let inode = self.stored(ino).await?;
        match inode.kind {
            FileKind::Regular => Ok((self.tier.mirror(&inode)?, inode.parent)),
            FileKind::Directory => {
                Err(FsError::new(ErrorKind::IsDirectory, format!("inode {ino} is a directory")))
            }
            _ => Err(FsError::new(ErrorKind::Invalid, format!("inode {ino} is no regular file"))),
        }
    }

    /// One open less; answers whether it was the last.
    fn closed(self: &Arc<Self>, ino: Ino) -> bool {
        let (last, purge) = self.nodes.close(ino);
        if purge {
            self.last_close(ino);
        }
        last
    }
}
