# Several nodes that write one volume together: mounts on this machine, each with a mount point, a tier
# and a log of its own. Its metadata is in the case's PostgreSQL server. Sourced after `begin`.
# shellcheck shell=bash

source "$TESTS/lib-postgres.sh"
need jq

# Who is disturbed when, for who must know whether an operation may fail: `down NODE`, `up NODE`.
DISTURBANCES=$T/disturbances
NODE_ARGS=()

node() { echo "$T/node$1"; } # NUMBER

of() { MNT=$1 status "$2"; } # DIRECTORY OF A NODE, JQ EXPRESSION

# A volume, and so many nodes of it, from 0; with ENCRYPTED=1 by the key of WEIR_KEY_FILE.
nodes_make() { # COUNT [MOUNT ARGS...]
    NODES=$1
    NODE_ARGS=("${@:2}")
    pg_make
    [ -z "${CUTS:-}" ] || echo "127.0.0.1:*:*:*:$PG_PASSWORD" >>"$PGPASSFILE"
    local sealed=()
    [ -z "${ENCRYPTED:-}" ] || sealed=(--encrypt)
    format_volume --meta "$META" "${sealed[@]}"
    : >"$DISTURBANCES"
    local n
    for ((n = 0; n < NODES; n++)); do
        mkdir "$(node "$n")"
        node_mount "$n"
    done
}

# As `nodes_make`, in a bucket that is a server, with a proxy between each node and that and another between it
# and the database: `cut_off` says what they do.
nodes_make_apart() { # COUNT [MOUNT ARGS...]
    CUTS=1
    s3_start
    local n
    for ((n = 0; n < $1; n++)); do
        cuts_start "bucket$n" "$S3_PORT"
        cuts_start "meta$n" "$PG_PORT"
    done
    nodes_make "$@"
}

cuts_start() { # NAME TARGET_PORT
    local port
    port=$(free_port)
    echo "$port" >"$T/$1.port"
    echo pass >"$T/$1.orders"
    "$TESTS/tools/cuts.py" "$port" "$2" "$T/$1.orders" >>"$T/cuts.log" 2>&1 &
    remember $!
    poll 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>>"$T/cuts.log" || fail "no proxy at $port"
}

# What goes between a node and its `meta` or its `bucket`: a word of tools/cuts.py.
cut_off() { # NUMBER meta|bucket ORDER
    cuts_order "$T/$2$1.orders" "$3"
}
cuts_order() { # FILE ORDER: holds when this returns
    echo "$2" >"$1.new" && mv "$1.new" "$1"
    poll 20 obeyed "$1" "$2" || fail "cuts.py does not obey '$2' in $1"
}
obeyed() { [ "$(cat "$1.obeyed")" = "$2" ]; }

node_mount() { # NUMBER
    local dir reach=("${CONNECT[@]}")
    dir=$(node "$1")
    [ -z "${CUTS:-}" ] || reach=(--endpoint "http://127.0.0.1:$(cat "$T/bucket$1.port")"
        --meta "postgres://weir@127.0.0.1:$(cat "$T/meta$1.port")/weir")
    WEIR_CLOCK_AHEAD=$T/clock$1 "$WEIR" mount "$URL" "$dir" --tier "$T/tier$1" --log-file "$T/node$1.log" "${reach[@]}" --shared \
        "${NODE_ARGS[@]}" || fail "mount node $1"
    mountpoint -q "$dir" || fail "weir mount said yes, but $dir is not a mount point"
}

node_pid() { MNT=$(node "$1") daemon_pid; } # NUMBER

node_umount() { # NUMBER
    MNT=$(node "$1") umount_volume
}

nodes_umount() {
    local n
    for ((n = 0; n < NODES; n++)); do node_umount "$n"; done
}

# Said before a node is disturbed, and once it works again. Who watches is told in time.
node_down() { # NUMBER, or all
    echo "down $1" >>"$DISTURBANCES"
    sleep 0.1
}
node_up() { echo "up $1" >>"$DISTURBANCES"; }

# As a crash ends it; the dead mount is gone.
node_kill9() { # NUMBER
    node_down "$1"
    MNT=$(node "$1") kill9
}

# A killed node comes back with what its tier has.
node_remount() { # NUMBER
    node_mount "$1"
    node_up "$1"
}

node_stop() { # NUMBER
    node_down "$1"
    kill -STOP "$(node_pid "$1")"
}

# A node that stood still goes on; one that the others shut out meanwhile is mounted anew.
node_cont() { # NUMBER
    kill -CONT "$(node_pid "$1")"
    node_goes_on "$1"
}

node_goes_on() { # NUMBER
    if ! poll 20 node_works "$1"; then
        same "$(MNT=$(node "$1") status .fenced)" true "whether node $1, which does not work, was shut out"
        MNT=$(node "$1") kill9
        node_mount "$1"
    fi
    node_up "$1"
}

node_works() { # NUMBER
    local file
    file=$(node "$1")/.works$1
    # shellcheck disable=SC2016 # for the shell that it starts
    timeout 20 bash -c 'echo x >"$1" && rm "$1"' works "$file" 2>/dev/null
}

# The clock of a node jumps: nothing that it or others do may fail for that.
node_clock() { # NUMBER SECONDS AHEAD
    echo "node $1: its clock is $2 s ahead"
    echo "$2" >"$T/clock$1.new" && mv "$T/clock$1.new" "$T/clock$1"
}

# The database is away for a moment: all connections of all nodes end.
nodes_restart_database() {
    node_down all
    pg_stop
    pg_start
    local n
    for ((n = 0; n < NODES; n++)); do poll 60 node_works "$n" || fail "node $n does not work again"; done
    node_up all
}

# The program that holds nodes against the model.
nodes_model() {
    local model
    # shellcheck disable=SC2010,SC2012 # names of our own
    model=$(ls -t "$(dirname "$WEIR")"/deps/nodes_model-* 2>/dev/null | grep -v '\.d$' | head -1)
    [ -x "$model" ] || fail "the model is not built: make e2e builds it"
    echo "$model"
}

# Where nodes are, as the model wants it.
nodes_list() {
    local n list
    for ((n = 0; n < NODES; n++)); do list+=:$(node "$n"); done
    echo "${list#:}"
}
