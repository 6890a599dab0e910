//! Work that several threads do at once, timed operation by operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::report::{Latency, Point};
use crate::suite::{BenchError, Progress, Stop};

/// Points of a series, at most.
const SLICES: usize = 50;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    from_s: f64,
    to_s: f64,
    bytes: u64,
}

/// What one thread notes of its operations.
pub struct Watch<'a> {
    began: Instant,
    samples: Vec<Sample>,
    stop: &'a Stop,
    failed: &'a AtomicBool,
    progress: &'a dyn Progress,
}

/// What one thread did, and when.
struct Ran {
    from_s: f64,
    to_s: f64,
    samples: Vec<Sample>,
}

/// What all threads did.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// From the start of the first operation to the end of the last.
    pub seconds: f64,
    samples: Vec<Sample>,
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a report says when it was made")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How often a thread looks whether the gate is open, should nobody wake it.
const GATE: Duration = Duration::from_millis(1);

/// Lets `work` run on a thread for each of `states`, all of which begin at one moment. The first
/// failure ends the others soon.
///
/// # Errors
/// The first of any thread, or that somebody stopped them.
pub fn together<T: Send>(
    states: Vec<T>,
    stop: &Stop,
    progress: &dyn Progress,
    work: impl Fn(&mut T, &mut Watch<'_>) -> Result<(), BenchError> + Sync,
) -> Result<Timed, BenchError> {
    // Shut until all threads are there, or one of them cannot be.
    let (shut, failed) = (AtomicBool::new(true), AtomicBool::new(false));
    let began = Instant::now();
    let one = |mut state: T| {
        let samples = Vec::new();
        let mut watch = Watch { began, samples, stop, failed: &failed, progress };
        while shut.load(Ordering::Acquire) {
            std::thread::park_timeout(GATE);
        }
        let from_s = watch.now_s();
        let done = work(&mut state, &mut watch);
        failed.fetch_or(done.is_err(), Ordering::AcqRel);
        done.map(|()| Ran { from_s, to_s: watch.now_s(), samples: watch.samples })
    };
    let one = &one;
    let all: Vec<_> = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(states.len());
        let mut refused = None;
        for state in states {
            match std::thread::Builder::new().spawn_scoped(scope, move || one(state)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refused = Some(BenchError::io("start a thread for each copy", error));
                    failed.store(true, Ordering::Release);
                    break;
                }
            }
        }
        shut.store(false, Ordering::Release);
        threads.iter().for_each(|thread| thread.thread().unpark());
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        refused.map_or(Ok(ended), Err)
    })?;
    joined(all)
}

/// The operations of all threads, with times since the first of them began.
fn joined(all: Vec<std::thread::Result<Result<Ran, BenchError>>>) -> Result<Timed, BenchError> {
    let mut timed = Timed::default();
    let (mut from_s, mut to_s) = (f64::INFINITY, 0.0_f64);
    let mut worst = None;
    for done in all {
        match done {
            Ok(Ok(ran)) => {
                (from_s, to_s) = (from_s.min(ran.from_s), to_s.max(ran.to_s));
                timed.samples.extend(ran.samples);
            }
            // Of several, that which is no mere consequence of another.
            Ok(Err(error)) => {
                if matches!(worst, None | Some(BenchError::Stopped)) {
                    worst = Some(error);
                }
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    if let Some(error) = worst {
        return Err(error);
    }
    timed.seconds = (to_s - from_s).max(0.0);
    for sample in &mut timed.samples {
        (sample.from_s, sample.to_s) = (sample.from_s - from_s, sample.to_s - from_s);
    }
    Ok(timed)
}

impl Watch<'_> {
    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Times an operation that moves so many bytes.
    ///
    /// # Errors
    /// That of the operation, or that the run is to end.
    pub fn time(
        &mut self,
        bytes: u64,
        operation: impl FnOnce(&Self) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        self.check()?;
        let from_s = self.now_s();
        operation(self)?;
        let to_s = self.now_s();
        self.samples.push(Sample { from_s, to_s, bytes });
        self.progress.step(1);
        Ok(())
    }

    /// To be asked in the middle of long operations.
    ///
    /// # Errors
    /// When somebody stopped the run, or another thread failed.
    pub fn check(&self) -> Result<(), BenchError> {
        match self.failed.load(Ordering::Acquire) {
            true => Err(BenchError::Stopped),
            false => self.stop.check(),
        }
    }
}

impl Timed {
    /// Operations that were timed.
    pub fn operations(&self) -> u64 {
        self.samples.len() as u64
    }

    /// Bytes of all operations.
    pub fn bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.bytes).sum()
    }

    /// Percentiles of the time that an operation takes; none of a single one.
    pub fn latency(&self) -> Option<Latency> {
        let of = |sample: &Sample| (sample.to_s - sample.from_s) * 1e6;
        latency(self.samples.iter().map(of).collect())
    }

    /// Throughput over time. The bytes of an operation are spread evenly over its time.
    pub fn series(&self) -> Vec<Point> {
        if self.seconds <= 0.0 || self.bytes() == 0 {
            return Vec::new();
        }
        let count = self.samples.len().clamp(1, SLICES);
        let slice_s = self.seconds / count as f64;
        let mut bytes = vec![0.0; count];
        for sample in &self.samples {
            let slice_of = |at_s: f64| ((at_s / slice_s) as usize).min(count - 1);
            let took_s = (sample.to_s - sample.from_s).max(f64::MIN_POSITIVE);
            let (first, last) = (slice_of(sample.from_s), slice_of(sample.to_s));
            for (slice, sum) in bytes.iter_mut().enumerate().take(last + 1).skip(first) {
                let within = |bound: usize| bound as f64 * slice_s;
                let from_s = if slice == first { sample.from_s } else { within(slice) };
                let to_s = if slice == last { sample.to_s } else { within(slice + 1) };
                let share = if first == last { 1.0 } else { (to_s - from_s) / took_s };
                *sum += sample.bytes as f64 * share;
            }
        }
        let point = |(slice, bytes): (usize, f64)| Point {
            at_s: (slice + 1) as f64 * slice_s,
            bytes_per_s: bytes / slice_s,
        };
        bytes.into_iter().enumerate().map(point).collect()
    }
}

