//! Where a volume's objects live, as one line of text.
//!
//! `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `file:///directory` and
//! `memory://name/prefix`. What comes out of [`FromStr`] is canonical: no slash at the end, none
//! doubled, and two URLs that name the same place are equal.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Result};

/// The kind of store behind a [`BucketUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Amazon S3, or any server that speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A directory of the local machine.
    File,
    /// Memory of this process, shared by all who name it the same; for tests.
    Memory,
}

impl Scheme {
    /// The word before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Gcs => "gs",
            Scheme::Azure => "az",
            Scheme::File => "file",
            Scheme::Memory => "memory",
        }
    }
}

/// A bucket and a prefix in it. Read with `parse`, written with `Display`; in serde a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct BucketUrl {
    scheme: Scheme,
    bucket: String,
    prefix: String,
}

impl BucketUrl {
    /// What kind of store it is.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The bucket's name; empty for a directory.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The prefix of every key, without slashes around it; empty for a directory.
    pub fn prefix(&self) -> &str {
        if self.scheme == Scheme::File { "" } else { &self.prefix }
    }

    /// The directory of a `file://` URL.
    pub fn directory(&self) -> Option<&Path> {
        (self.scheme == Scheme::File).then(|| Path::new(&self.prefix))
    }

    /// Which directory a `file://` URL leads to now: the number of its file system, as far as that
    /// has one, and its inode. None for other schemes. No request.
    ///
    /// # Errors
    /// Those of the local disk.
    pub fn directory_id(&self) -> Result<Option<(u64, u64)>> {
        let Some(directory) = self.directory() else { return Ok(None) };
        let failed = |error| FsError::local_io(format!("looking at {self}"), error);
        let inode = std::fs::metadata(directory).map_err(failed)?.ino();
        let system = rustix::fs::statvfs(directory).map_err(|error| failed(error.into()))?.f_fsid;
        Ok(Some((system, inode)))
    }

    /// The same bucket with `name` added to the prefix.
    ///
    /// # Errors
    /// `Invalid` when `name` has an empty, `.` or `..` part.
    pub fn join(&self, name: &str) -> Result<BucketUrl> {
        format!("{self}/{name}").parse()
    }

    /// This URL with `key` after it, for messages.
    pub(crate) fn key_url(&self, key: &str) -> String {
        if key.is_empty() { self.to_string() } else { format!("{self}/{key}") }
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.bucket)?;
        match (self.scheme, self.prefix.as_str()) {
            (Scheme::File, directory) => f.write_str(directory),
            (_, "") => Ok(()),
            (_, prefix) => write!(f, "/{prefix}"),
        }
    }
}

impl From<BucketUrl> for String {
    fn from(url: BucketUrl) -> String {
        url.to_string()
    }
}

impl TryFrom<String> for BucketUrl {
    type Error = FsError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for BucketUrl {
    type Err = FsError;

    fn from_str(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            let hint = match text {
                _ if text.starts_with('/') => format!("for a directory write file://{text}"),
                _ => "write s3://BUCKET/PREFIX or file:///DIRECTORY".to_owned(),
            };
            return Err(bad(text, &format!("it has no scheme; {hint}")));
        };
        let scheme = match scheme {
            "s3" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" => Scheme::Azure,
            "file" => Scheme::File,
            "memory" => Scheme::Memory,
            "http" | "https" => {
                return Err(bad(text, "write s3://BUCKET/PREFIX and name the server as endpoint"));
            }
            other => {
                let known = "s3://, gs://, az://, file:/// and memory://";
                return Err(bad(text, &format!("`{other}` is no scheme known here; use {known}")));
            }
        };
        if scheme == Scheme::File {
            return directory_url(text, rest);
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
        if bucket.is_empty() || bucket.contains(odd) {
            let what = if scheme == Scheme::Memory { "a name" } else { "the bucket's name" };
            let hint = format!("{what} of letters, digits, `-`, `.` and `_` comes after `://`");
            return Err(bad(text, &hint));
        }
        let prefix = clean(text, prefix)?;
        Ok(Self { scheme, bucket: bucket.to_owned(), prefix })
    }
}

fn directory_url(text: &str, path: &str) -> Result<BucketUrl> {
    if !path.starts_with('/') {
        return Err(bad(text, &format!("write the whole path, as in file:///srv/{path}")));
    }
    let path = clean(text, path)?;
    Ok(BucketUrl { scheme: Scheme::File, bucket: String::new(), prefix: format!("/{path}") })
}

/// `path` without empty parts.
fn clean(text: &str, path: &str) -> Result<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| matches!(*part, "." | "..") || part.contains(char::is_control)) {
        return Err(bad(text, "leave out `.`, `..` and control characters"));
    }
    Ok(parts.join("/"))
}

fn bad(text: &str, hint: &str) -> FsError {
    FsError::new(ErrorKind::Invalid, format!("`{text}` is not a bucket URL: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_round_trips() {
        for (text, canonical) in [
            ("s3://b", "s3://b"),
            ("s3://b/", "s3://b"),
            ("s3://b//x/y//", "s3://b/x/y"),
            ("file:///", "file:///"),
            ("file:///srv//weir/", "file:///srv/weir"),
            ("file:///with space/ü", "file:///with space/ü"),
            ("memory://one/two", "memory://one/two"),
            ("gs://b/p", "gs://b/p"),
            ("az://c/p", "az://c/p"),
        ] {
            let url: BucketUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), canonical);
            assert_eq!(canonical.parse::<BucketUrl>().expect(canonical), url);
            let json = serde_json::to_string(&url).expect("json");
            assert_eq!(json, format!("\"{canonical}\""));
            assert_eq!(serde_json::from_str::<BucketUrl>(&json).expect("json"), url);
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, hint) in [
            ("/srv/weir", "file:///srv/weir"),
            ("bucket", "s3://BUCKET/PREFIX"),
            ("https://s3.amazonaws.com/b", "endpoint"),
            ("ftp://b", "s3://"),
            ("file://srv/weir", "file:///srv/srv/weir"),
            ("s3://", "bucket's name"),
            ("s3://user@host/b", "bucket's name"),
            ("s3://b/../c", "`..`"),
        ] {
            let error = text.parse::<BucketUrl>().expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(hint), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn parts() {
        let url: BucketUrl = "s3://b/x".parse().expect("url");
        assert_eq!((url.bucket(), url.prefix(), url.directory()), ("b", "x", None));
        assert_eq!(url.join("y/z").expect("join").prefix(), "x/y/z");
        let url: BucketUrl = "file:///a/b".parse().expect("url");
        assert_eq!((url.bucket(), url.prefix()), ("", ""));
        assert_eq!(url.directory(), Some(Path::new("/a/b")));
        assert_eq!(url.key_url("k"), "file:///a/b/k");
    }
}
