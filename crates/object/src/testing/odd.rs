//! Objects of keys that Weir itself writes none of: what others may have in a bucket.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutOptions, PutPayload, Result};

use crate::asks::OddAsk;
use crate::{Bucket, Scheme};

/// Puts an object of any key, or deletes it if there are no bytes: on `s3://` of any that a URL can
/// carry, elsewhere of any that the library has a path for. One attempt.
///
/// # Errors
/// Those of the store, which may not hold such keys.
pub async fn change_odd(bucket: &Bucket, key: &str, bytes: Option<Bytes>) -> Result<()> {
    let (store, key) = (&bucket.caller().store, format!("{}{key}", bucket.caller().root()));
    if bucket.url().scheme() == Scheme::S3 {
        let mut options = PutOptions::from(PutMode::Overwrite);
        options.extensions.insert(OddAsk { key, deletes: bytes.is_none() });
        let payload = PutPayload::from(bytes.unwrap_or_default());
        return store.put_opts(&Path::default(), payload, options).await.map(drop);
    }
    let path = Path::parse(key)?;
    match bytes {
        Some(bytes) => store.put(&path, bytes.into()).await.map(drop),
        None => match store.delete(&path).await {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        },
    }
}
