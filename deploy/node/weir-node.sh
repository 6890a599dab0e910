#!/bin/bash
# Makes a machine of a fleet a node with Weir: a tier on its instance store, a volume of its own at /mnt/weir, and in
# that /mnt/weir/db, which shows the reference, and /mnt/weir/out, whose files become objects of the results.
#
#   weir-node.sh [install]   once, as user data or by hand: packages, units; starts them
#   weir-node.sh disk        at each boot, before the mount: the disk, and /etc/weir/node.env for it
#   weir-node.sh volume      before each mount: makes the volume where there is none
#   weir-node.sh links       after each mount: the reference, the results
#
# All of it may run any number of times. User data runs at the first boot only, but an instance store is empty after
# every stop: so `install` leaves the rest to systemd. Settings, none of them secret, are in /etc/weir/node.conf, beside
# this file as an example; keys are those of the machine's role.
set -euo pipefail
shopt -s inherit_errexit

DISK=/srv/nvme
MOUNT=/mnt/weir
ARRAY=/dev/md/weir
LABEL=weir-tier
SELF=/usr/local/sbin/weir-node
UNITS=/etc/systemd/system

die() {
    echo "weir-node: $*" >&2
    exit 1
}

# What the settings may leave out.
NODE='' REGION='' ENDPOINT='' REFERENCE='' REFERENCE_OPTIONS='' RESULTS='' HYDRATE='' USERS=''
PACKAGE='' PACKAGE_SHA256=''
STORES='/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*'
[ -r /etc/weir/node.conf ] || die "there is no /etc/weir/node.conf: edit a copy of the one beside this script"
# shellcheck source=deploy/node/node.conf
. /etc/weir/node.conf
[ -n "${VOLUMES:-}" ] || die "/etc/weir/node.conf does not say VOLUMES"

# --- install

packages() { # PACKAGE OR FILE...
    if command -v dnf >/dev/null; then
        dnf --assumeyes --quiet install "$@"
    else
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install --assume-yes -qq --no-install-recommends "$@"
    fi
}

