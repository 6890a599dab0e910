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
    ($(#[$of:meta])* $set:ident: $($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        $(#[$of])*
        #[derive(Clone)]
        pub(crate) struct $set<T> {
            $($(#[$doc])* pub(crate) $name: T,)*
        }

        impl $set<String> {
            /// The texts of a schema.
            pub(crate) fn of(schema: &str) -> Self {
                Self { $($name: with_parts($text, schema),)* }
            }

            /// All of them prepared, in one round trip.
            pub(crate) async fn prepared(&self, client: &Client) -> Result<$set<Statement>, Error> {
                let ($($name,)*) = futures::try_join!($(client.prepare(&self.$name),)*)?;
                Ok($set { $($name,)* })
            }
        }
    };
}

/// What several statements say.
fn with_parts(text: &str, schema: &str) -> String {
    text.replace("{NUMBER}", &number_of("d.value"))
        .replace("{NOW}", NOW_AS_THEN)
        .replace("{THEN}", THEN)
        .replace("{SAVED}", SAVED)
        .replace("{S}", schema)
}

/// Rows that a kept state has as they are now, `$1` being its epoch, and those that it has from the past. These are to be
/// looked for by key, and by nothing that the index has behind it.
const NOW_AS_THEN: &str = "coalesce(kv.epoch, 0) <= $1";
const THEN: &str = "p.born <= $1 AND p.died + 0 > $1";

/// Notes rows `o` as they were, where a kept state has them. `$1` is the epoch that they end in.
const SAVED: &str = "INSERT INTO {S}.past (key, shard, died, born, version, value, n)
     SELECT o.key, o.shard, $1, coalesce(o.epoch, 0), o.version, o.value, o.n FROM o
     WHERE coalesce(o.epoch, 0) < $1 AND EXISTS (SELECT 1 FROM {S}.kept AS k
         WHERE k.epoch >= coalesce(o.epoch, 0) AND k.epoch < $1)
     ON CONFLICT (key, shard, died) DO NOTHING";

texts! {
    /// What connections that read prepare.
    Reads:
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
    /// The same three as a kept state has it, whose epoch comes first. Each table is asked for itself: joined to both as
    /// one, all rows would be looked at, and sorted.
    past_get: "SELECT u.at, kv.shard, kv.version, kv.value, kv.n
          FROM unnest($2::bytea[]) WITH ORDINALITY AS u (key, at)
          JOIN {S}.kv AS kv ON kv.key = u.key AND {NOW}
          UNION ALL
          SELECT u.at, p.shard, p.version, p.value, p.n
          FROM unnest($2::bytea[]) WITH ORDINALITY AS u (key, at)
          JOIN {S}.past AS p ON p.key = u.key AND {THEN}";
    /// See `follow`.
    past_follow: "WITH f AS (SELECT {NUMBER} AS number FROM (
                 SELECT kv.value FROM {S}.kv AS kv WHERE kv.key = $2 AND kv.shard = 0 AND {NOW}
                 UNION ALL
                 SELECT p.value FROM {S}.past AS p WHERE p.key = $2 AND p.shard = 0 AND {THEN}) AS d),
             t AS (SELECT u.at, u.tag || decode(lpad(to_hex(f.number), 16, '0'), 'hex') AS key
                 FROM f CROSS JOIN unnest($3::bytea[]) WITH ORDINALITY AS u (tag, at))
             SELECT 0::bigint AS at, kv.shard, kv.version, kv.value, kv.n
             FROM {S}.kv AS kv WHERE kv.key = $2 AND {NOW}
             UNION ALL
             SELECT 0::bigint AS at, p.shard, p.version, p.value, p.n
             FROM {S}.past AS p WHERE p.key = $2 AND {THEN}
             UNION ALL
             SELECT t.at, kv.shard, kv.version, kv.value, kv.n
             FROM t JOIN {S}.kv AS kv ON kv.key = t.key AND {NOW}
             UNION ALL
             SELECT t.at, p.shard, p.version, p.value, p.n
             FROM t JOIN {S}.past AS p ON p.key = t.key AND {THEN}";
    /// See `scan`.
    past_scan: "(SELECT kv.key, kv.shard, kv.version, kv.value, kv.n FROM {S}.kv AS kv
               WHERE (kv.key, kv.shard) > ($2::bytea, $3::integer) AND kv.key < $4::bytea AND {NOW}
               ORDER BY kv.key, kv.shard LIMIT $5::bigint)
           UNION ALL
           (SELECT p.key, p.shard, p.version, p.value, p.n FROM {S}.past AS p
               WHERE (p.key, p.shard) > ($2::bytea, $3::integer) AND p.key < $4::bytea AND {THEN}
               ORDER BY p.key, p.shard LIMIT $5::bigint)
           ORDER BY key, shard LIMIT $5::bigint";
    /// Whether the state of this epoch is kept.
    is_kept: "SELECT 1 FROM {S}.kept WHERE epoch = $1::bigint";
}

