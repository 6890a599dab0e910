use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future;
use weir_types::ErrorKind;

use super::*;
use crate::failure::{judge, tell};

/// What time it is, in seconds since 1970, in each of the tests.
static NOW: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn clock<const SLOT: usize>() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW[SLOT].load(Ordering::Relaxed))
}

/// Gives keys that live for so many seconds, numbered; or fails.
#[derive(Debug)]
struct Service {
    asked: AtomicUsize,
    life_s: AtomicU64,
    now: fn() -> SystemTime,
}

#[derive(Debug)]
struct SharedKeys(Arc<Service>);

impl ProvideCredentials for SharedKeys {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let service = &self.0;
        let number = service.asked.fetch_add(1, Ordering::Relaxed) + 1;
        future::ProvideCredentials::new(async move {
            // Others come meanwhile.
            tokio::task::yield_now().await;
            match service.life_s.load(Ordering::Relaxed) {
                0 => Err(CredentialsError::provider_error("status 503")),
                life_s => {
                    let end = (service.now)() + Duration::from_secs(life_s);
                    Ok(Credentials::new(format!("id-{number}"), "secret", None, Some(end), "test"))
                }
            }
        })
    }
}

impl Keys {
    fn of(service: &Arc<Service>) -> Keys {
        let shared = Arc::clone(service);
        let make: Make = Box::new(move || {
            let shared = Arc::clone(&shared);
            Box::pin(async move { SharedCredentialsProvider::new(SharedKeys(shared)) })
        });
        Keys {
            owner: "profile `work`".to_owned(),
            advice: "mend it".to_owned(),
            make,
            rereads: false,
            now: service.now,
            loaded: RwLock::default(),
            asking: Mutex::default(),
        }
    }
}

fn service<const SLOT: usize>(life_s: u64) -> Arc<Service> {
    NOW[SLOT].store(1_000_000, Ordering::Relaxed);
    Arc::new(Service {
        asked: AtomicUsize::new(0),
        life_s: AtomicU64::new(life_s),
        now: clock::<SLOT>,
    })
}

fn wait<const SLOT: usize>(seconds: u64) {
    NOW[SLOT].fetch_add(seconds, Ordering::Relaxed);
}

async fn key(keys: &Keys) -> String {
    keys.get_credential().await.expect("keys").key_id.clone()
}

#[tokio::test(start_paused = true)]
async fn keys_are_renewed_before_they_end_and_by_one_who_asks() {
    let service = service::<0>(3600);
    let keys = Keys::of(&service);
    let all = futures::future::join_all((0..8).map(|_| key(&keys))).await;
    assert_eq!(all, ["id-1"; 8], "one asks for all");
    wait::<0>(3299);
    assert_eq!(key(&keys).await, "id-1");
    wait::<0>(2);
    let all = futures::future::join_all((0..3).map(|_| key(&keys))).await;
    // Those who come while they are renewed have the old ones, which are good still.
    assert_eq!(all, ["id-2", "id-1", "id-1"]);
    assert_eq!(key(&keys).await, "id-2");
    wait::<0>(7200);
    let all = futures::future::join_all((0..3).map(|_| key(&keys))).await;
    assert_eq!(all, ["id-3"; 3], "none is used after its end");
    assert_eq!(service.asked.load(Ordering::Relaxed), 3);
    assert_eq!(keys.who(), "access key id-3 of profile `work`");
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_good_are_used_while_nobody_renews_them() {
    let service = service::<1>(400);
    let keys = Keys::of(&service);
    assert_eq!(key(&keys).await, "id-1");
    service.life_s.store(0, Ordering::Relaxed);
    wait::<1>(301);
    for _ in 0..5 {
        assert_eq!(key(&keys).await, "id-1");
    }
    assert_eq!(service.asked.load(Ordering::Relaxed), 2, "not with every request");
    wait::<1>(100);
    tokio::time::advance(PAUSE).await;
    let error = keys.get_credential().await.expect_err("ended");
    assert!(judge(&error).transient, "who gave keys before will again: {error}");
    assert!(tell("GET", error).to_string().contains("status 503"));
    keys.get_credential().await.expect_err("still");
    assert_eq!(service.asked.load(Ordering::Relaxed), 3, "a storm is held back");
    service.life_s.store(400, Ordering::Relaxed);
    tokio::time::advance(PAUSE).await;
    assert_eq!(key(&keys).await, "id-4");
}

#[tokio::test(start_paused = true)]
async fn who_gives_no_keys_at_first_is_told_of_at_once() {
    let keys = Keys::of(&service::<2>(0));
    let error = keys.get_credential().await.expect_err("none");
    let verdict = judge(&error);
    assert_eq!((verdict.kind, verdict.transient), (ErrorKind::Permission, false));
    let told = tell("LIST s3://b failed", error).to_string();
    assert_eq!(
        told.split_whitespace().collect::<Vec<_>>().join(" "),
        "LIST s3://b failed: no AWS keys from profile `work`: an error occurred while loading \
         credentials: status 503; mend it"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_is_not_waited_for() {
    let silent = Service { asked: AtomicUsize::new(0), life_s: AtomicU64::new(1), now: clock::<3> };
    let mut keys = Keys::of(&Arc::new(silent));
    keys.make = Box::new(|| Box::pin(std::future::pending()));
    let start = Instant::now();
    let error = keys.get_credential().await.expect_err("silent");
    assert!(tell("x", error).to_string().contains("no answer in 10 s"));
    assert_eq!(start.elapsed(), ANSWER_MAX);
}
