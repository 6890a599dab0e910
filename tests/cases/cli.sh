#!/usr/bin/env bash
# The command line: help, JSON, completions, manual, mount(8), signals, a busy unmount.
# alone: it asks for all mounts of the machine, and one of another case may be dead
source "$(dirname "$0")/../lib.sh"
begin
need jq curl man script setsid python3 findmnt ps

echo "== help"
commands=$("$WEIR" --help | sed -n '/^Commands:/,/^$/p' | awk '/^  [a-z]/ {print $1}')
[ "$(wc -w <<<"$commands")" -ge 11 ] || fail "help names only: $commands"
commands=${commands/help/}
for command in $commands; do
    "$WEIR" "$command" --help >"$T/help" 2>&1 || fail "weir $command --help"
    grep -q "^Usage: weir $command" "$T/help" || fail "weir $command --help: no usage"
    [ "$command" = version ] || grep -q "^Example" "$T/help" || fail "weir $command --help: no example"
    [ "$(wc -L <"$T/help")" -le 110 ] || fail "weir $command --help has lines of $(wc -L <"$T/help")"
done
"$WEIR" --version | grep -q '^weir [0-9]' || fail "--version"
"$WEIR" version | grep -qi 'format' || fail "version does not name the volume format"
"$WEIR" nonsense >/dev/null 2>"$T/err"
same $? 2 "exit code of an unknown command"
grep -q -- "--help" "$T/err" || fail "an unknown command gets no hint"

echo "== completions and manual"
for shell in bash zsh fish; do
    "$WEIR" completions $shell >"$T/weir.$shell" || fail "completions $shell"
    grep -q "tier-size" "$T/weir.$shell" || fail "completions $shell lack an option"
done
bash -n "$T/weir.bash" || fail "the bash completions do not parse"
"$WEIR" man >"$T/weir.1" || fail "man"
LC_ALL=C MANWIDTH=100 man --warnings -l "$T/weir.1" >"$T/man.txt" 2>"$T/man.err" || fail "man does not render"
[ ! -s "$T/man.err" ] || fail "man warns: $(cat "$T/man.err")"
grep -q "SYNOPSIS" "$T/man.txt" || fail "the manual has no synopsis"
"$WEIR" man "$T/man" || fail "man DIR"
for command in $commands mount.weir workload; do
    page=$T/man/weir-$command.1
    [ "$command" != mount.weir ] || page=$T/man/mount.weir.8
    [ "$command" != workload ] || page=$T/man/weir-workload.5
    [ -s "$page" ] || fail "no page for $command"
    LC_ALL=C man --warnings -l "$page" >/dev/null 2>"$T/man.err" || fail "$page does not render"
    [ ! -s "$T/man.err" ] || fail "$page: $(cat "$T/man.err")"
done

LC_ALL=C MANWIDTH=100 man -l "$T/man/mount.weir.8" >"$T/man.txt" 2>/dev/null
grep -q "accept-loss=" "$T/man.txt" || fail "mount.weir(8) lacks an option: $(cat "$T/man.txt")"

LC_ALL=C MANWIDTH=100 man -l "$T/man/weir-workload.5" >"$T/man.txt" 2>/dev/null
grep -q "io_bytes (natural number, default 1048576)" "$T/man.txt" || fail "weir-workload(5) lacks a field: $(cat "$T/man.txt")"

echo "== JSON"
"$WEIR" format "$URL" --json | jq -e '.id and .format_version' >/dev/null || fail "format --json"
"$WEIR" status --json | jq -e 'length == 0' >/dev/null || fail "status --json with nothing mounted"
"$WEIR" status | grep -q "No volume" || fail "status with nothing mounted"
mount_volume
echo hello >"$MNT/hello"
"$WEIR" flush "$MNT" || fail "flush"
same "$(status .tier.dirty_bytes)" 0 "dirty bytes after flush"
"$WEIR" status --json | jq -e 'length == 1 and .[0].volume' >/dev/null || fail "status --json"
same "$(status '.requests | [(.bounds_us | length), (.rows[0].buckets | length), .bounds_us[6]] | join(" ")')" "26 27 128" \
    "bounds and buckets of latencies"
