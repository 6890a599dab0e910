//! A laboratory of moves: volumes are written, killed and rebooted, their tiers and journals lost,
//! swapped, copied and mounted in any order, on one machine and on others. It is known beforehand
//! which mount must be refused; whatever mounts holds what was promised, and no byte that was
//! never written there.
//!
//! Seconds by default, a minute with `WEIR_SOAK=1`; `WEIR_SEED=N` repeats one run.

mod common;
#[path = "moves/history.rs"]
mod history;
#[path = "moves/work.rs"]
mod work;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use common::{World, new_file, settings};
use history::History;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{AcceptLoss, Engine, OpenFlags, Wrap};
use weir_object::testing::{FaultControl, FaultPlan, FaultStore};
use weir_types::{ErrorKind, Ino, Settings};

const STEPS: usize = 80;
const FILES: usize = 5;
const BLOCK: usize = 4096;
const BLOCKS: usize = 40;
const TIERS: [&str; 3] = ["tier", "tier-b", "tier-c"];
const JOURNALS: [&str; 2] = ["journal-a", "journal-b"];

/// A file by its name: it comes and goes. Blocks have the number of the write that made them, and 0
/// where there are zeros or no file.
struct File {
    there: History<bool>,
    blocks: Vec<History<u32>>,
}

/// How the last mount that wrote ended, and what it used.
struct Last {
    number: u64,
    clean: bool,
    journaled: bool,
    host: usize,
}

struct Lab {
    world: World,
    controls: Arc<Mutex<Vec<FaultControl>>>,
    mounted: bool,
    last: Last,
    /// The number of the last mount that wrote with what is in a directory; absent if it is empty.
    tiers: BTreeMap<&'static str, u64>,
    journals: BTreeMap<&'static str, u64>,
    tier: &'static str,
    journal: Option<&'static str>,
    /// What was lost since the last mount, whoever asked.
    lost: AcceptLoss,
    files: Vec<File>,
    stamp: u32,
    rng: StdRng,
    seed: u64,
    trace: Vec<String>,
    refused: usize,
    given_up: usize,
}

fn block(stamp: u32, file: usize, at: usize) -> Vec<u8> {
    if stamp == 0 {
        return vec![0; BLOCK];
    }
    [stamp, file as u32, at as u32, 0x5eed].map(u32::to_le_bytes).concat().repeat(BLOCK / 16)
}

fn stamp_of(bytes: &[u8], file: usize, at: usize, what: &str) -> u32 {
    let stamp = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    assert!(bytes == &block(stamp, file, at)[..bytes.len()], "{what}: these bytes nobody wrote");
    stamp
}

fn name(file: usize) -> Vec<u8> {
    format!("f{file}").into_bytes()
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WEIR_SEED={}:\n{}", self.seed, self.trace.join("\n"));
        }
    }
}

