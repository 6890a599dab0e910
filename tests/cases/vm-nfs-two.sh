#!/usr/bin/env bash
# A volume by NFS with two machines as its clients, which are two network namespaces of one kernel: one keeps what it
# read until the other changes it (read delegations), several connections, names as POSIX has them, and a
# machine that is cut off.
# busy: it emulates a machine
# time-limit: 300
# A soak asks all of pjdfstest.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need ip jq nsenter pjdfstest

vm_disk local 2G
guest "NAMES='$(amount 'mkdir symlink' all)'" <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null || fail "format"
ip netns add two && ip link add here type veth peer name there netns two || fail "a second machine"
ip addr add 10.9.0.1/24 dev here && ip link set here up || fail "an address"
ip -n two addr add 10.9.0.2/24 dev there && ip -n two link set there up && ip -n two link set lo up || fail "an address"
for machine in one two; do
    say="echo $machine >/sys/fs/nfs/net/nfs_client/identifier"
    if [ $machine = two ]; then ip netns exec two sh -c "$say"; else sh -c "$say"; fi || fail "a machine's name"
done
"$WEIR" serve "$URL" --tier "$LOCAL/tier" --log-file "$LOG" --nfs 10.9.0.1:2049 --nfs-lease 10s || fail "weir serve"
"$WEIR" export add "$URL" / --name '' --squash none >/dev/null || fail "weir export add"
# A kernel believes its names of a directory for 30 s else.
opts=vers=4.2,addr=10.9.0.1,hard,acdirmin=1,acdirmax=1
mkdir -p "$MNT" /mnt/two
mount -i -t nfs4 -o "$opts,clientaddr=10.9.0.1,nconnect=4" 10.9.0.1:/ "$MNT" || fail "mount: $(dmesg | tail -n 3)"
nsenter --net=/run/netns/two mount -i -t nfs4 -o "$opts,clientaddr=10.9.0.2" 10.9.0.1:/ /mnt/two || fail "mount by two"
say() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }
of() { # ADDRESS FIELD: of a client
    "$WEIR" clients "$URL" --json | jq -s "flatten | map(select(.address | startswith(\"$1\")) | $2) | add"
}
count() { "$WEIR" status "$URL" --json | jq ".nfs.counts.$1"; }
same "$("$WEIR" clients "$URL" --json | jq -s 'flatten | length')" 2 "machines"
cd "$MNT"
say "mounted"

# Who reads a file that nobody writes asks once.
echo one >f && cp f g && same "$(cat f)" one "read" && cat g >/dev/null
[ "$(of 10.9.0.1 .delegations)" -ge 1 ] || fail "nothing was delegated"
before=$(of 10.9.0.1 .requests)
for _ in $(seq 40); do cat f >/dev/null; done
asked=$(($(of 10.9.0.1 .requests) - before))
[ $asked -lt 20 ] || fail "40 opens of a delegated file ask $asked times"
[ "$(count connections)" -ge 5 ] || fail "connections: $(count connections), with nconnect=4"
for _ in 1 2 3 4; do
    head -c 2M /dev/urandom >big && cmp big /mnt/two/big || fail "several connections mix bytes up"
done
say "delegated"

# The other machine changes it, and both see that.
# A kernel gives back of itself what it has not used for a lease.
cat f g >/dev/null
[ "$(of 10.9.0.1 .delegations)" -ge 1 ] || fail "the delegation is gone"
same "$(cat /mnt/two/f)" one "the other machine reads beside it"
echo two >/mnt/two/f && same "$(cat f)" two "what the other wrote"
# Attributes and names are looked at again by who opens a file, as on all of NFS.
chmod 600 /mnt/two/g && cat g >/dev/null && same "$(stat -c %a g)" 600 "what the other changed"
mv /mnt/two/g /mnt/two/h || fail "a move"
sleep 2
cat g >/dev/null 2>&1 && fail "a file that moved is where it was"
same "$(cat h)" one "a file that moved"
[ "$(count delegations_recalled)" -ge 1 ] || fail "nothing was recalled"
same "$(count delegations_revoked)" 0 "taken away"
say "recalled"

# A machine that is cut off is waited for as long as a lease, and no longer.
for ((n = 0; n < 5; n++)); do
    echo three >cut$n
    cat /mnt/two/cut$n >/dev/null
done
[ "$(of 10.9.0.2 .delegations)" -ge 1 ] || fail "the other machine has none"
ip link set here down
ip addr add 10.9.0.1/24 dev lo
before=$(cut -d. -f1 /proc/uptime)
for ((n = 0; n < 5; n++)); do echo four >cut$n || fail "a write"; done
took=$(($(cut -d. -f1 /proc/uptime) - before))
[ $took -le 40 ] || fail "a write waited $took s for a machine that is cut off"
say "cut off, for $took s"
ip addr del 10.9.0.1/24 dev lo
ip link set here up
for ((n = 0; n < 5; n++)); do same "$(cat /mnt/two/cut$n)" four "after it came back"; done
say "back"

# Names, as POSIX has them.
mkdir work && chmod 777 work
printf '[features.posix_fallocate]\n[features.rename_ctime]\n[features.utime_now]\n[features.utimensat]\n[settings]\nnaptime = 0.02\nallow_remount = false\n[dummy_auth]\nentries = [\n["nobody", "nogroup"],\n["daemon", "daemon"],\n["bin", "bin"],\n]\n' >/run/pjdfstest.toml
# A client of NFS keeps a removed file that is open under another name, which that one test sees.
known=unlink::open_file_not_freed
for what in $NAMES; do
    if [ "$what" = all ]; then what=; fi
    pjdfstest -c /run/pjdfstest.toml -p "$MNT/work" -s /run $what >/run/pjd 2>&1
    same "$(awk -v known=$known '$NF == "FAILED" && $1 != known { print $1 }' /run/pjd)" "" "pjdfstest $what: $(tail -n 30 /run/pjd)"
    grep ^Summary /run/pjd || fail "pjdfstest $what: $(tail -n 30 /run/pjd)"
done
say "names"

"$WEIR" clients "$URL" --by-export | grep -q '^ *10\.9\.0\.2 ' || fail "what was done by address"
"$WEIR" bill "$URL" | grep -q '10\.9\.0\.2' || fail "the bill knows no address"
cd / && umount "$MNT" /mnt/two || fail "umount"
stop_serving
"$WEIR" fsck "$URL" --data >/run/fsck 2>&1 || fail "fsck: $(cat /run/fsck)"
GUEST
