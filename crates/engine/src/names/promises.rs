//! Promises that a file stays as it is: its bytes, attributes and names. A door has made them to a client that
//! keeps a copy, and whoever wants to change the file waits until the client has given the promise back.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_types::Ino;

/// Told, once, that somebody waits for the end of a promise. It must not wait itself.
pub type Recall = Box<dyn FnOnce() + Send>;

/// All promises, and who changes what.
#[derive(Default)]
pub(crate) struct Promises {
    all: Mutex<All>,
    /// How many there are, for who only wants to know whether there are any.
    count: AtomicUsize,
    ended: Notify,
}

#[derive(Default)]
struct All {
    files: HashMap<Ino, File>,
    last: u64,
}

/// What is so of one file. None is kept of which nothing is.
#[derive(Default)]
struct File {
    changing: usize,
    /// By number, with who is to be told that it should end, until that is done.
    promises: BTreeMap<u64, Option<Recall>>,
}

/// Nobody changes the file while this is there, unless it takes longer to give it back than it may: that is for
/// the door to see to, which drops it then.
pub struct Promise {
    promises: Arc<Promises>,
    ino: Ino,
    number: u64,
}

/// Somebody changes a file, or may: no promise is made while this is there.
pub(crate) struct Changing {
    promises: Arc<Promises>,
    ino: Ino,
}

impl Promises {
    /// Makes one, unless somebody changes the file.
    pub(crate) fn make(self: &Arc<Self>, ino: Ino, recall: Recall) -> Option<Promise> {
        let All { files, last } = &mut *self.all.lock();
        let file = files.entry(ino).or_default();
        if file.changing > 0 {
            return None;
        }
        *last += 1;
        file.promises.insert(*last, Some(recall));
        self.count.fetch_add(1, Ordering::AcqRel);
        Some(Promise { promises: self.clone(), ino, number: *last })
    }

    /// Whether there are any. Cheap.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Before a file is changed, and until that is done: waits until nobody has a promise that it is not.
    pub(crate) async fn changing(self: &Arc<Self>, ino: Ino) -> Changing {
        self.all.lock().files.entry(ino).or_default().changing += 1;
        let changing = Changing { promises: self.clone(), ino };
        loop {
            let ended = self.ended.notified();
            if !self.end_soon(ino) {
                return changing;
            }
            ended.await;
        }
    }

    /// Has the promises of a file given back, without waiting for that. Answers whether there are any.
    pub(crate) fn end_soon(&self, ino: Ino) -> bool {
        if !self.any() {
            return false;
        }
        let (any, recalls) = {
            let mut all = self.all.lock();
            let Some(file) = all.files.get_mut(&ino) else { return false };
            let recalls: Vec<_> = file.promises.values_mut().filter_map(Option::take).collect();
            (!file.promises.is_empty(), recalls)
        };
        recalls.into_iter().for_each(|recall| recall());
        any
    }

    fn change_file(&self, ino: Ino, change: impl FnOnce(&mut File)) {
        let mut all = self.all.lock();
        let Some(file) = all.files.get_mut(&ino) else { return };
        change(file);
        if file.changing == 0 && file.promises.is_empty() {
            all.files.remove(&ino);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.promises.change_file(self.ino, |file| drop(file.promises.remove(&self.number)));
        self.promises.count.fetch_sub(1, Ordering::AcqRel);
        self.promises.ended.notify_waiters();
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.promises.change_file(self.ino, |file| file.changing -= 1);
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Promise {} of {}", self.number, self.ino)
    }
}

impl fmt::Debug for Changing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changing {}", self.ino)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: Ino = Ino(7);

    fn told(count: &Arc<AtomicUsize>) -> Recall {
        let count = count.clone();
        Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn who_changes_a_file_waits_for_all_promises_of_it() {
        let (promises, count) = (Arc::new(Promises::default()), Arc::default());
        let one = promises.make(FILE, told(&count)).expect("nobody changes it");
        let two = promises.make(FILE, told(&count)).expect("many may have one");
        drop(promises.changing(Ino(8)).await);
        assert_eq!(count.load(Ordering::Relaxed), 0, "it was another file");
        let waiting = tokio::spawn({
            let promises = promises.clone();
            async move { promises.changing(FILE).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(count.load(Ordering::Relaxed), 2, "both are told");
        assert!(promises.make(FILE, told(&count)).is_none(), "somebody waits");
        drop(one);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(two);
        let changing = waiting.await.expect("it goes on");
        assert!(promises.make(FILE, told(&count)).is_none(), "somebody changes it");
        drop(changing);
        drop(promises.make(FILE, told(&count)).expect("it is done"));
        assert_eq!(count.load(Ordering::Relaxed), 2, "each was told once");
        assert!(promises.all.lock().files.is_empty() && !promises.any());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_is_in_nobodys_way() {
        let (promises, count) = (Arc::new(Promises::default()), Arc::default());
        let one = promises.make(FILE, told(&count));
        let waited = tokio::time::timeout(Duration::from_secs(1), promises.changing(FILE)).await;
        assert!(waited.is_err());
        drop(one);
        assert!(promises.make(FILE, told(&count)).is_some());
    }
}
