//! Limits and budgets that nodes keep to together.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use weir_engine::testing::{WRITE, World, new_file};
use weir_engine::{Engine, MountOptions, ShareView, Subject, ThroughputChange, ThroughputView};
use weir_throughput::efs::{Mode, Rules};
use weir_types::{Ino, NanoUsd};

/// Longer than a dead node is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
const MIB: u64 = 1 << 20;
const IO: u64 = 64 << 10;

/// One more node of a volume.
pub(crate) struct Node {
    pub(crate) engine: Arc<Engine>,
    runtime: Option<Runtime>,
}

impl Node {
    pub(crate) fn of(world: &World, name: &str) -> Self {
        Self::with(world, name, |_| {})
    }

    /// One whose options are changed so.
    pub(crate) fn with(world: &World, name: &str, change: impl FnOnce(&mut MountOptions)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut options = world.options.clone();
        options.tier = world.path(name);
        change(&mut options);
        let engine = Arc::new(runtime.block_on(Engine::mount(options)).expect("joins"));
        Self { engine, runtime: Some(runtime) }
    }

    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().expect("it runs").block_on(future)
    }

    pub(crate) fn unmount(self) {
        self.run(self.engine.shutdown()).expect("unmounts");
    }

    pub(crate) fn kill(self) {}
}

/// Also where a test fails: its reason is to be seen, and nothing waited for.
impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

/// A volume that nodes share, and its first node.
pub(crate) fn shared() -> World {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.shared = true;
    world.mount().expect("joins");
    world
}

fn spawn(world: &World, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let mut spawned = None;
    world.run(async { spawned = Some(tokio::spawn(work)) });
    spawned.expect("spawned")
}

fn mode(mode: Mode) -> ThroughputChange {
    ThroughputChange { mode: Some(mode), ..ThroughputChange::default() }
}

async fn rule(engine: &Engine) -> ThroughputView {
    let report = engine.throughput().await.expect("reports");
    report.rules.into_iter().find(|rule| rule.name == "/").expect("the volume's")
}

pub(crate) async fn share(engine: &Engine) -> ShareView {
    rule(engine).await.share.unwrap_or(ShareView {
        share: 0.0,
        permitted_bytes_per_s: 0.0,
        credit_bytes: 0.0,
        nodes: 0,
    })
}

pub(crate) async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Writes one place of a file again and again, and counts the bytes.
async fn write_on(engine: Arc<Engine>, ino: Ino, stop: Arc<AtomicBool>, moved: Arc<AtomicU64>) {
    let file = engine.open(ino, WRITE).await.expect("opens");
    let bytes = vec![7; IO as usize];
    while !stop.load(Ordering::Relaxed) {
        engine.write(&file, 0, &bytes).await.expect("writes");
        moved.fetch_add(IO, Ordering::Relaxed);
    }
    engine.close(file).await.expect("closes");
}

