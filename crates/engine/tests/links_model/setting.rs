//! How the links of a run are set, and what their server does: chosen by the seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use rand::rngs::StdRng;
use weir_engine::{Attributes, LinkOptions, Policy, Wrap};
use weir_object::testing::{
    Alone, AtomicStore, Etags, FaultPlan, FaultStore, Habits, Listings, Slow, SlowStore, Unquoted,
};

use super::server::Server;

/// One link. Its objects have the keys that its files have as paths.
#[derive(Clone, Debug)]
pub struct Linked {
    pub name: &'static str,
    pub import: Policy,
    pub export: Policy,
    pub lazy: bool,
    pub attributes: Attributes,
    pub poll_s: u64,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub seed: u64,
    pub links: Vec<Linked>,
    pub habits: Habits,
    /// One request of so many fails.
    pub faults: f64,
    pub latency_ms: u64,
    /// Files up to this leave in one PUT.
    pub one_put_bytes: u64,
}

fn any_policy(rng: &mut StdRng) -> Policy {
    Policy { new: rng.random(), changed: rng.random(), deleted: rng.random() }
}

fn policy(rng: &mut StdRng) -> Policy {
    match rng.random_range(0..10) {
        0..5 => Policy::ALL,
        5..7 => Policy::default(),
        _ => any_policy(rng),
    }
}

impl Setting {
    pub fn choose(seed: u64, rng: &mut StdRng) -> Self {
        let links = ["lake", "pool"].map(|name| Linked {
            name,
            import: policy(rng),
            export: policy(rng),
            lazy: rng.random_bool(0.3),
            attributes: [Attributes::Auto, Attributes::Always, Attributes::Never]
                [rng.random_range(0..3)],
            poll_s: [1, 3_600][rng.random_range(0..2)],
        });
        let unquoted =
            [Unquoted::Everywhere, Unquoted::Listings, Unquoted::Reads, Unquoted::Writes];
        let mut habits = Habits {
            ignores_absent: rng.random_bool(0.15),
            ignores_match: rng.random_bool(0.15),
            etags: match rng.random_range(0..10) {
                0..5 => Etags::Counted,
                5..9 => Etags::OfBytes,
                _ => Etags::None,
            },
            unquoted: unquoted[rng.random_range(0..4)],
        };
        let faults = [0.0, 0.02, 0.06][rng.random_range(0..3)];
        let latency_ms = [0, 0, 4][rng.random_range(0..3)];
        let one_put_bytes = [16 << 20, 64 << 10, 32, 32][rng.random_range(0..4)];
        if Server::this().is_real() {
            // It has its own habits; of these the model has to know one.
            habits = Habits { etags: Etags::OfBytes, ..Habits::default() };
        }
        Self { seed, links: links.to_vec(), habits, faults, latency_ms, one_put_bytes }
    }

    /// The server: what it does is between the faults and the store.
    pub fn wrap(
        &self,
        alone: &Alone,
        listings: &Listings,
        overtaken: &Arc<Mutex<Vec<Bytes>>>,
    ) -> Wrap {
        let (this, alone, listings) = (self.clone(), alone.clone(), listings.clone());
        let overtaken = overtaken.clone();
        Arc::new(move |store| {
            let name = store.to_string();
            let store = match () {
                () if name.contains("InMemory") => AtomicStore::new(store, alone.clone())
                    .with_habits(this.habits, overtaken.clone())
                    .listing(listings.clone()),
                () if name.contains("AmazonS3") => {
                    AtomicStore::over_server(store, alone.clone(), overtaken.clone())
                }
                () => return store,
            };
            let slow = Slow { latency: Duration::from_millis(this.latency_ms), ..Slow::default() };
            let store = Arc::new(SlowStore::new(Arc::new(store), slow));
            let plan = FaultPlan::everywhere(this.faults, this.seed);
            Arc::new(FaultStore::new(store, &plan))
        })
    }
}

impl Linked {
    pub fn options(&self, url: &str) -> LinkOptions {
        LinkOptions {
            url: format!("{url}/{}", self.name),
            import: self.import,
            export: self.export,
            lazy_dirs: self.lazy,
            attributes: self.attributes,
            poll_s: self.poll_s,
            endpoint: None,
            region: None,
            profile: None,
            anonymous: false,
        }
    }
}
