//! States that are kept, by epochs.
//!
//! What is committed up to the end of an epoch is a state. Each commit is of one epoch, which its lane's
//! row says, so to end an epoch is to set that of all lanes: it waits for the commits that are under way,
//! and those behind it see that theirs is over. A lane that is made meanwhile has to read the epoch, and
//! that row is locked as long as one ends.
//!
//! A row that is changed for the first time since a state was kept is noted in the table of the past, as it
//! was, with the epochs in which it was so: from the one that it was changed in to the one that ended it. So
//! a state costs what is changed after it, and to keep one costs nothing. What no kept state has of the past
//! is removed when one is let go.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use tokio_postgres::Client;
use weir_types::{ErrorKind, FsError, Result};

use super::super::contract::{
    CheckpointId, Checkpoints, Commit, Followed, Key, Kv, Outcome, Version, Versioned,
};
use super::connect::Place;
use super::error::{Failed, failed};
use super::reads::{Readers, not_kept};
use super::{PostgresKv, in_time, sql};

/// Rows of the past looked at in one statement.
const PAGE: i64 = 10_000;

impl PostgresKv {
    fn check_may_keep(&self) -> Result<()> {
        match self.read_only {
            false => Ok(()),
            true => {
                let text = "the metadata was opened to be read only";
                Err(FsError::new(ErrorKind::ReadOnly, text))
            }
        }
    }

    /// A place to work at, and how long.
    fn place(&self) -> (&Arc<Place>, Duration) {
        (&self.lanes.shared.node.place, self.timeout)
    }
}

#[async_trait]
impl Checkpoints for PostgresKv {
    async fn keep(&self, name: &str) -> Result<CheckpointId> {
        self.check_may_keep()?;
        let (place, timeout) = self.place();
        let insert = format!("INSERT INTO {}.kept (epoch, name) VALUES ($1, $2)", place.schema);
        let epoch = in_time(&place.url, timeout, |until| {
            let insert = &insert;
            async move {
                let client = place.plain(until).await?.client;
                next_epoch(&client, place, async |epoch| {
                    client.execute(insert, &[&epoch, &name]).await.map(drop)
                })
                .await
            }
            .boxed()
        });
        Ok(id_of(epoch.await?))
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        let (place, timeout) = self.place();
        let list = format!("SELECT epoch, name FROM {}.kept ORDER BY epoch", place.schema);
        let rows = in_time(&place.url, timeout, |until| {
            let list = &list;
            async move {
                let client = place.plain(until).await?.client;
                let rows = client.query(list, &[]).await;
                rows.map_err(|error| failed("list the states that are kept", error))
            }
            .boxed()
        });
        Ok(rows.await?.iter().map(|row| (id_of(row.get(0)), row.get(1))).collect())
    }

    async fn release(&self, id: CheckpointId) -> Result<()> {
        self.check_may_keep()?;
        let Ok(released) = i64::try_from(id.0) else { return Ok(()) };
        let (place, timeout) = self.place();
        let delete = format!("DELETE FROM {}.kept WHERE epoch = $1", place.schema);
        in_time(&place.url, timeout, |until| {
            let delete = &delete;
            async move {
                let client = place.plain(until).await?.client;
                // Of a new epoch, so that lanes see whether anything is kept.
                next_epoch(&client, place, async |_| {
                    client.execute(delete, &[&released]).await.map(drop)
                })
                .await
            }
            .boxed()
        })
        .await?;
        self.forget_past().await
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        match self.kept().await?.iter().any(|(one, _)| *one == id) {
            true => {
                let epoch = i64::try_from(id.0).map_err(|_| not_kept())?;
                Ok(Arc::new(Past { readers: Arc::clone(&self.readers), epoch }))
            }
            false => Err(not_kept()),
        }
    }
}

fn id_of(epoch: i64) -> CheckpointId {
    CheckpointId(u128::from(epoch.cast_unsigned()))
}

/// Ends the epoch, and does something with its number in the same transaction. Answers the number.
async fn next_epoch(
    client: &Client,
    place: &Place,
    with: impl AsyncFnOnce(i64) -> Result<(), tokio_postgres::Error>,
) -> Result<i64, Failed> {
    let schema = &place.schema;
    let done = async {
        client.batch_execute(sql::BEGIN).await?;
        let look = format!("SELECT epoch FROM {schema}.epoch WHERE one = 1 FOR UPDATE");
        let epoch: i64 = client.query_one(&look, &[]).await?.get(0);
        // All lanes there are: one that is made meanwhile waits for the row above.
        let lanes = format!("UPDATE {schema}.lane SET epoch = $1");
        client.execute(&lanes, &[&(epoch + 1)]).await?;
        let next = format!("UPDATE {schema}.epoch SET epoch = $1 WHERE one = 1");
        client.execute(&next, &[&(epoch + 1)]).await?;
        with(epoch).await?;
        client.batch_execute("COMMIT").await?;
        Ok(epoch)
    };
    // Whatever fails, the transaction ends with the connection.
    done.await.map_err(|error| failed("end an epoch of the metadata", error))
}

impl PostgresKv {
    /// Removes rows of the past that no kept state has. One statement for each 10,000 that there are.
    async fn forget_past(&self) -> Result<()> {
        let (place, timeout) = self.place();
        let text = forget(&place.schema);
        let mut after = Some((Key::new(), i32::MIN, i64::MIN));
        while let Some((key, shard, died)) = &after {
            let page = in_time(&place.url, timeout, |until| {
                let text = &text;
                async move {
                    let client = place.plain(until).await?.client;
                    let row = client.query_opt(text, &[key, shard, died, &PAGE]).await;
                    row.map_err(|error| failed("forget what no state has", error))
                }
                .boxed()
            });
            after = page.await?.map(|row| (row.get(0), row.get(1), row.get(2)));
        }
        Ok(())
    }
}

/// Looks at a page of the past, removes what no kept state has, and answers the last row looked at.
fn forget(schema: &str) -> String {
    format!(
        "WITH page AS (SELECT p.key, p.shard, p.died, p.born FROM {schema}.past AS p
             WHERE (p.key, p.shard, p.died) > ($1::bytea, $2::integer, $3::bigint)
             ORDER BY p.key, p.shard, p.died LIMIT $4::bigint),
         gone AS (DELETE FROM {schema}.past AS p USING page AS g
             WHERE p.key = g.key AND p.shard = g.shard AND p.died = g.died
                 AND NOT EXISTS (SELECT 1 FROM {schema}.kept AS k
                     WHERE k.epoch >= g.born AND k.epoch < g.died))
         SELECT key, shard, died FROM page ORDER BY key DESC, shard DESC, died DESC LIMIT 1"
    )
}

/// A state that is kept.
struct Past {
    readers: Arc<Readers>,
    epoch: i64,
}

#[async_trait]
impl Kv for Past {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.readers.get_many(Some(self.epoch), keys).await
    }

    fn is_far(&self) -> bool {
        true
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        self.readers.follow(Some(self.epoch), key, tags).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.readers.scan(Some(self.epoch), prefix, after, limit).await
    }

    async fn commit(&self, _: Commit) -> Result<Outcome> {
        Err(FsError::new(ErrorKind::ReadOnly, "a kept state of the metadata cannot be changed"))
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> Version {
        0
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
