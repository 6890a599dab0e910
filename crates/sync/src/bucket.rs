//! Files that become objects, objects that become files, and objects copied between buckets.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use weir_object::{Bucket, Component, PutCondition};
use weir_types::{ErrorKind, FsError, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::attributes;
use crate::directory::{open_source, unchanged};
use crate::entry::{Entry, Kind};
use crate::place::Root;
use crate::target::Target;
use crate::walk::{blocking, local};

/// Larger objects are moved in parts.
const ONE_REQUEST_BYTES: u64 = 16 << 20;
/// Parts of one object that are under way.
const PARTS_AT_ONCE: usize = 4;

/// Told of bytes that were moved; an error if no more should be.
pub(crate) type Moved<'a> = &'a (dyn Fn(u64) -> Result<()> + Sync);

/// Stores a file, or where a symbolic link leads, as an object. One PUT, or one for each part and
/// two more.
pub(crate) async fn put(from: &Root, to: &Bucket, entry: &Entry, moved: Moved<'_>) -> Result<()> {
    let (key, told) = (entry.key()?, attributes::of(entry));
    if let Kind::Symlink { target } = &entry.kind {
        let target = Bytes::from(target.clone());
        to.put_object(Component::Data, key, target, &told, &PutCondition::Any).await?;
        return Ok(());
    }
    let (root, of) = (from.clone(), entry.clone());
    let file = blocking(move || open_source(&root, &of)).await.map_err(local)?;
    let file = Arc::new(file);
    let read = |at: u64, length: u64| {
        let file = file.clone();
        async move {
            let read = blocking(move || {
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                file.read_exact_at(&mut bytes, at)?;
                Ok(Bytes::from(bytes))
            });
            read.await.map_err(local)
        }
    };
    let same = || unchanged(&file, entry).map_err(local);
    if entry.size() <= ONE_REQUEST_BYTES {
        let bytes = read(0, entry.size()).await?;
        same()?;
        to.put_object(Component::Data, key, bytes, &told, &PutCondition::Any).await?;
        return moved(entry.size());
    }
    let upload = to.begin_upload(Component::Data, key, entry.size(), &told).await?;
    let part_bytes = upload.part_bytes();
    let parts = stream::iter(1..=upload.parts()).map(|number| {
        let (at, upload) = ((number as u64 - 1) * part_bytes, &upload);
        let length = part_bytes.min(entry.size() - at);
        let bytes = read(at, length);
        async move {
            upload.part(number, bytes.await?).await?;
            moved(length)
        }
    });
    parts.buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<()>>().await?;
    same()?;
    upload.complete(&PutCondition::Any).await.map(drop)
}

/// Writes an object as a file, and answers what its bytes hash to, unless an earlier run had begun it.
/// A HEAD, and a GET for each 16 MiB.
pub(crate) async fn get(
    from: &Bucket,
    to: &Root,
    entry: &Entry,
    moved: Moved<'_>,
) -> Result<Option<u64>> {
    let info = as_listed(from, entry).await?;
    let is = info.as_deref().map(|etag| format!("{} {etag}", entry.size()));
    let (root, path) = (to.clone(), entry.path.clone());
    let mut target = blocking(move || Target::begin(&root, &path, is)).await.map_err(local)?;
    let begun = target.noted();
    moved(begun)?;
    let mut pieces = pieces(from, entry, begun, info.as_deref());
    let (mut hash, mut at) = (Xxh3::new(), begun);
    while let Some(bytes) = pieces.try_next().await? {
        hash.update(&bytes);
        let length = bytes.len() as u64;
        let write = move || target.write(&bytes, at).map(|()| target);
        target = blocking(write).await.map_err(local)?;
        at += length;
        moved(length)?;
    }
    let entry = entry.clone();
    blocking(move || target.finish(&entry, None)).await.map_err(local)?;
    Ok(Some(hash.digest()).filter(|_| begun == 0))
}

/// Copies an object to another bucket, through here.
pub(crate) async fn copy(
    from: &Bucket,
    to: &Bucket,
    entry: &Entry,
    moved: Moved<'_>,
) -> Result<()> {
    let key = entry.key()?;
    let (info, told) = from.head_attributes(Component::Data, key).await?;
    check(entry, info.size)?;
    let etag = info.etag.as_deref();
    if entry.size() <= ONE_REQUEST_BYTES {
        let bytes = piece(from, key, 0, entry.size(), etag).await?;
        to.put_object(Component::Data, key, bytes, &told, &PutCondition::Any).await?;
        return moved(entry.size());
    }
    let upload = to.begin_upload(Component::Data, key, entry.size(), &told).await?;
    let part_bytes = upload.part_bytes();
    let parts = stream::iter(1..=upload.parts()).map(|number| {
        let (at, upload) = ((number as u64 - 1) * part_bytes, &upload);
        let length = part_bytes.min(entry.size() - at);
        async move {
            upload.part(number, piece(from, key, at, length, etag).await?).await?;
            moved(length)
        }
    });
    parts.buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<()>>().await?;
    upload.complete(&PutCondition::Any).await.map(drop)
}

/// What the bytes of an object hash to.
pub(crate) async fn hash(bucket: &Bucket, entry: &Entry) -> Result<u64> {
    let (mut hash, mut pieces) = (Xxh3::new(), pieces(bucket, entry, 0, None));
    while let Some(bytes) = pieces.try_next().await? {
        hash.update(&bytes);
    }
    Ok(hash.digest())
}

/// The ETag of an object that is as it was listed.
async fn as_listed(bucket: &Bucket, entry: &Entry) -> Result<Option<String>> {
    let info = bucket.head(Component::Data, entry.key()?).await?;
    check(entry, info.size)?;
    Ok(info.etag)
}

fn check(entry: &Entry, size: u64) -> Result<()> {
    match size == entry.size() {
        true => Ok(()),
        false => Err(FsError::new(ErrorKind::Conflict, "it changed while it was copied")),
    }
}

/// The bytes of an object from `start` on, some pieces ahead, in their order.
fn pieces<'a>(
    bucket: &'a Bucket,
    entry: &'a Entry,
    start: u64,
    etag: Option<&'a str>,
) -> impl stream::TryStream<Ok = Bytes, Error = FsError> + Unpin + 'a {
    let size = entry.size();
    let count = (size - start).div_ceil(ONE_REQUEST_BYTES);
    let starts = (0..count).map(move |n| start + n * ONE_REQUEST_BYTES);
    stream::iter(starts)
        .map(move |at| async move {
            piece(bucket, entry.key()?, at, ONE_REQUEST_BYTES.min(size - at), etag).await
        })
        .buffered(PARTS_AT_ONCE)
        .boxed()
}

async fn piece(
    bucket: &Bucket,
    key: &str,
    at: u64,
    length: u64,
    etag: Option<&str>,
) -> Result<Bytes> {
    if length == 0 {
        return Ok(Bytes::new());
    }
    let range = at..at + length;
    match etag {
        Some(etag) => bucket.get_range_if_match(Component::Data, key, range, etag).await,
        None => bucket.get_range(Component::Data, key, range).await,
    }
}
