//! Which tier and which journal belong to the volume as it is now.
//!
//! What counts is the id of the last mount that wrote. The metadata has it, with what that mount
//! used and whether it ended cleanly ([`LastMount`]). Every tier directory and every log directory
//! has a note of the mounts that wrote with it; it belongs to the volume while the last one is
//! among them. What must always hold:
//!
//! - The id of a new mount is in both notes, durably and beside the one before, before the metadata
//!   has it: a crash between never makes our own look like somebody else's.
//! - The id of a mount is never noted where something of it is missing.
//! - A directory that does not belong is believed in nothing that may have changed since. Where the
//!   last writer did not end cleanly, nothing is mounted without what it used, unless that was asked
//!   for.

use std::path::{Path, PathBuf};

use weir_meta::{LastMount, WriterRecord};
use weir_tier::disk;
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use super::options::{AcceptLoss, LeftBehind, MountOptions};

/// The mounts that wrote with a directory.
#[derive(Debug, Default)]
pub(crate) struct Note(pub(crate) Vec<String>);

impl Note {
    /// The note in `directory`; empty if there is none.
    pub(crate) fn read(directory: &Path) -> Result<Note> {
        let path = directory.join("writers.json");
        match disk::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Note).map_err(|e| {
                let text = format!("{} is damaged: move it away to go on without", path.display());
                FsError::new(ErrorKind::Corrupt, text).with_source(e)
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Note::default()),
            Err(e) => Err(FsError::local_io(format!("read {}", path.display()), e)),
        }
    }

    /// Durably replaces the note in `directory`.
    pub(crate) fn write(directory: &Path, mounts: &[&str]) -> Result<()> {
        let path = directory.join("writers.json");
        let at = |e| FsError::local_io(format!("write {}", path.display()), e);
        let text = serde_json::to_vec(mounts).map_err(|e| at(e.into()))?;
        disk::replace(&path, &text).map_err(at)
    }

    fn names(&self, mount: &str) -> bool {
        self.0.iter().any(|one| one == mount)
    }
}

/// What is found on the disks that a mount was given.
#[derive(Debug)]
pub(crate) struct Here {
    /// The tier's note.
    pub(crate) tier: Note,
    /// The note of the journal, or of the log in the tier.
    pub(crate) log: Note,
    /// Where that log is.
    pub(crate) log_directory: PathBuf,
    /// Where the log of a mount with this tier is that did not end cleanly.
    pub(crate) last_log: Option<PathBuf>,
}

/// How what is here stands to the last writer.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The last mount that wrote.
    pub(crate) writer: Option<WriterRecord>,
    mount: Option<LastMount>,
    /// It ended cleanly, so that the bucket has all: nothing can be missing.
    pub(crate) clean: bool,
    /// The tier that is here is its tier, or went on from it.
    pub(crate) tier: bool,
    /// The log that is here is its log, or went on from it.
    pub(crate) log: bool,
}

impl Standing {
    /// `held` says whether somebody has, or had when they died, the right to write: without a
    /// record of the last mount (older builds made none) that is how an unclean end is known.
    pub(crate) fn of(
        (writer, mount): (Option<WriterRecord>, Option<LastMount>),
        held: bool,
        here: &Here,
    ) -> Self {
        let Some(last) = &writer else {
            return Self { writer, mount, clean: true, tier: true, log: true };
        };
        let log = here.log.names(&last.node);
        let (clean, tier) = match &mount {
            Some(mount) => (mount.clean, here.tier.names(&last.node)),
            None => {
                let used_here = match &here.last_log {
                    Some(last) => *last == here.log_directory || !last.exists(),
                    None => !held,
                };
                (!held, log && used_here)
            }
        };
        Self { writer, mount, clean, tier, log }
    }

    /// Whether the tier is believed as the one that was used last, with all that it holds. Without
    /// the log of an unclean end nothing in it can be told from what nobody wrote.
    pub(crate) fn tier_is_last(&self) -> bool {
        self.tier && (self.log || self.clean)
    }

    /// The metadata is of a time before all that is here.
    pub(crate) fn of_before(self) -> Self {
        Self { tier: false, log: false, ..self }
    }

