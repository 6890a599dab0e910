//! What others do to the bucket: each change is alone, as a server makes it.

use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weir_object::testing::{Etags, change_odd};

use super::content::Content;
use super::ours::How;
use super::server::{Server, is_odd, list, put_parts};
use super::{LAKE, Run, is_key};

impl Run {
    /// A key that others may put an object at; sometimes one that is a directory here.
    pub fn key(&mut self) -> &'static str {
        loop {
            let key = match self.rng.random_range(0..30) {
                0 if Server::this().nests => "lake/d",
                _ => self.place(),
            };
            if !key.starts_with("out/") && is_key(key) {
                return key;
            }
        }
    }

    pub fn new_blocks(&mut self) -> u64 {
        match self.rng.random_range(0..100) {
            0..75 => 4,
            75..90 => self.rng.random_range(1..12),
            90..99 => 5_000,
            // Goes in parts.
            _ => (17 << 20) / 16,
        }
    }

    pub fn put_by_others(&mut self, key: &'static str) {
        let blocks = self.new_blocks();
        let mut content = Content::of(self.ledger.next_write(), blocks);
        let (same, parts) = (self.rng.random_bool(0.15), self.rng.random_bool(0.3));
        let old = self.world.run(async {
            let _alone = self.alone.enter().await;
            let old = self.others.get(LAKE, key).await.ok().map(|bytes| Content::parse(&bytes));
            content = old.clone().filter(|_| same).unwrap_or(content.clone());
            // Some servers tell two versions by the time only.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let bytes = content.bytes();
            match parts {
                false => self.others.put(LAKE, key, bytes).await.expect("puts"),
                true => put_parts(&self.others, key, &bytes).await.expect("puts parts"),
            }
            old
        });
        self.trace.push(format!("others put {key} {content:?} over {old:?}"));
        old.iter().for_each(|old| self.ledger.destroyed(old));
        self.ledger.put(&content, key, self.setting.habits.etags == Etags::OfBytes);
        self.theirs.insert(key.to_owned(), content);
    }

    /// Both sides change the same, one right after the other.
    pub fn contend(&mut self) {
        let (key, other) = (self.key(), self.place());
        match self.rng.random_range(0..3) {
            0 => self.write(key, How::Whole),
            1 => self.unlink(key),
            _ => self.rename(key, other),
        }
        match self.rng.random_bool(0.75) {
            true => self.put_by_others(key),
            false => self.delete_by_others(key),
        }
    }

    pub fn delete_by_others(&mut self, key: &'static str) {
        let old = self.world.run(async {
            let _alone = self.alone.enter().await;
            let old = self.others.get(LAKE, key).await.ok().map(|bytes| Content::parse(&bytes));
            self.others.delete(LAKE, key).await.expect("deletes");
            old
        });
        self.trace.push(format!("others delete {key} {old:?}"));
        old.iter().for_each(|old| self.ledger.destroyed(old));
        self.theirs.remove(key);
    }

    /// Puts or deletes what is the object of no file.
    pub fn odd_by_others(&mut self) {
        let held = &Server::this().odd;
        if held.is_empty() {
            return;
        }
        let key = held[self.rng.random_range(0..held.len())];
        let size = if key.ends_with('/') { 0 } else { self.rng.random_range(1..100_u64) };
        let size = Some(size).filter(|_| self.rng.random_bool(0.7));
        let bytes = size.map(|size| vec![b'o'; size as usize].into());
        let done = self.world.run(async {
            let _alone = self.alone.enter().await;
            change_odd(&self.others, key, bytes).await
        });
        self.trace.push(format!("others have {key:?} of {size:?}: {done:?}"));
        match size.filter(|_| done.is_ok()) {
            Some(size) => self.odd.insert(key.to_owned(), size),
            None => self.odd.remove(key),
        };
    }

    /// What there is of keys that are no file's.
    pub fn odd_objects(&self) -> BTreeMap<String, u64> {
        let all = self.world.run(list(&self.others)).into_iter();
        let text = |key| String::from_utf8(key).expect("text");
        all.filter(|o| is_odd(&o.key)).map(|o| (text(o.key), o.size)).collect()
    }

    pub fn objects(&self) -> BTreeMap<String, Content> {
        let objects: BTreeMap<_, _> = self.world.run(async {
            let _alone = self.alone.enter().await;
            let mut objects = BTreeMap::new();
            for info in list(&self.others).await {
                let key = String::from_utf8(info.key).expect("text");
                if is_odd(key.as_bytes()) || key.contains(weir_object::PROBE_PREFIX) {
                    continue;
                }
                let bytes = self.others.get(LAKE, &key).await.expect("there");
                objects.insert(key, Content::parse(&bytes));
            }
            objects
        });
        let known = |key: &str, content| {
            assert!(self.ledger.knows(content), "{key}: nobody wrote {content:?} as a whole");
        };
        objects.iter().for_each(|(key, content)| known(key, content));
        objects
    }

    /// What was overwritten in the moment that servers without conditions leave.
    pub fn excuse_overtaken(&mut self) {
        let overtaken = std::mem::take(&mut *self.overtaken.lock().expect("no panic"));
        let contents: BTreeSet<_> = overtaken.iter().map(|bytes| Content::parse(bytes)).collect();
        for content in contents {
            self.trace.push(format!("overtaken: {content:?}"));
            if let Some(fate) = self.ledger.of(Some(&content)) {
                (fate.gone, fate.may_go) = (true, true);
            }
        }
    }
}
