//! What another door of this daemon changes: the kernel forgets it before that door's client has its answer.
//!
//! Attributes at once. Names and pages wait for requests of the mount: for those that look for or change a
//! name in the same directory, and for those that read the same page. Such a request may wait for the bucket, so
//! the other door waits for a moment only, and the kernel forgets behind its answer then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::{Boxed, DoorChange, OtherDoor};
use weir_types::ByteRange;

use crate::door::DoorState;
use crate::pages::DROP_WAIT;
use crate::view::FuseView;

impl OtherDoor for FuseView {
    fn changed(&self, changes: Vec<DoorChange>) -> Boxed<'static, ()> {
        Box::pin(self.0.clone().changed_beside(changes))
    }
}

impl DoorState {
    async fn changed_beside(self: Arc<Self>, mut changes: Vec<DoorChange>) {
        self.fresh.changed();
        changes.retain(|change| match change {
            DoorChange::Attributes(ino) => {
                // It may have got set-user-id, which a write takes away.
                self.privileges_given.fetch_add(1, Ordering::AcqRel);
                self.forget_attributes(*ino);
                false
            }
            DoorChange::Name(dir, _) => {
                self.listings.changed(*dir);
                true
            }
            DoorChange::Bytes(..) => true,
        });
        if changes.is_empty() {
            return;
        }
        let door = self.clone();
        let telling = self.pages.tell(move || door.tell_of(&changes));
        let told = self.whole(async move {
            telling.await;
            Ok(())
        });
        if tokio::time::timeout(DROP_WAIT, told).await.is_err() {
            tracing::debug!("the kernel forgets later what another door changed");
        }
    }

    fn tell_of(&self, changes: &[DoorChange]) {
        let _open = self.gate.read();
        for change in changes {
            match change {
                DoorChange::Attributes(ino) => self.forget_attributes(*ino),
                DoorChange::Name(dir, name) => {
                    let told = self.notifier.get().map(|kernel| kernel.inval_entry(dir.0, name));
                    if let Some(Err(error)) = told.filter(|told| !is_unknown(told)) {
                        tracing::warn!(%dir, %error, "a name may look as before a change that is done");
                    }
                    // Its times, and what it lists.
                    self.forget_listing(*dir);
                }
                DoorChange::Bytes(ino, ByteRange { start, end }) => {
                    let len = i64::try_from(end.saturating_sub(*start)).unwrap_or(0);
                    self.drop_here(*ino, *start, len as u64);
                    self.cached.lost_some(*ino);
                }
            }
        }
    }
}

/// The kernel remembers nothing of it.
pub(crate) fn is_unknown(told: &io::Result<()>) -> bool {
    told.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
