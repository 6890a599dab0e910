#!/usr/bin/env bash
# Disks from the command line: made, listed, resized, copied and deleted, with a daemon and without;
# serving them, and what goes wrong with all of it. What disks promise is held elsewhere.
source "$(dirname "$0")/../lib.sh"
begin
need jq nbdinfo nbdcopy qemu-io openssl curl python3

DISKS=$T/nbd.sock

serve() { # [ARGS...]
    "$WEIR" serve "$URL" --tier "$TIER" --log-file "$LOG" "$@" || fail "serve $URL $*"
}
stop() { "$WEIR" stop "$URL" || fail "stop $URL"; }
served() { # JQ
    "$WEIR" status "$URL" --json | jq -cr "$1" || fail "nobody serves $URL"
}
serve_pid() { served .pid; }
kill_serve() {
    local pid
    pid=$(serve_pid)
    kill -KILL "$pid"
    poll 30 gone "$pid" || fail "the daemon $pid survives kill -9"
}
disk() { # COMMAND ARGS...
    local command=$1
    shift
    "$WEIR" disk "$command" "$URL" "$@" || fail "disk $command $*"
}
names() { "$WEIR" disk list "$URL" --json | jq -rc '[.[].name] | join(" ")'; }
of() { # DISK JQ
    "$WEIR" disk list "$URL" --json | jq -re ".[] | select(.name == \"$1\") | $2" || fail "$1 has no $2"
}
uri() { echo "nbd+unix:///$1?socket=$DISKS"; }
refused() { # WHAT COMMAND... -- WORDS...
    local what=$1 command=() word
    shift
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    timeout 60 "${command[@]}" >"$T/out" 2>&1
    same $? 1 "exit code of: $what ($(cat "$T/out"))"
    for word in "$@"; do
        grep -qi -- "$word" "$T/out" || fail "$what: does not say '$word': $(cat "$T/out")"
    done
    [ "$(wc -l <"$T/out")" -le 2 ] || fail "$what: says too much: $(cat "$T/out")"
}

# Every command, whoever does the work.
all_commands() {
    disk create a --size 4TiB | grep -q "a is a disk now: 4 TiB, records of 1 MiB" || fail "create says nothing"
    disk create b --size 8MiB --record 64KiB --cache tier --json | jq -e '.record_bytes == 65536' >/dev/null ||
        fail "create --json"
    same "$(names)" "a b" "disks"
    same "$(of a .size_bytes)" 4398046511104 "size"
    same "$(of b .cache)" tier "cache"
    disk snapshot b one >/dev/null
    disk clone b@one c >/dev/null
    disk clone a d --json | jq -e '.origin == "a"' >/dev/null || fail "clone --json"
    same "$(names)" "a b b@one c d" "disks with copies"
    same "$(of b@one .read_only)" true "a snapshot is read-only"
    same "$(of c '.origin + " " + (.read_only | tostring)')" "b@one false" "a clone"
    disk resize b --size 16MiB | grep -q "16 MiB" || fail "resize says nothing"
    disk resize b --size 4MiB --shrink --json | jq -e '.size_bytes == 4194304' >/dev/null || fail "resize --json"
    same "$(of b@one .size_bytes)" 8388608 "the size of a snapshot of a disk that was cut"
    "$WEIR" disk list "$URL" | grep -q '^  b@one  *8 MiB ' || fail "list: $("$WEIR" disk list "$URL")"

    local on=("$WEIR" disk)
    refused "a taken name" "${on[@]}" create "$URL" a --size 1MiB -- "already"
    refused "a bad name" "${on[@]}" create "$URL" a/b --size 1MiB -- "a/b" "letters"
    refused "an empty name" "${on[@]}" create "$URL" "" --size 1MiB -- "letters"
    refused "the name of a snapshot" "${on[@]}" create "$URL" a@b --size 1MiB -- "a@b"
    refused "no whole blocks" "${on[@]}" create "$URL" x --size 10000 -- "multiple of 4096"
    refused "no size at all" "${on[@]}" create "$URL" x --size 0 -- "multiple of 4096"
    refused "too large" "${on[@]}" create "$URL" x --size 16TiB -- "16 TiB"
    refused "a record of 5000" "${on[@]}" create "$URL" x --size 1MiB --record 5000 -- "power of two"
    refused "a record over the volume's" "${on[@]}" create "$URL" x --size 1MiB --record 2MiB -- "1 MiB"
    refused "shrinking by mistake" "${on[@]}" resize "$URL" b --size 1MiB -- "--shrink"
    refused "resizing a snapshot" "${on[@]}" resize "$URL" b@one --size 16MiB -- "read-only"
    refused "resizing what is not there" "${on[@]}" resize "$URL" x --size 16MiB -- "x"
    refused "deleting what is not there" "${on[@]}" delete "$URL" x -- "x"
    refused "a snapshot that is there" "${on[@]}" snapshot "$URL" b one -- "b@one" "already"
    refused "a snapshot with a bad name" "${on[@]}" snapshot "$URL" b "o ne" -- "letters"
    refused "a clone of what is not there" "${on[@]}" clone "$URL" x y -- "x"
    same "$(names)" "a b b@one c d" "disks after mistakes"

    disk delete b@one >/dev/null
    disk delete d --json | jq -e '.deleted == "d"' >/dev/null || fail "delete --json"
    same "$(names)" "a b c" "disks after deleting"
    for name in a b c; do disk delete $name >/dev/null; done
    "$WEIR" disk list "$URL" | grep -q "no disks" || fail "list of none"
}

