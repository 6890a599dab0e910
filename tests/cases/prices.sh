#!/usr/bin/env bash
# weir prices update: from lists on disk and from a server, what it takes, what it refuses, and that a
# book is replaced as a whole or not at all.
source "$(dirname "$0")/../lib.sh"
begin
need jq python3 curl sha256sum

OFFERS=$TESTS/../crates/cost/tests/offers
update() { "$WEIR" prices update "$@"; }
mkdir "$T/seoul" && cp "$OFFERS"/*-ap-northeast-2.csv "$T/seoul/"

echo "== from lists on disk"
update --region ap-northeast-2 --lists "$T/seoul" --dry-run >"$T/out" || fail "update --dry-run"
grep -q "nothing was written" "$T/out" || fail "a dry run: $(cat "$T/out")"
update --region ap-northeast-2 --lists "$T/seoul" --to "$T/book.json" --json >"$T/json" || fail update
jq -e '.schema_version == 1 and (.lists | length) == 3 and (.changes | length) > 5' "$T/json" >/dev/null ||
    fail "the report: $(cat "$T/json")"
"$WEIR" prices --prices "$T/book.json" --region ap-northeast-2 --json >"$T/rows" || fail "the book that was written"
jq -e '[.[] | select(.item == "efs.standard")][0].price | .source | test("AmazonEFS|efs-ap")' "$T/rows" >/dev/null ||
    fail "EFS's price has another source: $(grep -A9 efs.standard "$T/rows")"
update --region ap-northeast-2 --lists "$T/seoul" --to "$T/book.json" >"$T/out" || fail "update again"
grep -q " read, \([0-9]*\) of them as before" "$T/out" || fail "a second run: $(cat "$T/out")"
"$WEIR" prices --prices "$T/book.json" --region us-east-1 --json | jq -e length >/dev/null ||
    fail "the other regions are gone"

echo "== what is odd is shown and not taken"
mkdir "$T/odd" && sed 's/"0.3300000000"/"33.0000000000"/' "$OFFERS/efs-ap-northeast-2.csv" >"$T/odd/efs.csv"
cmp -s "$T/odd/efs.csv" "$OFFERS/efs-ap-northeast-2.csv" && fail "the list is not odd"
update --region ap-northeast-2 --lists "$T/odd" --to "$T/book.json" >"$T/out" || fail "an odd list"
grep -q "SUSPICIOUS: not taken" "$T/out" || fail "it is not shown: $(cat "$T/out")"
price() { "$WEIR" prices --prices "$T/book.json" --region ap-northeast-2 --json | jq '.[] | select(.item == "efs.standard").price.usd'; }
same "$(price)" 0.33 "EFS's price"
update --region ap-northeast-2 --lists "$T/odd" --to "$T/book.json" --suspicious >/dev/null || fail "--suspicious"
same "$(price)" 33 "EFS's price once it is meant"

echo "== a broken list changes nothing"
sum=$(sha256sum <"$T/book.json")
refuses() { # TEXT ARGS...
    update "${@:2}" >"$T/out" 2>"$T/err" && fail "update ${*:2}: it is not refused"
    grep -q -- "$1" "$T/err" || fail "update ${*:2}: $(cat "$T/err")"
    same "$(sha256sum <"$T/book.json")" "$sum" "the book after $1"
}
mkdir "$T/broken" && cp "$OFFERS"/efs-ap-northeast-2.csv "$T/broken/" && echo "<html>" >"$T/broken/z.csv"
refuses "z.csv" --region ap-northeast-2 --lists "$T/broken" --to "$T/book.json"
refuses "us-east-2" --region us-east-2 --lists "$T/seoul" --to "$T/book.json"
refuses "no list" --region us-east-2 --lists "$T/run" --to "$T/book.json"

echo "== from a server"
lists=$T/www/offers/v1.0/aws
for offer in AmazonS3:s3-us-east-1 AWSDataTransfer:transfer-us-east-1 AmazonEFS:efs-ap-northeast-2 \
    AmazonFSx:fsx-ap-northeast-2 AmazonEC2:ec2-ap-northeast-2; do
    mkdir -p "$lists/${offer%%:*}/current/us-east-1"
    # Seoul's lists stand for those of this region: what is tried is the way here.
    sed 's/ap-northeast-2/us-east-1/g' "$OFFERS/${offer#*:}.csv" >"$lists/${offer%%:*}/current/us-east-1/index.csv"
done
port=$(free_port)
python3 -m http.server "$port" --bind 127.0.0.1 --directory "$T/www" >"$T/www.log" 2>&1 &
remember $!
poll 10 curl -sf -o /dev/null "http://127.0.0.1:$port/" || fail "no server"
update --region us-east-1 --mirror "http://127.0.0.1:$port" --to "$T/fresh.json" --json >"$T/json" || fail "from a server"
jq -e '(.lists | length) == 5' "$T/json" >/dev/null || fail "lists of the server: $(jq -c .lists "$T/json")"
"$WEIR" prices --prices "$T/fresh.json" >/dev/null || fail "the book of the server"
rm -r "$lists/AmazonFSx"
refuses "AmazonFSx.*404" --region us-east-1 --mirror "http://127.0.0.1:$port" --to "$T/book.json"
refuses "127.0.0.1:1/" --region us-east-1 --mirror "http://127.0.0.1:1" --to "$T/book.json"
echo ok
