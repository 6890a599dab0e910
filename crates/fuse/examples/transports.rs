//! Measures the ways by which requests come: `/dev/fuse` against io_uring, by turns, with a file
//! system in memory that does next to nothing itself.
//!
//! `transports [ROUNDS [SECONDS]]`, as root. It turns `enable_uring` on and puts it back.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it is run by hand")]
#![allow(clippy::disallowed_methods, reason = "nothing here is async")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_fuse::{
    Answer, Attr, Entry, Errno, Handler, Interrupted, MountOptions, Opened, Operation, Reply,
    Request, Session, init, open,
};

const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";
/// Ways that are compared, answered at once and by another thread.
const HOWS: [[&str; 2]; 2] = [["dev", "uring"], ["dev-later", "uring-later"]];
const MIB: usize = 1 << 20;
const BIG_INO: u64 = 2;
const BIG_BYTES: u64 = 4 << 30;

/// A directory with one large file, and any number of new ones.
struct Tiny {
    bytes: Vec<u8>,
    next: AtomicU64,
    /// Reads are answered by another thread.
    later: Option<std::sync::mpsc::Sender<(u32, Reply)>>,
}

fn attr(ino: u64) -> Attr {
    let (mode, size) = match ino {
        1 => (libc::S_IFDIR | 0o755, 0),
        BIG_INO => (libc::S_IFREG | 0o644, BIG_BYTES),
        _ => (libc::S_IFREG | 0o644, 0),
    };
    Attr { ino, size, mode, nlink: 1, blksize: 4096, ..Attr::default() }
}

fn entry(ino: u64) -> Entry {
    Entry { attr: attr(ino), ..Entry::default() }
}

impl Handler for Tiny {
    fn handle(&self, request: Request, operation: Operation<'_>, _: Interrupted, reply: Reply) {
        let opened = Opened { handle: 1, flags: open::NOFLUSH, backing: None };
        let direct = open::NOFLUSH | open::PARALLEL_DIRECT_WRITES;
        match operation {
            Operation::Lookup { name: b"big" } => reply.entry(&entry(BIG_INO)),
            Operation::Lookup { .. } => reply.error(Errno(libc::ENOENT)),
            Operation::Getattr | Operation::Setattr(_) => {
                reply.attr(&attr(request.ino), Duration::ZERO);
            }
            Operation::Create { .. } => {
                let ino = self.next.fetch_add(1, Ordering::Relaxed);
                reply.created(&entry(ino), opened);
            }
            Operation::Open { flags, .. } if flags & libc::O_DIRECT != 0 => {
                reply.opened(Opened { flags: direct | open::DIRECT_IO, ..opened });
            }
            Operation::Open { .. } | Operation::Opendir => reply.opened(opened),
            Operation::Read { size, .. } => match &self.later {
                Some(later) => later.send((size, reply)).unwrap(),
                None => reply.bytes(&self.bytes[..size as usize]),
            },
            Operation::Write { data, .. } => reply.size(data.len() as u32),
            Operation::Release { .. } | Operation::Releasedir { .. } | Operation::Access => {
                reply.ok();
            }
            _ => reply.error(Errno(libc::ENOSYS)),
        }
    }
}

/// Mounts and serves until it is unmounted.
fn serve(mountpoint: &Path, over_rings: bool, is_later: bool) {
    let options = MountOptions {
        source: "tiny".to_owned(),
        subtype: "tiny".to_owned(),
        flags: Vec::new(),
        words: vec!["default_permissions".to_owned()],
    };
    let device = weir_fuse::mount(mountpoint, &options).unwrap();
    let mut flags = init::ASYNC_READ | init::ASYNC_DIO | init::PARALLEL_DIROPS;
    flags |= if over_rings { init::OVER_IO_URING } else { 0 };
    let size = MIB as u32;
    let answer =
        Answer { flags, readahead_bytes: size, write_bytes: size, background: 256, stack_depth: 0 };
    let session = Session::begin(device, |_| answer).unwrap();
    assert_eq!(session.transport().without_rings().is_none(), over_rings);
    let later = is_later.then(|| {
        let (sender, receiver) = std::sync::mpsc::channel::<(u32, Reply)>();
        std::thread::spawn(move || {
            let bytes = vec![7; MIB];
            receiver.iter().for_each(|(size, reply)| reply.bytes(&bytes[..size as usize]));
        });
        sender
    });
    let tiny = Tiny { bytes: vec![7; MIB], next: AtomicU64::new(10), later };
    println!("mounted");
    std::io::stdout().flush().unwrap();
    session.serve(Arc::new(tiny), 4).unwrap();
}

