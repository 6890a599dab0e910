#!/usr/bin/env bash
# weir top: on a terminal, as text, as JSON, beside a load, and when the daemon goes.
source "$(dirname "$0")/../lib.sh"
begin
need jq tmux python3

echo "== without a mount"
"$WEIR" top --count 1 2>"$T/err" && fail "it shows what is not there"
grep -q "no volume is mounted" "$T/err" || fail "$(cat "$T/err")"

fmt_mount --flush-age 200ms
mkdir "$MNT/busy"
# 4 MiB written, 2 MiB of them read again through the daemon, each second or sooner.
cat >"$T/load.py" <<'PY'
import os, sys, time
path, block = sys.argv[1], os.urandom(1 << 20)
end = time.time() + 120
while time.time() < end:
    with open(path, "wb", 0) as file:
        for _ in range(4):
            file.write(block)
        os.fsync(file.fileno())
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    import mmap
    page = mmap.mmap(-1, 1 << 20)
    for _ in range(2):
        os.readv(fd, [page])
    os.close(fd)
    time.sleep(0.05)
PY
python3 "$T/load.py" "$MNT/busy/file" &
load=$!
remember $load

echo "== JSON"
poll 20 test -s "$MNT/busy/file" || fail "no load"
"$WEIR" top "$MNT" --json --count 2 --every 2s >"$T/json" || fail "top --json"
same "$(wc -l <"$T/json")" 2 "lines of --json"
jq -es 'all(.schema_version == 1 and .seconds > 1.5 and .written_bytes_per_s > 1000000
            and .requests_per_min > 0 and .nano_usd_per_hour > 0
            and (.requests[] | select(.kind == "PUT").per_min) > 0
            and .tenants[0].user == 0 and .tenants[0].written_bytes_per_s > 1000000)' "$T/json" >/dev/null ||
    fail "rates: $(cat "$T/json")"

echo "== text"
"$WEIR" top --count 1 >"$T/text" || fail "top"
for word in "$URL on $MNT" "written [0-9.]* [KM]iB/s" "requests/min" "an hour at this rate" "^tier " "data *PUT" "^/busy "; do
    grep -q -- "$word" "$T/text" || fail "top does not show '$word': $(cat "$T/text")"
done
[ "$(wc -L <"$T/text")" -le 100 ] || fail "lines are too long"
grep -q "$(printf '\033')" "$T/text" && fail "colours in a file"

echo "== on a terminal"
export TMUX_TMPDIR=$T
tmux -L top new-session -d -x 100 -y 34 "$WEIR top $MNT --every 500ms; echo status=\$?; sleep 60" ||
    fail "tmux"
screen() { tmux -L top capture-pane -p >"$T/screen"; }
shows() { screen && grep -q -- "$1" "$T/screen"; }
poll 20 shows "data *PUT" || fail "the screen does not show requests: $(cat "$T/screen")"
grep -q "q ends  space pauses  + - interval 500 ms" "$T/screen" || fail "no keys: $(cat "$T/screen")"
tmux -L top send-keys +
poll 10 shows "interval 1000 ms" || fail "+ does not slow it: $(cat "$T/screen")"
tmux -L top send-keys Space
poll 10 shows "space goes on" || fail "space does not pause it: $(cat "$T/screen")"
tmux -L top send-keys Space
tmux -L top resize-window -x 60 -y 12
poll 10 shows "tier" || fail "a small terminal shows nothing: $(cat "$T/screen")"
tmux -L top resize-window -x 100 -y 34
kill $load
wait $load 2>/dev/null
umount_volume
poll 20 shows "no volume is mounted\|daemon" || fail "the end of the mount is not told: $(cat "$T/screen")"
tmux -L top send-keys q
poll 10 shows "status=0" || fail "q does not end it: $(cat "$T/screen")"
tmux -L top kill-server
echo ok
