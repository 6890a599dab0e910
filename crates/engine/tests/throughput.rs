//! Throughput rules, budgets and tenants of a mount.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{WRITE, World, create, new_dir, new_file, noise, settings};
use weir_engine::{
    ActionKind, ActionRequest, Engine, OpenFlags, Root, Slowed, Subject, TenantView,
    ThroughputChange, ThroughputReport, ThroughputView, Totals,
};
use weir_throughput::efs::{Date, Mode, Rules};
use weir_types::{Bytes, ErrorKind, Ino, NanoUsd, Settings};

const MIB: u64 = 1 << 20;

fn provisioned(mib_per_s: f64) -> ThroughputChange {
    ThroughputChange { mode: Some(Mode::Provisioned { mib_per_s }), ..ThroughputChange::default() }
}

fn mode(mode: Mode) -> ThroughputChange {
    ThroughputChange { mode: Some(mode), ..ThroughputChange::default() }
}

async fn set(engine: &Engine, change: ThroughputChange) -> ThroughputReport {
    engine.set_throughput(Subject::VOLUME, "/", change).await.expect("sets")
}

async fn make_in(engine: &Arc<Engine>, dir: Ino, name: &str) -> Ino {
    engine.create(dir, name.as_bytes(), new_file()).await.expect("creates").ino
}

async fn dir_in(engine: &Arc<Engine>, dir: Ino, name: &str) -> Ino {
    engine.create(dir, name.as_bytes(), new_dir()).await.expect("makes").ino
}

/// Writes `bytes` at the start of a file as this user, and reads them again.
async fn write_and_read(engine: &Arc<Engine>, ino: Ino, client: u32, bytes: &[u8]) {
    let file = engine.open(ino, OpenFlags { client, ..WRITE }).await.expect("opens");
    engine.write(&file, 0, bytes).await.expect("writes");
    assert_eq!(engine.read(&file, 0, bytes.len()).await.expect("reads"), bytes);
    engine.close(file).await.expect("closes");
}

fn tenant(report: &ThroughputReport, path: &str, client: u32) -> TenantView {
    let found = report.tenants.iter().find(|t| (t.path.as_str(), t.client) == (path, client));
    found.unwrap_or_else(|| panic!("no {path} {client}: {report:?}")).clone()
}

fn rule(report: &ThroughputReport, path: &str) -> ThroughputView {
    report.rules.iter().find(|rule| rule.name == path).expect(path).clone()
}

#[test]
fn what_is_done_is_counted_by_directory_and_user() {
    let mut world = World::new();
    world.run(async {
        let engine = world.engine();
        let a = dir_in(&engine, Ino::ROOT, "a").await;
        let deep = dir_in(&engine, a, "deep").await;
        let b = dir_in(&engine, Ino::ROOT, "b").await;
        let in_a = make_in(&engine, deep, "f").await;
        let in_b = make_in(&engine, b, "f").await;
        let in_root = make_in(&engine, Ino::ROOT, "f").await;
        write_and_read(&engine, in_a, 7, &noise(1, 10_000)).await;
        write_and_read(&engine, in_a, 8, &noise(2, 20_000)).await;
        write_and_read(&engine, in_b, 7, b"12345").await;
        write_and_read(&engine, in_root, 7, b"123").await;
        let report = engine.throughput().await.expect("reports");
        let of = |path, client| {
            let t = tenant(&report, path, client);
            (t.opens, t.writes, t.bytes_written, t.reads, t.bytes_read)
        };
        assert_eq!(of("/a", 7), (1, 1, 10_000, 1, 10_000));
        assert_eq!(of("/a", 8), (1, 1, 20_000, 1, 20_000));
        assert_eq!(of("/b", 7), (1, 1, 5, 1, 5));
        assert_eq!(of("/", 7), (1, 1, 3, 1, 3));
        // A directory that moves takes what is done in it from then on along.
        engine
            .rename((a, b"deep"), (b, b"deep"), weir_engine::RenameMode::Replace)
            .await
            .expect("moves");
        write_and_read(&engine, in_a, 7, b"moved").await;
        let report = engine.throughput().await.expect("reports");
        assert_eq!(tenant(&report, "/b", 7).bytes_written, 10);
        assert_eq!(tenant(&report, "/a", 7).bytes_written, 10_000);
        // Reads count a third in modes with credits, and no I/O less than 4 KiB.
        assert_eq!(rule(&report, "/").mode, Mode::Elastic);
    });
    world.unmount().expect("unmounts");
    world.fsck();
}