    /// The tier of the last mount and its journal, if it had one.
    fn used(&self, here: &Here) -> (String, Option<String>) {
        if let Some(mount) = &self.mount {
            return (mount.tier.clone(), mount.journal.clone());
        }
        let journal = match &here.last_log {
            Some(log) if log.ends_with("redo") => None,
            Some(log) => Some(log.parent().unwrap_or(log).display().to_string()),
            None => Some("(if it had one)".to_owned()),
        };
        ("(an older weir did not say where)".to_owned(), journal)
    }

    fn least_accepted(&self, journal: Option<&str>) -> AcceptLoss {
        match (self.tier, self.log) {
            _ if self.clean => AcceptLoss::Nothing,
            (true, true) => AcceptLoss::Nothing,
            (false, true) => AcceptLoss::Tier,
            // The log was in the tier and went with it.
            (false, false) if journal.is_none() => AcceptLoss::Tier,
            (_, false) => AcceptLoss::All,
        }
    }

    /// What the mount goes on without; `Conflict` if nobody asked for that. `elsewhere` says that the
    /// volume is taken from another machine of which nothing is known but that it wrote: who did
    /// that was told that its tier stays there. `holder` is who had the right to write, as people call it.
    pub(crate) fn accept(
        &self,
        options: &MountOptions,
        elsewhere: bool,
        holder: Option<&str>,
        here: &Here,
    ) -> Result<Option<LeftBehind>> {
        let (tier, journal) = self.used(here);
        let needed = self.least_accepted(journal.as_deref());
        if needed == AcceptLoss::Nothing {
            return Ok(None);
        }
        let host = match (&self.mount, holder) {
            (Some(mount), _) => mount.host.clone(),
            (None, Some(holder)) => holder.to_owned(),
            (None, None) => "a mount of an older weir".to_owned(),
        };
        let asked = options.accept_loss.max(match elsewhere {
            true => AcceptLoss::Tier,
            false => AcceptLoss::Nothing,
        });
        if asked < needed {
            return Err(self.refusal(options, &host, (tier, journal), here));
        }
        let tier = Some(tier).filter(|_| !self.tier_is_last());
        Ok(Some(LeftBehind { host, tier, journal: journal.filter(|_| !self.log) }))
    }

    fn refusal(
        &self,
        options: &MountOptions,
        host: &str,
        (tier, journal): (String, Option<String>),
        here: &Here,
    ) -> FsError {
        let mut text =
            format!("{} was written last by {host}, which did not end cleanly", options.url);
        let mut wanted = Vec::new();
        if !self.tier {
            let (given, is_not) = (options.tier.display(), is_not(&here.tier));
            text.push_str(&format!(
                ": what it had not flushed is in its tier {tier}, and --tier {given} {is_not}"
            ));
            wanted.push(format!("--tier {tier}"));
        }
        match &journal {
            Some(journal) if !self.log => {
                let given = match &options.journal {
                    None => "there is no --journal".to_owned(),
                    Some(path) => format!("--journal {} {}", path.display(), is_not(&here.log)),
                };
                let joined = if self.tier { ": " } else { "; " };
                text.push_str(&format!(
                    "{joined}what was fsynced is in its journal {journal}, and {given}"
                ));
                wanted.push(format!("--journal {journal}"));
            }
            None if self.tier => {
                text.push_str(
                    " and had no journal: mount once without --journal and unmount, then with it",
                );
                return FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::LeftBehind);
            }
            _ => {}
        }
        let lost = match self.least_accepted(journal.as_deref()) {
            AcceptLoss::All => "all: what was fsynced and did not reach the bucket is lost then",
            _ => "tier: what was not fsynced is lost then",
        };
        let wanted = wanted.join(" ");
        text.push_str(&format!(
            ". Mount with {wanted} (the same disks, wherever they are mounted now), or go on \
             without by --accept-loss {lost}"
        ));
        FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::LeftBehind)
    }
}

fn is_not(note: &Note) -> &'static str {
    match note.0.is_empty() {
        true => "is empty (is its disk mounted?)",
        false => "is another one, or that one as it was before",
    }
}
