//! Clients that write and read without end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rand::Rng;

use crate::report::Point;
use crate::suite::{self, BenchError, Run};
use crate::suites::genome::random;

/// What a client moves at once. Small, as one that waits for credits cannot be stopped.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// How much a client writes before it reads that again.
const TURN_BYTES: u64 = 8 << 20;

/// `O_DIRECT` wants its memory at multiples of this.
const ALIGN: usize = 4096;

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) clients: u32,
    /// What each of them writes and reads, over and over.
    pub(super) file_bytes: u64,
    /// Whether past the page cache.
    pub(super) direct: bool,
}

/// Has clients write and read files of their own until `enough` says so of the throughput by the
/// second.
pub(super) fn drive(
    run: &Run<'_>,
    load: Load,
    enough: &mut dyn FnMut(&[Point]) -> bool,
) -> Result<Vec<Point>, BenchError> {
    let (done, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (tell, failed) = mpsc::channel();
        for number in 0..load.clients {
            let (tell, done, moved) = (tell.clone(), &done, &moved);
            let client = move || {
                let path = run.dir.join(format!("client-{number}"));
                let client = Client::new(&path, load, run.seed ^ u64::from(number));
                let worked = client.and_then(|mut client| client.work(done, moved));
                if let Err(error) = worked {
                    // Nobody listens once it is over.
                    let _ = tell.send(suite::io(&path)(error));
                }
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, client) {
                done.store(true, Ordering::Release);
                return Err(BenchError::io("start a thread for each client", error));
            }
        }
        let series = watch(run, &failed, &moved, enough);
        done.store(true, Ordering::Release);
        series
    })
}

/// Looks each second how much was moved.
fn watch(
    run: &Run<'_>,
    failed: &mpsc::Receiver<BenchError>,
    moved: &AtomicU64,
    enough: &mut dyn FnMut(&[Point]) -> bool,
) -> Result<Vec<Point>, BenchError> {
    let began = Instant::now();
    let (mut series, mut before, mut from_s) = (Vec::new(), 0, 0.0);
    while !enough(&series) {
        match failed.recv_timeout(Duration::from_millis(50)) {
            Ok(error) => return Err(error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => run.stop.check()?,
        }
        let at_s = began.elapsed().as_secs_f64();
        if at_s >= (series.len() + 1) as f64 {
            let now = moved.load(Ordering::Relaxed);
            let bytes_per_s = (now - before) as f64 / (at_s - from_s);
            series.push(Point { at_s, bytes_per_s });
            (before, from_s) = (now, at_s);
            run.progress.step(1);
        }
    }
    Ok(series)
}

struct Client {
    file: File,
    blocks: u64,
    direct: bool,
    buffer: Vec<u8>,
    start: usize,
}

impl Client {
    fn new(path: &Path, load: Load, seed: u64) -> io::Result<Self> {
        let flags = if load.direct { libc::O_DIRECT } else { 0 };
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(true).custom_flags(flags);
        let mut buffer = vec![0; BLOCK_BYTES + ALIGN];
        random(seed, 0).fill_bytes(&mut buffer);
        let start = buffer.as_ptr().align_offset(ALIGN);
        let blocks = load.file_bytes.max(TURN_BYTES) / BLOCK_BYTES as u64;
        Ok(Self { file: how.open(path)?, blocks, direct: load.direct, buffer, start })
    }

    /// Writes a turn and reads it, and so on through the file and again from its beginning.
    fn work(&mut self, done: &AtomicBool, moved: &AtomicU64) -> io::Result<()> {
        let turn = TURN_BYTES / BLOCK_BYTES as u64;
        let mut from = 0;
        loop {
            let blocks = from..(from + turn).min(self.blocks);
            for (writes, block) in
                blocks.clone().map(|block| (true, block)).chain(blocks.map(|block| (false, block)))
            {
                if done.load(Ordering::Acquire) {
                    return Ok(());
                }
                self.block(writes, block)?;
                moved.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
            }
            from = if from + turn >= self.blocks { 0 } else { from + turn };
        }
    }

    fn block(&mut self, writes: bool, block: u64) -> io::Result<()> {
        let at = block * BLOCK_BYTES as u64;
        let memory = &mut self.buffer[self.start..self.start + BLOCK_BYTES];
        match (writes, self.direct) {
            (true, true) => self.file.write_all_at(memory, at),
            (false, _) => self.file.read_exact_at(memory, at),
            // Past the page cache as far as that goes: on disk, and then forgotten.
            (true, false) => {
                self.file.write_all_at(memory, at)?;
                self.file.sync_data()?;
                let advice = rustix::fs::Advice::DontNeed;
                Ok(rustix::fs::fadvise(&self.file, 0, None, advice)?)
            }
        }
    }
}
