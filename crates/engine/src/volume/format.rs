//! Volumes: making one, and reading what one is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use weir_keys::{VolumeKeys, create};
use weir_meta::{Meta, RootAttr};
use weir_object::{Bucket, BucketUrl, Component, OriginSet, PutCondition, StripeSet};
use weir_tier::private;
use weir_types::{
    Codec, ErrorCode, ErrorKind, FORMAT_VERSION, FsError, Origin, Result, UnixTime, VolumeFormat,
    VolumeId,
};

use super::connector::Connector;
use super::metadata::{META_PATH, Metadata, Place};

/// Key of the object that says who writes the volume.
pub(crate) const WRITER_KEY: &str = "writer.json";
/// The object by which who writes tells those who wait for it to be gone that it lives.
pub(crate) const BEAT_KEY: &str = "beat.json";
/// Key of the object that says how old the metadata of a database is.
pub(crate) const AGE_KEY: &str = "age.json";
/// Key of the object that says what a volume is.
pub(crate) const VOLUME_KEY: &str = "volume.json";
/// Below this key backups are, in a place that is no volume.
pub(crate) const BACKUP_PATH: &str = "backups";
/// Below this key segments are.
pub(crate) const SEGMENT_PATH: &str = "seg";

/// How a volume is made.
#[derive(Clone)]
pub struct FormatOptions {
    /// The volume's URL: its first bucket.
    pub url: BucketUrl,
    /// More buckets to spread segments over.
    pub stripe: Vec<BucketUrl>,
    /// How to reach them.
    pub connector: Connector,
    /// Largest record in bytes: a power of two from 4 KiB to 1 MiB.
    pub record_bytes: u64,
    /// Bytes at which a segment is full.
    pub segment_bytes: u64,
    /// How records are compressed.
    pub codec: Codec,
    /// Owner and permission bits of the root directory.
    pub root: (u32, u32, u32),
    /// The time.
    pub now: UnixTime,
    /// The database for the metadata, a URL without a password; `None` or `slate` is the bucket.
    pub metadata: Option<String>,
    /// Seal it by keys of its own, which the connector's secret opens under this name.
    pub encrypt: Option<String>,
}

/// Makes a volume. `Exists` if there is one. About ten requests.
pub async fn format(options: FormatOptions) -> Result<VolumeFormat> {
    let urls = std::iter::once(&options.url).chain(&options.stripe);
    let place = options.metadata.as_deref().map_or(Ok(Place::Bucket), Place::parse)?;
    let format = VolumeFormat {
        format_version: FORMAT_VERSION,
        id: VolumeId(uuid::Uuid::new_v4().to_string()),
        stripe_set: urls.clone().map(ToString::to_string).collect(),
        record_bytes: options.record_bytes,
        segment_bytes: options.segment_bytes,
        codec: options.codec,
        created_unix_s: options.now.parts().0,
        metadata: None,
        encryption: None,
        origins: Vec::new(),
    };
    let format = format.with_metadata(place.stored());
    let (format, keys) = encrypted(format, &options)?;
    let buckets = empty_places(&format, urls, &options.connector).await?;
    check_no_segments(&buckets).await?;
    let buckets = StripeSet::new(buckets)?.opened_by(keys);
    let timeout_ms = options.connector.options.timeout_ms;
    let metadata = Metadata::of(&format, &buckets, None, timeout_ms)?;
    if let Err(error) = format_meta(&metadata, options.root, options.now).await {
        abandon(&metadata).await;
        return Err(error);
    }
    // Last, because it is what makes this place a volume. Without an answer it may be one.
    if !buckets.first().put_new(Component::Volume, VOLUME_KEY, encode(&format)?).await? {
        abandon(&metadata).await;
        return Err(exists(&options.url));
    }
    Ok(format)
}

