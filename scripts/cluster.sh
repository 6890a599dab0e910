#!/usr/bin/env bash
# Has three nodes on this machine write one volume together, kills one of them, and says what the
# others saw of it. The bucket is a directory, the metadata in a PostgreSQL server of its own.
#
# WEIR=path of the program. Needs /dev/fuse and PostgreSQL 15; installs nothing. Leaves ./weir-cluster
# behind, unmounted and with nothing running: remove it when you have looked around.
# needs: /usr/lib/postgresql/15/bin/postgres awk flock fusermount3 setpriv
set -euo pipefail

WEIR=${WEIR:-weir}
CLUSTER=$PWD/weir-cluster
PG=/usr/lib/postgresql/15/bin
PORT=${PORT:-54329}
URL=file://$CLUSTER/bucket/vol
FILES=200

say() { printf '%s\n' "$*"; }
fail() { say "cluster: $*" >&2; exit 1; }
mounted() { grep -q " $1 fuse.weir " /proc/self/mounts; }

# A server that root starts has to be somebody else's.
AS_SERVER=()
[ "$(id -u)" != 0 ] || AS_SERVER=(setpriv --reuid=postgres --regid=postgres --clear-groups)

check() {
    command -v "$WEIR" >/dev/null || fail "no program $WEIR: build it with \`make build\`"
    [ -x $PG/postgres ] || fail "PostgreSQL is missing: on Debian \`apt-get install postgresql-15\`"
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || fail "/dev/fuse is not usable: \`modprobe fuse\`"
    [ ! -e "$CLUSTER" ] || fail "$CLUSTER is there already: remove it, or go elsewhere"
}

clean_up() {
    for n in 1 2 3; do
        mounted "$CLUSTER/node$n" || continue
        "$WEIR" umount "$CLUSTER/node$n" || fusermount3 -uz "$CLUSTER/node$n"
    done
    [ -z "${SERVER:-}" ] || { kill -INT "$SERVER" 2>/dev/null && wait "$SERVER" 2>/dev/null; } || true
}

start_database() {
    mkdir -p "$CLUSTER/pg" "$CLUSTER/bucket"
    [ "$(id -u)" != 0 ] || chown postgres "$CLUSTER/pg"
    (cd "$CLUSTER/pg" && "${AS_SERVER[@]}" $PG/initdb -D data -U weir --auth=trust --no-sync) >"$CLUSTER/initdb.log"
    (cd "$CLUSTER/pg" && exec "${AS_SERVER[@]}" $PG/postgres -D data -p "$PORT" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories="$CLUSTER/pg") >"$CLUSTER/postgres.log" 2>&1 &
    SERVER=$!
    for _ in $(seq 150); do
        $PG/pg_isready -q -h 127.0.0.1 -p "$PORT" && return
        sleep 0.2
    done
    fail "the database does not start: see $CLUSTER/postgres.log"
}

mount_node() {
    "$WEIR" mount "$URL" "$CLUSTER/node$1" --tier "$CLUSTER/tier$1" --log-file "$CLUSTER/node$1.log" --shared
}

# seconds COMMAND...: how long it takes.
seconds() {
    local start=$EPOCHREALTIME
    "$@"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'
}

write_files() { for i in $(seq $FILES); do echo "file $i" >"$CLUSTER/node1/data/$i"; done; }
same_everywhere() {
    for n in 2 3; do
        [ "$(cd "$CLUSTER/node$n/data" && cat $(seq $FILES) | md5sum)" = "$(cd "$CLUSTER/node1/data" && cat $(seq $FILES) | md5sum)" ] ||
            fail "node $n reads something else than node 1 wrote"
    done
}
append() { for i in $(seq 50); do echo "node $1 line $i" >>"$CLUSTER/node$1/log"; done; }
count() {
    for _ in $(seq 30); do
        (flock 9; echo $(($(cat "$CLUSTER/node$1/counter") + 1)) >"$CLUSTER/node$1/counter") 9>"$CLUSTER/node$1/lock"
    done
}
in_all() { # FUNCTION: in all nodes at once
    local jobs=()
    for n in 1 2 3; do "$1" $n & jobs+=($!); done
    wait "${jobs[@]}"
}
others_go_on() {
    for i in $(seq 100); do echo "$i" >"$CLUSTER/node1/after-$i" && [ "$(cat "$CLUSTER/node2/after-$i")" = "$i" ]; done
}
wait_until_shut_out() {
    for _ in $(seq 60); do
        [ "$("$WEIR" nodes "$URL" --json | grep -c '"id"')" = 2 ] && return
        sleep 0.5
    done
    fail "the dead node is there still"
}

check
trap clean_up EXIT
mkdir "$CLUSTER"
say "A database, a volume, and three nodes of it, in $CLUSTER"
start_database
"$WEIR" format "$URL" --meta "postgres://weir@127.0.0.1:$PORT/postgres" >/dev/null
for n in 1 2 3; do mkdir "$CLUSTER/node$n"; mount_node $n; done
"$WEIR" nodes "$URL"
mkdir "$CLUSTER/node1/data"
say "Node 1 writes $FILES files and closes each: $(seconds write_files) s"
say "Nodes 2 and 3 read them, and find the same: $(seconds same_everywhere) s"
say "All three append 50 lines to one file, at once: $(seconds in_all append) s"
[ "$(wc -l <"$CLUSTER/node2/log")" = 150 ] || fail "lines are missing"
echo 0 >"$CLUSTER/node1/counter"
say "All three count to 30 in one file, under flock, at once: $(seconds in_all count) s"
[ "$(cat "$CLUSTER/node3/counter")" = 90 ] || fail "counted $(cat "$CLUSTER/node3/counter"), not 90"
pid=$("$WEIR" status "$CLUSTER/node3" --json | awk -F'[:,]' '/"pid"/ { print $2 + 0; exit }')
say "Node 3 is killed (process $pid). Nodes 1 and 2 write and read on: $(kill -KILL "$pid"; seconds others_go_on) s"
fusermount3 -uz "$CLUSTER/node3"
say "They shut it out by themselves: $(seconds wait_until_shut_out) s"
mount_node 3
say "Node 3 comes back with its tier, and finds what they did: $(seconds same_everywhere) s"
[ "$(cat "$CLUSTER/node3/after-100")" = 100 ] || fail "node 3 does not see what the others wrote"
for n in 1 2 3; do "$WEIR" umount "$CLUSTER/node$n"; done
"$WEIR" fsck --data "$URL"
