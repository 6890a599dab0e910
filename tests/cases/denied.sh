#!/usr/bin/env bash
# time-limit: 200
# Keys that may only read, a bucket that is not there, a server that is not there: each is told at
# once, with what was denied, on what, to whom. What needs only reading works.
source "$(dirname "$0")/../lib.sh"
begin
need jq python3
s3_start
mkdir "$T/s3/lake"
echo one | lake put db/a
fmt_mount
echo kept >"$MNT/file"
umount_volume

# The policies of docs/credentials.md, of a volume, a reader and an exporter, for the names here.
page=$TESTS/../docs/credentials.md
awk -v to="$T" '/^```json/ { n++; inside = 1; next } /^```/ { inside = 0 }
    inside { print > to "/policy" n ".json" }' "$page"
sed -i 's/:::my-bucket/:::bucket/' "$T/policy1.json"
sed 's/:::data/:::bucket/; s,/db/,/vol/,; s,"db/,"vol/,' "$T/policy2.json" >"$T/policy2v.json"
sed -i 's/:::data/:::lake/' "$T/policy2.json" "$T/policy3.json"

# An address where the keys may do what these policies say.
keys_of() { # NAME POLICY...
    local port name=$1
    shift
    port=$(free_port)
    "$TESTS/tools/policy_s3.py" "$port" "$S3_PORT" "$@" </dev/null &
    remember $!
    disown
    poll 20 listening "$port" || fail "the proxy does not come up"
    declare -g "$name=http://127.0.0.1:$port"
}
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
keys_of READER "$T/policy2.json" "$T/policy2v.json"
keys_of WRITER "$T/policy1.json"
keys_of EXPORTER "$T/policy3.json"
reader=(--endpoint "$READER")

# The command fails within 5 s and says all of the words, and no XML.
told() { # WHAT COMMAND... -- WORDS...
    local what=$1 command=() word begun=$SECONDS
    shift
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    timeout 60 "${command[@]}" >"$T/out" 2>&1 && fail "$what: exit 0"
    [ $((SECONDS - begun)) -le 5 ] || fail "$what: told after $((SECONDS - begun)) s: $(cat "$T/out")"
    for word in "$@"; do
        grep -qF -- "$word" "$T/out" || fail "$what: does not say '$word': $(cat "$T/out")"
    done
    grep -q '<Error>\|<Code>' "$T/out" && fail "$what: XML: $(cat "$T/out")"
    echo "ok: $what: $(tail -1 "$T/out")"
}

mount=("$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG")
who="access key weirtest of the environment"
echo "== keys that may only read"
told "format" "$WEIR" format s3://bucket/vol/other "${reader[@]}" -- \
    s3:PutObject s3://bucket/vol/other/meta/ "$who" "AccessDenied: Access Denied"
told "format elsewhere" "$WEIR" format s3://bucket/other "${reader[@]}" -- \
    s3:ListBucket "s3://bucket is denied" "$who"
told "mount" "${mount[@]}" "${reader[@]}" -- s3:PutObject s3://bucket/vol/ "$who" AccessDenied
"$WEIR" -v format s3://bucket/vol/other "${reader[@]}" >"$T/out" 2>&1 && fail "format with -v"
grep -q "<Code>AccessDenied</Code>" "$T/out" || fail "-v: not the server's answer: $(cat "$T/out")"
CONNECT=("${reader[@]}") MOUNT_ARGS=(--read-only)
lose_tier
mount_volume
same "$(cat "$MNT/file")" kept "a file by keys that may only read"
umount_volume
lose_tier

echo "== doctor"
told "doctor of a bucket that may not be listed" "$WEIR" doctor s3://bucket/other "${reader[@]}" -- \
    "s3:ListBucket on s3://bucket is denied to $who" docs/credentials.md