/// One step of a client, again and again; answers with how much it did.
type Step = fn(&Path, u64) -> Box<dyn FnMut() -> f64>;

fn big(mountpoint: &Path, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags).open(mountpoint.join("big")).unwrap()
}

/// A buffer that direct reads and writes take.
fn aligned(bytes: usize) -> &'static mut [u8] {
    let buffer = Vec::leak(vec![1; bytes + 4096]);
    let start = buffer.as_ptr().align_offset(4096);
    &mut buffer[start..start + bytes]
}

fn at(number: u64, bytes: usize) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (BIG_BYTES / bytes as u64) * bytes as u64
}

fn direct_reads(mountpoint: &Path, thread: u64, bytes: usize) -> Box<dyn FnMut() -> f64> {
    let (file, buffer) = (big(mountpoint, libc::O_DIRECT), aligned(bytes));
    let mut number = thread << 32;
    Box::new(move || {
        number += 1;
        file.read_exact_at(buffer, at(number, bytes)).unwrap();
        1.0
    })
}

const STEPS: &[(&str, Step)] = &[
    ("stat, thousands/s", |mountpoint, _| {
        let path = mountpoint.join("big");
        Box::new(move || {
            path.metadata().unwrap();
            1e-3
        })
    }),
    ("create, write 1 KiB, close, thousands/s", |mountpoint, thread| {
        let (mountpoint, mut number) = (mountpoint.to_owned(), thread << 32);
        Box::new(move || {
            number += 1;
            let mut file = File::create(mountpoint.join(number.to_string())).unwrap();
            file.write_all(&[1; 1024]).unwrap();
            1e-3
        })
    }),
    ("4 KiB direct reads, thousands/s", |mountpoint, thread| {
        let mut read = direct_reads(mountpoint, thread, 4096);
        Box::new(move || read() / 1e3)
    }),
    ("1 MiB direct reads, MiB/s", |mountpoint, thread| direct_reads(mountpoint, thread, MIB)),
    ("1 MiB buffered reads, MiB/s", |mountpoint, thread| {
        let (file, buffer) = (big(mountpoint, 0), aligned(MIB));
        // Each thread reads its own part in order, over and over.
        let part = BIG_BYTES / 4;
        let (start, mut offset) = (thread * part, 0);
        Box::new(move || {
            file.read_exact_at(buffer, start + offset).unwrap();
            offset += MIB as u64;
            if offset % (64 * MIB as u64) == 0 {
                rustix::fs::fadvise(&file, start, None, rustix::fs::Advice::DontNeed).unwrap();
            }
            offset %= part;
            1.0
        })
    }),
    ("1 MiB writes, MiB/s", |mountpoint, thread| {
        let (file, buffer) = (big(mountpoint, 0), aligned(MIB));
        let mut offset = 0;
        Box::new(move || {
            file.write_all_at(buffer, thread * (BIG_BYTES / 4) + offset).unwrap();
            offset = (offset + MIB as u64) % (64 * MIB as u64);
            1.0
        })
    }),
];

/// What a step did in a second, and the CPU milliseconds of client and daemon that each took.
#[derive(Clone, Copy)]
struct Measured {
    per_s: f64,
    cpu_ms: f64,
}

