//! Crashes and failing disks at every point: what was appended comes back as a row without a gap that
//! has all that was synced.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SECTOR: usize = 512;

/// A log, and what it must hold.
struct Lab {
    dir: tempfile::TempDir,
    log: RecordLog,
    rng: StdRng,
    /// Numbers of the entries that it took, and how many of them were synced.
    taken: Vec<u64>,
    synced: usize,
    /// Numbers of entries before this may be gone.
    dropped: u64,
    next: u64,
    /// An operation failed: what it was about may be done or not.
    failed: bool,
    /// The files as they were at the last sync.
    durable: BTreeMap<PathBuf, Vec<u8>>,
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let numbers = file_numbers(directory).expect("lists").into_iter();
    numbers
        .map(|number| {
            let path = path_of(directory, number);
            let bytes = fs::read(&path).expect("reads");
            (path, bytes)
        })
        .collect()
}

impl Lab {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        let durable = files(dir.path());
        let rng = StdRng::seed_from_u64(seed);
        Self {
            dir,
            log,
            rng,
            taken: vec![],
            synced: 0,
            dropped: 0,
            next: 0,
            failed: false,
            durable,
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let most = [8, 600, 5_000, 5_000, 100_000][self.rng.random_range(0..5)];
        let len = self.rng.random_range(8..=most);
        // Much of what is written are zeros.
        let fill = if self.rng.random_bool(0.5) { 0 } else { self.rng.random() };
        let mut payload = vec![fill; len];
        payload[..8].copy_from_slice(&self.next.to_le_bytes());
        payload
    }

    fn step(&mut self) {
        let act = self.rng.random_range(0..100);
        let done = match act {
            0..50 => {
                let payload = self.payload();
                let done = self.log.append(&payload);
                if done.is_ok() {
                    self.taken.push(self.next);
                }
                self.next += 1;
                done
            }
            50..90 => self.log.sync().map(|()| self.all_is_synced()),
            90..96 => self.log.rotate().map(|number| {
                self.all_is_synced();
                if self.rng.random_bool(0.5) {
                    self.dropped = self.next;
                    self.failed |= self.log.drop_before(number).is_err();
                    self.durable = files(self.dir.path());
                }
            }),
            _ => {
                self.dropped = self.next;
                let mark = self.log.appended();
                self.log.clear_if(mark).map(|_| self.all_is_synced())
            }
        };
        self.failed |= done.is_err();
    }

    fn all_is_synced(&mut self) {
        self.synced = self.taken.len();
        self.durable = files(self.dir.path());
    }

    /// The log is opened anew: it has all that was taken, or with a power cut all that was synced.
    fn check(self, power_cut: bool, name: &str) {
        let Self { dir, log, taken, synced, dropped, next, .. } = self;
        drop(log);
        let opened = |directory: &Path| {
            let mut found = Vec::new();
            RecordLog::open(directory, |payload| {
                let number = payload[..8].try_into().expect("8 bytes");
                assert!(payload[8..].windows(2).all(|two| two[0] == two[1]), "{name}");
                found.push(u64::from_le_bytes(number));
                Ok(())
            })
            .map(|log| (log, found))
        };
        // A disk that lost something says so once.
        let again = opened(dir.path()).or_else(|_| opened(dir.path()));
        let (log, found) = again.unwrap_or_else(|e| panic!("{name}: does not open: {e}"));
        let must = if power_cut { &taken[..synced] } else { &taken[..] };
        let must: Vec<u64> = must.iter().copied().filter(|number| *number >= dropped).collect();
        let at = |number: u64| taken.iter().position(|taken| *taken == number);
        let first = found.first().map_or(Some(0), |first| at(*first));
        let first = first.unwrap_or_else(|| panic!("{name}: made up: {found:?}"));
        assert!(taken[first..].starts_with(&found), "{name}: a gap: {found:?} of {taken:?}");
        assert!(must.iter().all(|n| found.contains(n)), "{name}: {must:?} not in {found:?}");
        // It goes on behind them.
        log.append(&next.to_le_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        drop(log);
        let (_, more) = opened(dir.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(more, [found, vec![next]].concat(), "{name}");
    }

    /// Of what was not synced the disk has any sectors.
    fn cut_power(&mut self) {
        for (path, now) in files(self.dir.path()) {
            let before = self.durable.remove(&path).unwrap_or_default();
            let (least, most) = (before.len().min(now.len()), before.len().max(now.len()));
            let len = match self.rng.random_range(0..3) {
                0 => before.len(),
                1 => now.len(),
                _ => self.rng.random_range(least..=most),
            };
            let mut disk = vec![0; len];
            let keeps = [0.1, 0.5, 0.9][self.rng.random_range(0..3)];
            for start in (0..len).step_by(SECTOR) {
                let has = if self.rng.random_bool(keeps) { &now } else { &before };
                let end = len.min(start + SECTOR).min(has.len());
                if start < end {
                    disk[start..end].copy_from_slice(&has[start..end]);
                }
            }
            fs::write(&path, disk).expect("writes");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// WEIR_SEED takes one.
#[test]
fn after_a_power_cut_the_log_holds_all_that_was_synced_and_no_gap() {
    let first = number("WEIR_SEED").unwrap_or_else(|| rand::random_range(0..1 << 40));
    let rounds = if number("WEIR_SEED").is_some() { 1 } else { 150 };
    for seed in first..first + rounds {
        let name = format!("WEIR_SEED={seed}");
        eprintln!("{name}");
        let mut lab = Lab::new(seed);
        for _ in 0..lab.rng.random_range(1..60) {
            lab.step();
        }
        lab.cut_power();
        lab.check(true, &name);
    }
}

#[test]
fn whichever_operation_of_its_disk_fails_the_log_holds_what_it_took() {
    let faults = [
        Fault::Fail(libc::ENOSPC),
        Fault::Fail(libc::EIO),
        Fault::Short,
        Fault::Lost,
        Fault::Crash,
    ];
    let seed = number("WEIR_SEED").unwrap_or_else(|| rand::random_range(0..1 << 40));
    for fault in faults {
        for at in 1.. {
            let name = format!("WEIR_SEED={seed} {fault:?} at {at}");
            eprintln!("{name}");
            let mut lab = Lab::new(seed);
            let laid = Plan::lay(lab.dir.path(), at, fault, None);
            (0..40).for_each(|_| lab.step());
            let hit = laid.hit().is_some();
            assert!(hit || !lab.failed, "{name}: nothing failed");
            laid.calm();
            lab.check(false, &name);
            if !hit {
                break;
            }
        }
    }
}
