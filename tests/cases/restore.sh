#!/usr/bin/env bash
# `weir restore` over a real mount: a volume and parts of it made as a snapshot has them, whatever became of them;
# undone, broken off, and what it refuses.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq setfacl getfacl python3

attribute() { # FILE NAME [VALUE]: gives it an attribute, or takes it away
    python3 -c 'import os, sys
file, name, *value = sys.argv[1:]
os.setxattr(file, name, value[0].encode()) if value else os.removexattr(file, name)' "$@" || fail "attribute $*"
}

restore() { # ARGS...
    "$WEIR" restore "$@" >"$T/out" 2>"$T/err" || fail "restore $*: $(cat "$T/out" "$T/err")"
}
state() { # DIR: all that a restore brings back of it
    (
        cd "$1" || exit 1
        find . -path ./db -prune -o -printf '%p %y %m %U %G %T@ %l %n %s\n' | sed -E '/ d /s/ [0-9]+ [0-9]+$//' | sort
        find . -path ./db -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
        find . -path ./db -prune -o -print0 | sort -z | python3 -c 'import os, sys
for path in sys.stdin.buffer.read().split(b"\0")[:-1]:
    for name in os.listxattr(path, follow_symlinks=False):
        if name.startswith("user."):
            print(path, name, os.getxattr(path, name, follow_symlinks=False))'
        find . -path ./db -prune -o ! -type l -print0 | sort -z | xargs -0 getfacl 2>/dev/null | grep -v '^#'
    )
}
bytes_in_bucket() { find "$T/s3/bucket/vol/seg" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'; }
is_as() { # DIR STATE WHAT
    state "$1" | diff "$T/$2" - >"$T/diff" || fail "$3: $(head -20 "$T/diff")"
}

echo "== whatever became of it"
s3_start
mkdir -p "$T/s3/lake" && echo object >"$T/s3/lake/object"
fmt_mount --acl
mkdir -p "$MNT"/{a/deep/er,gone/with/all,moved,was-dir/x,private,db}
"$WEIR" link s3://lake "$MNT/db" "${CONNECT[@]}" --import all --export all >/dev/null || fail "link"
head -c 20000000 /dev/urandom >"$MNT/a/large"
head -c 3000000 /dev/urandom >"$MNT/a/changed"
for n in $(seq 200); do echo "file $n" >"$MNT/a/deep/$n"; done
truncate -s 40M "$MNT/a/sparse" && printf end >>"$MNT/a/sparse"
echo x >"$MNT/gone/with/all/file" && echo x >"$MNT/moved/file" && echo x >"$MNT/was-dir/x/file"
echo x >"$MNT/was-file" && ln -s was-file "$MNT/link" && mkfifo "$MNT/pipe" && mknod "$MNT/null" c 1 3
ln "$MNT/a/deep/1" "$MNT/second" && printf 'odd\n' >"$MNT/"$'with\nline' && printf 'odd' >"$MNT/"$'\xff\xfe'
attribute "$MNT/a/deep/2" user.kind a && setfacl -m u:1234:r "$MNT/a/deep/3" && setfacl -d -m g:77:rx "$MNT/a"
chmod 700 "$MNT/private" && chown 1234:1235 "$MNT/private" && chmod 4755 "$MNT/a/deep/4"
touch -d '2001-02-03 04:05:06.123456789' "$MNT/a/deep/5" "$MNT/a/deep"
state "$MNT" >"$T/monday"
"$WEIR" snapshot create "$MNT" monday >/dev/null || fail "snapshot"

python3 - "$MNT/a/changed" <<'PY'
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(file, b"other", 1_000_000)
PY
rm -r "$MNT/gone" "$MNT/was-dir" "$MNT/was-file" "$MNT/link" "$MNT/a/large" "$MNT/pipe"
mv "$MNT/moved" "$MNT/renamed" && echo new >"$MNT/renamed/new" && echo x >"$MNT/was-dir" && mkdir -p "$MNT/was-file/d" "$MNT/link"
echo y >"$MNT/was-file/d/y" && rm "$MNT/second" && echo apart >"$MNT/second" && echo longer >>"$MNT/a/deep/7"
attribute "$MNT/a/deep/2" user.kind && attribute "$MNT/a/deep/6" user.new b && setfacl -b "$MNT/a/deep/3"
setfacl -k "$MNT/a" && chmod 755 "$MNT/private" && chown 0:0 "$MNT/private" && chmod 600 "$MNT/a/deep/4" && touch "$MNT/a/deep/5"
mkdir -p "$MNT/new/tree" && head -c 2000000 /dev/urandom >"$MNT/new/tree/file" && echo theirs >"$MNT/db/ours"
state "$MNT" >"$T/later"
exec 7<"$MNT/a/deep/7"

restore "$MNT" --to monday --dry-run
grep -q "^would restore .*would remove" "$T/out" || fail "--dry-run: $(cat "$T/out")"
is_as "$MNT" later "a dry run changes something"
"$WEIR" flush "$MNT" && before=$(bytes_in_bucket)
restore "$MNT" --to monday
is_as "$MNT" monday "what was restored"
"$WEIR" flush "$MNT"
[ $(($(bytes_in_bucket) - before)) -lt 3000000 ] || fail "bytes were moved: $before, then $(bytes_in_bucket)"
same "$(cat <&7 | tail -1)" longer "an open file"
exec 7<&-
same "$(cat "$MNT/db/object" "$MNT/db/ours" | tr '\n' ' ')" "object theirs " "a linked bucket"
grep -q "$MNT/db is a linked bucket" "$T/out" || fail "does not say that a link stays: $(cat "$T/out")"
same "$(stat -c %i "$MNT/second")" "$(stat -c %i "$MNT/a/deep/1")" "a hard link"
undo=$(sed -n 's/^to undo it: weir //p' "$T/out")
same "$undo" "restore $MNT --to $(sed -n 's/.*as snapshot //p' "$T/err")" "how to undo it"
"$WEIR" restore "$MNT" --to monday --no-snapshot --json | jq -e '.copied == 0 and .deleted == 0 and .before == null' >/dev/null ||
    fail "a second run does something"

echo "== undone"
# shellcheck disable=SC2086 # words
restore ${undo#restore }
is_as "$MNT" later "what was undone"
remount
is_as "$MNT" later "after a remount"

echo "== parts"
restore "$MNT" --to monday gone/with was-file "$MNT/a/deep/7" --no-snapshot
same "$(cat "$MNT/gone/with/all/file" "$MNT/was-file" "$MNT/a/deep/7" | tr '\n' ' ')" "x x file 7 " "parts"
same "$(stat -c '%A' "$MNT/private" | cut -c1-4) $(cat "$MNT/was-dir")" "drwx x" "what was not named"
restore "$MNT/a" --to monday --keep-new --no-snapshot
(cd "$MNT/.snapshots/monday/a" && sha256sum large changed deep/[0-9]*) | (cd "$MNT/a" && sha256sum -c --quiet) || fail "a directory"
[ -e "$MNT/new/tree/file" ] || fail "what is beside it went"
echo since >"$MNT/a/since"
restore "$MNT/a" --to monday --keep-new --no-snapshot
grep -q "1 that came since stay" "$T/out" && [ -e "$MNT/a/since" ] || fail "--keep-new: $(cat "$T/out")"
(cd "$MNT" && restore . --to monday private --no-snapshot)
same "$(stat -c '%a %u' "$MNT/private")" "700 1234" "by a relative path"

mkdir "$MNT/mounted" && mount -t tmpfs tmpfs "$MNT/mounted" && echo theirs >"$MNT/mounted/theirs" && chmod 711 "$MNT/mounted"
restore "$MNT" --to monday --no-snapshot
same "$(cat "$MNT/mounted/theirs") $(stat -c %a "$MNT/mounted")" "theirs 711" "another file system below"
umount "$MNT/mounted"

echo "== broken off"
mkdir "$MNT/many"
python3 - "$MNT/many" "$(amount 1000 3000)" <<'PY'
import os, sys
for n in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{n}", "wb") as file:
        file.write(os.urandom(5_000))
PY
state "$MNT/many" >"$T/many"
"$WEIR" snapshot create "$MNT" many >/dev/null && rm -r "$MNT/many" && mkdir "$MNT/many"
some() { [ "$(find "$MNT/many" -type f ! -name '.weir-sync*' 2>/dev/null | wc -l)" -ge 50 ]; }
for signal in INT KILL; do
    rm -rf "$MNT/many"
    "$WEIR" restore "$MNT" --to many -j 1 --no-snapshot many >"$T/out" 2>&1 &
    pid=$!
    poll 30 some || fail "nothing comes back"
    kill -$signal $pid
    wait $pid 2>/dev/null
    same $? $([ $signal = INT ] && echo 130 || echo 137) "the exit code after SIG$signal"
    restore "$MNT" --to many --no-snapshot many --json
    jq -e '.same >= 40' "$T/out" >/dev/null || fail "it began anew: $(cat "$T/out")"
    is_as "$MNT/many" many "after SIG$signal"
done

echo "== refused"
refused "a snapshot that is none" "weir snapshot list" "$WEIR" restore "$MNT" --to sunday
refused "a name that is a path" "no name of a snapshot" "$WEIR" restore "$MNT" --to ../x
refused "what was not there" "was not there when" "$WEIR" restore "$MNT" --to monday new/tree
refused "a way out" "without" "$WEIR" restore "$MNT" --to monday ../x
refused "another place" "is not in" "$WEIR" restore "$MNT" --to monday /etc/passwd
refused "a snapshot itself" "cannot be changed" "$WEIR" restore "$MNT" --to monday .snapshots/monday
refused "no mount" "no Weir\|not mounted\|mounted" "$WEIR" restore "$T" --to monday
is_as "$MNT/many" many "what was refused"
mkdir -p "$T/reader" && "$WEIR" mount "$URL" "$T/reader" --tier "$T/reader-tier" --read-only --log-file "$T/reader.log" "${CONNECT[@]}" ||
    fail "a follower"
refused "a restore on a follower" "read-only" "$WEIR" restore "$T/reader" --to monday
"$WEIR" umount "$T/reader" || fail "umount"
fsck_clean
