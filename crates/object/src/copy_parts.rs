//! Copies of objects that are too large for one copy, by the store: of parts, each a range of the object.
//!
//! What must always hold: all parts are of the version that was asked for, and nothing is seen of the copy before it is
//! complete.

use std::ops::Range;

use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, PutMode, PutOptions, PutPayload, PutResult};
use weir_types::StorageClass;

use crate::asks::{Kept, PartsAsk, UploadAsk, Written};
use crate::caller::{Ask, Failure};
use crate::upload::{COMPLETION, PARTS_MAX};
use crate::{Bucket, Component, RequestKind};

/// Bytes of a part, or more where there would be too many.
const PART_BYTES: u64 = 1 << 30;
/// Parts copied at once.
const PARTS_AT_ONCE: usize = 4;

/// A copy that is under way.
struct Copying<'a> {
    bucket: &'a Bucket,
    component: Component,
    from: &'a Path,
    to: &'a Path,
    etag: String,
}

impl Bucket {
    /// Copies the version of an object that has this size, this ETag and what goes with it, into a class if one is given, if the condition holds for what is at `to`. One
    /// PUT, one COPY for each GiB, one PUT and one HEAD. Parts of one that was broken off (the process was killed) stay
    /// and cost money, as those of uploads do.
    ///
    /// # Errors
    /// `NotSupported` where the store does not say what goes with an object.
    pub(crate) async fn copy_in_parts(
        &self,
        component: Component,
        (from, to): (&Path, &Path),
        (size, etag, kept): (u64, Option<String>, Option<Kept>),
        class: Option<StorageClass>,
        mode: PutMode,
    ) -> Result<PutResult, Failure> {
        let (Some(kept), Some(etag)) = (kept, etag) else {
            let source = "an object over 5 GiB is not copied by this store: store it anew".into();
            let error = Error::NotSupported { source };
            return Err(Failure { error, attempts: 1, elapsed: Default::default() });
        };
        let copying = Copying { bucket: self, component, from, to, etag };
        let begin = PartsAsk::Begin { from: from.clone(), class, kept };
        let begun = copying.ask(RequestKind::Put, 0, begin, PutMode::Overwrite).await?;
        let upload = begun.version.unwrap_or_default();
        let copied = copying.parts(&upload, size, mode).await;
        if copied.is_err() {
            let abort = UploadAsk::Abort { upload };
            let kind = RequestKind::Delete;
            if let Err(failure) = copying.ask(kind, 0, abort, PutMode::Overwrite).await {
                let url = self.url();
                tracing::warn!(error = %failure.error, %url, "parts of a copy that failed are left behind");
            }
        }
        let mut put = copied?;
        // What completes an upload does not say when.
        let now = self.caller().head(component, to).await?;
        if now.meta.e_tag == put.e_tag {
            put.extensions.insert(Written(now.meta.last_modified.timestamp_millis()));
        }
        Ok(put)
    }
}

impl Copying<'_> {
    async fn parts(&self, upload: &str, size: u64, mode: PutMode) -> Result<PutResult, Failure> {
        let part_bytes = part_bytes(size, self.bucket.copy_bytes_max);
        let starts = (0..size).step_by(part_bytes as usize).zip(1_usize..);
        let parts = starts.map(|(start, number)| {
            let range = start..size.min(start + part_bytes);
            self.part(upload, number, range)
        });
        let parts: Vec<String> = stream::iter(parts).buffered(PARTS_AT_ONCE).try_collect().await?;
        let complete = UploadAsk::Complete { upload: upload.to_owned(), parts };
        self.ask(RequestKind::Put, 0, complete, mode).await
    }

    async fn part(
        &self,
        upload: &str,
        number: usize,
        range: Range<u64>,
    ) -> Result<String, Failure> {
        let bytes = range.end - range.start;
        let (from, upload, etag) = (self.from.clone(), upload.to_owned(), self.etag.clone());
        let part = PartsAsk::Part { from, upload, number, range, etag };
        let put = self.ask(RequestKind::Copy, bytes, part, PutMode::Overwrite).await?;
        Ok(put.e_tag.unwrap_or_default())
    }

    async fn ask(
        &self,
        kind: RequestKind,
        expects: u64,
        ask: impl Clone + Send + Sync + 'static,
        mode: PutMode,
    ) -> Result<PutResult, Failure> {
        let mut options = PutOptions::from(mode);
        options.extensions.insert(ask);
        let caller = self.bucket.caller();
        let request = Ask { expects, patience: COMPLETION, ..Ask::new(self.component, kind) };
        let attempt = |_| {
            let options = options.clone();
            async move { Ok((caller.store.put_opts(self.to, PutPayload::default(), options).await?, 0)) }
        };
        caller.run(request, attempt).await
    }
}

fn part_bytes(size: u64, copy_bytes_max: u64) -> u64 {
    size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PART_BYTES.min(copy_bytes_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::COPY_BYTES_MAX;

    #[test]
    fn parts_are_a_gib_or_more() {
        assert_eq!(part_bytes(6 << 30, COPY_BYTES_MAX), 1 << 30);
        assert_eq!(part_bytes(50 << 40, COPY_BYTES_MAX), 5_243 << 20);
        assert!((50_u64 << 40).div_ceil(part_bytes(50 << 40, COPY_BYTES_MAX)) <= PARTS_MAX);
    }
}
