//! When files were last read, where a door keeps that: by the kernel's rule for `relatime`, gathered in
//! memory and taken to the metadata many at a time.
//!
//! - What was noted shows at once in all attributes, and is in the metadata within the flush age. What
//!   was not there yet when the daemon was killed is lost.
//! - Who reads waits for none of it. Where there is no room for more, a read is not noted.
//! - A time that somebody set in the meantime stays.
//! - Nothing else changes with it: no ctime, and nothing leaves for a linked bucket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_meta::{AtimeChange, Meta};
use weir_types::{Ino, Inode, Result, UnixTime};

use crate::volume::context::Context;
use crate::volume::locks::{self, Place};

/// Reads that wait to be taken to the metadata: some 8 MiB of them.
const NOTED_MAX: usize = 1 << 17;
/// How many one commit takes.
const BATCH: usize = 500;
/// A time of reading that is older than this is brought up to date at the next one.
const DAY_NANOS: i64 = 24 * 3600 * 1_000_000_000;

/// Reads that were noted.
pub(crate) struct Atimes {
    context: Arc<Context>,
    meta: Arc<Meta>,
    noted: Mutex<HashMap<Ino, Read>>,
    /// There is one.
    any: Notify,
    /// There are so many that they do not wait any longer.
    many: Notify,
    /// Held by who takes them to the metadata.
    taking: locks::Mutex,
}

/// The time that the metadata has, and the one that it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    before: UnixTime,
    at: UnixTime,
}

impl Atimes {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>) -> Self {
        Self {
            context,
            meta,
            noted: Mutex::default(),
            any: Notify::new(),
            many: Notify::new(),
            taking: locks::Mutex::new(Place::Atimes, 0, ()),
        }
    }

    /// Notes that an inode, which is as the metadata has it, is read now. Answers whether its
    /// time changes by that.
    pub(crate) fn note(&self, inode: &Inode) -> bool {
        let now = self.context.now();
        let mut noted = self.noted.lock();
        let shown = shown(&noted, inode);
        if !is_due(shown, inode, now) || noted.len() >= NOTED_MAX && shown == inode.atime {
            return false;
        }
        noted.insert(inode.ino, Read { before: inode.atime, at: now });
        match noted.len() {
            1 => self.any.notify_one(),
            count if count >= NOTED_MAX / 2 => self.many.notify_one(),
            _ => {}
        }
        true
    }

    /// The inode with the time of a read that the metadata does not have yet.
    pub(crate) fn merged(&self, inode: Inode) -> Inode {
        let atime = shown(&self.noted.lock(), &inode);
        Inode { atime, ..inode }
    }

    /// Somebody sets the time: what was noted is void, and nobody brings it any more while what this
    /// answers is held.
    pub(crate) async fn setting(&self, ino: Ino) -> impl Sized + '_ {
        let held = self.taking.lock().await;
        self.noted.lock().remove(&ino);
        held
    }

    /// Takes what was noted to the metadata.
    pub(crate) async fn flush(&self) -> Result<()> {
        let inos: Vec<_> = self.noted.lock().keys().copied().collect();
        for some in inos.chunks(BATCH) {
            let _taking = self.taking.lock().await;
            let changes: Vec<_> = {
                let noted = self.noted.lock();
                let change = |ino: &Ino| {
                    noted.get(ino).map(|Read { before, at }| AtimeChange {
                        ino: *ino,
                        before: *before,
                        after: *at,
                    })
                };
                some.iter().filter_map(change).collect()
            };
            self.meta.set_atimes(&changes).await?;
            let mut noted = self.noted.lock();
            for AtimeChange { ino, before, after: at } in changes {
                if noted.get(&ino) == Some(&Read { before, at }) {
                    noted.remove(&ino);
                }
            }
        }
        Ok(())
    }
}

fn shown(noted: &HashMap<Ino, Read>, inode: &Inode) -> UnixTime {
    let read = noted.get(&inode.ino).filter(|read| read.before == inode.atime);
    read.map_or(inode.atime, |read| read.at)
}

/// The kernel's rule: where it changed since it was last read, and once a day.
fn is_due(atime: UnixTime, inode: &Inode, now: UnixTime) -> bool {
    atime <= inode.mtime || atime <= inode.ctime || now.0.saturating_sub(atime.0) >= DAY_NANOS
}

/// Takes what is noted to the metadata once the first of it is as old as data may be.
pub(crate) async fn atimes_loop(atimes: Arc<Atimes>) {
    let age = Duration::from_millis(atimes.context.settings.flush_age_ms);
    loop {
        atimes.any.notified().await;
        tokio::select! {
            () = tokio::time::sleep(age) => {}
            () = atimes.many.notified() => {}
        }
        if let Err(error) = atimes.flush().await {
            tracing::warn!(%error, "when files were read is not in the metadata yet: tried again");
            tokio::time::sleep(age).await;
        }
        if !atimes.noted.lock().is_empty() {
            atimes.any.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::FileKind;

    use super::*;

    #[test]
    fn the_rule_is_that_of_local_file_systems() {
        let file = Inode::new(Ino(7), FileKind::Regular, Ino::ROOT, UnixTime(100));
        let day = UnixTime(100 + DAY_NANOS);
        for (atime, now, wanted) in [
            (UnixTime(99), UnixTime(101), true),
            (UnixTime(100), UnixTime(101), true),
            (UnixTime(101), UnixTime(102), false),
            (UnixTime(101), day, false),
            (UnixTime(101), UnixTime(day.0 + 1), true),
            (UnixTime(i64::MAX), UnixTime(i64::MIN), false),
        ] {
            assert_eq!(is_due(atime, &file, now), wanted, "{atime:?} at {now:?}");
        }
    }

    #[test]
    fn a_time_that_was_set_meanwhile_is_not_hidden() {
        let file = Inode::new(Ino(7), FileKind::Regular, Ino::ROOT, UnixTime(100));
        let read = Read { before: UnixTime(100), at: UnixTime(200) };
        let noted = HashMap::from([(Ino(7), read)]);
        assert_eq!(shown(&noted, &file), UnixTime(200));
        assert_eq!(shown(&noted, &Inode { atime: UnixTime(50), ..file.clone() }), UnixTime(50));
        assert_eq!(shown(&HashMap::new(), &file), UnixTime(100));
    }
}
