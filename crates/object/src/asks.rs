//! Requests for which the library's trait has no method. They come through methods that it has, as
//! extensions of their options.

use std::ops::Range;

use http::{HeaderMap, HeaderValue};
use object_store::path::Path;
use weir_types::{RestoreTier, StorageClass};

/// A step of an upload in parts, asked for by way of `put_opts`.
#[derive(Clone, Debug)]
pub(crate) enum UploadAsk {
    /// Begins it with the attributes of the options. Answers its name as `version`.
    Begin,
    /// Stores the payload as a part. Answers the part's name as `e_tag`.
    Part {
        upload: String,
        /// Counted from 0.
        index: usize,
        /// Where in the object the part begins.
        offset: u64,
    },
    /// Makes the object, if the options' condition holds (where the store can tell).
    Complete { upload: String, parts: Vec<String> },
    /// Throws the parts away.
    Abort { upload: String },
}

/// A change on conditions, asked for by way of `put_opts`: the options' mode is what must be true
/// of the object.
#[derive(Clone, Debug)]
pub(crate) enum ChangeAsk {
    /// Puts a copy of the object `from` there while it has this ETag. Answers its ETag and
    /// [`Written`].
    Copy { from: Path, etag: Option<String> },
    /// Deletes it.
    Delete,
}

/// Puts an object into another storage class. Asked for by way of `put_opts`, and only on S3. Answers its ETag and
/// [`Written`].
#[derive(Clone, Debug)]
pub(crate) struct ClassAsk {
    pub(crate) class: StorageClass,
    /// Only while it has this ETag.
    pub(crate) etag: Option<String>,
}

/// A step of a copy in parts, asked for by way of `put_opts`, and only on S3. What else an upload in parts has is an
/// [`UploadAsk`].
#[derive(Clone, Debug)]
pub(crate) enum PartsAsk {
    /// Begins the copy of the object `from`, with what goes with it. Answers its name as `version`.
    Begin { from: Path, class: Option<StorageClass>, kept: Kept },
    /// Copies a range of the object `from`, while it has this ETag, as the part of this number. Answers the part's name as
    /// `e_tag`.
    Part { from: Path, upload: String, number: usize, range: Range<u64>, etag: String },
}

/// What goes with an object, as headers of the request that makes it: an extension of the answer to [`HeadAsk`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) headers: Vec<(String, String)>,
    /// It has tags, which are asked for when they are needed.
    pub(crate) tagged: bool,
}

/// Headers of an object that are headers of the request that makes it.
const KEPT: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
];
/// So does what its owner has said of it begin.
const OF_USERS: &str = "x-amz-meta-";

impl Kept {
    /// What a HEAD of an object says.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let kept = headers.iter().filter(|(name, _)| {
            KEPT.contains(&name.as_str()) || name.as_str().starts_with(OF_USERS)
        });
        let kept = kept.filter_map(|(name, value)| Some((name.to_string(), text(value)?)));
        let tags = headers.get("x-amz-tagging-count").and_then(text);
        Self { headers: kept.collect(), tagged: tags.is_some_and(|count| count != "0") }
    }
}

/// Has an object in an archive class be readable for some days, or, where the class has no such days, from then on.
/// Asked for by way of `put_opts`, and only on S3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoreAsk {
    pub(crate) tier: RestoreTier,
    pub(crate) days: Option<u32>,
}

/// What S3 says of an object beside its class: an extension of the answer to [`HeadAsk`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ArchiveSays {
    /// `x-amz-restore`: of one that is restored or was.
    pub(crate) restore: Option<String>,
    /// `x-amz-archive-status`: of one that INTELLIGENT_TIERING has put away.
    pub(crate) status: Option<String>,
}

/// When an object was written, in milliseconds since 1970: an extension of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Written(pub(crate) i64);

/// A HEAD of the object of this full key, whatever it is; of the bucket if it is empty. Asked for
/// by way of `get_opts`, and only on S3.
#[derive(Clone, Debug)]
pub(crate) struct HeadAsk(pub(crate) String);

/// A PUT or DELETE of the object of this full key, whatever it is. Asked for by way of `put_opts`,
/// and only on S3.
#[cfg(feature = "testing")]
#[derive(Clone, Debug)]
pub(crate) struct OddAsk {
    pub(crate) key: String,
    pub(crate) deletes: bool,
}

/// Asks, by way of `get_opts` and only on S3, whose keys sign. Makes no request.
#[derive(Clone, Debug)]
pub(crate) struct WhoAsk;

/// A PUT that comes with the checksum of other bytes. Asked for by way of `put_opts`, and only on S3.
#[derive(Clone, Debug)]
pub(crate) struct WrongSumAsk;

/// What to list, in full keys.
#[derive(Clone, Debug)]
pub(crate) struct ListAsk {
    pub(crate) prefix: Vec<u8>,
    pub(crate) after: Option<String>,
    /// Where an earlier page said to go on; then `after` says nothing.
    pub(crate) token: Option<String>,
    /// Keys up to the next slash instead of all that is below it.
    pub(crate) delimiter: bool,
    /// So many keys at most.
    pub(crate) most: usize,
}

/// Asks the store for a walk, by way of `get_opts`.
#[derive(Clone, Debug)]
pub(crate) struct OpenWalk {
    /// Empty, or ending with a slash.
    pub(crate) below: Vec<u8>,
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) one_level: bool,
}

/// Whether a `get_opts` with these options is a listing in truth.
#[cfg(feature = "testing")]
pub(crate) fn is_listing(options: &object_store::GetOptions) -> bool {
    let extensions = &options.extensions;
    extensions.get::<ListAsk>().is_some() || extensions.get::<OpenWalk>().is_some()
}