#[test]
fn a_limit_holds_for_all_nodes_and_is_of_those_who_need_it() {
    const RATE: u64 = 8 * MIB;
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let (one, two) = world.run(async {
        let make = async |name: &str| {
            engine.create(Ino::ROOT, name.as_bytes(), new_file()).await.expect("creates").ino
        };
        (make("one").await, make("two").await)
    });
    let provisioned = mode(Mode::Provisioned { mib_per_s: (RATE / MIB) as f64 });
    world.run(engine.set_throughput(Subject::VOLUME, "/", provisioned)).expect("sets");
    world.run(wait_until("both have a part", async || {
        share(&engine).await.share > 0.0 && share(&other.engine).await.share > 0.0
    }));
    let (stop, moved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let ours = spawn(&world, write_on(engine.clone(), one, stop.clone(), moved.clone()));
    let writing = write_on(other.engine.clone(), two, stop.clone(), moved.clone());
    let theirs = other.runtime.as_ref().expect("it runs").spawn(writing);
    world.run(wait_until("both have about a half", async || {
        let (a, b) = (share(&engine).await.share, share(&other.engine).await.share);
        a > 0.4 && b > 0.4
    }));
    world.run(async { tokio::time::sleep(Duration::from_secs(3)).await });
    stop.store(true, Ordering::Relaxed);
    world.run(ours).expect("writes");
    other.run(theirs).expect("writes");
    let most = RATE as f64 * (began.elapsed().as_secs_f64() + 2.0 * 0.05) + 4.0 * IO as f64;
    let moved = moved.load(Ordering::Relaxed);
    assert!(moved as f64 <= most, "{moved} bytes of {most}");
    // One writes alone: it gets nearly all of it, though the other is there.
    let stop = Arc::new(AtomicBool::new(false));
    let work = write_on(engine.clone(), one, stop.clone(), Arc::default());
    let work = spawn(&world, work);
    world.run(wait_until("one that works alone has nearly all", async || {
        share(&engine).await.share > 0.9
    }));
    stop.store(true, Ordering::Relaxed);
    world.run(work).expect("writes");
    // Who dies leaves its part to the other.
    other.kill();
    world.run(wait_until("one is left", async || {
        let share = share(&engine).await;
        share.nodes == 1 && share.share > 0.99
    }));
}

#[test]
fn credits_and_money_are_the_volumes_and_outlive_nodes() {
    let mut world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let credits = 64 * MIB;
    let change = ThroughputChange {
        rules: Some(Rules { floor_mib_per_s: 0.001, ..Rules::today() }),
        credit_bytes: Some(credits),
        budget: Some((NanoUsd(12_000_000_000), "us-east-1".to_owned())),
        ..mode(Mode::Bursting)
    };
    world.run(engine.set_throughput(Subject::VOLUME, "/", change)).expect("sets");
    let near = |have: f64, want: u64| (have - want as f64).abs() < 0.05 * MIB as f64;
    world.run(wait_until("both have parts of the credits", async || {
        let (a, b) = (share(&engine).await, share(&other.engine).await);
        a.credit_bytes > 0.0
            && b.credit_bytes > 0.0
            && near(a.credit_bytes + b.credit_bytes, credits)
    }));
    let seen = other.run(rule(&other.engine));
    assert!(near(seen.credit_bytes, credits) && seen.mode == Mode::Bursting, "{seen:?}");
    let report = other.run(other.engine.throughput()).expect("reports");
    let budget = report.budget.expect("the volume's budget");
    assert_eq!(budget.nano_usd_per_hour, NanoUsd(12_000_000_000));
    assert!(budget.share.is_some_and(|share| share > 0.0), "{budget:?}");
    // Another mode keeps the credits of all, not those that the node has which is asked.
    world
        .run(engine.set_throughput(
            Subject::VOLUME,
            "/",
            mode(Mode::Provisioned { mib_per_s: 9.0 }),
        ))
        .expect("sets");
    world.run(wait_until("the other one follows", async || {
        let of_other = rule(&other.engine).await;
        of_other.mode == Mode::Provisioned { mib_per_s: 9.0 }
            && near(of_other.credit_bytes, credits)
    }));
    // One leaves, then the other; a mount that is alone has them again.
    other.unmount();
    world.run(wait_until("one is left", async || {
        let share = share(&engine).await;
        share.nodes == 1 && near(share.credit_bytes, credits)
    }));
    drop(engine);
    world.unmount().expect("unmounts");
    world.mount().expect("joins again");
    let engine = world.engine();
    world.run(wait_until("it has all of it", async || {
        let rule = rule(&engine).await;
        near(rule.credit_bytes, credits) && rule.share.is_some_and(|share| share.share > 0.99)
    }));
    drop(engine);
    world.unmount().expect("unmounts");
    world.options.shared = false;
    world.mount().expect("mounts");
    let alone = world.run(rule(&world.engine()));
    assert!(near(alone.credit_bytes, credits) && alone.share.is_none(), "{alone:?}");
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_rule_of_a_directory_is_followed_until_it_is_removed() {
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let dir = world.run(async {
        let made = engine.create(Ino::ROOT, b"dir", weir_engine::testing::new_dir()).await;
        made.expect("makes").ino
    });
    let subject = Subject::Directory(dir);
    let has = async |engine: &Engine| {
        let report = engine.throughput().await.expect("reports");
        report.rules.into_iter().find(|rule| rule.subject == subject)
    };
    let change = mode(Mode::Provisioned { mib_per_s: 3.0 });
    world.run(engine.set_throughput(subject, "/dir", change)).expect("sets");
    world.run(wait_until("the other one has a part of it", async || {
        let rule = has(&other.engine).await;
        rule.is_some_and(|rule| rule.share.is_some_and(|share| share.share > 0.0))
    }));
    let remove = ThroughputChange { remove: true, ..ThroughputChange::default() };
    other.run(other.engine.set_throughput(subject, "/dir", remove)).expect("removes");
    world.run(wait_until("it is forgotten", async || has(&engine).await.is_none()));
    other.unmount();
}
