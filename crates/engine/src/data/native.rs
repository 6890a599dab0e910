//! Native objects: bytes of files that are objects of a linked bucket.
//!
//! A GET names the ETag that the metadata knows, so that bytes of two versions of an object never
//! come together in one file: when the object is another one by now, the read fails, and the link
//! is told to look at that key.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use weir_types::{
    CHUNK_BYTES, ChunkIndex, ErrorCode, ErrorKind, Extent, FsError, Ino, Native, Result, SegmentId,
};

use crate::data::fetch::Fetcher;
use crate::data::records::{Cutter, Decoded, Place};

/// Bytes between two pieces that are cheaper to read over than to ask for apart.
const GAP_BYTES: u64 = 64 << 10;

/// A part of a native object that one ranged GET brings, with the pieces of it that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NativeRun {
    pieces: Vec<Range<u64>>,
}

impl NativeRun {
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.pieces.iter().map(|piece| (SegmentId::NATIVE, piece.start))
    }

    /// How much the GET brings.
    pub(crate) fn bytes(&self) -> u64 {
        self.range().end - self.range().start
    }

    fn range(&self) -> Range<u64> {
        let end = self.pieces.last().map_or(0, |piece| piece.end);
        self.pieces.first().map_or(0, |piece| piece.start)..end
    }
}

/// The runs that bring the native ones of these extents, which are in order, none longer than
/// `max_bytes`, unless a single extent is.
pub(crate) fn plan_native(chunks: &[(ChunkIndex, Vec<Extent>)], max_bytes: u64) -> Vec<NativeRun> {
    let mut runs: Vec<NativeRun> = Vec::new();
    let natives = chunks.iter().flat_map(|(chunk, extents)| {
        let base = chunk * CHUNK_BYTES;
        let native = extents.iter().filter(|extent| extent.is_native());
        native.map(move |e| base + u64::from(e.start)..base + u64::from(e.end()))
    });
    for piece in natives {
        if let Some(run) = runs.last_mut()
            && piece.start <= run.range().end + GAP_BYTES
            && piece.end - run.range().start <= max_bytes
        {
            run.pieces.push(piece);
            continue;
        }
        runs.push(NativeRun { pieces: vec![piece] });
    }
    runs
}

impl Fetcher {
    /// Gets one run and hands out each piece as soon as it is whole. `Conflict` when the object is
    /// another one by now, `NotFound` when the metadata has another one by now.
    pub(crate) async fn get_native(
        &self,
        ino: Ino,
        native: &Native,
        run: &NativeRun,
        each: &mut (dyn FnMut(Place, Bytes) -> Result<()> + Send),
    ) -> Result<()> {
        let bucket = self.natives.bucket(native.link)?;
        let mut cutter = Cutter::new(run.range().start, run.pieces.clone());
        let mut take_piece =
            |at: usize, bytes| each((SegmentId::NATIVE, run.pieces[at].start), bytes);
        let mut result = Ok(());
        let mut take = |piece: Bytes| {
            if result.is_ok() {
                result = cutter.take(piece, &mut take_piece);
            }
        };
        let got = self.get_version(&bucket, native, run.range(), &mut take).await;
        match got {
            Ok(()) => result,
            Err(error) if is_another(&error) => Err(self.look_again(ino, native, error).await),
            Err(error) => Err(error),
        }
    }

    /// The object is not the one that the metadata said: an export of ours has just replaced it
    /// (then `NotFound`: who looks again finds it), or somebody else did.
    async fn look_again(&self, ino: Ino, native: &Native, error: FsError) -> FsError {
        let node = self.nodes.get(ino);
        // An export holds it from its PUT to its commit.
        let _object = node.object.lock().await;
        let now = self.meta.inode(ino).await.ok().and_then(|inode| inode.native);
        if now.is_some_and(|now| now.etag != native.etag || now.key != native.key) {
            return FsError::new(ErrorKind::NotFound, "the file has another object now");
        }
        self.natives.object_is_another(native, ino);
        let text = "the object changed or went from the bucket after it was imported; open the \
                    file again once the change is imported (`weir refresh`)";
        let told = FsError::new(ErrorKind::Conflict, format!("{text}: {error}"));
        told.coded(ErrorCode::ObjectChanged)
    }

    /// Gets the native ones of these extents, at most as many runs at once as there are permits.
    pub(crate) async fn get_all_native(
        &self,
        ino: Ino,
        native: &Native,
        wanted: &[(ChunkIndex, Extent)],
        max_bytes: u64,
    ) -> Result<Decoded> {
        let chunks: Vec<_> = wanted.iter().map(|(chunk, extent)| (*chunk, vec![*extent])).collect();
        let mut getting: FuturesUnordered<_> = plan_native(&chunks, max_bytes)
            .into_iter()
            .map(|run| async move {
                let _permit = self.demand.acquire().await;
                let mut pieces = Vec::with_capacity(run.pieces.len());
                let mut each = |place, bytes| {
                    pieces.push((place, bytes));
                    Ok(())
                };
                self.get_native(ino, native, &run, &mut each).await?;
                Ok::<_, FsError>(pieces)
            })
            .collect();
        let mut decoded = Decoded::new();
        while let Some(pieces) = getting.next().await {
            decoded.extend(pieces?);
        }
        Ok(decoded)
    }
}

/// Whether an error says that the object is another one, or none.
fn is_another(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_side_by_side_share_a_get() {
        let whole = |chunk| (chunk, vec![Extent::native(0, CHUNK_BYTES as u32)]);
        let chunks: Vec<_> = (0..10).map(whole).collect();
        let runs = plan_native(&chunks, 8 << 20);
        assert_eq!(runs.iter().map(|r| r.pieces.len()).collect::<Vec<_>>(), [8, 2]);
        assert_eq!(runs[1].range(), 8 << 20..10 << 20);
        // A chunk that was written in its middle, and one far away.
        let record = Extent {
            record: weir_types::RecordRef {
                segment: SegmentId(7),
                position: 0,
                stored_bytes: 9,
                raw_bytes: 9,
                checksum: 0,
            },
            ..Extent::native(4096, 4096)
        };
        let mixed = [
            (0, vec![Extent::native(0, 4096), record, Extent::native(8192, 100)]),
            (9, vec![Extent::native(0, 10)]),
        ];
        let runs = plan_native(&mixed, 8 << 20);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].pieces, [0..4096, 8192..8292]);
        assert_eq!(runs[1].range(), 9 << 20..(9 << 20) + 10);
    }
}
