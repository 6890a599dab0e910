//! A store whose objects are sealed: what is below it sees their names, their sizes and nothing else.
//!
//! An object is pieces of [`PIECE_BYTES`], each sealed by itself, so that a range costs one request as ever. The last
//! piece is shorter than the others, and there always is one, empty if need be: nothing can be cut off unseen.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use weir_keys::{Place, SEALED_MORE_BYTES, Sealer, VolumeKeys};

use crate::view::{PlainDigest, digest_of};
use weir_types::FsError;

/// Plain bytes of a piece.
const PIECE_BYTES: u64 = 16 << 10;
/// The number of the volume's key, before each piece.
const NUMBER_BYTES: u64 = 2;
const MORE_BYTES: u64 = NUMBER_BYTES + SEALED_MORE_BYTES as u64;
/// Bytes of a piece as it is stored.
const STORED_BYTES: u64 = PIECE_BYTES + MORE_BYTES;

/// `store`, with all that is put there sealed by the newest of `keys`, and all that is read opened; `store` itself where
/// there are none. As many requests as without; objects are 30 bytes longer for each 16 KiB.
pub fn sealed(store: Arc<dyn ObjectStore>, keys: &VolumeKeys) -> Arc<dyn ObjectStore> {
    if keys.is_empty() { store } else { Arc::new(Sealed { inner: store, keys: keys.clone() }) }
}

struct Sealed {
    inner: Arc<dyn ObjectStore>,
    keys: VolumeKeys,
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({:?})", self.inner)
    }
}

/// Plain bytes of an object of so many stored ones.
fn plain_bytes(stored: u64) -> u64 {
    stored / STORED_BYTES * PIECE_BYTES + (stored % STORED_BYTES).saturating_sub(MORE_BYTES)
}

fn plain_meta(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { size: plain_bytes(meta.size), ..meta }
}

/// What is stored of a range that somebody asks for.
fn stored_range(range: &GetRange) -> GetRange {
    let first = |at: u64| at / PIECE_BYTES * STORED_BYTES;
    match range {
        GetRange::Bounded(range) => {
            GetRange::Bounded(first(range.start)..range.end.div_ceil(PIECE_BYTES) * STORED_BYTES)
        }
        GetRange::Offset(at) => GetRange::Offset(first(*at)),
        // It may begin and end within a piece.
        GetRange::Suffix(bytes) => GetRange::Suffix((bytes / PIECE_BYTES + 2) * STORED_BYTES),
    }
}

/// What of a plain object of `size` bytes is asked for.
fn wanted(range: Option<&GetRange>, size: u64) -> Range<u64> {
    match range {
        None => 0..size,
        Some(GetRange::Bounded(range)) => range.start.min(size)..range.end.min(size),
        Some(GetRange::Offset(at)) => *at.min(&size)..size,
        Some(GetRange::Suffix(bytes)) => size.saturating_sub(*bytes)..size,
    }
}

/// What a tag covers beside a piece: which one it is, and whether it is the last.
fn also(piece: u64, last: bool) -> [u8; 9] {
    let mut also = [u8::from(last); 9];
    also[..8].copy_from_slice(&piece.to_le_bytes());
    also
}

/// It is tried no second time: `NotSupported` is an error that stays.
fn unreadable(path: &Path, why: &str) -> Error {
    Error::NotSupported {
        source: format!("{path} cannot be opened by the volume's keys: {why}").into(),
    }
}

fn failed(error: FsError) -> Error {
    Error::Generic { store: "sealed", source: Box::new(error) }
}

/// Appends pieces to what is to be stored.
struct Pieces {
    sealer: Sealer,
    next: u64,
}

impl Pieces {
    fn of(keys: &VolumeKeys, path: &Path) -> Result<Self> {
        let sealer = keys.sealer(Place::Object(path.as_ref()));
        Ok(Self { sealer: sealer.ok_or_else(|| unreadable(path, "there are none"))?, next: 0 })
    }

    fn append(&mut self, plain: &[u8], last: bool, stored: &mut Vec<u8>) -> Result<()> {
        stored.extend_from_slice(&self.sealer.number().to_le_bytes());
        let from = stored.len();
        stored.resize(from + Sealer::ROOM_BYTES, 0);
        stored.extend_from_slice(plain);
        self.sealer.seal(&also(self.next, last), stored, from).map_err(failed)?;
        self.next += 1;
        Ok(())
    }

    /// Takes whole pieces off the front of `plain`.
    fn append_whole(&mut self, plain: &mut Vec<u8>, stored: &mut Vec<u8>) -> Result<()> {
        let whole = plain.len() / PIECE_BYTES as usize * PIECE_BYTES as usize;
        stored.reserve(whole / PIECE_BYTES as usize * STORED_BYTES as usize);
        for piece in plain[..whole].chunks_exact(PIECE_BYTES as usize) {
            self.append(piece, false, stored)?;
        }
        plain.drain(..whole);
        Ok(())
    }
}

