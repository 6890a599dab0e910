# A volume's disks, served by NBD on $SOCKET. Source it after `begin`.
# shellcheck shell=bash

need jq nbdsh /usr/lib/python3/dist-packages/nbd.py
SOCKET=$T/nbd.sock
# Flags that `serve` adds each time.
SERVE_ARGS=()

serve() { # [ARGS...]
    "$WEIR" serve "$URL" --tier "$TIER" --log-file "$LOG" --nbd-unix "$SOCKET" "${CONNECT[@]}" \
        "${SERVE_ARGS[@]}" "$@" || fail "serve $URL $*"
}

# Ends the daemon cleanly: everything is in the bucket then.
stop_serving() {
    local pid
    pid=$(served .pid)
    "$WEIR" stop "$URL" || fail "stop $URL"
    poll 60 gone "$pid" || fail "the daemon $pid outlives weir stop"
}

# Ends the daemon as a crash does.
kill_serving() {
    local pid
    pid=$(served .pid)
    kill -KILL "$pid"
    poll 30 gone "$pid" || fail "the daemon $pid survives kill -9"
}

served() { # JQ
    "$WEIR" status "$URL" --json | jq -cre "$1" || fail "the status of $URL has no $1"
}

# Requests since the daemon began, such as `asked data put`.
asked() { # COMPONENT KIND
    served "[.requests.rows[] | select(.component == \"$1\" and .kind == \"$2\") | .requests] | add // 0"
}

disk() { # COMMAND ARGS...
    local command=$1
    shift
    "$WEIR" disk "$command" "$URL" "$@" "${CONNECT[@]}" >/dev/null || fail "disk $command $*"
}

uri() { echo "nbd+unix:///$1?socket=$SOCKET"; } # DISK

# What libnbd's Python says to a disk, which is `h` there.
client() { # DISK CODE
    nbdsh -u "$(uri "$1")" -c "$2" || fail "client of $1: $2"
}

# The system's Python has libnbd; another one that is first in PATH may not.
nbdsh() { PATH=/usr/bin:$PATH command nbdsh "$@"; }