texts! {
    /// What connections that commit prepare.
    Writes:
    /// A key must have this version. Held until the end, so that who changes it waits for us.
    guard: "SELECT 1 / (CASE WHEN count(*) = 1 THEN 1 ELSE 0 END)
            FROM (SELECT 1 FROM {S}.kv WHERE key = $1 AND shard = 0 AND version = $2 FOR SHARE) AS g";
    /// The lane's last commit must be the one we know of, and so must the epoch; it is this one now.
    lane: "INSERT INTO {S}.lane AS l (lane, owner, last, seen, epoch) VALUES ($1, $2, $3, now(), $5)
           ON CONFLICT (lane) DO UPDATE SET seen = now(),
               last = excluded.last / (CASE WHEN l.owner = $2 AND l.last = $4
                   AND coalesce(l.epoch, 0) = $5 THEN 1 ELSE 0 END)";
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
    /// Notes rows that are about to be changed as they were: plain ones, and those of the lane.
    save: "WITH o AS (SELECT kv.* FROM {S}.kv AS kv WHERE kv.key = ANY ($2::bytea[])
               AND kv.shard IN (0, $3::integer) FOR UPDATE)
           {SAVED}";
    /// Removes rows: the plain one, those of a counter, or both.
    delete: "WITH o AS (DELETE FROM {S}.kv AS kv
                 USING unnest($2::bytea[], $3::boolean[], $4::boolean[]) AS u (key, plain, shards)
                 WHERE kv.key = u.key
                     AND ((kv.shard = 0 AND u.plain) OR (kv.shard <> 0 AND u.shards))
                 RETURNING kv.*)
             {SAVED}";
    /// Makes rows that must not be there.
    insert: "INSERT INTO {S}.kv (key, shard, version, epoch, value)
             SELECT u.key, 0, $3, $4, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)";
    /// Makes or changes rows.
    upsert: "INSERT INTO {S}.kv (key, shard, version, epoch, value)
             SELECT u.key, 0, $3, $4, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)
             ON CONFLICT (key, shard) DO UPDATE SET version = excluded.version,
                 epoch = excluded.epoch, value = excluded.value, n = NULL";
    /// Makes a shard of what somebody put as a plain value and now is counted in. A value that is
    /// not of 8 bytes is no counter.
    count: "UPDATE {S}.kv SET shard = -1, version = $2, epoch = $3, value = NULL,
                n = CASE WHEN length(value) = 8 THEN
                    get_byte(value, 0)::bigint | (get_byte(value, 1)::bigint << 8)
                    | (get_byte(value, 2)::bigint << 16) | (get_byte(value, 3)::bigint << 24)
                    | (get_byte(value, 4)::bigint << 32) | (get_byte(value, 5)::bigint << 40)
                    | (get_byte(value, 6)::bigint << 48) | (get_byte(value, 7)::bigint << 56)
                    ELSE 1 / (length(value) - length(value)) END
            WHERE key = ANY ($1::bytea[]) AND shard = 0";
    /// Adds to the lane's shards.
    add: "INSERT INTO {S}.kv AS kv (key, shard, version, epoch, n)
          SELECT u.key, $4, $3, $5, u.n FROM unnest($1::bytea[], $2::bigint[]) AS u (key, n)
          ON CONFLICT (key, shard) DO UPDATE SET version = excluded.version,
              epoch = excluded.epoch, n = kv.n + excluded.n";
    /// Makes a shard of what somebody put as a plain value and now is raised.
    share: "UPDATE {S}.kv SET shard = -1, version = $2, epoch = $3
            WHERE key = ANY ($1::bytea[]) AND shard = 0";
    /// Raises the lane's shards.
    raise: "INSERT INTO {S}.kv AS kv (key, shard, version, epoch, value)
            SELECT u.key, $4, $3, $5, u.value FROM unnest($1::bytea[], $2::bytea[]) AS u (key, value)
            ON CONFLICT (key, shard) DO UPDATE SET version = excluded.version,
                epoch = excluded.epoch, value = greatest(kv.value, excluded.value)";
    /// Compares the versions of counters, which a plain row alone is not; 0 wants no shard.
    counted: "SELECT 1 / (CASE WHEN count(*) FILTER (WHERE u.want <>
                    coalesce(mod(s.total, 9223372036854775808) + 1, 0)) = 0 THEN 1 ELSE 0 END)
              FROM unnest($1::bytea[], $2::bigint[]) AS u (key, want)
              LEFT JOIN LATERAL (SELECT CASE WHEN max(abs(kv.shard)) > 0 THEN sum(kv.version) END
                      AS total FROM {S}.kv AS kv
                  WHERE kv.key = u.key AND (kv.shard <> 0 OR u.want <> 0)) AS s ON true";
    /// Removes counters, and compares the versions of just what it removed.
    uncount: "WITH o AS (DELETE FROM {S}.kv AS kv WHERE kv.key = ANY ($2::bytea[])
                  RETURNING kv.*),
                  saved AS ({SAVED})
              SELECT 1 / (CASE WHEN count(*) FILTER (WHERE u.want <>
                    coalesce(mod(s.total, 9223372036854775808) + 1, 0)) = 0 THEN 1 ELSE 0 END)
              FROM unnest($2::bytea[], $3::bigint[]) AS u (key, want)
              LEFT JOIN (SELECT key, CASE WHEN max(abs(shard)) > 0 THEN sum(version) END AS total
                      FROM o GROUP BY key) AS s
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
         RETURNING lane, last, coalesce(epoch, 0)"
    )
}

