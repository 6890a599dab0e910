//! Rows for what goes on in the background: actions over whole trees, and pins.
//!
//! An action's row says what was asked for and whether it has ended; how far it came is not kept,
//! because who goes on after a restart finds what is done already. Where nodes share the volume a second
//! row says which of them works on it, for as long as its session is there. A pin is a row of its own, so
//! that neither a writer of the file nor a flush collides with it; it goes with the inode.

use std::collections::HashMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, Extent, FsError, Ino, Restore, Result};

use crate::codec::{decode, decode_seen, encode, last_key};
use crate::kv::{Key, Version, Versioned};
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::session::SessionId;
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

impl ActionEnd {
    /// Of one that was cancelled elsewhere than where it was worked on, for this reason.
    pub fn lost(claim: &ActionClaim, unix_ms: i64, why: &str) -> Self {
        Self {
            unix_ms,
            cancelled: true,
            files: claim.files,
            bytes: claim.bytes,
            refused: claim.refused,
            reasons: vec![(String::new(), why.to_owned())],
        }
    }
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

/// Which node works on an action, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionClaim {
    /// The session.
    pub session: SessionId,
    /// Its machine.
    pub node: String,
    /// Its tier directory.
    pub tier: String,
    /// It has begun.
    pub runs: bool,
    /// Files found, and of these done.
    pub files: (u64, u64),
    /// Bytes found, and of these done.
    pub bytes: (u64, u64),
    /// All files are found.
    pub counted: bool,
    /// Files that were refused or failed.
    pub refused: u64,
}

/// Which part of what was asked for an action is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionPortion {
    /// The number of the first action of the group.
    pub group: u64,
    /// Which one of them it is, from 0.
    pub nth: u32,
    /// How many there are.
    pub count: u32,
    /// It is all of what was asked for: each node does that.
    pub everywhere: bool,
    /// Sessions that had it and had no room for all of it.
    pub full: Vec<SessionId>,
}

/// An action and its claim, each with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedAction {
    /// The action.
    pub row: (Version, ActionRow),
    /// Who works on it; `None` where nodes shared nothing when it was asked for.
    pub claim: Option<(Version, ActionClaim)>,
    /// Which part it is of what was asked for; `None`: all of it. Changes with the claim only.
    pub portion: Option<ActionPortion>,
    /// How what lies in an archive class is restored for it; `None`: not at all. Never changes.
    pub restore: Option<Restore>,
}

impl Meta {
    /// All actions by number. One read for each 1,000.
    pub async fn actions(&self) -> Result<Vec<(u64, ActionRow)>> {
        let rows = self.action_rows(keys::ACTION).await?;
        Ok(rows.into_iter().map(|(number, (_, row))| (number, row)).collect())
    }

    /// All actions by number, with who works on them. Four reads, one more for each 1,000.
    pub async fn claimed_actions(&self) -> Result<Vec<(u64, ClaimedAction)>> {
        let rows = self.action_rows(keys::ACTION).await?;
        let mut claims: HashMap<_, _> =
            self.action_rows(keys::ACTION_CLAIM).await?.into_iter().collect();
        let mut portions: HashMap<_, _> =
            self.action_rows(keys::ACTION_PORTION).await?.into_iter().collect();
        let mut restores: HashMap<_, _> =
            self.action_rows(keys::ACTION_RESTORE).await?.into_iter().collect();
        let claimed = |(number, row)| {
            let (claim, portion) = (claims.remove(&number), portions.remove(&number));
            let portion = portion.map(|(_, portion)| portion);
            let restore = restores.remove(&number).map(|(_, restore)| restore);
            (number, ClaimedAction { row, claim, portion, restore })
        };
        Ok(rows.into_iter().map(claimed).collect())
    }

    /// These actions, with who works on them; `None` for those that are not there. One read.
    pub async fn these_actions(&self, numbers: &[u64]) -> Result<Vec<Option<ClaimedAction>>> {
        let of = |key: fn(u64) -> Key| numbers.iter().map(move |number| key(*number));
        let wanted: Vec<_> = of(keys::action)
            .chain(of(keys::action_claim))
            .chain(of(keys::action_portion))
            .chain(of(keys::action_restore))
            .collect();
        let found = self.kv.get_many(&wanted).await?;
        let mut all = Vec::with_capacity(numbers.len());
        for at in 0..numbers.len() {
            let row = row_at(&wanted[at], found[at].as_ref())?;
            let [second, third, last] = [1, 2, 3].map(|nth| at + nth * numbers.len());
            let claim = row_at(&wanted[second], found[second].as_ref())?;
            let portion =
                row_at(&wanted[third], found[third].as_ref())?.map(|(_, portion)| portion);
            let restore = row_at(&wanted[last], found[last].as_ref())?.map(|(_, restore)| restore);
            all.push(row.map(|row| ClaimedAction { row, claim, portion, restore }));
        }
        Ok(all)
    }

