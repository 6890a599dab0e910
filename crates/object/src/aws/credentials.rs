//! Keys for S3, found and renewed as Amazon's own programs do it.
//!
//! Whose keys they are is decided once, before anybody is asked ([`Source`]). Where that one gives
//! none it is an error: nobody else is asked, who might be another identity.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::imds;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Feature;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use futures::future::BoxFuture;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error};
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::{NoKeys, chain};

/// Keys are renewed so long before they end, or in the last quarter of a shorter life.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// Plain keys of a file are read again so often: whoever logs in anew writes others there.
const REREAD_AFTER: Duration = Duration::from_secs(300);
/// Whoever gives keys may take so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// After a failure nobody is asked for so long,
const PAUSE: Duration = Duration::from_secs(1);
/// or for so long, while what there is is good.
const PAUSE_RENEWAL: Duration = Duration::from_secs(30);

/// Who is asked for keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nobody: requests are not signed.
    Nobody,
    /// These are the keys, from the options or the environment.
    Given(AwsCredential, &'static str),
    /// A profile, whatever way it comes by them.
    Profile {
        /// Its name.
        name: String,
        /// They stand in the file itself.
        plain: bool,
    },
    /// The machine: web identity, the container's endpoint, the instance's metadata service.
    Machine,
}

type Make = Box<dyn Fn() -> BoxFuture<'static, SharedCredentialsProvider> + Send + Sync>;

/// Keys from one source, asked for when they are first needed and again before they end.
pub(super) struct Keys {
    /// Whose they are, for messages.
    owner: String,
    /// What to do if there are none.
    advice: String,
    make: Make,
    /// Whether keys without an end are asked for again.
    rereads: bool,
    now: fn() -> SystemTime,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// Held by the one who asks.
    asking: Mutex<Asking>,
}

#[derive(Default)]
struct Asking {
    /// Kept, because it may keep a session; made anew after a failure.
    provider: Option<SharedCredentialsProvider>,
    failed: Option<(Instant, String)>,
}

#[derive(Clone)]
struct Loaded {
    credential: Arc<AwsCredential>,
    /// Which key of whom.
    who: String,
    renew: Option<SystemTime>,
    end: Option<SystemTime>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.owner)
    }
}

impl Keys {
    /// Keys from `source`, if it is anybody; services are asked in `region`, and the metadata
    /// service at `metadata`, if it is not where it always is.
    pub(super) fn new(source: Source, region: String, metadata: Option<String>) -> Option<Self> {
        let (owner, advice, make, rereads): (_, _, Make, _) = match source {
            Source::Nobody => return None,
            Source::Given(credential, owner) => return Some(Self::given(credential, owner)),
            Source::Profile { name, plain } => {
                let advice = format!(
                    "correct it in ~/.aws/config, log in again (`aws sso login --profile {name}` if \
                     it is one of SSO), or name another by --profile or AWS_PROFILE"
                );
                (format!("profile `{name}`"), advice, of_profile(name, region), plain)
            }
            Source::Machine => {
                let advice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, run \
                              where a role gives keys, or use --anonymous where all may read";
                let make = of_machine(region, metadata);
                ("this machine".to_owned(), advice.to_owned(), make, false)
            }
        };
        let loaded = RwLock::default();
        let asking = Mutex::default();
        Some(Self { owner, advice, make, rereads, now: wall_clock, loaded, asking })
    }

    fn given(credential: AwsCredential, owner: &str) -> Self {
        let who = format!("access key {} of {owner}", credential.key_id);
        let loaded = Loaded { credential: Arc::new(credential), who, renew: None, end: None };
        Self {
            owner: owner.to_owned(),
            advice: String::new(),
            // Nobody ever asks: what is given has no end.
            make: Box::new(|| Box::pin(std::future::pending())),
            rereads: false,
            now: wall_clock,
            loaded: RwLock::new(Some(Arc::new(loaded))),
            asking: Mutex::default(),
        }
    }

    /// Which key is used, and whose it is.
    pub(super) fn who(&self) -> String {
        let loaded = self.loaded.read();
        loaded.as_ref().map_or_else(|| self.owner.clone(), |loaded| loaded.who.clone())
    }

    /// Asks, if what was loaded is not to be used any more, or only for now.
    async fn ask(&self, asking: &mut Asking) -> object_store::Result<Arc<AwsCredential>> {
        let have = self.loaded.read().clone();
        let now = (self.now)();
        if let Some(have) = &have
            && have.renew.is_none_or(|renew| now < renew)
        {
            // Somebody else asked meanwhile.
            return Ok(Arc::clone(&have.credential));
        }
        let why = match &asking.failed {
            Some((at, why)) if at.elapsed() < PAUSE => why.clone(),
            _ => match self.load(asking).await {
                Ok(loaded) => {
                    let loaded = Arc::new(loaded);
                    *self.loaded.write() = Some(Arc::clone(&loaded));
                    return Ok(Arc::clone(&loaded.credential));
                }
                Err(why) => {
                    *asking =
                        Asking { provider: None, failed: Some((Instant::now(), why.clone())) };
                    if have.is_some() {
                        tracing::warn!(
                            keys = self.owner,
                            why,
                            "keys cannot be renewed: tried again"
                        );
                    }
                    why
                }
            },
        };
        match have {
            Some(have) if have.end.is_none_or(|end| now < end) => {
                let later = Loaded { renew: Some(now + PAUSE_RENEWAL), ..(*have).clone() };
                *self.loaded.write() = Some(Arc::new(later));
                Ok(Arc::clone(&have.credential))
            }
            // Who gave keys before will do so again.
            have => Err(self.none(why, have.is_some())),
        }
    }

