//! Actions of which each node that shares the volume has a portion.
//!
//! What was asked for at once is a group of actions with numbers that follow one another, named by its first; each is
//! claimed by one node, as any action is. Which portion it is stands in a row of its own. That somebody was given one
//! can be seen by the version of a row that all of these commits put.

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

use crate::actions::{ActionClaim, ActionPortion, ActionRow, ClaimedAction};
use crate::codec::encode;
use crate::kv::Version;
use crate::op::Tx;
use crate::{Meta, keys};

/// Versions by which a node sees that something new is asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedOfNodes {
    /// Of the portions of actions.
    pub portions: Option<Version>,
    /// Of the pins.
    pub pins: Option<Version>,
}

impl Meta {
    /// Notes a group of actions under numbers from `first` on that must be free, each claimed by a node; `Exists` if
    /// one is not. One commit.
    pub async fn add_actions(
        &self,
        first: u64,
        row: &ActionRow,
        everywhere: bool,
        claims: &[ActionClaim],
    ) -> Result<()> {
        let (mut tx, count) = (Tx::default(), claims.len() as u32);
        for (nth, claim) in (0..count).zip(claims) {
            let number = first + u64::from(nth);
            let portion = ActionPortion { group: first, nth, count, everywhere, full: Vec::new() };
            tx.check(keys::action(number), None);
            tx.put(keys::action(number), encode(row)?);
            tx.put(keys::action_claim(number), encode(claim)?);
            tx.put(keys::action_portion(number), encode(&portion)?);
        }
        tell(&mut tx);
        match self.apply(tx).await? {
            true => Ok(()),
            false => Err(FsError::new(ErrorKind::Exists, format!("action {first} is there"))),
        }
    }

    /// Gives a portion that is as it was seen to the node of this claim. `false` if it is another's by now, or has
    /// ended. One commit.
    pub async fn give_portion(
        &self,
        number: u64,
        seen: &ClaimedAction,
        portion: &ActionPortion,
        claim: &ActionClaim,
    ) -> Result<bool> {
        let mut tx = Tx::default();
        tx.check(keys::action(number), Some(seen.row.0));
        tx.check(keys::action_claim(number), seen.claim.as_ref().map(|(version, _)| *version));
        tx.put(keys::action_claim(number), encode(claim)?);
        tx.put(keys::action_portion(number), encode(portion)?);
        tell(&mut tx);
        self.apply(tx).await
    }

    /// What changes whenever a portion is given to a node, and whenever files are pinned or unpinned; `None` before
    /// the first time. One read.
    pub async fn asked_of_nodes(&self) -> Result<AskedOfNodes> {
        let found = self.kv.get_many(&[keys::PORTIONS.to_vec(), keys::PINS.to_vec()]).await?;
        let version = |at: usize| found[at].as_ref().map(|row| row.version);
        Ok(AskedOfNodes { portions: version(0), pins: version(1) })
    }
}

fn tell(tx: &mut Tx) {
    tx.put(keys::PORTIONS.to_vec(), Bytes::from_static(&[1]));
}
