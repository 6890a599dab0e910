#!/usr/bin/env bash
# A read-only mount beside the one that writes: what programs have open there follows the writer.
# time-limit: 120
source "$(dirname "$0")/../lib.sh"
begin
need jq python3 sha256sum

fmt_mount
READER=$T/reader
mkdir "$READER" "$T/reader-tier"
head -c 3000000 /dev/urandom >"$T/first"
cp "$T/first" "$MNT/log" && cp "$T/first" "$MNT/replaced" && cp "$T/first" "$MNT/whole"
"$WEIR" flush "$MNT" || fail "flush"
"$WEIR" mount "$URL" "$READER" --read-only --tier "$T/reader-tier" --log-file "$T/reader.log" || fail "a reader"
append() { # TEXT
    python3 -c 'import os, sys
f = open(sys.argv[1], "ab")
f.write(sys.argv[2].encode()); f.flush(); os.fsync(f.fileno())' "$MNT/log" "$1" || fail "append"
}

echo "== appended"
cat >"$T/mapper.py" <<'PY'
# Maps the file's first page and the last one, and says when the byte at the place is what it is to be.
import mmap, os, sys, time
path, at, byte = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
f = open(path, "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
assert m[at : at + 1] != byte
print("mapped", flush=True)
end = time.time() + 30
while m[at : at + 1] != byte:
    if time.time() > end:
        sys.exit("the mapping does not follow")
    time.sleep(0.05)
print("seen", flush=True)
PY
printf 'A' | dd of="$MNT/log" bs=1 seek=500000 conv=notrunc status=none
"$WEIR" flush "$MNT" || fail "flush"
is_a() { [ "$(dd if="$READER/log" bs=1 skip=500000 count=1 status=none)" = A ]; }
poll 20 is_a || fail "an overwrite is not seen at the next open"
python3 "$T/mapper.py" "$READER/log" 500000 B >"$T/mapped" 2>"$T/mapper.err" &
mapper=$!
remember $mapper
poll 20 grep -q mapped "$T/mapped" || fail "not mapped: $(cat "$T/mapper.err")"
tail -n 0 -s 0.2 -f "$READER/log" >"$T/tail" 2>"$T/tail.err" &
tail=$!
remember $tail
exec {held}<"$READER/log"
before=$(stat -Lc %s "/proc/self/fd/$held")
sleep 1 # tail is at the end
append "one line
"
poll 20 grep -q "one line" "$T/tail" || fail "tail -f does not see what was appended: $(cat "$T/tail.err")"
append "another line
"
poll 20 grep -q "another line" "$T/tail" || fail "tail -f sees only the first"
kill $tail
same "$(cat "$T/tail")" "one line
another line" "what tail -f has seen"
grown() { [ "$(stat -Lc %s "/proc/self/fd/$held")" = $((before + 22)) ]; }
poll 20 grown || fail "an open descriptor keeps its size: $(stat -Lc %s "/proc/self/fd/$held"), and was $before"
same "$(sha256sum <&$held)" "$(sha256sum <"$MNT/log")" "what the open descriptor reads"
printf 'B' | dd of="$MNT/log" bs=1 seek=500000 conv=notrunc,fsync status=none
wait $mapper || fail "$(cat "$T/mapper.err")"
exec {held}<&-

echo "== cut"
exec {held}<"$READER/log"
truncate -s 1000 "$MNT/log" && "$WEIR" flush "$MNT" || fail "cut"
cut_there() { [ "$(stat -Lc %s "/proc/self/fd/$held")" = 1000 ]; }
poll 20 cut_there || fail "an open descriptor keeps what was cut off"
same "$(wc -c <&$held)" 1000 "bytes of a file that was cut"
exec {held}<&-

echo "== replaced and removed"
exec {held}<"$READER/replaced" {other}<"$READER/whole"
head -c 100 <&$held >/dev/null
echo new >"$MNT/.new" && mv "$MNT/.new" "$MNT/replaced" && rm "$MNT/whole" && "$WEIR" flush "$MNT" || fail "replace"
new_there() { [ "$(cat "$READER/replaced")" = new ] && [ ! -e "$READER/whole" ]; }
poll 20 new_there || fail "the new names are not seen: $(ls -l "$READER")"
sleep 1
python3 - "$held" "$T/first" <<'PY' || fail "a file that was replaced is another one for who has it open"
import os, sys
want = open(sys.argv[2], "rb").read()
got = os.pread(int(sys.argv[1]), len(want) + 1, 0)
sys.exit(got != want)
PY
same "$(sha256sum <&$other)" "$(sha256sum <"$T/first")" "a file that was removed"
exec {held}<&- {other}<&-
same "$(MNT=$READER status '.passthrough | "\(.active) \(.opens)"')" "false 0" "files read past the daemon"
"$WEIR" umount "$READER" || fail "umount the reader"
umount_volume
echo ok
