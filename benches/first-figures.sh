#!/usr/bin/env bash
# First figures: weir over a directory and over an S3 server, beside the bare local disk and the raw
# server, in one run. Prints a table, writes JSON. Needs root, about 10 GiB of disk, 10 minutes.
#
#   WEIR       a release binary
#   BENCH_MIB (1024)  BENCH_FILES (10000)  BENCH_REPEATS (3)   less of it
#   BENCH_OUT  where the JSON goes (target/first-figures.json)
source "$(dirname "$0")/../tests/lib.sh"
out=$(realpath -m "${BENCH_OUT:-$TESTS/../target/first-figures.json}")
begin
need fio python3 jq curl
s3_start
mkdir -p "$T/s3/raw" "$(dirname "$out")"
cd "$T" || exit 1 # fio leaves its notes where it runs
python3 "$TESTS/../benches/first_figures.py" "$T" "http://127.0.0.1:$S3_PORT" "$out" ||
    fail "the bench did not end well"
