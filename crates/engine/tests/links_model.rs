//! Both sides of two links change at random: between a server that is slow, fails, loses answers,
//! lists nonsense or takes no notice of conditions, and crashes at each step between the two sides.
//!
//! Held: no object changes that nothing we did may change; what was written is never in neither
//! side; no byte of one version of an object is read beside those of another; after quiet both sides
//! agree. docs/linked-buckets.md has these promises.
//!
//! `WEIR_SEED=N` repeats one run; `WEIR_SOAK=N` goes on for N minutes, `WEIR_SECONDS=N` for N
//! seconds, with other seeds. `WEIR_LINKS_MODEL_URL=s3://BUCKET` has the links at a real server
//! (with `AWS_ENDPOINT_URL` and keys in the environment), each seed at a prefix of its own: what the
//! server in memory does oddly that one does in its own way.
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
#[path = "links_model/server.rs"]
mod server;
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
use server::Server;
use setting::Setting;
use weir_object::testing::{Alone, Listings};
use weir_object::{Bucket, Component, ConnectOptions, open_store};

const STEPS: usize = 80;
/// What others ask for is counted as this.
const LAKE: Component = Component::Bench;
/// A name that cannot be a key is written here with this in it, for a byte that is no UTF-8.
const NO_UTF8: char = '\u{fffd}';

/// Where files are: in two links, and outside of them.
const PLACES: [&str; 20] = [
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
    "lake/d/50%",
    "pool/%2e%2e%2fa",
    // As long as a name can be.
    concat!(
        "pool/",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    ),
    "pool/\u{fffd}x",
];
/// Bytes that a name can have.
const LONG: usize = 255;
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
    /// Sizes of those of their objects that are no file's.
    odd: BTreeMap<String, u64>,
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
        let url = Server::this().place(&format!("model-{seed}"));
        let others = server::connect(&url);
        crash::watch();
        let parts_from = format!("return({})", setting.one_put_bytes);
        fail::cfg("engine::one-put-bytes", &parts_from).expect("a fail point");
        let (ledger, theirs, odd, archived, laid, moved_away, trace) = Default::default();
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
            odd,
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
        match self.rng.random_range(0..220) {
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
            162..172 => self.rest(700),
            184..189 => self.end(),
            189..192 => self.link_again(),
            192..196 => self.odd_listings(),
            200..210 => self.odd_by_others(),
            172..184 | 210..220 => self.lay(),
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
        if Server::this().is_real() {
            return;
        }
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
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let soak = number("WEIR_SOAK").map(|minutes| 60 * minutes);
    let seconds = number("WEIR_SECONDS").or(soak).unwrap_or(0);
    let random = || if seconds > 0 { rand::random_range(1_000..u64::MAX / 2) } else { 1 };
    let first = number("WEIR_SEED").unwrap_or_else(random);
    let (began, mut seeds) = (Instant::now(), 0);
    while seeds == 0 || began.elapsed() < Duration::from_secs(seconds) {
        run(first + seeds);
        seeds += 1;
    }
    eprintln!("{seeds} seeds in {} s", began.elapsed().as_secs());
    crash::tell();
}
