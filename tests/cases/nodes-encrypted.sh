#!/usr/bin/env bash
# An encrypted volume that two nodes write: what its database and its bucket show, kills, snapshots, dumps, backups, keys that
# come and are replaced, moves between engines, and rows that somebody changed in the database.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3 pg_dump sha256sum

run() { "$WEIR" "$@" >"$T/out" 2>&1 || fail "$*: $(cat "$T/out")"; }
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && find . -printf '%p %y %m %U %G %s %l\n' | sort); }
sound() { run fsck --data "$URL"; }
# Neither the database nor the bucket has these words, in the rows as text or as bytes.
hidden() { # WORDS...
    local word
    as_postgres pg_dump -h "$T/pg" -p "$PG_PORT" -U postgres weir >"$T/dump" || fail "pg_dump"
    grep -q "COPY .*\.kv " "$T/dump" || fail "no rows in the dump"
    for word in "$@"; do
        grep -qF -- "$word" "$T/dump" && fail "'$word' shows in the database"
        grep -qF -- "$(printf %s "$word" | od -An -tx1 | tr -d ' \n')" "$T/dump" && fail "the bytes of '$word' show in the database"
        grep -rlaF -- "$word" "$BUCKET/vol" >"$T/found" && fail "'$word' shows in $(cat "$T/found")"
    done
    return 0
}

KEY=$T/vol.key ESCROW=$T/escrow
"$WEIR" key new "$KEY" >/dev/null || fail "key new"
printf 'correct horse battery staple\n' >"$ESCROW" && chmod 600 "$ESCROW"
export WEIR_KEY_FILE=$KEY
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
ENCRYPTED=1 nodes_make 2 --config "$T/settings.json"
A=$(node 0) B=$(node 1)
SCHEMA=weir_$(jq -r .id "$BUCKET/vol/volume.json")

echo "== written by both, and nothing shows"
mkdir "$A/secretdir" "$A/many"
seq -f 'a secret sentence, number %.0f' 200000 >"$A/secretdir/secretfile"
ln -s secrettarget "$A/secretdir/secretlink" && ln "$A/secretdir/secretfile" "$A/secrethard"
python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.secretattr", b"secretvalue")' "$A/secretdir/secretfile" || fail "setxattr"
MANY=$(amount 1000 3000)
python3 - "$A/many" "$MANY" <<'PY'
import os, sys
for n in range(int(sys.argv[2])):
    with open(os.path.join(sys.argv[1], f"secretname{n}"), "w") as f:
        f.write(f"secretbytes {n}\n")
PY
cmp "$A/secretdir/secretfile" "$B/secretdir/secretfile" || fail "what B reads"
attr=$(python3 -c 'import os, sys; print([(name, os.getxattr(sys.argv[1], name)) for name in os.listxattr(sys.argv[1])])' "$B/secretdir/secretfile")
same "$(readlink "$B/secretdir/secretlink") $attr" "secrettarget [('user.secretattr', b'secretvalue')]" "what B sees"
same "$(ls "$B/many" | wc -l) $(ls -f "$A/many" | sort -u | wc -l)" "$MANY $((MANY + 2))" "names"
for n in $(seq 0 20 $((MANY - 20))); do mv "$B/many/secretname$n" "$B/secretdir/moved$n"; done
same "$(ls "$A/many" | wc -l) $(cat "$A/secretdir/moved900")" "$((MANY - MANY / 20)) secretbytes 900" "after renames"
for node in "$A" "$B"; do run flush "$node"; done
same "$(of "$A" .encrypted)" true "what status says"
hidden secretdir secretname secretfile secretlink secrettarget secretattr secretvalue secretbytes 'a secret sentence' moved900 "$(cut -c12-40 "$KEY")"
sums "$A" >"$T/all"
sums "$B" | diff - "$T/all" || fail "A and B have others"

echo "== killed with names that the database does not have yet"
python3 - "$A" <<'PY'
import os, sys
os.mkdir(os.path.join(sys.argv[1], "own"))
for n in range(500):
    os.close(os.open(os.path.join(sys.argv[1], "own", f"f{n}"), os.O_CREAT | os.O_WRONLY))
PY
node_kill9 0
node_remount 0
same "$(ls "$A/own" | wc -l) $(ls "$B/own" | wc -l)" "500 500" "names after a kill"
rm -r "$B/own"

