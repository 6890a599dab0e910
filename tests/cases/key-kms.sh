#!/usr/bin/env bash
# Volumes whose key AWS KMS opens, against a stand-in for it (tests/tools/kms.py): made, mounted, served after a kill and an
# upgrade, refused to who may not, and what becomes of it when KMS is away, slow or says no.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3

asked() { grep -c "^$1 " "$T/kms.log" || true; } # OPERATION

PORT=$(free_port)
python3 "$TESTS/tools/kms.py" "$PORT" "$T/kms.log" "$T/kms.state" 2>"$T/kms.err" &
KMS=$!
remember "$KMS"
poll 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" 2>/dev/null || fail "no stand-in for KMS"
: >"$T/kms.log"
# Nobody else's keys, and no machine that gives some.
export HOME=$T AWS_EC2_METADATA_DISABLED=true AWS_ENDPOINT_URL_KMS=http://127.0.0.1:$PORT
unset AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_SESSION_TOKEN
export AWS_ACCESS_KEY_ID=AKIAALLOWED AWS_SECRET_ACCESS_KEY=secret
KEY=$T/vol.key

echo "== a key file"
refused "a key in no region" "AWS_REGION" "$WEIR" key new "$KEY" --kms alias/weir
export AWS_REGION=eu-west-1
refused "a key by a KMS key that is not there" "no such key\|NotFoundException" "$WEIR" key new "$KEY" --kms alias/none
refused "a key by one that is disabled" "disabled" "$WEIR" key new "$KEY" --kms disabled-key
refused "a key for who may not" "AccessDenied.*kms:GenerateDataKeyWithoutPlaintext" env AWS_ACCESS_KEY_ID=AKIADENIED "$WEIR" key new "$KEY" --kms alias/weir
[ ! -e "$KEY" ] || fail "what was refused left a file"
"$WEIR" key new "$KEY" --kms alias/weir >"$T/out" || fail "key new --kms: $(cat "$T/out")"
grep -q "arn:aws:kms:eu-west-1:000000000000:key/weir-key" "$T/out" || fail "does not say which key: $(cat "$T/out")"
grep -q "^weir-key-kms-1 arn:aws:kms:eu-west-1:000000000000:key/weir-key [0-9a-f]*$" "$KEY" || fail "the file: $(cat "$KEY")"
before=$(cat "$KEY")
made=$(asked GenerateDataKeyWithoutPlaintext)
refused "a key file over another" "already" "$WEIR" key new "$KEY" --kms alias/weir
same "$(cat "$KEY")" "$before" "a key file that was there"
same "$(asked GenerateDataKeyWithoutPlaintext)" "$made" "requests for a file that is there"
chmod 644 "$KEY"

echo "== a volume, opened in whatever region the environment names"
export AWS_REGION=us-east-1
"$WEIR" format "$URL" --encrypt --key-file "$KEY" >/dev/null 2>"$T/err" || fail "format: $(cat "$T/err")"
grep -qi "others may read" "$T/err" && fail "the file is no secret, but: $(cat "$T/err")"
MOUNT_ARGS=(--key-file "$KEY")
mount_volume
echo "what KMS guards" >"$MNT/file"
"$WEIR" flush "$MNT" || fail "flush"
grep -q "Decrypt arn:aws:kms:eu-west-1:000000000000:key/weir-key AKIAALLOWED eu-west-1" "$T/kms.log" || fail "asked: $(cat "$T/kms.log")"
"$WEIR" upgrade "$MNT" >/dev/null || fail "upgrade"
same "$(cat "$MNT/file")" "what KMS guards" "after an upgrade"

echo "== KMS goes away: the mount goes on; a new one says so, and goes on when it is back"
echo throttled >"$T/kms.state"
sync "$MNT/file" && echo more >>"$MNT/file" && "$WEIR" flush "$MNT" || fail "a mount that is there needs KMS"
umount_volume
refused "a mount while KMS is busy" "Throttling.*try again" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$KEY"
echo silent >"$T/kms.state"
began=$SECONDS
refused "a mount while KMS says nothing" "is KMS reached" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$KEY"
[ $((SECONDS - began)) -lt 60 ] || fail "that took $((SECONDS - began)) s"
rm "$T/kms.state"
refused "a mount where nothing listens" "is KMS reached" env AWS_ENDPOINT_URL_KMS=http://127.0.0.1:1 "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$KEY"
refused "a mount by who may not" "kms:Decrypt" env AWS_ACCESS_KEY_ID=AKIADENIED "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$KEY"
refused "a mount without credentials" "credentials" env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$KEY"
mountpoint -q "$MNT" && fail "who was refused is mounted"

echo "== a file that was changed, and one by another key"
sed 's/..$/zz/' "$KEY" >"$T/bad.key"
refused "a file that is cut" "hexadecimal" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/bad.key"
python3 - "$KEY" "$T/bad.key" <<'PY'
import sys
text = open(sys.argv[1]).read().rstrip("\n")
open(sys.argv[2], "w").write(text[:-4] + ("0000" if text[-4:] != "0000" else "1111") + "\n")
PY
refused "a file with other bits" "key file was changed" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/bad.key"
sed 's/weir-key \|key\/weir-key/key\/other-key/' "$KEY" | sed 's/key\/other-key/key\/other-key /;s/  */ /g' >"$T/bad.key"
refused "a file that names another key" "another key sealed" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/bad.key"
AWS_REGION=eu-west-1 "$WEIR" key new "$T/other.key" --kms other-key >/dev/null || fail "another key file"
refused "a mount with another key" "opens none of its keys" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/other.key"

echo "== keys beside it, by a profile, and by a command"
mkdir -p "$T/.aws"
printf '[profile team]\naws_access_key_id = AKIATEAM\naws_secret_access_key = secret\n' >"$T/.aws/config"
"$WEIR" key add "$URL" team --new-key-file "$T/other.key" --key-file "$KEY" >/dev/null || fail "key add"
env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$WEIR" fsck "$URL" --data --profile team --key-command "cat '$T/other.key'" >"$T/out" 2>&1 ||
    fail "fsck by the other: $(cat "$T/out")"
grep -q "Decrypt .*key/other-key AKIATEAM" "$T/kms.log" || fail "the profile was not used: $(tail -2 "$T/kms.log")"
"$WEIR" key new "$T/escrow" >/dev/null && "$WEIR" key add "$URL" escrow --new-key-file "$T/escrow" --key-file "$KEY" >/dev/null || fail "escrow"
"$WEIR" key rotate "$URL" --stays "$T/escrow" --drop-others --key-file "$KEY" >/dev/null || fail "rotate"
refused "a mount by who was dropped" "opens none of its keys" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --key-file "$T/other.key"
mount_volume
same "$(head -1 "$MNT/file")" "what KMS guards" "after a rotation"
kill -KILL "$(daemon_pid)" && sleep 0.3
umount -l "$MNT" 2>/dev/null
mount_volume
same "$(tail -1 "$MNT/file")" more "after a kill"
umount_volume

echo "== KMS is lost, and the other key opens it"
kill "$KMS"
"$WEIR" fsck "$URL" --data --key-file "$T/escrow" >"$T/out" 2>&1 || fail "fsck: $(cat "$T/out")"
grep -rqaF "$(cut -d' ' -f3 "$KEY" | cut -c1-60)" "$T"/*.log "$TIER" && fail "the sealed key is in a log"
exit 0
