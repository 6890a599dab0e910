//! Copies in parts, of objects that are too large for one copy. The upload that they make is completed and aborted as
//! any other.

use std::ops::Range;

use bytes::Bytes;
use http::HeaderName;
use object_store::Result;
use weir_types::StorageClass;

use super::complete;
use super::requests::{Requests, encoded, generic, refused, request};
use crate::asks::Kept;

impl Requests {
    /// Begins to make an object of parts, in a class and with what goes with another one. Answers the upload's name. One
    /// request more where that has tags.
    pub(crate) async fn begin_copy(
        &self,
        (from, to): (&str, &str),
        class: Option<StorageClass>,
        kept: &Kept,
    ) -> Result<String> {
        let url = self.url_of(to);
        let mut create = request("POST", &format!("{url}?uploads="), &[])?;
        let headers = create.headers_mut();
        for (name, value) in &kept.headers {
            let name: HeaderName = name.parse().map_err(generic)?;
            headers.insert(name, value.parse().map_err(generic)?);
        }
        if let Some(class) = class {
            headers.insert("x-amz-storage-class", class.name().parse().map_err(generic)?);
        }
        for (name, value) in self.encryption() {
            headers.insert(name, value.parse().map_err(generic)?);
        }
        if kept.tagged {
            let told =
                self.send(request("GET", &format!("{}?tagging=", self.url_of(from)), &[])?).await?;
            let tags = complete::tags(&told).into_iter();
            let tags = tags.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
            let tags = tags.collect::<Vec<_>>().join("&");
            create.headers_mut().insert("x-amz-tagging", tags.parse().map_err(generic)?);
        }
        let answer: Bytes = self.send(create).await?;
        complete::upload(&answer).ok_or_else(|| refused(500, &answer, &url))
    }

    /// Copies a range of an object, while it has this ETag, onto a part of an upload. Answers the part's.
    pub(crate) async fn copy_part(
        &self,
        (from, to): (&str, &str),
        (upload, number): (&str, usize),
        range: &Range<u64>,
        etag: &str,
    ) -> Result<String> {
        let source = self.copy_source(from)?;
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let headers = [
            ("x-amz-copy-source", source.as_str()),
            ("x-amz-copy-source-range", &bytes),
            ("x-amz-copy-source-if-match", etag),
        ];
        let url = format!("{}?partNumber={number}&uploadId={}", self.url_of(to), encoded(upload));
        let answer = self.send(request("PUT", &url, &headers)?).await?;
        complete::copied_part(&answer).map_err(|status| refused(status, &answer, &url))
    }
}
