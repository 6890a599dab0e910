#!/usr/bin/env bash
# Clones over real mounts: volumes that begin as another one was, both in use at once; kills, an origin that is away or lets
# go of all it has, clones of clones, encrypted ones, one whose metadata is in a database.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-postgres.sh"
need jq

clone() { # ARGS...
    "$WEIR" clone "$@" "${CONNECT[@]}" --json >"$T/json" 2>"$T/err" || fail "clone $*: $(cat "$T/json" "$T/err")"
}
is() { same "$(jq -r "$1" "$T/json")" "$2" "$1"; }
objects() { find "$T/s3/$1" -type f 2>/dev/null | wc -l; }
sums() { (cd "$1" && find . -type f ! -path './db/*' -print0 | sort -z | xargs -0 sha256sum && find . ! -path './db*' -printf '%p %y %m %U %G %T@ %l\n' | sort); }
snapshots() { "$WEIR" snapshot list "$MNT" --json | jq -rc '[.[] | select(.held) | .name] | join(" ")'; }
mount_clone() { # URL [ARGS...]
    mkdir -p "$T/clone"
    "$WEIR" mount "$1" "$T/clone" --tier "$T/clone-tier" --log-file "$T/clone.log" "${CONNECT[@]}" "${@:2}" >/dev/null || fail "mount $1"
}
umount_clone() {
    "$WEIR" umount "$T/clone" || fail "umount"
    rm -rf "$T/clone-tier"
}
sound() { "$WEIR" fsck --data "$@" "${CONNECT[@]}" >"$T/out" 2>&1 || fail "fsck $*: $(cat "$T/out")"; }

echo "== both in use"
s3_start
mkdir -p "$T/s3"/{lake,other} && echo object >"$T/s3/lake/object"
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
export MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB
mount_volume
mkdir -p "$MNT"/{a/b,db} && cp /bin/ls "$MNT/a/ls" && ln -s ls "$MNT/a/link" && ln "$MNT/a/ls" "$MNT/hard"
for n in $(seq 300); do echo "file $n" >"$MNT/a/b/$n"; done
head -c 20000000 /dev/urandom >"$MNT/large"
truncate -s 30M "$MNT/sparse" && printf end >>"$MNT/sparse"
chmod 640 "$MNT/large" && chown 1234:1235 "$MNT/large" && touch -d 2001-02-03 "$MNT/large"
"$WEIR" link s3://lake "$MNT/db" "${CONNECT[@]}" --import all --export all >/dev/null || fail "link"
"$WEIR" snapshot create "$MNT" monday >/dev/null || fail "snapshot"
sums "$MNT" >"$T/monday"
echo changed >"$MNT/a/b/1" && rm "$MNT/a/b/2" && head -c 3000000 /dev/urandom >"$MNT/large2"
sums "$MNT" >"$T/later"
clone "$URL@monday" s3://other/try
is '.snapshot' monday && is '.paused_links' 1 && is '.segments > 10 and .object_bytes > 20000000' true
[ -z "$(find "$T/s3/other" -path '*/seg/*' -type f)" ] || fail "bytes were copied"
same "$(snapshots)" monday "what is held"
refused "deleting what a clone needs" "held" "$WEIR" snapshot delete "$MNT" monday
"$WEIR" snapshot hold "$MNT" monday >/dev/null || fail "hold"
mount_clone s3://other/try --config "$T/settings.json"
sums "$T/clone" | diff "$T/monday" - >"$T/diff" || fail "the clone is not as monday: $(head "$T/diff")"
same "$(cat "$T/clone/db/object")" object "a linked bucket"
echo mine >"$T/clone/db/mine" && echo own >"$T/clone/own" && rm "$T/clone/large" && echo other >"$T/clone/a/b/3"
"$WEIR" flush "$T/clone" && sleep 3
[ ! -e "$T/s3/lake/mine" ] || fail "a clone exports"
sums "$MNT" | diff "$T/later" - >"$T/diff" || fail "the clone changed the first volume: $(head "$T/diff")"
refused "a second clone there" "holds a volume already" "$WEIR" clone "$URL@monday" s3://other/try "${CONNECT[@]}"
# The collector of the one would take the segments of the other for those of nobody.
for stripe in "$URL" s3://other/try; do
    refused "a stripe in another volume" "holds a volume already" "$WEIR" clone "$URL@monday" s3://other/x --stripe "$stripe" "${CONNECT[@]}"
    refused "a volume with such a stripe" "holds a volume already" "$WEIR" format s3://other/x --stripe "$stripe" "${CONNECT[@]}"
done
"$WEIR" status "$T/clone" | grep -q "^  clone  .*$URL" || fail "status does not say that it is a clone"

echo "== the first one lets go of all it has"
rm -r "$MNT"/{a,large,large2,sparse,hard} && "$WEIR" flush "$MNT" && sleep 3
same "$(cat "$T/clone/a/b/1" "$T/clone/a/b/2" "$T/clone/a/b/3" "$T/clone/own" | tr '\n' ' ')" "file 1 file 2 other own " "the clone"
umount_clone
sound s3://other/try
sound "$URL"
mount_clone s3://other/try
(cd "$T/clone" && grep -v ' \./large$\| \./a/b/3$' "$T/monday" | grep '^[0-9a-f]\{64\} ' | sha256sum -c --quiet) || fail "bytes of the clone"
kill -KILL "$(daemons_below "$T/clone" | head -1)"
umount -l "$T/clone"
mount_clone s3://other/try
same "$(cat "$T/clone/own")" own "after a kill"

