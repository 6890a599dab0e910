//! Servers that end, answers that are lost, transactions that others get in the way of.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::super::Check;
use super::super::super::conformance::{key, put};
use super::server::TestServer;
use super::*;

/// Stands between engine and server, and cuts the connection at a COMMIT.
struct Proxy {
    port: u16,
    /// Cut at the next COMMIT.
    armed: AtomicBool,
    /// Once the server has it; else before.
    after: AtomicBool,
    cuts: AtomicUsize,
}

impl Proxy {
    async fn begin(server: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            armed: AtomicBool::new(false),
            after: AtomicBool::new(false),
            cuts: AtomicUsize::new(0),
        });
        let serves = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // The client is told by the end of its connection, and tries again.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
                    continue;
                };
                tokio::spawn(Arc::clone(&serves).forward(client, server));
            }
        });
        proxy
    }

    async fn forward(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) {
        let (mut sent, mut got) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut sent) => {
                    let Ok(len @ 1..) = read else { return };
                    let commits = sent[..len].windows(7).any(|w| w == b"COMMIT\0");
                    let cut = commits && self.armed.swap(false, Ordering::SeqCst);
                    if cut {
                        self.cuts.fetch_add(1, Ordering::SeqCst);
                    }
                    if cut && !self.after.load(Ordering::SeqCst) {
                        return;
                    }
                    if server.write_all(&sent[..len]).await.is_err() {
                        return;
                    }
                    if cut {
                        // Its answer says that it is committed, and gets lost.
                        loop {
                            let len = server.read(&mut got).await.unwrap();
                            if len == 0 || got[..len].windows(7).any(|w| w == b"COMMIT\0") {
                                return;
                            }
                        }
                    }
                }
                read = server.read(&mut got) => {
                    let Ok(len @ 1..) = read else { return };
                    if client.write_all(&got[..len]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_settled() {
    let proxy = Proxy::begin(shared().port).await;
    let url = format!("postgres://weir:secret@127.0.0.1:{}/postgres", proxy.port);
    let url = PostgresUrl::parse(&url).unwrap();
    let kv = open(&PostgresOptions { url, ..shared().volume() }).await;
    for round in 1..=8 {
        proxy.after.store(round % 2 == 0, Ordering::SeqCst);
        proxy.armed.store(round > 2, Ordering::SeqCst);
        let name = format!("f{round}");
        let commit = Commit {
            checks: vec![Check::Absent(key(&name))],
            adds: vec![(key("n"), 1)],
            ..put(&name, "x")
        };
        let Outcome::Applied(version) = kv.commit(commit).await.unwrap() else {
            panic!("round {round}: it met itself");
        };
        assert_eq!(get(&kv, &name).await.unwrap().version, version);
        assert_eq!(count(&kv, "n").await, round);
    }
    assert_eq!(proxy.cuts.load(Ordering::SeqCst), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_loses_nothing_that_was_acknowledged() {
    let server = TestServer::begin("off");
    let kv = open(&PostgresOptions { timeout_ms: 15_000, ..server.volume() }).await;
    let hasty = PostgresOptions { timeout_ms: 300, create: true, ..server.volume() };
    let hasty = open(&hasty).await;
    let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let writer = async |name: &str| {
        let mut made = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let name = format!("{name}{}", made.len());
            let checks = vec![Check::Absent(key(&name))];
            let commit = Commit { checks, adds: vec![(key("n"), 1)], ..put(&name, "x") };
            assert_ne!(kv.commit(commit).await.unwrap(), Outcome::Conflict, "{name}");
            made.push(name);
            done.fetch_add(1, Ordering::SeqCst);
        }
        made
    };
    let past = async |n| {
        while done.load(Ordering::SeqCst) < n {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let crash = async {
        past(20).await;
        server.say("kill");
        let before = done.load(Ordering::SeqCst);
        let begun = Instant::now();
        for error in [hasty.commit(put("a", "1")).await.err(), hasty.scan(b"", None, 1).await.err()]
        {
            assert_eq!(error.unwrap().kind(), ErrorKind::Retry);
        }
        assert!(begun.elapsed() < Duration::from_secs(6));
        server.say("start");
        past(before + 20).await;
        stop.store(true, Ordering::SeqCst);
    };
    let (one, two, ()) = futures::join!(writer("a"), writer("b"), crash);
    let found = kv.scan(b"", None, usize::MAX).await.unwrap();
    let mut names: Vec<_> = one.into_iter().chain(two).map(String::into_bytes).collect();
    names.push(key("n"));
    names.sort();
    assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), names);
    assert_eq!(count(&kv, "n").await, names.len() as i64 - 1);
}

#[tokio::test]
async fn what_the_server_asks_to_be_done_again_is() {
    let options = shared().volume();
    let kv = open(&options).await;
    let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let storm = |n: u32| {
        format!(
            "CREATE SEQUENCE {schema}.tries;
             CREATE FUNCTION {schema}.storm() RETURNS trigger AS $$ BEGIN
                 IF nextval('{schema}.tries') % {n} <> 0 THEN
                     RAISE EXCEPTION 'storm' USING ERRCODE = '40001';
                 END IF; RETURN NEW; END $$ LANGUAGE plpgsql;
             CREATE TRIGGER storm BEFORE INSERT ON {schema}.kv
                 FOR EACH ROW EXECUTE FUNCTION {schema}.storm()"
        )
    };
    let calm = format!("DROP SEQUENCE {schema}.tries; DROP FUNCTION {schema}.storm CASCADE");
    other.batch_execute(&storm(3)).await.unwrap();
    for n in 0..6 {
        kv.commit(put(&format!("f{n}"), "1")).await.unwrap();
    }
    other.batch_execute(&calm).await.unwrap();
    other.batch_execute(&storm(1_000)).await.unwrap();
    let error = kv.commit(put("never", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    other.batch_execute(&calm).await.unwrap();
    kv.commit(put("now", "1")).await.unwrap();
    assert_eq!(kv.scan(b"", None, 99).await.unwrap().len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_is_cut_off_leaves_all_or_nothing() {
    let kv = Arc::new(open(&shared().volume()).await);
    for n in 0..30 {
        let kv = Arc::clone(&kv);
        let commit = Commit { adds: vec![(key("n"), 1)], ..put(&format!("f{n:02}"), "1") };
        let caller = tokio::spawn(async move { kv.commit(commit).await });
        tokio::time::sleep(Duration::from_micros(n * 40)).await;
        caller.abort();
        let _ = caller.await;
    }
    kv.commit(put("end", "1")).await.unwrap();
    kv.close().await.unwrap();
    let made = kv.scan(b"f", None, 99).await.unwrap().len() as i64;
    assert_eq!(count(&kv, "n").await, made);
}
