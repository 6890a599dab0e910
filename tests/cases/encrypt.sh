#!/usr/bin/env bash
# Encrypted volumes over real mounts: what is in the bucket, what opens them and what does not, keys that come and go,
# backups, followers, disks, and what surrounds a key file.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3

weir() { "$WEIR" "$@" "${CONNECT[@]}" >"$T/out" 2>"$T/err" || fail "weir $*: $(cat "$T/out" "$T/err")"; }
# No object has these words, raw or as they are after compression.
hidden() { # BUCKET WORDS...
    local bucket=$1 word
    shift
    for word in "$@"; do
        grep -rlaF -- "$word" "$T/s3/$bucket" >"$T/found" && fail "'$word' shows in $(cat "$T/found")"
    done
    return 0
}

s3_start
mkdir -p "$T/s3"/{backups,again,lake}
echo object >"$T/s3/lake/object"
URL=s3://bucket/vol
KEY=$T/vol.key

echo "== a key file"
"$WEIR" key new "$KEY" >/dev/null || fail "key new"
same "$(stat -c %a "$KEY")" 600 "modes of a key file"
before=$(cat "$KEY")
refused "a key file over another" "exists" "$WEIR" key new "$KEY"
same "$(cat "$KEY")" "$before" "a key file that was there"
refused "a key file nowhere" "no such file" "$WEIR" key new "$T/absent/key"
"$WEIR" key new "$T/other.key" >/dev/null
printf 'correct horse battery staple\n' >"$T/words" && chmod 600 "$T/words"

echo "== made"
refused "encryption without a key" "--key-file" "$WEIR" format "$URL" --encrypt "${CONNECT[@]}"
refused "a key without encryption" "--encrypt" "$WEIR" format "$URL" --key-file "$KEY" "${CONNECT[@]}"
refused "a key that is absent" "read the key file" "$WEIR" format "$URL" --encrypt --key-file "$T/absent" "${CONNECT[@]}"
: >"$T/empty" && printf 'one\ntwo\n' >"$T/two" && printf short >"$T/short" && head -c 100000 /dev/zero >"$T/zeros" && printf 'weir-key-1 12\n' >"$T/cut"
for bad in empty:empty two:"more than one line" short:"at least 8" zeros:"too large" cut:"hexadecimal"; do
    refused "a key file: ${bad%%:*}" "${bad#*:}" "$WEIR" format "$URL" --encrypt --key-file "$T/${bad%%:*}" "${CONNECT[@]}"
done
refused "a directory as a key" "key file" "$WEIR" format "$URL" --encrypt --key-file "$T" "${CONNECT[@]}"
[ -z "$(find "$T/s3/bucket" -type f)" ] || fail "what was refused left $(find "$T/s3/bucket" -type f)"
weir format "$URL" --encrypt --key-file "$KEY" --segment-size 1MiB
grep -q "encrypted volume" "$T/out" || fail "format says: $(cat "$T/out")"
hidden bucket "$(cut -c12-40 "$KEY")"
same "$(jq -r .format_version "$T/s3/bucket/vol/volume.json")" 3 "the version of the format"