impl Sealed {
    /// The plain bytes of the pieces in `stored`, which begin with piece `first` of an object of `whole` stored bytes.
    fn open(&self, path: &Path, stored: &[u8], first: u64, whole: u64) -> Result<Vec<u8>> {
        if whole % STORED_BYTES < MORE_BYTES {
            return Err(unreadable(path, "its end is cut off"));
        }
        let last = whole / STORED_BYTES;
        let mut plain = Vec::with_capacity(stored.len());
        for (piece, bytes) in (first..).zip(stored.chunks(STORED_BYTES as usize)) {
            let (number, sealed) =
                bytes.split_first_chunk().ok_or_else(|| unreadable(path, "it is cut short"))?;
            let number = u16::from_le_bytes(*number);
            let Some(opener) = self.keys.opener(number, Place::Object(path.as_ref())) else {
                return Err(unreadable(
                    path,
                    &format!("there is no key number {number}: mount the volume anew"),
                ));
            };
            let opened = opener.open(&also(piece, piece == last), sealed);
            plain.extend(
                opened.ok_or_else(|| unreadable(path, "it is damaged, or somebody changed it"))?,
            );
        }
        Ok(plain)
    }
}

#[async_trait]
impl ObjectStore for Sealed {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let mut plain: Vec<u8> = Vec::with_capacity(payload.content_length());
        payload.iter().for_each(|part| plain.extend_from_slice(part));
        options.extensions.insert(PlainDigest(digest_of(std::iter::once(&plain[..]))));
        let (mut pieces, mut stored) = (Pieces::of(&self.keys, location)?, Vec::new());
        pieces.append_whole(&mut plain, &mut stored)?;
        pieces.append(&plain, true, &mut stored)?;
        self.inner.put_opts(location, PutPayload::from(stored), options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let pieces = Pieces::of(&self.keys, location)?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(SealedUpload { inner, pieces, rest: Vec::new() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let asked = options.range.clone();
        let stored_options = GetOptions { range: asked.as_ref().map(stored_range), ..options };
        let head = stored_options.head;
        let got = self.inner.get_opts(location, stored_options).await?;
        let (stored_bytes, range, attributes) =
            (got.meta.size, got.range.clone(), got.attributes.clone());
        let meta = plain_meta(got.meta.clone());
        let wanted = wanted(asked.as_ref(), meta.size);
        if head {
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            return Ok(GetResult {
                payload,
                meta,
                range: wanted,
                attributes,
                extensions: got.extensions,
            });
        }
        let extensions = got.extensions.clone();
        let stored = got.bytes().await?;
        // A suffix begins wherever it does; whole pieces from there on.
        let first = range.start.div_ceil(STORED_BYTES);
        let skipped = (first * STORED_BYTES - range.start) as usize;
        let pieces = stored.get(skipped..).unwrap_or_default();
        let plain = Bytes::from(self.open(location, pieces, first, stored_bytes)?);
        let (start, end) =
            (wanted.start - (first * PIECE_BYTES).min(wanted.start), wanted.end - wanted.start);
        let (start, end) = (start as usize, (start + end) as usize);
        if end > plain.len() || (asked.is_some() && wanted.is_empty()) {
            return Err(unreadable(
                location,
                &format!("it has {} bytes, and {asked:?} are asked for", meta.size),
            ));
        }
        let bytes = plain.slice(start..end);
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range: wanted, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).map(|found| found.map(plain_meta)).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset).map(|found| found.map(plain_meta)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await?;
        let objects = listed.objects.into_iter().map(plain_meta).collect();
        Ok(ListResult { objects, ..listed })
    }

    /// An object is sealed for the key that it has: a copy would not open. Nobody asks for one.
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        let (operation, implementer) = ("a copy of what is sealed".to_owned(), self.to_string());
        Err(Error::NotImplemented { operation, implementer })
    }
}

struct SealedUpload {
    inner: Box<dyn MultipartUpload>,
    pieces: Pieces,
    rest: Vec<u8>,
}

impl fmt::Debug for SealedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedUpload({:?})", self.inner)
    }
}

