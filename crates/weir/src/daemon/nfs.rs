//! The NFS door of a daemon, if one is asked for, and the volume's exports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use weir_door_fuse::FuseView;
use weir_door_nfs::{BoundNfs, ClientView, Export, NfsHeld, NfsOptions, NfsServer, UseView};
use weir_engine::{Engine, OtherDoor};
use weir_types::{ErrorKind, FsError, Result};

use crate::api::NfsStatus;

/// Rows of exports begin so; the number of each follows.
const EXPORT_ROWS: &str = "nfs/export/";
/// The row of the last number that an export had.
const LAST_ROW: &str = "nfs/exports";
/// How often it is looked whether another node changed them.
const LOOK: Duration = Duration::from_secs(2);

/// The NFS door of one daemon before it answers anybody.
pub(crate) struct BoundDoor {
    engine: Arc<Engine>,
    bound: Option<BoundNfs>,
    tls: bool,
}

/// The NFS door of one daemon.
pub(crate) struct NfsDoor {
    engine: Arc<Engine>,
    server: Option<Arc<NfsServer>>,
    looking: Option<JoinHandle<()>>,
    tls: bool,
    /// Exports change one after the other.
    changing: tokio::sync::Mutex<()>,
}

impl BoundDoor {
    /// Listens for clients where that is asked for.
    pub(crate) async fn new(engine: &Arc<Engine>, options: Option<NfsOptions>) -> Result<Self> {
        let tls = options.as_ref().is_some_and(|options| options.tls.is_some());
        let mut bound = None;
        if let Some(mut options) = options {
            options.exports = exports(engine).await?;
            bound = Some(BoundNfs::new(engine.clone(), options).await?);
        }
        Ok(Self { engine: engine.clone(), bound, tls })
    }

    /// Answers them. What they change is told to the kernel of the mount, where there is one, before they know.
    pub(crate) fn serve(self, mount: Option<FuseView>) -> NfsDoor {
        let Self { engine, bound, tls } = self;
        let beside = mount.map(|view| Arc::new(view) as Arc<dyn OtherDoor>);
        let server = bound.map(|bound| Arc::new(bound.serve(beside)));
        let looks = server.as_ref().filter(|_| engine.is_shared());
        let looking = looks.map(|server| tokio::spawn(look(engine.clone(), server.clone())));
        NfsDoor { engine, server, looking, tls, changing: tokio::sync::Mutex::default() }
    }
}

impl NfsDoor {
    /// Has it do nothing as long as the answer is there; see [`NfsServer::hold`].
    pub(crate) async fn hold(&self, limit: Duration) -> Result<Option<NfsHeld>> {
        match &self.server {
            Some(server) => server.hold(limit).await.map(Some),
            None => Ok(None),
        }
    }

    /// How it stands; `None` where there is none.
    pub(crate) fn status(&self) -> Option<NfsStatus> {
        let server = self.server.as_ref()?;
        Some(NfsStatus {
            address: server.address(),
            tls: self.tls,
            clients: server.clients().len() as u64,
            claiming: server.is_in_grace(),
            answers: self.engine.may_answer(),
            counts: server.counts(),
        })
    }

    /// Who is there.
    pub(crate) fn clients(&self) -> Result<Vec<ClientView>> {
        match &self.server {
            Some(server) => Ok(server.clients()),
            None => {
                let text = "the volume is not served by NFS here: start `weir serve` or `weir mount` with --nfs";
                Err(FsError::new(ErrorKind::Invalid, text))
            }
        }
    }

    /// Requests of clients that were neither reads nor writes.
    pub(crate) fn metadata_requests(&self) -> u64 {
        let counts = self.server.as_ref().map(|server| server.counts()).unwrap_or_default();
        counts.requests.saturating_sub(counts.reads + counts.writes)
    }

    /// What was done by address and export.
    pub(crate) fn uses(&self) -> Vec<UseView> {
        self.server.as_ref().map(|server| server.uses()).unwrap_or_default()
    }

