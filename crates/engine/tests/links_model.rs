//! Both sides of two links change at random: between a server that is slow, fails, loses answers,
//! lists nonsense or takes no notice of conditions, and crashes at each step between the two sides.
//!
//! Held: no object changes that nothing we did may change; what was written is never in neither
//! side; no byte of one version of an object is read beside those of another; after quiet both sides
//! agree. docs/linked-buckets.md has these promises.
//!
//! `WEIR_SEED=N` repeats one run; `WEIR_SOAK=1` goes on for a minute, or `WEIR_SOAK=N` for N.
#![allow(missing_docs, unreachable_pub, reason = "tests say what they hold by their names")]

mod common;

#[path = "links_model/check.rs"]
mod check;
#[path = "links_model/content.rs"]
mod content;
#[path = "links_model/crash.rs"]
mod crash;
#[path = "links_model/links.rs"]
mod links;
#[path = "links_model/others.rs"]
mod others;
#[path = "links_model/ours.rs"]
mod ours;
#[path = "links_model/setting.rs"]
mod setting;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{World, settings};
use content::{Content, Ledger};
use ours::How;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use setting::Setting;
use weir_object::testing::{Alone, Listings};
use weir_object::{Bucket, Component, ConnectOptions, Meter, open_store};

const STEPS: usize = 80;
/// What others ask for is counted as this.
const LAKE: Component = Component::Bench;
/// A name that cannot be a key is written here with this in it, for a byte that is no UTF-8.
const NO_UTF8: char = '\u{fffd}';

/// Where files are: in two links, and outside of them.
const PLACES: [&str; 18] = [
    "lake/a",
    "lake/b",
    "lake/c",
    "lake/d/a",
    "lake/d/b",
    "lake/g/a",
    "lake/d/deep/a",
    "pool/a",
    "pool/b",
    "pool/d/a",
    "out/a",
    "out/b",
    "out/d/a",
    "lake/\u{fffd}x",
    "lake/d/line\nfeed",
    "lake/...",
    concat!("pool/", "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"),
    "pool/\u{fffd}x",
];
/// Those that are renamed.
const DIRECTORIES: [&str; 6] = ["lake/d", "lake/g", "pool/d", "out/d", "lake/d/deep", "out/e"];

/// The bytes of a name.
fn raw(name: &str) -> Vec<u8> {
    let byte = |c: char| if c == NO_UTF8 { vec![0xff] } else { c.to_string().into_bytes() };
    name.chars().flat_map(byte).collect()
}

/// Whether a path can be a key.
fn is_key(path: &str) -> bool {
    !path.contains(|c: char| c == NO_UTF8 || c.is_control())
}

struct Run {
    world: World,
    setting: Setting,
    url: String,
    others: Bucket,
    alone: Alone,
    listings: Listings,
    overtaken: Arc<Mutex<Vec<bytes::Bytes>>>,
    ledger: Ledger,
    /// What others put, and did not delete.
    theirs: BTreeMap<String, Content>,
    /// Links of which somebody archived a file.
    archived: BTreeSet<String>,
    laid: Option<crash::Laid>,
    last: &'static str,
    moved_away: u32,
    rng: StdRng,
    trace: Vec<String>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}\n{}", self.setting, self.trace.join("\n"));
        }
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let setting = Setting::choose(seed, &mut rng);
        let (alone, listings, overtaken) = Default::default();
        let wrap = setting.wrap(&alone, &listings, &overtaken);
        let world = World::with(settings(), Some(wrap));
        let url = format!("memory://model-{seed}-{:x}", rand::random::<u64>());
        let options = ConnectOptions::default();
        let others = Bucket::connect(&url.parse().expect("a URL"), &options, &Meter::new());
        let others = others.expect("connects");
        let (ledger, theirs, archived, laid, moved_away, trace) = Default::default();
        let mut run = Self {
            world,
            setting,
            url,
            others,
            alone,
            listings,
            overtaken,
            ledger,
            theirs,
            archived,
            laid,
            last: PLACES[0],
            moved_away,
            rng,
            trace,
        };
        for link in run.setting.links.clone() {
            while !run.views().iter().any(|view| view.path == format!("/{}", link.name)) {
                run.bind(&link);
            }
        }
        run
    }

    fn step(&mut self) {
        let (place, other) = (self.place(), self.place());
        match self.rng.random_range(0..200) {
            0..20 => self.write(place, How::Whole),
            20..34 => self.write(place, How::Part),
            34..42 => self.write(place, How::Append),
            42..48 => self.write(place, How::Cut),
            48..63 => self.rename(place, other),
            63..69 => self.rename_directory(),
            69..80 => self.unlink(place),
            80..88 => self.hard_link(place, other),
            88..90 => self.attributes(place),
            90..104 => self.contend(),
            104..124 => {
                let key = self.key();
                self.put_by_others(key);
            }
            124..132 => {
                let key = self.key();
                self.delete_by_others(key);
            }
            132..144 => {
                self.trace.push("refresh all".to_owned());
                self.refresh_all();
            }
            144..149 => {
                self.trace.push("ask for all".to_owned());
                self.ask();
            }
            149..152 if !place.starts_with("out/") => self.refresh_key(place),
            152..157 => self.act(place),
            157..162 => {
                let engine = self.world.engine();
                self.trace.push("release all".to_owned());
                self.ledger.release();
                let _ = self.world.run(engine.release_all());
            }
            162..176 => self.rest(700),
            176..184 => self.lay(),
            184..189 => self.end(),
            189..192 => self.link_again(),
            192..196 => self.odd_listings(),
            _ => self.listings.go_on(),
        }
        self.after_crash();
        self.excuse_overtaken();
        if self.laid.as_mut().is_some_and(|laid| {
            laid.steps -= 1;
            laid.steps == 0
        }) {
            self.laid = None;
        }
    }

    fn odd_listings(&mut self) {
        if self.rng.random_bool(0.5) {
            self.trace.push("listings are empty".to_owned());
            return self.listings.forget();
        }
        self.trace.push("listings stop".to_owned());
        let store = open_store(&self.url.parse().expect("a URL"), &ConnectOptions::default());
        self.world.run(self.listings.stop(&*store.expect("opens")));
    }
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        // Who looks into a directory may be who comes to the point of the crash.
        let stepped = catch_unwind(AssertUnwindSafe(|| run.step()));
        if let Err(why) = stepped {
            if !why.is::<crash::Crash>() {
                eprintln!("{:#?}\n{}", run.setting, run.trace.join("\n"));
                resume_unwind(why);
            }
            run.after_crash();
        }
    }
    run.check();
    run.world.unmount().expect("unmounts");
    run.world.fsck();
}

#[test]
fn both_sides_change_at_random_and_nothing_is_lost() {
    if let Ok(seed) = std::env::var("WEIR_SEED") {
        return run(seed.parse().expect("WEIR_SEED is a number"));
    }
    let Ok(minutes) = std::env::var("WEIR_SOAK") else { return run(1) };
    let minutes: u64 = minutes.parse().expect("WEIR_SOAK is a number of minutes");
    let (began, mut seed) = (Instant::now(), rand::random_range(1_000..u64::MAX / 2));
    while began.elapsed() < Duration::from_secs(60 * minutes) {
        run(seed);
        seed += 1;
    }
}
