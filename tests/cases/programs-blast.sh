#!/usr/bin/env bash
# NCBI BLAST+ on the mount: it maps its database into memory. Its answers are those of a local run,
# warm and cold.
source "$(dirname "$0")/../lib.sh"
begin
need makeblastdb blastn strace python3 jq

python3 - "$T" "$(amount 8000000 100000000)" <<'PY'
import random, sys
where, total, rng = sys.argv[1], int(sys.argv[2]), random.Random(11)
with open(f"{where}/db.fa", "w") as db, open(f"{where}/query.fa", "w") as query:
    for i in range(total // 20000):
        sequence = "".join(rng.choices("ACGT", k=20000))
        print(f">s{i}\n{sequence}", file=db)
        if i % 8 == 0:
            at = rng.randrange(19000)
            print(f">q{i}\n{sequence[at:at + 400]}", file=query)
PY
search() { # DATABASE: hits in a plain table
    blastn -db "$1" -query "$T/query.fa" -outfmt 6 -num_threads 2 || fail "blastn on $1"
}
mkdir "$T/local"
makeblastdb -in "$T/db.fa" -dbtype nucl -out "$T/local/db" >/dev/null || fail "makeblastdb locally"
search "$T/local/db" >"$T/want"
[ "$(wc -l <"$T/want")" -ge 50 ] || fail "too few hits to compare"

fmt_mount
makeblastdb -in "$T/db.fa" -dbtype nucl -out "$MNT/db" >/dev/null || fail "makeblastdb on the mount"
search "$MNT/db" >"$T/warm"
cmp "$T/want" "$T/warm" || fail "other hits, warm"

cold
strace -f -e trace=mmap,openat -o "$T/trace" blastn -db "$MNT/db" -query "$T/query.fa" -outfmt 6 \
    -num_threads 2 >"$T/cold" || fail "blastn cold"
cmp "$T/want" "$T/cold" || fail "other hits, cold"
# The descriptor that an open of the sequences returned is mapped shared afterwards.
python3 - "$T/trace" "$MNT/db.nsq" <<'PY' || fail "blastn does not map its database"
import re, sys
mapped, open_fds = False, set()
for line in open(sys.argv[1]):
    opened = re.search(r'openat\(.*"([^"]*)".* = (\d+)$', line)
    if opened:
        (open_fds.add if opened[1] == sys.argv[2] else open_fds.discard)(opened[2])
    map_call = re.search(r"mmap\(.*MAP_SHARED.*, (\d+), (?:0|0x[0-9a-f]+)\)", line)
    mapped |= bool(map_call and map_call[1] in open_fds)
sys.exit(not mapped)
PY
fetched=$(status .since_mount.bytes_fetched)
[ "$fetched" -gt 0 ] || fail "the cold run fetched nothing"
same "$(for f in "$T"/local/db.n*; do cmp "$f" "$MNT/${f##*/}" 2>&1 | grep -v -E 'db.n(in|jb|js|db|ot|to|tf) '; done)" "" \
    "database files"
fsck_clean