echo "== snapshots, dumps, what is different"
run snapshot create "$A" monday
run snapshot dump "$B" monday
echo more >"$B/secretdir/later" && rm "$A/secrethard"
same "$("$WEIR" snapshot diff "$A" monday | sort | tr '\n' ' ')" "+ /secretdir/later - /secrethard A /secretdir/secretfile " "what is different"
sums "$B/.snapshots/monday" | diff - "$T/all" || fail "monday"
hidden secretfile secretname later

echo "== keys"
run key add "$URL" escrow --new-key-file "$ESCROW"
same "$("$WEIR" key list "$URL" --json | jq -rc '[.wraps[].name] | join(" ")')" "first escrow" "keys"
refused "a rotation while nodes have it" "is mounted by node" "$WEIR" key rotate "$URL" --stays "$ESCROW"
"$WEIR" key new "$T/other.key" >/dev/null && mkdir "$T/none"
refused "a node with another key" "opens none of its keys" env WEIR_KEY_FILE="$T/other.key" "$WEIR" mount "$URL" "$T/none" --tier "$T/tier9" --shared
refused "a node without a key" "volume-locked" env -u WEIR_KEY_FILE "$WEIR" mount "$URL" "$T/none" --tier "$T/tier9" --shared
sums "$A" >"$T/all"
nodes_umount
refused "a rotation that cannot look for nodes" "127.0.0.1:1" "$WEIR" key rotate "$URL" --stays "$ESCROW" \
    --meta postgres://weir@127.0.0.1:1/weir
sed -i 'p; s/^[^:]*/localhost/' "$PGPASSFILE"
run key rotate "$URL" --stays "$ESCROW" --meta "postgres://weir@localhost:$PG_PORT/weir"
sound

