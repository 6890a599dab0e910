//! Opening: what may be in the way, and what each is told as.

use super::super::super::Check;
use super::super::super::conformance::put;
use super::super::{connect, schema};
use super::server::{TestServer, free_port};
use super::*;

async fn refused(options: PostgresOptions) -> FsError {
    PostgresKv::open(options).await.err().expect("it opened")
}

fn at(url: PostgresUrl) -> PostgresOptions {
    PostgresOptions { create: true, timeout_ms: 3_000, ..PostgresOptions::new(url, "v") }
}

#[tokio::test]
async fn each_reason_why_a_database_cannot_be_used_is_told() {
    let server = shared();
    let wrong = refused(at(server.url("weir:wrong", "127.0.0.1", "postgres"))).await;
    assert_eq!(wrong.kind(), ErrorKind::Permission, "{wrong}");
    assert!(!format!("{wrong} {wrong:?}").contains("weir:wrong"), "{wrong:?}");
    let nobody = refused(at(server.url("nobody:x", "127.0.0.1", "postgres"))).await;
    assert_eq!(nobody.kind(), ErrorKind::Permission, "{nobody}");
    let nowhere = refused(at(server.url("weir:secret", "127.0.0.1", "nowhere"))).await;
    assert_eq!(nowhere.kind(), ErrorKind::NotFound, "{nowhere}");
    let away = PostgresUrl::parse(&format!("postgres://weir@127.0.0.1:{}/x", free_port())).unwrap();
    let begun = Instant::now();
    let away = refused(PostgresOptions { timeout_ms: 700, ..at(away) }).await;
    assert_eq!(away.kind(), ErrorKind::Retry, "{away}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_nobody_is_waited_for(free_port()).await;
    let none = refused(PostgresOptions { create: false, ..server.volume() }).await;
    assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
    assert!(none.to_string().contains("volumes that it has"), "{none}");
    let volume = PostgresOptions { volume: "a\"b".into(), timeout_ms: 1, ..server.volume() };
    let invalid = refused(volume).await;
    assert_eq!(invalid.kind(), ErrorKind::Invalid);
    assert!(invalid.to_string().contains("timeout_ms is 1"), "{invalid}");
}

async fn assert_nobody_is_waited_for(port: u16) {
    for servers in [format!("127.0.0.1:{port}"), format!("127.0.0.1:{port},127.0.0.1:{port}")] {
        let url = PostgresUrl::parse(&format!("postgres://weir@{servers}/x")).unwrap();
        let (begun, hasty) = (Instant::now(), PostgresOptions { hasty: true, ..at(url) });
        let away = refused(PostgresOptions { timeout_ms: 60_000, ..hasty }).await;
        assert_eq!(away.kind(), ErrorKind::Retry, "{away}");
        assert!(begun.elapsed() < Duration::from_secs(30), "it waits for who does not listen");
    }
}

#[tokio::test]
async fn tls_is_required_and_proven() {
    let (server, plain) = (shared(), TestServer::begin("off"));
    let modes = |mode: &str| format!("postgres?sslmode={mode}");
    let none = refused(at(plain.url("weir:secret", "localhost", &modes("require")))).await;
    assert_eq!(none.kind(), ErrorKind::Invalid, "{none}");
    drop(plain);
    let authority = format!("&sslrootcert={}/authority.pem", server.dir);
    for (host, mode, opens) in [
        ("localhost", "require".to_owned(), true),
        ("localhost", "verify-full".to_owned(), false),
        ("localhost", "verify-full".to_owned() + &authority, true),
        ("127.0.0.1", "verify-full".to_owned() + &authority, false),
        ("127.0.0.1", "verify-ca".to_owned() + &authority, true),
        ("127.0.0.1", "require".to_owned() + &authority, true),
    ] {
        let options = server.volume();
        let url = server.url("weir:secret", host, &modes(&mode));
        let opened = PostgresKv::open(PostgresOptions { url, ..options }).await;
        match opened {
            Ok(kv) => {
                assert!(opens, "{host} {mode}");
                kv.commit(put("a", "1")).await.unwrap();
            }
            Err(error) => {
                assert!(!opens, "{host} {mode}: {error}");
                assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
            }
        }
    }
}

#[tokio::test]
async fn of_two_servers_the_one_that_answers_is_used() {
    let server = shared();
    let text = format!(
        "postgres://weir:secret@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        free_port(),
        server.port
    );
    let url = PostgresUrl::parse(&text).unwrap();
    let kv = open(&PostgresOptions { url, ..server.volume() }).await;
    kv.commit(put("a", "1")).await.unwrap();
    assert!(get(&kv, "a").await.is_some());
}

/// A standby may be behind.
#[tokio::test]
async fn who_only_reads_asks_the_server_that_takes_writes_while_one_does() {
    let (standby, primary) = (TestServer::begin("off"), TestServer::begin("off"));
    let options = primary.volume();
    for (server, value) in [(&standby, "old"), (&primary, "new")] {
        let options = PostgresOptions { url: server.socket_url(), ..options.clone() };
        open(&options).await.commit(put("a", value)).await.unwrap();
    }
    let read_only = "ALTER SYSTEM SET default_transaction_read_only = on";
    let standby_itself = raw(&standby).await;
    standby_itself.execute(read_only, &[]).await.unwrap();
    standby_itself.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    let text = format!(
        "postgres://weir:secret@127.0.0.1:{},127.0.0.1:{}/postgres",
        standby.port, primary.port
    );
    let url = PostgresUrl::parse(&text).unwrap();
    let options = PostgresOptions { url, create: false, read_only: true, ..options };
    assert_eq!(get(&open(&options).await, "a").await.unwrap().value, "new");
    primary.say("kill");
    assert_eq!(get(&open(&options).await, "a").await.unwrap().value, "old");
}

#[tokio::test]
async fn newer_tables_are_refused_and_older_ones_changed_once() {
    let options = shared().volume();
    open(&options).await.commit(put("a", "1")).await.unwrap();
    let place = connect::Place::new(&options);
    let once: &[&str] = &["CREATE TABLE {S}.once (n integer)"];
    let steps = [&schema::STEPS[..], &[once]].concat();
    let each = (0..4).map(|_| async {
        let until = Instant::now() + Duration::from_secs(20);
        let client = place.plain(until).await.map_err(Failed::into_error).unwrap();
        let done = schema::prepare_by(&client.client, &place, false, &steps).await;
        done.map_err(Failed::into_error).unwrap();
    });
    futures::future::join_all(each).await;
    let newer = refused(options.clone()).await;
    assert_eq!(newer.kind(), ErrorKind::Unsupported, "{newer}");
    assert!(newer.to_string().contains("version 6"), "{newer}");
    PostgresKv::remove(&options).await.unwrap();
    PostgresKv::remove(&options).await.unwrap();
    let gone = refused(PostgresOptions { create: false, ..options }).await;
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
}

#[tokio::test]
async fn a_volume_is_made_once_by_many_at_once() {
    let options = shared().volume();
    let kvs = futures::future::join_all((0..4).map(|_| open(&options))).await;
    let commits = kvs.iter().map(|kv| kv.commit(add("n", 1)));
    for done in futures::future::join_all(commits).await {
        done.unwrap();
    }
    assert_eq!(count(&kvs[0], "n").await, 4);
}

#[tokio::test]
async fn who_may_only_select_may_read() {
    let options = shared().volume();
    let writer = open(&options).await;
    writer.commit(put("a", "1")).await.unwrap();
    let (admin, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let texts = format!(
        "CREATE ROLE reader LOGIN PASSWORD 'reads'; GRANT USAGE ON SCHEMA {schema} TO reader;
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader"
    );
    admin.batch_execute(&texts).await.unwrap();
    let url = shared().url("reader:reads", "127.0.0.1", "postgres");
    let mut options = PostgresOptions { url, create: false, ..options };
    let reader = open(&options).await;
    assert!(get(&reader, "a").await.is_some());
    let error = reader.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    options.read_only = true;
    let reader = open(&options).await;
    assert!(get(&reader, "a").await.is_some());
    let error = reader.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

#[tokio::test]
async fn a_guard_that_is_gone_fences() {
    let options = shared().volume();
    let (old, new) = (open(&options).await, open(&options).await);
    let Outcome::Applied(mine) = old.commit(put("writer", "old")).await.unwrap() else {
        panic!("conflict");
    };
    old.set_guard(Some((b"writer".to_vec(), mine)));
    let create = || Commit { checks: vec![Check::Absent(b"b".to_vec())], ..put("b", "1") };
    old.commit(create()).await.unwrap();
    new.commit(put("writer", "new")).await.unwrap();
    for commit in [add("n", 1), create()] {
        let error = old.commit(commit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    }
    assert_eq!(count(&new, "n").await, 0);
    old.set_guard(None);
    old.commit(add("n", 1)).await.unwrap();
}