    /// What is exported.
    pub(crate) async fn exports(&self) -> Result<Vec<Export>> {
        exports(&self.engine).await
    }

    /// Exports something under its name, in place of what had that.
    pub(crate) async fn set_export(&self, mut export: Export) -> Result<Export> {
        let _changing = self.changing.lock().await;
        let known = exports(&self.engine).await?;
        export.id = match known.iter().find(|known| known.name == export.name) {
            // Handles lead to another directory then, or to none.
            Some(known) if known.root == export.root => known.id,
            _ if export.name.is_empty() && export.root == weir_types::Ino::ROOT => 0,
            _ => last(&self.engine).await? + 1,
        };
        let mut rows: Vec<_> = known
            .iter()
            .filter(|known| known.name == export.name && known.id != export.id)
            .map(|known| (row(known.id), gone(known.id)))
            .collect();
        rows.push((row(export.id), Some(encode(Some(&export))?)));
        if export.id > 0 {
            let last = last(&self.engine).await?.max(export.id);
            rows.push((LAST_ROW.into(), Some(last.to_string().into_bytes().into())));
        }
        self.engine.keep(rows).await?;
        self.reload().await?;
        Ok(export)
    }

    /// Exports what has this name no more. `NotFound` where nothing has.
    pub(crate) async fn remove_export(&self, name: &str) -> Result<Export> {
        let _changing = self.changing.lock().await;
        let known = exports(&self.engine).await?;
        let Some(export) = known.into_iter().find(|known| known.name == name) else {
            let text = format!("nothing is exported as `{name}`: `weir export list` has all");
            return Err(FsError::new(ErrorKind::NotFound, text));
        };
        self.engine.keep(vec![(row(export.id), gone(export.id))]).await?;
        self.reload().await?;
        Ok(export)
    }

    async fn reload(&self) -> Result<()> {
        if let Some(server) = &self.server {
            server.set_exports(exports(&self.engine).await?);
        }
        Ok(())
    }

    /// Lets all clients go. They claim what they have from the server that comes next.
    pub(crate) async fn close(&self) {
        if let Some(looking) = &self.looking {
            looking.abort();
        }
        if let Some(server) = &self.server {
            server.stop().await;
        }
    }
}

/// Sees what other nodes export.
async fn look(engine: Arc<Engine>, server: Arc<NfsServer>) {
    let mut known = None;
    loop {
        match exports(&engine).await {
            Ok(now) if known.as_ref() != Some(&now) => {
                server.set_exports(now.clone());
                known = Some(now);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!("exports could not be read: {error}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn row(id: u32) -> String {
    format!("{EXPORT_ROWS}{id}")
}

/// What is in a row of an export that is none any more: only that of the whole volume needs to say so.
fn gone(id: u32) -> Option<Bytes> {
    (id == 0).then(|| Bytes::from_static(b"null"))
}

fn encode(export: Option<&Export>) -> Result<Bytes> {
    let bytes = serde_json::to_vec(&export);
    bytes.map(Bytes::from).map_err(|error| {
        FsError::new(ErrorKind::Bug, format!("an export cannot be written: {error}"))
    })
}

async fn last(engine: &Engine) -> Result<u32> {
    let rows = engine.kept(LAST_ROW).await?;
    let text = rows.iter().find(|(name, _)| name == LAST_ROW).map(|(_, value)| value);
    let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    Ok(number.unwrap_or(0))
}

/// All exports of a volume: that of the whole of it too, unless it was taken away.
async fn exports(engine: &Engine) -> Result<Vec<Export>> {
    let mut all = BTreeMap::from([(0, Export::whole())]);
    for (name, value) in engine.kept(EXPORT_ROWS).await? {
        let export: Option<Export> = serde_json::from_slice(&value).map_err(|error| {
            let text = format!("{name}: it is no export that this version knows: {error}");
            FsError::new(ErrorKind::Unsupported, text)
        })?;
        match export {
            Some(export) => drop(all.insert(export.id, export)),
            None => drop(all.remove(&0)),
        }
    }
    Ok(all.into_values().collect())
}
