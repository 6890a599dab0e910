//! Who waits for advisory locks at this mount, for people to look at. Where nodes share the volume the others
//! are told of it with beats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_meta::kv::Kv;
use weir_meta::locks::{Lock, LockSpace};
use weir_meta::node_waits::say_waits;
use weir_meta::sessions::SessionId;
use weir_types::{Ino, Result};

/// Who has waited for less is not told of: most have what they want by then.
const AFTER: Duration = Duration::from_secs(1);

/// What is waited for.
pub(crate) type Wanted = (Ino, LockSpace, Lock);

/// Those that wait, and what was said of them.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiting: Mutex<BTreeMap<u64, (Wanted, Instant)>>,
    next: Mutex<u64>,
    said: Mutex<Said>,
}

/// What the session's row says.
#[derive(Debug, PartialEq)]
enum Said {
    Known(Vec<Wanted>),
    /// A commit was not answered.
    Unknown,
}

impl Default for Said {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

/// Somebody waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    waits: Arc<Waits>,
    ticket: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.waiting.lock().remove(&self.ticket);
    }
}

impl Waits {
    /// Somebody may have to wait from now on.
    pub(crate) fn begin(self: &Arc<Self>, wanted: Wanted) -> Waiting {
        let ticket = {
            let mut next = self.next.lock();
            *next += 1;
            *next
        };
        self.waiting.lock().insert(ticket, (wanted, Instant::now()));
        Waiting { waits: self.clone(), ticket }
    }

    /// Those that have waited for a while, who began first first.
    pub(crate) fn all(&self) -> Vec<Wanted> {
        let waiting = self.waiting.lock();
        let long = waiting.values().filter(|(_, since)| since.elapsed() >= AFTER);
        long.map(|(wanted, _)| *wanted).collect()
    }

    /// Tells the other nodes, if it is not what they were told last. One commit then.
    pub(crate) async fn say(&self, kv: &dyn Kv, session: SessionId) -> Result<()> {
        let all = self.all();
        let now = Said::Known(all.clone());
        if *self.said.lock() == now {
            return Ok(());
        }
        *self.said.lock() = Said::Unknown;
        say_waits(kv, session, &all).await?;
        *self.said.lock() = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_meta::kv::MemoryKv;
    use weir_meta::locks::LockOwner;
    use weir_meta::node_waits::all_locks;

    use super::*;

    fn wanted(ino: u64) -> Wanted {
        let lock = Lock { owner: LockOwner(1), start: 0, last: 9, exclusive: true, pid: 7 };
        (Ino(ino), LockSpace::Posix, lock)
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_while_is_told_of_until_it_does_not() {
        let (kv, waits, me) = (MemoryKv::new(), Arc::new(Waits::default()), SessionId(1));
        let told = async || all_locks(&kv).await.expect("reads").len();
        let one = waits.begin(wanted(1));
        waits.say(&kv, me).await.expect("says");
        assert_eq!(told().await, 0, "it may have it in a moment");
        tokio::time::sleep(AFTER).await;
        let two = waits.begin(wanted(2));
        waits.say(&kv, me).await.expect("says");
        assert_eq!((waits.all(), told().await), (vec![wanted(1)], 1));
        drop(one);
        tokio::time::sleep(AFTER).await;
        assert_eq!(waits.all(), [wanted(2)]);
        drop(two);
        waits.say(&kv, me).await.expect("says");
        assert_eq!((waits.all(), told().await), (Vec::new(), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_is_not_said_again() {
        let (kv, waits, me) = (MemoryKv::new(), Arc::new(Waits::default()), SessionId(1));
        let _one = waits.begin(wanted(1));
        tokio::time::sleep(AFTER).await;
        waits.say(&kv, me).await.expect("says");
        say_waits(&kv, me, &[]).await.expect("says");
        waits.say(&kv, me).await.expect("says");
        assert!(all_locks(&kv).await.expect("reads").is_empty(), "no commit was made");
        *waits.said.lock() = Said::Unknown;
        waits.say(&kv, me).await.expect("says");
        assert_eq!(all_locks(&kv).await.expect("reads").len(), 1, "nobody knows what was said");
    }
}