echo "== the first one's bucket is away"
umount_clone
mv "$T/s3/bucket" "$T/s3/away"
mount_clone s3://other/try
same "$(cat "$T/clone/own")" own "what is its own"
timeout 60 cat "$T/clone/a/ls" >"$T/got" 2>/dev/null && fail "what is shared is read from nowhere: $(wc -c <"$T/got")"
"$WEIR" umount "$T/clone" || fail "umount"
rm -rf "$T/clone-tier"
"$WEIR" fsck s3://other/try "${CONNECT[@]}" >"$T/out" 2>&1 && fail "fsck finds nothing: $(cat "$T/out")"
mv "$T/s3/away" "$T/s3/bucket"
mount_clone s3://other/try
cmp "$T/clone/a/ls" /bin/ls || fail "it does not come back"

echo "== a clone of the clone, as it is now, and a backup of that"
clone "$T/clone" "file://$T/third" --stripe "file://$T/third-2"
[[ $(jq -r .snapshot "$T/json") == clone-20* ]] || fail "the snapshot: $(cat "$T/json")"
same "$(stat -c %a "$T/third")" 700 "who may read a clone's directory"
sums "$T/clone" >"$T/now"
umount_clone
mount_clone "file://$T/third"
sums "$T/clone" | diff "$T/now" - >"$T/diff" || fail "the clone of the clone: $(head "$T/diff")"
echo third >"$T/clone/third"
umount_clone
head -c 8000000 /dev/urandom >"$T/noise" && mount_clone "file://$T/third" && cp "$T/noise" "$T/clone/noise" && umount_clone
[ -n "$(find "$T/third-2/seg" -type f)" ] || fail "it is not spread over its buckets"
refused "a stripe where another volume has segments" "has segments" "$WEIR" format "file://$T/x" --stripe "file://$T/third-2"
refused "a clone with such a stripe" "has segments" "$WEIR" clone "$URL@monday" s3://other/x --stripe "file://$T/third-2" "${CONNECT[@]}"
sound "file://$T/third"
"$WEIR" backup "file://$T/third" --to "file://$T/backup" "${CONNECT[@]}" >/dev/null || fail "backup"
"$WEIR" restore-volume "file://$T/backup" "file://$T/alone" "${CONNECT[@]}" >/dev/null || fail "restore-volume"
same "$(jq -r '.origins // "none"' "$T/alone/volume.json")" none "a volume that was restored"
mount_clone "file://$T/alone"
same "$(cat "$T/clone/third" "$T/clone/own" "$T/clone/a/b/1" | tr '\n' ' ')" "third own file 1 " "a backup of a clone"
umount_clone

echo "== killed, and broken off"
for point in loading loaded; do
    WEIR_FAILPOINTS="engine::clone-$point=1" "$WEIR" clone "$URL@monday" s3://other/killed "${CONNECT[@]}" >"$T/out" 2>&1
    same $? 137 "killed at $point"
    refused "half a clone" "not a Weir volume" "$WEIR" fsck s3://other/killed "${CONNECT[@]}"
done
clone "$URL@monday" s3://other/killed
sound s3://other/killed
refused "a snapshot that is none" "no snapshot" "$WEIR" clone "$URL@sunday" s3://other/x "${CONNECT[@]}"
refused "its own place" "elsewhere" "$WEIR" clone "$URL@monday" "$URL" "${CONNECT[@]}"
refused "a place that is no volume" "not a Weir volume" "$WEIR" clone s3://other/nothing s3://other/x "${CONNECT[@]}"
refused "a missing bucket" "nowhere" "$WEIR" clone "$MNT" s3://nowhere/x "${CONNECT[@]}"
same "$(snapshots)" monday "snapshots of clones that never came to be"
[ ! -e "$T/s3/other/x" ] || fail "what was refused left $(find "$T/s3/other/x")"

echo "== encrypted, and with the metadata in a database"
"$WEIR" key new "$T/key" >/dev/null
"$WEIR" format s3://other/sealed --encrypt --key-file "$T/key" "${CONNECT[@]}" >/dev/null || fail "format"
mount_clone s3://other/sealed --key-file "$T/key"
echo hidden >"$T/clone/hidden"
refused "a clone without its key" "volume-locked" "$WEIR" clone "$T/clone" s3://other/sealed2 "${CONNECT[@]}"
clone "$T/clone" s3://other/sealed2 --key-file "$T/key"
umount_clone
refused "an encrypted clone without its key" "volume-locked" "$WEIR" fsck s3://other/sealed2 "${CONNECT[@]}"
mount_clone s3://other/sealed2 --key-file "$T/key"
same "$(cat "$T/clone/hidden")" hidden "an encrypted clone"
umount_clone
pg_make
clone "$URL@monday" s3://other/db --meta "$META"
mount_clone s3://other/db --shared
sums "$T/clone" | diff "$T/monday" - >"$T/diff" || fail "a clone in a database: $(head "$T/diff")"
head -c 2000000 /dev/urandom >"$T/clone/own"
umount_clone
sound s3://other/db
fsck_clean