echo "== mounted"
refused "a mount without a key" "volume-locked" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" "${CONNECT[@]}"
refused "a mount with another key" "opens none of its keys" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/other.key" "${CONNECT[@]}"
[ -e "$T/s3/bucket/vol/writer.json" ] && fail "who was refused claimed the volume"
export MOUNT_ARGS=(--key-file "$KEY")
mount_volume
words="nobody who has the bucket reads this"
for n in $(seq 200); do echo "$words $n" >"$MNT/secret-name-$n"; done
yes "$words" | head -c 5000000 >"$MNT/secret-large"
mkdir -p "$MNT/secret-dir/db" && ln -s secret-target "$MNT/secret-link"
"$WEIR" link s3://lake "$MNT/secret-dir/db" "${CONNECT[@]}" >/dev/null || fail "link"
same "$(cat "$MNT/secret-dir/db/object")" object "a linked bucket"
python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.secret-attribute", b"secret-value")' "$MNT/secret-large"
"$WEIR" flush "$MNT" || fail "flush"
"$WEIR" snapshot create "$MNT" monday >/dev/null || fail "snapshot"
rm "$MNT/secret-name-1"
same "$(cat "$MNT/.snapshots/monday/secret-name-1")" "$words 1" "a file of a snapshot"
(cd "$MNT" && find . -type f ! -path './secret-dir/*' -print0 | sort -z | xargs -0 sha256sum) >"$T/sums"
same "$("$WEIR" scrub "$MNT" --wait --json | jq -c '[.lost, .damaged] | flatten | map(select(. != null and . != 0)) | length')" 0 "a scrub"
tr '\0' '\n' <"/proc/$(daemons_below "$T" | head -1)/cmdline" | grep -q "${before#weir-key-1 }" && fail "the key is among the arguments"
grep -rqaF "${before#weir-key-1 }" "$T"/*.log "$TIER" && fail "the key is in a log or in the tier"

echo "== another daemon in its place"
exec 7<"$MNT/secret-name-2"
"$WEIR" upgrade "$MNT" >"$T/out" 2>&1 || fail "upgrade: $(cat "$T/out")"
mv "$KEY" "$KEY.away"
refused "an upgrade without the key file" "read the key file" "$WEIR" upgrade "$MNT"
mv "$KEY.away" "$KEY"
same "$(cat <&7)" "$words 2" "a file that was open"
exec 7<&-
"$WEIR" status "$MNT" | grep -q "^  encrypted  " || fail "status does not say that it is encrypted"

echo "== a follower, and what asks a mount"
mkdir -p "$T/reader"
refused "a follower without a key" "volume-locked" "$WEIR" mount "$URL" "$T/reader" --tier "$T/reader-tier" --read-only "${CONNECT[@]}"
WEIR_KEY_FILE=$KEY "$WEIR" mount "$URL" "$T/reader" --tier "$T/reader-tier" --read-only --log-file "$T/reader.log" "${CONNECT[@]}" || fail "a follower"
poll 30 test -e "$T/reader/secret-name-2" || fail "a follower sees nothing"
same "$(cat "$T/reader/secret-name-2")" "$words 2" "a file of a follower"
"$WEIR" umount "$T/reader" || fail "umount"
"$WEIR" status "$MNT" >/dev/null && "$WEIR" df "$MNT" >/dev/null && "$WEIR" bill "$MNT" >/dev/null || fail "what asks a mount"

echo "== kills, and the tier is lost"
echo kept >"$MNT/secret-kept"
kill -KILL "$(daemons_below "$T" | head -1)"
umount -l "$MNT"
mount_volume
same "$(cat "$MNT/secret-kept")" kept "after a kill"
rm "$MNT/secret-kept"
"$WEIR" umount "$MNT" || fail "umount"
rm -rf "$TIER"
mount_volume
(cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "bytes from the bucket are others"
hidden bucket "$words" secret-name secret-large secret-dir secret-link secret-target secret-attribute secret-value monday "s3://lake"

echo "== keys come and go"
weir key list "$URL" --json
same "$(jq -rc '[.wraps[].name]' "$T/out")" '["first"]' "keys"
refused "a name that is taken" "there is a key first" "$WEIR" key add "$URL" first --new-key-file "$T/words" --key-file "$KEY" "${CONNECT[@]}"
refused "the same key again" "opens it already" "$WEIR" key add "$URL" again --new-key-file "$KEY" --key-file "$KEY" "${CONNECT[@]}"
refused "a change by another key" "opens none" "$WEIR" key add "$URL" x --new-key-file "$T/words" --key-file "$T/other.key" "${CONNECT[@]}"
refused "a change without a key" "volume-locked" "$WEIR" key add "$URL" x --new-key-file "$T/words" "${CONNECT[@]}"
weir key add "$URL" people --new-key-file "$T/words" --key-file "$KEY"
WEIR_PASSPHRASE='correct horse battery staple' "$WEIR" fsck "$URL" "${CONNECT[@]}" >"$T/out" 2>&1 || fail "by a passphrase: $(cat "$T/out")"
"$WEIR" fsck "$URL" --key-command "cat '$T/words'" "${CONNECT[@]}" >"$T/out" 2>&1 || fail "by a command: $(cat "$T/out")"
refused "a command that fails" "failed" "$WEIR" fsck "$URL" --key-command "echo x; exit 3" "${CONNECT[@]}"
refused "two keys" "cannot be used with" "$WEIR" fsck "$URL" --key-command true --key-file "$KEY" "${CONNECT[@]}"
refused "a passphrase that is wrong" "opens none of its keys: first (key file), people (passphrase)" env WEIR_PASSPHRASE="correct horse battery stapl" "$WEIR" fsck "$URL" "${CONNECT[@]}"
refused "the key that is given" "give another one" "$WEIR" key remove "$URL" first --key-file "$KEY" "${CONNECT[@]}"
refused "a key that is none" "no key nobody" "$WEIR" key remove "$URL" nobody --key-file "$KEY" "${CONNECT[@]}"
chmod 644 "$T/words"
weir fsck "$URL" --key-file "$T/words"
grep -q "chmod 600" "$T/err" || fail "nothing is said of a key file that all may read: $(cat "$T/err")"

echo "== a passphrase that is asked for"
typed() { python3 "$TESTS/tools/typed.py" "$@" "${CONNECT[@]}" >"$T/typed" 2>&1; }
says() { grep -q -- "$1" "$T/typed" || fail "it does not say '$1': $(cat "$T/typed")"; }
ASKED=s3://bucket/asked FIVE='five words that nobody guesses'
typed "New passphrase=$FIVE" "The same again=$FIVE!" -- "$WEIR" format "$ASKED" --encrypt --key-file - && fail "two that differ"
says "not the same"
typed "New passphrase=$FIVE" "The same again=$FIVE" -- "$WEIR" format "$ASKED" --encrypt --key-file - || fail "format: $(cat "$T/typed")"
typed 'Passphrase=\x03' -- "$WEIR" fsck "$ASKED" --key-file - && fail "Ctrl-C"
says "no passphrase was given"
typed "Passphrase=$FIVE." -- "$WEIR" fsck "$ASKED" --key-file - && fail "a wrong one"
says "opens none of its keys"
refused "nobody to ask" "no terminal to ask on" "$WEIR" fsck "$ASKED" --key-file - "${CONNECT[@]}" </dev/null
echo "$FIVE" | "$WEIR" fsck "$ASKED" --key-file - "${CONNECT[@]}" >"$T/out" 2>&1 || fail "by standard input: $(cat "$T/out")"
typed "Passphrase=$FIVE" "New passphrase=another four words" "The same again=another four words" -- \
    "$WEIR" key add "$ASKED" people --key-file - --new-key-file - || fail "key add: $(cat "$T/typed")"
mkdir -p "$T/asked"
typed "Passphrase=another four words" -- "$WEIR" mount "$ASKED" "$T/asked" --tier "$T/asked-tier" --key-file - --log-file "$T/asked.log" ||
    fail "mount: $(cat "$T/typed")"
echo asked >"$T/asked/file"
"$WEIR" upgrade "$T/asked" >"$T/out" 2>&1 || fail "upgrade: $(cat "$T/out")"
same "$(cat "$T/asked/file")" asked "a file"
"$WEIR" umount "$T/asked" || fail "umount"
grep -rqaF "another four" "$T/asked.log" "$T/asked-tier" && fail "a passphrase is in the log or in the tier"

echo "== rotated while it is mounted"
refused "a rotation that forgets one" "people" "$WEIR" key rotate "$URL" --key-file "$KEY" "${CONNECT[@]}"
refused "a rotation that names one twice" "people would not open it" "$WEIR" key rotate "$URL" --key-file "$KEY" --stays "$KEY" "${CONNECT[@]}"
cp "$T/s3/bucket/vol/volume.json" "$T/volume.json"
weir key rotate "$URL" --key-file "$KEY" --stays "$T/words"
same "$(jq -c '[(.encryption.older | length), (.encryption.wraps | length)]' "$T/s3/bucket/vol/volume.json")" '[1,2]' "keys after a rotation"
echo meanwhile >"$MNT/secret-meanwhile"
remount
echo after >"$MNT/secret-after"
"$WEIR" flush "$MNT"
same "$(cat "$MNT/secret-meanwhile" "$MNT/secret-name-3" | tr '\n' ' ')" "meanwhile $words 3 " "what was written before"
"$WEIR" umount "$MNT" || fail "umount"
# Who kept the description of before opens no more than was there then.
cp "$T/s3/bucket/vol/volume.json" "$T/now.json" && cp "$T/volume.json" "$T/s3/bucket/vol/volume.json"
refused "volume.json of before" "key" timeout 60 "$WEIR" fsck "$URL" --key-file "$KEY" "${CONNECT[@]}"
cp "$T/now.json" "$T/s3/bucket/vol/volume.json"
weir key rotate "$URL" --key-file "$T/words" --drop-others
refused "a key that was dropped" "opens none of its keys: people" "$WEIR" fsck "$URL" --key-file "$KEY" "${CONNECT[@]}"
weir fsck "$URL" --data --key-file "$T/words"
weir key add "$URL" first --new-key-file "$KEY" --key-file "$T/words"

echo "== a backup, and the volume of it"
refused "a backup without a key" "volume-locked" "$WEIR" backup "$URL" --to s3://backups/b --snapshot monday "${CONNECT[@]}"
weir backup "$URL" --to s3://backups/b --name now --key-file "$KEY"
hidden backups "$words" secret-name secret-large secret-attribute secret-value
"$WEIR" backups s3://backups/b "${CONNECT[@]}" >"$T/out" || fail "backups are listed without a key"
refused "a restore without a key" "volume-locked" "$WEIR" restore-volume s3://backups/b s3://again/vol "${CONNECT[@]}"
weir restore-volume s3://backups/b s3://again/vol --key-file "$T/words"
hidden again "$words" secret-name secret-attribute
weir fsck s3://again/vol --data --key-file "$KEY"
"$WEIR" mount s3://again/vol "$T/reader" --tier "$T/again-tier" --key-file "$KEY" --log-file "$T/again.log" "${CONNECT[@]}" >/dev/null || fail "mount the restored"
(cd "$T/reader" && sha256sum -c --quiet "$T/sums") || fail "what was restored is other"
"$WEIR" umount "$T/reader" || fail "umount"

echo "== somebody puts a volume that all can read in its place"
cp -r "$T/s3/bucket/vol" "$T/vol"
rm -r "$T/s3/bucket/vol" && "$WEIR" format "$URL" "${CONNECT[@]}" >/dev/null || fail "format"
refused "a volume that is not encrypted, by a key" "not encrypted" "$WEIR" mount "$URL" "$MNT" --tier "$T/tier2" --key-file "$KEY" "${CONNECT[@]}"
rm -r "$T/s3/bucket/vol" && mv "$T/vol" "$T/s3/bucket/vol"

echo "== disks"
weir disk create "$URL" d1 --size 64MiB --key-file "$KEY"
weir disk list "$URL" --key-file "$KEY"
grep -q d1 "$T/out" || fail "a disk is not listed: $(cat "$T/out")"
refused "disks without a key" "volume-locked" "$WEIR" disk list "$URL" "${CONNECT[@]}"

echo "== mount(8)"
ln -sf "$WEIR" "$T/mount.weir"
"$T/mount.weir" "$URL" "$MNT" -o "tier=$TIER,key-file=$KEY,endpoint=${CONNECT[1]},log-file=$T/fstab.log" || fail "mount.weir"
same "$(cat "$MNT/secret-after")" after "by mount(8)"
"$WEIR" umount "$MNT" || fail "umount"
weir fsck "$URL" --data --key-file "$KEY"
