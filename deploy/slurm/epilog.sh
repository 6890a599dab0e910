#!/bin/bash
# Epilog of slurmd: what the job wrote is in the bucket before the node is free again. It runs however the job ended,
# when its processes are gone: a file that a killed program had open is closed then, and goes as far as it was written.
#
# An epilog that fails drains its node, so this fails only where no other job could run: without the mount. A bucket
# that is away is no reason: what could not leave is in the tier, and leaves by itself.
set -uo pipefail
PATH=/usr/sbin:/usr/bin:/sbin:/bin # Slurm gives none
MOUNT=/mnt/weir
# Twice this is less than PrologEpilogTimeout.
WAIT_S=250

say() {
    echo "weir-epilog: job ${SLURM_JOB_ID:-?}: $*" >&2
    logger --tag weir-epilog "job ${SLURM_JOB_ID:-?}: $*" 2>/dev/null
}

weir status "$MOUNT" >/dev/null 2>&1 || { say "no volume is mounted at $MOUNT"; exit 1; }

out=$MOUNT/out/$SLURM_JOB_ID
if [ -d "$out" ] && ! rmdir "$out" 2>/dev/null; then
    timeout "$WAIT_S" weir archive -r "$out" --wait >/dev/null || say "not all results are objects yet"
fi
timeout "$WAIT_S" weir flush "$MOUNT" >/dev/null || say "not all is in the bucket yet"
exit 0