echo "== without a daemon"
refused "a place that is no volume" "$WEIR" disk create "$URL" a --size 1MiB -- "not a Weir volume"
refused "no URL" "$WEIR" disk list "$BUCKET/vol" -- "file://"
format_volume
all_commands
[ ! -e "$BUCKET/vol/writer.json" ] || fail "the volume is left open"
same "$(find "${TMPDIR:-/tmp}" /var/tmp -maxdepth 1 -name 'weir-passing-*' 2>/dev/null | wc -l)" 0 "temporary tiers that stay"
"$WEIR" fsck --data "$URL" || fail "fsck"

echo "== by a daemon that serves"
serve
all_commands
same "$(served '[.mountpoint, .passthrough, .block.nbd]')" "[null,null,null]" "status without a mount and NBD"
"$WEIR" status | grep -q "^$URL, not mounted" || fail "status does not list it: $("$WEIR" status)"
"$WEIR" bill "$URL" --json | jq -e '.mountpoint == null and .volume' >/dev/null || fail "bill of a served volume"
"$WEIR" throughput "$URL" >/dev/null || fail "throughput of a served volume"
"$WEIR" flush "$URL" || fail "flush of a served volume"
"$WEIR" df "$URL" >/dev/null || fail "df of a served volume"
disk create kept --size 8MiB >/dev/null

echo "== devices that cannot be"
refused "attaching what is not there" "$WEIR" attach nope -- "nope" "disk list"
refused "attaching from nobody" "$WEIR" attach kept --volume "file://$T/nowhere" -- "weir serve file://$T/nowhere"
refused "attaching as no device" "$WEIR" attach kept --driver nbd --device /dev/null -- "/dev/null" "/dev/nbd0"
refused "detaching what is no device" "$WEIR" detach kept -- "kept" "weir status"

echo "== beside a daemon that is ending, the others are asked"
# It takes each question, and is gone before it answers.
python3 -c 'import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True: listener.accept()[0].close()' "$WEIR_RUN_DIR/ending.sock" &
remember $!
poll 30 test -S "$WEIR_RUN_DIR/ending.sock" || fail "no socket"
refused "attaching what is there, as no device" "$WEIR" attach kept --driver nbd --device /dev/null -- "/dev/nbd0"
refused "attaching what nobody has" "$WEIR" attach nope -- "has a disk .nope" "of ending: the daemon ended"
refused "detaching what nobody has" "$WEIR" detach nope -- "attached that" "of ending: the daemon ended"
for command in links actions; do
    "$WEIR" $command >"$T/out" 2>"$T/err" || fail "weir $command: $(cat "$T/err")"
    grep -q "^weir: warning: of ending: " "$T/err" || fail "weir $command does not tell of it: $(cat "$T/err")"
