#!/usr/bin/env bash
# `weir scrub`: what is damaged or missing in the bucket is found; what the tier has is sent off anew, what is nowhere is
# named; it goes on after a kill and where the bucket was away, at the rate that was asked for, and ends when told to.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3 setpriv

scrub() { # ARGS...: what it says is in $T/json
    "$WEIR" scrub "$MNT" "$@" --json >"$T/json" 2>"$T/err"
}
is() { same "$(jq -cr "$1" "$T/json")" "$2" "$1"; }
damage() { # FILE
    python3 - "$1" <<'PY'
import os, sys
with open(sys.argv[1], "r+b") as file:
    at = os.path.getsize(sys.argv[1]) // 2
    file.seek(at)
    byte = file.read(1)
    file.seek(at)
    file.write(bytes([byte[0] ^ 1]))
PY
}
segments() { find "$SEGMENTS" -type f -size +100k -printf '%T@ %p\n' | sort | cut -d' ' -f2; }
ended() { scrub --status && [ "$(jq .running "$T/json")" = false ]; }

s3_start
SEGMENTS=$T/s3/bucket/vol/seg
echo '{"collect_interval_s": 1, "collect_grace_s": 0, "bucket_timeout_ms": 3000}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB
mount_volume
"$WEIR" scrub "$MNT" --status | grep -q "never scrubbed" || fail "a volume that was never scrubbed"
mkdir "$MNT/d"
for n in 1 2 3 4 5 6; do head -c 3000000 /dev/urandom >"$MNT/d/f$n"; done
for n in $(seq 50); do echo "file $n" >"$MNT/d/small$n"; done
"$WEIR" flush "$MNT" || fail "flush"
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$T/sums"

echo "== nothing is wrong"
scrub --wait || fail "scrub: $(cat "$T/err")"
is '[.running, .damaged, .repaired, .lost_pieces, .segments_done == .segments, .bytes_done > 18000000]' "[false,0,0,0,true,true]"
"$WEIR" scrub "$MNT" --status | grep -q "nothing is damaged" || fail "what it says"

echo "== damaged and missing segments that the tier has are sent off anew"
mapfile -t all < <(segments)
damage "${all[2]}" && damage "${all[5]}" && rm "${all[7]}" && truncate -s 1000 "${all[9]}"
scrub --wait || fail "scrub: $(cat "$T/err") $(cat "$T/json")"
is '[.damaged, .repaired, .lost_pieces]' "[4,4,0]"
(cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "bytes changed"
cold
(cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "what was sent off anew is not what was there"
scrub --wait || fail "scrub again"
is '[.lost_pieces]' "[0]"

echo "== what is nowhere is named, and the rest is mended"
lost=$(segments | tail -1) && held=$(cat "$lost" | wc -c)
other=$(segments | head -1)
[ "$other" != "$lost" ] || fail "all is in one segment"
"$WEIR" release -r "$MNT/d" >/dev/null 2>&1 || "$WEIR" release "$MNT"/d/* >/dev/null || fail "release"
damage "$lost"
drop_caches # what is not lost comes back to the tier
for file in "$MNT"/d/*; do dd if="$file" bs=1M conv=noerror; done >/dev/null 2>&1
damage "$other"
"$WEIR" scrub "$MNT" --wait >"$T/out" 2>&1
same $? 1 "the exit code where something is lost"
grep -q "LOST: .* pieces of files" "$T/out" && grep -q "/d/f" "$T/out" || fail "does not name what is lost: $(cat "$T/out")"
scrub --status
is '[.lost_pieces > 0, (.lost[0].path | startswith("/d/")), .lost[0].bytes > 0, .damaged, .repaired]' "[true,true,true,2,1]"
path=$MNT$(jq -r ".lost[0].path" "$T/json")
drop_caches
cat "$path" >/dev/null 2>&1 && fail "$path is read though it is lost"
rm "$path" && "$WEIR" flush "$MNT"
[ "$held" -gt 0 ] || fail "an empty segment"
damage "$lost"
scrub --wait || fail "mended by hand, it still finds: $(cat "$T/json")"
is '.lost_pieces' 0

echo "== at a rate, ended, and after a kill"
began=$(date +%s%N)
scrub --rate 4MiB || fail "with a rate"
is .running true
scrub --rate 4MiB --wait || fail "to the end"
took=$((($(date +%s%N) - began) / 1000000))
[ $took -gt 2000 ] || fail "15 MB at 4 MiB/s took $took ms"
scrub --rate 100KiB || fail "slowly"
sleep 1
"$WEIR" scrub "$MNT" --stop --json >"$T/json" || fail "--stop"
is '[.running, .cancelled]' "[false,true]"
scrub --rate 500KiB || fail "again"
some() { scrub --status && [ "$(jq .running "$T/json")" = true ]; }
poll 10 some || fail "it does not run"
started=$(jq .started "$T/json")
kill -KILL "$(daemon_pid)" && sleep 0.5
umount -l "$MNT" 2>/dev/null
mount_volume
scrub --status || fail "status after a kill"
is '[.running, .started]' "[true,$started]"
scrub --wait || fail "it does not go on: $(cat "$T/err")"
is '[.running, .started, .lost_pieces]' "[false,$started,0]"

echo "== the bucket is away, and others may not"
scrub --rate 1MiB || fail "begin"
kill -STOP "$S3_PID"
troubled() { scrub --status && [ "$(jq -r '.trouble // empty' "$T/json")" != "" ]; }
poll 60 troubled || fail "it does not say that it stands still: $(cat "$T/json")"
"$WEIR" scrub "$MNT" --status | grep -q "STANDS STILL" || fail "people are not told"
kill -CONT "$S3_PID"
poll 90 ended || fail "it does not go on when the bucket is back: $(cat "$T/json")"
is '[.lost_pieces, .trouble]' "[0,null]"
chmod 755 "$T"
setpriv --reuid 1234 --regid 1234 --clear-groups "$WEIR" scrub "$MNT" >"$T/out" 2>&1 && fail "anybody may scrub"
"$WEIR" scrub "$MNT" --rate 0 >"$T/out" 2>&1 && fail "at no speed"
# What was damaged and is not needed goes.
poll 60 eval '"$WEIR" fsck --data "$URL" "${CONNECT[@]}" >"$T/fsck" 2>&1' || fail "what is damaged stays: $(cat "$T/fsck")"
fsck_clean
"$WEIR" scrub "$MNT" >"$T/out" 2>&1 && fail "what is not mounted is scrubbed"
exit 0
