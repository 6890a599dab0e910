//! S3: where keys, region and endpoint come from.
//!
//! Keys, first found wins: none (`anonymous`); the options; the profile that the options name;
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; the profile `AWS_PROFILE` or
//! `default`; web identity (`AWS_WEB_IDENTITY_TOKEN_FILE`, `AWS_ROLE_ARN`); the container's
//! (`AWS_CONTAINER_CREDENTIALS_…`); the instance's metadata service. A profile that was named and
//! one that says how to come by keys are the last that is asked. Region and endpoint: the options,
//! a profile that the options name, the environment, any other profile.

mod complete;
mod credentials;
pub(crate) mod listing;
mod parts;
mod profile;
mod refusals;
pub(crate) mod requests;

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, Checksum};
use object_store::{ClientOptions, ObjectStore};
use weir_types::{ErrorKind, FsError, Result};

use crate::extended::Extended;
use crate::failure::tell;
use crate::options::no_retries;
use crate::{BucketUrl, ConnectOptions};
use credentials::{Keys, Source};
use profile::Profiles;
use refusals::{ExplainedRefusals, Teller};
use requests::Requests;

/// The store of an `s3://` URL.
pub(crate) fn open(url: &BucketUrl, options: &ConnectOptions) -> Result<Arc<dyn ObjectStore>> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (builder, client, source) = configure(url, options, AmazonS3Builder::from_env(), &env)?;
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let keys = Keys::new(source, region, env("AWS_METADATA_ENDPOINT")).map(Arc::new);
    let builder = match keys.clone() {
        Some(keys) => builder.with_credentials(keys),
        None => builder.with_skip_signature(true),
    };
    let store = builder.clone().build().map_err(|error| tell(&format!("opening {url}"), error))?;
    let requests = Requests::new(&builder, store.credentials().clone(), client);
    let teller = Teller { bucket: url.bucket().to_owned(), keys };
    Ok(Arc::new(ExplainedRefusals { inner: Extended::new(store, Some(requests)), teller }))
}

