//! How fast metadata in PostgreSQL is: `postgres URL [SECONDS]`. Makes a volume and removes it again.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement at a terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use weir_meta::kv::{Check, Checkpoints, Commit, Kv, PostgresKv, PostgresOptions, PostgresUrl};

/// A create: a name that must not be there, its parent checked, two rows put, a counter.
fn create(caller: u64, n: u64) -> Commit {
    let name = format!("D{caller:04}-{n:08}").into_bytes();
    let inode = format!("I{caller:04}-{n:08}").into_bytes();
    Commit {
        checks: vec![Check::Absent(name.clone())],
        puts: vec![(name, vec![1; 9].into()), (inode, vec![2; 120].into())],
        adds: vec![(b"Cinodes".to_vec(), 1)],
        ..Commit::default()
    }
}

async fn commits(options: &PostgresOptions, callers: u64, span: Duration) {
    let kv = Arc::new(PostgresKv::open(options.clone()).await.unwrap());
    kv.commit(create(9_999, 0)).await.unwrap();
    let (done, until) = (Arc::new(AtomicU64::new(0)), Instant::now() + span);
    let tasks = (0..callers).map(|caller| {
        let (kv, done) = (Arc::clone(&kv), Arc::clone(&done));
        tokio::spawn(async move {
            let mut n = 0;
            while Instant::now() < until {
                kv.commit(create(caller, n)).await.unwrap();
                n += 1;
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let rate = done.load(Ordering::Relaxed) as f64 / span.as_secs_f64();
    println!("{callers:>3} callers, group {:>5}: {rate:>8.0} commits/s", options.group);
    kv.close().await.unwrap();
}

/// First changes of rows, each of its own, with and without a state that is kept and has them as they were.
async fn changes(options: &PostgresOptions, callers: u64, each: u64) {
    let kv = Arc::new(PostgresKv::open(options.clone()).await.unwrap());
    for caller in 0..callers {
        let puts =
            (0..each).map(|n| (format!("I{caller:04}-{n:08}").into_bytes(), vec![1; 120].into()));
        kv.commit(Commit { puts: puts.collect(), ..Commit::default() }).await.unwrap();
    }
    for kept in [false, true] {
        let begun = Instant::now();
        if kept {
            kv.keep("speed").await.unwrap();
        }
        let took = begun.elapsed();
        let begun = Instant::now();
        let tasks = (0..callers).map(|caller| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for n in 0..each {
                    let key = format!("I{caller:04}-{n:08}").into_bytes();
                    let commit =
                        Commit { puts: vec![(key, vec![2; 120].into())], ..Commit::default() };
                    kv.commit(commit).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let rate = (callers * each) as f64 / begun.elapsed().as_secs_f64();
        println!("{callers:>3} callers, kept {kept:>5} (in {took:?}): {rate:>8.0} first changes/s");
    }
    kv.close().await.unwrap();
}

async fn reads(options: &PostgresOptions) {
    let kv = PostgresKv::open(options.clone()).await.unwrap();
    for keys in [1, 16, 256] {
        let keys: Vec<_> = (0..keys).map(|n| format!("I0000-{n:08}").into_bytes()).collect();
        let mut took = Vec::new();
        for _ in 0..500 {
            let begun = Instant::now();
            kv.get_many(&keys).await.unwrap();
            took.push(begun.elapsed());
        }
        took.sort();
        println!("get_many of {:>3} keys: p50 {:?}, p99 {:?}", keys.len(), took[250], took[495]);
    }
    kv.close().await.unwrap();
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let url = PostgresUrl::parse(&words.next().expect("a URL")).unwrap();
    let span = Duration::from_secs(words.next().map_or(3, |text| text.parse().unwrap()));
    let options = PostgresOptions::new(url, format!("speed-{}", std::process::id()));
    let mut options = PostgresOptions { create: true, ..options };
    for group in [true, false] {
        options.group = group;
        for callers in [1, 16] {
            PostgresKv::remove(&options).await.unwrap();
            commits(&options, callers, span).await;
        }
    }
    reads(&options).await;
    for callers in [1, 16] {
        PostgresKv::remove(&options).await.unwrap();
        changes(&options, callers, 2_000).await;
    }
    PostgresKv::remove(&options).await.unwrap();
}
