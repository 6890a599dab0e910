#!/usr/bin/env bash
# scripts/keep-times.sh: in a second clone in the same place, files that are as they were have the times of the first
# one, and nothing else has.
source "$(dirname "$0")/../lib.sh"
begin
need git

SCRIPT=$(realpath "$TESTS/../scripts/keep-times.sh")
export CARGO_TARGET_DIR=$T/target
commit() { git -C "$T/origin" -c user.name=x -c user.email=x@example.com commit -qam "$1"; }
fresh() { # a clone of now, with its times kept
    rm -rf "$T/clone"
    git clone -q "$T/origin" "$T/clone" && "$T/clone/scripts/keep-times.sh" || fail "keep-times.sh"
}
at() { stat -c %.9Y "$T/clone/$1"; } # FILE

mkdir -p "$T/origin/scripts" && git -C "$T" init -q origin && cp "$SCRIPT" "$T/origin/scripts/"
cd "$T/origin" && echo one >"a file" && echo one >b && echo one >ü && ln -s b link && git add . && commit first || fail "a repository"
fresh
declare -A first=(["a file"]=$(at "a file") [b]=$(at b) [ü]=$(at ü))
echo two >b && git rm -q ü && echo new >new && git add new && commit second
fresh
same "$(at "a file")" "${first["a file"]}" "the time of what is as it was"
[[ $(at b) > ${first[b]} ]] || fail "what changed has the time of before"
then=$(at b)
fresh
same "$(at b)" "$then" "the time of what changed, once more"

echo "== what comes back is of now, and so is what is not as it was committed"
echo one >b && commit third
fresh
[[ $(at b) > $then ]] || fail "what is as it was before last has the time of then"
then=$(at b)
echo three >"$T/clone/b" && "$T/clone/scripts/keep-times.sh" || fail "keep-times.sh in a tree with changes"
[[ $(at b) > $then ]] || fail "what somebody changed has the time of before"
then=$(at b)
fresh
[[ $(at b) > $then ]] || fail "what was built with changes has the time of before"

echo "== elsewhere, and without a build, all is of now"
then=$(at "a file")
mv "$T/clone" "$T/elsewhere" && fresh && same "$(at "a file")" "$then" "the time in the same place"
rm -rf "$T/target" && fresh
[[ $(at "a file") > $then ]] || fail "the build is gone, and a time is of then"
exit 0