install_weir() {
    [ -n "$PACKAGE" ] || die "there is no weir here, and PACKAGE does not say where to get it"
    local directory file
    directory=$(mktemp -d)
    file=$directory/${PACKAGE##*/}
    curl --fail --silent --show-error --location --proto '=https,file' --retry 5 --output "$file" "$PACKAGE"
    sha256sum --quiet --check <<<"$PACKAGE_SHA256  $file" || die "$PACKAGE is not what PACKAGE_SHA256 says"
    packages "$file"
    rm -r "$directory"
}

write_units() {
    local user
    mkdir -p "$UNITS/weir@node.service.d"
    cat >"$UNITS/weir-disk.service" <<UNIT
[Unit]
Description=Disk of Weir's tier
Before=weir@node.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$SELF disk
UNIT
    cat >"$UNITS/weir@node.service.d/node.conf" <<UNIT
[Unit]
Requires=weir-disk.service
After=weir-disk.service
# At shutdown the tier's disk goes after the last flush.
RequiresMountsFor=$DISK
# Whoever takes jobs is started when the mount is, also if that took several tries.
Wants=$USERS

[Service]
ExecStartPre=$SELF volume
ExecStartPost=$SELF links
UNIT
    # No mount, no jobs: they would find an empty directory.
    for user in $USERS; do
        mkdir -p "$UNITS/$user.d"
        printf '[Unit]\nRequires=weir@node.service\nAfter=weir@node.service\n' >"$UNITS/$user.d/weir.conf"
    done
}

install_node() {
    command -v weir >/dev/null || install_weir
    command -v mkfs.xfs >/dev/null || packages xfsprogs
    command -v mdadm >/dev/null || packages mdadm
    [ "$(realpath "$0")" = "$SELF" ] || install -D -m 755 "$0" "$SELF"
    write_units
    systemctl daemon-reload
    systemctl enable weir@node.service
    systemctl start weir@node.service
}

# --- disk

# Instance stores, each once: udev gives a disk several names, and its partitions, too.
stores() {
    local name
    for name in $STORES; do
        [[ $name == *-part[0-9]* ]] || ! [ -b "$name" ] || realpath "$name"
    done | sort -u
}

holds() { blkid --probe --match-tag "$1" --output value "$2" || true; } # TAG DEVICE

# An instance store is blank when it comes. Whatever else is on it is somebody's.
must_be_blank() { # DEVICE...
    local device code
    for device in "$@"; do
        code=0
        blkid --probe "$device" >&2 || code=$?
        [ $code = 2 ] || die "$device is not blank, and not the tier's: nothing was changed"
    done
}

# The device with the tier's file system, made where it is not there yet.
tier_device() { # STORE...
    local device=$1
    if [ $# -gt 1 ]; then
        device=$ARRAY
        mdadm --detail "$device" >/dev/null 2>&1 || mdadm --assemble --quiet "$device" "$@" 2>/dev/null || {
            must_be_blank "$@"
            mdadm --create "$device" --run --quiet --level=0 --raid-devices=$# --homehost=any --name=weir "$@"
        }
    fi
    [ "$(holds LABEL "$device")" = $LABEL ] || {
        must_be_blank "$device"
        mkfs.xfs -q -L $LABEL "$device"
    }
    echo "$device"
}

disk() {
    local listed stores=() device size
    mkdir -p "$DISK"
    listed=$(stores)
    [ -z "$listed" ] || mapfile -t stores <<<"$listed"
    if mountpoint -q "$DISK"; then
        :
    elif ((${#stores[@]})); then
        device=$(tier_device "${stores[@]}")
        mount -o noatime,nodev,nosuid "$device" "$DISK"
    else
        echo "weir-node: no instance store here: the tier gets half of the root disk" >&2
    fi
    # At most: the tier leaves a part of its disk free, and takes no more than others leave.
    size=$(df --block-size=1 --output=size "$DISK" | tail -1)
    mountpoint -q "$DISK" || size=$((size / 2))
    mkdir -p "$DISK/weir" "$DISK/scratch"
    chmod 700 "$DISK/weir"
    chmod 1777 "$DISK/scratch"
    write_env $((size)) # df has blanks before it
}

# A volume has one writer, so each machine has its own. What an instance store forgot is in the bucket, or was younger
# than the last flush; without `--accept-loss tier` the mount would wait for it.
write_env() { # BYTES
    local name=$NODE
    [ -n "$name" ] || name=$(cat /var/lib/cloud/data/instance-id 2>/dev/null || echo "$HOSTNAME")
    [[ $name =~ ^[A-Za-z0-9._-]+$ ]] || die "'$name' cannot be a part of a URL: say NODE in /etc/weir/node.conf"
    {
        echo "URL=$VOLUMES/$name"
        echo "DIR=$MOUNT"
        echo "TIER=$DISK/weir"
        echo "OPTIONS=--tier-size $1 --accept-loss tier"
        [ -z "$REGION" ] || echo "AWS_REGION=$REGION"
        [ -z "$ENDPOINT" ] || echo "AWS_ENDPOINT_URL=$ENDPOINT"
    } >/etc/weir/node.env.new
    mv /etc/weir/node.env.new /etc/weir/node.env
}

# --- volume, links: called by weir@node.service, in its environment

volume() {
    # It says so where there is one. If anything else is wrong, the mount that follows fails, and says what.
    weir format "$URL" || true
}

link() { # URL DIRECTORY [OPTION...]
    # Links stay in their volume; so does one whose URL was changed here since, until `weir unlink`.
    weir links "$MOUNT" | grep " on $2\$" >/dev/null || weir link "$@"
}

links() {
    local part
    # shellcheck disable=SC2086 # words
    [ -z "$REFERENCE" ] || link "$REFERENCE" "$MOUNT/db" $REFERENCE_OPTIONS
    if [ -n "$RESULTS" ]; then
        # Nodes share it: names of what others put there are asked for when somebody looks.
        link "$RESULTS" "$MOUNT/out" --export new,changed --lazy-dirs --empty
        chmod 1777 "$MOUNT/out"
    fi
    # In the background: jobs need not wait, what one reads comes first.
    for part in $HYDRATE; do
        weir hydrate -r "$MOUNT/db/$part" || echo "weir-node: $MOUNT/db/$part comes when it is read" >&2
    done
}

case ${1:-install} in
    install) install_node ;;
    disk) disk ;;
    volume) volume ;;
    links) links ;;
    *) die "usage: $0 [install|disk|volume|links]" ;;
esac
