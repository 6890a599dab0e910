//! How buckets are reached.

use weir_engine::{ConnectOptions, Connector, Meter};
use weir_types::Result;

use crate::cli::ConnectArgs;
use crate::failpoints;

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

/// Reaches buckets with a meter of its own.
pub(crate) fn connector(options: ConnectOptions) -> Result<Connector> {
    let mut connector = Connector::new(options, Meter::new());
    connector.wrap = failpoints::bucket_faults()?;
    Ok(connector)
}
