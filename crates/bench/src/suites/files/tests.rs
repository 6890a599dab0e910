use super::*;
use crate::testing::Bed;

fn tiny() -> Files {
    let shape = Shape { files: 3, chunks: 2, chunk_bytes: 5_000, copies: &[1, 2] };
    Files { small: shape, ..small_files() }
}

#[test]
fn every_phase_moves_all_bytes_and_leaves_nothing() {
    let bed = Bed::new();
    let done = tiny().run(&bed.run()).expect("runs");
    let phases: Vec<_> = done.iter().map(|m| (m.phase.as_str(), m.copies)).collect();
    let names = ["create", "read-cold", "read-warm", "read-512"];
    let wanted = [1, 2].into_iter().flat_map(|copies| names.map(|name| (name, copies)));
    assert_eq!(phases, wanted.collect::<Vec<_>>());
    for measured in &done {
        let copies = u64::from(measured.copies);
        assert_eq!((measured.bytes, measured.operations), (30_000 * copies, 6 * copies));
        assert_eq!(measured.unit, "chunks");
        assert!(measured.seconds > 0.0 && measured.latency.is_some(), "{measured:?}");
        let last = measured.series.last().expect("a series");
        assert!((last.at_s - measured.seconds).abs() < 1e-9, "{measured:?}");
    }
    assert!(bed.is_empty());
}

#[test]
fn asked_copies_stand_instead_of_the_suites_own() {
    let bed = Bed::new();
    let zeros = Files { content: Content::Zeros, reads: false, ..tiny() };
    let done = zeros.run(&Run { copies: &[3], ..bed.run() }).expect("runs");
    assert_eq!(done.iter().map(|m| m.copies).collect::<Vec<_>>(), [3]);
}

#[test]
fn what_is_written_is_what_was_asked_for() {
    let bed = Bed::new();
    let run = bed.run();
    for (content, all_zero) in [(Content::Zeros, true), (Content::Random, false)] {
        let suite = Files { content, ..tiny() };
        let dir = run.dir.join(format!("{content:?}"));
        fs::create_dir(&dir).expect("makes");
        suite.create(&run, std::slice::from_ref(&dir)).expect("creates");
        for at in 0..3 {
            let bytes = fs::read(dir.join(format!("file-{at:06}"))).expect("reads");
            assert_eq!(bytes.len(), 10_000);
            assert_eq!(bytes.iter().all(|byte| *byte == 0), all_zero);
        }
        remove(&dir, &run).expect("removes");
    }
}

#[test]
fn a_file_of_another_length_is_an_error() {
    let bed = Bed::new();
    let (suite, run) = (tiny(), bed.run());
    let dirs = [run.dir.join("dir")];
    fs::create_dir(&dirs[0]).expect("makes");
    suite.create(&run, &dirs).expect("creates");
    for (length, reason) in [(9_999, "unexpected end of file"), (10_001, "invalid data")] {
        fs::write(dirs[0].join("file-000001"), vec![1; length]).expect("writes");
        let error = suite.read(&run, &dirs, READS[0]).expect_err(reason).to_string();
        assert!(error.contains("file-000001") && error.contains(reason), "{error}");
    }
}

#[test]
fn a_stopped_run_ends() {
    let bed = Bed::new();
    bed.stop.now();
    let ended = tiny().run(&bed.run());
    assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
}

#[test]
fn demands_are_those_of_the_published_runs() {
    let demand = dd_large().demand(Size::Published, &[]);
    // 1,024 chunks of 100 MiB for each of 1 + 4 + 8 copies, of which 8 lie there at once.
    let copy_bytes = 107_374_182_400;
    assert_eq!(demand.space_bytes, 8 * copy_bytes);
    assert_eq!((demand.written_bytes, demand.read_bytes), (13 * copy_bytes, 39 * copy_bytes));
    assert_eq!(demand.files, 13);
    let demand = small_files().demand(Size::Published, &[4]);
    assert_eq!((demand.space_bytes, demand.files), (200_000_000_000, 400_000));
    // 800 GB at 100 MB/s; 400,000 files four times at 1,000 a second.
    assert_eq!(demand.seconds, 8_000 + 1_600);
    // Each file is synced once, and read in three phases, of which the first is cold.
    assert_eq!((demand.syncs, demand.reads, demand.warm_reads), (400_000, 1_200_000, 800_000));
    assert_eq!((demand.read_bytes, demand.warm_bytes), (600_000_000_000, 400_000_000_000));
    let demand = dummy_files().demand(Size::Published, &[]);
    assert_eq!((demand.written_bytes, demand.read_bytes), (104_857_600_000, 0));
    assert_eq!((demand.syncs, demand.reads, demand.warm_reads), (100_000, 0, 0));
}
