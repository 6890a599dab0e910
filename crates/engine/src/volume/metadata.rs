//! The engine below a volume's metadata: which one it is, and how it is opened, made and removed.
//! All others know a `Kv` only.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream;
use weir_keys::VolumeKeys;
use weir_meta::kv::{
    CommitLog, Kv, PostgresKv, PostgresOptions, PostgresUrl, SlateKv, SlateOptions, SlateReader,
    SlateReaderOptions, Version,
};
use weir_meta::sessions::{NodeRow, SessionId, join, take_alone};
use weir_meta::{BehindKv, Guard, Meta, forget_holds, sealed_rows};
use weir_object::{Bucket, Component, ObjectStore, StripeSet, sealed};
use weir_types::{
    ErrorCode, ErrorKind, FsError, Result, Settings, UnixTime, VolumeFormat, VolumeId,
};

use super::together::in_the_way;

/// Below this key the bucket keeps metadata.
pub(crate) const META_PATH: &str = "meta";
/// What people call metadata in the volume's bucket.
const IN_BUCKET: &str = "slate";
/// Objects removed at once.
const PARALLEL: usize = 16;

/// Where the metadata of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the volume's first bucket, kept by SlateDB.
    Bucket,
    /// In a PostgreSQL database.
    Postgres(PostgresUrl),
}

