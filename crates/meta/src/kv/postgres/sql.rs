//! The statements, for the tables of one schema.
//!
//! A statement that finds that the transaction may not go on divides by zero: so the server ends it
//! without a round trip in which we would tell it to. What is compared comes in as arrays, so that a
//! statement is prepared once, whatever a commit's size.

use tokio_postgres::{Client, Error, Statement};

use super::super::follow::NUMBER_BYTES;

/// The quoted name of the schema of a volume.
pub(super) fn schema_of(volume: &str) -> String {
    format!("\"weir_{volume}\"")
}

/// Refuses every server's other ways to answer what is asked by key: plans are made once, when the
/// tables may still be empty. A server that does not know one of these needs it not.
pub(super) const SESSION: [&str; 6] = [
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET plan_cache_mode = force_generic_plan",
    "SET jit = off",
    "SET client_min_messages = error",
];

/// A commit that was acknowledged must be durable, whatever the server's default is.
pub(super) const DURABLE: &str = "SET synchronous_commit = on";

/// `BEGIN` in words that every server knows.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The number behind the first byte of `value`, as [`super::super::follow`] describes it; NULL where
/// there is none. `get_byte` fails past the end, and a CASE takes no branch before its condition.
fn number_of(value: &str) -> String {
    (0..NUMBER_BYTES).rev().fold("NULL::bigint".to_owned(), |rest, place| {
        let (at, bits) = (place + 1, 7 * place);
        format!(
            "CASE WHEN length({value}) <= {at} THEN NULL::bigint
                 WHEN get_byte({value}, {at}) < 128 THEN get_byte({value}, {at})::bigint << {bits}
                 ELSE ((get_byte({value}, {at}) - 128)::bigint << {bits}) | {rest} END"
        )
    })
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        /// Texts of the statements that each connection prepares, or these prepared.
        #[derive(Clone)]
        pub(crate) struct Statements<T> {
            $($(#[$doc])* pub(crate) $name: T,)*
        }

        /// The texts of a schema.
        pub(crate) fn texts(schema: &str) -> Statements<String> {
            let number = number_of("d.value");
            Statements { $($name: $text.replace("{S}", schema).replace("{NUMBER}", &number),)* }
        }

        impl Statements<String> {
            /// All of them prepared, in one round trip.
            pub(crate) async fn prepared(
                &self,
                client: &Client,
            ) -> Result<Statements<Statement>, Error> {
                let ($($name,)*) = futures::try_join!($(client.prepare(&self.$name),)*)?;
                Ok(Statements { $($name,)* })
            }
        }
    };
}

texts! {
    /// Values of keys: position, shard, version, value, count.
    get: "SELECT u.at, kv.shard, kv.version, kv.value, kv.n
          FROM unnest($1::bytea[]) WITH ORDINALITY AS u (key, at)
          JOIN {S}.kv AS kv ON kv.key = u.key";
    /// The value of a key, at place 0, and what is at the keys that each of the tags makes with the number
    /// in that value: position, shard, version, value, count.
    follow: "SELECT 0::bigint AS at, kv.shard, kv.version, kv.value, kv.n
             FROM {S}.kv AS kv WHERE kv.key = $1
             UNION ALL
             SELECT u.at, kv.shard, kv.version, kv.value, kv.n
             FROM (SELECT {NUMBER} AS number FROM {S}.kv AS d WHERE d.key = $1 AND d.shard = 0) AS f
             CROSS JOIN unnest($2::bytea[]) WITH ORDINALITY AS u (tag, at)
             JOIN {S}.kv AS kv
                 ON kv.key = u.tag || decode(lpad(to_hex(f.number), 16, '0'), 'hex')";
    /// Rows after a key and shard and below another key: key, shard, version, value, count.
    scan: "SELECT key, shard, version, value, n FROM {S}.kv
           WHERE (key, shard) > ($1::bytea, $2::integer) AND key < $3::bytea
           ORDER BY key, shard LIMIT $4::bigint";
    /// A key must have this version. Held until the end, so that who changes it waits for us.
    guard: "SELECT 1 / (CASE WHEN count(*) = 1 THEN 1 ELSE 0 END)
            FROM (SELECT 1 FROM {S}.kv WHERE key = $1 AND shard = 0 AND version = $2 FOR SHARE) AS g";
    /// The lane's last commit must be the one we know of; it is this one now.
    lane: "INSERT INTO {S}.lane AS l (lane, owner, last, seen) VALUES ($1, $2, $3, now())
           ON CONFLICT (lane) DO UPDATE SET seen = now(),
               last = excluded.last / (CASE WHEN l.owner = $2 AND l.last = $4 THEN 1 ELSE 0 END)";
    /// Locks plain rows in the order of keys, for change or against change, and compares their
    /// versions: 0 wants no row at all, -1 wants nothing.
    lock: "SELECT 1 / (CASE WHEN count(*) FILTER (WHERE u.want >= 0
                   AND coalesce(x.version, s.version, 0) <> u.want) = 0 THEN 1 ELSE 0 END)
           FROM unnest($1::bytea[], $2::bigint[], $3::boolean[]) AS u (key, want, changes)
           LEFT JOIN LATERAL (SELECT kv.version FROM {S}.kv AS kv
               WHERE kv.key = u.key AND kv.shard = 0 AND u.changes FOR UPDATE) AS x ON true
           LEFT JOIN LATERAL (SELECT kv.version FROM {S}.kv AS kv
               WHERE kv.key = u.key AND (kv.shard = 0 OR u.want = 0) AND NOT u.changes
               FOR SHARE) AS s ON true";
    /// Removes rows: the plain one, those of a counter, or both.
    delete: "DELETE FROM {S}.kv AS kv
             USING unnest($1::bytea[], $2::boolean[], $3::boolean[]) AS u (key, plain, shards)
             WHERE kv.key = u.key AND ((kv.shard = 0 AND u.plain) OR (kv.shard <> 0 AND u.shards))";
    /// Makes rows that must not be there.
    insert: "INSERT INTO {S}.kv (key, shard, version, value)
             SELECT u.key, 0, $3, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)";
    /// Makes or changes rows.
    upsert: "INSERT INTO {S}.kv (key, shard, version, value)
             SELECT u.key, 0, $3, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)
             ON CONFLICT (key, shard) DO UPDATE
                 SET version = excluded.version, value = excluded.value, n = NULL";
    /// Makes a shard of what somebody put as a plain value and now is counted in. A value that is
    /// not of 8 bytes is no counter.
    count: "UPDATE {S}.kv SET shard = -1, version = $2, value = NULL,
                n = CASE WHEN length(value) = 8 THEN
                    get_byte(value, 0)::bigint | (get_byte(value, 1)::bigint << 8)
                    | (get_byte(value, 2)::bigint << 16) | (get_byte(value, 3)::bigint << 24)
                    | (get_byte(value, 4)::bigint << 32) | (get_byte(value, 5)::bigint << 40)
                    | (get_byte(value, 6)::bigint << 48) | (get_byte(value, 7)::bigint << 56)
                    ELSE 1 / (length(value) - length(value)) END
            WHERE key = ANY ($1::bytea[]) AND shard = 0";
    /// Adds to the lane's shards.
    add: "INSERT INTO {S}.kv AS kv (key, shard, version, n)
          SELECT u.key, $4, $3, u.n FROM unnest($1::bytea[], $2::bigint[]) AS u (key, n)
          ON CONFLICT (key, shard) DO UPDATE
              SET version = excluded.version, n = kv.n + excluded.n";
    /// Makes a shard of what somebody put as a plain value and now is raised.
    share: "UPDATE {S}.kv SET shard = -1, version = $2
            WHERE key = ANY ($1::bytea[]) AND shard = 0";
    /// Raises the lane's shards.
    raise: "INSERT INTO {S}.kv AS kv (key, shard, version, value)
            SELECT u.key, $4, $3, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)
            ON CONFLICT (key, shard) DO UPDATE
                SET version = excluded.version, value = greatest(kv.value, excluded.value)";
    /// Compares the versions of counters, which a plain row alone is not; 0 wants no shard.
    counted: "SELECT 1 / (CASE WHEN count(*) FILTER (WHERE u.want <>
                    coalesce(mod(s.total, 9223372036854775808) + 1, 0)) = 0 THEN 1 ELSE 0 END)
              FROM unnest($1::bytea[], $2::bigint[]) AS u (key, want)
              LEFT JOIN LATERAL (SELECT CASE WHEN max(abs(kv.shard)) > 0 THEN sum(kv.version) END
                      AS total FROM {S}.kv AS kv
                  WHERE kv.key = u.key AND (kv.shard <> 0 OR u.want <> 0)) AS s ON true";
    /// Removes counters, and compares the versions of just what it removed.
    uncount: "WITH gone AS (DELETE FROM {S}.kv AS kv WHERE kv.key = ANY ($1::bytea[])
                  RETURNING kv.key, kv.shard, kv.version)
              SELECT 1 / (CASE WHEN count(*) FILTER (WHERE u.want <>
                    coalesce(mod(s.total, 9223372036854775808) + 1, 0)) = 0 THEN 1 ELSE 0 END)
              FROM unnest($1::bytea[], $2::bigint[]) AS u (key, want)
              LEFT JOIN (SELECT key, CASE WHEN max(abs(shard)) > 0 THEN sum(version) END AS total
                      FROM gone GROUP BY key) AS s
                  ON s.key = u.key";
}