/// What was used, once `ready`: totals are looked at once a second.
async fn used_when(engine: &Arc<Engine>, ready: impl Fn(&Totals) -> bool) -> Totals {
    let began = Instant::now();
    loop {
        let used = engine.used_since(None).await.used;
        if ready(&used) {
            return used;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{used:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_lies_in_the_bucket_is_counted_until_it_is_gone() {
    let mut world = World::new();
    world.run(async {
        let engine = world.engine();
        let file = make_in(&engine, Ino::ROOT, "f").await;
        write_and_read(&engine, file, 7, &noise(3, 300_000)).await;
        assert_eq!(engine.used_since(None).await.used.bucket_bytes, 0);
        engine.flush_all().await.expect("flushes");
        let used = used_when(&engine, |used| used.bucket_bytes > 0).await;
        assert!(used.bucket_bytes > 300_000 && used.stored_bytes == 300_000, "{used:?}");
        let status = engine.status().await.expect("tells");
        assert_eq!((status.stored_bytes, status.bucket_bytes), (300_000, Some(used.bucket_bytes)));
        engine.unlink(Ino::ROOT, b"f").await.expect("removes");
        let after = used_when(&engine, |used| used.stored_bytes == 0).await;
        assert_eq!(after.bucket_bytes, used.bucket_bytes);
        let status = engine.status().await.expect("tells");
        assert_eq!(status.billed_bytes(), used.bucket_bytes, "what is dead is billed");
    });
    world.unmount().expect("unmounts");
}

#[test]
fn directories_that_are_no_more_have_one_row_for_each_user() {
    let mut world = World::new();
    world.run(async {
        let engine = world.engine();
        for n in 0..5_u32 {
            let name = format!("tmp{n}");
            let dir = dir_in(&engine, Ino::ROOT, &name).await;
            let file = make_in(&engine, dir, "f").await;
            write_and_read(&engine, file, 7 + n % 2, b"12345").await;
            engine.unlink(dir, b"f").await.expect("removes");
            engine.rmdir(Ino::ROOT, name.as_bytes()).await.expect("removes");
        }
        let report = engine.throughput().await.expect("reports");
        assert_eq!(tenant(&report, "/(removed)", 7).bytes_written, 15);
        assert_eq!(tenant(&report, "/(removed)", 8).bytes_written, 10);
        let rows = report.tenants.iter().filter(|of| of.path.contains("removed")).count();
        assert_eq!(rows, 2, "{report:?}");
    });
    world.unmount().expect("unmounts");
}

#[test]
fn a_rule_holds_for_its_directory_and_over_mounts() {
    let mut world = World::new();
    let (a, file) = world.run(async {
        let engine = world.engine();
        let a = dir_in(&engine, Ino::ROOT, "a").await;
        let inner = dir_in(&engine, a, "inner").await;
        let gone = dir_in(&engine, Ino::ROOT, "gone").await;
        let file = make_in(&engine, inner, "f").await;
        for (dir, path) in [(a, "/a"), (inner, "/a/inner"), (gone, "/gone")] {
            engine
                .set_throughput(Subject::Directory(dir), path, provisioned(500.0))
                .await
                .expect("sets");
        }
        let credits = ThroughputChange { credit_bytes: Some(5 << 30), ..mode(Mode::Bursting) };
        set(&engine, credits).await;
        write_and_read(&engine, file, 7, &noise(1, MIB as usize)).await;
        let report = engine.throughput().await.expect("reports");
        // The write, and a third of the read.
        let metered = MIB + MIB / 3;
        for path in ["/", "/a", "/a/inner"] {
            assert!(rule(&report, path).metered_bytes.abs_diff(metered) <= 2, "{report:?}");
        }
        assert_eq!(rule(&report, "/gone").metered_bytes, 0);
        assert_eq!(tenant(&report, "/a/inner", 7).bytes_written, MIB);
        // A user's rule holds wherever it works, and for nobody else.
        let user = Subject::Client(7);
        engine.set_throughput(user, "user 7", provisioned(500.0)).await.expect("sets");
        write_and_read(&engine, file, 8, b"other").await;
        write_and_read(&engine, file, 7, b"its own").await;
        let report = engine.throughput().await.expect("reports");
        // 4 KiB at least, and a third of them.
        assert!(rule(&report, "user 7").metered_bytes.abs_diff(4096 + 1365) <= 2, "{report:?}");
        engine.rmdir(Ino::ROOT, b"gone").await.expect("removes");
        (a, file)
    });
    world.unmount().expect("unmounts");
    world.fsck();
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let report = engine.throughput().await.expect("reports");
        let paths: Vec<_> = report.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(paths, ["/", "/a", "/a/inner", "user 7"]);
        let volume = rule(&report, "/");
        assert_eq!(volume.mode, Mode::Bursting);
        let credits = 5.0 * (1 << 30) as f64;
        // They grew by a MiB a second at least and shrank by what was metered.
        assert!((volume.credit_bytes - credits).abs() < 100e6, "{volume:?}");
        let removed = ThroughputChange { remove: true, ..ThroughputChange::default() };
        engine.set_throughput(Subject::Directory(a), "/a", removed).await.expect("removes");
        write_and_read(&engine, file, 7, b"1").await;
        assert_eq!(volume.rules_until, None);
        let of_2018 = Rules::on(Date { year: 2018, month: 9, day: 1 });
        set(&engine, ThroughputChange { rules: Some(of_2018), ..mode(Mode::Bursting) }).await;
    });
    world.kill();
    world.mount().expect("mounts");
    let report = world.run(async { world.engine().throughput().await.expect("reports") });
    let paths: Vec<_> = report.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(paths, ["/", "/a/inner", "user 7"]);
    let until = Date { year: 2020, month: 6, day: 30 };
    assert_eq!(rule(&report, "/").rules_until, Some(until), "old rules are seen, also later");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn bad_rules_are_refused() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let file = make_in(&engine, Ino::ROOT, "f").await;
        let kind = async |ino, change| {
            engine
                .set_throughput(Subject::Directory(ino), "/x", change)
                .await
                .expect_err("refused")
                .kind()
        };
        assert_eq!(kind(file, provisioned(1.0)).await, ErrorKind::Invalid);
        assert_eq!(kind(Ino(999), provisioned(1.0)).await, ErrorKind::NotFound);
        for mib_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(kind(Ino::ROOT, provisioned(mib_per_s)).await, ErrorKind::Invalid);
        }
        let budget = |usd: i64, region: &str| ThroughputChange {
            budget: Some((NanoUsd(usd), region.to_owned())),
            ..ThroughputChange::default()
        };
        assert_eq!(kind(Ino::ROOT, budget(1, "moon-1")).await, ErrorKind::Invalid);
        let locked = Rules { lock_ms: Some(86_400_000), ..Rules::today() };
        let locked = ThroughputChange { rules: Some(locked), ..provisioned(10.0) };
        set(&engine, locked).await;
        assert_eq!(kind(Ino::ROOT, mode(Mode::Elastic)).await, ErrorKind::Permission);
        assert_eq!(kind(Ino::ROOT, provisioned(9.0)).await, ErrorKind::Permission);
        set(&engine, provisioned(11.0)).await;
    });
}

