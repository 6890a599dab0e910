#!/usr/bin/env bash
# Disks as programs use them over NBD: nbdinfo, nbdcopy, qemu-img, qemu-io, fio and libnbd, over
# Unix sockets, TCP and TLS, from a directory and from six buckets of an S3 server.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nbd.sh"
need jq nbdinfo nbdcopy nbdsh qemu-img qemu-io fio openssl python3
seed

MIB=1048576
io() { qemu-io -f raw "${@:2}" "$(uri "$1")" >"$T/io.log" 2>&1 || fail "qemu-io ${*:2}: $(cat "$T/io.log")"; }
nothing() { ! qemu-io -f raw "${@:2}" "$(uri "$1")" >"$T/io.log" 2>&1; }
map() { nbdinfo --map --json "$(uri "$1")" | jq -c '[.[] | [.offset, .length, .description]]'; }
lines() { grep -c "$1" "$LOG"; }

# A file with 12 MiB of bytes, zeros and holes.
random_file() { # FILE BYTES
    python3 - "$1" "$2" "$SEED" <<'PY'
import random, sys
path, size, rng = sys.argv[1], int(sys.argv[2]), random.Random(sys.argv[3])
with open(path, "wb") as file:
    file.truncate(size)
    for _ in range(20):
        file.seek(rng.randrange(size // 512 - 600) * 512)
        file.write(rng.choice([rng.randbytes(rng.randrange(300_000)), bytes(100_000)]))
PY
}

echo "== what is data and what are holes"
format_volume
serve --nbd 127.0.0.1:0
tcp=nbd://$(served .block.nbd.address)
disk create a --size 16MiB --cache tier
disk create b --size 16MiB
nbdinfo --json "$(uri a)" | jq -e '.exports[0] | .["export-size"] == 16777216 and .can_multi_conn and
    .can_fua and .can_trim and .can_zero and (.is_read_only | not) and .["block_size_maximum"] == 33554432' \
    >/dev/null || fail "nbdinfo: $(nbdinfo --json "$(uri a)")"
same "$(nbdinfo --list --json "$tcp" | jq -c '[.exports[]["export-name"]] | sort')" '["a","b"]' "exports"
same "$(map a)" '[[0,16777216,"hole,zero"]]' "the map of a new disk"
for name in a b; do
    io $name -c "write -P 1 1M 2M" -c "write -P 2 8M 64k" -c flush -c "write -P 3 12M 4k"
    want="[[0,$MIB,\"hole,zero\"],[$MIB,$((2 * MIB)),\"data\"],[$((3 * MIB)),$((5 * MIB)),\"hole,zero\"],"
    want+="[$((8 * MIB)),65536,\"data\"],[$((8 * MIB + 65536)),$((4 * MIB - 65536)),\"hole,zero\"],"
    want+="[$((12 * MIB)),4096,\"data\"],[$((12 * MIB + 4096)),$((4 * MIB - 4096)),\"hole,zero\"]]"
    same "$(map $name)" "$want" "the map of $name"
    io $name -c "discard 1M 1M" -c "write -z -u 8M 64k" -c "write -z 12M 4k"
    want="[[0,$((2 * MIB)),\"hole,zero\"],[$((2 * MIB)),$MIB,\"data\"],"
    want+="[$((3 * MIB)),$((13 * MIB)),\"hole,zero\"]]"
    same "$(map $name)" "$want" "the map of $name, trimmed"
done

echo "== bytes that a flush takes away are no holes meanwhile"
nbdsh -c - <<PY || fail "data is told as a hole"
import nbd
def connect():
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_uri("$(uri b)")
    return h
writer, reader = connect(), connect()
for turn in range($(amount 300 20000)):
    writer.zero($MIB, 0)
    writer.flush()
    writer.pwrite(b"x" * 65536, 0)
    flush = writer.aio_flush()
    while not writer.aio_command_completed(flush):
        found = []
        reader.block_status(65536, 0, lambda context, offset, entries, error: found.extend(entries))
        assert found[:2] == [65536, 0], f"turn {turn}: {found}"
        writer.poll(0)
PY

echo "== nbdcopy"
random_file "$T/data" $((16 * MIB))
for name in a b; do
    for connections in 1 4; do
        for to in "$(uri $name)" "$tcp/$name"; do
            for ((turn = 0; turn < $(amount 2 50); turn++)); do
                random_file "$T/data" $((16 * MIB))
                SEED=$((SEED + 1))
                nbdcopy --connections $connections "$T/data" "$to" || fail "nbdcopy to $to"
                nbdcopy "$to" - | cmp - "$T/data" || fail "$to as a stream is not what was copied"
                nbdcopy --connections $connections --request-size $((1 << (16 + turn % 10))) "$to" "$T/copy" ||
                    fail "nbdcopy from $to"
                cmp "$T/copy" "$T/data" || fail "$to is not what was copied"
            done
        done
    done
done
nbdcopy --flush --allocated "$T/data" "$(uri a)" || fail "nbdcopy of zeros as data"
nbdcopy "$(uri a)" "$(uri b)" || fail "nbdcopy from a disk to another"
nbdcopy --no-extents "$(uri b)" - | cmp - "$T/data" || fail "a copy of a disk has other bytes"

echo "== qemu-img"
qemu-img create -q -f qcow2 "$T/image" 16M
qemu-io -f qcow2 -c "write -P 7 3M 2M" -c "write -P 8 10000k 77k" -c "write -z 14M 1M" "$T/image" >/dev/null ||
    fail "qemu-io on a qcow2"
for name in a b; do
    qemu-img convert -n -f qcow2 -O raw "$T/image" "$(uri $name)" || fail "qemu-img convert to $name"
    qemu-img compare -q -f qcow2 -F raw "$T/image" "$(uri $name)" || fail "qemu-img compare with $name"
    qemu-img convert -m 16 -W -f raw -O qcow2 "$(uri $name)" "$T/back" || fail "qemu-img convert from $name"
    qemu-img compare -q -f qcow2 -F qcow2 "$T/image" "$T/back" || fail "$name came back as another image"
    qemu-img map -f raw --output json "$(uri $name)" | jq -e '[.[] | select(.data)] |
        all(.[]; .start + .length <= 11 * 1048576) and (map(.length) | add) >= 2 * 1048576' >/dev/null ||
        fail "qemu-img map: $(qemu-img map -f raw --output json "$(uri $name)")"
done

echo "== qemu-io"
for name in a b; do
    io $name -c "write -P 1 0 4M" -c "write -P 2 511 1023" -c "write -P 3 1048575 3" \
        -c "write -P 4 -f 2097153 70001" -c "write -z -u 3000001 99999" -c "discard 3500000 100000" \
        -c "aio_write -P 5 5M 1M" -c "aio_write -P 6 6M 64k" -c "aio_write -z 7M 1M" -c aio_flush -c flush
    for ((turn = 0; turn < 2; turn++)); do
        io $name -c "read -P 1 0 511" -c "read -P 2 511 1023" -c "read -P 1 1534 1047041" -c "read -P 3 1048575 3" \
            -c "read -P 1 1048578 1048575" -c "read -P 4 2097153 70001" -c "read -P 0 3000001 99999" \
            -c "read -P 1 3100000 400000" -c "read -P 0 3502080 94208" -c "read -P 5 5M 1M" \
            -c "read -P 6 6M 64k" -c "read -P 0 7M 1M"
        # The same, from the bucket.
        stop_serving
        lose_tier
        serve --nbd 127.0.0.1:0
    done
done

echo "== fio"
for name in a b; do
    # Blocks of one size each: fio itself mixes up those that overlap.
    for size in 4k 64k 1m; do
        fio --name=check --aux-path="$T" --ioengine=nbd --uri="$(uri $name)" --rw=randrw --bs=$size --size=16m --iodepth=32 \
            --verify=crc32c --verify_fatal=1 --randseed="$SEED" --fsync=200 --output="$T/fio.log" ||
            fail "fio on $name: $(cat "$T/fio.log")"
    done
done

echo "== two connections of one client: the second flushes what the first wrote"
for name in a b; do
    nbdsh -c - <<PY || fail "multi-conn"
import nbd
first, second = nbd.NBD(), nbd.NBD()
for h in first, second:
    h.connect_uri("$(uri $name)")
assert first.can_multi_conn()
first.pwrite(b"1" * 4096, 4096)
first.pwrite(b"2" * $MIB, 2 * $MIB)
assert second.pread(4096, 4096) == b"1" * 4096, "a write that returned is not seen"
second.flush()
second.pwrite(b"3" * 512, 12 * $MIB + 100, nbd.CMD_FLAG_FUA)
PY
done
kill_serving
lose_tier
serve --accept-loss tier --nbd 127.0.0.1:0
for name in a b; do
    client $name "assert h.pread(4096, 4096) == b'1' * 4096; assert h.pread($MIB, 2 * $MIB) == b'2' * $MIB"
    client $name "assert h.pread(512, 12 * $MIB + 100) == b'3' * 512"
done

echo "== a client that dies in a write of 32 MiB"
disk create large --size 64MiB
io large -c "write -P 9 0 32M" -c flush
left=$(lines "NBD client left")
for ((turn = 0; turn < 3; turn++)); do
    # It sends what the socket takes, and no more.
    nbdsh -u "$(uri large)" -c 'import os, signal
h.aio_pwrite(b"x" * (32 << 20), 0)
os.kill(os.getpid(), signal.SIGKILL)' 2>/dev/null
    same $? 137 "the client's exit code"
done
told() { [ "$(lines "NBD client left")" -ge $((left + 3)) ]; }
poll 30 told || fail "the log does not tell of clients that left"
io large -c "read -P 9 0 32M"
same "$(lines "NBD client left")" $((left + 3)) "log lines for three clients that left"

echo "== what is not there, and what cannot be written"
nbdinfo "$(uri nope)" >"$T/out" 2>&1 && fail "a disk that is not there"
grep -q nope "$T/out" || fail "nbdinfo does not say what is not there: $(cat "$T/out")"
nbdinfo "$(uri 'a@nope')" >/dev/null 2>&1 && fail "a snapshot that is not there"
nbdinfo "$(uri '')" >/dev/null 2>&1 && fail "a disk without a name"
disk snapshot large now
io large -c "write -P 1 0 32M"
io large@now -r -c "read -P 9 0 32M"
nbdinfo --json "$(uri large@now)" | jq -e '.exports[0].is_read_only' >/dev/null || fail "a snapshot is not read-only"
nothing large@now -c "write 0 4k" || fail "a snapshot was written"
client large@now "
h.set_strict_mode(0)
for write in (lambda: h.pwrite(b'x' * 512, 0)), (lambda: h.trim(4096, 0)), (lambda: h.zero(4096, 0)):
    try:
        write()
        raise SystemExit('written')
    except nbd.Error as error:
        assert error.errno == 'EPERM', error"
client large "
h.set_strict_mode(0)
for request, want in ((lambda: h.pread(512, 64 << 20), 'EINVAL'), (lambda: h.pwrite(b'x' * 512, 64 << 20), 'ENOSPC'),
                      (lambda: h.pread(512, (64 << 20) - 511), 'EINVAL'), (lambda: h.pread(512, 1 << 62), 'EINVAL')):
    try:
        request()
        raise SystemExit('past the end')
    except nbd.Error as error:
        assert error.errno == want, error
assert h.pread(4096, 0) == b'\1' * 4096"

echo "== resized while a client has it"
client large "
import os, subprocess
def resize(*size):
    command = [os.environ['WEIR'], 'disk', 'resize', '$URL', 'large', '--size', *size]
    subprocess.check_call(command, stdout=subprocess.DEVNULL)
h.set_strict_mode(0)
resize('96MiB')
assert h.get_size() == 64 << 20
h.pwrite(b'x' * 4096, 80 << 20)
assert h.pread(8192, 80 << 20) == b'x' * 4096 + bytes(4096)
resize('32MiB', '--shrink')
for request, want in ((lambda: h.pread(512, 80 << 20), 'EINVAL'), (lambda: h.pwrite(b'x', 32 << 20), 'ENOSPC')):
    try:
        request()
        raise SystemExit('past the end')
    except nbd.Error as error:
        assert error.errno == want, error
resize('96MiB')
assert h.pread(8192, 80 << 20) == bytes(8192), 'what was cut off is back'
assert h.pread(1 << 20, 31 << 20) == b'\1' * (1 << 20)"
same "$(nbdinfo --size "$(uri large)")" $((96 * MIB)) "the size for a new client"
stop_serving
lose_tier
serve --read-only
nothing a -c "write 0 4k" || fail "written through --read-only"
io large -r -c "read -P 1 0 32M" -c "read -P 0 32M 32M"
stop_serving

echo "== TLS, with certificates of clients"
mkdir "$T/pki" "$T/stranger"
pem() { # NAME SUBJECT [ARGS...]
    openssl req -newkey rsa:2048 -nodes -days 2 -subj "/CN=$2" -keyout "$T/pki/$1-key.pem" -out "$T/pki/$1-cert.pem" \
        -x509 "${@:3}" 2>/dev/null || fail "openssl: $1"
}
pem ca authority
signed=(-CA "$T/pki/ca-cert.pem" -CAkey "$T/pki/ca-key.pem" -addext basicConstraints=critical,CA:FALSE)
pem server localhost "${signed[@]}" -addext subjectAltName=DNS:localhost
pem client someone "${signed[@]}"
cp "$T/pki/ca-cert.pem" "$T/stranger"
lose_tier
serve --nbd 127.0.0.1:0 --nbd-tls-cert "$T/pki/server-cert.pem" --nbd-tls-key "$T/pki/server-key.pem" \
    --nbd-tls-client-ca "$T/pki/ca-cert.pem"
address=$(served .block.nbd.address)
tls=nbds://localhost:${address##*:}/b?tls-certificates=$T
nbdcopy --connections 4 "$T/data" "$tls/pki" || fail "nbdcopy by TLS"
nbdcopy --connections 4 "$tls/pki" "$T/copy" || fail "nbdcopy by TLS"
cmp "$T/copy" "$T/data" || fail "other bytes by TLS"
nbdinfo --size "$tls/stranger" >/dev/null 2>&1 && fail "a client without a certificate was let in"
nbdinfo --size "nbd://$address/b" >/dev/null 2>&1 && fail "a client without TLS was let in"
stop_serving
"$WEIR" fsck --data "$URL" || fail "fsck"

echo "== six buckets: a record is one PUT, and one GET"
s3_start
stripes=()
for ((bucket = 2; bucket <= 6; bucket++)); do
    mkdir "$T/s3/bucket$bucket"
    stripes+=(--stripe "s3://bucket$bucket/vol")
done
format_volume "${stripes[@]}"
lose_tier
serve
disk create zfs --size 1GiB
before=$(asked data put)
client zfs "
for record in range(64):
    h.pwrite(bytes([record + 1]) * $MIB, (7 * record) % 64 * $MIB)
h.flush()"
same $(($(asked data put) - before)) 64 "PUTs for 64 records"
same "$(asked data get)" 0 "GETs for writing records"
stop_serving
lose_tier
for bucket in "$T"/s3/*/vol; do
    [ "$(find "$bucket/seg" -type f | wc -l)" -ge 1 ] || fail "no record is in $bucket"
done
serve
client zfs "
for record in range(64):
    assert h.pread($MIB, (7 * record) % 64 * $MIB) == bytes([record + 1]) * $MIB, record"
same "$(asked data get)" 64 "GETs for 64 records"
same "$(asked data put)" 0 "PUTs for reading records"
nbdcopy --flush --connections 4 "$T/data" "$(uri zfs)" || fail "nbdcopy to six buckets"
stop_serving
lose_tier
serve
nbdcopy --connections 4 "$(uri zfs)" "$T/copy" || fail "nbdcopy from six buckets"
cmp -n $((16 * MIB)) "$T/copy" "$T/data" || fail "other bytes from six buckets"
disk delete zfs
stop_serving
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck of six buckets"
s3_stop