/// The time of the server in milliseconds since 1970.
pub(super) const NOW: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms";

/// Takes over a lane that nobody uses.
pub(super) fn take_lane(schema: &str) -> String {
    format!(
        "UPDATE {schema}.lane SET owner = $1, seen = now() WHERE lane = (
             SELECT lane FROM {schema}.lane
             WHERE owner = 0 OR seen < now() - interval '10 minutes'
             ORDER BY lane LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING lane, last"
    )
}

/// Makes a lane.
pub(super) fn make_lane(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}.lane (lane, owner, last, seen)
         SELECT coalesce(max(lane), 0) + 1, $1, 0, now() FROM {schema}.lane RETURNING lane, last"
    )
}

/// Gives a lane back.
pub(super) fn leave_lane(schema: &str) -> String {
    format!("UPDATE {schema}.lane SET owner = 0 WHERE lane = $1 AND owner = $2")
}

/// What a lane's last commit was; whoever is about to commit on it is waited for.
pub(super) fn look_at_lane(schema: &str) -> String {
    format!("SELECT owner, last FROM {schema}.lane WHERE lane = $1 FOR UPDATE")
}

/// Has every commit fail that is still on its way on a lane.
pub(super) fn cut_lane(schema: &str) -> String {
    format!("UPDATE {schema}.lane SET last = $2, seen = now() WHERE lane = $1")
}
