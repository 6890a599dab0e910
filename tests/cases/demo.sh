#!/usr/bin/env bash
# What `make run` shows: it comes to its end, and the three searches found the same.
source "$(dirname "$0")/../lib.sh"
begin
need blastn makeblastdb
(cd "$T" && bash "$TESTS/../scripts/demo.sh") >"$T/demo.log" 2>&1 || fail "demo: $(tail -20 "$T/demo.log")"
for heading in "=== Written" "=== Searched: 200 queries, 200 hits, the same three times" \
    "=== What it costs at S3 list prices"; do
    grep -qF "$heading" "$T/demo.log" || fail "no \"$heading\" in: $(cat "$T/demo.log")"
done
grep -q " $T/weir-demo/mnt " /proc/self/mounts && fail "the demo left its mount behind"
exit 0