done
kill "$(cat "$T/$!.pid")" && rm "$WEIR_RUN_DIR/ending.sock"

echo "== two that want one volume"
refused "two serves" "$WEIR" serve "$URL" --tier "$T/tier2" --log-file "$T/2.log" -- "process $(serve_pid)" "weir stop"
refused "a mount beside a serve" "$WEIR" mount "$URL" "$MNT" --tier "$T/tier2" --log-file "$T/2.log" -- \
    "process $(serve_pid)" "--read-only"
pid=$(serve_pid)
stop
poll 60 gone "$pid" || fail "the daemon outlives weir stop"
refused "stopping twice" "$WEIR" stop "$URL" -- "not served"
refused "the status of nobody" "$WEIR" status "$URL" -- "not served"
[ ! -e "$BUCKET/vol/writer.json" ] || fail "weir stop leaves the volume open"

echo "== by a daemon that mounted, with both doors"
MOUNT_ARGS=(--nbd-unix "$DISKS")
mount_volume
same "$(names)" kept "disks seen through a mount"
disk create a --size 1MiB >/dev/null
disk delete a >/dev/null
same "$(nbdinfo --size "$(uri kept)")" 8388608 "the size by NBD beside a mount"
refused "a serve beside a mount" "$WEIR" serve "$URL" --tier "$T/tier2" --log-file "$T/2.log" -- \
    "mounted at $MNT" "--nbd"
refused "stop for a mount" "$WEIR" stop "$URL" -- "weir umount $MNT"
umount_volume
[ ! -e "$DISKS" ] || fail "the NBD socket stays"

echo "== clients"
serve --nbd-unix "$DISKS" --nbd "127.0.0.1:$(free_port)"
address=$(served .block.nbd.address)
same "$(nbdinfo --size "nbd://$address/kept")" 8388608 "the size over TCP"
nbdinfo --list "$(uri '')" | grep -q kept || fail "the export is not listed"
head -c 8388608 /dev/urandom >"$T/data"
nbdcopy --flush "$T/data" "$(uri kept)" || fail "nbdcopy"
coproc HOLD { exec qemu-io -f raw "$(uri kept)"; }
holder=$HOLD_PID
echo "read 0 4k" >&"${HOLD[1]}"
is_open() { [ "$(of kept .opens)" -ge 1 ]; }
poll 30 is_open || fail "a connection is not counted"
same "$(served '.block | [.disks_open, .counts.connections >= 1, .counts.bytes_written]')" \
    "[1,true,8388608]" "counts"