/// The same volume with keys, where it is to have some.
fn encrypted(format: VolumeFormat, options: &FormatOptions) -> Result<(VolumeFormat, VolumeKeys)> {
    let (name, secret) = match (&options.encrypt, &options.connector.secret) {
        (None, None) => return Ok((format, VolumeKeys::none())),
        (Some(name), Some(secret)) => (name, secret),
        (None, Some(_)) => {
            let text = "a key is given, and the volume is not to be encrypted: say --encrypt, or leave it out";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        (Some(_), None) => {
            let text = "--encrypt: name the file of a key or passphrase with --key-file, or a program that says it with \
                        --key-command; `weir key new FILE` makes one";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    };
    let (encryption, keys) = create(name, secret, options.now.parts().0)?;
    Ok((format.with_encryption(Some(encryption)), keys))
}

pub(crate) fn exists(url: &BucketUrl) -> FsError {
    let text = format!("{url} holds a volume already: mount it, or name another place");
    FsError::new(ErrorKind::Exists, text)
}

/// The buckets of a volume that is to be made at these URLs. `Exists` if there is one.
pub(crate) async fn empty_places(
    format: &VolumeFormat,
    urls: impl Iterator<Item = &BucketUrl>,
    connector: &Connector,
) -> Result<Vec<Bucket>> {
    let problems = format.problems();
    if !problems.is_empty() {
        return Err(FsError::new(ErrorKind::Invalid, problems.join("; ")));
    }
    let mut buckets: Vec<Bucket> = Vec::new();
    for url in urls {
        let bucket = connector.connect(url)?;
        bucket.probe().await?;
        buckets.push(bucket);
    }
    for bucket in &buckets {
        match bucket.head(Component::Volume, VOLUME_KEY).await {
            Ok(_) => return Err(exists(bucket.url())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // The collector would take their segments for those of nobody.
        if bucket.list(Component::Volume, BACKUP_PATH).try_next().await?.is_some() {
            let text = format!("{} has backups of a volume: name another place", bucket.url());
            return Err(FsError::new(ErrorKind::Exists, text));
        }
    }
    Ok(buckets)
}

/// Refuses buckets with segments, which are another volume's, spread there from its own place: the collector would take
/// them for those of nobody. One LIST each.
pub(crate) async fn check_no_segments(buckets: &[Bucket]) -> Result<()> {
    for bucket in buckets {
        if bucket.list(Component::Volume, SEGMENT_PATH).try_next().await?.is_some() {
            return Err(strangers(bucket.url()));
        }
    }
    Ok(())
}

pub(crate) fn strangers(url: &BucketUrl) -> FsError {
    let text = format!(
        "{url} has segments: of another volume, of one that was, or of a `weir restore-volume` or `weir clone` that did not \
         come to its end: run that again, name another place, or remove what nobody needs there"
    );
    FsError::new(ErrorKind::Exists, text)
}

/// Removes metadata that no volume came to name. In the bucket it may be another one's by now; in a
/// database it has a name of its own.
pub(crate) async fn abandon(metadata: &Metadata) {
    if metadata.place != Place::Bucket
        && let Err(error) = metadata.remove().await
    {
        tracing::warn!(place = %metadata.place, %error, "metadata of no volume is left there");
    }
}

/// The bytes of `volume.json`.
pub(crate) fn encode(format: &VolumeFormat) -> Result<Bytes> {
    let mut text = serde_json::to_vec_pretty(format)
        .map_err(|e| FsError::new(ErrorKind::Bug, "encode volume.json").with_source(e))?;
    text.push(b'\n');
    Ok(Bytes::from(text))
}

async fn format_meta(metadata: &Metadata, root: (u32, u32, u32), now: UnixTime) -> Result<()> {
    let kv = metadata.create().await?;
    let (mode, uid, gid) = root;
    match Meta::format(&*kv, RootAttr { mode, uid, gid }, now).await {
        Err(error) if error.kind() == ErrorKind::Exists => {
            // Left by a format that did not come to its end, there is nothing in it.
            let inodes = Meta::open(kv.clone(), Arc::new(move || now)).await?.usage().await?.inodes;
            if inodes != 1 {
                let text = "a `weir restore-volume` or `weir clone` to this place did not come to its end: run it again, or \
                            remove what it left";
                return Err(FsError::new(ErrorKind::Exists, text));
            }
        }
        other => other?,
    }
    kv.close().await
}

/// Corrects what other users may of a volume's objects in directories, which have everybody's
/// bytes. What cannot be corrected is somebody else's to correct.
pub(crate) async fn make_private(format: &VolumeFormat, url: &BucketUrl) -> Result<()> {
    let mut urls = vec![url.clone()];
    for text in &format.stripe_set[1..] {
        urls.push(text.parse()?);
    }
    let directories: Vec<_> =
        urls.iter().filter_map(|url| Some(url.directory()?.to_owned())).collect();
    let work = move || {
        for directory in directories {
            for name in [VOLUME_KEY, WRITER_KEY, BEAT_KEY, AGE_KEY, META_PATH, SEGMENT_PATH] {
                let path = directory.join(name);
                if let Err(error) = private::tighten(&path) {
                    let path = path.display();
                    tracing::warn!(%path, %error, "other users may be able to read this: chmod it");
                }
            }
        }
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| FsError::new(ErrorKind::Bug, "correcting modes").with_source(e))
}

/// Reads what the volume at `url` is. One GET.
pub async fn read_format(url: &BucketUrl, connector: &Connector) -> Result<VolumeFormat> {
    read_format_in(&connector.connect(url)?).await
}

/// The same of a bucket that is connected: one connection, for what comes after it, too.
pub(crate) async fn read_format_in(bucket: &Bucket) -> Result<VolumeFormat> {
    let (bucket, url) = (bucket.hasty(), bucket.url());
    let bytes = match bucket.get(Component::Volume, VOLUME_KEY).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bucket.probe().await?;
            let text = format!("{url} is not a Weir volume: make one with `weir format {url}`");
            return Err(FsError::new(ErrorKind::NotFound, text).coded(ErrorCode::NotAVolume));
        }
        Err(error) => return Err(error),
    };
    decode_format(url, &bytes)
}

/// Says what a volume is from now on, where it is still `before`. A HEAD, a GET and a PUT; `Conflict` where somebody
/// changed it meanwhile.
pub(crate) async fn replace_format(
    bucket: &Bucket,
    before: &VolumeFormat,
    format: &VolumeFormat,
) -> Result<()> {
    let changed = || {
        let text = format!("{} was changed meanwhile: try again", bucket.url());
        FsError::new(ErrorKind::Conflict, text)
    };
    let object = bucket.head(Component::Volume, VOLUME_KEY).await?;
    if read_format_in(bucket).await? != *before {
        return Err(changed());
    }
    let etag = object.etag.ok_or_else(|| {
        let text = "the bucket tells no ETags: what a volume is can only be changed where it does";
        FsError::new(ErrorKind::Unsupported, text)
    })?;
    let (bytes, condition) = (encode(format)?, PutCondition::Matches(etag));
    let put = bucket
        .put_object(Component::Volume, VOLUME_KEY, bytes, &BTreeMap::new(), &condition)
        .await?;
    // After a lost answer only a look tells.
    match put.is_some() || read_format_in(bucket).await? == *format {
        true => Ok(()),
        false => Err(changed()),
    }
}

pub(crate) fn decode_format(url: &BucketUrl, bytes: &[u8]) -> Result<VolumeFormat> {
    let bad = |why: String| {
        FsError::new(ErrorKind::Corrupt, format!("{url}/{VOLUME_KEY} cannot be read: {why}"))
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))?;
    let version = value.get("format_version").and_then(serde_json::Value::as_u64);
    match version {
        None => return Err(bad("it names no format version".to_owned())),
        Some(version) if version > u64::from(FORMAT_VERSION) => {
            let text = format!(
                "{url} has format version {version}, and this weir knows up to {FORMAT_VERSION}: \
                 use a newer weir"
            );
            return Err(FsError::new(ErrorKind::Unsupported, text).coded(ErrorCode::VolumeNewer));
        }
        Some(_) => {}
    }
    let format: VolumeFormat = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
    match format.problems() {
        problems if problems.is_empty() => Ok(format),
        problems => Err(bad(problems.join("; "))),
    }
}

/// The buckets of a volume, the `first` one as it is named now: a volume may be reached by another
/// name than it was made under.
///
/// # Errors
/// Those of [`Connector::unlock`].
pub(crate) async fn stripe_set(
    format: &VolumeFormat,
    first: Bucket,
    connector: &Connector,
) -> Result<StripeSet> {
    let keys = connector.unlock(first.url(), format.encryption.as_ref()).await?;
    let mut buckets = vec![first];
    for text in &format.stripe_set[1..] {
        let url: BucketUrl = text.parse()?;
        buckets.push(connector.connect(&url)?);
    }
    Ok(StripeSet::new(buckets)?.opened_by(keys).beginning_in(origins_of(format, connector)?))
}

/// The buckets of the volumes that one begins in. No request.
pub(crate) fn origins_of(format: &VolumeFormat, connector: &Connector) -> Result<Vec<OriginSet>> {
    let origin = |origin: &Origin| {
        let buckets = origin.stripe_set.iter().map(|text| connector.connect(&text.parse()?));
        let newest = origin.newest().ok_or_else(|| {
            FsError::new(ErrorKind::Corrupt, "volume.json names an origin by no segment")
        })?;
        Ok(OriginSet { newest, buckets: buckets.collect::<Result<Vec<Bucket>>>()? })
    };
    format.origins.iter().map(origin).collect()
}
