//! One page of ListObjectsV2, asked for with encoded keys: XML has no way to write some
//! characters that keys may have.

use std::io;

use chrono::DateTime;
use object_store::{Error, Result};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::requests::encoded;
use crate::asks::ListAsk;
use crate::failure::broken;
use crate::listed::{ListedObject, Page};

impl ListAsk {
    pub(super) fn query(&self) -> String {
        let mut query = format!("encoding-type=url&list-type=2&max-keys={}", self.most);
        if self.delimiter {
            query.push_str("&delimiter=%2F");
        }
        if !self.prefix.is_empty() {
            query.push_str(&format!("&prefix={}", encoded(&self.prefix)));
        }
        match (&self.token, &self.after) {
            (Some(token), _) => query.push_str(&format!("&continuation-token={}", encoded(token))),
            (None, Some(after)) => query.push_str(&format!("&start-after={}", encoded(after))),
            (None, None) => {}
        }
        query
    }
}

/// Reads a page. Keys lose `root`, with which all begin.
pub(crate) fn read_listing(xml: &[u8], root: &[u8]) -> Result<Page> {
    let mut reader = Reader::from_reader(xml);
    let mut listing = Listing::default();
    // Elements that are open, and the text of the innermost.
    let (mut depth, mut text) = (0_u32, Vec::new());
    while !listing.ended {
        match reader.read_event().map_err(|error| bad(&error.to_string()))? {
            Event::Start(_) => {
                depth += 1;
                text.clear();
            }
            Event::Empty(element) => {
                listing.element(element.local_name().as_ref(), depth + 1, &[])?;
            }
            Event::End(element) => {
                listing.element(element.local_name().as_ref(), depth, &text)?;
                depth = depth.saturating_sub(1);
                text.clear();
            }
            Event::Text(more) => text.extend_from_slice(&more),
            Event::CData(more) => text.extend_from_slice(&more),
            Event::GeneralRef(entity) => {
                let known = match entity.resolve_char_ref().map_err(|e| bad(&e.to_string()))? {
                    Some(char) => char.to_string(),
                    None => {
                        let name = std::str::from_utf8(&entity).unwrap_or_default();
                        resolve_predefined_entity(name).ok_or_else(|| bad(name))?.to_owned()
                    }
                };
                text.extend_from_slice(known.as_bytes());
            }
            Event::Eof => return Err(bad("it ends too early")),
            _ => {}
        }
    }
    listing.finish(root)
}

/// A page that is being read, in full keys, as they are written.
#[derive(Default)]
struct Listing {
    page: Page,
    encoded: bool,
    ended: bool,
    object: Option<ListedObject>,
}

