//! How buckets are reached, and volumes in them opened.

use std::sync::Arc;

use weir_keys::{Secret, VolumeKeys, unlock};
use weir_object::{Bucket, BucketUrl, ConnectOptions, Meter, ObjectStore, open_store};
use weir_types::{Encryption, ErrorCode, ErrorKind, FsError, Result};

/// Puts something between Weir and its buckets: faults, latency, a log. For tests.
pub type Wrap = Arc<dyn Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync>;

/// How buckets are reached, and where their requests are counted.
#[derive(Clone)]
pub struct Connector {
    /// Addresses, keys and time limits.
    pub options: ConnectOptions,
    /// Where requests are counted.
    pub meter: Meter,
    /// What stands between, if anything.
    pub wrap: Option<Wrap>,
    /// What opens volumes that are encrypted, if it was given.
    pub secret: Option<Secret>,
}

impl Connector {
    /// Reaches buckets directly.
    pub fn new(options: ConnectOptions, meter: Meter) -> Self {
        Self { options, meter, wrap: None, secret: None }
    }

    /// The bucket at `url`. No request.
    pub fn connect(&self, url: &BucketUrl) -> Result<Bucket> {
        let store = open_store(url, &self.options)?;
        let store = match &self.wrap {
            Some(wrap) => wrap(store),
            None => store,
        };
        Ok(Bucket::from_store(url, store, &self.options, &self.meter))
    }

    /// The keys of what is at `url`, which the secret opens. No request; a passphrase takes a tenth of a second of a
    /// processor.
    ///
    /// # Errors
    /// `Permission` where it is encrypted and no secret, or another one, was given; `Invalid` where one was given and
    /// it is not: whoever names a key does not mean a volume that everybody reads.
    pub(crate) async fn unlock(
        &self,
        url: &BucketUrl,
        encryption: Option<&Encryption>,
    ) -> Result<VolumeKeys> {
        match (encryption.cloned(), self.secret.clone()) {
            (None, None) => Ok(VolumeKeys::none()),
            (None, Some(_)) => {
                let text = format!(
                    "{url} is not encrypted, and a key is given: leave the key out, or see whether it is the volume \
                     that you mean"
                );
                Err(FsError::new(ErrorKind::Invalid, text))
            }
            (Some(_), None) => {
                let text = format!(
                    "{url} is encrypted: name the file of its key or passphrase with --key-file or WEIR_KEY_FILE, or a \
                     program that says it with --key-command"
                );
                Err(FsError::new(ErrorKind::Permission, text).coded(ErrorCode::VolumeLocked))
            }
            (Some(encryption), Some(secret)) => {
                let unlocked =
                    tokio::task::spawn_blocking(move || unlock(&encryption, &secret)).await;
                let unlocked = unlocked
                    .map_err(|e| FsError::new(ErrorKind::Bug, "opening the keys").with_source(e))?;
                unlocked.map_err(|error| error.within(url))
            }
        }
    }
}