/// `builder` (as the environment made it) completed by options and profiles, the options of its
/// connections, which it keeps to itself, and who is asked for keys.
fn configure(
    url: &BucketUrl,
    options: &ConnectOptions,
    mut builder: AmazonS3Builder,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(AmazonS3Builder, ClientOptions, Source)> {
    use AmazonS3ConfigKey as Key;
    let have = |key: Key| builder.get_config_value(&key);
    let profiles = Profiles::load(env);
    let source = match have(Key::SkipSignature).as_deref() {
        Some("true") => Source::Nobody,
        _ => source(url, options, &profiles, env)?,
    };
    let name = options.profile.clone().or_else(|| env("AWS_PROFILE"));
    let profile = profiles.get(name.as_deref().unwrap_or("default")).cloned().unwrap_or_default();
    let chosen = options.profile.is_some();
    let first = |option: &Option<String>, have: Option<String>, profile: &Option<String>| {
        let (second, third) = match chosen {
            true => (profile.clone(), have),
            false => (have, profile.clone()),
        };
        option.clone().or(second).or(third)
    };
    let region = first(&options.region, have(Key::Region), &profile.region);
    let endpoint = have(Key::S3Endpoint).or_else(|| have(Key::Endpoint));
    let endpoint = first(&options.endpoint, endpoint, &profile.endpoint_url);
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    let exposed = endpoint.as_deref().is_some_and(is_exposed);
    let (builder, client) = at_endpoint(url, options, builder, endpoint)?;
    let builder = protect_bodies(builder, options.sign_payload, exposed, env)
        .with_bucket_name(url.bucket())
        .with_client_options(client.clone())
        .with_retry(no_retries())
        // One object per call: plain DELETE works everywhere.
        .with_disable_bulk_delete(true);
    Ok((builder, client, source))
}

/// Who is asked for keys. Nobody is asked yet.
fn source(
    url: &BucketUrl,
    options: &ConnectOptions,
    profiles: &Profiles,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Source> {
    if options.anonymous {
        return Ok(Source::Nobody);
    }
    let given = |id: String, secret: Option<String>, token: Option<String>, owner| {
        let secret_key = secret.ok_or_else(|| {
            let why = format!("{url}: access key {id} comes without its secret: give both");
            FsError::new(ErrorKind::Invalid, why)
        })?;
        Ok(Source::Given(AwsCredential { key_id: id, secret_key, token }, owner))
    };
    if let Some(id) = options.access_key_id.clone() {
        let (secret, token) = (options.secret_access_key.clone(), options.session_token.clone());
        return given(id, secret, token, "the options");
    }
    let of_profile = |name: String| {
        let plain = profiles.get(&name).is_some_and(|profile| profile.plain);
        Ok(Source::Profile { name, plain })
    };
    if let Some(name) = &options.profile
        && profiles.has_keys(name)?
    {
        return of_profile(name.clone());
    }
    if let Some(id) = env("AWS_ACCESS_KEY_ID") {
        let (secret, token) = (env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN"));
        return given(id, secret, token, "the environment");
    }
    match options.profile.clone().or_else(|| env("AWS_PROFILE")) {
        Some(name) if profiles.has_keys(&name)? => of_profile(name),
        Some(name) => {
            let why = format!(
                "profile `{name}` says nothing of keys, and another identity is not taken for it: \
                 give it keys, a role (role_arn with source_profile or credential_source), SSO or \
                 credential_process in ~/.aws/config, or leave out --profile and AWS_PROFILE"
            );
            Err(FsError::new(ErrorKind::Invalid, why))
        }
        None if profiles.get("default").is_some_and(|profile| profile.gives_keys) => {
            of_profile("default".to_owned())
        }
        None => Ok(Source::Machine),
    }
}

/// How the server sees that a body came as it was sent: by its SHA-256, which is part of the
/// signature, or by its CRC. The environment's own wishes stand.
fn protect_bodies(
    mut builder: AmazonS3Builder,
    sign: Option<bool>,
    exposed: bool,
    env: &dyn Fn(&str) -> Option<String>,
) -> AmazonS3Builder {
    if sign.is_some() || env("AWS_UNSIGNED_PAYLOAD").is_none() {
        builder = builder.with_unsigned_payload(!sign.unwrap_or(exposed));
    }
    match env("AWS_CHECKSUM_ALGORITHM") {
        Some(_) => builder,
        None => builder.with_checksum_algorithm(Checksum::CRC64NVME),
    }
}

/// Whether what goes to `endpoint` passes a network in the clear.
fn is_exposed(endpoint: &str) -> bool {
    let Ok(parsed) = url::Url::parse(endpoint) else { return true };
    let here = match parsed.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    parsed.scheme() == "http" && !here
}

fn at_endpoint(
    url: &BucketUrl,
    options: &ConnectOptions,
    mut builder: AmazonS3Builder,
    endpoint: Option<String>,
) -> Result<(AmazonS3Builder, ClientOptions)> {
    let longest = Duration::from_millis(options.timeout_ms);
    // Whole requests are timed by the caller, who knows how long the body is.
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(longest.min(Duration::from_secs(5)));
    let Some(endpoint) = endpoint else {
        // A dot in the name does not fit the certificate.
        let path_style = options.path_style.unwrap_or(url.bucket().contains('.'));
        return Ok((builder.with_virtual_hosted_style_request(!path_style), client));
    };
    let endpoint = endpoint.trim_end_matches('/');
    let parsed = url::Url::parse(endpoint).ok();
    let Some(host) = parsed.as_ref().and_then(|parsed| parsed.host_str()) else {
        let why =
            format!("`{endpoint}` is not an endpoint: write https://HOST or http://HOST:PORT");
        return Err(FsError::new(ErrorKind::Invalid, why));
    };
    let client = client.with_allow_http(endpoint.starts_with("http://"));
    let virtual_hosted = !options.path_style.unwrap_or(true);
    let endpoint = match virtual_hosted {
        true => endpoint.replacen(host, &format!("{}.{host}", url.bucket()), 1),
        false => endpoint.to_owned(),
    };
    // The one that wins over the other.
    builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    Ok((builder.with_virtual_hosted_style_request(virtual_hosted), client))
}

#[cfg(test)]
mod tests;
