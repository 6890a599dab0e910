//! The engine on a real server, alone and as several nodes.

mod failures;
mod nodes;
mod open;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use weir_types::{ErrorKind, Result};

use self::server::shared;
use super::super::conformance::{Engine, conformance};
use super::super::{CommitLog, Version};
use super::*;

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
