#!/usr/bin/env bash
# A BLAST database of several volumes that another tool put into a bucket: linked, and searched cold
# by four processes at once. Their answers are those of a local copy, and each byte comes once, also
# while all of it is being hydrated. Times are printed, and nothing is asserted on them.
source "$(dirname "$0")/../lib.sh"
begin
need makeblastdb blastn strace python3 jq
lake_start
DIR=$MNT/lake

python3 - "$T" "$(amount 16000000 200000000)" <<'PY'
import random, sys
where, total, rng = sys.argv[1], int(sys.argv[2]), random.Random(11)
with open(f"{where}/db.fa", "w") as db, open(f"{where}/query.fa", "w") as query:
    for i in range(total // 20000):
        sequence = "".join(rng.choices("ACGT", k=20000))
        print(f">s{i}\n{sequence}", file=db)
        if i % 16 == 0:
            at = rng.randrange(19000)
            print(f">q{i}\n{sequence[at:at + 400]}", file=query)
PY
mkdir "$T/local"
makeblastdb -in "$T/db.fa" -dbtype nucl -max_file_sz "$(amount 1MB 20MB)" -out "$T/local/db" >/dev/null ||
    fail "makeblastdb"
volumes=$(find "$T/local" -name 'db.*.nsq' | wc -l)
[ "$volumes" -ge 3 ] || fail "the database has $volumes volumes"
search() { blastn -db "$1" -query "$T/query.fa" -outfmt 6 >"$2" || fail "blastn on $1"; }
now() { date +%s%3N; }
# So many searches at once; prints how long they took in ms. Each must find the same.
searches() { # COUNT DATABASE
    local began n pids=()
    began=$(now)
    for ((n = 0; n < $1; n++)); do
        search "$2" "$T/found$n" &
        pids+=($!)
    done
    for n in "${pids[@]}"; do wait "$n" || fail "a search"; done
    for ((n = 0; n < $1; n++)); do cmp "$T/want" "$T/found$n" >&2 || fail "other hits in search $n"; done
    echo $(($(now) - began))
}

strace -f -e trace=openat -o "$T/trace" blastn -db "$T/local/db" -query "$T/query.fa" -outfmt 6 >"$T/want" ||
    fail "blastn locally"
[ "$(wc -l <"$T/want")" -ge 50 ] || fail "too few hits to compare"
needed=$(grep -v ENOENT "$T/trace" | grep -o "$T/local/[^\"]*" | sort -u | xargs stat -c %s | awk '{n += $1} END {print n}')
all=$(find "$T/local" -type f -printf '%s\n' | awk '{n += $1} END {print n}')
local_one=$(searches 1 "$T/local/db") local_four=$(searches 4 "$T/local/db")

lake upload "$T/local" blast/
fmt_mount
"$WEIR" link s3://lake/blast "$DIR" >/dev/null || fail "link"
release() {
    "$WEIR" release -r "$DIR" >/dev/null || fail "release"
    drop_caches
    same "$("$WEIR" state -r "$DIR" --json | jq -s 'map(.resident_bytes) | add')" 0 "bytes that stay"
    before=$(received link)
}
once() { # WHAT BYTES NEEDED
    echo "$1: $2 bytes fetched, $3 needed"
    [ $(($2 * 100)) -le $(($3 * 102)) ] || fail "$1: $2 bytes fetched for $3"
}

before=0
four=$(searches 4 "$DIR/db")
once "four searches, cold" $(($(received link) - before)) "$needed"
warm=$(searches 4 "$DIR/db")
release
one=$(searches 1 "$DIR/db")
once "one search, cold" $(($(received link) - before)) "$needed"
release
"$WEIR" hydrate -r "$DIR" >/dev/null || fail "hydrate"
beside=$(searches 4 "$DIR/db")
"$WEIR" hydrate -r "$DIR" --wait >/dev/null || fail "hydrate"
once "four searches beside a hydration" $(($(received link) - before)) "$all"
hydrated=$(searches 4 "$DIR/db")
release
released=$(searches 4 "$DIR/db")
once "four searches after a release" $(($(received link) - before)) "$needed"
echo "$volumes volumes, $all bytes; ms: local copy one $local_one, four $local_four; linked cold one $one," \
    "four $four, beside a hydration $beside, after a release $released; warm four $warm, hydrated four $hydrated"
fsck_clean
