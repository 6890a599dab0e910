#!/usr/bin/env bash
# Two machines (network namespaces) of which one serves a volume by NFS and the other stands by, and the address that
# keepalived moves to who serves. The one that serves is killed, stopped for a while, cut off from the network, and
# from the bucket alone: a client goes on within 30 s each time, with its locks, and misses nothing that was answered
# as durable. Who comes back stands by.
# time-limit: 420
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nfs.sh"
need ip jq keepalived python3

NET=10.$((RANDOM % 100 + 100)).$((RANDOM % 250))
ADDRESS=$NET.100
BRIDGE=wn$$
MACHINES=(a b)
space() { echo "wn$$$1"; } # MACHINE

clean_up() {
    local status=$? machine pid
    for machine in "${MACHINES[@]}"; do
        for pid in $(ip netns pids "$(space "$machine")" 2>/dev/null); do kill -KILL "$pid"; done
        ip netns del "$(space "$machine")" 2>/dev/null
    done
    ip link del "$BRIDGE" 2>/dev/null
    (exit "$status")
    ended
}
trap clean_up EXIT

s3_start
ip link add "$BRIDGE" type bridge && ip addr add "$NET.1/24" dev "$BRIDGE" && ip link set "$BRIDGE" up || fail "a bridge"

# A program on a machine, which is another one to who asks its hardware.
on() { # MACHINE COMMAND...
    ip netns exec "$(space "$1")" env WEIR_RUN_DIR="$T/run-$1" WEIR_BOOT_ID="boot-$1" WEIR_HARDWARE_ID="hardware-$1" "${@:2}"
}

machine() { # NAME NUMBER
    local space port
    space=$(space "$1")
    mkdir -m 700 "$T/run-$1"
    ip netns add "$space" && ip link add "$space" type veth peer name eth0 netns "$space" &&
        ip link set "$space" master "$BRIDGE" up && ip -n "$space" addr add "$NET.$2/24" dev eth0 &&
        ip -n "$space" link set eth0 up && ip -n "$space" link set lo up || fail "machine $1"
    # The bucket, as this machine reaches it.
    port=$(free_port)
    echo pass >"$T/bucket-$1.orders"
    CUTS_LISTEN=$NET.1 "$TESTS/tools/cuts.py" "$port" "$S3_PORT" "$T/bucket-$1.orders" >>"$T/cuts.log" 2>&1 &
    remember $!
    cat >"$T/serves-$1" <<SH
#!/bin/sh
export WEIR_RUN_DIR=$T/run-$1 PATH=$PATH
[ "\$("$WEIR" status "$URL" --json 2>/dev/null | jq .nfs.answers)" = true ]
SH
    chmod 755 "$T/serves-$1"
    sed "s|@SERVES@|$T/serves-$1|; s|@ADDRESS@|$ADDRESS|" "$TESTS/tools/keepalived.conf" >"$T/keepalived-$1.conf"
    serve "$1" "$port"
    ip netns exec "$space" keepalived -n -l -D -f "$T/keepalived-$1.conf" -p "$T/keepalived-$1.pid" -r "$T/vrrp-$1.pid" \
        >"$T/keepalived-$1.log" 2>&1 &
    echo "$port" >"$T/bucket-$1.port"
}

serve() { # MACHINE [PORT OF ITS BUCKET]
    local port=${2:-$(cat "$T/bucket-$1.port")}
    on "$1" "$WEIR" serve "$URL" --tier "$T/tier-$1" --log-file "$T/weir-$1.log" --endpoint "http://$NET.1:$port" \
        --nfs 0.0.0.0:2049 --nfs-lease 10s --standby || fail "weir serve on $1"
}

pid_of() { daemons_below "$T/tier-$1"; } # MACHINE
serves() { [ "$(on "$1" "$WEIR" status "$URL" --json 2>/dev/null | jq .nfs.answers)" = true ]; } # MACHINE
stands_by() { [ "$(grep -c "standing by" "$T/weir-$1.log")" -ge "$2" ]; }                         # MACHINE TIMES
life() { # NUMBER MACHINE THAT SERVES MACHINE THAT DOES NOT
    nfs_lives "$1" 60
    serves "$2" || fail "life $1: $2 does not serve"
    serves "$3" && fail "life $1: $2 serves, and $3 answers, too"
    return 0
}

format_volume
machine a 2
poll 20 serves a || fail "a does not serve"
on a "$WEIR" export add "$URL" / --name '' --squash none >/dev/null || fail "weir export add"
machine b 3
poll 20 stands_by b 1 || fail "b does not stand by"
# The client is the bridge's own machine.
reached() { (exec 3<>"/dev/tcp/$ADDRESS/2049") 2>/dev/null; }
poll 30 reached || fail "nobody has the address"
SECONDS_IN_ALL=$(amount 200 600)
# How long it waits depends on what else the machine does, so this only says that it goes on; the client tells the time.
nfs_goes_on "$ADDRESS:2049" "$SECONDS_IN_ALL" 60
life 1 a b
sleep 5

echo "== a is killed"
kill -KILL "$(pid_of a)"
life 2 b a
serve a
poll 20 stands_by a 1 || fail "a came back and does not stand by"
serves b || fail "b was disturbed"
sleep 3

echo "== b stands still for a while"
still=$(pid_of b)
kill -STOP "$still"
life 3 a b
kill -CONT "$still"
poll 30 stands_by b 2 || fail "b lost the volume and does not stand by"
serves a || fail "a was disturbed"
sleep 3

echo "== a is cut off from the network"
ip link set "$(space a)" down
life 4 b a
ip link set "$(space a)" up
poll 40 stands_by a 2 || fail "a lost the volume and does not stand by"
sleep 3

echo "== b is cut off from the bucket, and its clients are not"
echo silent >"$T/bucket-b.orders"
life 5 a b
echo pass >"$T/bucket-b.orders"
poll 60 stands_by b 3 || fail "b lost the volume and does not stand by"

nfs_went_on
on a "$WEIR" stop "$URL" || fail "weir stop"
kill -TERM "$(pid_of b)"
poll 30 gone "$(pid_of b)"
"$WEIR" fsck "$URL" "${CONNECT[@]}" --data >/dev/null || fail "weir fsck"
