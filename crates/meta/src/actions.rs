//! Rows for what goes on in the background: actions over whole trees, and pins.
//!
//! An action's row says what was asked for and whether it has ended; how far it came is not kept,
//! because who goes on after a restart finds what is done already. A pin is a row of its own, so
//! that neither a writer of the file nor a flush collides with it; it goes with the inode.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, Extent, FsError, Ino, Result};

use crate::codec::{decode, encode, last_key};
use crate::kv::Key;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::{Meta, keys};

/// Rows read at once, and pins that one commit changes.
const PAGE: usize = 1_000;

/// What an action does. The order is that of the stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActionRowKind {
    /// Bring bytes here.
    Hydrate,
    /// Let bytes go.
    Release,
    /// Write bytes out.
    Archive,
}

/// How an action ended, and what it had done by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionEnd {
    /// Milliseconds since 1970.
    pub unix_ms: i64,
    /// Somebody stopped it.
    pub cancelled: bool,
    /// Files found, and of these done.
    pub files: (u64, u64),
    /// Bytes found, and of these done.
    pub bytes: (u64, u64),
    /// Files that were refused or failed.
    pub refused: u64,
    /// The first of them: path and reason.
    pub reasons: Vec<(String, String)>,
}

/// An action as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRow {
    /// What it does.
    pub kind: ActionRowKind,
    /// Inodes where it begins, and their paths for people.
    pub roots: Vec<(Ino, String)>,
    /// It goes down into directories.
    pub recursive: bool,
    /// Bytes a second at most.
    pub max_bytes_per_s: Option<u64>,
    /// When it was asked for, in milliseconds since 1970.
    pub asked_unix_ms: i64,
    /// How it ended; `None` while it has not.
    pub end: Option<ActionEnd>,
}

impl Meta {
    /// All actions by number. One read for each 1,000.
    pub async fn actions(&self) -> Result<Vec<(u64, ActionRow)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::ACTION], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                all.extend(keys::parse_action(key).zip(Some(decode(key, &found.value)?)));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Notes a new action under a number that must be free; `Exists` if it is not. One commit.
    pub async fn add_action(&self, number: u64, row: &ActionRow) -> Result<()> {
        let mut tx = Tx::default();
        tx.check(keys::action(number), None);
        tx.put(keys::action(number), encode(row)?);
        match self.apply(tx).await? {
            true => Ok(()),
            false => Err(FsError::new(ErrorKind::Exists, format!("action {number} is there"))),
        }
    }

    /// Notes how an action stands now, and forgets others. One commit.
    pub async fn put_action(&self, number: u64, row: &ActionRow, forget: &[u64]) -> Result<()> {
        let mut tx = Tx::default();
        tx.put(keys::action(number), encode(row)?);
        forget.iter().for_each(|number| tx.delete(keys::action(*number)));
        self.apply(tx).await.map(drop)
    }

    /// All pinned inodes. One read for each 1,000.
    pub async fn pins(&self) -> Result<Vec<Ino>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::PIN], after.as_deref(), PAGE).await?;
            all.extend(page.iter().filter_map(|(key, _)| keys::parse_ino(key)));
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Pins inodes or unpins them. Answers those that are there and so have it. One read round
    /// and one commit for each 1,000.
    pub async fn set_pins(&self, inos: &[Ino], pinned: bool) -> Result<Vec<Ino>> {
        let mut done = Vec::with_capacity(inos.len());
        for page in inos.chunks(PAGE) {
            let mut tries = Tries::new("pin");
            loop {
                tries.next().await?;
                let wanted: Vec<_> = page.iter().map(|ino| keys::inode(*ino)).collect();
                let found = self.get(&wanted).await?;
                let mut tx = Tx::default();
                let mut here = Vec::with_capacity(page.len());
                for (ino, found) in page.iter().zip(&found) {
                    let Some(seen) = seen_inode(*ino, found.as_ref())? else { continue };
                    here.push(*ino);
                    match pinned {
                        true => {
                            // Whoever removes the inode removes the pin, if it can see it.
                            tx.check_inode(&seen);
                            tx.put(keys::pin(*ino), Bytes::from_static(&[1]));
                        }
                        false => tx.delete(keys::pin(*ino)),
                    }
                }
                if self.apply(tx).await? {
                    done.extend(here);
                    break;
                }
            }
        }
        Ok(done)
    }

    /// The extents of the first chunk of each of these files; none for those without. One read
    /// round.
    pub async fn first_chunks(&self, inos: &[Ino]) -> Result<Vec<Vec<Extent>>> {
        let wanted: Vec<_> = inos.iter().map(|ino| keys::extents(*ino, 0)).collect();
        let found = self.get(&wanted).await?;
        let decoded = wanted.iter().zip(found).map(|(key, found)| match found {
            Some(found) => decode(key, &found.value),
            None => Ok(Vec::new()),
        });
        decoded.collect()
    }

    /// Whether `ino` is one of `roots` or lies below one, as far as its inode tells: for anything
    /// but a directory that is where it was made. One read for each level.
    pub async fn lies_below(&self, ino: Ino, roots: &[Ino]) -> Result<bool> {
        let mut at = ino;
        loop {
            if roots.contains(&at) {
                return Ok(true);
            }
            if at == Ino::ROOT {
                return Ok(false);
            }
            let found = self.get(&[keys::inode(at)]).await?;
            let seen = seen_inode(at, found[0].as_ref())?;
            at = seen.ok_or_else(|| no_inode(at))?.value.parent;
        }
    }
}
