#!/usr/bin/env bash
# A volume that is mounted and served by NFS beside that, by one daemon: each sees what the other does, also after an
# upgrade and a kill. What programs see of it with warm caches is in crates/door-nfs/tests/beside.
# time-limit: 120
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nfs.sh"
need jq

PORT=$(free_port)
fmt_mount --nfs "127.0.0.1:$PORT" --nfs-lease 10s
same "$("$WEIR" status "$MNT" --json | jq -r .nfs.address)" "127.0.0.1:$PORT" "where it is served"
"$WEIR" export add "$MNT" / --name '' --squash none >/dev/null || fail "weir export add"
test ! -e "$MNT/home" && test ! -e "$MNT/home" || fail "it is there"
"$WEIR" access-point create "$MNT" ap --path /home/ada --uid 7 --gid 7 >/dev/null || fail "an access point"
same "$(stat -c %u "$MNT/home/ada")" 7 "the directory that was made for the access point"

echo "== a client works beside programs of the mount"
nfs_goes_on "127.0.0.1:$PORT" 45 30
nfs_lives 1 20
poll 10 test -e "$MNT/name-1" || fail "the mount does not see what the client makes"
size() { stat -c %s "$MNT/goes-on"; }
before=$(size)
grows() { [ "$(size)" -gt "$before" ]; }
poll 10 grows || fail "the mount does not see what the client writes"
python3 - "$MNT/goes-on" <<'PY' || fail "a program has a lock that a client has"
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(0)
sys.exit(1)
PY
same "$("$WEIR" clients "$MNT" --json | jq length)" 2 "clients: the one, and who looks at its lock"

echo "== another binary in its place"
exec 9>"$MNT/open" && echo one >&9
"$WEIR" upgrade "$MNT" || fail "weir upgrade"
nfs_lives 2 25
echo two >&9 && exec 9>&-
same "$(cat "$MNT/open")" "$(printf 'one\ntwo')" "a file that was open meanwhile"
before=$(size)
poll 10 grows || fail "the mount does not see what the client writes after the upgrade"

echo "== killed and mounted again"
kill -KILL "$(daemon_pid)"
umount -l "$MNT"
mount_volume
nfs_lives 3 25
before=$(size)
poll 10 grows || fail "the mount does not see what the client writes after the kill"
nfs_went_on
umount_volume
"$WEIR" fsck "$URL" --data >/dev/null || fail "weir fsck"
