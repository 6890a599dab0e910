//! What SlateDB asks the bucket again and again, answered from memory as long as it cannot have
//! changed.
//!
//! Its parts poll: is there a manifest after the one I know, a compaction, another boundary of the
//! collector? All of them are parts of this process, and what changes the answer goes through here.
//! Only another writer can change it from outside, by a manifest of its own; so that is really asked,
//! once in a while, and the rest is nearly free. What must always hold:
//!
//! - Only "there is no such object" and "it is as you know it" are kept, and only of names that are
//!   made once and never changed, or are changed by their one writer.
//! - A request that writes any of these names, whatever became of it, voids all that is kept, also
//!   what is on its way: a writer that was told "it exists" finds it at its next look.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer holds that only another writer could change, who wrote a manifest first.
const OURS: Duration = Duration::from_secs(3_600);

/// A store that remembers the answers to SlateDB's polls of the database at `path`. Whether there is
/// a newer manifest is asked again once `look` has passed.
pub(super) fn remembering(
    inner: Arc<dyn ObjectStore>,
    path: &Path,
    look: Duration,
) -> Arc<dyn ObjectStore> {
    let holds = [("manifest", look), ("compactions", OURS), ("gc", OURS)];
    let holds = holds.map(|(directory, hold)| (path.clone().join(directory), hold));
    Arc::new(Remembering { inner, holds, kept: Mutex::default() })
}

struct Remembering {
    inner: Arc<dyn ObjectStore>,
    /// Directories, and how long answers about what is in them hold.
    holds: [(Path, Duration); 3],
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Counts what may have changed the answers.
    changes: u64,
    answers: HashMap<Path, Answer>,
}

struct Answer {
    asked: Instant,
    /// That it still has this ETag; else that it is not there.
    unchanged: Option<String>,
}

impl Remembering {
    fn hold(&self, location: &Path) -> Option<Duration> {
        let within = self.holds.iter().find(|(directory, _)| location.prefix_matches(directory));
        within.map(|(_, hold)| *hold)
    }

    /// What is known of an object without asking.
    fn known(&self, location: &Path, options: &GetOptions, hold: Duration) -> Option<Error> {
        let kept = self.kept.lock();
        let answer = kept.answers.get(location).filter(|kept| kept.asked.elapsed() < hold)?;
        let (path, source) = (location.to_string(), "as it was a moment ago".into());
        match &answer.unchanged {
            None => Some(Error::NotFound { path, source }),
            etag if *etag == options.if_none_match => Some(Error::NotModified { path, source }),
            Some(_) => None,
        }
    }

    fn void(&self) {
        let mut kept = self.kept.lock();
        kept.changes += 1;
        kept.answers.clear();
    }

    /// Makes a request that may change what is kept of `location`.
    async fn changing<T>(
        &self,
        location: &Path,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.hold(location).is_none() {
            return request.await;
        }
        self.void();
        let _after = Voided(self);
        request.await
    }
}

/// Voids what is kept once a request ended, or was given up.
struct Voided<'a>(&'a Remembering);

impl Drop for Voided<'_> {
    fn drop(&mut self) {
        self.0.void();
    }
}

impl fmt::Display for Remembering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Remembering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Remembering {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.changing(location, self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(hold) = self.hold(location) else {
            return self.inner.get_opts(location, options).await;
        };
        if let Some(known) = self.known(location, &options, hold) {
            return Err(known);
        }
        let (asked, changes) = (Instant::now(), self.kept.lock().changes);
        let etag = options.if_none_match.clone();
        let got = self.inner.get_opts(location, options).await;
        let unchanged = match &got {
            Err(Error::NotFound { .. }) => None,
            Err(Error::NotModified { .. }) if etag.is_some() => etag,
            _ => return got,
        };
        let mut kept = self.kept.lock();
        if kept.changes == changes {
            kept.answers.insert(location.clone(), Answer { asked, unchanged });
        }
        got
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.changing(to, self.inner.copy_opts(from, to, options)).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};

    use super::*;

    const LOOK: Duration = Duration::from_secs(60);

    async fn there(store: &dyn ObjectStore, name: &str) -> bool {
        store.get(&Path::from(name)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_asked_again_after_a_while_or_after_a_change_of_ours() {
        let bucket = Arc::new(InMemory::new());
        let store = remembering(bucket.clone(), &Path::from("db"), LOOK);
        let put = |store: Arc<dyn ObjectStore>, name: &'static str| async move {
            let options = PutOptions::from(PutMode::Create);
            store.put_opts(&Path::from(name), PutPayload::from("1"), options).await
        };
        for name in ["db/manifest/2", "db/compactions/2", "db/gc/a", "db/wal/2", "db/manifests"] {
            assert!(!there(&store, name).await, "{name}");
            put(bucket.clone(), name).await.expect("another writer's");
        }
        for name in ["db/manifest/2", "db/compactions/2", "db/gc/a"] {
            assert!(!there(&store, name).await, "{name}");
        }
        assert!(there(&store, "db/wal/2").await && there(&store, "db/manifests").await);
        tokio::time::advance(LOOK).await;
        assert!(there(&store, "db/manifest/2").await && !there(&store, "db/compactions/2").await);
        tokio::time::advance(OURS).await;
        assert!(there(&store, "db/compactions/2").await);

        // Who is told that it exists finds it.
        assert!(!there(&store, "db/manifest/3").await && !there(&store, "db/gc/b").await);
        put(bucket.clone(), "db/manifest/3").await.expect("another writer's");
        put(bucket.clone(), "db/gc/b").await.expect("another writer's");
        put(store.clone(), "db/manifest/3").await.expect_err("it is there");
        assert!(there(&store, "db/manifest/3").await && there(&store, "db/gc/b").await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_as_it_was_known_is_not_asked_for_again_by_the_same_etag() {
        let bucket = Arc::new(InMemory::new());
        let store = remembering(bucket.clone(), &Path::from("db"), LOOK);
        let name = Path::from("db/gc/manifest.boundary");
        let first = bucket.put(&name, "1".into()).await.expect("put").e_tag;
        let look = |etag: Option<String>| {
            let options = GetOptions { if_none_match: etag, ..GetOptions::default() };
            store.get_opts(&name, options)
        };
        let not_modified = |got: Result<GetResult>| matches!(got, Err(Error::NotModified { .. }));
        assert!(not_modified(look(first.clone()).await));
        bucket.put(&name, "2".into()).await.expect("put");
        assert!(not_modified(look(first.clone()).await), "as it is remembered");
        assert!(look(None).await.is_ok() && look(Some("another".to_owned())).await.is_ok());
        store.put(&Path::from("db/gc/other"), "1".into()).await.expect("put");
        assert!(look(first).await.is_ok(), "asked again");
    }

    #[tokio::test]
    async fn what_was_asked_before_a_change_is_not_kept_after_it() {
        let slow = Arc::new(super::super::tests::WatchedStore::default());
        let store = remembering(slow.clone(), &Path::from("db"), LOOK);
        slow.set_latency(Duration::from_millis(50));
        let name = Path::from("db/manifest/2");
        let asked = tokio::spawn({
            let (store, name) = (store.clone(), name.clone());
            async move { store.get(&name).await.is_ok() }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        slow.set_latency(Duration::ZERO);
        store.put(&Path::from("db/manifest/1"), "1".into()).await.expect("put");
        assert!(!asked.await.expect("asked"));
        slow.put(&name, "1".into()).await.expect("put");
        assert!(there(&store, "db/manifest/2").await, "an answer from before is kept");
    }
}
