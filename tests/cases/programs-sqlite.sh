#!/usr/bin/env bash
# SQLite on the mount, WAL mode and synchronous=FULL, two processes writing. The daemon is killed in
# the middle: what was committed is there afterwards.
source "$(dirname "$0")/../lib.sh"
begin
need sqlite3 python3 jq
transactions=$(amount 60 600)

source "$TESTS/lib-sqlite.sh"

fmt_mount --flush-age 500ms
db=$MNT/data.db
make_database

write_both "$transactions"
wait $one && wait $two || fail "a writer failed"
same "$(wc -l <"$T/committed")" $((2 * transactions)) "transactions"
check "after two writers"

for round in $(seq "$(amount 2 20)"); do
    before=$(wc -l <"$T/committed")
    write_both 1000000
    more() { [ "$(wc -l <"$T/committed")" -gt $((before + 40)) ]; }
    poll 60 more || fail "no 40 transactions in a minute"
    kill9
    wait $one && fail "a writer outlived its file system"
    wait $two && fail "a writer outlived its file system"
    mount_volume
    check "after kill -9, round $round"
done
sqlite3 "$db" 'vacuum' || fail "vacuum"
cold
check "after a cold remount"
fsck_clean
