#!/usr/bin/env bash
# The commands of README.md and of the documents, run as they are written, each document in a place of
# its own: what they name (/mnt, /var/lib/weir, buckets, data sets) is made here, and nothing else.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need curl jq openssl python3 unshare mount qemu-img rsync
s3_start
export AWS_ENDPOINT_URL=${CONNECT[1]}
ROOT=$(cd "$TESTS/.." && pwd)

# Copies: program and documents may lie below what is hidden while a document is followed.
mkdir -p "$T/bin" "$T/home/data" && cp "$WEIR" "$T/bin/weir" && ln -s weir "$T/bin/lfs"
head -c 300000 /dev/urandom >"$T/home/data/reads.fa"
for bucket in my-bucket my-bucket-1 my-bucket-2 my-bucket-3; do mkdir "$T/s3/$bucket"; done
mkdir -p "$T/s3/open-data/blast/db" "$T/s3/open-data/all/2024" "$T/s3/data/in/b" "$T/s3/data/out"
for object in open-data/blast/db/nt.00.nsq open-data/all/2024/x data/in/a.csv data/in/b/c.csv; do
    head -c 100000 /dev/urandom >"$T/s3/$object"
done

declare -A FOLLOWED
# Runs a document in a mount namespace where its paths are directories of ours.
follow() { # DOCUMENT [COMMANDS BEFORE IT [WORD OF BLOCKS]]
    local place=$T/place
    FOLLOWED[$1]=1
    mkdir -p "$place"/{mnt,lib,cache,srv,cwd} && cp -r "$ROOT/docs" "$place/cwd/docs"
    cat >"$T/script" <<'BASH'
ended() {
    local code=$?
    [ $code = 0 ] || echo "$WHERE: \`$BASH_COMMAND\` ends with $code" >&2
    for mounted in $(weir status --json | jq -r '.[].mountpoint // empty'); do
        weir umount "$mounted" || code=1
    done
    exit $code
}
BASH
    {
        echo 'set -eu -o pipefail'
        echo 'trap ended EXIT'
        echo "WHERE=fixtures"
        for bind in mnt:/mnt lib:/var/lib cache:/var/cache srv:/srv; do
            echo "mount --bind '$place/${bind%%:*}' '${bind#*:}'"
        done
        echo "${2:-}"
        # shellcheck disable=SC2086 # none or one
        python3 "$TESTS/tools/blocks.py" "$ROOT/$1" ${3:-} || fail "$1"
    } >>"$T/script"
    (cd "$place/cwd" && PATH=$T/bin:$PATH HOME=$T/home timeout 120 unshare -m bash -c "$DROP_COPIES"'; exec bash "$0"' "$T/script") \
        >"$T/out" 2>"$T/err" || fail "$1: $(tail -5 "$T/err")"
    poll 30 none_serves || fail "$1: a daemon is left: $("$WEIR" status)"
    [ -z "${3:-}" ] || grep -q '^weir' "$T/script" || fail "$1 has no block '$3'"
    rm -rf "$place" "$T/s3/my-bucket"*/*
    grep -q "^weir: warning: [^t]" "$T/err" && fail "$1 warns: $(grep warning "$T/err")"
    echo "ok: $1${3:+, $3}: $(grep -c '^weir' "$T/script") commands"
}
none_serves() { [ "$("$WEIR" status --json | jq length)" = 0 ]; }

GENOMES='
    weir format s3://my-bucket/genomes && mkdir /mnt/genomes
    weir mount s3://my-bucket/genomes /mnt/genomes --tier /srv/nvme/weir
    mkdir /mnt/genomes/scratch'
OPERATED='
    weir format s3://my-bucket/genomes && mkdir -p /mnt/genomes /mnt/reader /srv/backup
    weir mount s3://my-bucket/genomes /mnt/genomes --tier /srv/nvme/weir
    cp -r ~/data /mnt/genomes && weir flush /mnt/genomes'
CRASH="kill -KILL \$(weir status --json | jq '.[0].pid'); sleep 1"
EFS='mkdir /srv/efs && cp -r ~/data /srv/efs/'
VOLUME='
    weir format s3://my-bucket/vol
    weir mount s3://my-bucket/vol /mnt --tier /srv/nvme/weir'

echo "== what is in Korean has the commands of what is in English"
commands() { # FILE: of its blocks, without what is behind them
    awk '/^```$/ && inside { inside = 0; next } /^```/ { inside = 1; print; next } inside' "$ROOT/$1" |
        sed 's/ *#.*//'
}
level() { diff <(commands "$1") <(commands "$2") || fail "$2 is not level with $1"; }
level README.md README.ko.md
for document in $(cd "$ROOT/docs/ko" && ls ./*.md); do level "docs/$document" "docs/ko/$document"; done

echo "== who looks in for the first time is not lost"
[ "$(wc -l <"$ROOT/README.md")" -le 120 ] || fail "README.md has more than 120 lines"

echo "== documents lead to what is there"
(cd "$ROOT" && "$TESTS/tools/links.py" ./*.md docs/*.md docs/ko/*.md) || fail "links"
printf '# A `b`, c\n[x](#a-b-c) [y](p.md#a-b-c)\n' >"$T/p.md"
"$TESTS/tools/links.py" "$T/p.md" || fail "a link to a heading"
printf '[x](#a-b) [y](q.md) [z](p.md#d)\n' >>"$T/p.md"
"$TESTS/tools/links.py" "$T/p.md" 2>"$T/err" && fail "links to nothing are passed over"
same "$(wc -l <"$T/err")" 3 "links to nothing"

echo "== each page is in the book"
# The other way round is held by the look at the links, to which those of SUMMARY.md belong.
for document in $(cd "$ROOT/docs" && ls ./*.md ko/*.md) ../README.md ../SEMANTICS.md ../ARCHITECTURE.md; do
    [ "$document" = ./SUMMARY.md ] || grep -qF "](${document#./})" "$ROOT/docs/SUMMARY.md" ||
        fail "docs/SUMMARY.md has no $document: without it the page is not in the book"
done

follow README.md
follow docs/from-efs.md "$EFS"
follow docs/from-fsx.md
follow docs/from-s3fs.md
follow docs/blast.md
follow docs/operations.md "$OPERATED"
follow docs/operations.md "$OPERATED; $CRASH" after-a-crash
follow docs/operations.md "$OPERATED; $CRASH; weir umount /mnt/genomes; rm -rf /srv/nvme/weir" tier-is-lost
follow docs/operations.md "$OPERATED
    weir umount /mnt/genomes
    weir mount s3://my-bucket/genomes /mnt/genomes --tier /srv/nvme/weir --journal /srv/ebs/weir
    echo kept >/mnt/genomes/x && sync /mnt/genomes/x; $CRASH
    weir umount /mnt/genomes; rm -rf /srv/ebs/weir" journal-is-lost
follow docs/monitoring.md
follow docs/sync.md
follow docs/linked-buckets.md "$VOLUME"
follow docs/disks.md
follow docs/snapshots.md
follow docs/backup.md
follow docs/encryption.md
follow docs/nfs.md
follow docs/advise.md "$GENOMES"
follow docs/bench.md
follow docs/throughput.md "$GENOMES"
follow docs/quotas.md "$GENOMES"
follow docs/zfs.md
follow docs/credentials.md
follow docs/install.md
follow docs/cloud.md
follow CONTRIBUTING.md
# The server is another machine to it: by its name, with TLS.
# shellcheck disable=SC2034 # for what is sourced
PG_ADDRESS=127.0.0.2 PG_PORT=5432 PG_NAME=db.internal
source "$TESTS/lib-postgres.sh"
pg_make
export SSL_CERT_FILE=$T/pg/authority.pem
DATABASE='mkdir /mnt/genomes
    cp /etc/hosts /srv/hosts && echo "127.0.0.2 db.internal" >>/srv/hosts && mount --bind /srv/hosts /etc/hosts'
follow docs/postgres.md "$DATABASE"
follow docs/nodes.md "$DATABASE"
unset SSL_CERT_FILE
pg_stop
follow docs/web.md 'weir format s3://my-bucket/genomes && mkdir /mnt/genomes'

echo "== no page has commands that nobody runs"
# Those in Korean are level with these.
for document in $(cd "$ROOT" && ls ./*.md docs/*.md); do
    [[ $document == *.ko.md ]] || [ -n "${FOLLOWED[${document#./}]:-}" ] || ! grep -q '^```sh$' "$ROOT/$document" ||
        fail "$document has commands that are not followed here"
done