impl Lab {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        let controls = Arc::new(Mutex::new(Vec::new()));
        let kept = controls.clone();
        let wrap: Wrap = Arc::new(move |store| {
            let store = FaultStore::new(store, &FaultPlan::default());
            kept.lock().push(store.control());
            Arc::new(store)
        });
        // Some of them flush all the time.
        let mut rng = StdRng::seed_from_u64(seed);
        let flush_age_ms = [100, 60_000][rng.random_range(0..2)];
        let settings =
            Settings { flush_age_ms, meta_flush_ms: flush_age_ms.min(1_000), ..settings() };
        let mut world = World::with(settings, Some(wrap));
        world.unmount().expect("unmounts");
        world.options.host.hardware_id = "hardware 0".to_owned();
        world.mount().expect("mounts");
        let file = || File {
            there: History::new(false),
            blocks: (0..BLOCKS).map(|_| History::new(0)).collect(),
        };
        Self {
            world,
            controls,
            mounted: true,
            last: Last { number: 1, clean: false, journaled: false, host: 0 },
            tiers: BTreeMap::from([("tier", 1)]),
            journals: BTreeMap::new(),
            tier: "tier",
            journal: None,
            lost: AcceptLoss::Nothing,
            files: (0..FILES).map(|_| file()).collect(),
            stamp: 0,
            rng,
            seed,
            trace: Vec::new(),
            refused: 0,
            given_up: 0,
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            match self.mounted {
                true => self.use_it(),
                false => self.move_things(),
            }
        }
        while !self.mounted {
            self.try_mount();
        }
        self.check(AcceptLoss::Nothing);
        self.unmount();
        self.world.fsck();
    }

    fn kill(&mut self) {
        self.note("kill");
        self.world.kill();
        self.mounted = false;
    }

    fn reboot(&mut self) {
        self.note("power cut");
        self.world.reboot();
        self.mounted = false;
        self.lost = AcceptLoss::Tier;
    }

    fn unmount(&mut self) {
        self.note("unmount");
        self.world.unmount().expect("unmounts");
        self.mounted = false;
        self.last.clean = true;
        self.all_in_bucket();
    }

    fn bucket_is_away(&self, away: bool) {
        self.controls.lock().iter().for_each(|one| one.set_vanished(away));
    }

    /// The mount that had so little patience is one of its own.
    fn unmount_without_bucket(&mut self) {
        self.unmount();
        let patience = self.world.options.settings.bucket_timeout_ms;
        let connect = self.world.options.connector.options.timeout_ms;
        self.world.options.settings.bucket_timeout_ms = 1_000;
        self.world.options.connector.options.timeout_ms = 1_000;
        self.note("with little patience:");
        self.try_mount();
        self.world.options.settings.bucket_timeout_ms = patience;
        self.world.options.connector.options.timeout_ms = connect;
        self.write();
        self.bucket_is_away(true);
        self.note("unmount without the bucket");
        self.world.unmount().expect_err("all is well without a bucket");
        self.bucket_is_away(false);
        self.mounted = false;
    }

    /// Another machine takes the volume while this one lives.
    fn taken_alive(&mut self) {
        let tier = TIERS[self.rng.random_range(0..TIERS.len())];
        if tier == self.tier || self.journal.is_some() {
            return;
        }
        self.note(format!("another machine takes it over with {tier}"));
        let mut options = self.world.options.clone();
        options.tier = self.world.path(tier);
        options.take_over = true;
        let host = self.last.host + 1;
        on_host(&mut options.host, host);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let taken = runtime.block_on(Engine::mount(options.clone())).expect("takes over");
        let old = self.world.engine();
        let made = self.world.run(old.create(Ino::ROOT, b"late", new_file()));
        let synced = self.world.run(old.fsync_dir(Ino::ROOT));
        assert!(made.is_err() || synced.is_err(), "seed {}: it is not fenced", self.seed);
        drop(old);
        self.world.kill();
        self.world.options = options;
        self.world.options.take_over = false;
        self.world.adopt(runtime, taken);
        self.last = Last { number: self.last.number + 1, clean: false, journaled: false, host };
        self.tiers.insert(tier, self.last.number);
        self.tier = tier;
        self.check(AcceptLoss::Tier);
    }

    fn move_things(&mut self) {
        let tier = TIERS[self.rng.random_range(0..TIERS.len())];
        let other = TIERS[self.rng.random_range(0..TIERS.len())];
        match self.rng.random_range(0..100) {
            0..6 => {
                self.note(format!("{tier} is lost"));
                let _ = std::fs::remove_dir_all(self.world.path(tier));
                self.tiers.remove(tier);
            }
            6..10 => {
                let journal = JOURNALS[self.rng.random_range(0..2)];
                self.note(format!("{journal} is lost"));
                let _ = std::fs::remove_dir_all(self.world.path(journal));
                self.journals.remove(journal);
            }
            10..22 if tier != other && self.tiers.contains_key(tier) => {
                let kept = self.rng.random_range(0..2) == 0;
                self.note(format!("{tier} is {} {other}", if kept { "copied to" } else { "now" }));
                let _ = std::fs::remove_dir_all(self.world.path(other));
                let (from, to) = (self.world.path(tier), self.world.path(other));
                match kept {
                    true => {
                        let copy = ["-a", "--sparse=always"];
                        let done = Command::new("cp").args(copy).args([from, to]).status();
                        assert!(done.expect("cp runs").success());
                    }
                    false => std::fs::rename(from, to).expect("moves"),
                }
                let number = self.tiers[tier];
                self.tiers.insert(other, number);
                if !kept {
                    self.tiers.remove(tier);
                }
            }
            22..30 if !self.journals.is_empty() => {
                self.note("the journals change places");
                let [a, b] = JOURNALS.map(|name| self.world.path(name));
                let aside = self.world.path("swap");
                for (from, to) in [(&a, &aside), (&b, &a), (&aside, &b)] {
                    let _ = std::fs::rename(from, to);
                }
                let [a, b] = JOURNALS;
                let numbers = [self.journals.remove(b), self.journals.remove(a)];
                for (name, number) in JOURNALS.into_iter().zip(numbers) {
                    number.map(|number| self.journals.insert(name, number));
                }
            }
            30..36 => {
                self.note("on another machine:");
                let host = self.rng.random_range(0..3);
                on_host(&mut self.world.options.host, host);
                // Its boot is not the one in which the tier was written.
                self.lost = AcceptLoss::Tier;
            }
            _ => self.try_mount(),
        }
    }

    /// What a mount with this tier and journal is to miss.
    fn missing(&self, tier: &str, journal: Option<&str>) -> AcceptLoss {
        let has_tier = self.tiers.get(tier) == Some(&self.last.number);
        let has_log = match (self.last.journaled, journal) {
            (true, Some(journal)) => self.journals.get(journal) == Some(&self.last.number),
            (false, None) => has_tier,
            _ => false,
        };
        match (has_tier, has_log) {
            _ if self.last.clean => AcceptLoss::Nothing,
            (true, true) => AcceptLoss::Nothing,
            (false, _) if has_log || !self.last.journaled => AcceptLoss::Tier,
            _ => AcceptLoss::All,
        }
    }

    /// Tries a mount with what it was written with last, if there is such a thing, or with anything.
    fn try_mount(&mut self) {
        let mut tier = TIERS[self.rng.random_range(0..TIERS.len())];
        let any = self.rng.random_range(0..4);
        let mut journal = (any > 1).then(|| JOURNALS[any - 2]);
        if self.rng.random_range(0..10) < 6 {
            let is_last = |found: &(&&'static str, &u64)| *found.1 == self.last.number;
            tier = self.tiers.iter().find(is_last).map_or(tier, |found| found.0);
            if !self.last.clean {
                journal = match self.last.journaled {
                    true => {
                        self.journals.iter().find(is_last).map_or(journal, |found| Some(found.0))
                    }
                    false => None,
                };
            }
        }
        self.note(format!("mount {tier} {}", journal.unwrap_or("-")));
        self.world.options.tier = self.world.path(tier);
        self.world.options.journal = journal.map(|name| self.world.path(name));
        let forced = !self.last.clean && !self.knows_last();
        let missing = self.missing(tier, journal);
        if forced {
            self.refused_with("--take-over");
            self.world.options.take_over = true;
        }
        let covered = if forced { AcceptLoss::Tier } else { AcceptLoss::Nothing };
        if missing > covered {
            let log_in_tier = !self.last.journaled && missing == AcceptLoss::All;
            self.refused_with(if log_in_tier { "without --journal" } else { "--accept-loss" });
            if missing == AcceptLoss::All {
                self.world.options.accept_loss = AcceptLoss::Tier;
                self.refused_with("");
            }
            // Mostly the right disk is looked for.
            if self.rng.random_range(0..3) > 0 {
                self.world.options.take_over = false;
                self.world.options.accept_loss = AcceptLoss::Nothing;
                return;
            }
            self.note(format!("given up: {missing:?}"));
            self.given_up += 1;
            self.world.options.accept_loss = missing;
        }
        self.mount(tier, journal, missing);
    }

    fn mount(&mut self, tier: &'static str, journal: Option<&'static str>, missing: AcceptLoss) {
        if let Err(error) = self.world.mount() {
            panic!("seed {}: refused: {error}", self.seed);
        }
        self.world.options.take_over = false;
        self.mounted = true;
        let report = self.world.run(self.world.engine().status()).expect("status").mount;
        let told = report.left_behind.is_some();
        assert_eq!(told, missing > AcceptLoss::Nothing, "seed {}: {report:?}", self.seed);
        let lost = match self.last.clean {
            true => AcceptLoss::Nothing,
            false => self.lost.max(missing),
        };
        let number = self.last.number + 1;
        let host = host_of(&self.world.options.host);
        self.last = Last { number, clean: false, journaled: journal.is_some(), host };
        self.tiers.insert(tier, number);
        journal.map(|journal| self.journals.insert(journal, number));
        (self.tier, self.journal, self.lost) = (tier, journal, AcceptLoss::Nothing);
        // Not always: what nobody looked at must survive the next crash as well.
        if lost > AcceptLoss::Nothing || self.rng.random_range(0..2) == 0 {
            self.check(lost);
        }
    }

    fn knows_last(&self) -> bool {
        host_of(&self.world.options.host) == self.last.host
    }

    fn refused_with(&mut self, text: &str) {
        let accepted = self.world.options.accept_loss;
        let Err(error) = self.world.mount() else {
            panic!("seed {}: mounted without what is missing", self.seed);
        };
        self.world.options.accept_loss = accepted;
        let seed = self.seed;
        assert_eq!(error.kind(), ErrorKind::Conflict, "seed {seed}: {error}");
        assert!(error.to_string().contains(text), "seed {seed}: {error}");
        self.refused += 1;
    }

    /// Holds the volume against what it may be after such a loss, and takes it for that.
    fn check(&mut self, lost: AcceptLoss) {
        self.note(format!("check, lost {lost:?}"));
        for file in 0..FILES {
            let what = format!("seed {} f{file}", self.seed);
            let ino = self.ino(file);
            self.files[file].there.found(ino.is_some(), lost, &what);
            let mut bytes = match ino {
                Some(ino) => self.read(ino),
                None => Vec::new(),
            };
            bytes.resize(BLOCKS * BLOCK, 0);
            for (at, bytes) in bytes.chunks(BLOCK).enumerate() {
                let what = format!("{what} block {at}");
                let stamp = stamp_of(bytes, file, at, &what);
                self.files[file].blocks[at].found(stamp, lost, &what);
            }
        }
    }

    fn read(&self, ino: Ino) -> Vec<u8> {
        let engine: Arc<Engine> = self.world.engine();
        self.world.run(async {
            let file = engine.open(ino, OpenFlags::default()).await.expect("opens");
            let bytes = engine.read(&file, 0, BLOCKS * BLOCK).await.expect("reads");
            engine.close(file).await.expect("closes");
            bytes.to_vec()
        })
    }
}