"$WEIR" doctor "$URL" "${reader[@]}" >"$T/out" || fail "what may be read is BAD: $(cat "$T/out")"
for line in "^ok .*credentials *$who$" "^note .*write .*s3:PutObject on s3://bucket/vol/.* is denied to $who"; do
    grep -q "$line" "$T/out" || fail "doctor does not say '$line': $(cat "$T/out")"
done
"$WEIR" doctor "$URL" "${reader[@]}" --json | jq -e '.worst == "warning"' >/dev/null || fail "doctor --json"
"$WEIR" doctor "$URL" --endpoint "$WRITER" >"$T/out" || fail "what suffices is BAD: $(cat "$T/out")"
grep -q "^ok .*delete" "$T/out" || fail "by keys of the policy: $(cat "$T/out")"

echo "== a link"
CONNECT=(--endpoint "http://127.0.0.1:$S3_PORT") MOUNT_ARGS=()
mount_volume
told "a link with export" "$WEIR" link s3://lake/db "$MNT/lake" --export all "${reader[@]}" -- \
    s3:PutObject s3://lake/db/ "$who"
told "a link beside" "$WEIR" link s3://lake/other "$MNT/lake" "${reader[@]}" -- s3:ListBucket "$who"
"$WEIR" link s3://lake/db "$MNT/lake" "${reader[@]}" || fail "link"
same "$(cat "$MNT/lake/a")" one "a linked object"
told "a link to no bucket" "$WEIR" link s3://nowhere "$MNT/nowhere" -- s3://nowhere "no such bucket"
nobody=$(free_port)
told "a link to no server" "$WEIR" link s3://lake "$MNT/none" --endpoint "http://127.0.0.1:$nobody" -- \
    "127.0.0.1:$nobody" "nothing listens"
umount_volume

echo "== no bucket, no server"
told "mount of no bucket" "$WEIR" mount s3://nowhere/vol "$MNT" --tier "$TIER" --log-file "$LOG" \
    "${CONNECT[@]}" -- s3://nowhere "no such bucket"
for command in "format s3://bucket/x" "mount $URL $MNT --tier $TIER --log-file $LOG" "fsck $URL"; do
    # shellcheck disable=SC2086 # they are words
    told "${command%% *} at no server" "$WEIR" $command --endpoint "http://127.0.0.1:$nobody" -- \
        "127.0.0.1:$nobody" "nothing listens"
done

echo "== the policies of the page suffice"
CONNECT=(--endpoint "$WRITER") URL=s3://bucket/vol/policy
lose_tier
format_volume --segment-size 1MiB
mount_volume
head -c 5000000 /dev/urandom >"$MNT/large"
for n in 1 2 3; do echo $n >"$MNT/small$n"; done
"$WEIR" flush "$MNT" || fail flush
rm "$MNT/large"
"$WEIR" link s3://lake/db "$MNT/lake" --import all --export all --endpoint "$EXPORTER" || fail "link"
head -c 20000000 /dev/urandom >"$MNT/lake/parts"
mkdir "$MNT/lake/dir" && echo new >"$MNT/lake/dir/new" && echo two >"$MNT/lake/a"
exported() { link_is .export_waiting 0 "$MNT/lake" && link_is .export_error null "$MNT/lake"; }
poll 60 exported || fail "not exported: $("$WEIR" links "$MNT/lake")"
mv "$MNT/lake/dir" "$MNT/lake/moved" && mv "$MNT/lake/parts" "$MNT/lake/moved/" && rm "$MNT/lake/a"
sleep 1
poll 60 exported || fail "not exported: $("$WEIR" links "$MNT/lake")"
same "$(cd "$T/s3/lake/db" && find . -type f | sort | xargs)" "./moved/new ./moved/parts" "the bucket"
"$WEIR" status "$MNT" --json | jq -e '[.troubles[]? | select(.error | test("denied"))] == []' >/dev/null ||
    fail "something was denied: $("$WEIR" status "$MNT" --json | jq .troubles)"
fsck_clean
