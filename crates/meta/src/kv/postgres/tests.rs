//! The engine on a real server, alone and as several nodes.

mod epochs;
mod failures;
mod nodes;
mod open;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};
use weir_types::Result;

use self::server::{TestServer, shared};
use super::super::conformance::{Engine, conformance, get};
use super::super::{CommitLog, Version};
use super::*;

/// A connection of our own, past the engine.
async fn raw(server: &TestServer) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host(&server.dir).port(server.port).user("weir").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(options: &PostgresOptions) -> PostgresKv {
    PostgresKv::open(options.clone()).await.unwrap()
}

fn add(name: &str, n: i64) -> Commit {
    Commit { adds: vec![(name.into(), n)], ..Commit::default() }
}

async fn count(kv: &PostgresKv, name: &str) -> i64 {
    let found = get(kv, name).await.map_or([0; 8], |v| v.value.as_ref().try_into().unwrap());
    i64::from_le_bytes(found)
}

struct Postgres {
    options: PostgresOptions,
}

#[async_trait]
impl Engine for Postgres {
    type Kv = PostgresKv;
    const COUNTS: bool = false;
    const LOGGED: bool = false;
    const KEY_BYTES_MAX: usize = KEY_BYTES_MAX;

    async fn fresh(_: Option<Arc<dyn CommitLog>>) -> (Self, PostgresKv) {
        let options = shared().volume();
        let kv = PostgresKv::open(options.clone()).await.unwrap();
        (Postgres { options }, kv)
    }

    async fn killed(&self) -> PostgresKv {
        PostgresKv::open(self.options.clone()).await.unwrap()
    }

    async fn replay(_: &PostgresKv, _: Version, _: &[u8]) -> Result<bool> {
        unreachable!("there is no log")
    }
}

conformance!(Postgres, without_log);
conformance!(Postgres, only_checkpoints);
