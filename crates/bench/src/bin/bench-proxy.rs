//! A TCP proxy that makes loopback look like a network: each byte arrives a fixed time after it was
//! sent, and each direction carries a fixed rate at most, both of a connection and of all together.
//! It looks at no byte.
//!
//! ```text
//! bench-proxy -listen 127.0.0.1:7071 -to 127.0.0.1:7070 -delay 10ms -rate 83886080
//! ```
//!
//! | option    | default     | what                                                              |
//! |-----------|-------------|-------------------------------------------------------------------|
//! | `-listen` | 127.0.0.1:0 | address to listen on                                              |
//! | `-to`     |             | address to pass bytes on to                                       |
//! | `-delay`  | 0ms         | time a byte takes, each way: `10ms`, `0.5s`                       |
//! | `-rate`   | 0           | bytes a second of each direction of each connection; 0 is no limit |
//! | `-total`  | 0           | the same of all connections together                              |
//! | `-loss`   | 0           | share of packets that are lost                                    |
//!
//! What must hold: bytes keep their order, a delay holds back no later byte's delay (they overlap, as
//! on a wire), and an end of stream arrives like a byte. Connections that share a rate get equal parts
//! of it, and none queues more than a few milliseconds of it. TCP sends a lost packet again, so nothing is
//! missing: it and what follows it come a round trip late. It writes the address where it listens as a
//! line, and runs until it is killed.

#![allow(clippy::disallowed_methods, reason = "what is measured here is real time")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;

/// Small beside what a connection carries in a delay, large beside a system call.
const CHUNK_BYTES: usize = 256 << 10;

/// Where connections share a rate, they take turns by pieces of so many bytes.
const SHARED_CHUNK_BYTES: usize = 64 << 10;

/// What a connection may have waiting for the shared rate before it reads on: more than a thread sleeps
/// too long, so that the wire never idles, and not so much that a small request waits for a large one's bytes.
const QUEUE: Duration = Duration::from_millis(5);

/// Bytes on the way in one direction: enough for 80 MiB/s over 200 ms, and a bound on memory.
const WINDOW_BYTES: usize = 16 << 20;

/// Bytes that are lost together.
const PACKET_BYTES: f64 = 1448.0;

/// What the network is like.
struct Network {
    to: String,
    delay: Duration,
    bytes_per_s: f64,
    loss: f64,
    /// All connections together, there and back.
    total: [Mutex<Link>; 2],
}

/// One direction of something that carries a fixed rate.
struct Link {
    /// Zero is no limit.
    bytes_per_s: f64,
    /// When it has carried all before.
    free: Instant,
}

/// Bytes on the way; none are an end of stream.
struct Piece {
    bytes: Vec<u8>,
    len: usize,
    due: Instant,
}

impl Link {
    fn new(bytes_per_s: f64) -> Self {
        Self { bytes_per_s, free: Instant::now() }
    }

    fn limited(&self) -> bool {
        self.bytes_per_s > 0.0
    }

    /// When it has carried so many more bytes.
    fn carry(&mut self, len: usize, now: Instant) -> Instant {
        self.free = self.free.max(now);
        if self.limited() {
            self.free += Duration::from_secs_f64(len as f64 / self.bytes_per_s);
        }
        self.free
    }
}

