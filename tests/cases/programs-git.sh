#!/usr/bin/env bash
# git on the mount: clone, check, repack, and the same again cold.
source "$(dirname "$0")/../lib.sh"
begin
need git jq
export GIT_CONFIG_GLOBAL=$T/gitconfig GIT_CONFIG_SYSTEM=/dev/null
git config --global user.name weir && git config --global user.email weir@localhost
git config --global init.defaultBranch main && git config --global gc.autoDetach false

commits=$(amount 200 2000)
{
    for i in $(seq "$commits"); do
        printf 'commit refs/heads/main\ncommitter w <w@localhost> %d +0000\ndata 8\nnumber %d\n' \
            $((1700000000 + i)) $((i % 10))
        for j in 1 2 3; do
            text=$(seq "$i" $((i * j + 40)))
            printf 'M 644 inline d%d/f%d\ndata %d\n%s\n' $((i % 17)) $((i * 7 % 500 + j)) ${#text} "$text"
        done
    done
} >"$T/history"
git init -q --bare "$T/origin.git"
git -C "$T/origin.git" fast-import --quiet <"$T/history" || fail "cannot make the repository"
want=$(git -C "$T/origin.git" rev-parse main)

fmt_mount --flush-age 500ms
git clone -q --no-local "$T/origin.git" "$MNT/clone" || fail "git clone"
cd "$MNT/clone" || exit 1
same "$(git rev-parse HEAD)" "$want" "HEAD of the clone"
git fsck --strict --no-progress || fail "git fsck after clone"
for i in $(seq 20); do
    echo "line $i" >>d1/new && git add d1/new && git commit -qm "here $i" || fail "git commit $i"
done
git checkout -q -b side "main~$((commits / 2))" && git checkout -q main || fail "git checkout"
git gc -q --prune=now || fail "git gc"
git fsck --strict --no-progress || fail "git fsck after gc"
head=$(git rev-parse HEAD)

cd / && cold && cd "$MNT/clone" || exit 1
same "$(git rev-parse HEAD)" "$head" "HEAD after a cold remount"
git fsck --strict --no-progress || fail "git fsck after a cold remount"
same "$(git status --porcelain)" "" "git status"
cd /
fsck_clean
