//! The tables of a volume, and bringing those of an older version up to date.

use tokio::time::Instant;
use tokio_postgres::Client;
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use super::connect::Place;
use super::error::{Failed, code_of, failed};
use super::node::Node;

/// What makes version n of the tables of version n - 1, at place n - 1. Never changed once released.
pub(super) const STEPS: [&[&str]; 5] = [
    &[
        // Values: (key, 0, version, value). Counters: a row for each lane that counted, (key, lane,
        // version, count), and (key, -1, ...) for what was put as a value and then counted in.
        "CREATE TABLE {S}.kv (
         key bytea NOT NULL, shard integer NOT NULL, version bigint NOT NULL,
         value bytea, n bigint, PRIMARY KEY (key, shard))",
        // Who commits: one transaction at a time in each lane, and which was the last.
        "CREATE TABLE {S}.lane (
         lane integer PRIMARY KEY, owner bigint NOT NULL, last bigint NOT NULL,
         seen timestamptz NOT NULL)",
    ],
    // Values that are raised: (key, lane, version, value). Older builds take them for counters.
    &[],
    // States that are kept (`epochs.rs`).
    &[
        // In which epoch a row was last changed, and which one a lane commits in; none is 0.
        "ALTER TABLE {S}.kv ADD COLUMN epoch bigint",
        "ALTER TABLE {S}.lane ADD COLUMN epoch bigint",
        // The epoch that is now.
        "CREATE TABLE {S}.epoch (one integer PRIMARY KEY, epoch bigint NOT NULL)",
        "INSERT INTO {S}.epoch (one, epoch) VALUES (1, 0)",
        // States that are kept: what was committed up to the end of an epoch.
        "CREATE TABLE {S}.kept (epoch bigint PRIMARY KEY, name text NOT NULL)",
        // Rows as they were from one epoch on until they were changed or removed in another.
        "CREATE TABLE {S}.past (
         key bytea NOT NULL, shard integer NOT NULL, died bigint NOT NULL, born bigint NOT NULL,
         version bigint NOT NULL, value bytea, n bigint, PRIMARY KEY (key, shard, died))",
    ],
    // Write leases: older builds would not ask for what a node has not brought yet.
    &[],
    // Write leases on directories: the same of names.
    &[],
];

/// How often what others do at the same time is waited out.
const TRIES: usize = 20;

/// Sees that the tables are there, of this version: makes them if that is asked for, brings older
/// ones up to date. One statement if they are as they should be.
pub(super) async fn prepare(node: &Node, create: bool, until: Instant) -> Result<(), Failed> {
    let client = node.place.plain(until).await?;
    node.ask_time(&client.client).await?;
    prepare_by(&client.client, &node.place, create, &STEPS).await
}

pub(super) async fn prepare_by(
    client: &Client,
    place: &Place,
    create: bool,
    steps: &[&[&str]],
) -> Result<(), Failed> {
    let mut tries = 0;
    loop {
        let found = version(client, place).await?;
        let newest = steps.len() as i32;
        match found {
            Some(have) if have == newest => return Ok(()),
            Some(have) if have > newest => return Err(Failed::Final(newer(place, have, newest))),
            None if !create => return Err(Failed::Final(missing(client, place).await?)),
            _ => {}
        }
        let done = migrate(client, place, steps).await;
        tries += 1;
        match done {
            Ok(()) => return Ok(()),
            Err(error) => {
                // Whatever the reason, an aborted transaction must end.
                let _ = client.batch_execute("ROLLBACK").await;
                let racing = ["23505", "42P06", "42P07", "42710", "40001", "40P01", "XX000"];
                if tries == TRIES || !racing.contains(&code_of(&error)) {
                    let what =
                        format!("make the tables of volume {} in {}", place.volume, place.url);
                    return Err(failed(&what, error));
                }
                tokio::time::sleep(std::time::Duration::from_millis(20 * tries as u64)).await;
            }
        }
    }
}

/// The version of the tables that are there.
async fn version(client: &Client, place: &Place) -> Result<Option<i32>, Failed> {
    let text = format!("SELECT version FROM {}.weir_schema", place.schema);
    match client.query_opt(&text, &[]).await {
        Ok(row) => Ok(row.map(|row| row.get(0))),
        Err(error) if ["42P01", "3F000"].contains(&code_of(&error)) => Ok(None),
        Err(error) => {
            let what = format!("look for volume {} in {}", place.volume, place.url);
            Err(failed(&what, error))
        }
    }
}

/// Makes or changes the tables in one transaction; whoever wants the same waits for it.
async fn migrate(
    client: &Client,
    place: &Place,
    steps: &[&[&str]],
) -> Result<(), tokio_postgres::Error> {
    let schema = &place.schema;
    client.batch_execute("BEGIN").await?;
    let bare = schema.trim_matches('"');
    let there = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    if client.query_opt(there, &[&bare]).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    let table = format!(
        "CREATE TABLE IF NOT EXISTS {schema}.weir_schema (one integer PRIMARY KEY, version integer \
         NOT NULL)"
    );
    client.batch_execute(&table).await?;
    let row = format!(
        "INSERT INTO {schema}.weir_schema (one, version) VALUES (1, 0) ON CONFLICT (one) DO NOTHING"
    );
    client.batch_execute(&row).await?;
    let lock = format!("SELECT version FROM {schema}.weir_schema WHERE one = 1 FOR UPDATE");
    let have: i32 = client.query_one(&lock, &[]).await?.get(0);
    let missing = steps.iter().skip(have.max(0) as usize).flat_map(|step| step.iter());
    let texts: Vec<String> = missing.map(|text| text.replace("{S}", schema)).collect();
    for text in &texts {
        client.batch_execute(text).await?;
    }
    let newest = steps.len() as i32;
    let set =
        format!("UPDATE {schema}.weir_schema SET version = {newest} WHERE version < {newest}");
    client.batch_execute(&set).await?;
    client.batch_execute("COMMIT").await
}

/// Removes the schema with all that is in it.
pub(super) async fn remove(place: &Place, until: Instant) -> Result<(), Failed> {
    let client = place.plain(until).await?;
    let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", place.schema);
    let done = client.client.batch_execute(&text).await;
    let what = || format!("remove the tables of volume {} in {}", place.volume, place.url);
    done.map_err(|error| failed(&what(), error))
}

fn newer(place: &Place, have: i32, known: i32) -> FsError {
    let context = format!(
        "the tables of volume {} in {} are of version {have}, and this build knows up to {known}: \
         use the newer build that made them",
        place.volume, place.url
    );
    FsError::new(ErrorKind::Unsupported, context).coded(ErrorCode::VolumeNewer)
}

/// Tells which volumes there are instead.
async fn missing(client: &Client, place: &Place) -> Result<FsError, Failed> {
    let text = "SELECT substr(nspname::text, 6) FROM pg_catalog.pg_namespace
                WHERE nspname::text LIKE 'weir\\_%' ORDER BY 1 LIMIT 20";
    let rows = client.query(text, &[]).await;
    let rows = rows.map_err(|error| failed("list the volumes of the database", error))?;
    let others: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let has = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    let context = format!(
        "{} has no tables of volume {}: it was not made there, or is elsewhere; volumes that it has: \
         {has}",
        place.url, place.volume
    );
    Ok(FsError::new(ErrorKind::NotFound, context))
}
