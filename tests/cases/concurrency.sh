#!/usr/bin/env bash
# Processes side by side on one mount: directories, locks, mappings, appends, shared fetches; and
# what a file system must be able to name and hold.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq flock
fmt_mount --flush-age 500ms

scene() { # NAME...: each is a function of the program, run in a directory of its own
    local name
    for name in "$@"; do
        mkdir -p "$MNT/$name"
        timeout 120 python3 "$TESTS/tools/concurrency.py" "$name" "$MNT/$name" || fail "$name"
    done
}
scene one_directory listings kept_directory flock fcntl_lock deadlock shared_mapping \
    rename_over_open unlinked_open appends writes_side_by_side opens_beside_writes replaced_names \
    privileges sparse sizes long_names xattrs times holes hard_links special_files statfs

# The kernel keeps the locks of a mount that is alone: it is not told that there are none.
touch "$MNT/locked"
exec 8<"$MNT/locked"
flock -x 8
for place in "$MNT" "$URL"; do
    "$WEIR" locks "$place" >"$T/told" 2>&1 && fail "locks at $place: $(cat "$T/told")"
    grep -q lslocks "$T/told" || fail "not told where to look: $(cat "$T/told")"
done
exec 8<&-

# Eight readers of one cold file share one pass over its segments.
python3 -c "
import random, sys
with open('$MNT/cold', 'wb') as file:
    for _ in range(64):
        file.write(random.Random(3).randbytes(1 << 20))"
want=$(sha256sum <"$MNT/cold")
cold
stored=$(stat -c %s "$MNT/cold")
before=$(status '[.requests.rows[] | select(.component == "data") | .bytes_received] | add // 0')
pids=()
for reader in 1 2 3 4 5 6 7 8; do
    sha256sum <"$MNT/cold" >"$T/sum.$reader" &
    pids+=($!)
done
wait "${pids[@]}" || fail "a reader failed"
for reader in 1 2 3 4 5 6 7 8; do
    same "$(cat "$T/sum.$reader")" "$want" "what reader $reader read"
done
received=$(($(status '[.requests.rows[] | select(.component == "data") | .bytes_received] | add // 0') - before))
gets=$(requests data get)
echo "8 cold readers of $stored bytes: $received bytes in $gets GETs"
[ $((received * 100)) -le $((stored * 102)) ] || fail "more than one pass over the bucket"
[ "$gets" -le $((stored / (1 << 20) + 2)) ] || fail "more than a GET a record"

# All of it again from the bucket.
timeout 120 python3 "$TESTS/tools/concurrency.py" check_kept "$MNT" || fail "after a cold remount"
rm -rf "${MNT:?}"/* || fail "rm -rf"
fsck_clean
