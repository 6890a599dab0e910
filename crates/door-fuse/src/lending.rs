//! Lending the kernel names and attributes, and taking them back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_fuse::{Attr, Entry, Errno, Reply};
use weir_types::{Ino, Inode};

use crate::door::DoorState;

impl DoorState {
    /// Lends from now on what there are leases on, where the kernel can be told to forget it.
    pub(crate) fn begin_to_lend(&self) {
        let can = self.engine.leases_lost().is_some() && self.forget_names();
        self.lent.may.store(can, Ordering::Release);
    }

    /// How often leases were lost up to now, before something is looked up that may be lent.
    pub(crate) fn lends_since(&self) -> Option<u64> {
        self.engine.leases_lost().filter(|_| self.lent.may.load(Ordering::Acquire))
    }

    /// Answers a lookup of a name in `dir` that began when leases had been lost this often.
    pub(crate) fn answer_lent(&self, reply: Reply, dir: Ino, found: Option<&Inode>, since: u64) {
        // Whoever takes it back waits for this, and tells the kernel after it.
        let _sending = self.lent.sending.read();
        let inos: Vec<Ino> = [dir].into_iter().chain(found.map(|inode| inode.ino)).collect();
        let entry_ttl = self.engine.lends(&inos, since);
        if !entry_ttl.is_zero() {
            self.lent.inos.lock().extend(&inos);
        }
        match found {
            Some(inode) => reply.entry(&Entry { entry_ttl, ..self.entry(inode) }),
            None if entry_ttl.is_zero() || self.engine.has_links() => {
                reply.error(Errno(libc::ENOENT));
            }
            None => {
                reply.entry(&Entry { attr: Attr::default(), entry_ttl, attr_ttl: Duration::ZERO })
            }
        }
    }

    /// Whether this name of a directory was lent, with what it leads to. A listing says nothing of it then:
    /// the kernel would take that for the end of the loan, and nobody could tell in time that it is over.
    pub(crate) fn was_lent(&self, dir: Ino, ino: Ino) -> bool {
        let lent = self.lent.inos.lock();
        lent.contains(&dir) && lent.contains(&ino)
    }

    /// The kernel must not remember these any more.
    pub(crate) fn take_back(&self, inos: &[Ino]) {
        drop(self.lent.sending.write());
        let any = {
            let mut lent = self.lent.inos.lock();
            let any = inos.iter().any(|ino| lent.contains(ino));
            if any {
                lent.clear();
            }
            any
        };
        inos.iter().for_each(|ino| self.forget_attributes(*ino));
        if any && !self.forget_names() {
            self.lent.may.store(false, Ordering::Release);
        }
    }

    /// The kernel must not remember anything that was lent any more.
    pub(crate) fn take_all_back(&self) {
        let all: Vec<Ino> = self.lent.inos.lock().iter().copied().collect();
        self.take_back(&all);
    }

    /// Has the kernel ask for every name anew; answers whether it does. It waits for nothing.
    fn forget_names(&self) -> bool {
        match self.notifier.get().map(|notifier| notifier.inc_epoch()) {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::debug!(%error, "the kernel cannot be lent names: it keeps what it knows");
                false
            }
            None => false,
        }
    }
}