"$WEIR" df "$MNT" --json | jq -e . >/dev/null || fail "df --json"
"$WEIR" residency "$MNT" --json | jq -e . >/dev/null || fail "residency --json"
"$WEIR" residency "$MNT/hello" | grep -q resident || fail "residency"
"$WEIR" df "$MNT" >/dev/null || fail "df"
mkdir -p "$MNT/sub/dir"
for asked in "status $MNT" "df $MNT" "bill $MNT" "throughput $MNT" "du $MNT" "state $MNT/hello" \
    "residency $MNT/hello" "pin $MNT/hello" "hydrate $MNT/hello --wait" "actions $MNT --all" "format $URL-2" \
    "fsck $URL" "prices --region us-east-1" "doctor" "bench suites" "advise --backtest"; do
    # shellcheck disable=SC2086 # they are words
    "$WEIR" $asked --json | jq -e 'if type == "array" then .[0] else . end | .schema_version == 1' >/dev/null ||
        fail "weir $asked --json has no version of its fields"
done
for command in status df flush bill; do
    "$WEIR" $command "$MNT/sub/dir" >"$T/out" || fail "$command of a directory in the mount"
done
"$WEIR" status "$MNT" >"$T/status" || fail "status"
for word in "$URL on $MNT" "read and write" "process $(daemon_pid)" "tier" "cost at S3 list prices" '\$0'; do
    grep -q -- "$word" "$T/status" || fail "status does not say '$word': $(cat "$T/status")"
