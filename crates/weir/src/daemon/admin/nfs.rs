//! Exports and clients of NFS, over the admin door.

use std::sync::Arc;

use weir_door_nfs::{ClientView, Export, UseView};
use weir_engine::{DoorChange, Engine, NewInode, OtherDoor, SetAttr, Subject, ThroughputChange};
use weir_throughput::efs::Mode;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use super::routes::Routes;
use crate::api::{ExportLimit, ListClients, ListExports, ListNfsUses, RemoveExport, SetExport};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(list).wholly(set).wholly(remove).on(clients).on(uses)
}

async fn uses(shared: Arc<DaemonState>, ListNfsUses {}: ListNfsUses) -> Result<Vec<UseView>> {
    Ok(shared.nfs.uses())
}

async fn list(shared: Arc<DaemonState>, ListExports {}: ListExports) -> Result<Vec<Export>> {
    shared.nfs.exports().await
}

async fn set(shared: Arc<DaemonState>, call: SetExport) -> Result<Export> {
    check_name(&call.name)?;
    let taken = shared.nfs.exports().await?.into_iter().any(|export| export.name == call.name);
    if call.only_new && taken {
        let text = format!("`{}` is the name of an export already: take another", call.name);
        return Err(FsError::new(ErrorKind::Exists, text));
    }
    let root = directory(&shared, &call).await?;
    let export = Export {
        id: 0,
        name: call.name,
        root: root.ino,
        path: format!("/{}", call.path.trim_matches('/')),
        read_only: call.read_only,
        squash: call.squash,
        anonymous: call.anonymous,
        forced: call.forced,
        allow: call.allow,
        asynchronous: call.asynchronous,
        needs_tls: call.needs_tls,
    };
    if let Some(limit) = call.limit {
        limit_directory(&shared.engine, &export, limit).await?;
    }
    shared.nfs.set_export(export).await
}

/// Changes the throughput rule of an export's directory.
async fn limit_directory(engine: &Engine, export: &Export, limit: ExportLimit) -> Result<()> {
    let whole = export.root == Ino::ROOT;
    let subject = if whole { Subject::VOLUME } else { Subject::Directory(export.root) };
    let change = match limit {
        ExportLimit::MibPerS(mib_per_s) => {
            let mode = Some(Mode::Provisioned { mib_per_s });
            ThroughputChange { mode, ..ThroughputChange::default() }
        }
        ExportLimit::None if whole => {
            ThroughputChange { mode: Some(Mode::Elastic), ..ThroughputChange::default() }
        }
        ExportLimit::None => {
            let rules = engine.throughput().await?.rules;
            if rules.iter().all(|rule| rule.subject != subject) {
                return Ok(());
            }
            ThroughputChange { remove: true, ..ThroughputChange::default() }
        }
    };
    engine.set_throughput(subject, &export.path, change).await.map(drop)
}

fn check_name(name: &str) -> Result<()> {
    let fine = name.len() <= 255 && !name.contains(['/', '\0']) && !matches!(name, "." | "..");
    match fine {
        true => Ok(()),
        false => {
            let text = format!("`{name}` cannot name an export: one word, without slashes");
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

/// The directory of a path, made where that is asked for.
async fn directory(shared: &DaemonState, call: &SetExport) -> Result<Inode> {
    let engine = &shared.engine;
    let mut inode = engine.getattr(Ino::ROOT).await?;
    let names: Vec<_> = call.path.split('/').filter(|name| !name.is_empty()).collect();
    for (at, name) in names.iter().enumerate() {
        let found = engine.lookup(inode.ino, name.as_bytes()).await;
        inode = match (found, call.make_mode) {
            (Err(error), Some(mode)) if error.kind() == ErrorKind::NotFound => {
                let is_last = at + 1 == names.len();
                let made = make(engine, inode.ino, name, is_last.then_some(mode), call).await;
                if let Some(fuse) = &shared.fuse {
                    let change = DoorChange::Name(inode.ino, name.as_bytes().to_vec());
                    fuse.view.changed(vec![change]).await;
                }
                made?
            }
            (Err(error), _) => {
                return Err(error.within(format!("the directory {} of the volume", call.path)));
            }
            (Ok(inode), _) => inode,
        };
    }
    match inode.kind {
        FileKind::Directory => Ok(inode),
        _ => {
            let text = format!("{} is no directory of the volume", call.path);
            Err(FsError::new(ErrorKind::NotDirectory, text))
        }
    }
}

/// Makes a directory; one on the way to what is asked for is root's.
async fn make(
    engine: &Engine,
    parent: Ino,
    name: &str,
    mode: Option<u32>,
    call: &SetExport,
) -> Result<Inode> {
    let owner = call.forced.as_ref().filter(|_| mode.is_some());
    let (uid, gid) = owner.map_or((0, 0), |owner| (owner.uid, owner.gid));
    let new = NewInode {
        kind: FileKind::Directory,
        mode: mode.unwrap_or(0o755),
        umask: None,
        uid,
        gid,
        rdev: 0,
        target: None,
    };
    let made = engine.create(parent, name.as_bytes(), new).await?;
    // A parent that hands its group down does not here.
    let set = SetAttr { gid: Some(gid), ..SetAttr::default() };
    if made.gid == gid { Ok(made) } else { engine.setattr(made.ino, set).await }
}

async fn remove(shared: Arc<DaemonState>, RemoveExport { name }: RemoveExport) -> Result<Export> {
    shared.nfs.remove_export(&name).await
}

async fn clients(shared: Arc<DaemonState>, ListClients {}: ListClients) -> Result<Vec<ClientView>> {
    shared.nfs.clients()
}
