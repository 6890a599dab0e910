#!/usr/bin/env bash
# weir-serve@.service under a real systemd, with the kernel as its client: what fences the daemon keeps it from no
# device, one that is killed is started again and takes its device up, and its end flushes.
# busy: it emulates a machine
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need mkfs.xfs mount unshare /lib/systemd/systemd

vm_disk local 1G
guest <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null && "$WEIR" disk create "$URL" d --size 512MiB --cache tier >/dev/null || fail "format"
mkdir -p /etc/weir /run/units/weir-serve@disks.service.d && ln -s "$WEIR" /usr/local/bin/weir
cp "$TESTS/../packaging/systemd/weir-serve@.service" /run/units/
printf 'URL=%s\nTIER=%s\nOPTIONS=--flush-age 1h\n' "$URL" "$LOCAL/tier" >/etc/weir/disks.env
# As docs/install.md says.
printf '[Service]\nExecStartPost=weir attach d --volume ${URL} --device /dev/nbd0\n' \
    >/run/units/weir-serve@disks.service.d/attach.conf
# Here is no journal.
printf '[Service]\nStandardOutput=append:%s\nStandardError=append:%s\n' "$LOG" "$LOG" \
    >/run/units/weir-serve@disks.service.d/log.conf
# Nothing else of a machine is to start.
for target in host sysinit basic shutdown network network-online nss-lookup time-sync remote-fs-pre; do
    printf '[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n' >/run/units/$target.target
done

cat >/run/first <<'FIRST'
# As systemd makes it where it is not in a container: services' own views lose what is unmounted here.
mount --make-rshared /
mount -t cgroup2 none /sys/fs/cgroup && mkdir -p /run/systemd/system || exit 1
export container=other SYSTEMD_UNIT_PATH=/run/units
bash /run/try >/run/said 2>&1 &
exec /lib/systemd/systemd --system --unit=host.target --log-target=console --show-status=no
FIRST
cat >/run/try <<'TRY'
set -eux
until systemctl is-active --quiet host.target; do sleep 0.2; done
systemctl start weir-serve@disks
mkfs.xfs -q /dev/nbd0
mount /dev/nbd0 /mnt/fs
echo kept >/mnt/fs/file
sync -f /mnt/fs/file
pid() { systemctl show -p MainPID --value weir-serve@disks; }
before=$(pid)
# It cannot write where it has nothing to write.
grep ' /usr ro,' /proc/$before/mountinfo
grep ' /etc ro,' /proc/$before/mountinfo
kill -KILL $before
until [ "$(pid)" != $before ] && systemctl is-active --quiet weir-serve@disks; do sleep 0.2; done
echo more >>/mnt/fs/file
sync -f /mnt/fs/file
[ "$(cat /mnt/fs/file | xargs)" = "kept more" ]
umount /mnt/fs
systemctl stop weir-serve@disks
echo done >/run/done
TRY
timeout 200 unshare --pid --fork --kill-child --mount --mount-proc bash /run/first >/run/systemd.log 2>&1 &
host=$!
poll 200 test -e /run/done || fail "under systemd: $(tail -n 20 /run/said; tail -n 20 /run/systemd.log)"
kill -KILL $host
rm -rf "$LOCAL/tier" # all is in the bucket
serve
dev=$(attach d) || exit 1
mount "$dev" "$MNT" || fail "mount"
same "$(xargs <"$MNT/file")" "kept more" "what was in the bucket"
umount "$MNT" && detach d
stop_serving
GUEST
