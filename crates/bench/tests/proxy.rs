//! The proxy that benches put before the bucket: nothing is faster than it says, and nothing is lost.

#![allow(clippy::disallowed_methods, reason = "what is measured here is real time")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(10);
const CHUNK_BYTES: usize = 256 << 10;

/// A running proxy, ended when it is dropped.
struct Proxy {
    process: Child,
    at: SocketAddr,
}

impl Proxy {
    /// With these options, before a server that sends back all it gets.
    fn start(words: &str) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("bound");
        thread::spawn(move || {
            while let Ok((client, _)) = server.accept() {
                thread::spawn(move || {
                    let _ = io::copy(&mut &client, &mut &client);
                    let _ = client.shutdown(Shutdown::Write);
                });
            }
        });
        Self::before(to, words)
    }

    fn before(to: SocketAddr, words: &str) -> Self {
        let mut process =
            program(&format!("-to {to} {words}")).stdout(Stdio::piped()).spawn().expect("starts");
        let mut told = String::new();
        let out = process.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut told).expect("tells where it listens");
        Self { process, at: told.trim().parse().expect("an address") }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).expect("connects")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program(words: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_bench-proxy"));
    program.args(words.split_whitespace());
    program
}

/// Sends so many bytes, ends, and takes what comes back; how long that took.
fn there_and_back(stream: &TcpStream, len: usize) -> Duration {
    let began = Instant::now();
    let sent: Vec<u8> = (0..len).map(|at| (at * 31 / 128) as u8).collect();
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = stream;
            to.write_all(&sent).expect("sends");
            stream.shutdown(Shutdown::Write).expect("ends");
        });
        let mut from = stream;
        from.read_to_end(&mut back).expect("receives");
    });
    assert!(sent == back, "{len} bytes came back as {} others", back.len());
    began.elapsed()
}

#[test]
fn bytes_and_the_end_arrive_unchanged() {
    let proxy = Proxy::start("");
    for len in [0, 1, CHUNK_BYTES, 20 * CHUNK_BYTES + 7] {
        there_and_back(&proxy.connect(), len);
    }
}

#[test]
fn delays_overlap() {
    // Forty chunks, each 200 ms after it was sent: one after the other they would take 16 s.
    let proxy = Proxy::start("-delay 0.2s");
    let took = there_and_back(&proxy.connect(), 40 * CHUNK_BYTES);
    assert!(took >= Duration::from_millis(750), "less than a handshake and a round trip: {took:?}");
    assert!(took < Duration::from_secs(5), "each chunk waits for the one before: {took:?}");
}

#[test]
fn a_rate_is_of_one_connection_and_a_total_of_all() {
    // 200 kB at 2 MB/s take 100 ms; both directions overlap.
    let at_least = Duration::from_millis(100);
    let proxy = Proxy::start("-rate 2e6");
    assert!(there_and_back(&proxy.connect(), 200_000) >= at_least);
    let proxy = Proxy::start("-total 4e6");
    let both = [proxy.connect(), proxy.connect()];
    let began = Instant::now();
    thread::scope(|scope| {
        both.iter().for_each(|stream| drop(scope.spawn(|| there_and_back(stream, 200_000))));
    });
    assert!(began.elapsed() >= at_least);
}

#[test]
fn a_small_request_does_not_wait_for_a_large_ones_bytes() {
    // Half a second each way of the shared rate, all of it sent at once; then one byte.
    let proxy = Proxy::start("-total 20e6");
    let [large, small] = [proxy.connect(), proxy.connect()];
    thread::scope(|scope| {
        let all = scope.spawn(|| there_and_back(&large, 10_000_000));
        thread::sleep(Duration::from_millis(100));
        let took = there_and_back(&small, 1);
        assert!(took < Duration::from_millis(200), "it waited behind the other's bytes: {took:?}");
        let took = all.join().expect("ends");
        assert!(took >= Duration::from_millis(500), "faster than the rate: {took:?}");
    });
}

#[test]
fn what_is_lost_comes_a_round_trip_later() {
    // The handshake and both ways take four delays (the first of them
    // may have begun before), and a byte that is lost each way four more.
    let proxy = Proxy::start("-delay 10ms -loss 1");
    assert!(there_and_back(&proxy.connect(), 1) >= 7 * DELAY);
}

#[test]
fn a_server_that_is_away_ends_the_connection() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let proxy = Proxy::before(free, "");
    assert_eq!(proxy.connect().read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn mistakes_are_told() {
    for (words, told) in [
        ("", "-to says"),
        ("-to", "needs a value"),
        ("-to x -rate fast", "no value"),
        ("-to x -loss 2", "no value"),
        ("-to x -delay -5ms", "no value"),
        ("-to x -jitter 5ms", "there is no option"),
    ] {
        let ended = program(words).stderr(Stdio::piped()).output().expect("starts");
        let why = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && why.contains(told), "{words}: {why}");
    }
}
