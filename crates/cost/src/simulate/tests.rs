use weir_throughput::efs;
use weir_throughput::fsx::Deployment;

use super::*;

const TIB: u64 = 1 << 40;

fn machine() -> Machine {
    Machine {
        instance: "i4i.8xlarge".to_owned(),
        vcpu: 32,
        memory_gib: 256.0,
        network_gbps: (18.75, 18.75),
        nvme_bytes: 7_500_000_000_000,
        ebs_mb_per_s: 1250.0,
    }
}

fn reads(bytes: u64) -> Workload {
    Workload {
        name: String::new(),
        data_set_bytes: bytes,
        cold_bytes: 0,
        archive_bytes: 0,
        files: 1,
        read_bytes_per_run: bytes,
        write_bytes_per_run: 0,
        io_bytes: 1 << 20,
        random: false,
        files_per_run: 0,
        runs_per_day: 1.0,
        concurrency: 1,
        threads: 1,
        cpu_seconds: 0.0,
        region: "us-east-1".to_owned(),
    }
}

fn run(storage: &Storage, workload: &Workload) -> Prediction {
    predict(storage, workload, &machine(), &FreeParameters::default())
}

#[track_caller]
fn close(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.01, "{value} is not {expected}");
}

#[test]
fn bursting_depends_on_how_often_it_runs() {
    let storage = Storage::Efs { mode: efs::Mode::Bursting };
    let daily = Workload { read_bytes_per_run: 3 * TIB, ..reads(TIB) };
    // 1 TiB metered at 100 MiB/s; 4.1 TiB of credits are earned in a day.
    close(run(&storage, &daily).seconds, 1_048_576.0 / 100.0);
    assert_eq!(run(&storage, &daily).bound_by, Bound::Mode);
    // Eight times a day it takes 8 TiB, and 50 MiB/s are 4.1 TiB.
    let often = run(&storage, &Workload { runs_per_day: 8.0, ..daily.clone() });
    close(often.seconds, 1_048_576.0 / 50.0);
    assert_eq!(often.bound_by, Bound::Credits);
    close(often.first_run_seconds, 1_048_576.0 / 100.0);
    // Four times, the credits earned between two runs count.
    let idle = run(&storage, &Workload { runs_per_day: 4.5, ..daily });
    assert!(idle.seconds > 1_048_576.0 / 100.0 && idle.seconds < 1_048_576.0 / 50.0);
}

#[test]
fn a_data_set_that_fits_in_memory_is_read_once() {
    let storage = Storage::Efs { mode: efs::Mode::Elastic };
    let four = |bytes| Workload { concurrency: 4, ..reads(bytes) };
    assert_eq!(run(&storage, &four(100 << 30)).read_bytes, (100_u64 << 30) as f64);
    assert_eq!(run(&storage, &four(300 << 30)).read_bytes, 4.0 * (300_u64 << 30) as f64);
}

#[test]
fn computing_overlaps_with_a_stream_and_adds_to_faults() {
    let storage = Storage::Gp3 { size_gib: 1000, iops: 8000, mib_per_s: 500 };
    let stream = Workload { cpu_seconds: 1000.0, ..reads(500 << 30) };
    close(run(&storage, &stream).seconds, 1024.0);
    assert_eq!(run(&storage, &stream).bound_by, Bound::Disk);
    let faults = Workload { random: true, threads: 32, cpu_seconds: 32_000.0, ..stream };
    close(run(&storage, &faults).seconds, 1024.0 + 1000.0);
    // 4 KiB at a time, it is the IOPS.
    let small = Workload { io_bytes: 4096, cpu_seconds: 0.0, ..faults };
    close(run(&storage, &small).seconds, f64::from(500 << 18) / 8000.0);
    assert_eq!(run(&storage, &small).bound_by, Bound::Requests);
    // One thread waits for each of them.
    let one = Workload { threads: 1, ..small };
    assert_eq!(run(&storage, &one).bound_by, Bound::Latency);
}

