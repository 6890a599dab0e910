//! Names that were made here and that the database does not have yet (`meta/src/behind.rs`): their log in the tier,
//! sending them, and what an earlier mount left of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_meta::kv::Kv;
use weir_meta::{BehindKv, BehindLog, Leases, Replayed, replay};
use weir_tier::{RecordLog, private};
use weir_types::{ErrorKind, FsError, Ino, Result};

/// Directory of the log in that of the volume in the tier.
const NAMES: &str = "names";
/// How long more names are waited for before some are sent, where nobody waits for them.
const GATHER: Duration = Duration::from_millis(100);
/// Time between two tries while the database does not answer.
const AWAY: Duration = Duration::from_secs(1);
/// How often it is looked which directories nobody makes names in any more.
const LOOK: Duration = Duration::from_millis(500);
/// How long a directory keeps its write lease behind the last name that was made there, in milliseconds.
const AGE_MS: u64 = 1_000;
/// Names that a message tells of those that are lost.
const TOLD: usize = 10;

pub(crate) struct NamesLog(RecordLog);

impl BehindLog for NamesLog {
    fn note(&self, entry: &[u8]) -> Result<()> {
        self.0.append_if_room(entry)
    }

    fn noted(&self) -> u64 {
        self.0.appended()
    }

    fn clear_if(&self, noted: u64) -> Result<bool> {
        self.0.clear_if(noted)
    }
}

/// Opens the log in a volume's directory in the tier, and has the database get what it lacks of it. Answers the log, empty,
/// and the files that cannot be had any more. No read or commit where it is empty.
pub(crate) async fn take_up(directory: &Path, kv: &dyn Kv) -> Result<(Arc<NamesLog>, Vec<Ino>)> {
    let place = directory.join(NAMES);
    private::make_directory(&place)?;
    let mut entries = Vec::new();
    let log = RecordLog::open(&place, |entry| {
        entries.push(entry.to_vec());
        Ok(())
    })?;
    if entries.is_empty() {
        return Ok((Arc::new(NamesLog(log)), Vec::new()));
    }
    let replayed = replay(kv, &entries).await?;
    tell(&replayed);
    if !log.clear_if(log.appended())? {
        let text = format!("{} is written by somebody else: stop that", place.display());
        return Err(FsError::new(ErrorKind::Conflict, text));
    }
    replayed.forget(kv).await?;
    Ok((Arc::new(NamesLog(log)), replayed.lost.into_iter().map(|(ino, _)| ino).collect()))
}

/// The same for a mount that is alone with the volume: of nodes that shared it before.
pub(crate) async fn take_up_alone(directory: &Path, kv: &dyn Kv) -> Result<()> {
    match directory.join(NAMES).exists() {
        true => take_up(directory, kv).await.map(drop),
        false => Ok(()),
    }
}

fn tell(replayed: &Replayed) {
    let Replayed { applied, lost, lost_changes, past, .. } = replayed;
    if *past > 0 {
        tracing::info!(
            commits = past,
            "the tier's log of names is of a session that has ended: it had brought them all"
        );
    }
    if *applied > 0 {
        tracing::info!(
            commits = applied,
            "the mount before had made names that the database had not"
        );
    }
    if lost.is_empty() && *lost_changes == 0 {
        return;
    }
    let names: Vec<_> = lost.iter().take(TOLD).map(|(_, name)| name.as_str()).collect();
    tracing::error!(
        files = lost.len(),
        changes = lost_changes,
        names = names.join(", "),
        "files that were made here before this node was gone, and what was changed of others, are not \
         part of the volume: others changed these directories since. What was written to such files is set aside: \
         `weir recover` tells what it is"
    );
}

/// Sends names a little after they were made, until this node is shut out.
pub(crate) async fn names_loop(behind: BehindKv) {
    loop {
        behind.comes().await;
        tokio::time::sleep(GATHER).await;
        while let Err(error) = behind.drain().await {
            if error.kind() == ErrorKind::Fenced {
                return;
            }
            tracing::warn!(%error, "the database does not have names yet that were made here: tried again");
            tokio::time::sleep(AWAY).await;
        }
    }
}

/// Ends write leases on directories: at once where another node asks, and some time after the last name was made there.
pub(crate) async fn directories_loop(leases: Arc<Leases>, kv: Arc<dyn Kv>) {
    loop {
        let _ = tokio::time::timeout(LOOK, leases.directories_asked_for()).await;
        match leases.end_directories(&*kv, AGE_MS).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => {
                tracing::debug!(%error, "other nodes wait for names that were made here");
                tokio::time::sleep(AWAY).await;
            }
        }
    }
}
