//! S3: where keys, region and endpoint come from.
//!
//! Keys, first found wins: the options; the profile that the options name; `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; the profile `AWS_PROFILE` or `default`; web
//! identity (`AWS_WEB_IDENTITY_TOKEN_FILE`, `AWS_ROLE_ARN`); the container's
//! (`AWS_CONTAINER_CREDENTIALS_…`); the instance's metadata service. Region and endpoint: the
//! options, a profile that the options name, the environment, any other profile.

mod complete;
pub(crate) mod listing;
pub(crate) mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, Checksum};
use object_store::{ClientOptions, CredentialProvider, Error, ObjectStore};
use weir_types::{ErrorKind, FsError, Result};

use crate::extended::Extended;
use crate::failure::tell;
use crate::options::no_retries;
use crate::profile::Profile;
use crate::{BucketUrl, ConnectOptions};
use requests::Requests;

/// A machine without a metadata service shall not make people wait.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The store of an `s3://` URL.
pub(crate) fn open(url: &BucketUrl, options: &ConnectOptions) -> Result<Arc<dyn ObjectStore>> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (builder, client) = configure(url, options, AmazonS3Builder::from_env(), &env)?;
    let build = |builder: AmazonS3Builder| -> Result<AmazonS3> {
        builder.build().map_err(|error| tell(&format!("opening {url}"), error))
    };
    let complete = |builder: AmazonS3Builder| -> Result<Arc<dyn ObjectStore>> {
        let store = build(builder.clone())?;
        let requests = Requests::new(&builder, store.credentials().clone(), client.clone());
        Ok(Arc::new(Extended::new(store, Some(requests))))
    };
    if !asks_instance(&builder) {
        return complete(builder);
    }
    let off = env("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"));
    let provider = InstanceKeys {
        inner: build(builder.clone())?.credentials().clone(),
        off,
        seen: AtomicBool::new(false),
    };
    complete(builder.with_credentials(Arc::new(provider)))
}

/// `builder` (as the environment made it) completed by options and profiles, and the options of
/// its connections, which it keeps to itself.
fn configure(
    url: &BucketUrl,
    options: &ConnectOptions,
    mut builder: AmazonS3Builder,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(AmazonS3Builder, ClientOptions)> {
    use AmazonS3ConfigKey as Key;
    let name = options.profile.clone().or_else(|| env("AWS_PROFILE"));
    let profile = Profile::load(name.as_deref().unwrap_or("default"), env);
    if let Some(named) = &options.profile
        && profile == Profile::default()
    {
        let why = format!("no profile `{named}` with plain keys in ~/.aws: correct the name");
        return Err(FsError::new(ErrorKind::Invalid, why));
    }
    let chosen = options.profile.is_some();
    let first = |option: &Option<String>, have: Option<String>, profile: &Option<String>| {
        let (second, third) = match chosen {
            true => (profile.clone(), have),
            false => (have, profile.clone()),
        };
        option.clone().or(second).or(third)
    };
    let have = |key: Key| builder.get_config_value(&key);
    let region = first(&options.region, have(Key::Region), &profile.region);
    let endpoint = have(Key::S3Endpoint).or_else(|| have(Key::Endpoint));
    let endpoint = first(&options.endpoint, endpoint, &profile.endpoint_url);
    let has_keys = have(Key::AccessKeyId).is_some();

    let keys = if let Some(id) = &options.access_key_id {
        Some((id.clone(), options.secret_access_key.clone(), options.session_token.clone()))
    } else if chosen || !has_keys {
        let id = profile.access_key_id.clone();
        id.map(|id| (id, profile.secret_access_key.clone(), profile.session_token.clone()))
    } else {
        None
    };
    if let Some((id, secret, token)) = keys {
        let secret = secret.ok_or_else(|| {
            let why = format!("{url}: access key {id} comes without its secret: give both");
            FsError::new(ErrorKind::Invalid, why)
        })?;
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        // A token of the environment belongs to the environment's keys.
        builder = builder.with_token(token.unwrap_or_default());
    }
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
    Ok((builder, client))
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

/// Whether nothing but the instance's metadata service is left to ask for keys.
fn asks_instance(builder: &AmazonS3Builder) -> bool {
    use AmazonS3ConfigKey as Key;
    let have = |key: Key| builder.get_config_value(&key).is_some_and(|value| !value.is_empty());
    let web = have(Key::WebIdentityTokenFile) && have(Key::RoleArn);
    let container =
        have(Key::ContainerCredentialsRelativeUri) || have(Key::ContainerCredentialsFullUri);
    let unsigned = builder.get_config_value(&Key::SkipSignature).as_deref() == Some("true");
    !(have(Key::AccessKeyId) || have(Key::SecretAccessKey) || web || container || unsigned)
}

/// Keys from the instance's metadata service, or quickly an error that says what is missing.
#[derive(Debug)]
struct InstanceKeys {
    inner: Arc<dyn CredentialProvider<Credential = AwsCredential>>,
    off: bool,
    /// It has answered before: then a failure is a passing one.
    seen: AtomicBool,
}

#[async_trait]
impl CredentialProvider for InstanceKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let why = match self.off {
            true => "AWS_EC2_METADATA_DISABLED is set".to_owned(),
            false => {
                match tokio::time::timeout(INSTANCE_TIMEOUT, self.inner.get_credential()).await {
                    Ok(Ok(credential)) => {
                        self.seen.store(true, Ordering::Relaxed);
                        return Ok(credential);
                    }
                    Ok(Err(error)) if self.seen.load(Ordering::Relaxed) => return Err(error),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer from the metadata service".to_owned(),
                }
            }
        };
        let source = format!(
            "no AWS keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or run \
             where a role gives them ({why})"
        );
        Err(Error::Unauthenticated { path: String::new(), source: source.into() })
    }
}

#[cfg(test)]
mod tests;