#[test]
fn below_a_limit_nothing_is_lent() {
    let settings = Settings { passthrough_least_bytes: Bytes(1), ..settings() };
    let world = World::with(settings, None);
    world.run(async {
        let engine = world.engine();
        let ino = create(&engine, "f", &noise(1, 100_000)).await;
        engine.fsync(ino).await.expect("syncs");
        let lends = async || {
            let file = engine.open(ino, OpenFlags::default()).await.expect("opens");
            let lent = file.passthrough().expect("lends");
            if lent.is_some() {
                file.end_passthrough(0).expect("takes back");
            }
            engine.close(file).await.expect("closes");
            lent.is_some()
        };
        assert!(lends().await);
        set(&engine, mode(Mode::Bursting)).await;
        assert!(!lends().await);
        set(&engine, mode(Mode::Elastic)).await;
        assert!(lends().await);
        let exact = ThroughputChange { exact: Some(true), ..ThroughputChange::default() };
        let report = set(&engine, exact).await;
        assert!(!lends().await && rule(&report, "/").sees_all);
        let report = engine.throughput().await.expect("reports");
        assert_eq!(tenant(&report, "/", 0).opens_unmetered, 2);
    });
}

/// Writes 64 KiB again and again with this many at once, until told to stop; answers how often.
async fn write_on(
    engine: Arc<Engine>,
    ino: Ino,
    client: u32,
    many: usize,
    stop: Arc<AtomicBool>,
) -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..many as u64 {
        let (engine, done, stop) = (engine.clone(), done.clone(), stop.clone());
        tasks.spawn(async move {
            let file = engine.open(ino, OpenFlags { client, ..WRITE }).await.expect("opens");
            while !stop.load(Ordering::Relaxed) {
                engine.write(&file, at << 16, &[1; 65_536]).await.expect("writes");
                done.fetch_add(1, Ordering::Relaxed);
            }
            engine.close(file).await.expect("closes");
        });
    }
    tasks.join_all().await;
    done.load(Ordering::Relaxed)
}

