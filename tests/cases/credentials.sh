#!/usr/bin/env bash
# Keys that come from profiles: a program that gives them for a while, and plain ones; and what is
# said where a profile gives none. The environment has no keys.
source "$(dirname "$0")/../lib.sh"
begin
need jq
s3_start
mkdir "$T/s3/lake"
echo one | lake put a
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
export AWS_CONFIG_FILE=$T/config AWS_SHARED_CREDENTIALS_FILE=$T/credentials

cat >"$T/give" <<'EOF'
#!/bin/sh
echo asked >>"$0.asked"
end=$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)
echo "{\"Version\": 1, \"AccessKeyId\": \"weirtest\", \"SecretAccessKey\": \"weirtestsecret\"," \
    "\"Expiration\": \"$end\"}"
EOF
chmod +x "$T/give"
cat >"$AWS_CONFIG_FILE" <<EOF
[profile given]
credential_process = $T/give
region = us-east-1
endpoint_url = http://127.0.0.1:$S3_PORT
[profile fails]
credential_process = /bin/sh -c 'echo the vault is locked >&2; exit 1'
EOF
cat >"$AWS_SHARED_CREDENTIALS_FILE" <<EOF
[plain]
aws_access_key_id = weirtest
aws_secret_access_key = weirtestsecret
EOF

echo "== a program that gives keys"
CONNECT=()
export AWS_PROFILE=given
fmt_mount
"$WEIR" link s3://lake "$MNT/lake" || fail "link with the volume's profile"
same "$(cat "$MNT/lake/a")" one "a linked object"
for round in 1 2 3 4 5 6; do
    head -c 200000 /dev/urandom >"$MNT/file$round" && "$WEIR" flush "$MNT" || fail "round $round"
    sleep 1
done
asked=$(wc -l <"$T/give.asked")
[ "$asked" -ge 4 ] || fail "keys of 4 s were asked for $asked times by format, mount and link in 6 s"
want=$(cat "$MNT"/file* | sha256sum)
umount_volume
lose_tier

echo "== plain keys of a profile, and a link with another"
unset AWS_PROFILE
CONNECT=(--endpoint "http://127.0.0.1:$S3_PORT" --profile plain)
mount_volume
same "$(cat "$MNT"/file* | sha256sum)" "$want" "the files, cold"
"$WEIR" link s3://lake "$MNT/mine" --profile given || fail "link with a profile of its own"
same "$(cat "$MNT/mine/a")" one "a linked object"
"$WEIR" link s3://lake "$MNT/none" --profile nobody 2>"$T/refused" && fail "linked with no profile"
grep -q '`nobody`' "$T/refused" || fail "link does not name the profile: $(cat "$T/refused")"
fsck_clean

echo "== profiles that give none"
refused_by() { # PROFILE WORDS
    AWS_PROFILE=$1 timeout 10 "$WEIR" format "s3://bucket/other" --endpoint "http://127.0.0.1:$S3_PORT" \
        2>"$T/refused" && fail "format with profile $1"
    grep -q "\`$1\`.*$2" "$T/refused" || fail "profile $1: $(cat "$T/refused")"
}
refused_by nobody "correct"
refused_by fails "the vault is locked"
