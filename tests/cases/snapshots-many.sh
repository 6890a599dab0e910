#!/usr/bin/env bash
# Many snapshots of many files: what each costs in time, memory, requests and bytes, that each is as it was, and that what is
# deleted is given back. A soak has a thousand of a million.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3
FILES=${WEIR_FILES:-$(amount 3000 1000000)} SNAPSHOTS=${WEIR_SNAPSHOTS:-$(amount 40 1000)}
seed

echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
format_volume
mount_volume
rss_mib() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$(daemon_pid)/status"; }
sent() { status '[.requests.rows[].requests] | add // 0'; }
bytes() { du -sb "$BUCKET/vol/$1" 2>/dev/null | cut -f1; }
said() { # WHAT
    echo "$1: $SECONDS s, daemon $(rss_mib) MiB, $(sent) requests, bucket meta/ $(bytes meta) and seg/ $(bytes seg) bytes"
}

echo "== $FILES files"
python3 - "$MNT" "$FILES" <<'PY'
import os, sys
root, files = sys.argv[1], int(sys.argv[2])
for n in range(files):
    directory = f"{root}/d{n // 1000}"
    if n % 1000 == 0:
        os.mkdir(directory)
    with open(f"{directory}/f{n}", "w") as f:
        f.write(f"{n} as it was made\n")
PY
"$WEIR" flush "$MNT" >/dev/null || fail "flush"
said "made"

echo "== $SNAPSHOTS snapshots, each after 20 files were changed"
python3 - "$WEIR" "$MNT" "$FILES" "$SNAPSHOTS" "$SEED" >"$T/times" <<'PY' || fail "making snapshots: $(tail -3 "$T/times")"
import random, subprocess, sys, time
weir, root, files, snapshots, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
dice = random.Random(seed)
took = []
for turn in range(snapshots):
    for n in dice.sample(range(files), 20):
        with open(f"{root}/d{n // 1000}/f{n}", "w") as f:
            f.write(f"{n} as of turn {turn}\n")
    began = time.monotonic()
    subprocess.run([weir, "snapshot", "create", root, f"s{turn}"], check=True, stdout=subprocess.DEVNULL)
    took.append(time.monotonic() - began)
    if turn + 1 in (10, 100, 1000) or turn + 1 == snapshots:
        last = sorted(took[-10:])
        print(f"create, the {turn + 1}th and nine before it: {last[5]:.3f} s in the middle, {last[-1]:.3f} s at most")
PY
cat "$T/times"
said "snapshots made"
before=$SECONDS
same "$("$WEIR" snapshot list "$MNT" --json | jq length)" "$SNAPSHOTS" "snapshots in the list"
echo "listed, with what each holds: $((SECONDS - before)) s"

as_they_were() { # SNAPSHOTS THERE
    python3 - "$MNT" "$FILES" "$SNAPSHOTS" "$SEED" "$1" <<'PY' || fail "a snapshot is not as it was"
import random, sys
root, (files, snapshots, seed, step) = sys.argv[1], map(int, sys.argv[2:])
dice, was, looked = random.Random(seed), {}, random.Random(seed + 1)
for turn in range(snapshots):
    changed = dice.sample(range(files), 20)
    was.update((n, turn) for n in changed)
    if turn % step:
        continue
    for n in [changed[0], looked.randrange(files)]:
        text = f"{n} as of turn {was[n]}\n" if n in was else f"{n} as it was made\n"
        with open(f"{root}/.snapshots/s{turn}/d{n // 1000}/f{n}") as f:
            found = f.read()
        assert found == text, f"s{turn}: {found!r}, not {text!r}"
PY
}
before=$SECONDS
as_they_were $(((SNAPSHOTS + 99) / 100))
said "two files read in a hundred at most, in $((SECONDS - before)) s"

echo "== mounted anew, and killed"
before=$SECONDS
umount_volume
mount_volume
echo "unmounted and mounted: $((SECONDS - before)) s"
as_they_were 10
kill9
before=$SECONDS
mount_volume
echo "mounted after a kill: $((SECONDS - before)) s"

echo "== all but each tenth deleted"
before=$SECONDS
for ((n = 0; n < SNAPSHOTS; n++)); do
    ((n % 10)) || continue
    "$WEIR" snapshot delete "$MNT" "s$n" >/dev/null || fail "delete s$n"
done
echo "deleted: $((SECONDS - before)) s"
as_they_were 10
said "deleted"
for ((n = 0; n < SNAPSHOTS; n += 10)); do
    "$WEIR" snapshot delete "$MNT" "s$n" >/dev/null || fail "delete s$n"
done
checkpoints() { "$WEIR" snapshot list "$MNT" --json | jq length; }
poll 120 eval '[ "$(checkpoints)" = 0 ]' || fail "$(checkpoints) snapshots are left"
umount_volume
before=$SECONDS
"$WEIR" fsck "$URL" || fail "fsck"
echo "checked: $((SECONDS - before)) s"
