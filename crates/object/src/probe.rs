//! What a store holds of what it is asked for, conditions and checksums: asked by writing an object
//! of our own, because a store that takes no notice of either says so by writing.

use std::collections::BTreeMap;

use object_store::{GetOptions, PutOptions, PutPayload};
use weir_types::{ErrorKind, Result};

use crate::asks::{WhoAsk, WrongSumAsk};
use crate::bucket::Bucket;
use crate::conditions::{Conditions, PutCondition};
use crate::request::Component;
use crate::url::Scheme;

/// What the names of objects begin with that [`Bucket::probe_conditions`] writes and removes.
pub const PROBE_PREFIX: &str = ".weir-probe-";
/// No object has it.
const WRONG_ETAG: &str = "\"00000000000000000000000000000000\"";

impl Bucket {
    /// This bucket, whose store holds only these conditions: of others the object is looked at
    /// first, by one HEAD for each attempt.
    #[must_use]
    pub fn with_conditions(&self, conditions: Conditions) -> Bucket {
        let mut bucket = self.clone();
        bucket.conditions = conditions;
        bucket
    }

    /// Learns which conditions of a PUT the store holds, by writing an object of our own, whose
    /// name begins with [`PROBE_PREFIX`], and removing it. 4 PUTs and 1 DELETE.
    ///
    /// # Errors
    /// As [`Bucket::put_object`]: `Permission`, above all, where nothing may be written.
    pub async fn probe_conditions(&self, component: Component) -> Result<Conditions> {
        let bucket = self.with_conditions(Conditions::ALL);
        let key = format!("{PROBE_PREFIX}{:032x}", rand::random::<u128>());
        let (text, nothing) = ("a probe of weir's: it may be removed", BTreeMap::new());
        let put = async |condition: PutCondition| {
            bucket.put_object(component, &key, text, &nothing, &condition).await
        };
        let refuses = async |condition| match put(condition).await {
            Ok(written) => Ok(written.is_none()),
            // It does not know the header, and says so.
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
                Ok(false)
            }
            Err(error) => Err(error),
        };
        let first = put(PutCondition::Any).await?;
        let probed = async {
            let absent = refuses(PutCondition::Absent).await?;
            let wrong = refuses(PutCondition::Matches(WRONG_ETAG.to_owned())).await?;
            let etag = first.and_then(|info| info.etag);
            // One that refuses the right one as well could not be written to.
            let matches = match etag.filter(|_| wrong) {
                Some(etag) => !refuses(PutCondition::Matches(etag)).await?,
                None => false,
            };
            Ok(Conditions { absent, matches })
        };
        let probed = probed.await;
        if let Err(error) = self.delete(component, &key).await {
            tracing::warn!(key, %error, "a probe is left behind in the bucket: remove it");
        }
        probed
    }
    /// Learns whether the store refuses a body that was damaged on its way, by sending one with the
    /// checksum of another. `None` of a store that is not asked so: a directory, S3 Express. 1 PUT,
    /// and 1 DELETE if it is stored.
    ///
    /// # Errors
    /// As [`Bucket::put`]: `Permission`, above all, where nothing may be written.
    pub async fn probe_checksums(&self, component: Component) -> Result<Option<bool>> {
        if self.url().scheme() != Scheme::S3 {
            return Ok(None);
        }
        let key = format!("{PROBE_PREFIX}{:032x}", rand::random::<u128>());
        let mut options = PutOptions::default();
        options.extensions.insert(WrongSumAsk);
        let text = PutPayload::from_static(b"a probe of weir's: it may be removed");
        let put = self.caller().put(component, &self.path(&key)?, text, options).await;
        let error = match put.map_err(|failure| self.tell("PUT", &key, failure)) {
            Ok(_) => {
                self.delete(component, &key).await?;
                return Ok(Some(false));
            }
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Invalid => Ok(Some(true)),
            ErrorKind::Unsupported => Ok(None),
            _ => Err(error),
        }
    }

    /// Which key signs requests, and whose it is; `None` of what is reached without keys, such as a
    /// directory. No request: before the first one, only whose.
    pub async fn whose_keys(&self) -> Option<String> {
        if self.url().scheme() != Scheme::S3 {
            return None;
        }
        let mut options = GetOptions::default();
        options.extensions.insert(WhoAsk);
        let told = self.caller().store.get_opts(&Default::default(), options).await.ok()?;
        Some(String::from_utf8_lossy(&told.bytes().await.ok()?).into_owned())
    }
}