done
socket=$(ls "$WEIR_RUN_DIR"/*.sock)
api() { curl -s --unix-socket "$socket" "http://weir$1" "${@:2}"; }
same "$(api /v1/status | jq -r .mountpoint)" "$MNT" "the mount point over the API"
same "$(api /healthz) $(api /readyz)" "ok ok" "the health of a mount"
same "$(api "/v1/residency?ino=$(stat -c %i "$MNT/hello")" | jq -c .)" \
    '{"hole":0,"released":0,"resident":4096,"dirty":0}' "residency over the API"
same "$(api /v1/flush -X POST)" '{"flushed":true}' "a flush over the API"
api /v1/unmount --json '{"lazzy": true}' -w '%{http_code}' | grep -q 'unknown field `lazzy`.*400$' ||
    fail "a wrong field is taken"
same "$(api /status -o "$T/answer" -w '%{http_code}')" 404 "a path without a version"
"$WEIR" fsck "$URL" --json | jq -e '.problems == []' >/dev/null || fail "fsck --json"
"$WEIR" status "$T/run" 2>"$T/err" && fail "status of what is no mount"
grep -q "$T/run" "$T/err" || fail "status of what is no mount: $(cat "$T/err")"

echo "== a busy unmount"
sleep 600 <"$MNT/hello" &
holder=$!
remember $holder
"$WEIR" umount "$MNT" 2>"$T/err" && fail "unmounted under an open file"
grep -q "process $holder (sleep)" "$T/err" || fail "the holder is not named: $(cat "$T/err")"
same "$(cat "$MNT/hello")" hello "reading after a refused unmount"
echo more >"$MNT/more" || fail "writing after a refused unmount"
pid=$(daemon_pid)
"$WEIR" umount --lazy "$MNT" || fail "umount --lazy"
mountpoint -q "$MNT" && fail "still in the tree after --lazy"
gone "$pid" && fail "the daemon left before the last user"
kill $holder
poll 60 gone "$pid" || fail "the daemon stays after the last user"
mount_volume
same "$(cat "$MNT/more")" more "what was written before the lazy unmount"

echo "== SIGTERM unmounts and flushes"
dd if=/dev/urandom of="$MNT/data" bs=1M count=3 status=none
want=$(sha256sum <"$MNT/data")
pid=$(daemon_pid)
kill -TERM "$pid"
poll 60 gone "$pid" || fail "SIGTERM does not end it"
mountpoint -q "$MNT" && fail "still mounted after SIGTERM"
lose_tier
mount_volume
same "$(sha256sum <"$MNT/data")" "$want" "data after SIGTERM and a lost tier"
same "$(status .mount.recovered)" new "recovery with a new tier"
umount_volume

echo "== in the foreground"
"$WEIR" mount "$URL" "$MNT" --tier "$TIER" --foreground >"$T/foreground.log" 2>&1 &
pid=$!
remember $pid
poll 30 mountpoint -q "$MNT" || fail "not mounted in the foreground"
kill -INT $pid
wait $pid || fail "ends with $? after SIGINT"
mountpoint -q "$MNT" && fail "still mounted"

echo "== a signal in the moment in which the mount shows"
WEIR_FAILPOINTS=daemon::doors-open=term timeout 60 "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --foreground \
    >"$T/moment.log" 2>&1 || fail "ends with $?"
mountpoint -q "$MNT" && fail "still mounted"
stat "$MNT" >/dev/null || fail "a mount without a daemon is left"

echo "== mount(8)"
mkdir "$T/sbin"
ln -s "$WEIR" "$T/sbin/mount.weir"
# mount(8) looks in /sbin only; this is what it calls.
"$T/sbin/mount.weir" "$URL" "$MNT" -o "rw,_netdev,tier=$TIER,tier-size=100MiB,flush-age=5s,noatime,noexec,log-file=$LOG" ||
    fail "mount.weir"
same "$(status .settings.tier_bytes)" 104857600 "tier size through mount.weir"
same "$(status .settings.flush_age_ms)" 5000 "flush age through mount.weir"
findmnt -no OPTIONS "$MNT" | grep -q noexec || fail "noexec is lost: $(findmnt -no OPTIONS "$MNT")"
umount "$MNT" || fail "plain umount"
no_daemon() { [ -z "$(daemons_below "$MNT")" ]; }
poll 60 no_daemon || fail "the daemon outlives a plain umount"
"$T/sbin/mount.weir" "$URL" "$MNT" -o tier="$TIER",nonsense=1 2>"$T/err" && fail "an unknown option is taken"
grep -q nonsense "$T/err" || fail "the unknown option is not named: $(cat "$T/err")"
"$T/sbin/mount.weir" "$URL" "$MNT" 2>"$T/err" && fail "mounts without a tier"
grep -q tier "$T/err" || fail "the missing tier is not named: $(cat "$T/err")"
"$T/sbin/mount.weir" -f "$URL" "$MNT" -o tier="$TIER" || fail "mount -f"
mountpoint -q "$MNT" && fail "mount -f mounts"

echo "== the daemon outlives the terminal it was started from"
cat >"$T/in-terminal" <<DONE
#!/bin/sh
exec "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG"
DONE
chmod +x "$T/in-terminal"
setsid script -qec "$T/in-terminal" /dev/null </dev/null >"$T/terminal.log" 2>&1 || fail "mount in a terminal"
same "$(cat "$MNT/hello")" hello "reading after the terminal is gone"
same "$(ps -o tty= -p "$(daemon_pid)")" '?' "the daemon's terminal"
umount_volume
"$WEIR" umount "$MNT" 2>"$T/err" && fail "unmounts what is not mounted"
grep -q "no Weir volume is mounted here" "$T/err" || fail "umount twice: $(cat "$T/err")"
"$WEIR" fsck --data "$URL" || fail "fsck"

echo "== what the volume was mounted upon stays"
mount -t tmpfs below "$MNT" || fail "a file system below"
below() { grep -c "^below $MNT tmpfs" /proc/self/mounts; }
for end in "$WEIR umount" umount; do
    mount_volume
    pid=$(daemon_pid)
    $end "$MNT" || fail "$end"
    poll 60 gone "$pid" || fail "the daemon $pid outlives $end"
    same "$(below)" 1 "mounts below after $end"
    grep -q " $MNT fuse.weir" /proc/self/mounts && fail "$end left the volume mounted"
done
umount "$MNT"
