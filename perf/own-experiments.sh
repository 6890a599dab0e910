#!/usr/bin/env bash
# Measures Weir for `weir advise --backtest`: cold reads over a wire that is what the models take S3
# for (150 ms to the first byte, 87.5 MB/s a connection), with a network of 2.4 Gbit/s. Prints the rows of
# crates/cost/data/own-experiments.json. Needs root, 12 GiB of disk, and the programs named below.
#
#   WEIR=…/dist/weir perf/own-experiments.sh [DIRECTORY]      bench-proxy lies beside the program
# needs: versitygw jq python3 mount
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
WEIR=$(realpath "${WEIR:?the program}")
T=$(mktemp -d "${1:-/var/tmp}/weir-own.XXXX")
export WEIR_RUN_DIR=$T/run AWS_ACCESS_KEY_ID=weirtest AWS_SECRET_ACCESS_KEY=weirtestsecret AWS_REGION=us-east-1
export S3_ACCESS_KEY=$AWS_ACCESS_KEY_ID S3_SECRET_KEY=$AWS_SECRET_ACCESS_KEY
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$T/s3/vol" "$T/run" "$T/mnt"
chmod 700 "$T/run"

SERVER=$(tests/s3/versitygw.sh start "$T/s3" "$PORT")
"$(dirname "$WEIR")/bench-proxy" -to "127.0.0.1:$PORT" -delay 75ms -rate 87500000 -total 300000000 >"$T/proxy" &
PROXY=$!
finish() {
    set +e
    ! mountpoint -q "$T/mnt" || "$WEIR" umount "$T/mnt" || umount -l "$T/mnt"
    kill "$PROXY" 2>/dev/null
    tests/s3/versitygw.sh stop "$SERVER"
    rm -rf "$T"
}
trap finish EXIT
until [ -s "$T/proxy" ]; do sleep 0.1; done
FAR="http://$(cat "$T/proxy")"

# The data is made without the wire.
"$WEIR" format s3://vol/own --endpoint "http://127.0.0.1:$PORT" >/dev/null
mounted() { "$WEIR" mount s3://vol/own "$T/mnt" --endpoint "$1" --tier "$T/$2" --tier-size 8GiB; }
mounted "http://127.0.0.1:$PORT" near
for n in 1 2 3 4; do head -c 1GiB /dev/urandom >"$T/mnt/large-$n"; done
head -c 4GiB /dev/urandom >"$T/mnt/large"
mkdir "$T/mnt/small"
for n in $(seq 5000); do head -c 16KiB /dev/urandom >"$T/mnt/small/$n"; done
"$WEIR" umount "$T/mnt"

# Seconds of a command on an empty tier, and nothing in memory: the middle of three.
cold() { # COMMAND...
    local n
    for n in 1 2 3; do
        rm -rf "$T/far"
        mounted "$FAR" far
        echo 3 >/proc/sys/vm/drop_caches
        python3 -c 'import subprocess, sys, time; t = time.monotonic(); subprocess.run(sys.argv[1:], check=True); print(time.monotonic() - t)' "$@"
        "$WEIR" umount "$T/mnt"
    done | sort -n | sed -n 2p
}
row() { # ID WORKLOAD THREADS BYTES_PER_THREAD FILES_PER_THREAD SECONDS
    jq -n --arg id "$1" --arg workload "$2" --argjson threads "$3" --argjson bytes "$4" --argjson files "$5" \
        --argjson s "$6" --arg date "$(date -u +%F)" --arg version "$("$WEIR" --version)" '
        {id: $id, source: "weir-own", date: $date, workload: $workload, threads: $threads, bytes_per_thread: $bytes,
         files: $files, storage: {service: "weir", note: $version}, instance: {type: "lab", nic_gbps: 2.4},
         measured_seconds: ($s * 100 | round / 100)}'
}
dd="dd bs=1M of=/dev/null status=none"
{
    row weir-cold-large-1t "dd bs=1M of one file, cold" 1 4294967296 1 "$(cold sh -c "$dd if=$T/mnt/large")"
    row weir-cold-large-4t "four dd bs=1M of a file each, cold" 4 1073741824 1 \
        "$(cold sh -c "for n in 1 2 3 4; do $dd if=$T/mnt/large-\$n & done; wait")"
    row weir-cold-same-4t "four dd bs=1M of the same file, cold" 4 4294967296 1 \
        "$(cold sh -c "for n in 1 2 3 4; do $dd if=$T/mnt/large & done; wait")"
    row weir-cold-small-1t "cat of 5,000 files of 16 KiB, cold" 1 81920000 5000 "$(cold sh -c "cat $T/mnt/small/* >/dev/null")"
} | jq -s .
