#!/usr/bin/env bash
# POSIX access control lists: the same calls on a local file system and on the mount leave the same lists
# and modes, the kernel lets in whom they let in, and a volume that has any obeys them on every mount.
# Without them `ls -l` asks for none.
source "$(dirname "$0")/../lib.sh"
begin
need jq setfacl getfacl setpriv python3
LOCAL=$T/local
mkdir "$LOCAL"
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }

echo "== without --acl lists are refused, and a listing asks once"
fmt_mount
mkdir "$MNT/many" && touch "$MNT"/many/{1..200}
setfacl -m u:7:r "$MNT/many/1" 2>"$T/refused" && fail "a list is taken and not obeyed"
grep -q "not supported" "$T/refused" || fail "refused with: $(cat "$T/refused")"
drop_caches
before=$(status '.fuse_requests.getxattr // 0')
ls -l "$MNT/many" >/dev/null
asked=$(($(status '.fuse_requests.getxattr // 0') - before))
[ "$asked" -le 4 ] || fail "ls -l of 200 files asked $asked times for attributes"

echo "== the same calls leave the same lists"
remount --acl
READER=$T/reader
mkdir "$READER" "$T/reader-tier"
"$WEIR" mount "$URL" "$READER" --read-only --tier "$T/reader-tier" --log-file "$T/reader.log" || fail "a reader"
mkdir "$MNT/t" "$LOCAL/t"
seed
python3 - "$LOCAL/t" "$MNT/t" "$SEED" "$(amount 150 5000)" <<'PY' || fail "random calls"
import os, random, subprocess, sys
places, seed = sys.argv[1:3], sys.argv[3]
random.seed(seed)
names = ["a", "b", "c", "d/x", "d/y", "d/e/z"]

def entries():
    chosen = []
    for who in random.sample(["u:7", "u:8", "g:7", "g:9"], random.randint(0, 3)):
        chosen.append(f"{who}:{random.choice(['r', 'rw', 'rwx', '-', 'rx'])}")
    if random.random() < 0.3:
        chosen.append(f"m::{random.choice(['r', 'rwx', '-'])}")
    return chosen or ["u::rwx"]

def call():
    name = random.choice(names)
    kind = random.randrange(9)
    umask = random.choice([0o022, 0o077, 0o002, 0])
    if kind == 0:
        return f"mkdir -p {name}", umask
    if kind == 1:
        return f"touch {name}", umask
    if kind == 2:
        return f"chmod {random.choice(['640', '2755', '777', '600', 'g+w', 'o-r'])} {name}", umask
    if kind == 3:
        return f"setfacl -m {','.join(entries())} {name}", umask
    if kind == 4:
        return f"setfacl -d -m {','.join(entries())} {name}", umask
    if kind == 5:
        return f"setfacl -{random.choice(['b', 'k', 'x u:7', 'x g:9'])} {name}", umask
    if kind == 6:
        return f"test -d {name} || cp -dp {name} {random.choice(names)}", umask
    if kind == 7:
        return f"rm -rf {name}", umask
    return f"mkfifo {name}.p; ln -s to {name}", umask

def look(place):
    listed = subprocess.run("find . | sort | getfacl -n -P - ; find . -printf '%p %M\\n' | sort", shell=True,
                            cwd=place, capture_output=True, text=True)
    return listed.stdout

for step in range(int(sys.argv[4])):
    line, umask = call()
    ends = [subprocess.run(line, shell=True, cwd=place, umask=umask, capture_output=True, text=True)
            for place in places]
    told = [(end.returncode, end.stderr) for end in ends]
    assert told[0] == told[1], f"{step} {line} (umask {umask:o}): {told}"
    if step % 10 == 9:
        local, here = map(look, places)
        assert local == here, f"after {step} {line} (umask {umask:o}):\n{local}\n---- here:\n{here}"
PY

echo "== the kernel lets in whom they let in"
mkdir -m 700 "$MNT/shut"
echo text >"$MNT/shut/file" && chmod 600 "$MNT/shut/file"
as 7 cat "$MNT/shut/file" 2>/dev/null && fail "let in without a list"
setfacl -m u:7:x "$MNT/shut" && setfacl -m u:7:rw "$MNT/shut/file" || fail setfacl
same "$(as 7 cat "$MNT/shut/file")" text "what user 7 reads"
as 7 sh -c "echo more >> '$MNT/shut/file'" || fail "user 7 may not write"
as 8 cat "$MNT/shut/file" 2>/dev/null && fail "user 8 is let in"
chmod 600 "$MNT/shut/file"
as 7 cat "$MNT/shut/file" 2>/dev/null && fail "the mask is not obeyed"
chmod 660 "$MNT/shut/file"


echo "== set-group-id goes with the list of a file's access, and stays with that of what comes"
for place in "$LOCAL" "$MNT"; do
    install -d -o 7 -g 9 -m 2770 "$place/shared"
    as 7 setfacl -d -m u:8:rwx "$place/shared" || fail "setfacl -d in $place"
done
same "$(stat -c %a "$MNT/shared")" "$(stat -c %a "$LOCAL/shared")" "the mode with a default list"
same "$(stat -c %a "$MNT/shared")" 2770 "the mode with a default list"
for place in "$LOCAL" "$MNT"; do as 7 setfacl -m u:8:rwx "$place/shared" || fail "setfacl in $place"; done
same "$(stat -c %a "$MNT/shared")" "$(stat -c %a "$LOCAL/shared")" "the mode with a list by one of another group"

echo "== a reader that was mounted before the first list obeys it"
chown 0:9 "$MNT/shut/file" && chmod 755 "$MNT/shut"
poll 60 as 7 grep -qs more "$READER/shut/file" || fail "user 7 may not read at the reader"
same "$(stat -c %a "$READER/shut/file")" 660 "the mode at the reader"
as 9 cat "$READER/shut/file" 2>/dev/null && fail "the group may what the mask says"
"$WEIR" umount "$READER" || fail "umount of the reader"

echo "== they outlive kill -9, and are obeyed by mounts that were not told"
kill -9 "$(daemon_pid)"
umount -l "$MNT"
mount_volume
same "$(as 7 tail -1 "$MNT/shut/file")" more "what user 7 reads on the next mount"
as 8 cat "$MNT/shut/file" 2>/dev/null && fail "user 8 is let in by the next mount"
getfacl -cn "$MNT/shut/file" | grep -q "^user:7:rw-" || fail "the list is gone"
fsck_clean