    async fn load(&self, asking: &mut Asking) -> Result<Loaded, String> {
        if self.rereads {
            // It read the files once.
            asking.provider = None;
        }
        let work = async {
            if asking.provider.is_none() {
                asking.provider = Some((self.make)().await);
            }
            match &asking.provider {
                Some(provider) => provider.provide_credentials().await.map_err(|e| chain(&e)),
                None => Err("nobody to ask".to_owned()),
            }
        };
        let late = |_| Err(format!("no answer in {} s", ANSWER_MAX.as_secs()));
        let found = tokio::time::timeout(ANSWER_MAX, work).await.unwrap_or_else(late)?;
        let now = (self.now)();
        if found.expiry().is_some_and(|end| end <= now) {
            return Err("the keys that it gives have expired".to_owned());
        }
        Ok(self.loaded(&found, now))
    }

    fn loaded(&self, found: &Credentials, now: SystemTime) -> Loaded {
        let renew = match found.expiry() {
            Some(end) => {
                let life = end.duration_since(now).unwrap_or_default();
                Some(end - RENEW_BEFORE.min(life / 4))
            }
            None => self.rereads.then(|| now + REREAD_AFTER),
        };
        let (id, owner) = (found.access_key_id(), &self.owner);
        let who = match way(found) {
            Some(way) => format!("access key {id} of {owner} ({way})"),
            None => format!("access key {id} of {owner}"),
        };
        let credential = AwsCredential {
            key_id: id.to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        };
        Loaded { credential: Arc::new(credential), who, renew, end: found.expiry() }
    }

    fn none(&self, why: String, transient: bool) -> Error {
        let why = format!("no AWS keys from {}: {why}; {}", self.owner, self.advice);
        Error::Unauthenticated { path: String::new(), source: Box::new(NoKeys { why, transient }) }
    }
}

#[async_trait]
impl CredentialProvider for Keys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let have = self.loaded.read().clone();
        let now = (self.now)();
        let Some(have) = have.filter(|have| have.end.is_none_or(|end| now < end)) else {
            return self.ask(&mut *self.asking.lock().await).await;
        };
        if have.renew.is_none_or(|renew| now < renew) {
            return Ok(Arc::clone(&have.credential));
        }
        // One renews them; what the others have is still good.
        match self.asking.try_lock() {
            Ok(mut asking) => self.ask(&mut asking).await,
            Err(_) => Ok(Arc::clone(&have.credential)),
        }
    }
}

/// By what way keys were come by, if it is not plain to see.
fn way(found: &Credentials) -> Option<&'static str> {
    let ways = found.get_property::<Vec<Feature>>()?;
    [
        (Feature::CredentialsStsAssumeRole, "an assumed role"),
        (Feature::CredentialsStsAssumeRoleWebId, "web identity"),
        (Feature::CredentialsSso, "SSO"),
        (Feature::CredentialsProcess, "credential_process"),
        (Feature::CredentialsHttp, "the container's endpoint"),
        (Feature::CredentialsImds, "the instance's metadata service"),
    ]
    .into_iter()
    .find_map(|(feature, text)| ways.contains(&feature).then_some(text))
}

fn of_profile(name: String, region: String) -> Make {
    Box::new(move || {
        let config = ProviderConfig::default().with_region(Some(Region::new(region.clone())));
        let builder = ProfileFileCredentialsProvider::builder().configure(&config);
        let provider = builder.profile_name(name.clone()).build();
        Box::pin(async move { SharedCredentialsProvider::new(provider) })
    })
}

fn of_machine(region: String, metadata: Option<String>) -> Make {
    Box::new(move || {
        let (region, metadata) = (Region::new(region.clone()), metadata.clone());
        Box::pin(async move {
            let config = ProviderConfig::default().with_region(Some(region.clone()));
            let mut chain = DefaultCredentialsChain::builder().region(region);
            if let Some(metadata) = metadata {
                match imds::Client::builder().configure(&config).endpoint(&metadata) {
                    Ok(client) => chain = chain.imds_client(client.build()),
                    Err(error) => tracing::warn!(metadata, %error, "no address: left out"),
                }
            }
            SharedCredentialsProvider::new(chain.configure(config).build().await)
        })
    })
}

/// When keys end is told as a time of day, by somebody else's clock.
#[expect(clippy::disallowed_methods, reason = "nothing of a volume depends on it")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests;
