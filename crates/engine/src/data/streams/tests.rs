use super::*;

const MIB: u64 = CHUNK_BYTES;
const WINDOW_MAX: u64 = 1024 * MIB;

/// A reader of 1 MiB at a time; `rate` tells MiB a second by window.
fn read(streams: &mut Streams, at: u64, waits: bool, now_ms: u64) -> Vec<(u64, u64)> {
    let read = Read { offset: at * MIB, len: MIB, size: 100_000 * MIB, waits, now_ms };
    ranges(streams.note(read, WINDOW_MAX))
}

fn ranges(ahead: Vec<Ahead>) -> Vec<(u64, u64)> {
    ahead.into_iter().map(|ahead| (ahead.start, ahead.end)).collect()
}

/// Reads on from `from`, and answers the window that it ends with. No byte is asked for twice.
fn run(streams: &mut Streams, from: u64, count: u64, ms_each: impl Fn(u64) -> u64) -> u64 {
    let (mut furthest, mut window, mut now_ms) = (0, 0, 0);
    for at in from..from + count {
        for (start, end) in read(streams, at, true, now_ms) {
            assert!(start >= furthest, "asked for twice");
            furthest = end;
            window = end - (at + 1) * MIB;
        }
        now_ms += ms_each(window);
    }
    window
}

#[test]
fn a_reader_who_waits_gets_a_longer_window_while_that_helps() {
    // A link that a window of 128 MiB fills.
    let window = run(&mut Streams::default(), 0, 2000, |w| 1280 * MIB / w.clamp(MIB, 128 * MIB));
    assert!((128 * MIB..=256 * MIB).contains(&window), "{window}");
    // One that no window fills.
    let window = run(&mut Streams::default(), 0, 2000, |w| 12_800 * MIB / w.max(MIB));
    assert_eq!(window, WINDOW_MAX);
}

#[test]
fn a_reader_who_never_waits_keeps_a_short_window() {
    let mut streams = Streams::default();
    let mut furthest = 0;
    for at in 0..100 {
        furthest = read(&mut streams, at, false, 0).last().map_or(furthest, |r| r.1);
    }
    assert!((100 * MIB..=110 * MIB).contains(&furthest), "{furthest}");
}

#[test]
fn several_readers_of_one_file_have_a_window_each() {
    let mut streams = Streams::default();
    let mut wanted = [0; 4];
    for n in 0..50 {
        for (i, sum) in wanted.iter_mut().enumerate() {
            let found = read(&mut streams, i as u64 * 10_000 + n, true, n);
            *sum += found.iter().map(|(s, e)| e - s).sum::<u64>();
        }
    }
    assert!(wanted.iter().all(|sum| *sum >= 64 * MIB), "{wanted:?}");
}

#[test]
fn equal_steps_are_foreseen_and_nothing_between_them() {
    let mut streams = Streams::default();
    let mut wanted = Vec::new();
    for n in 0..20 {
        wanted.extend(read(&mut streams, n * 50, true, n));
    }
    assert!(wanted.iter().all(|(s, e)| s % (50 * MIB) == 0 && e - s == MIB), "{wanted:?}");
    assert!(wanted.len() > 20 && wanted.is_sorted(), "{wanted:?}");
    let mut once = wanted.clone();
    once.dedup();
    assert_eq!(once, wanted, "each once");
}

#[test]
fn who_jumps_about_gets_nothing_until_a_quarter_was_seen() {
    let mut streams = Streams::default();
    let size = 64 * MIB;
    let mut asked = Vec::new();
    for (n, at) in
        [50, 3, 33, 12, 60, 24, 7, 41, 18, 55, 28, 46, 0, 37, 63, 21].into_iter().enumerate()
    {
        let read = Read { offset: at * MIB, len: 4096, size, waits: true, now_ms: 0 };
        asked.extend(ranges(streams.note(read, WINDOW_MAX)).into_iter().map(|range| (n, range)));
    }
    assert_eq!(asked, [(15, (0, size))]);
    let mut streams = Streams::default();
    for at in 0..1000_u64 {
        let offset = at * at * 7919 % 100_000 * MIB;
        let read = Read { offset, len: 4096, size: 100_000 * MIB, waits: true, now_ms: 0 };
        assert_eq!(streams.note(read, WINDOW_MAX), []);
    }
}