/// Percentiles by nearest rank, of times in microseconds; none of fewer than two.
pub fn latency(mut times_us: Vec<f64>) -> Option<Latency> {
    if times_us.len() < 2 {
        return None;
    }
    times_us.sort_by(f64::total_cmp);
    let count = times_us.len();
    let at = |share: f64| {
        let rank = (share * count as f64).ceil() as usize;
        times_us[rank.clamp(1, count) - 1]
    };
    Some(Latency {
        mean_us: times_us.iter().sum::<f64>() / count as f64,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: at(1.0),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Steps(AtomicU64);

    impl Progress for Steps {
        fn phase(&self, _name: &str, _steps: u64) {}
        fn step(&self, steps: u64) {
            self.0.fetch_add(steps, Ordering::Relaxed);
        }
    }

    fn sample(from_s: f64, to_s: f64, bytes: u64) -> Sample {
        Sample { from_s, to_s, bytes }
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let latency = latency((1..=1000).rev().map(f64::from).collect()).expect("many");
        assert_eq!((latency.p50_us, latency.p90_us, latency.p99_us), (500.0, 900.0, 990.0));
        assert_eq!((latency.p999_us, latency.max_us, latency.mean_us), (999.0, 1000.0, 500.5));
        assert_eq!(super::latency(vec![1.0]), None);
        let two = super::latency(vec![3.0, 1.0]).expect("two");
        assert_eq!((two.p50_us, two.p90_us), (1.0, 3.0));
    }

    #[test]
    fn bytes_of_a_long_operation_are_spread_over_its_time() {
        let samples = vec![sample(0.0, 3.0, 300), sample(2.0, 3.0, 50), sample(3.0, 4.0, 0)];
        let timed = Timed { seconds: 3.0, samples };
        let series = timed.series();
        let rates: Vec<_> = series.iter().map(|p| p.bytes_per_s.round()).collect();
        assert_eq!(rates, [100.0, 100.0, 150.0]);
        assert_eq!(series.last().map(|point| point.at_s), Some(3.0));
        assert_eq!(Timed { seconds: 1.0, samples: vec![] }.series(), []);
    }

    #[test]
    fn a_series_holds_all_bytes_in_few_points() {
        let samples = (0..1000).map(|n| f64::from(n) * 0.01);
        let samples = samples.map(|from_s| sample(from_s, from_s + 0.017, 4096)).collect();
        let timed = Timed { seconds: 10.017, samples };
        let series = timed.series();
        assert_eq!(series.len(), SLICES);
        let slice_s = timed.seconds / SLICES as f64;
        let sum: f64 = series.iter().map(|point| point.bytes_per_s * slice_s).sum();
        assert!((sum - 4_096_000.0).abs() < 1.0, "{sum}");
    }

    #[test]
    fn all_threads_work_and_are_counted() {
        let steps = Steps::default();
        let timed = together(vec![1, 2, 3], &Stop::default(), &steps, |times, watch| {
            (0..*times).try_for_each(|_| watch.time(10, |_| Ok(())))
        });
        let timed = timed.expect("done");
        assert_eq!((timed.operations(), timed.bytes()), (6, 60));
        assert_eq!(steps.0.into_inner(), 6);
    }

    #[test]
    fn the_first_failure_ends_all_and_is_told() {
        let ended =
            together((0..4).collect(), &Stop::default(), &Steps::default(), |thread, watch| {
                if *thread == 2 {
                    return Err(BenchError::Unsuitable("thread 2 fails".to_owned()));
                }
                loop {
                    watch.time(0, |_| Ok(()))?;
                }
            });
        assert_eq!(ended.expect_err("failed").to_string(), "thread 2 fails");
        let stop = Stop::default();
        stop.now();
        let ended =
            together(vec![()], &stop, &Steps::default(), |_, watch| watch.time(0, |_| Ok(())));
        assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
    }
}