fn measure(mounted: &Mounted, step: Step, threads: u64, time: Duration) -> Measured {
    let over = AtomicBool::new(false);
    let cpu = || cpu_s(std::process::id()) + cpu_s(mounted.daemon.id());
    let (over, path) = (&over, mounted.path.as_path());
    std::thread::scope(|scope| {
        let (begun, cpu_before) = (Instant::now(), cpu());
        let client = move |thread| {
            let mut step = step(path, thread);
            let mut done = 0.0;
            while !over.load(Ordering::Relaxed) {
                done += step();
            }
            done
        };
        let clients: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || client(thread))).collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let done: f64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        let per_s = done / begun.elapsed().as_secs_f64();
        Measured { per_s, cpu_ms: (cpu() - cpu_before) * 1e3 / done }
    })
}

/// CPU seconds that a process has used.
fn cpu_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().unwrap()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// A daemon of its own, mounted.
struct Mounted {
    how: &'static str,
    path: PathBuf,
    daemon: Child,
}

impl Mounted {
    fn new(how: &'static str) -> Self {
        let name = format!("weir-transports-{}-{how}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["serve", path.to_str().unwrap(), how]).stdout(Stdio::piped());
        let mut daemon = command.spawn().unwrap();
        let mut said = [0; 7];
        std::io::Read::read_exact(daemon.stdout.as_mut().unwrap(), &mut said).unwrap();
        Self { how, path, daemon }
    }

    fn end(mut self) {
        rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::empty()).unwrap();
        assert!(self.daemon.wait().unwrap().success());
        std::fs::remove_dir(&self.path).unwrap();
    }
}

/// Results of each step with each number of clients, and of each way.
type Results = BTreeMap<(usize, u64, &'static str), Vec<Measured>>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "serve") {
        let how = &arguments[3];
        return serve(Path::new(&arguments[2]), how.contains("uring"), how.contains("later"));
    }
    let number = |n: usize, default| arguments.get(n).map_or(default, |n| n.parse().unwrap());
    let (rounds, seconds) = (number(1, 5.0) as usize, number(2, 0.5));
    let before = std::fs::read_to_string(ENABLE).unwrap();
    std::fs::write(ENABLE, "Y").unwrap();
    let all: Vec<_> = HOWS.iter().flatten().map(|how| Mounted::new(how)).collect();
    std::fs::write(ENABLE, before).unwrap();
    let mut results = Results::new();
    for round in 0..rounds {
        for (number, (_, step)) in STEPS.iter().enumerate() {
            for threads in [1, 4] {
                // Each goes first in turn.
                for at in 0..all.len() {
                    let mounted = &all[(at + round) % all.len()];
                    if mounted.how.contains("later") && ![2, 3, 4].contains(&number) {
                        continue;
                    }
                    let time = Duration::from_secs_f64(seconds);
                    let measured = measure(mounted, *step, threads, time);
                    results.entry((number, threads, mounted.how)).or_default().push(measured);
                }
            }
        }
    }
    all.into_iter().for_each(Mounted::end);
    tell(&results, rounds);
}

fn tell(results: &Results, rounds: usize) {
    let sorted = |key: (usize, u64, &'static str), of: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = results.get(&key)?.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        Some(values)
    };
    let told = |values: &[f64]| {
        let (least, most) = (values[0], values[values.len() - 1]);
        format!("{:.1} ({least:.1} to {most:.1})", values[values.len() / 2])
    };
    println!("median of {rounds} rounds (least to most)");
    println!(
        "| step, clients | dev | uring | | CPU dev | uring | |\n|---|---|---|---|---|---|---|"
    );
    for (number, (name, _)) in STEPS.iter().enumerate() {
        for ([dev, uring], kind) in HOWS.iter().zip(["", ", by another thread"]) {
            for threads in [1, 4] {
                let mut line = format!("| {name}{kind}, {threads} |");
                for of in [|m: &Measured| m.per_s, |m: &Measured| m.cpu_ms] {
                    let values = |how| sorted((number, threads, how), of);
                    if let (Some(dev), Some(uring)) = (values(*dev), values(*uring)) {
                        let middle = rounds / 2;
                        let more = (uring[middle] / dev[middle] - 1.0) * 100.0;
                        line += &format!(" {} | {} | {more:+.0}% |", told(&dev), told(&uring));
                    }
                }
                if line.contains('%') {
                    println!("{line}");
                }
            }
        }
    }
}
