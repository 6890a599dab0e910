#!/usr/bin/env bash
# Volumes whose metadata is in a PostgreSQL database: they do what volumes do, through kills, a server
# that is away and a takeover; what is wrong with the database is told; and metadata moves there and back.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
source "$TESTS/lib-postgres.sh"
need git jq sqlite3 sha256sum curl
seed
pg_make

busy_settings bucket_timeout_ms=3000
MOUNT_ARGS=(--config "$T/settings.json")
json=$BUCKET/vol/volume.json
weir_says() { # TEXT ARGS...: it fails and says so
    local text=$1
    shift
    "$WEIR" "$@" 2>"$T/said" && fail "weir $* goes well, though it should say: $text"
    grep -qi -e "$text" "$T/said" || fail "weir $* does not say '$text': $(cat "$T/said")"
    grep -q "$PG_PASSWORD" "$T/said" && fail "weir $* tells the password"
    return 0
}
schema() { sql weir "select nspname from pg_namespace where nspname like '%${1//-/%}%'"; }
tree() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && find . -printf '%p %y %m %s %l\n' | grep -v '^\. ' | sort); }

echo "== what is wrong with a database is told, and no volume is made"
weir_says "password" format "$URL" --meta "postgres://weir:$PG_PASSWORD@127.0.0.1:$PG_PORT/weir"
weir_says "metadata-denied" format "$URL" --meta "postgres://nobody@127.0.0.1:$PG_PORT/weir"
PGPASSFILE=/dev/null weir_says "password" format "$URL" --meta "$META"
weir_says "nosuch" format "$URL" --meta "postgres://weir@127.0.0.1:$PG_PORT/nosuch"
weir_says "TLS\|SSL\|encrypt" format "$URL" --meta "$META?sslmode=require"
weir_says "neither" format "$URL" --meta mysql://weir@127.0.0.1/weir
[ ! -e "$json" ] || fail "a volume was made"

echo "== a volume with its metadata there"
"$WEIR" format "$URL" --meta "$META" --json >"$T/format.json" || fail "format"
same "$(jq -r '[.format_version, .metadata] | @text' "$json")" "[2,\"$META\"]" "volume.json"
grep -rq "$PG_PASSWORD" "$BUCKET" && fail "the password is in the bucket"
[ ! -e "$BUCKET/vol/meta" ] || fail "metadata in the bucket"
id=$(jq -r .id "$json")
mount_volume
same "$(status .metadata.place)" "$META" "where status says it is"
"$WEIR" status "$MNT" | grep -q "metadata  *in $META" || fail "status does not say where the metadata is"
grep -rq "$PG_PASSWORD" "$LOG" && fail "the password is in the log"

git init -q "$T/repo" && cp -r "$TESTS"/../crates/types "$T/repo/" && git -C "$T/repo" add -A &&
    git -C "$T/repo" -c user.name=x -c user.email=x@x commit -qm x || fail "no repository"
git clone -q "$T/repo" "$MNT/repo" && git -C "$MNT/repo" fsck --strict || fail "git clone"
db=$MNT/db
source "$TESTS/lib-sqlite.sh"
make_database
write_both 40
wait "$one" "$two" || fail "a writer of the database failed"
check "while it is mounted"
mkfifo "$MNT/fifo" && ln -s repo "$MNT/link" && ln "$MNT/db" "$MNT/db2"
setfattr -n user.a -v b "$MNT/repo" 2>/dev/null
tree "$MNT" >"$T/tree"
remount
tree "$MNT" | diff "$T/tree" - >&2 || fail "another tree after a remount"

echo "== a follower sees at once what is made"
R=$T/r
mkdir "$R"
"$WEIR" mount "$URL" "$R" --tier "$T/tier-r" --log-file "$T/r.log" --read-only || fail "no follower"
echo one >"$MNT/new" && sync "$MNT/new"
poll 10 test -e "$R/new" || fail "the follower does not see a new file"
same "$(cat "$R/new")" one "the new file as the follower sees it"
(echo x >"$R/x") 2>/dev/null && fail "the follower writes"
"$WEIR" umount "$R" || fail "umount of the follower"

echo "== kill -9 and a server that is restarted under load cost nothing that was acknowledged"
work_start --seed "$SEED" --ops 100000 --max-size 300000
poll 30 at_least 100 || fail "no work is done: $(cat "$T/work.log")"
before=$(acknowledged)
pg_stop
pg_start
poll 30 at_least $((before + 100)) || fail "no work is done after the restart: $(cat "$T/work.log")"
pid=$(daemon_pid)
kill -KILL "$pid"
work_wait_dead "$pid"
kill9
mount_volume
verify
fsck_clean

