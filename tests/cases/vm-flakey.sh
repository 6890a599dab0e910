#!/usr/bin/env bash
# The tier's or the journal's disk fails below its file system while files are written and fsynced:
# it refuses writes, or everything, and is repaired. What an fsync said holds, no byte is another,
# nothing hangs, and the volume mounts again. Prints its seed.
# busy: it emulates a machine
# time-limit: 420
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"

seed

vm_disk tier 1G
vm_disk journal 320M

VM_TIMEOUT=$(amount 1200 5400)
export VM_TIMEOUT
guest "SEED=$SEED ROUNDS=$(amount 3 40)" <<'GUEST'
source "$TESTS/lib-flakey.sh"

RANDOM=$SEED
any() { printf -v "$1" %s "${@:2 + RANDOM % ($# - 1):1}"; } # VARIABLE VALUE...

up() {
    timeout 120 "$WEIR" mount "$URL" "$MNT" --tier /mnt/tier --journal /mnt/journal --log-file "$LOG" \
        --flush-age 1s || fail "the volume does not mount: $what"
    daemon=$(daemons_below /mnt/tier)
}

down() {
    poll 60 gone "$daemon" || fail "the daemon does not end: $what"
    umount -l "$MNT" 2>/dev/null || true
}

what=new
flakey_disk tier ext4
flakey_disk journal xfs
"$WEIR" format "$URL" >/dev/null || fail "format"
for ((round = 1; round <= ROUNDS; round++)); do
    any disk tier tier journal
    any fault break_writes break_all
    any end kill umount
    what="round $round, $fault $disk, $end"
    echo "== $what"
    up
    python3 "$TESTS/tools/flakey.py" write "$MNT" "$SHARE/told" $((SEED + round)) &
    writer=$!
    sleep $((1 + RANDOM % 3))
    $fault $disk
    sleep $((2 + RANDOM % 3))
    timeout 20 "$WEIR" status "$MNT" >/dev/null 2>&1
    [ $? != 124 ] || fail "weir status hangs: $what"
    heal $disk
    sleep 1
    kill $writer
    poll 120 gone $writer || fail "the writer hangs: $what"
    wait $writer || fail "the writer ends with $?: $what"
    case $end in
        kill) kill -KILL "$daemon" ;;
        umount) timeout 150 "$WEIR" umount "$MNT" || echo "not all is safe, says the unmount" ;;
    esac
    down
    mounted_anew $disk
    up
    python3 "$TESTS/tools/flakey.py" check "$MNT" "$SHARE/told" || fail "$what"
    "$WEIR" umount "$MNT" || fail "the unmount after the repair: $what"
    down
done
"$WEIR" fsck "$URL" || fail "fsck finds problems"
GUEST
