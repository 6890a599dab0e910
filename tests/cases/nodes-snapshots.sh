#!/usr/bin/env bash
# Snapshots of a volume that two nodes write: made by either, under load, kept by whoever collects, killed in the
# making, scheduled, backed up, cloned and gone back to.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3 sha256sum

echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
nodes_make 2 --config "$T/settings.json"
A=$(node 0) B=$(node 1)

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
snapshot() { "$WEIR" snapshot "$@" >"$T/out" 2>&1 || fail "snapshot $*: $(cat "$T/out")"; }
names() { "$WEIR" snapshot list "$1" --json | jq -rc '[.[].name] | sort | join(" ")'; }
objects() { find "$BUCKET/vol/seg" -type f 2>/dev/null | wc -l; }
kept() { sql weir "SELECT count(*) FROM \"$SCHEMA\".$1"; } # TABLE
SCHEMA=weir_$(jq -r .id "$BUCKET/vol/volume.json")

echo "== made by one, with what the other closed; read by both"
mkdir "$A/a" "$B/b"
head -c 3000000 /dev/urandom >"$B/b/large" && echo one >"$A/a/small"
snapshot create "$A" monday
sums "$A" >"$T/monday"
rm "$A/b/large" && echo two >"$B/a/small" && echo new >"$A/new"
for node in "$A" "$B"; do
    sums "$node/.snapshots/monday" | diff - "$T/monday" || fail "monday on $node"
    same "$(ls "$node/.snapshots")" monday "what $node has"
    touch "$node/.snapshots/monday/a/small" 2>"$T/err" && fail "monday is changed on $node"
    same "$("$WEIR" snapshot diff "$node" monday | tr '\n' ' ')" "M /a/small - /b/large + /new " "what is different on $node"
done
refused "a name that is taken" already "$WEIR" snapshot create "$B" monday
cp --reflink=auto "$B/.snapshots/monday/b/large" "$B/back" && cmp "$A/back" "$A/.snapshots/monday/b/large" || fail "copied back"
rm "$A/back"

echo "== under load each is of one moment"
python3 - "$A" "$B" "$T/ended" <<'PY' &
import os, sys
# A line in the first file, closed, before the same in the second one, which the other node writes.
first, second = os.path.join(sys.argv[1], "first"), os.path.join(sys.argv[2], "second")
n = 0
while not os.path.exists(sys.argv[3]):
    for path in first, second:
        with open(path, "a") as f:
            f.write(f"{n}\n")
    n += 1
PY
load=$!
poll 20 test -s "$A/second" || fail "the load does not begin"
for n in 1 2 3 4 5 6; do
    snapshot create "$([ $((n % 2)) = 0 ] && echo "$A" || echo "$B")" "load$n"
done
touch "$T/ended" && wait "$load" || fail "the load failed"
for n in 1 2 3 4 5 6; do
    at=$B/.snapshots/load$n
    first=$(wc -l <"$at/first") second=$(wc -l <"$at/second")
    [ "$second" -gt 0 ] && [ $((first - second)) -ge 0 ] && [ $((first - second)) -le 1 ] || fail "load$n has $first and $second lines"
    head -"$first" "$A/first" | cmp - "$at/first" || fail "load$n has other lines"
done

echo "== who collects leaves what they hold, and takes it when it is let go by either"
sleep 3
sums "$A/.snapshots/monday" | diff - "$T/monday" || fail "monday after looks of the collector"
holds() { "$WEIR" snapshot list "$B" --json | jq '.[] | select(.name == "monday") | .past_bytes'; }
poll 60 eval '[ "$(holds)" -gt 2900000 ]' || fail "monday holds $(holds)"
snapshot hold "$A" monday
refused "deleting what is held" "is held" "$WEIR" snapshot delete "$B" monday
snapshot release "$B" monday
exec 7<"$B/.snapshots/monday/b/large"
many=$(objects)
snapshot delete "$A" monday load1 load2 load3 load4 load5 load6
poll 60 eval '[ "$(objects)" -lt '"$many"' ]' || fail "what only they had stays"
"$WEIR" release -r "$B" >/dev/null 2>&1
ls "$B/.snapshots/monday" 2>/dev/null && fail "monday is on the other node"
if cat /dev/fd/7 >"$T/read" 2>/dev/null; then
    same "$(sha256sum <"$T/read")" "$(grep large "$T/monday" | sed 's/ .*/  -/')" "what is open of a deleted one"
fi
exec 7<&-
poll 60 eval '[ "$(kept kept) $(kept past)" = "0 0" ]' || fail "the database keeps $(kept kept) states and $(kept past) rows"

