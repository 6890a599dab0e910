//! What is remembered of each open file, and of the locks below it.

use std::sync::Arc;

use bytes::Bytes;
use weir_engine::{Engine, OpenFile};
use weir_types::Ino;

/// A file of the engine that is open, closed when nobody uses it any more.
pub(crate) struct Opened {
    engine: Arc<Engine>,
    file: Option<Arc<OpenFile>>,
}

impl Opened {
    pub(crate) fn new(engine: Arc<Engine>, file: Arc<OpenFile>) -> Arc<Self> {
        Arc::new(Self { engine, file: Some(file) })
    }

    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        // It is taken when this is dropped only.
        self.file.as_ref().unwrap_or_else(|| unreachable!("the file is closed"))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let (engine, file) = (self.engine.clone(), self.file.take());
        if let Some(file) = file
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let ino = file.ino();
                if let Err(error) = engine.close(file).await {
                    tracing::warn!(%ino, "a file of an NFS client is closed: {error}");
                }
            });
        }
    }
}

/// An open file of a client.
pub(crate) struct Open {
    pub(crate) client: u64,
    pub(crate) owner: Bytes,
    pub(crate) ino: Ino,
    /// The user who opened it first.
    pub(crate) uid: u32,
    /// Through which export.
    pub(crate) export: u32,
    pub(crate) access: u32,
    pub(crate) deny: u32,
    /// Each pair of access and deny that it was opened with.
    pub(crate) pairs: Vec<(u32, u32)>,
    pub(crate) seq: u32,
    pub(crate) file: Arc<Opened>,
    /// Lock states below it.
    pub(crate) locks: Vec<u64>,
}

/// The locks of one owner of a client in one file that it has open.
pub(crate) struct LockState {
    pub(crate) client: u64,
    pub(crate) open: u64,
    pub(crate) owner: Bytes,
    pub(crate) ino: Ino,
    pub(crate) seq: u32,
}

/// The number after this one; 0 means something else.
pub(crate) fn next(seq: u32) -> u32 {
    seq.checked_add(1).unwrap_or(1)
}
