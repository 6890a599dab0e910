//! How to reach a bucket: everything that its URL does not say.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Options of a connection. All have defaults; most come from the environment when left out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectOptions {
    /// Address of an S3 server, `https://host[:port]` or `http://…`. Default: `AWS_ENDPOINT_URL_S3`,
    /// `AWS_ENDPOINT_URL`, the profile's `endpoint_url`, else Amazon's.
    pub endpoint: Option<String>,
    /// Region of the bucket. Default: `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile's `region`,
    /// else `us-east-1`.
    pub region: Option<String>,
    /// Whether the bucket's name goes into the path (`host/bucket`) rather than into the host
    /// name (`bucket.host`). Default: yes when there is an endpoint, no at Amazon.
    pub path_style: Option<bool>,
    /// Profile of `~/.aws/config` and `~/.aws/credentials`; its keys win over those in the
    /// environment. Default: `AWS_PROFILE`, else `default`, and then the environment wins.
    pub profile: Option<String>,
    /// Whether requests to S3 go without a signature, whatever keys there are: for what all may
    /// read. Default: no.
    pub anonymous: bool,
    /// Access key; with [`Self::secret_access_key`] it wins over everything else.
    pub access_key_id: Option<String>,
    /// Secret of the access key. Never written out.
    #[serde(skip_serializing)]
    pub secret_access_key: Option<String>,
    /// Token of temporary keys. Never written out.
    #[serde(skip_serializing)]
    pub session_token: Option<String>,
    /// How long one call may take with all its retries, in milliseconds. Default 60,000, least
    /// 100. Each retry is a request more on the bill; with the backoff of 50 ms to 5 s a bucket
    /// that is away costs about 20 requests per minute and call.
    pub timeout_ms: u64,
    /// Of a hundred reads, how many may be asked for twice because the first answer is slow to
    /// come. Default 5, which cuts the slowest reads for 5% more GETs at most; 0 turns it off.
    pub hedge_percent: u8,
    /// Whether to sign the SHA-256 of each body that is sent to S3. Default: only where the
    /// endpoint is plain `http://` on another machine. Else a body goes with its CRC-64/NVME,
    /// which the server checks, and which takes a twentieth of the time.
    pub sign_payload: Option<bool>,
    /// Whether what is put into a `file://` directory is for other users, too, with the modes that
    /// the umask leaves: a linked bucket. Default: no; it is for this user alone (0600 and 0700),
    /// as the objects of a volume have everybody's bytes.
    pub shared: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            path_style: None,
            profile: None,
            anonymous: false,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            timeout_ms: 60_000,
            hedge_percent: 5,
            sign_payload: None,
            shared: false,
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "…");
        f.debug_struct("ConnectOptions")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("path_style", &self.path_style)
            .field("profile", &self.profile)
            .field("anonymous", &self.anonymous)
            .field("access_key_id", &self.access_key_id)
            .field("secret_access_key", &hidden(&self.secret_access_key))
            .field("session_token", &hidden(&self.session_token))
            .field("timeout_ms", &self.timeout_ms)
            .field("hedge_percent", &self.hedge_percent)
            .field("sign_payload", &self.sign_payload)
            .field("shared", &self.shared)
            .finish()
    }
}

/// The library makes one attempt; repeating is our work.
pub(crate) fn no_retries() -> object_store::RetryConfig {
    object_store::RetryConfig { max_retries: 0, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_inside() {
        let options = ConnectOptions {
            secret_access_key: Some("s3cr3t".to_owned()),
            session_token: Some("t0k3n".to_owned()),
            ..ConnectOptions::default()
        };
        let json = serde_json::to_string(&options).expect("json");
        for text in [format!("{options:?}"), json] {
            assert!(!text.contains("s3cr3t") && !text.contains("t0k3n"), "{text}");
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        let error = serde_json::from_str::<ConnectOptions>(r#"{"regoin": "x"}"#).expect_err("typo");
        assert!(error.to_string().contains("regoin"), "{error}");
    }
}
