#!/usr/bin/env bash
# A volume by NFS, with the kernel as its client: what programs do with files, two mounts that see each other's
# changes when files are closed, exports and who is who in them, and a server that is killed under load and comes
# back without a program noticing.
# busy: it emulates a machine
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need git jq sqlite3 fsx fio flock fallocate python3

vm_disk local 2G
guest <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null || fail "format"
TIER=$LOCAL/tier
serve_nfs() { "$WEIR" serve "$URL" --tier "$TIER" --log-file "$LOG" --nfs 127.0.0.1:2049 --nfs-lease 10s "$@" || fail "weir serve --nfs"; }
# What mount.nfs does, without it.
nfs() { # EXPORT DIRECTORY [OPTION]
    mkdir -p "$2" && mount -i -t nfs4 -o "vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,hard${3:+,$3}" "127.0.0.1:$1" "$2" ||
        fail "mount $1: $(dmesg | tail -n 3)"
}
say() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }
serve_nfs
"$WEIR" export add "$URL" / --name '' --squash none >/dev/null || fail "weir export add"
nfs / "$MNT"
say "mounted"

# Files, names, attributes.
cd "$MNT"
mkdir d && echo hello >d/f && ln d/f d/g && ln -s f d/l && mv d/g d/h || fail "names"
same "$(cat d/l)" hello "by a symlink"
same "$(stat -c '%h %s %F' d/h)" "2 6 regular file" "of the link"
chmod 640 d/f && chown 7:8 d/f && touch -d @1000000000 d/f || fail "attributes"
same "$(stat -c '%a %u %g %Y' d/f)" "640 7 8 1000000000" "attributes"
mkfifo d/p && mknod d/n c 1 3 || fail "nodes"
same "$(stat -c '%F %t %T' d/n)" "character special file 1 3" "of a node"
rmdir d 2>/dev/null && fail "a directory that has files is removed"
truncate -s 3 d/h && same "$(cat d/f)" hel "cut"
python3 -c 'import os; os.setxattr("d/f", "user.a", b"b"); assert os.listxattr("d/f") == ["user.a"] and os.getxattr("d/f", "user.a") == b"b"' || fail "an xattr"
fallocate -p -o 0 -l 4096 d/f && fallocate -l 8192 d/f || fail "fallocate"
same "$(stat -c %s d/f)" 8192 "allocated"
head -c 3M /dev/urandom >big && cp --reflink=auto big copy && cmp big copy || fail "a copy"
exec 9>d/open && rm d/open && echo lives >&9 || fail "an open file that is removed"
exec 9>&-
mkdir many && (cd many && seq 60 | xargs touch) && same "$(ls many | wc -l)" 60 "many names"
rm -r many || fail "rm -r"
say "files"

# What two mounts see of each other.
nfs / /mnt/two nosharecache
echo one >shared && same "$(cat /mnt/two/shared)" one "closed, then opened elsewhere"
echo two >/mnt/two/shared && same "$(cat shared)" two "and back"
flock shared -c 'flock -n /mnt/two/shared true' && fail "a lock that somebody has is had twice"
flock -n /mnt/two/shared true || fail "a lock that nobody has"
same "$("$WEIR" clients "$URL" --json | jq length)" 1 "clients: one machine is one"
umount /mnt/two
say "two mounts"

# Programs.
(cd "$MNT" && git init -q repo && cd repo && cp -r /etc/apt . && git add . && git -c user.name=a -c user.email=a@b commit -qm one &&
    git fsck --strict && git clone -q . ../clone && git -C ../clone status --porcelain) || fail "git"
say "git"
sqlite3 db 'create table t(a); insert into t values(1); insert into t select a+1 from t; pragma integrity_check' | grep -qx ok || fail "sqlite"
say "sqlite"
fsx -N 120 -S 1 fsx-file >/run/fsx.log 2>&1 || fail "fsx: $(tail -n 5 /run/fsx.log)"
say "fsx"
fio --name=v --directory="$MNT" --size=1M --bs=16k --rw=randwrite --verify=crc32c --do_verify=1 --end_fsync=1 --output=/run/fio.log ||
    fail "fio: $(tail -n 20 /run/fio.log)"
say "programs"

# Who is who.
"$WEIR" access-point create "$URL" ap --path /points/x --uid 1000 --gid 1000 --mode 0750 >/dev/null || fail "an access point"
"$WEIR" export add "$URL" /d --name ro --ro --squash root >/dev/null || fail "an export"
nfs /ap /mnt/ap && echo mine >/mnt/ap/f || fail "an access point"
same "$(stat -c '%u %g' "$MNT/points/x/f")" "1000 1000" "a file of an access point"
nfs /ro /mnt/ro
touch /mnt/ro/x 2>/dev/null && fail "what is read-only was changed"
cat /mnt/ro/h >/dev/null 2>&1 && fail "root reads what nobody may"
umount /mnt/ap /mnt/ro
say "exports"

# The server is killed under load, and nobody notices. What was fsynced is there; locks are claimed.
cd "$MNT"
mkdir -p load && touch locked && exec 8>locked && flock -x 8 || fail "a lock"
(for ((n = 0; n < 60; n++)); do
    head -c 50000 /dev/urandom >"load/$n" && sync "load/$n" && sha256sum "load/$n" >>/run/sums || { echo "at $n" >/run/failed; exit 1; }
done) 2>/run/failed-how &
load=$!
# At least once, and the first kill comes in the middle of it.
"$TESTS/tools/basics.py" "$MNT" 5 >/run/basics 2>&1 &
basics=$!
for _ in 1 2; do
    sleep 3
    kill_server
    serve_nfs
done
# Another machine goes on, which has nothing of the first but the bucket and its address: what was answered as
# durable is there, and clients send the rest again.
sleep 3
kill_server
rm -rf "$TIER"
TIER=$LOCAL/other
serve_nfs --take-over --accept-loss tier
wait $load || fail "a program noticed: $(cat /run/failed /run/failed-how)"
wait $basics || fail "basics under a kill: $(cat /run/basics)"
sha256sum --quiet -c /run/sums || fail "what was written under a kill"
same "$(wc -l </run/sums)" 60 "files that were written"
nfs / /mnt/two nosharecache
flock -n /mnt/two/locked true && fail "a lock was lost with the server"
exec 8>&-
poll 20 flock -n /mnt/two/locked true || fail "a lock that was let go is not free"
umount /mnt/two
say "kills"
cd / && umount "$MNT" || fail "umount"
stop_serving
"$WEIR" fsck "$URL" --data >/run/fsck 2>&1 || fail "fsck: $(cat /run/fsck)"
GUEST