echo "== names are durable when they are told: the loss of the machine costs none"
mount_volume
mkdir "$MNT/named" && echo x >"$MNT/named/a" && mv "$MNT/named/a" "$MNT/named/b"
kill9
lose_tier
refused_mount "did not end cleanly"
MOUNT_ARGS+=(--accept-loss tier)
mount_volume
[ -f "$MNT/named/b" ] || fail "a name is lost"
MOUNT_ARGS=(--config "$T/settings.json")
fsck_clean

echo "== a server that is away: EIO in time, told by status, and over when it is back"
mount_volume
pg_stop
began=$SECONDS
mkdir "$MNT/away" 2>"$T/said" && fail "a directory is made without the database"
grep -qi "input/output error" "$T/said" || fail "not EIO: $(cat "$T/said")"
[ $((SECONDS - began)) -lt 20 ] || fail "EIO took $((SECONDS - began)) s"
"$WEIR" status "$MNT" | grep -q "DATABASE FAILS" || fail "status is silent"
grep -q "the metadata's database does not answer" "$LOG" || fail "the log is silent"
"$WEIR" metrics "$MNT" | grep -q '^weir_metadata_failures [1-9]' || fail "no metric tells"
"$WEIR" metrics "$MNT" --check >"$T/check" && fail "the check finds nothing"
grep -q WeirDatabaseFails "$T/check" || fail "the check finds: $(cat "$T/check")"
pg_start
poll 30 mkdir "$MNT/back" || fail "the mount does not go on"
"$WEIR" status "$MNT" | grep -q "DATABASE FAILS" && fail "status still complains"
"$WEIR" metrics "$MNT" | grep -q '^weir_metadata_failures 0' || fail "the metric still complains"
umount_volume
pg_stop
began=$SECONDS
refused_mount "metadata-away"
[ $((SECONDS - began)) -lt 20 ] || fail "a mount without its server waits $((SECONDS - began)) s"
began=$SECONDS
"$WEIR" doctor "$URL" >"$T/doctor" && fail "doctor finds nothing without the server"
grep -q "BAD *bucket *metadata" "$T/doctor" || fail "doctor says: $(cat "$T/doctor")"
weir_says "metadata-away" fsck "$URL"
[ $((SECONDS - began)) -lt 13 ] || fail "doctor and fsck wait $((SECONDS - began)) s for who does not listen"
pg_start
"$WEIR" doctor "$URL" | grep -q "ok *bucket *metadata *in $META" || fail "doctor does not find the metadata"

echo "== a database that is another one, or lost, is refused"
sql postgres "create database other owner weir"
OTHER=postgres://weir@127.0.0.1:$PG_PORT/other
MOUNT_ARGS+=(--meta "$OTHER")
refused_mount "metadata-missing"
MOUNT_ARGS=(--config "$T/settings.json")
had=$(schema "$id")
[ -n "$had" ] || fail "no schema of the volume: $(sql weir '\dn')"
sql weir "alter schema \"$had\" rename to kept"
refused_mount "metadata-missing"
weir_says "metadata-missing" fsck "$URL"
sql weir "alter schema kept rename to \"$had\""
sql postgres "create role reader login password '$PG_PASSWORD'"
sql weir "grant usage on schema \"$had\" to reader; grant select on all tables in schema \"$had\" to reader"
"$WEIR" fsck "$URL" --meta "postgres://reader@127.0.0.1:$PG_PORT/weir" || fail "a reader cannot check"

echo "== a database restored from a backup is an older volume: refused, and gone on with when told to"
mount_volume
echo early >"$MNT/early"
umount_volume
as_postgres "$PG_BIN/pg_dump" -h "$T/pg" -p "$PG_PORT" -n "$had" weir >"$T/dump.sql" || fail "pg_dump"
mount_volume
head -c 300000 /dev/urandom >"$MNT/late"
was=$(stat -c %i "$MNT/late")
fsck_clean
sql weir "drop schema \"$had\" cascade"
psql -qX -v ON_ERROR_STOP=1 -h "$T/pg" -p "$PG_PORT" -U postgres -d weir -f "$T/dump.sql" >/dev/null || fail "restore"
refused_mount "metadata-older"
"$WEIR" fsck "$URL" >"$T/fsck" 2>&1 && fail "fsck finds nothing"
grep -q "the database is older than" "$T/fsck" || fail "fsck says: $(cat "$T/fsck")"
weir_says "metadata-older" migrate "$URL" --to slate
MOUNT_ARGS+=(--accept-loss tier)
refused_mount "metadata-older"
MOUNT_ARGS=(--config "$T/settings.json" --accept-loss all)
mount_volume
same "$(cat "$MNT/early")" early "a file of then"
[ -e "$MNT/late" ] && fail "a file of later"
# Its number is given out anew, and its bytes are in the tier no more.
truncate -s 300000 "$MNT/another"
same "$(stat -c %i "$MNT/another")" "$was" "the number of a new file"
cmp "$MNT/another" <(head -c 300000 /dev/zero) || fail "bytes of a file of later"
umount_volume
MOUNT_ARGS=(--config "$T/settings.json")
mount_volume
fsck_clean