impl Network {
    /// Moves one direction of one connection until its end.
    fn carry(&self, from: &TcpStream, to: &TcpStream, total: &Mutex<Link>) {
        let chunk = if total.lock().limited() { SHARED_CHUNK_BYTES } else { CHUNK_BYTES };
        let (wire, arriving) = mpsc::sync_channel(WINDOW_BYTES / chunk);
        let (give_back, spare) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| self.send(from, chunk, wire, spare, total));
            deliver(arriving, to, &give_back).unwrap_or_else(|_| {
                let _ = from.shutdown(Shutdown::Read);
            });
        });
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Puts what is read on the wire, with the time when it arrives.
    fn send(
        &self,
        mut from: &TcpStream,
        chunk: usize,
        wire: SyncSender<Piece>,
        spare: Receiver<Vec<u8>>,
        total: &Mutex<Link>,
    ) {
        let mut own = Link::new(self.bytes_per_s);
        let mut last = Instant::now();
        loop {
            let mut bytes = spare.try_recv().unwrap_or_else(|_| vec![0; chunk]);
            let len = from.read(&mut bytes).unwrap_or(0);
            let now = Instant::now();
            let shared = total.lock().carry(len, now);
            let lost = if self.loses(len) { 2 * self.delay } else { Duration::ZERO };
            last = last.max(own.carry(len, now).max(shared) + self.delay + lost);
            if wire.send(Piece { bytes, len, due: last }).is_err() || len == 0 {
                return;
            }
            thread::sleep(shared.saturating_duration_since(Instant::now() + QUEUE));
        }
    }

    /// Whether one of the packets of so many bytes is lost.
    fn loses(&self, len: usize) -> bool {
        let packets = (len as f64 / PACKET_BYTES).ceil();
        self.loss > 0.0 && rand::rng().random_bool(1.0 - (1.0 - self.loss).powf(packets))
    }

    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        // A handshake is a round trip too.
        thread::sleep(2 * self.delay);
        let server = TcpStream::connect(&self.to)?;
        server.set_nodelay(true)?;
        thread::scope(|scope| {
            scope.spawn(|| self.carry(&server, client, &self.total[1]));
            self.carry(client, &server, &self.total[0]);
        });
        Ok(())
    }
}

/// Hands over each piece when it is due, and its memory back.
fn deliver(
    arriving: Receiver<Piece>,
    mut to: &TcpStream,
    give_back: &Sender<Vec<u8>>,
) -> io::Result<()> {
    for piece in arriving {
        thread::sleep(piece.due.saturating_duration_since(Instant::now()));
        to.write_all(&piece.bytes[..piece.len])?;
        // The sender may have ended before.
        let _ = give_back.send(piece.bytes);
    }
    Ok(())
}

/// Says where it listens, and serves all who come, for ever.
fn listen(listener: &TcpListener, network: &Arc<Network>) -> io::Result<()> {
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    loop {
        let (client, _) = listener.accept()?;
        let network = network.clone();
        // Who cannot be connected sees the end of the connection.
        thread::Builder::new().spawn(move || network.serve(&client))?;
    }
}

/// Where to listen, and what is between.
fn options(words: &[String]) -> Result<(String, Network), String> {
    let (mut listen, mut to, mut delay) = ("127.0.0.1:0".to_owned(), String::new(), Duration::ZERO);
    let (mut rate, mut total, mut loss) = (0.0, 0.0, 0.0);
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let bad = || format!("{name} {value}: this is no value for it");
        let number = |text: &str| text.parse().ok().filter(|n| *n >= 0.0).ok_or_else(bad);
        match name.trim_start_matches('-') {
            "listen" => listen.clone_from(value),
            "to" => to.clone_from(value),
            "delay" => {
                let (text, unit_s) = match value.strip_suffix("ms") {
                    Some(text) => (text, 1e-3),
                    None => (value.strip_suffix('s').unwrap_or(value), 1.0),
                };
                delay = Duration::try_from_secs_f64(number(text)? * unit_s).map_err(|_| bad())?;
            }
            "rate" => rate = number(value)?,
            "total" => total = number(value)?,
            "loss" => loss = Some(number(value)?).filter(|share| *share <= 1.0).ok_or_else(bad)?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    if to.is_empty() {
        return Err("-to says where to pass bytes on to, and is missing".to_owned());
    }
    let total = [total, total].map(|rate| Mutex::new(Link::new(rate)));
    Ok((listen, Network { to, delay, bytes_per_s: rate, loss, total }))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (at, network) = match options(&words) {
        Ok(read) => read,
        Err(why) => {
            eprintln!("bench-proxy: {why}");
            return ExitCode::from(2);
        }
    };
    let ended = TcpListener::bind(&at).and_then(|listener| listen(&listener, &Arc::new(network)));
    if let Err(error) = ended {
        eprintln!("bench-proxy: cannot listen on {at}: {error}");
    }
    ExitCode::FAILURE
}
