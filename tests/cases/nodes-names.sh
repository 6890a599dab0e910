#!/usr/bin/env bash
# Names that a node makes in directories of its own, and that the database gets a little later, many at once: the
# others find each as soon as it is made, and none is lost or made twice, whatever becomes of the node.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3 psql

nodes_make_apart 2
A=$(node 0) B=$(node 1)
deferred() { of "$A" .leases.deferred; }
in_database() { [ "$(deferred)" = 0 ]; }
transactions() { sql weir "select xact_commit from pg_stat_database where datname = 'weir'"; }

echo "== a thousand names are a few transactions, and the other node finds each at once"
cat >"$T/make.py" <<'PY'
# Makes names on one node, and looks for some of them on another one as soon as they are made.
import errno, faulthandler, os, random, sys
faulthandler.dump_traceback_later(60, exit=True)
here, there, count, looks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
seed = random.randrange(1 << 32)
print("seed", seed, flush=True)
dice = random.Random(seed)
made = set(os.listdir(here))
for n in range(count):
    name = "n%d" % n
    path = os.path.join(here, name)
    kind = dice.randrange(8)
    if kind == 0:
        os.mkdir(path)
    elif kind == 1:
        os.symlink("to-%d" % n, path)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    if kind == 2:
        os.chmod(path, 0o600)
    if kind == 3:
        os.utime(path, ns=(n, n))
    if kind == 4:
        os.setxattr(path, "user.n", b"%d" % n)
    made.add(name)
    if dice.randrange(1000) >= looks:
        continue
    other = os.path.join(there, name)
    look = dice.randrange(5)
    if look == 0:
        seen = os.lstat(other)
        assert kind != 2 or seen.st_mode & 0o777 == 0o600, (name, "mode")
        assert kind != 3 or seen.st_mtime_ns == n, (name, "time")
    elif look == 1:
        assert set(os.listdir(there)) == made, "names as they are listed"
    elif look == 2:
        try:
            os.close(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            raise AssertionError((name, "was made twice"))
        except FileExistsError:
            pass
    elif look == 3:
        assert not os.path.lexists(other + "-not"), name
        theirs = "theirs%d" % n
        os.close(os.open(os.path.join(there, theirs), os.O_WRONLY | os.O_CREAT))
        made.add(theirs)
    else:
        try:
            os.rmdir(there)
            raise AssertionError("a directory with names was removed")
        except OSError as error:
            assert error.errno == errno.ENOTEMPTY, error
assert set(os.listdir(there)) == made
PY
mkdir "$A/own"
before=$(transactions)
python3 "$T/make.py" "$A/own" "$B/own" 1000 0 || fail "names that another node made"
made=$(($(transactions) - before))
# Each alone would be 1,375; a busy machine waits for fewer at once.
[ "$made" -lt 900 ] || fail "1,000 names are $made transactions"
mkdir "$A/both"
python3 "$T/make.py" "$A/both" "$B/both" 1000 30 || fail "names that another node made, while that looked"
poll 10 in_database || fail "names do not go to the database: $(of "$A" .leases)"

echo "== a directory that was there is taken once names are made in it, and needs nobody when none are"
for n in $(seq 300); do : >"$B/own/later$n"; done
sleep 8 # until what was asked back may be taken again
begins=$(of "$B" .leases.taken)
before=$(transactions)
for n in $(seq 400); do : >"$B/own/more$n"; done
made=$(($(transactions) - before))
[ "$made" -lt 600 ] || fail "400 names in a directory that was there are $made transactions, of leases $begins to $(of "$B" .leases)"
sleep 3
same "$(find "$A/own" -name 'more*' | wc -l)" 400 "names there"

echo "== what is synced is in the database, and so is what a snapshot has"
mkdir "$A/away"
cut_off 0 meta cut
: >"$A/away/cut" || fail "a name is not made without the database"
[ "$(deferred)" -gt 0 ] || fail "the name is in a database that is away: $(of "$A" .leases)"
timeout 3 sync "$A/away" && fail "a directory was synced without the database"
cut_off 0 meta pass
sync "$A/away" || fail "sync of a directory"
same "$(deferred)" 0 "names that are not in the database"
mkdir "$A/snapped" && : >"$A/snapped/one"
"$WEIR" snapshot create "$B" names >/dev/null || fail "weir snapshot create"
[ -e "$B/.snapshots/names/snapped/one" ] || fail "a snapshot has not what another node had made"

echo "== a daemon that was killed and comes back has all of them, and nothing that was removed"
mkdir "$A/killed"
for n in $(seq 50); do echo "$n" >"$A/killed/early$n"; done
poll 10 in_database || fail "names do not go to the database: $(of "$A" .leases)"
python3 - "$A/killed" <<'PY' || fail "names before the kill"
import os, sys
for n in range(200):
    os.mkdir("%s/d%d" % (sys.argv[1], n))
    with open("%s/d%d/file" % (sys.argv[1], n), "w") as file:
        file.write("in %d" % n)
    os.chmod("%s/d%d" % (sys.argv[1], n), 0o711)
PY
node_kill9 0
cat "$B/killed/d199/file" >"$T/killed" & # waits for it
reader=$!
remember $reader
sleep 1
node_remount 0
wait $reader || fail "what a killed node had made is not found: $(cat "$T/node0.log")"
rm -f "$T/$reader.pid"
same "$(cat "$T/killed")" "in 199" "what a killed node had made"
same "$(find "$B/killed" -name file | wc -l)" 200 "files there"
same "$(find "$B/killed" -perm 711 | wc -l)" 200 "directories with their mode"
rm -r "$B"/killed/early* "$B"/killed/d1?? || fail "rm"
node_kill9 0
node_remount 0
same "$(find "$A/killed" -mindepth 1 | wc -l)" 200 "what is left of it"

echo "== one that was shut out brings what nobody else made meanwhile, and has the rest set aside"
mkdir "$A/torn" && sync "$A/torn"
node_down 0
cut_off 0 meta cut
echo mine >"$A/torn/both"
echo alone >"$A/torn/alone"
echo theirs >"$B/torn/both" # once the other one is shut out
cut_off 0 meta pass
node_goes_on 0
same "$(cat "$A/torn/both")" theirs "what both made"
comes() { [ "$(cat "$B/torn/alone" 2>/dev/null)" = alone ]; }
poll 40 comes || fail "what only the one that was shut out made does not come: $(ls "$B/torn")"
grep -q "are not part of the volume" "$T/node0.log" || fail "nobody says that a file is lost"
"$WEIR" recover "$A" | grep -q . || fail "what was written to it is not set aside"

echo "== without write leases each name is in the database when it is made"
node_umount 0
echo '{"write_leases": false}' >"$T/config.json"
NODE_ARGS=(--config "$T/config.json")
node_mount 0
mkdir "$A/at-once"
for n in $(seq 20); do
    : >"$A/at-once/$n"
    same "$(deferred)" 0 "names that are not in the database"
done

echo "== and a mount that is alone has what a killed node had made"
node_umount 0
NODE_ARGS=()
node_mount 0
mkdir "$A/last"
for n in $(seq 30); do : >"$A/last/$n"; done
node_kill9 0
node_umount 1
MNT=$A
"$WEIR" mount "$URL" "$MNT" --tier "$T/tier0" "${CONNECT[@]}" || fail "mount alone"
same "$(find "$MNT/last" -type f | wc -l)" 30 "names there"
umount_volume
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