echo "== a node that is mounted in the very moment of a rotation"
# Where it had read the keys before and is seen after, who rotates is told, ...
export WEIR_KEY_FILE=$ESCROW
stands() { [ "$(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = T ]; } # PID
rotate_until_checked() { # stands between looking for nodes and the new key
    WEIR_FAILPOINTS=engine::keys-checked=stop "$WEIR" key rotate "$URL" --stays "$KEY" "${CONNECT[@]}" >"$T/rotated" 2>&1 &
    rotation=$!
    poll 20 stands $rotation || fail "it does not come to that: $(cat "$T/rotated")"
}
rotate_until_checked
node_mount 0
kill -CONT $rotation
wait $rotation && fail "a rotation beside a mount is done, and nobody told"
grep -q "unmount that one and mount it again" "$T/rotated" || fail "a rotation beside a mount: $(cat "$T/rotated")"
node_umount 0
# ... and where the new key is there before it looked once more it is not mounted.
rotate_until_checked
WEIR_FAILPOINTS=engine::mount-joined=stop "$WEIR" mount "$URL" "$A" --tier "$T/tier0" --shared "${CONNECT[@]}" >"$T/mounted" 2>&1 &
mounting=$!
joined() { for daemon in $(daemons_below "$T/tier0"); do stands "$daemon" && return; done; return 1; }
poll 20 joined || fail "no node joins: $(cat "$T/mounted")"
kill -CONT $rotation
wait $rotation && fail "a rotation beside a node that joins is done"
kill -CONT "$daemon"
wait $mounting && fail "a node is mounted by a key that is not the newest"
grep -q "rotated while it was mounted here" "$T/mounted" || fail "it says $(cat "$T/mounted")"
same "$("$WEIR" nodes "$URL" --json "${CONNECT[@]}" | jq length)" 0 "nodes that were refused"
sound
for n in 0 1; do node_mount "$n"; done
sums "$B" | diff - "$T/all" || fail "after a rotation"
echo new >"$A/afterrotation" && mv "$A/many/secretname1" "$A/many/secretname9999"
same "$(cat "$B/afterrotation" "$B/many/secretname9999")" "new
secretbytes 1" "what is made after a rotation"
rm "$A/afterrotation" && mv "$B/many/secretname9999" "$B/many/secretname1"
sums "$B" | diff - "$T/all" || fail "as it was"
run snapshot create "$A" tuesday

echo "== backed up, cloned, moved to the bucket and back"
mkdir "$T/other"
run backup "$A" --to "file://$T/other/backup"
nodes_umount
run restore-volume "file://$T/other/backup" "file://$T/other/restored" --meta "$META"
run clone "$URL@tuesday" "file://$T/other/clone" --meta "$META"
hidden secretfile secretname secretattr
for url in "file://$T/other/restored" "file://$T/other/clone"; do
    run fsck --data "$url"
    mkdir -p "$T/read"
    run mount "$url" "$T/read" --tier "$T/read-tier" --read-only
    sums "$T/read" | diff - "$T/all" || fail "$url has others"
    MNT=$T/read umount_volume
    rm -rf "$T/read-tier"
done
refused "snapshots on the way" "snapshot" "$WEIR" migrate "$URL" --to slate
node_mount 0
run snapshot release "$A" tuesday
for name in monday tuesday; do run snapshot delete "$A" "$name"; done
# Rows of snapshots, of such that end, and of what they hold.
left() { sql weir "SELECT count(*) FROM \"$SCHEMA\".kv WHERE substr(key, 1, 1) IN ('s', 'x', 'h')"; }
poll 60 eval '[ "$(left)" = 0 ]' || fail "$(left) rows of snapshots are left"
node_umount 0
run migrate "$URL" --to slate
sound
run migrate "$URL" --to "$META"
hidden secretfile secretname
sound
node_mount 0
sums "$A" | diff - "$T/all" || fail "after the moves"

echo "== the database is lost"
run snapshot create "$A" friday
run snapshot dump "$A" friday
node_umount 0
SCHEMA=weir_$(jq -r .id "$BUCKET/vol/volume.json")
sql weir "DROP SCHEMA \"$SCHEMA\" CASCADE" || fail "drop"
run restore-volume "$URL" --metadata-from newest
sound
node_mount 0
sums "$A" | diff - "$T/all" || fail "after the loss"

echo "== rows that somebody changed are damage"
ino=$(stat -c %i "$A/secretdir/secretfile") other=$(stat -c %i "$A/secretdir/moved20")
node_umount 0
SCHEMA=weir_$(jq -r .id "$BUCKET/vol/volume.json")
row() { printf '\\x49%016x' "$1"; }
sql weir "UPDATE \"$SCHEMA\".kv SET value = (SELECT value FROM \"$SCHEMA\".kv WHERE key = '$(row "$other")') WHERE key = '$(row "$ino")'" || fail "update"
refused "a check of a row that is another one's" "was changed" "$WEIR" fsck "$URL"
mkdir -p "$T/read"
run mount "$URL" "$T/read" --tier "$T/read-tier" --read-only
stat "$T/read/secretdir/secretfile" >"$T/out" 2>&1 && fail "a row of another file is believed: $(cat "$T/out")"
same "$(cat "$T/read/secretdir/moved40")" "secretbytes 40" "another file"
MNT=$T/read umount_volume

echo "== and refuse no other file: what is not in the bucket of such a file is kept aside"
value=$(sql weir "SELECT value FROM \"$SCHEMA\".kv WHERE key = '$(row "$other")'")
node_mount 0
stat "$A/secretdir/secretfile" >"$T/out" 2>&1 && fail "a row of another file is believed: $(cat "$T/out")"
same "$(cat "$A/secretdir/moved40")" "secretbytes 40" "another file"
python3 -c 'import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY)
os.write(file, b"dirty!")
print("wrote", flush=True)
time.sleep(60)' "$A/secretdir/moved20" >"$T/wrote" 2>&1 & # nothing is closed, so nothing is flushed
writer=$!
remember "$writer"
poll 20 grep -q wrote "$T/wrote" || fail "write"
node_kill9 0
kill "$writer"
sql weir "UPDATE \"$SCHEMA\".kv SET value = '\\x00' WHERE key = '$(row "$other")'" || fail "update"
node_mount 0
cat "$A/secretdir/moved20" >"$T/out" 2>&1 && fail "a row that is none is believed"
same "$(cat "$A/secretdir/moved40")" "secretbytes 40" "another file, after a kill"
run recover "$A"
grep -q damaged "$T/out" || fail "what was not flushed is nowhere: $(cat "$T/out")"
sql weir "UPDATE \"$SCHEMA\".kv SET value = '$value' WHERE key = '$(row "$other")'" || fail "update"
same "$(cat "$A/secretdir/moved20")" "secretbytes 20" "a file whose row is mended"
run recover "$A" --merge
same "$(cat "$A/secretdir/moved20")" "dirty!bytes 20" "what was set aside goes back"
node_umount 0