echo "== one writer: the second is refused, and fences the first when told to"
A=$MNT B=$T/b
mkdir "$B"
busy_settings bucket_timeout_ms=3000 flush_age_ms=600000
mount_volume
echo synced >"$A/synced" && sync "$A/synced"
mkdir -m 700 "$T/elsewhere"
second() { WEIR_RUN_DIR=$T/elsewhere "$WEIR" mount "$URL" "$B" --tier "$T/tier-b" --log-file "$T/b.log" "$@"; }
second 2>"$T/said" && fail "two writers at once"
grep -q -- "--take-over" "$T/said" || fail "the refusal says: $(cat "$T/said")"
head -c 100000 /dev/urandom >"$A/unflushed"
second --take-over || fail "no takeover"
same "$(cat "$B/synced")" synced "what the second sees"
(mkdir "$A/late") 2>"$T/said" && fail "the first still creates"
grep -qi "input/output error" "$T/said" || fail "not EIO: $(cat "$T/said")"
same "$(status .fenced)" true "the first's status"
grep -q "another writer took the volume over" "$LOG" || fail "the first does not log why"
[ -e "$B/late" ] && fail "the fenced mount changed something"
first=$(daemon_pid)
"$WEIR" umount "$A" 2>/dev/null && fail "the fenced mount's unmount says all is well"
poll 30 gone "$first" || fail "the fenced daemon stays"
WEIR_RUN_DIR=$T/elsewhere "$WEIR" umount "$B" || fail "umount of the second"
mount_volume
"$WEIR" status "$A" | grep -q "SET ASIDE" || fail "what the first had is not set aside"
label=$("$WEIR" recover "$A" --json | jq -r '.. | .label? // empty' | head -1)
"$WEIR" recover "$A" "$label" --merge || fail "it cannot be merged"
same "$(stat -c %s "$A/unflushed")" 100000 "what the first had not flushed"
fsck_clean

echo "== metadata moves to the bucket and back, and a kill at any step leaves a volume"
busy_settings bucket_timeout_ms=3000
mount_volume
rm -f "$MNT/fifo"
tree "$MNT" >"$T/tree"
weir_says "belongs to" migrate "$URL" --to slate
kill9
weir_says "did not end cleanly" migrate "$URL" --to slate
mount_volume
umount_volume
# What is mounted, and where its metadata is.
moved() { # PLACE
    same "$(jq -r '.metadata // "slate"' "$json")" "$1" "where volume.json has the metadata"
    mount_volume
    tree "$MNT" | diff "$T/tree" - >&2 || fail "another tree with the metadata in $1"
    umount_volume
}
killed() { # POINT WHERE TO
    WEIR_FAILPOINTS="engine::migrate-$1=1" "$WEIR" migrate "$URL" --to "$3" 2>/dev/null &&
        fail "it did not die at $1"
    moved "$2"
}
for point in leased emptied copying copied compared switching; do
    killed $point "$META" slate
done
"$WEIR" migrate "$URL" --to slate >"$T/said" || fail "migrate to the bucket"
grep -q "the same on both sides" "$T/said" || fail "it says: $(cat "$T/said")"
moved slate
same "$(jq .format_version "$json")" 1 "the format of a volume in its bucket"
jq -e 'has("metadata")' "$json" && fail "volume.json still names a database"
for point in copying switching; do
    killed $point slate "$META"
done
killed switched "$META" "$META"
same "$("$WEIR" migrate "$URL" --to "$META" --json | jq .moved)" false "moved already"
[ -e "$BUCKET/vol/meta" ] || fail "the old metadata is gone"
"$WEIR" migrate "$URL" --to "$META" --remove-old || fail "the old metadata cannot be removed"
find "$BUCKET/vol/meta" -type f 2>/dev/null | grep -q . && fail "the old metadata stays"
"$WEIR" migrate "$URL" --to slate --remove-old --json >"$T/said" || fail "migrate with --remove-old"
jq -e '.moved and .removed_old and .rows > 100' "$T/said" || fail "it says: $(cat "$T/said")"
same "$(schema "$id")" "" "the schema of the volume"
moved slate
"$WEIR" fsck --data "$URL" || fail "fsck finds problems"
