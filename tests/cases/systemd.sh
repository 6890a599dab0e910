#!/usr/bin/env bash
# A Debian that boots with the .deb installed: a volume of weir@.service, one of /etc/fstab, one whose
# bucket is not there, and a disk of weir-serve@.service. It is filled, its daemons are killed and stopped from
# outside, it is shut down with dirty data, it loses its disks, it loses its power; each time all must be there
# after the next boot.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
source "$TESTS/lib-root.sh"
begin
need dpkg-deb jq mount pgrep qemu-io strip systemd-nspawn umount
debian_root ca-certificates fuse3 libgcc-s1 logrotate procps systemd systemd-sysv
s3_start
mkdir "$T/s3/unit" "$T/s3/table" "$T/s3/disks"
NBD=$(free_port)
CONTAINER=$T/container
mkdir -p "$CONTAINER"/{upper,work,root} "$T/job"
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$CONTAINER/upper,workdir=$CONTAINER/work" "$CONTAINER/root" ||
    fail "overlay"
INSIDE=$CONTAINER/root
DEB_COMPRESSION=gzip "$TESTS/../packaging/packages.sh" "$T/out" "" deb >"$T/made.log" 2>&1 || fail "packages.sh"
cp "$T"/out/*.deb "$T/job/weir.deb" && cp "$T/job/weir.deb" "$INSIDE/tmp/"
chroot "$INSIDE" dpkg -i /tmp/weir.deb >"$T/dpkg.log" 2>&1 || fail "dpkg -i"

# The bucket is reached through a wire that goes with the network, as in life.
WIRE=$(free_port)
cat >"$INSIDE/etc/systemd/system/wire.socket" <<UNIT
[Socket]
ListenStream=127.0.0.1:$WIRE
UNIT
cat >"$INSIDE/etc/systemd/system/wire.service" <<UNIT
[Unit]
Requires=wire.socket
After=wire.socket
Wants=network.target
Before=network.target
[Service]
ExecStart=/lib/systemd/systemd-socket-proxyd 127.0.0.1:$S3_PORT
[Install]
WantedBy=multi-user.target
UNIT
# What is to be done after a boot, told from outside; the machine goes down when it ends.
cat >"$INSIDE/etc/systemd/system/job.service" <<'UNIT'
[Unit]
After=multi-user.target
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=bash -euxc 'source /job/helpers; source /job/now; echo ok >/job/done'
StandardOutput=append:/job/log
StandardError=append:/job/log
[Install]
WantedBy=multi-user.target
UNIT
cat >"$INSIDE/etc/weir/unit.env" <<ENV
URL=s3://unit/vol
DIR=/srv/unit
TIER=/var/cache/weir/unit
OPTIONS=--flush-age 1h --tier-size 300MiB
AWS_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID
AWS_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY
AWS_ENDPOINT_URL=http://127.0.0.1:$WIRE
WEIR_HARDWARE_ID=container
ENV
sed "s|^URL=.*|URL=s3://disks/vol|; /^DIR=/d; s|/unit$|/disks|; s|^OPTIONS=.*|& --nbd 127.0.0.1:$NBD|" \
    "$INSIDE/etc/weir/unit.env" >"$INSIDE/etc/weir/disks.env"
chmod 600 "$INSIDE"/etc/weir/*.env
mkdir -p "$INSIDE"/etc/systemd/system/weir@.service.d "$INSIDE"/root/.aws "$INSIDE"/srv/{table,none} "$INSIDE/var/log/journal"
printf '[Service]\nRestartSec=1\nWatchdogSec=3\nEnvironment=WEIR_HARDWARE_ID=container\n' \
    >"$INSIDE/etc/systemd/system/weir@.service.d/soon.conf"
# mount(8) takes HOME away, in which keys would be looked for; a container has no hardware to be known by after it
# lost its power.
mkdir "$INSIDE/etc/systemd/system/srv-table.mount.d"
printf '[Mount]\nEnvironment=AWS_SHARED_CREDENTIALS_FILE=/root/.aws/credentials WEIR_HARDWARE_ID=container\n' \
    >"$INSIDE/etc/systemd/system/srv-table.mount.d/environment.conf"
cat >"$INSIDE/root/.aws/credentials" <<ENV
[default]
aws_access_key_id = $AWS_ACCESS_KEY_ID
aws_secret_access_key = $AWS_SECRET_ACCESS_KEY
[weir]
aws_access_key_id = $AWS_ACCESS_KEY_ID
aws_secret_access_key = $AWS_SECRET_ACCESS_KEY
ENV
at=profile=weir,endpoint=http://127.0.0.1:$WIRE,tier-size=300MiB,flush-age=1h,_netdev,nofail
cat >"$INSIDE/etc/fstab" <<FSTAB
s3://table/vol /srv/table weir tier=/var/cache/weir/table,$at 0 0
s3://nowhere/vol /srv/none weir tier=/var/cache/weir/none,$at 0 0
FSTAB
# A node of a fleet, made at the first boot as by user data. It has no disks, so programs for these are not asked for.
mkdir "$T/s3/fleet"
cp "$TESTS/../deploy/node/weir-node.sh" "$T/job/"
cat >"$INSIDE/etc/weir/node.conf" <<CONF
NODE=one
VOLUMES=s3://fleet/nodes
REFERENCE=s3://late/db
RESULTS=s3://fleet/out
ENDPOINT=http://127.0.0.1:$WIRE
STORES=/none
USERS=taker.service
CONF
cat >"$INSIDE/etc/systemd/system/taker.service" <<'UNIT'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'cat /mnt/weir/db/reference >>/job/taken'
ExecStop=sh -c 'echo "last words" >/mnt/weir/last'
UNIT
for program in mdadm mkfs.xfs; do ln -s /bin/false "$INSIDE/usr/local/bin/$program"; done
chroot "$INSIDE" systemctl enable wire.service job.service weir@unit.service weir-serve@disks.service \
    >"$T/enable.log" 2>&1 || fail "enable"
for bucket in unit table disks; do
    "$WEIR" format "s3://$bucket/vol" "${CONNECT[@]}" >/dev/null || fail "format"
done
"$WEIR" disk create s3://disks/vol d --size 64MiB --cache tier "${CONNECT[@]}" >/dev/null || fail "disk create"
# The machine has this one's network. What is asked of the disk is done when the machine's job finds /job/NAME.
disk() { qemu-io -f raw -c "$1" "nbd://127.0.0.1:$NBD/d" >"$T/disk.log" 2>&1 && ! grep 'failed' "$T/disk.log"; }
disk_meanwhile() { # NAME COMMAND
    { poll 200 disk "$2" && touch "$T/job/$1"; } &
}

cat >"$T/job/helpers" <<'JOB'
trap '[ -e /job/done ] || journalctl --no-pager -b | tail -25' EXIT
poll() { { set +x; } 2>/dev/null; poll_quietly "$@"; local code=$?; set -x; return $code; }
poll_quietly() { local end=$((SECONDS + $1)); shift; until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done; }
write() { # NAME: into both volumes, some large, some small
    for place in unit table; do
        head -c 20000000 /dev/urandom >/srv/$place/$1
        mkdir /srv/$place/$1.d && (cd /srv/$place/$1.d && seq 200 | xargs touch && cp -r /etc/systemd .)
        (cd /srv/$place && find $1 $1.d -type f -exec sha256sum {} +) >/job/$place.$1.sum
    done
}
kept() { # PLACE NAME...
    local place=$1 name
    shift
    for name in "$@"; do (cd /srv/$place && sha256sum --quiet -c /job/$place.$name.sum) &>/job/missing || return 1; done
}
mounted() { mountpoint -q /srv/unit; }
pid() { systemctl show -p MainPID --value weir@unit; }
JOB

start_machine() { # does $T/job/now in it, which shuts it down
    : >"$T/job/log" && rm -f "$T/job/done"
    timeout 240 systemd-nspawn --quiet --register=no --keep-unit --directory="$INSIDE" --boot \
        --bind=/dev/fuse --bind="$T/job:/job" --console=pipe </dev/null >"$T/console.log" 2>&1 &
    MACHINE=$!
    poll 20 first_process || fail "the machine does not start"
}
# It outlives who started it, so the case's end must know it.
first_process() {
    local spawner
    spawner=$(pgrep --parent "$MACHINE") && pgrep --parent "$spawner" >"$T/first.pid"
}
cut_power() {
    kill -KILL "$(cat "$T/first.pid")"
    wait "$MACHINE"
}
booted() {
    start_machine
    wait "$MACHINE"
    [ -e "$T/job/done" ] || { cat "$T/job/log"; fail "$1"; }
    echo "ok: $1"
}

node_meanwhile() { poll 200 test -e "$T/job/tried" && mkdir -p "$T/s3/late/db" && echo text >"$T/s3/late/db/reference"; }
node_meanwhile &
disk_meanwhile written "write -P 0x5a 1M 8M"
cat >"$T/job/now" <<'JOB'
# Before multi-user.target it is mounted, and what cannot be mounted did not hold that up.
mounted
[ "$(systemctl is-active weir@unit)" = active ]
[ "$(systemctl is-active weir-serve@disks)" = active ]
systemctl show -p StatusText weir-serve@disks | grep 'serves disks'
# `nofail` waits for nothing.
poll 30 mountpoint -q /srv/table
failed() { [ "$(systemctl is-failed srv-none.mount)" = failed ]; }
poll 60 failed
systemctl show -p StatusText weir@unit | grep 'mounted at /srv/unit'
write a

: stopped with dirty data, which the bucket has then
systemctl stop weir@unit
! mounted
rm -rf /var/cache/weir/unit
systemctl start weir@unit
kept unit a

: killed, and started again
write b
kill -KILL $(pid)
poll 30 kept unit b
: hung, and started again
before=$(pid)
kill -STOP $before
other() { [ "$(pid)" != $before ] && kept unit a b; }
poll 60 other

: what serves disks is killed, and started again
poll 60 test -e /job/written
systemctl kill --signal=KILL weir-serve@disks
again() { [ "$(systemctl show -p NRestarts --value weir-serve@disks)" = 1 ] && systemctl is-active weir-serve@disks; }
poll 30 again

: a node of which the reference is not there yet: no jobs, and they start when it is
bash /job/weir-node.sh && exit 1
[ "$(systemctl is-active taker)" = inactive ]
touch /job/tried
poll 60 grep text /job/taken
systemctl is-active weir@node
: it is made again
bash /job/weir-node.sh
[ "$(cat /job/taken)" = text ]
echo kept >/mnt/weir/kept
: its daemon is killed
kill -KILL "$(systemctl show -p MainPID --value weir@node)"
served() { [ "$(cat /mnt/weir/kept)" = kept ] && [ "$(grep -c text /job/taken)" = 2 ]; }
poll 30 served # and who takes jobs was started anew with it

: logs move on
logrotate --force /etc/logrotate.d/weir
[ -s /var/log/weir/srv-table.log.1 ]
poll 10 grep 'opened anew' /var/log/weir/srv-table.log
ls /var/log/weir/srv-unit.log && exit 1 # its log is the journal

: an upgrade leaves it as it is
before=$(pid)
dpkg -i /job/weir.deb
mounted
[ "$(pid)" = $before ]
write c
: a reload goes on with the new program, under an open file
exec 8</srv/unit/c
systemctl reload weir@unit
[ "$(pid)" = $before ]
cmp /srv/unit/c - <&8
exec 8<&-
kept unit a b c
systemctl show -p StatusText weir@unit | grep 'mounted at /srv/unit'
[ "$(systemctl is-active weir@unit)" = active ]
JOB
booted "filled, stopped, killed, hung, upgraded, and shut down with dirty data"
rm -rf "$INSIDE/var/cache/weir" "$INSIDE/srv/nvme"

disk_meanwhile read "read -P 0x5a 1M 8M"
cat >"$T/job/now" <<'JOB'
mounted
kept unit a b c
poll 60 test -e /job/read
: the node came by itself, and who takes jobs after it and before it went
systemctl is-active weir@node
[ "$(cat /mnt/weir/kept /mnt/weir/last | xargs)" = "kept last words" ]
tail -1 /job/taken | grep text
[ "$(stat -c %a /mnt/weir/out)" = 1777 ]
poll 30 mountpoint -q /srv/table
kept table a b c
journalctl --no-pager -u weir@unit -b -1 | grep 'everything is in the bucket'
write d
# What is not synced is lost with the power, as on any disk.
find /srv/{unit,table}/d* -exec sync {} +
touch /job/cut
sleep 600
JOB
start_machine
poll 200 test -e "$T/job/cut" || { cat "$T/job/log"; fail "lost its disks: not all is in the bucket"; }
echo "ok: lost its disks"
cut_power

cat >"$T/job/now" <<'JOB'
mounted
[ "$(cat /mnt/weir/kept)" = kept ]
kept unit a b c d
poll 30 mountpoint -q /srv/table
kept table a b c d
: removal flushes, and leaves what users made
dpkg -P weir
! mounted
[ "$(systemctl is-active weir-serve@disks)" = inactive ]
[ -d /var/cache/weir/unit ]
[ -e /etc/weir/unit.env ]
umount -i /srv/table
JOB
booted "lost its power"

for bucket in unit table disks; do
    "$WEIR" fsck --data "s3://$bucket/vol" "${CONNECT[@]}" || fail "fsck of $bucket"
done
