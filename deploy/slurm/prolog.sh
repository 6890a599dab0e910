#!/bin/bash
# Prolog of slurmd: brings what the job names of the reference to this node, and makes a directory for its results.
#
#   sbatch --comment=weir:core_nt job.sh      /mnt/weir/db/core_nt, a file or a directory
#
# A prolog that fails drains its node, so this fails only where no job could run: without the mount.
set -uo pipefail
PATH=/usr/sbin:/usr/bin:/sbin:/bin # Slurm gives none
MOUNT=/mnt/weir
# Less than PrologEpilogTimeout. What has not come by then comes while the job runs, first what it reads.
WAIT_S=60

say() {
    echo "weir-prolog: job ${SLURM_JOB_ID:-?}: $*" >&2
    logger --tag weir-prolog "job ${SLURM_JOB_ID:-?}: $*" 2>/dev/null
}

weir status "$MOUNT" >/dev/null 2>&1 || { say "no volume is mounted at $MOUNT"; exit 1; }

# The comment is anybody's, and this runs as root.
name=${SLURM_JOB_COMMENT:-}
if [[ $name == weir:* ]]; then
    name=${name#weir:}
    if [[ $name =~ ^[A-Za-z0-9._/-]+$ && /$name/ != */../* ]]; then
        timeout "$WAIT_S" weir hydrate -r "$MOUNT/db/$name" --wait >/dev/null || say "$name is not all here yet"
    else
        say "the comment names nothing below $MOUNT/db"
    fi
fi

# A directory that is there is a requeued job's, or somebody's who guessed its number: it stays as it is.
if [ -d "$MOUNT/out" ] && mkdir -m 700 "$MOUNT/out/$SLURM_JOB_ID" 2>/dev/null; then
    chown --no-dereference "$SLURM_JOB_UID" "$MOUNT/out/$SLURM_JOB_ID"
fi
exit 0
