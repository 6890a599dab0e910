#!/usr/bin/env bash
# Mounts a volume in ./weir-demo, builds a BLAST database on it, searches it warm and cold, holds
# the answers against those of a plain directory, and sums up what that took and what it costs.
#
# WEIR=path of the program. Needs /dev/fuse, blastn and makeblastdb; installs nothing. Leaves
# ./weir-demo behind, unmounted: remove it when you have looked around.
# needs: awk blastn fusermount3 make makeblastdb modprobe mount umount
set -euo pipefail

WEIR=${WEIR:-weir}
DEMO=$PWD/weir-demo
MNT=$DEMO/mnt
CONTIGS=200        # of 150,000 bases each: 30 MB of sequence; one query from each
THREADS=$(nproc)

say() { printf '%s\n' "$*"; }
fail() { say "demo: $*" >&2; exit 1; }
mounted() { grep -q " $MNT fuse.weir " /proc/self/mounts; }

unmount() {
    mounted || return 0
    "$WEIR" umount "$MNT" || "$WEIR" umount --lazy "$MNT" || fusermount3 -uz "$MNT"
}

check_tools() {
    command -v "$WEIR" >/dev/null || fail "no program $WEIR: build it with \`make build\`"
    for tool in makeblastdb blastn; do
        command -v $tool >/dev/null ||
            fail "$tool is missing: install BLAST, on Debian with \`apt-get install ncbi-blast+\`"
    done
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || fail "/dev/fuse is not usable: \`modprobe fuse\`, run \
as root, or start the container with --device /dev/fuse --cap-add SYS_ADMIN"
    # Without root or a login session there is no usual place for the daemon's socket.
    if [ "$(id -u)" != 0 ] && [ -z "${XDG_RUNTIME_DIR:-}${WEIR_RUN_DIR:-}" ]; then
        WEIR_RUN_DIR=$(mktemp -d)
        export WEIR_RUN_DIR
    fi
}

# generate GENOME QUERIES: random contigs, and a stretch of each with a few bases changed.
generate() {
    awk -v contigs="$CONTIGS" -v genome="$1" -v queries="$2" 'BEGIN {
        srand(7)
        for (n = 0; n < 4096; n++) {
            m = n
            for (i = 0; i < 6; i++) { w[n] = w[n] substr("ACGT", m % 4 + 1, 1); m = int(m / 4) }
        }
        for (c = 1; c <= contigs; c++) {
            printf ">contig%03d\n", c > genome
            printf ">query%03d\n", c > queries
            for (l = 0; l < 2500; l++) {
                line = ""
                for (i = 0; i < 10; i++) line = line w[int(rand() * 4096)]
                print line > genome
                if (l >= 1000 && l < 1008) print substr(line, 1, 29) "A" substr(line, 31) > queries
            }
        }
    }'
}

# timed NAME COMMAND...: runs it, and leaves its seconds in T_NAME.
timed() {
    local name=$1 start=$EPOCHREALTIME
    shift
    "$@"
    printf -v "T_$name" '%s' "$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')"
}

make_db() { makeblastdb -in "$1/genome.fa" -dbtype nucl -out "$1/db/genome" >/dev/null; }

search() {
    blastn -db "$1/db/genome" -query "$DEMO/local/queries.fa" -outfmt 6 \
        -num_threads "$THREADS" -out "$2"
}

write_all() {
    mkdir -p "$MNT/db"
    cp "$DEMO/local/genome.fa" "$MNT/genome.fa"
    make_db "$MNT"
    "$WEIR" flush "$MNT"
}

mount_with() { "$WEIR" mount "file://$DEMO/volume" "$MNT" --tier "$1" --tier-size 2GiB; }

# The part of `weir status` below the heading that starts with $1.
status_part() { "$WEIR" status "$MNT" | awk -v head="$1" '/^[^ ]/ { on = index($0, head) == 1 } on && /^ /'; }

check_tools
trap 'exit 130' INT
trap 'exit 143' TERM
trap unmount EXIT
unmount
rm -rf "$DEMO"
mkdir -p "$MNT" "$DEMO"/{volume,tier,tier-cold,local/db,out}

say "Generating 30 MB of sequence and $CONTIGS queries ..."
generate "$DEMO/local/genome.fa" "$DEMO/local/queries.fa"
make_db "$DEMO/local"
timed local search "$DEMO/local" "$DEMO/out/local.tsv"

say "Making a volume, mounting it, writing the sequence and a BLAST database to it ..."
"$WEIR" format "file://$DEMO/volume" >/dev/null
mount_with "$DEMO/tier"
timed write write_all
BYTES=$(du -sb --apparent-size "$MNT" | cut -f1)
FILES=$(find "$MNT" -type f | wc -l)
WRITING=$(status_part requests)

say "Searching, with the database on the local disk ..."
timed warm search "$MNT" "$DEMO/out/warm.tsv"

say "Unmounting; mounting again with an empty tier, so that all is in the bucket only ..."
"$WEIR" umount "$MNT"
mount_with "$DEMO/tier-cold"
BEFORE=$("$WEIR" residency "$MNT/db")
say "Searching again, from the bucket ..."
timed cold search "$MNT" "$DEMO/out/cold.tsv"
AFTER=$("$WEIR" residency "$MNT/db")
READING=$(status_part requests)
COST=$(status_part cost)
unmount

for run in warm cold; do
    cmp -s "$DEMO/out/local.tsv" "$DEMO/out/$run.tsv" ||
        fail "the $run search found something else than the local one: compare $DEMO/out/*.tsv"
done
HITS=$(wc -l <"$DEMO/out/local.tsv")
[ "$HITS" -ge "$CONTIGS" ] || fail "only $HITS hits for $CONTIGS queries: the search found too little"

RATE=$(awk -v b="$BYTES" -v t="$T_write" 'BEGIN { printf "%.1f", b / t / 1e6 }')
cat <<SUMMARY

=== Written
  $FILES files, $(numfmt --to=iec-i --suffix=B "$BYTES"), in $T_write s until all was in the bucket: $RATE MB/s
  (this time includes makeblastdb's own work)
  Requests while writing:
$WRITING

=== Searched: $CONTIGS queries, $HITS hits, the same three times
  plain local directory      $T_local s
  volume, warm               $T_warm s
  volume, cold from bucket   $T_cold s

=== Where the database was before the cold search
$BEFORE

=== and after it
$AFTER

=== Requests of the second mount, cold search and all
$READING

=== What it costs at S3 list prices
$COST

The bucket is $DEMO/volume here; with s3://... all is the same.
Look around:  $WEIR mount file://$DEMO/volume $MNT --tier $DEMO/tier
Clean up:     rm -rf $DEMO
SUMMARY