#[async_trait]
impl MultipartUpload for SealedUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        payload.iter().for_each(|part| self.rest.extend_from_slice(part));
        let mut stored = Vec::new();
        match self.pieces.append_whole(&mut self.rest, &mut stored) {
            Ok(()) if stored.is_empty() => futures::future::ready(Ok(())).boxed(),
            Ok(()) => self.inner.put_part(PutPayload::from(stored)),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let mut stored = Vec::new();
        self.pieces.append(&self.rest, true, &mut stored)?;
        self.inner.put_part(PutPayload::from(stored)).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    struct Two {
        below: Arc<InMemory>,
        store: Arc<dyn ObjectStore>,
    }

    fn two() -> Two {
        let below = Arc::new(InMemory::new());
        let store = sealed(below.clone(), &VolumeKeys::by_chance().expect("random"));
        Two { below, store }
    }

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
    }

    async fn stored(two: &Two, path: &Path) -> Vec<u8> {
        two.below.get(path).await.expect("there").bytes().await.expect("reads").to_vec()
    }

    const SIZES: [u64; 8] = [0, 1, 5_000, 16_383, 16_384, 16_385, 32_768, 100_000];

    #[tokio::test]
    async fn any_range_is_read_as_it_was_written_and_nothing_of_it_shows_below() {
        let two = two();
        let path = Path::from("meta/wal/1.sst");
        for size in SIZES {
            let plain = bytes(size);
            two.store.put(&path, plain.clone().into()).await.expect("puts");
            let below = stored(&two, &path).await;
            assert_eq!(plain_bytes(below.len() as u64), size);
            for part in plain.chunks_exact(16) {
                assert!(
                    !below.windows(16).any(|window| window == part),
                    "{size}: plain bytes are below"
                );
            }
            assert_eq!(two.store.head(&path).await.expect("there").size, size);
            let listed: Vec<_> = two.store.list(None).try_collect().await.expect("lists");
            assert_eq!(listed.iter().map(|one| one.size).collect::<Vec<_>>(), [size]);
            let all = two.store.get(&path).await.expect("there");
            assert_eq!((all.meta.size, all.range.clone()), (size, 0..size));
            assert!(all.bytes().await.expect("reads") == plain);
            let ends = [0, 1, 100, 16_383, 16_384, 16_385, 40_000, size.saturating_sub(1), size];
            for (start, end) in ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b))) {
                let (start, end) = (start.min(size), end.min(size));
                if start < end {
                    let have = two.store.get_range(&path, start..end).await.expect("reads");
                    assert!(have == plain[start as usize..end as usize], "{size}: {start}..{end}");
                }
            }
            for len in ends.into_iter().filter(|len| (1..=size).contains(len)) {
                for (range, want) in [
                    (GetRange::Suffix(len), size - len..size),
                    (GetRange::Offset(size - len), size - len..size),
                    (GetRange::Bounded(size - len..size + 9), size - len..size),
                ] {
                    let what = format!("{size}: {range:?}");
                    let options = GetOptions { range: Some(range), ..GetOptions::default() };
                    let got = two.store.get_opts(&path, options).await.expect(&what);
                    assert_eq!(got.range, want, "{what}");
                    assert!(
                        got.bytes().await.expect("reads") == plain[want.start as usize..],
                        "{what}"
                    );
                }
            }
            two.store.get_range(&path, size..size + 1).await.expect_err("nothing is there");
        }
    }

    #[tokio::test]
    async fn an_upload_in_parts_is_the_same_object() {
        let two = two();
        let path = Path::from("meta/compacted/1.sst");
        for part in [1_000, 16_384, 20_000, 49_152] {
            for size in SIZES {
                let plain = bytes(size);
                let mut upload = two.store.put_multipart(&path).await.expect("begins");
                for part in plain.chunks(part) {
                    upload.put_part(part.to_vec().into()).await.expect("takes a part");
                }
                upload.complete().await.expect("ends");
                let have = two.store.get(&path).await.expect("there").bytes().await.expect("reads");
                assert!(have == plain, "{size} in parts of {part}");
            }
        }
    }

    #[tokio::test]
    async fn what_was_changed_below_is_told_and_not_tried_again() {
        let two = two();
        let (path, other) = (Path::from("meta/a"), Path::from("meta/b"));
        two.store.put(&path, bytes(100_000).into()).await.expect("puts");
        let sound = stored(&two, &path).await;
        let piece = STORED_BYTES as usize;
        let swapped = [&sound[piece..2 * piece], &sound[..piece], &sound[2 * piece..]].concat();
        let mut flipped = sound.clone();
        flipped[50_000] ^= 1;
        let mut renumbered = sound.clone();
        renumbered[0] = 1;
        let cases = [
            ("a flipped bit", flipped),
            ("two pieces in each other's place", swapped),
            ("the last piece cut off", sound[..sound.len() / piece * piece].to_vec()),
            ("a piece cut off", sound[..piece].to_vec()),
            ("cut within a piece", sound[..sound.len() - 5].to_vec()),
            ("nothing", Vec::new()),
            ("another key's number", renumbered),
            ("plain bytes", bytes(100_000)),
        ];
        for (what, changed) in cases {
            two.below.put(&path, changed.into()).await.expect("puts");
            let error = match two.store.get(&path).await {
                Ok(_) => panic!("{what} is read"),
                Err(error) => error,
            };
            assert!(matches!(error, Error::NotSupported { .. }), "{what}: {error}");
        }
        two.below.put(&other, sound.clone().into()).await.expect("puts");
        two.store.get(&other).await.expect_err("it was sealed for another name");
        two.below.put(&path, sound.clone().into()).await.expect("puts");
        assert!(
            two.store.get(&path).await.expect("there").bytes().await.expect("reads")
                == bytes(100_000)
        );
        let others = sealed(two.below.clone(), &VolumeKeys::by_chance().expect("random"));
        others.get(&path).await.expect_err("another volume's keys");
    }
}