/// Machine 0 is the first one; each has hardware of its own, and the same system.
fn on_host(host: &mut weir_engine::Host, number: usize) {
    if host_of(host) == number {
        return;
    }
    host.hardware_id = format!("hardware {number}");
    host.boot_id = format!("boot-of-{number}");
}

fn host_of(host: &weir_engine::Host) -> usize {
    let number = host.hardware_id.strip_prefix("hardware ");
    number.and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn whatever_is_lost_moved_or_swapped_is_asked_for_and_nothing_promised_is_lost() {
    if let Ok(seed) = std::env::var("WEIR_SEED") {
        return Lab::new(seed.parse().expect("WEIR_SEED is a number")).steps(STEPS);
    }
    let soak = std::env::var("WEIR_SOAK").is_ok_and(|soak| soak == "1");
    let (began, mut runs, mut refused, mut given_up) = (Instant::now(), 0, 0, 0);
    let first = if soak { rand::random_range(1_000..u64::MAX / 2) } else { 1 };
    for seed in first.. {
        let mut lab = Lab::new(seed);
        lab.steps(STEPS);
        (runs, refused, given_up) = (runs + 1, refused + lab.refused, given_up + lab.given_up);
        if runs >= 2 && (!soak || began.elapsed() > Duration::from_secs(60)) {
            break;
        }
    }
    eprintln!("{runs} runs, {refused} refusals, {given_up} losses accepted");
    assert!(refused > 0 && given_up > 0, "it moved nothing that counts");
}
