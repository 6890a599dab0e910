//! What is done behind a caller who was told that it is interrupted. Whoever looked meanwhile was told of
//! before, and the kernel remembers that.

use std::sync::Arc;

use weir_types::Ino;

use crate::beside::is_unknown;
use crate::door::DoorState;

/// What a request changes that the kernel may remember.
#[derive(Debug, Default)]
pub(crate) struct Change {
    names: Vec<(Ino, Vec<u8>)>,
    inodes: Vec<Ino>,
}

impl Change {
    /// A name that comes or goes.
    pub(crate) fn of_name(dir: Ino, name: &[u8]) -> Self {
        Self { names: vec![(dir, name.to_vec())], inodes: Vec::new() }
    }

    /// An inode.
    pub(crate) fn of(ino: Ino) -> Self {
        Self { names: Vec::new(), inodes: vec![ino] }
    }

    /// One more name.
    pub(crate) fn and_name(mut self, dir: Ino, name: &[u8]) -> Self {
        self.names.push((dir, name.to_vec()));
        self
    }

    /// Inodes too.
    pub(crate) fn and(mut self, inodes: impl IntoIterator<Item = Ino>) -> Self {
        self.inodes.extend(inodes);
        self
    }
}

impl DoorState {
    /// Has the kernel ask again for what came late. It waits for those who use one of the directories.
    pub(crate) async fn changed_late(self: Arc<Self>, change: Change) {
        let door = self;
        let tell = move || {
            for (dir, name) in &change.names {
                let told = door.notifier.get().map(|notifier| notifier.expire_entry(dir.0, name));
                if let Some(Err(error)) = told.filter(|told| !is_unknown(told)) {
                    tracing::warn!(%dir, %error, "a name may look as before a change that is done");
                }
                // Its times, and what it lists.
                door.forget_listing(*dir);
            }
            change.inodes.iter().for_each(|ino| door.forget_attributes(*ino));
        };
        drop(tokio::task::spawn_blocking(tell).await);
    }
}
