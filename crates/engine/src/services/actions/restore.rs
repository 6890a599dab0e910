//! What lies in an archive class: asked for once, looked at until it can be read, and brought then.
//!
//! Nothing of it is noted: after a restart the hydration comes by these files again, and sees at each object whether it
//! was asked for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::future;
use futures::stream::{self, StreamExt};
use weir_object::{Component, Readable};
use weir_types::{ArchiveClass, ErrorKind, FsError, Ino, Native, Restore, RestoreTier, Result};

use super::found::Found;
use super::hydrate::{Hydrating, Mover};
use crate::services::actions::parts::Actions;

/// Objects that are asked for at once.
const ASKED_AT_ONCE: usize = 16;
/// Files that are brought before others are looked at, about.
const BROUGHT_AT_ONCE: usize = 512;
/// Objects that are looked at in a round and are not there yet. The first ones asked for are the first to come, so there
/// is no need to look at all; each costs a request.
const LOOKED_AT_IN_VAIN: usize = 16;

const OWN: &str = "its bytes are in the volume's own objects, of which none is restored: do that in S3, and see which \
                   lifecycle rule of the bucket put them into that class";
const OVER_AND_OVER: &str = "its object was restored and could not be read, over and over: try again with more \
                             days, or with room in the tier";

/// How often the bucket is asked whether objects are there.
fn look_every(tier: RestoreTier) -> Duration {
    match tier {
        RestoreTier::Expedited => Duration::from_secs(10),
        RestoreTier::Standard | RestoreTier::Bulk => Duration::from_secs(60),
    }
}

/// How often a file is restored in one hydration: a copy may expire before there was room for it here.
const TIMES_MAX: u32 = 3;

/// The class and the bytes of an object that was asked for now.
type Asked = Option<(ArchiveClass, u64)>;

impl Mover {
    /// Has the files restored whose objects are archived, and brings them as they come.
    pub(super) async fn restore_archived(&mut self) {
        let Some(restore) = self.action.request.restore else { return };
        let mut times: HashMap<Ino, u32> = HashMap::new();
        while !self.archived.is_empty() {
            let mut files = std::mem::take(&mut self.archived);
            for file in files.extract_if(.., |file| {
                let times = times.entry(file.ino).or_default();
                *times += 1;
                *times > TIMES_MAX
            }) {
                self.refuse(&file, OVER_AND_OVER);
            }
            let mut waiting = self.ask_for(files, restore).await;
            while !waiting.is_empty() {
                let ready = self.ready(&mut waiting).await;
                self.action.waits_for(waiting.len() as u64);
                match ready.is_empty() {
                    true => tokio::time::sleep(look_every(restore.tier)).await,
                    false => self.bring(ready).await,
                }
            }
        }
    }

    /// Asks for all of them; those that cannot be restored are refused.
    async fn ask_for(&mut self, files: Vec<Found>, restore: Restore) -> VecDeque<Found> {
        let actions = self.actions.clone();
        let mut asking = stream::iter(files)
            .map(|file| {
                let actions = actions.clone();
                async move {
                    let asked = actions.ask_to_restore(&file, restore).await;
                    (file, asked)
                }
            })
            .buffered(ASKED_AT_ONCE);
        let mut waiting = VecDeque::new();
        while let Some((file, asked)) = asking.next().await {
            match asked {
                Ok(asked) => {
                    if let Some((class, bytes)) = asked {
                        self.action.restores(class, bytes);
                    }
                    waiting.push_back(file);
                    self.action.waits_for(waiting.len() as u64);
                }
                Err(error) => self.refuse(&file, &error.to_string()),
            }
        }
        waiting
    }

    /// Takes some of those that can be read from the files that wait.
    async fn ready(&self, waiting: &mut VecDeque<Found>) -> Vec<Found> {
        let (mut ready, mut looked_at, mut in_vain) = (Vec::new(), 0, 0);
        let all = waiting.len();
        while looked_at < all && ready.len() < BROUGHT_AT_ONCE && in_vain < LOOKED_AT_IN_VAIN {
            let some = waiting.drain(..waiting.len().min(ASKED_AT_ONCE).min(all - looked_at));
            let looks = some.map(|file| async {
                let is_archived = self.actions.is_still_archived(&file).await;
                (file, is_archived)
            });
            let looked = future::join_all(looks).await;
            looked_at += looked.len();
            for (file, is_archived) in looked {
                match is_archived {
                    Ok(false) => ready.push(file),
                    // Its fetch says why not.
                    Err(error) if error.kind() != ErrorKind::Retry => ready.push(file),
                    Ok(true) | Err(_) => {
                        in_vain += 1;
                        waiting.push_back(file);
                    }
                }
            }
        }
        ready
    }

    async fn bring(&mut self, files: Vec<Found>) {
        if files.is_empty() {
            return;
        }
        let actions = self.actions.clone();
        let _hydrating = Hydrating::begin(&actions);
        for file in files {
            self.file(file, true).await;
        }
        self.finish().await;
        self.try_again().await;
    }
}

impl Actions {
    /// The object that has a file's bytes; `None` if the file is gone.
    async fn object_of(&self, file: &Found) -> Result<Option<Native>> {
        let Some(inode) = self.links.resolver.inode_if_there(file.ino).await? else {
            return Ok(None);
        };
        let native = inode.native.ok_or_else(|| FsError::new(ErrorKind::Unsupported, OWN))?;
        Ok(Some(native))
    }

    /// Has a file's object restored, unless it is on its way or can be read. A HEAD and a POST.
    async fn ask_to_restore(&self, file: &Found, restore: Restore) -> Result<Asked> {
        let Some(native) = self.object_of(file).await? else { return Ok(None) };
        let bucket = self.links.registry.bucket(native.link)?;
        match bucket.readable(Component::Link, &native.key).await? {
            Readable::Yes | Readable::Soon => Ok(None),
            Readable::No { class, size } => {
                bucket.restore(Component::Link, &native.key, class, restore).await?;
                self.context.counts.restored.add(class, restore, size);
                Ok(Some((class, size)))
            }
        }
    }

    /// Whether a file's object cannot be read yet. A HEAD.
    async fn is_still_archived(&self, file: &Found) -> Result<bool> {
        let Some(native) = self.object_of(file).await? else { return Ok(false) };
        let bucket = self.links.registry.bucket(native.link)?;
        Ok(bucket.readable(Component::Link, &native.key).await? == Readable::Soon)
    }
}