impl Place {
    /// What somebody asks for: `slate`, or the URL of a database. A password in it is refused:
    /// other users see command lines, and what is stored would have it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text == IN_BUCKET {
            return Ok(Place::Bucket);
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            let text = format!(
                "metadata is kept in the bucket (`slate`) or in a database \
                 (`postgres://user@host/database`): `{}` is neither",
                text.split('@').next_back().unwrap_or_default()
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        let url = PostgresUrl::parse(text)?;
        if url.has_password() {
            let text = format!(
                "{url}: leave the password out of the URL, which others can see; it comes from \
                 PGPASSFILE (~/.pgpass), a service file or PGPASSWORD"
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        Ok(Place::Postgres(url))
    }

    /// Where `volume.json` has it.
    pub(crate) fn of(format: &VolumeFormat) -> Result<Self> {
        format.metadata.as_deref().map_or(Ok(Place::Bucket), Place::parse)
    }

    /// What `volume.json` has for it.
    pub(crate) fn stored(&self) -> Option<String> {
        match self {
            Place::Bucket => None,
            Place::Postgres(url) => Some(url.to_string()),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Bucket => f.write_str(IN_BUCKET),
            Place::Postgres(url) => url.fmt(f),
        }
    }
}

/// The metadata of one volume, not opened.
#[derive(Clone)]
pub(crate) struct Metadata {
    pub(crate) place: Place,
    bucket: Bucket,
    keys: VolumeKeys,
    volume: VolumeId,
    timeout_ms: u64,
    hasty: bool,
}

/// The metadata, opened to be written.
pub(crate) struct Opened {
    /// All that is read and changed goes through this.
    pub(crate) kv: Arc<dyn Kv>,
    /// What tells whether somebody else has opened it since, where the engine does not.
    pub(crate) guard: Option<Guard>,
    /// The engine that takes commits of a redo log.
    replays: Option<Arc<SlateKv>>,
}

/// The metadata, opened by one of several that change it.
pub(crate) struct Joining {
    /// What fences this node.
    database: Arc<PostgresKv>,
    kv: Arc<dyn Kv>,
    /// Before it: what may wait until it is in the database.
    pub(crate) behind: BehindKv,
}

impl Joining {
    /// What is read through this before it is joined.
    pub(crate) fn kv(&self) -> Arc<dyn Kv> {
        Arc::new(self.behind.clone())
    }

    /// Joins the others, in the place of sessions that are dead.
    pub(crate) async fn join(
        &self,
        id: SessionId,
        node: &NodeRow,
        dead: &[SessionId],
    ) -> Result<Guard> {
        let guard = join(&*self.kv, id, node, dead).await?;
        self.database.set_guard(Some((guard.key.clone(), guard.version)));
        Ok(guard)
    }
}

impl Opened {
    /// Applies an entry of the redo log; `false` if it is there already.
    pub(crate) async fn replay(&self, version: Version, entry: &[u8]) -> Result<bool> {
        match &self.replays {
            Some(kv) => kv.replay(version, entry).await,
            None => {
                let text = "the redo log of this tier has commits, and the metadata is in a \
                            database that has them all: it is the log of another time; move it away";
                Err(FsError::new(ErrorKind::Corrupt, text))
            }
        }
    }
}

impl Metadata {
    /// The metadata of a volume. `instead` is another URL by which its database is reached now.
    pub(crate) fn of(
        format: &VolumeFormat,
        buckets: &StripeSet,
        instead: Option<&str>,
        timeout_ms: u64,
    ) -> Result<Self> {
        let stored = Place::of(format)?;
        let place = match instead.map(Place::parse).transpose()? {
            None => stored,
            Some(other) if (other == Place::Bucket) == (stored == Place::Bucket) => other,
            Some(other) => {
                let url = buckets.first().url();
                let text = format!(
                    "the metadata of {url} is in {stored}, so it cannot be reached at {other}: \
                     `weir migrate {url} --to {other}` moves it there"
                );
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
        };
        Ok(Self::at(place, buckets, &format.id, timeout_ms))
    }

    /// The metadata of a volume at another place.
    pub(crate) fn at(
        place: Place,
        buckets: &StripeSet,
        volume: &VolumeId,
        timeout_ms: u64,
    ) -> Self {
        let (bucket, keys) = (buckets.first().clone(), buckets.keys().clone());
        Self { place, bucket, keys, volume: volume.clone(), timeout_ms, hasty: false }
    }

    /// The bucket as the engine of the metadata sees it: of an encrypted volume all that is put there is sealed.
    fn store(&self, component: Component) -> Arc<dyn ObjectStore> {
        sealed(self.bucket.store(component), &self.keys)
    }

    /// The same, for whoever waits at a terminal: where nothing listens at the address of its database
    /// it is not waited for.
    pub(crate) fn hasty(self) -> Self {
        Self { hasty: true, ..self }
    }

    /// Whether each commit is durable when it returns.
    /// Host and port of its server, where that is another machine.
    pub(crate) fn elsewhere(&self) -> Option<(&str, u16)> {
        match &self.place {
            Place::Bucket => None,
            Place::Postgres(url) => url.elsewhere(),
        }
    }

    pub(crate) fn is_durable_at_once(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    /// Opens it to be changed, and fences whoever else has it open for that; nodes that share it are
    /// shut out only where they are dead or `take_over` says so. `log` takes the commits
    /// that would not outlive this process: none where they are durable at once.
    pub(crate) async fn open(
        &self,
        (mount, take_over): (&str, bool),
        settings: &Settings,
        log: Option<Arc<dyn CommitLog>>,
    ) -> Result<Opened> {
        let url = match &self.place {
            Place::Postgres(url) => url,
            Place::Bucket => {
                let kv = Arc::new(self.open_slate(settings, log).await?);
                return Ok(Opened { kv: kv.clone(), guard: None, replays: Some(kv) });
            }
        };
        let (database, kv) = self.postgres(self.options(url, false)).await?;
        self.check_volume(&kv).await?;
        let over = in_the_way(&*kv, &self.bucket.url().to_string(), take_over).await?;
        let taken = take_alone(&*kv, mount, &over).await;
        let guard = taken.map_err(|error| self.told(error))?;
        database.set_guard(Some((guard.key.clone(), guard.version)));
        forget_holds(&*kv).await.map_err(|error| self.told(error))?;
        Ok(Opened { kv, guard: Some(guard), replays: None })
    }

    /// Opens it to be changed together with others. Nothing can be changed before the session has joined
    /// those of the others ([`Joining::join`]).
    pub(crate) async fn open_shared(&self) -> Result<Joining> {
        let Place::Postgres(url) = &self.place else {
            let volume = self.bucket.url();
            let text = format!(
                "--shared: the metadata of {volume} is in the bucket, where one mount at a time can \
                 write it: `weir migrate {volume} --to postgres://…` moves it to a database"
            );
            return Err(FsError::new(ErrorKind::Unsupported, text));
        };
        let (database, kv) = self.postgres(self.options(url, false)).await?;
        self.check_volume(&kv).await?;
        let behind = BehindKv::new(kv.clone());
        Ok(Joining { database, kv, behind })
    }

    async fn open_slate(
        &self,
        settings: &Settings,
        log: Option<Arc<dyn CommitLog>>,
    ) -> Result<SlateKv> {
        let memory = settings.memory();
        let options = SlateOptions {
            cache_bytes: memory.metadata_cache,
            unflushed_bytes: memory.metadata_unflushed,
            meta_flush_ms: settings.meta_flush_ms,
            timeout_ms: self.timeout_ms,
            ..SlateOptions::default()
        };
        SlateKv::open(self.store(Component::Meta), META_PATH, options, log).await
    }

    /// Opens it to be read, without a word to whoever writes it.
    pub(crate) async fn follow(&self, component: Component) -> Result<Arc<dyn Kv>> {
        match &self.place {
            Place::Bucket => {
                let timeout_ms = self.timeout_ms;
                let options = SlateReaderOptions { timeout_ms, ..SlateReaderOptions::default() };
                let store = self.store(component);
                Ok(Arc::new(SlateReader::open(store, META_PATH, options).await?))
            }
            Place::Postgres(url) => {
                let options = PostgresOptions { read_only: true, ..self.options(url, false) };
                let (_, kv) = self.postgres(options).await?;
                self.check_volume(&kv).await?;
                Ok(kv)
            }
        }
    }

    /// Makes an empty one, over what the making of an earlier one left.
    pub(crate) async fn create(&self) -> Result<Arc<dyn Kv>> {
        match &self.place {
            Place::Bucket => {
                let options = SlateOptions {
                    create: true,
                    timeout_ms: self.timeout_ms,
                    ..SlateOptions::default()
                };
                let store = self.store(Component::Meta);
                Ok(Arc::new(SlateKv::open(store, META_PATH, options, None).await?))
            }
            Place::Postgres(url) => Ok(self.postgres(self.options(url, true)).await?.1),
        }
    }

    /// Removes it with all that is in it; no error if there is none.
    pub(crate) async fn remove(&self) -> Result<()> {
        match &self.place {
            Place::Bucket => self.remove_objects().await,
            Place::Postgres(url) => {
                let removed = PostgresKv::remove(&self.options(url, false)).await;
                removed.map_err(|error| self.told(error))
            }
        }
    }

    async fn remove_objects(&self) -> Result<()> {
        // Manifests first: without them nothing takes the rest for a database.
        for prefix in [format!("{META_PATH}/manifest/"), format!("{META_PATH}/")] {
            let listed: Vec<_> =
                self.bucket.list(Component::Meta, &prefix).map_ok(|o| o.key).try_collect().await?;
            stream::iter(listed.iter().map(Ok))
                .try_for_each_concurrent(PARALLEL, |key| self.bucket.delete(Component::Meta, key))
                .await?;
        }
        Ok(())
    }

    fn options(&self, url: &PostgresUrl, create: bool) -> PostgresOptions {
        let timeout_ms = self.timeout_ms;
        PostgresOptions {
            create,
            timeout_ms,
            hasty: self.hasty,
            ..PostgresOptions::new(url.clone(), self.volume.0.clone())
        }
    }

    /// The database, and what all is read and changed through: of an encrypted volume all that is put there is sealed.
    async fn postgres(&self, options: PostgresOptions) -> Result<(Arc<PostgresKv>, Arc<dyn Kv>)> {
        let opened = PostgresKv::open(options).await;
        let database = opened.map(Arc::new).map_err(|error| self.told(error))?;
        let kv = sealed_rows(database.clone(), &self.keys);
        Ok((database, kv))
    }

    /// Nothing is put into a database that has no volume, and its emptiness is no volume's.
    async fn check_volume(&self, kv: &Arc<dyn Kv>) -> Result<()> {
        // Only the layout is looked at: no time is asked for.
        let error = match Meta::open(kv.clone(), Arc::new(|| UnixTime(0))).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!("the tables in {} are empty", self.place);
                FsError::new(ErrorKind::NotFound, text)
            }
            Err(error) => error,
        };
        Err(self.told(error))
    }

    /// The same error, with what to do about it.
    fn told(&self, error: FsError) -> FsError {
        let (volume, id) = (self.bucket.url(), &self.volume);
        let (code, advice) = match error.kind() {
            ErrorKind::NotFound => (
                ErrorCode::MetadataMissing,
                format!(
                    "the metadata of {volume}, volume {id}, is not there: name the right database \
                     with --meta if this is another one; if it was lost, restore it from a backup"
                ),
            ),
            ErrorKind::Permission => (
                ErrorCode::MetadataDenied,
                "the user comes from the URL or PGUSER, the password from PGPASSFILE (~/.pgpass), a \
                 service file or PGPASSWORD"
                    .to_owned(),
            ),
            ErrorKind::Retry => (
                ErrorCode::MetadataAway,
                "see that the server runs and can be reached, or name another address with --meta"
                    .to_owned(),
            ),
            _ => return error,
        };
        FsError::new(error.kind(), format!("{error}; {advice}")).with_source(error).coded(code)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::Codec;

    use super::*;

    fn metadata(stored: Option<&str>, instead: Option<&str>) -> Result<Metadata> {
        let format = VolumeFormat {
            format_version: 1,
            id: VolumeId("id".to_owned()),
            stripe_set: vec!["memory://b".to_owned()],
            record_bytes: 1 << 20,
            segment_bytes: 1 << 20,
            codec: Codec::Lz4,
            created_unix_s: 0,
            metadata: None,
            encryption: None,
            origins: Vec::new(),
        };
        let format = format.with_metadata(stored.map(str::to_owned));
        let url = "memory://b".parse().expect("a URL");
        let options = weir_object::ConnectOptions::default();
        let bucket = Bucket::connect(&url, &options, &weir_object::Meter::new()).expect("connects");
        Metadata::of(&format, &StripeSet::new(vec![bucket])?, instead, 1_000)
    }

    #[test]
    fn another_address_is_one_of_the_same_kind() {
        let place =
            |stored, instead| metadata(stored, instead).map(|found| found.place.to_string());
        let (one, two) = (Some("postgres://u@one/w"), Some("postgres://u@two/w"));
        assert_eq!(place(None, None).expect("fine"), "slate");
        assert_eq!(place(one, None).expect("fine"), "postgres://u@one/w");
        assert_eq!(place(one, two).expect("fine"), "postgres://u@two/w");
        for (stored, instead) in [(None, two), (one, Some("slate"))] {
            let error = place(stored, instead).expect_err("another engine").to_string();
            assert!(error.contains("weir migrate memory://b --to"), "{error}");
        }
    }

    #[test]
    fn passwords_are_refused_and_never_shown() {
        for text in [
            "postgres://u:secret@db/w",
            "redis://u:secret@db/w",
            "postgres://u@db/w?password=secret",
        ] {
            let error = Place::parse(text).expect_err("refused");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