    async fn action_rows<T: DeserializeOwned>(&self, tag: u8) -> Result<Vec<(u64, (Version, T))>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[tag], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let row = (found.version, decode(key, &found.value)?);
                all.extend(keys::parse_action(key).zip(Some(row)));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Notes who works on actions, and how far it is, where the claims are as they were seen: of this
    /// version, or absent. `false` if one is not. One commit.
    pub async fn claim_actions(
        &self,
        claims: &[(u64, Option<Version>, ActionClaim)],
    ) -> Result<bool> {
        let mut tx = Tx::default();
        for (number, seen, claim) in claims {
            tx.check(keys::action_claim(*number), *seen);
            tx.put(keys::action_claim(*number), encode(claim)?);
        }
        self.apply(tx).await
    }

    /// Has no action be anybody's that has not ended. Four reads, and a commit if there are any such.
    pub async fn unclaim_actions(&self) -> Result<()> {
        let mut tx = Tx::default();
        let all = self.claimed_actions().await?;
        let claimed = all.iter().filter(|(_, of)| of.claim.is_some() && of.row.1.end.is_none());
        claimed.for_each(|(number, _)| tx.delete(keys::action_claim(*number)));
        self.apply(tx).await.map(drop)
    }

    /// Ends as cancelled what a session was at that nobody else can go on with: it does not come back, for
    /// this reason. Answers how many there were. Four reads, and a commit for each.
    pub async fn lose_actions(&self, session: SessionId, unix_ms: i64, why: &str) -> Result<u64> {
        let mut lost = 0;
        for (number, found) in self.claimed_actions().await? {
            let Some((_, claim)) = found.claim.as_ref().filter(|(_, of)| of.session == session)
            else {
                continue;
            };
            let row = &found.row.1;
            let others_go_on = row.kind == ActionRowKind::Archive
                || found.portion.as_ref().is_some_and(|portion| !portion.everywhere);
            if row.end.is_some() || others_go_on {
                continue;
            }
            let row = ActionRow { end: Some(ActionEnd::lost(claim, unix_ms, why)), ..row.clone() };
            lost += u64::from(self.end_action(number, &found, &row, &[]).await?);
        }
        Ok(lost)
    }

    /// Ends an action that is as it was seen, whoever works on it, and forgets others. `false` if it is
    /// another's by now, or has ended. One commit.
    pub async fn end_action(
        &self,
        number: u64,
        seen: &ClaimedAction,
        row: &ActionRow,
        forget: &[u64],
    ) -> Result<bool> {
        let mut tx = Tx::default();
        tx.check(keys::action(number), Some(seen.row.0));
        tx.check(keys::action_claim(number), seen.claim.as_ref().map(|(version, _)| *version));
        tx.put(keys::action(number), encode(row)?);
        forget_actions(&mut tx, forget);
        self.apply(tx).await
    }

    /// Notes a new action under a number that must be free, who works on it, and how what is archived is
    /// restored for it; `Exists` if the number is not free. One commit.
    pub async fn add_action(
        &self,
        number: u64,
        row: &ActionRow,
        claim: Option<&ActionClaim>,
        restore: Option<&Restore>,
    ) -> Result<()> {
        let mut tx = Tx::default();
        tx.check(keys::action(number), None);
        tx.put(keys::action(number), encode(row)?);
        if let Some(claim) = claim {
            tx.put(keys::action_claim(number), encode(claim)?);
        }
        if let Some(restore) = restore {
            tx.put(keys::action_restore(number), encode(restore)?);
        }
        match self.apply(tx).await? {
            true => Ok(()),
            false => Err(FsError::new(ErrorKind::Exists, format!("action {number} is there"))),
        }
    }

    /// Notes how an action stands now, and forgets others. One commit.
    pub async fn put_action(&self, number: u64, row: &ActionRow, forget: &[u64]) -> Result<()> {
        let mut tx = Tx::default();
        tx.put(keys::action(number), encode(row)?);
        forget_actions(&mut tx, forget);
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
                tx.put(keys::PINS.to_vec(), Bytes::from_static(&[1]));
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

fn row_at<T: DeserializeOwned>(
    key: &[u8],
    found: Option<&Versioned>,
) -> Result<Option<(Version, T)>> {
    Ok(decode_seen(key, found)?.map(|seen| (seen.version, seen.value)))
}

fn forget_actions(tx: &mut Tx, numbers: &[u64]) {
    for number in numbers {
        tx.delete(keys::action(*number));
        tx.delete(keys::action_claim(*number));
        tx.delete(keys::action_portion(*number));
        tx.delete(keys::action_restore(*number));
    }
}
