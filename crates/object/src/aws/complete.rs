//! CompleteMultipartUpload: what is sent, and what its answer, and that of CopyObject, says.

use chrono::DateTime;
use quick_xml::Reader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::Event;

/// The request's body. The library's name of a part is an XML element with the ETag and the
/// checksum, or where it sends no checksums, the ETag.
pub(super) fn body(parts: &[String]) -> String {
    let mut body = String::from("<CompleteMultipartUpload>");
    for (part, number) in parts.iter().zip(1..) {
        let etag = inside(part, "e_tag").map_or_else(|| escape(part), Into::into);
        body.push_str(&format!("<Part><ETag>{etag}</ETag><PartNumber>{number}</PartNumber>"));
        for (ours, theirs) in
            [("checksum_crc64nvme", "ChecksumCRC64NVME"), ("checksum_sha256", "ChecksumSHA256")]
        {
            if let Some(sum) = inside(part, ours) {
                body.push_str(&format!("<{theirs}>{sum}</{theirs}>"));
            }
        }
        body.push_str("</Part>");
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}

/// The object's ETag, or the HTTP status that an answer should have had.
pub(super) fn etag(answer: &[u8]) -> Result<String, u16> {
    etag_in(answer, b"CompleteMultipartUploadResult")
}

/// The copy's ETag and when it was written, in milliseconds since 1970; or the HTTP status that an
/// answer should have had.
pub(super) fn copied(answer: &[u8]) -> Result<(String, i64), u16> {
    let etag = etag_in(answer, b"CopyObjectResult")?;
    let text = String::from_utf8_lossy(answer);
    let time = inside(&text, "LastModified").and_then(|t| DateTime::parse_from_rfc3339(t).ok());
    Ok((etag, time.map_or(0, |time| time.timestamp_millis())))
}

/// The ETag of a part that was copied, or the HTTP status that an answer should have had.
pub(super) fn copied_part(answer: &[u8]) -> Result<String, u16> {
    etag_in(answer, b"CopyPartResult")
}

/// The name of an upload that began.
pub(super) fn upload(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    inside(&text, "UploadId").and_then(|name| unescape(name).ok()).map(Into::into)
}

/// An object's tags.
pub(super) fn tags(answer: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(answer);
    let tags = text.split("<Tag>").skip(1).filter_map(|tag| {
        let of = |name| inside(tag, name).and_then(|text| unescape(text).ok()).map(Into::into);
        Some((of("Key")?, of("Value").unwrap_or_default()))
    });
    tags.collect()
}

fn etag_in(answer: &[u8], element: &[u8]) -> Result<String, u16> {
    let text = String::from_utf8_lossy(answer);
    let code = inside(&text, "Code").unwrap_or_default();
    let etag = inside(&text, "ETag").and_then(|etag| unescape(etag).ok());
    match (etag.filter(|_| root(answer).as_deref() == Some(element)), code) {
        (Some(etag), _) => Ok(etag.into_owned()),
        (None, "PreconditionFailed") => Err(412),
        (None, "NoSuchUpload" | "NoSuchKey") => Err(404),
        (None, _) => Err(500),
    }
}

/// The outermost element's name.
fn root(xml: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::from_reader(xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => return Some(element.local_name().as_ref().to_vec()),
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// The text of the first element `name`, as it is written.
fn inside<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    behind.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_with_what_the_library_knows_of_them() {
        let part = "<PartMetadata><e_tag>&quot;a&quot;</e_tag>\
                    <checksum_crc64nvme>x=</checksum_crc64nvme></PartMetadata>";
        let want = "<CompleteMultipartUpload>\
                    <Part><ETag>&quot;a&quot;</ETag><PartNumber>1</PartNumber>\
                    <ChecksumCRC64NVME>x=</ChecksumCRC64NVME></Part>\
                    <Part><ETag>&quot;b&quot;</ETag><PartNumber>2</PartNumber></Part>\
                    </CompleteMultipartUpload>";
        assert_eq!(body(&[part.to_owned(), "\"b\"".to_owned()]), want);
    }

    #[test]
    fn success_is_only_what_says_so() {
        let good = "<?xml version=\"1.0\"?>\n<CompleteMultipartUploadResult xmlns=\"x\">\
                    <ETag>&quot;a-2&quot;</ETag></CompleteMultipartUploadResult>";
        assert_eq!(etag(good.as_bytes()), Ok("\"a-2\"".to_owned()));
        for (code, status) in
            [("InternalError", 500), ("PreconditionFailed", 412), ("NoSuchUpload", 404)]
        {
            let bad = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
            assert_eq!(etag(bad.as_bytes()), Err(status));
        }
        assert_eq!(etag(b""), Err(500));
        let copy = "<CopyObjectResult><LastModified>2024-02-29T12:00:00.250Z</LastModified>\
                    <ETag>&quot;a&quot;</ETag></CopyObjectResult>";
        assert_eq!(copied(copy.as_bytes()), Ok(("\"a\"".to_owned(), 1_709_208_000_250)));
        assert_eq!(copied(good.as_bytes()), Err(500));
        let part = "<CopyPartResult><ETag>&quot;p&quot;</ETag></CopyPartResult>";
        assert_eq!(copied_part(part.as_bytes()), Ok("\"p\"".to_owned()));
        assert_eq!(copied_part(copy.as_bytes()), Err(500));
        let begun = "<InitiateMultipartUploadResult><UploadId>a&amp;b</UploadId>";
        assert_eq!(upload(begun.as_bytes()).as_deref(), Some("a&b"));
        let told = "<Tagging><TagSet><Tag><Key>a b</Key><Value>1&lt;2</Value></Tag><Tag><Key>c</Key><Value/></Tag>";
        let want = [("a b", "1<2"), ("c", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(tags(told.as_bytes()), want);
        assert_eq!(copied(b"<Error><Code>NoSuchKey</Code></Error>"), Err(404));
        assert_eq!(copied(b"<Error><Code>SlowDown</Code></Error>"), Err(500));
    }
}