/// Makes a lane, of the epoch that is now: whoever ends that one waits for us, or we for it.
pub(super) fn make_lane(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}.lane (lane, owner, last, seen, epoch)
         SELECT coalesce(max(lane), 0) + 1, $1, 0, now(),
             (SELECT e.epoch FROM {schema}.epoch AS e WHERE e.one = 1 FOR SHARE)
         FROM {schema}.lane RETURNING lane, last, epoch"
    )
}

/// Gives a lane back.
pub(super) fn leave_lane(schema: &str) -> String {
    format!("UPDATE {schema}.lane SET owner = 0 WHERE lane = $1 AND owner = $2")
}

/// What a lane's last commit was; whoever is about to commit on it is waited for.
pub(super) fn look_at_lane(schema: &str) -> String {
    format!("SELECT owner, last, coalesce(epoch, 0) FROM {schema}.lane WHERE lane = $1 FOR UPDATE")
}

/// Whether any state is kept.
pub(super) fn any_kept(schema: &str) -> String {
    format!("SELECT EXISTS (SELECT 1 FROM {schema}.kept)")
}

/// Has every commit fail that is still on its way on a lane.
pub(super) fn cut_lane(schema: &str) -> String {
    format!("UPDATE {schema}.lane SET last = $2, seen = now() WHERE lane = $1")
}
