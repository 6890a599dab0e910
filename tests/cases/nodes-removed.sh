#!/usr/bin/env bash
# Files that one node of a volume removes or replaces while another one has them open: all their bytes stay
# as long as that lives and has them open, and no longer.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
source "$TESTS/lib-postgres.sh"
need jq python3 sha256sum
pg_make

busy_settings collect_grace_s=3 read_ahead_bytes=0
"$WEIR" format "$URL" --meta "$META" || fail "format"
schema=$(sql weir "select nspname from pg_namespace where nspname like '%$(jq -r .id "$BUCKET/vol/volume.json" | tr - %)%'")
A=$MNT B=$T/second
mkdir "$B"
node() { # MOUNT POINT TIER
    "$WEIR" mount "$URL" "$1" --tier "$T/$2" --log-file "$T/$2.log" --shared --config "$T/settings.json" || fail "mount $1"
}
# Rows of the metadata whose keys begin so.
rows() { sql weir "select count(*) from \"$schema\".kv where get_byte(key, 0) = ascii('$1')"; }
objects() { find "$BUCKET/vol/seg" -type f | wc -l; }
no_rows() { [ "$(rows O)" = 0 ] && [ "$(rows G)" = 0 ]; }
objects_are() { [ "$(objects)" = "$1" ]; }
# The bytes behind a descriptor, whatever was read of it.
sum_of() { # DESCRIPTOR
    python3 -c 'import hashlib, os, sys
fd, at, sum = int(sys.argv[1]), 0, hashlib.sha256()
while piece := os.pread(fd, 1 << 17, at):
    sum.update(piece)
    at += len(piece)
print(sum.hexdigest())' "$1" || fail "what is removed cannot be read"
}
at_most() { # SECONDS WHAT COMMAND...
    local seconds=$1 what=$2
    shift 2
    poll "$seconds" "$@" || fail "$what: $(rows O) orphans, $(rows G) holds, $(objects) objects"
}

node "$A" tier-a
node "$B" tier-b

echo "== removed, replaced and written while another node has it open"
for name in removed replaced written; do
    head -c 3000000 /dev/urandom >"$T/$name"
    cp "$T/$name" "$A/$name" || fail "cp"
done
echo new >"$A/new"
same "$(cat "$B/new")" new "what the other node wrote"
"$WEIR" release -r "$B" >/dev/null || fail "release"
exec {removed}<"$B/removed" {replaced}<"$B/replaced" {written}<>"$B/written"
# Some of it is here, most of it is not.
for fd in $removed $replaced $written; do
    python3 -c 'import os, sys; assert len(os.pread(int(sys.argv[1]), 5000, 1000000)) == 5000' "$fd" || fail "read"
done
rm "$A/removed" "$A/written" && mv "$A/new" "$A/replaced" || fail "rm"
[ -e "$B/removed" ] && fail "the other node sees a removed file"
same "$(cat "$B/replaced")" new "the new file"
sleep 20
same "$(rows O)" 3 "orphans"
same "$(rows G)" 3 "holds"
same "$(sum_of "$removed")" "$(sha256sum <"$T/removed" | cut -d' ' -f1)" "the removed file"
same "$(sum_of "$replaced")" "$(sha256sum <"$T/replaced" | cut -d' ' -f1)" "the replaced file"
same "$(stat -Lc %h "/proc/self/fd/$removed")" 0 "its names"
printf 'hello' | dd of="$T/written" bs=1 seek=2000000 conv=notrunc status=none
python3 -c 'import os, sys
fd = int(sys.argv[1])
os.pwrite(fd, b"hello", 2000000)
os.fsync(fd)
# A close in which what was written leaves must succeed.
os.close(fd)' "$written" || fail "a removed file cannot be written and closed"
same "$(sum_of "$written")" "$(sha256sum <"$T/written" | cut -d' ' -f1)" "the file that was written"
exec {removed}<&- {replaced}<&- {written}>&-
at_most 40 "rows of removed files stay" no_rows
at_most 60 "their objects stay" objects_are 1

echo "== a node dies that has it open"
for name in dead alive; do
    cp "$T/removed" "$A/$name"
done
exec {dead}<"$B/dead" {alive}<"$A/alive"
rm "$A/dead" && rm "$B/alive" || fail "rm"
sleep 10
same "$(rows O)" 2 "orphans"
pid=$(daemons_below "$B")
kill -KILL "$pid"
poll 30 gone "$pid" || fail "the daemon survives"
exec {dead}<&-
umount -l "$B"
one_row() { [ "$(rows O)" = 1 ] && [ "$(rows G)" = 1 ]; }
at_most 60 "what a dead node had open stays" one_row
same "$(sum_of "$alive")" "$(sha256sum <"$T/removed" | cut -d' ' -f1)" "what the other one has open"
exec {alive}<&-
at_most 40 "rows of removed files stay" no_rows
at_most 60 "their objects stay" objects_are 1

echo "== a tree goes by many hands, and a node stands still meanwhile"
node "$B" tier-b
mkdir "$A/tree" && (cd "$A/tree" && seq 1500 | xargs touch) || fail "a tree"
cp "$T/removed" "$A/lost" && mkfifo "$T/go" || fail "cp"
# A process of its own: whoever has inherited the descriptor waits for the node when it ends.
python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print("open", flush=True)
open(sys.argv[2]).read()
os.pread(fd, 5000, 0)' "$B/lost" "$T/go" >"$T/opened" 2>"$T/said" &
reader=$!
remember $reader
poll 20 grep -q open "$T/opened" || fail "not opened: $(cat "$T/said")"
exec {held}<"$A/tree/700"
pid=$(daemons_below "$B")
kill -STOP "$pid"
rm -r "$A/tree" "$A/lost" || fail "rm -r"
one_row() { [ "$(rows O)" = 1 ] && [ "$(rows G)" = 1 ]; }
at_most 60 "what was removed while a node stood still stays" one_row
kill -CONT "$pid"
exec {held}<&-
at_most 40 "rows of removed files stay" no_rows
back() { [ "$("$WEIR" nodes "$URL" --json | jq length)" = 2 ]; }
at_most 30 "a node that was shut out and has nothing to lose does not come back" back
# What went while it was shut out is an error for who has it open, and no zeros.
echo >"$T/go"
wait $reader && fail "a purged file is read"
grep -q OSError "$T/said" || fail "another error: $(cat "$T/said")"
"$WEIR" umount "$B" || fail "umount of the node that came back"
poll 30 gone "$pid" || fail "the daemon $pid stays"

echo "== all end, and what is left is whole"
node "$B" tier-b
exec {held}<"$B/replaced"
rm "$A/replaced" || fail "rm"
sleep 8
pid=$(daemons_below "$B")
kill -KILL "$pid"
exec {held}<&-
poll 30 gone "$pid" && umount -l "$B"
fsck_clean
same "$(rows O)" 1 "orphans that nobody purged yet"
mount_volume
no_rows || fail "a mount that is alone leaves $(rows O) orphans and $(rows G) holds"
fsck_clean
