//! What opens an encrypted volume: told, added, removed, replaced. Mounts go on with the keys that they have.

use weir_keys::{Secret, add, remove, rotate, unlock};
use weir_object::{BucketUrl, Component};
use weir_types::{Encryption, ErrorKind, FsError, Result, UnixTime, VolumeFormat};

use super::connector::Connector;
use super::format::{read_format, replace_format, stripe_set};
use super::members::check_no_nodes;
use super::metadata::Metadata;

/// What is to be done with a volume's keys.
pub enum KeyChange {
    /// This secret opens it too, under this name.
    Add(String, Secret),
    /// The secret of this name opens it no more.
    Remove(String),
    /// All that is sealed from the next mount on is sealed by a new key, which these secrets and that of the connector
    /// open. `drop_others`: no others do; else that is an error.
    Rotate {
        /// Beside that of the connector.
        stay: Vec<Secret>,
        /// Whether others go.
        drop_others: bool,
        /// Where the metadata's database is reached, if not where the volume says.
        metadata_url: Option<String>,
    },
}

/// What opens a volume. One GET; `Unsupported` where it is not encrypted.
pub async fn volume_keys(url: &BucketUrl, connector: &Connector) -> Result<Encryption> {
    let format = read_format(url, connector).await?;
    format.encryption.ok_or_else(|| not_encrypted(url))
}

/// Changes what opens a volume, by the connector's secret, which goes on opening it. Two GETs, a HEAD and a PUT;
/// passphrases take a tenth of a second of a processor each.
///
/// # Errors
/// `Permission` where a secret opens nothing; `Conflict` where somebody changed it meanwhile; those of the changes.
pub async fn change_keys(
    url: &BucketUrl,
    connector: &Connector,
    change: KeyChange,
    now: UnixTime,
) -> Result<Encryption> {
    let bucket = connector.connect(url)?;
    let format = read_format(url, connector).await?;
    let Some(encryption) = format.encryption.clone() else { return Err(not_encrypted(url)) };
    let rotation = match &change {
        KeyChange::Rotate { metadata_url, .. } => Some(metadata_url.clone()),
        KeyChange::Add(..) | KeyChange::Remove(_) => None,
    };
    if let Some(at) = &rotation {
        // What one node sealed by the new key the others could not open.
        check_not_shared(url, connector, &format, at.as_deref()).await?;
        fail::fail_point!("engine::keys-checked");
    }
    let secret = match connector.secret.clone() {
        Some(secret) => secret,
        // It says what to do.
        None => {
            return Err(connector
                .unlock(url, Some(&encryption))
                .await
                .err()
                .unwrap_or_else(|| not_encrypted(url)));
        }
    };
    let unix_s = now.parts().0;
    let work = move || match change {
        KeyChange::Add(name, new) => {
            add(&encryption, &unlock(&encryption, &secret)?, &name, &new, unix_s)
        }
        KeyChange::Remove(name) => remove(&encryption, &secret, &name),
        KeyChange::Rotate { stay, drop_others, .. } => {
            let stay: Vec<Secret> = std::iter::once(secret).chain(stay).collect();
            rotate(&encryption, &stay, drop_others, unix_s)
        }
    };
    let changed = tokio::task::spawn_blocking(work).await;
    let changed =
        changed.map_err(|e| FsError::new(ErrorKind::Bug, "changing keys").with_source(e))?;
    let encryption = changed.map_err(|error| error.within(url))?;
    let after = format.clone().with_encryption(Some(encryption.clone()));
    replace_format(&bucket, &format, &after).await?;
    if let Some(at) = rotation
        && let Err(error) = check_not_shared(url, connector, &format, at.as_deref()).await
    {
        let text = "the key was rotated, and in that moment a node may have been mounted with those of before: unmount that \
                    one and mount it again, for it cannot read what others change from now on";
        return Err(FsError::new(ErrorKind::Conflict, text).with_source(error));
    }
    Ok(encryption)
}

/// Refuses where nodes share the volume, or may. Some reads, where the metadata is in a database.
async fn check_not_shared(
    url: &BucketUrl,
    connector: &Connector,
    format: &VolumeFormat,
    metadata_url: Option<&str>,
) -> Result<()> {
    if format.metadata.is_none() {
        return Ok(());
    }
    let buckets = stripe_set(format, connector.connect(url)?, connector).await?;
    let metadata = Metadata::of(format, &buckets, metadata_url, connector.options.timeout_ms)?;
    let kv = metadata.hasty().follow(Component::Check).await?;
    let checked = check_no_nodes(url, &*kv).await;
    let _ = kv.close().await;
    checked
}

fn not_encrypted(url: &BucketUrl) -> FsError {
    let text = format!("{url} is not encrypted: `weir format --encrypt` makes a volume that is");
    FsError::new(ErrorKind::Unsupported, text)
}