refused "deleting a disk in use" "$WEIR" disk delete "$URL" kept -- "in use"
curl -sf --unix-socket "$WEIR_RUN_DIR"/*.sock http://weir/metrics >"$T/metrics" || fail "metrics"
grep -q '^weir_block_disks_open 1$' "$T/metrics" || fail "metrics: $(grep block "$T/metrics")"
grep -q '^weir_block_written_bytes_total 8388608$' "$T/metrics" || fail "metrics: $(grep block "$T/metrics")"
disk snapshot kept now >/dev/null
nbdcopy "$(uri kept@now)" "$T/copy" || fail "reading a snapshot"
cmp "$T/data" "$T/copy" || fail "a snapshot has other bytes"
qemu-io -f raw -c "write 0 4k" "$(uri kept@now)" >/dev/null 2>&1 && fail "a snapshot can be written"

echo "== kill -9, and serve again"
kill_serve
kill $holder
wait $holder 2>/dev/null
refused "changing what a dead daemon had" "$WEIR" disk create "$URL" x --size 1MiB -- "did not end cleanly" "--tier"
same "$(names)" "kept kept@now" "listing what a dead daemon had"
[ -e "$DISKS" ] || fail "kill -9 should leave the socket"
serve --nbd-unix "$DISKS"
nbdcopy "$(uri kept)" "$T/copy" || fail "reading after kill -9"
cmp "$T/data" "$T/copy" || fail "flushed bytes are gone after kill -9"
disk delete kept@now >/dev/null

echo "== a signal ends it, with a client in the middle"
coproc HOLD { exec qemu-io -f raw "$(uri kept)"; }
holder=$HOLD_PID
echo "write -P 7 0 8M" >&"${HOLD[1]}"
poll 30 is_open || fail "a connection is not counted"
written() { [ "$(served .block.counts.bytes_written)" -ge 8388608 ]; }
poll 30 written || fail "the write does not arrive"
pid=$(serve_pid)
kill -TERM "$pid"
poll 60 gone "$pid" || fail "SIGTERM does not end it"
kill $holder 2>/dev/null
wait $holder 2>/dev/null
lose_tier
serve --nbd-unix "$DISKS" --read-only
head -c 8388608 /dev/zero | tr '\0' '\7' >"$T/data"
nbdcopy "$(uri kept)" "$T/copy" || fail "reading read-only"
cmp "$T/data" "$T/copy" || fail "what was written before SIGTERM is not in the bucket"
qemu-io -f raw -c "write 0 4k" "$(uri kept)" >/dev/null 2>&1 && fail "written through --read-only"
disk create beside --size 1MiB >/dev/null # a reader keeps nobody from it
stop

echo "== TLS"
tls=(--nbd "127.0.0.1:0" --nbd-tls-cert "$T/cert.pem" --nbd-tls-key "$T/key.pem")
on=("$WEIR" serve "$URL" --tier "$TIER" --log-file "$LOG")
"${on[@]}" --nbd-tls-cert "$T/cert.pem" 2>"$T/out" && fail "a certificate without a key"
grep -q -- "--nbd" "$T/out" || fail "a certificate without a key: $(cat "$T/out")"
refused "certificates that are not there" "${on[@]}" "${tls[@]}" -- "TLS cannot use" ".pem" "No such file"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$T/key.pem" -out "$T/cert.pem" 2>/dev/null || fail "openssl"
echo nonsense >"$T/bad.pem"
refused "a certificate that is none" "${on[@]}" "${tls[@]:0:2}" --nbd-tls-cert "$T/bad.pem" --nbd-tls-key "$T/key.pem" -- \
    "$T/bad.pem"
refused "a key that is none" "${on[@]}" "${tls[@]:0:4}" --nbd-tls-key "$T/bad.pem" -- "$T/bad.pem"
refused "an authority that is none" "${on[@]}" "${tls[@]}" --nbd-tls-client-ca "$T/bad.pem" -- "$T/bad.pem"
port=$(free_port)
python3 -m http.server --bind 127.0.0.1 "$port" >/dev/null 2>&1 &
remember $!
poll 30 curl -so /dev/null "http://127.0.0.1:$port" || fail "no server on port $port"
refused "a port that is taken" "${on[@]}" --nbd "127.0.0.1:$port" -- "127.0.0.1:$port"
[ ! -e "$BUCKET/vol/writer.json" ] || fail "a serve that failed leaves the volume open"
serve "${tls[@]}"
address=$(served .block.nbd.address)
same "$(served .block.nbd.tls)" required "TLS in status"
nbdinfo --size "nbd://$address/kept" >/dev/null 2>&1 && fail "served without TLS"
mkdir "$T/pki" && cp "$T/cert.pem" "$T/pki/ca-cert.pem"
same "$(nbdinfo --size "nbds://localhost:${address##*:}/kept?tls-certificates=$T/pki")" 8388608 "the size by TLS"
stop
"$WEIR" fsck --data "$URL" || fail "fsck"
