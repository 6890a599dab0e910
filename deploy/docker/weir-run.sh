#!/bin/bash
# Mounts a volume at /mnt/weir, runs a program, and unmounts when that ended: all that it wrote is in the bucket then.
# It ends as the program does, or with 1 if not all is in the bucket.
#
# WEIR_URL      the volume
# WEIR_OPTIONS  of `weir mount`, such as --read-only, --tier-size 400GiB
# The tier is /tier, which should be a disk of the machine: what a container that was killed left is nowhere else.
set -uo pipefail

die() {
    echo "weir-run: $*" >&2
    exit 1
}

: "${WEIR_URL:?weir-run: the volume, such as s3://my-bucket/vol}"
[ $# -gt 0 ] || die "which program?"
[ -c /dev/fuse ] || die "there is no /dev/fuse: docker run --device /dev/fuse"
mkdir -p /mnt/weir /tier
# The container's and the disk's faults, each with what to do. The bucket's are told by the mount.
weir doctor --tier /tier >&2 || die "nothing can be mounted here as it is"
# shellcheck disable=SC2086 # words
weir mount "$WEIR_URL" /mnt/weir --tier /tier ${WEIR_OPTIONS:-} || exit 1

# Who stops the container stops the program, not this, which has to flush.
# shellcheck disable=SC2317 # a trap's
stopped() { kill -TERM "$program" 2>/dev/null; }
trap stopped TERM INT
"$@" &
program=$!
wait "$program"
status=$?
# A signal ends `wait` as well, and the program goes on.
while kill -0 "$program" 2>/dev/null; do
    wait "$program"
    status=$?
done
trap '' TERM INT
weir umount /mnt/weir --force || die "not all is in the bucket: it is in the tier, and the next mount with it goes on"
exit "$status"