echo "== killed in the making"
for point in begun kept finished; do
    node_umount 0
    WEIR_FAILPOINTS="engine::snapshot-$point=1" node_mount 0
    echo "$point" >"$A/point"
    pid=$(node_pid 0)
    "$WEIR" snapshot create "$A" "k-$point" >/dev/null 2>&1 && fail "$point is not reached"
    poll 60 gone "$pid" || fail "$point is not reached"
    node_kill9 0
    node_remount 0
    for node in "$A" "$B"; do
        same "$(names "$node")" "$([ "$point" = finished ] && echo k-finished)" "snapshots on $node after $point"
        same "$(cat "$node/point")" "$point" "the volume on $node"
    done
done
same "$(cat "$B/.snapshots/k-finished/point")" finished "the one that was finished"
# Alone, nobody else can be making those that have no state.
nodes_umount
MOUNT_ARGS=(--config "$T/settings.json")
mount_volume
poll 60 eval '[ "$(kept kept)" = 1 ]' || fail "states are left of those that were killed: $(kept kept)"
snapshot create "$MNT" k-kept
snapshot delete "$MNT" k-kept k-finished
umount_volume
node_mount 0 && node_mount 1

echo "== a node of another build"
build() { # FROM TO
    sql weir "UPDATE \"$SCHEMA\".kv SET value = decode(replace(encode(value, 'hex'), encode('$1', 'hex'), encode('$2', 'hex')), 'hex')
              WHERE get_byte(key, 0) = ascii('Z')"
}
version=$("$WEIR" --version | sed 's/.* //')
build "$version" "${version//[0-9]/8}"
refused "a snapshot beside another build" "upgrade all nodes" "$WEIR" snapshot create "$A" x
build "${version//[0-9]/8}" "$version"
same "$(names "$A")" "" "snapshots"

echo "== by themselves, once"
"$WEIR" snapshot schedule "$B" hourly:2 >/dev/null || fail "schedule"
poll 60 eval '[ "$(names "$A" | wc -w)" = 1 ]' || fail "none is made by itself"
"$WEIR" snapshot schedule "$A" off >/dev/null || fail "off"
same "$(names "$B" | grep -c '^hourly-')" 1 "the one that was made"
# shellcheck disable=SC2046 # words
snapshot delete "$A" $(names "$A")

echo "== gone back to, cloned and backed up, while the other node writes"
mkdir "$A/tree" && head -c 2000000 /dev/urandom >"$A/tree/large"
for n in $(seq 50); do echo "$n" >"$A/tree/$n"; done
snapshot create "$B" tuesday
sums "$A/.snapshots/tuesday" >"$T/tuesday"
(while [ ! -e "$T/enough" ]; do echo more >>"$B/log" || exit 1; done) &
load=$!
rm -r "$A/tree"
"$WEIR" restore "$A" --to tuesday tree >"$T/out" 2>&1 || fail "restore: $(cat "$T/out")"
diff <(sums "$B/tree") <(sums "$A/.snapshots/tuesday/tree") || fail "what was restored, on the other node"
"$WEIR" clone "$URL@tuesday" "file://$T/clone" --meta "$META" >"$T/out" 2>&1 || fail "clone: $(cat "$T/out")"
"$WEIR" backup "$A" --to "file://$T/backups" >"$T/out" 2>&1 || fail "backup: $(cat "$T/out")"
touch "$T/enough"
wait "$load" || fail "the load failed"
"$WEIR" restore-volume "file://$T/backups" "file://$T/again" >"$T/out" 2>&1 || fail "restore-volume: $(cat "$T/out")"
for url in "file://$T/clone" "file://$T/again"; do
    mkdir -p "$T/other"
    "$WEIR" mount "$url" "$T/other" --tier "$T/other-tier" --log-file "$T/other.log" || fail "mount $url"
    case $url in
        */clone) sums "$T/other" | diff - "$T/tuesday" || fail "the clone has other files" ;;
        *) (cd "$T/other" && grep ' ./tree/' "$T/tuesday" | sha256sum --quiet -c) || fail "the backup has other files" ;;
    esac
    "$WEIR" umount "$T/other" || fail "umount $url"
    "$WEIR" fsck --data "$url" --json | jq -e '.problems == []' >/dev/null || fail "fsck $url"
done
nodes_umount
"$WEIR" fsck --data "$URL" --json | jq -e '.snapshots == 2 and .problems == []' >"$T/out" 2>&1 ||
    fail "fsck: $("$WEIR" fsck --data "$URL" --json)"
refused "moving what has snapshots" "has snapshots" "$WEIR" migrate "$URL" --to slate

echo "== metadata that nodes share is not restored under them"
node_mount 0
"$WEIR" snapshot dump "$A" tuesday >/dev/null || fail "dump"
refused "restoring what a node has" "is mounted by node" "$WEIR" restore-volume "$URL" --metadata-from tuesday --accept-loss
node_umount 0
"$WEIR" restore-volume "$URL" --metadata-from tuesday --accept-loss >"$T/out" 2>&1 || fail "restore-volume: $(cat "$T/out")"
node_mount 0
node_mount 1
sums "$B" | diff - "$T/tuesday" || fail "the volume is another one"
nodes_umount