impl Listing {
    /// Takes an element in that ended at `depth` with `text` in it.
    fn element(&mut self, name: &[u8], depth: u32, text: &[u8]) -> Result<()> {
        let page = &mut self.page;
        match (depth, name) {
            (1, b"ListBucketResult") => self.ended = true,
            (1, other) => return Err(bad(&String::from_utf8_lossy(other))),
            (2, b"IsTruncated") => page.truncated = text == b"true",
            (2, b"NextContinuationToken") => page.token = Some(utf8(text)?),
            (2, b"EncodingType") => self.encoded = text == b"url",
            (2, b"Contents") => {
                let whole = self.object.take().filter(|object| !object.key.is_empty());
                page.objects.push(whole.ok_or_else(|| bad("an object without a key"))?);
            }
            (3, b"Prefix") => page.directories.push(text.to_vec()),
            (3, b"Key") => self.object().key = text.to_vec(),
            (3, b"Size") => {
                let size = utf8(text)?.parse();
                self.object().size = size.map_err(|_| bad("a size that is no number"))?;
            }
            (3, b"ETag") => self.object().etag = Some(utf8(text)?),
            (3, b"LastModified") => {
                let time = DateTime::parse_from_rfc3339(&utf8(text)?);
                let time = time.map_err(|error| bad(&error.to_string()))?;
                self.object().last_modified_unix_ms = time.timestamp_millis();
            }
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self) -> &mut ListedObject {
        self.object.get_or_insert_with(|| ListedObject {
            key: Vec::new(),
            size: 0,
            etag: None,
            last_modified_unix_ms: 0,
            cannot_show: None,
        })
    }

    fn finish(mut self, root: &[u8]) -> Result<Page> {
        let decode = self.encoded;
        let below = |written: &mut Vec<u8>| -> Result<()> {
            let key = if decode { decoded(written) } else { std::mem::take(written) };
            let below =
                key.strip_prefix(root).ok_or_else(|| bad("a key that was not asked for"))?;
            *written = below.to_vec();
            Ok(())
        };
        self.page.objects.iter_mut().try_for_each(|object| below(&mut object.key))?;
        self.page.directories.iter_mut().try_for_each(below)?;
        Ok(self.page)
    }
}

/// Undoes `%XX`, and `+` for a space.
fn decoded(written: &[u8]) -> Vec<u8> {
    let digit = |at: usize| written.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut key = Vec::with_capacity(written.len());
    let mut at = 0;
    while let Some(&byte) = written.get(at) {
        let escaped = (byte == b'%').then(|| digit(at + 1).zip(digit(at + 2))).flatten();
        at += if escaped.is_some() { 3 } else { 1 };
        key.push(match escaped {
            Some((high, low)) => (high * 16 + low) as u8,
            None if byte == b'+' => b' ',
            None => byte,
        });
    }
    key
}

fn utf8(text: &[u8]) -> Result<String> {
    String::from_utf8(text.to_vec()).map_err(|error| bad(&error.to_string()))
}

fn bad(why: &str) -> Error {
    broken(io::ErrorKind::InvalidData, format!("the listing cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_to_the_last_byte_of_a_key() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
            <Prefix>p/</Prefix><IsTruncated>true</IsTruncated>
            <NextContinuationToken>a&amp;b=</NextContinuationToken>
            <Contents><Key>p/a+b%2B%01%C3%BC%25%0A </Key>
            <LastModified>2024-02-29T12:00:00.250Z</LastModified>
            <ETag>&quot;x-1&#34;</ETag><Size>5368709121</Size>
            <Owner><ID>n</ID><Key>not this</Key></Owner><StorageClass/></Contents>
            <Contents><Key>p/</Key><Size>0</Size></Contents>
            <CommonPrefixes><Prefix>p/%FF//</Prefix></CommonPrefixes>
            <EncodingType>url</EncodingType></ListBucketResult>"#;
        let page = read_listing(xml.as_bytes(), b"p/").expect("page");
        assert!(page.truncated);
        assert_eq!(page.token.as_deref(), Some("a&b="));
        let first = ListedObject {
            key: "a b+\u{1}ü%\n ".into(),
            size: 5_368_709_121,
            etag: Some("\"x-1\"".to_owned()),
            last_modified_unix_ms: 1_709_208_000_250,
            cannot_show: None,
        };
        assert_eq!(page.objects[0], first);
        assert_eq!((page.objects[1].key.as_slice(), page.objects.len()), (&b""[..], 2));
        assert_eq!(page.directories, [b"\xff//"]);
        let plain = xml.replace("<EncodingType>url</EncodingType>", "");
        let page = read_listing(plain.as_bytes(), b"p/").expect("page");
        assert_eq!(page.objects[0].key, b"a+b%2B%01%C3%BC%25%0A ");
    }

    #[test]
    fn what_is_no_whole_page_is_refused() {
        let page = "<ListBucketResult><Contents><Key>p/x</Key></Contents></ListBucketResult>";
        assert_eq!(read_listing(page.as_bytes(), b"p/").expect("page").objects.len(), 1);
        for end in 0..page.len() {
            read_listing(&page.as_bytes()[..end], b"p/").expect_err("cut off");
        }
        for other in [
            "<Error><Code>InternalError</Code></Error>",
            "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>q/x</Key></Contents></ListBucketResult>",
        ] {
            let error = read_listing(other.as_bytes(), b"p/").expect_err(other);
            assert!(crate::failure::judge(&error).transient, "{error}");
        }
    }

    #[test]
    fn queries_are_encoded_as_they_are_signed() {
        let ask = ListAsk {
            prefix: b"a b/".to_vec(),
            after: Some("a b/ü+\u{7}".to_owned()),
            token: None,
            delimiter: true,
            most: 1000,
        };
        let want = "encoding-type=url&list-type=2&max-keys=1000&delimiter=%2F\
                    &prefix=a%20b%2F&start-after=a%20b%2F%C3%BC%2B%07";
        assert_eq!(ask.query(), want);
    }
}
