use super::*;
use crate::suites::testing::Bench;

fn tiny(mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        (job.size_bytes, job.runtime_s) = (1 << 20, 1);
    }
    jobs
}

#[test]
fn the_real_fio_is_run_and_read() {
    let bench = Bench::new();
    for (suite, jobs) in
        [("fio-seq", tiny(sequential(Size::Small))), ("fio-rand", tiny(random(Size::Small)))]
    {
        let measured = measure(&bench.run(&[1, 2]), suite, &jobs).unwrap();
        let phases: Vec<_> = jobs.iter().map(|job| job.phase).collect();
        let told: Vec<_> = measured.iter().map(|m| m.phase.as_str()).collect();
        assert_eq!(told, phases.repeat(2));
        for measured in &measured {
            assert_eq!((measured.suite.as_str(), measured.target, measured.repeat), (suite, 3, 1));
            assert!(measured.bytes > 0 && measured.operations > 0 && measured.seconds > 0.0);
            let latency = measured.latency.unwrap();
            assert!(0.0 < latency.p50_us && latency.p50_us <= latency.p999_us, "{latency:?}");
            assert!(latency.p999_us <= latency.max_us, "{latency:?}");
        }
        // What is read or written once is known to the byte.
        for (measured, job) in measured.iter().zip(jobs.iter().cycle()) {
            if !job.time_based && measured.seconds < 0.9 {
                assert_eq!(measured.bytes, u64::from(measured.copies) << 20, "{measured:?}");
            }
        }
        assert_eq!(fs::read_dir(bench.dir()).unwrap().count(), 0, "files are left");
    }
}

#[test]
fn a_time_based_job_has_its_throughput_over_time() {
    let bench = Bench::new();
    let mut jobs = tiny(sequential(Size::Small));
    jobs[0].runtime_s = 2;
    let measured = measure(&bench.run(&[1]), "fio-seq", &jobs[..1]).unwrap();
    assert!(!measured[0].series.is_empty(), "{:?}", measured[0]);
}

#[test]
fn a_write_that_is_not_synced_is_said_to_be_so() {
    let mut bench = Bench::new();
    bench.sync = false;
    let measured = measure(&bench.run(&[1]), "fio-rand", &tiny(random(Size::Small))).unwrap();
    let not_durable = |measured: &Measurement| {
        measured.warnings.iter().any(|warning| matches!(warning, Warning::NotDurable { .. }))
    };
    let told: Vec<_> = measured.iter().map(not_durable).collect();
    assert_eq!(told, [false, true, false]);
}

#[test]
fn where_direct_is_refused_it_goes_through_the_page_cache_and_says_so() {
    let bench = Bench::new();
    let jobs = tiny(random(Size::Small));
    let measured = measure_with(&bench.run(&[1]), "fio-rand", &jobs, false).unwrap();
    let refused = |measured: &Measurement| format!("{:?}", measured.warnings).contains("O_DIRECT");
    let told: Vec<_> = measured.iter().map(refused).collect();
    assert_eq!(told, [false, false, true]);
}

#[test]
fn a_stop_ends_fio_and_all_of_its_jobs() {
    let mut bench = Bench::new();
    bench.stop_in = Some("read");
    let mut jobs = tiny(sequential(Size::Small));
    jobs[0].runtime_s = 600;
    let ended = measure(&bench.run(&[4]), "fio-seq", &jobs);
    assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
    assert_eq!(fs::read_dir(bench.scratch()).unwrap().count(), 0, "its files are left");
    let file = bench.scratch().display().to_string();
    for entry in fs::read_dir("/proc").unwrap() {
        let line = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&file), "fio still runs");
    }
}

#[test]
fn published_jobs_are_those_that_were_published() {
    let run = Bench::new();
    let run = run.run(&[]);
    let text = |job: &Job| job_file(&run, job, JOBS, None);
    let has = |text: &str, lines: &[&str]| {
        for line in lines {
            assert!(text.lines().any(|have| have == *line), "no {line} in\n{text}");
        }
    };
    let [read, write] = sequential(Size::Published)[..] else { panic!("two jobs") };
    has(&text(&read), &["rw=read", "bs=1M", "numjobs=16", "iodepth=32", "ioengine=libaio"]);
    has(&text(&read), &["size=53687091200", "runtime=300", "time_based=1", "direct=1"]);
    has(&text(&write), &["rw=write", "end_fsync=1"]);
    let [small, _, of_2018] = random(Size::Published)[..] else { panic!("three jobs") };
    has(&text(&small), &["rw=randread", "bs=4k", "size=10737418240", "runtime=300", "direct=0"]);
    has(&text(&of_2018), &["bs=16k", "size=1073741824", "runtime=60", "norandommap=1", "direct=1"]);
}

#[test]
fn the_demand_is_that_of_the_files() {
    let demand = Sequential.demand(Size::Small, &[]);
    assert_eq!((demand.space_bytes, demand.files), (256 << 20, 16));
    let demand = Sequential.demand(Size::Small, &[1, 4]);
    assert_eq!((demand.space_bytes, demand.files), (64 << 20, 5));
    assert!(Random.demand(Size::Published, &[]).read_bytes > 16 << 30);
}