#[test]
fn first_runs_load() {
    let bytes = 2_000_000_000_000;
    let lustre = |lazy| Storage::FsxLustre {
        deployment: Deployment::Persistent2_1000,
        capacity_gib: 1200,
        lazy,
    };
    let lazy = run(&lustre(true), &reads(bytes));
    assert_eq!((lazy.bound_by, lazy.first_bound_by), (Bound::Disk, Bound::Load));
    assert!(lazy.first_run_seconds > 4.0 * lazy.seconds);
    let loaded = run(&lustre(false), &reads(bytes));
    assert_eq!(loaded.seconds, loaded.first_run_seconds);

    // Weir's first run is as fast as the network, and then as the disks; a copy is made before.
    let weir = run(&Storage::Weir { warm: false }, &reads(bytes));
    close(weir.first_run_seconds, 2e12 / (18.75e9 / 8.0));
    assert_eq!((weir.bound_by, weir.first_bound_by), (Bound::Disk, Bound::Network));
    let warm = run(&Storage::Weir { warm: true }, &reads(bytes));
    assert_eq!(warm.first_run_seconds, weir.seconds);
    let copied = run(&Storage::InstanceStore, &reads(bytes));
    assert_eq!(copied.seconds, weir.seconds);
    assert!(copied.first_run_seconds > weir.first_run_seconds);
}

#[test]
fn a_data_set_larger_than_the_tier_comes_from_the_bucket_in_part() {
    let small = run(&Storage::Weir { warm: true }, &reads(7_000_000_000_000));
    let large = run(&Storage::Weir { warm: true }, &reads(75_000_000_000_000));
    assert_eq!((small.bound_by, large.bound_by), (Bound::Disk, Bound::Network));
    close(large.seconds, 75e12 * 0.9 / (18.75e9 / 8.0));
}

#[test]
fn names_have_their_limit() {
    let storage = Storage::FsxLustre {
        deployment: Deployment::Persistent2_1000,
        capacity_gib: 1200,
        lazy: false,
    };
    let files = Workload {
        files: 1_000_000,
        files_per_run: 1_000_000,
        threads: 512,
        ..reads(1_000_000 * 4096)
    };
    let prediction = run(&storage, &files);
    // 1,500 metadata IOPS open and close 1,500 files a second.
    close(prediction.seconds, 1_000_000.0 / 1500.0);
    assert_eq!(prediction.bound_by, Bound::Metadata);
    // But not its I/Os: a few large files in small ones are a stream.
    let few = Workload { files: 10, files_per_run: 10, io_bytes: 4096, ..reads(10 << 30) };
    let large = Workload { io_bytes: 1 << 20, ..few.clone() };
    assert_eq!(run(&storage, &few).seconds, run(&storage, &large).seconds);
}

#[test]
fn writes_go_to_memory_before_they_wait_for_the_disk() {
    let storage = Storage::Gp3 { size_gib: 1000, iops: 3000, mib_per_s: 125 };
    let write =
        |gib: u64| Workload { read_bytes_per_run: 0, write_bytes_per_run: gib << 30, ..reads(TIB) };
    // 15% of 256 GiB.
    assert_eq!(run(&storage, &write(38)).seconds, 0.0);
    close(run(&storage, &write(138)).seconds, (138.0 - 38.4) * 1024.0 / 125.0);
}

#[test]
fn tiny_files_are_metered_at_four_kibibytes() {
    let storage = Storage::Efs { mode: efs::Mode::Provisioned { mib_per_s: 10.0 } };
    let files = Workload {
        read_bytes_per_run: 0,
        write_bytes_per_run: 100_000 * 1024,
        files_per_run: 100_000,
        threads: 1000,
        ..reads(1 << 30)
    };
    close(run(&storage, &files).seconds, 100_000.0 * 4.0 / 10_240.0);
}

#[test]
fn small_files_wait_one_by_one_and_then_queue() {
    let storage = Storage::Efs { mode: efs::Mode::Provisioned { mib_per_s: 100.0 } };
    let files = |threads| Workload {
        read_bytes_per_run: 0,
        write_bytes_per_run: 10_000 * 500_000,
        files_per_run: 10_000,
        threads,
        ..reads(TIB)
    };
    let (one, four, many) =
        (run(&storage, &files(1)), run(&storage, &files(4)), run(&storage, &files(200)));
    assert_eq!((one.bound_by, many.bound_by), (Bound::Latency, Bound::Mode));
    assert!(one.seconds / four.seconds > 3.0 && one.seconds / four.seconds < 4.0);
    close(many.seconds, 5e9 / (100.0 * 1_048_576.0));
}