#[test]
fn one_greedy_job_does_not_starve_another() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let (one, other) =
            (make_in(&engine, Ino::ROOT, "one").await, make_in(&engine, Ino::ROOT, "other").await);
        set(&engine, provisioned(8.0)).await;
        // Bursts would hide the limit.
        let none = ThroughputChange { credit_bytes: Some(0), ..ThroughputChange::default() };
        set(&engine, none).await;
        let stop = Arc::new(AtomicBool::new(false));
        let greedy = tokio::spawn(write_on(engine.clone(), one, 1, 64, stop.clone()));
        let modest = tokio::spawn(write_on(engine.clone(), other, 2, 1, stop.clone()));
        tokio::time::sleep(Duration::from_secs(3)).await;
        stop.store(true, Ordering::Relaxed);
        let (greedy, modest) = (greedy.await.expect("ends"), modest.await.expect("ends"));
        // One at a time it cannot have all of its half.
        assert!(modest * 4 > greedy, "greedy {greedy}, modest {modest}");
        let report = engine.throughput().await.expect("reports");
        assert_eq!(rule(&report, "/").waiting, 0);
        assert!(tenant(&report, "/", 1).waited_ms > 1_000);
    });
}

#[test]
fn nobody_is_faster_than_the_limit_and_a_change_is_felt_at_once() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let ino = make_in(&engine, Ino::ROOT, "f").await;
        set(&engine, provisioned(4.0)).await;
        let none = ThroughputChange { credit_bytes: Some(0), ..ThroughputChange::default() };
        set(&engine, none).await;
        let file = engine.open(ino, WRITE).await.expect("opens");
        let began = Instant::now();
        for at in 0..8 {
            engine.write(&file, at * MIB, &noise(at, MIB as usize)).await.expect("writes");
        }
        let took_s = began.elapsed().as_secs_f64();
        // 8 MiB at 4 MiB/s, but for what may go ahead.
        assert!(took_s > 1.6, "{took_s} s");
        // Nobody waits for hours because the limit was low when he came: 1 MiB at 1 KiB a second.
        let slow = Subject::Client(0);
        engine.set_throughput(slow, "user 0", provisioned(0.001)).await.expect("sets");
        let none = ThroughputChange { credit_bytes: Some(0), ..ThroughputChange::default() };
        engine.set_throughput(slow, "user 0", none).await.expect("sets");
        let late = || {
            let (engine, file) = (engine.clone(), file.clone());
            tokio::spawn(async move { engine.write(&file, 0, &[1; MIB as usize]).await })
        };
        let in_time = async |late: tokio::task::JoinHandle<weir_types::Result<usize>>| {
            let written = tokio::time::timeout(Duration::from_secs(60), late).await;
            assert_eq!(written.expect("in time").expect("ends").expect("writes"), MIB as usize);
        };
        in_time(late()).await;
        for change in [
            mode(Mode::Elastic),
            ThroughputChange { rules: Some(Rules::today()), ..mode(Mode::Elastic) },
            ThroughputChange { remove: true, ..ThroughputChange::default() },
        ] {
            engine.set_throughput(slow, "user 0", provisioned(0.001)).await.expect("sets");
            // The first one goes ahead, the second pays for it.
            let (first, second) = (late(), late());
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(!(first.is_finished() && second.is_finished()), "a thousand seconds' worth");
            engine.set_throughput(slow, "user 0", change).await.expect("sets");
            in_time(first).await;
            in_time(second).await;
        }
        engine.close(file).await.expect("closes");
    });
}

