//! How buckets are reached.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use weir_engine::{BucketUrl, ConnectOptions, Connector, Meter};
use weir_types::{FsError, Result};

use crate::cli::ConnectArgs;
use crate::failpoints;
use crate::secrets::secret;

/// How to reach buckets, as the flags say it; the rest comes from the environment.
pub(crate) fn connect_options(args: &ConnectArgs) -> ConnectOptions {
    ConnectOptions {
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        path_style: args.path_style.then_some(true),
        profile: args.profile.clone(),
        anonymous: args.anonymous,
        sign_payload: args.sign_payload.then_some(true),
        ..ConnectOptions::default()
    }
}

/// Reaches buckets with a meter of its own, and opens no volume that is encrypted.
pub(crate) fn connector(options: ConnectOptions) -> Result<Connector> {
    let mut connector = Connector::new(options, Meter::new());
    connector.wrap = failpoints::bucket_faults()?;
    Ok(connector)
}

/// The same, and opens volumes with what the flags or the environment name.
pub(crate) fn volume_connector(args: &ConnectArgs, options: ConnectOptions) -> Result<Connector> {
    Ok(Connector { secret: secret(args)?, ..connector(options)? })
}

/// Makes the directories of `file://` URLs that are not there, for their owner alone: all bytes of
/// a volume will be in them. Answers those that it made.
pub(crate) fn make_directories<'a>(
    urls: impl Iterator<Item = &'a BucketUrl>,
) -> Result<Vec<PathBuf>> {
    let absent = urls.filter_map(BucketUrl::directory).filter(|directory| !directory.exists());
    let absent: Vec<PathBuf> = absent.map(Path::to_owned).collect();
    for directory in &absent {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|e| FsError::local_io(format!("make {}", directory.display()), e))?;
    }
    Ok(absent)
}
