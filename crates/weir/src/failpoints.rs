//! What tests may change from outside, in builds with the feature `failpoints` only.
//!
//! - `WEIR_FAILPOINTS="tier::written=3;engine::segment-put=1"`: die by SIGKILL at the third pass of
//!   one point, the first of another; with `name=term`, get a SIGTERM at each pass of one, with `name=stop` a SIGSTOP.
//! - `WEIR_BOOT_ID`: what this boot of the machine is called, to play a reboot; `WEIR_HARDWARE_ID`:
//!   what the machine below is called, to play another one.
//! - `WEIR_CLOCK_AHEAD=FILE`: by how many seconds this machine's clock is ahead, which may change, and be less than 0.
//! - A binary called `weir-of-another-version` or `weir-that-fails` plays one that cannot go on in the
//!   place of another.
//! - `WEIR_BUCKET_FAULTS="op=put,p=0.05,seed=7"`: which bucket requests fail; counted for each
//!   connection on its own.

use weir_engine::{Host, Wrap};
use weir_types::Result;

#[cfg(not(feature = "failpoints"))]
mod chosen {
    use super::{Host, Result, Wrap};

    pub(crate) fn host() -> Host {
        Host::this()
    }

    pub(crate) fn arm() -> Result<()> {
        Ok(())
    }

    pub(crate) fn bucket_faults() -> Result<Option<Wrap>> {
        Ok(None)
    }

    pub(crate) fn plays(_: &str) -> bool {
        false
    }

    pub(crate) fn clock_ahead_s() -> i64 {
        0
    }
}

#[cfg(feature = "failpoints")]
mod chosen {
    use std::ffi::OsString;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};
    use weir_object::testing::{FaultPlan, FaultStore};
    use weir_types::{ErrorKind, FsError};

    use super::{Host, Result, Wrap};

    /// This process, in the boot and on the machine that the environment names.
    pub(crate) fn host() -> Host {
        let mut host = Host::this();
        if let Ok(boot) = std::env::var("WEIR_BOOT_ID") {
            host.boot_id = boot;
        }
        if let Ok(hardware) = std::env::var("WEIR_HARDWARE_ID") {
            host.hardware_id = hardware;
        }
        host
    }

    /// Arms the points at which the process is to die.
    pub(crate) fn arm() -> Result<()> {
        let points = std::env::var("WEIR_FAILPOINTS").unwrap_or_default();
        for part in points.split(';').filter(|part| !part.trim().is_empty()) {
            let bad = |why: String| FsError::new(ErrorKind::Invalid, why);
            let signals = [("=term", Signal::TERM), ("=stop", Signal::STOP)];
            let signal = signals.iter().find_map(|(word, signal)| {
                Some((part.strip_suffix(word)?.trim().to_owned(), *signal))
            });
            if let Some((name, signal)) = signal {
                let send = move || {
                    let _ = kill_process(getpid(), signal);
                    // Long enough for whoever takes it.
                    std::thread::park_timeout(Duration::from_millis(200));
                };
                fail::cfg_callback(name, send).map_err(bad)?;
                continue;
            }
            let told = part.split_once('=').and_then(|(name, nth)| {
                Some((name.trim().to_owned(), nth.trim().parse::<u64>().ok()?))
            });
            let (name, nth) =
                told.ok_or_else(|| bad(format!("WEIR_FAILPOINTS: `{part}`: write name=N")))?;
            let hits = AtomicU64::new(0);
            let die = move || {
                if hits.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                    let _ = kill_process(getpid(), Signal::KILL);
                    // Nothing of this thread may run on while the signal is on its way.
                    loop {
                        std::thread::park();
                    }
                }
            };
            fail::cfg_callback(name, die).map_err(bad)?;
        }
        Ok(())
    }

    /// Whether this binary is one that plays something, by its name.
    pub(crate) fn plays(name: &str) -> bool {
        std::env::current_exe().is_ok_and(|path| path.ends_with(name))
    }

    /// By how many seconds the clock is ahead. One that cannot be told is right.
    pub(crate) fn clock_ahead_s() -> i64 {
        static FILE: OnceLock<Option<OsString>> = OnceLock::new();
        let file = FILE.get_or_init(|| std::env::var_os("WEIR_CLOCK_AHEAD"));
        let told = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        told.and_then(|told| told.trim().parse().ok()).unwrap_or(0)
    }

    /// The faults that stand before every bucket.
    pub(crate) fn bucket_faults() -> Result<Option<Wrap>> {
        let Ok(text) = std::env::var("WEIR_BUCKET_FAULTS") else {
            return Ok(None);
        };
        let plan: FaultPlan = text.parse()?;
        Ok(Some(Arc::new(move |store| Arc::new(FaultStore::new(store, &plan)))))
    }
}

pub(crate) use chosen::{arm, bucket_faults, clock_ahead_s, host, plays};