#[test]
fn a_budget_stops_hydration_before_it_slows_readers() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let mut inos = Vec::new();
        for n in 0..40 {
            inos.push(create(&engine, &format!("f{n}"), &noise(n, MIB as usize)).await);
        }
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        // Five minutes' worth is 120 GETs.
        let budget = |nano: i64| ThroughputChange {
            budget: Some((NanoUsd(nano), "us-east-1".to_owned())),
            ..ThroughputChange::default()
        };
        set(&engine, budget(120 * 400 * 12)).await;
        let slowed =
            async || engine.throughput().await.expect("reports").budget.expect("set").slowed;
        // The metadata's own PUTs, 12 GETs' worth each, and these reads use it up.
        let began = Instant::now();
        let mut stages = vec![slowed().await];
        while *stages.last().expect("one") < Slowed::Hydration {
            assert!(began.elapsed() < Duration::from_secs(60), "{stages:?}");
            let more = create(&engine, &format!("more{}", stages.len()), b"1").await;
            engine.fsync(more).await.expect("syncs");
            stages.push(slowed().await);
        }
        let roots = vec![Root { ino: Ino::ROOT, path: ".".to_owned() }];
        let kind = ActionKind::Hydrate;
        let request =
            ActionRequest { kind, roots, recursive: true, max_bytes_per_s: None, restore: None };
        let id = engine.start_action(request).await.expect("starts").id;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let view = engine.actions().await.expect("lists").into_iter().find(|a| a.id == id);
        assert!(view.expect("there").ended_unix_ms.is_none(), "hydration waits");
        // When all is gone, who waits for bytes gets them late, one after the other.
        while *stages.last().expect("one") < Slowed::Demand {
            assert!(began.elapsed() < Duration::from_secs(120), "{stages:?}");
            engine.flush_all().await.expect("flushes");
            let more = make_in(&engine, Ino::ROOT, &format!("dear{}", stages.len())).await;
            engine.fsync(more).await.expect("syncs");
            stages.push(slowed().await);
        }
        let mut readers = tokio::task::JoinSet::new();
        for ino in inos.iter().take(30).copied() {
            let engine = engine.clone();
            readers.spawn(async move {
                let file = engine.open(ino, OpenFlags::default()).await.expect("opens");
                assert_eq!(engine.read(&file, 0, 10).await.expect("reads").len(), 10);
                engine.close(file).await.expect("closes");
            });
        }
        readers.join_next().await.expect("one goes on").expect("reads");
        assert!(readers.len() > 10, "the others wait");
        set(&engine, budget(0)).await;
        assert_eq!(engine.throughput().await.expect("reports").budget, None);
        let began = Instant::now();
        loop {
            let view = engine.actions().await.expect("lists").into_iter().find(|a| a.id == id);
            if view.expect("there").ended_unix_ms.is_some() {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it goes on without a budget");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        readers.join_all().await;
    });
}
