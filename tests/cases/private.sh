#!/usr/bin/env bash
# What is in the tier, the journal, the bucket's directory and the log is everybody's: no other user of
# the machine can read any of it, whatever the umask, and what was readable once is corrected. Readers of
# the mount are served as ever, also those whom the kernel serves from the tier.
source "$(dirname "$0")/../lib.sh"
begin
need jq setpriv curl unshare fusermount3
JOURNAL=$T/journal
SECRET=secret-$RANDOM$RANDOM
PLACES=("$TIER" "$JOURNAL" "$BUCKET" "$LOG" "$WEIR_RUN_DIR")
umask 0

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# Nothing for others, neither by mode nor by trying.
closed() { # WHEN
    local wide
    wide=$(find "$TIER"/*/ "$JOURNAL"/*/ "$BUCKET"/vol/* "$LOG" "$WEIR_RUN_DIR"/*.sock \
        -not -type l -perm /077)
    [ -z "$wide" ] || fail "others may reach $1: $(head -5 <<<"$wide")"
    same "$(as_nobody find "${PLACES[@]}" -type f -readable 2>/dev/null)" "" "what nobody can read $1"
    as_nobody grep -rqs "$SECRET" "${PLACES[@]}" && fail "nobody finds the secret $1"
    grep -rqs "$SECRET" "$TIER" || fail "the secret is not in the tier $1, so nothing was shown"
    return 0
}
corrected() { grep -c 'could read this: corrected' "$LOG"; }

"$WEIR" format "$URL" || fail format
mkdir -m 755 "$JOURNAL"
MOUNT_ARGS=(--journal "$JOURNAL")
mount_volume
echo "$SECRET" >"$MNT/mine"
chmod 600 "$MNT/mine"
head -c 3M /dev/urandom >"$MNT/everybodys"
chmod 644 "$MNT/everybodys"
chmod 755 "$MNT"
sync "$MNT/mine" "$MNT/everybodys"
closed "of a new mount"
"$WEIR" flush "$MNT" >/dev/null || fail flush
[ -n "$(ls "$BUCKET/vol/seg")" ] || fail "no segment is in the bucket"
closed "after a flush"

echo "== users ask of root's daemon what is theirs to ask"
install -m 755 "$WEIR" "$T/weir"
head -c 2M /dev/urandom >"$MNT/theirs" && chown nobody "$MNT/theirs" && chmod 600 "$MNT/theirs"
"$WEIR" flush "$MNT" >/dev/null || fail flush
asks() { as_nobody "$T/weir" "$@" >"$T/asked" 2>&1; }
may() { asks "$@" || fail "nobody may not $*: $(cat "$T/asked")"; }
may_not() { # TEXT ARGS...
    asks "${@:2}" && fail "nobody may ${*:2}"
    grep -q "$1" "$T/asked" || fail "${*:2} says: $(cat "$T/asked")"
}
may status "$MNT"
# Of all mounts: one of another case may be dead at this moment, so that it ends non-zero.
asks status || grep -q "^file://.* on $MNT" "$T/asked" || fail "nobody may not status of all: $(cat "$T/asked")"
may df "$MNT" && may bill "$MNT" && may throughput "$MNT" && may actions "$MNT"
grep -q "$MNT" "$T/asked" && fail "nobody sees the actions of others: $(cat "$T/asked")"
may release "$MNT/theirs" && may hydrate "$MNT/theirs" --wait && may pin "$MNT/theirs" && may unpin "$MNT/theirs"
may state "$MNT/theirs" "$MNT/everybodys" && may residency "$MNT/everybodys"
may actions "$MNT" --all
grep -q theirs "$T/asked" || fail "nobody does not see their own actions: $(cat "$T/asked")"
for command in hydrate release pin; do may_not "not all yours" $command "$MNT/everybodys"; done
may_not "not all yours" state "$MNT/mine"
may_not "not all yours" release -r "$MNT"
may_not "only root" flush "$MNT"
may_not "only root" throughput "$MNT" --mode bursting
may_not "only root" umount "$MNT"
mountpoint -q "$MNT" || fail "nobody unmounted it"
as_nobody ls "$WEIR_RUN_DIR" 2>/dev/null && fail "nobody sees the sockets"
socket=$(ls "$WEIR_RUN_DIR"/*.sock)
as_nobody curl -sf --unix-socket "$socket" http://weir/v1/status >/dev/null && fail "nobody opens root's socket"
same "$(corrected)" 0 "corrections of a new volume"

echo "== a mount of a user's own"
OWN=$T/own
mkdir -m 700 "$OWN" "$OWN/mnt" "$OWN/run" && chown -R nobody "$OWN"
own() { as_nobody env HOME="$OWN" WEIR_RUN_DIR="$OWN/run" "$T/weir" "$@" >"$T/owned" 2>&1; }
own format "file://$OWN/vol" || fail "a user's format: $(cat "$T/owned")"
export -f own as_nobody
export OWN T
mount_own=(own mount "file://$OWN/vol" "$OWN/mnt" --tier "$OWN/tier" --log-file "$OWN/log")
unshare -m bash -c '[ ! -e /etc/fuse.conf ] || mount --bind /dev/null /etc/fuse.conf; "$@" --allow-other' - \
    "${mount_own[@]}" && fail "a user lets others in without root's leave"
grep -q "put the line .user_allow_other." "$T/owned" || fail "what is in the way: $(cat "$T/owned")"
"${mount_own[@]}" || fail "a user's mount: $(cat "$T/owned")"
as_nobody cp "$T/weir" "$OWN/mnt/copy" || fail "a user writes into their mount"
as_nobody cmp "$T/weir" "$OWN/mnt/copy" || fail "a user reads from their mount"
ls "$OWN/mnt" 2>/dev/null && fail "root looks into a user's mount"
own umount "$OWN/mnt" || fail "a user's umount: $(cat "$T/owned")"
rm "$T/weir"

echo "== readers by the mount"
as_nobody cat "$MNT/mine" 2>/dev/null && fail "nobody reads another's file"
opens() { status .passthrough.opens; }
same "$(status .passthrough.active)" true passthrough
before=$(opens)
same "$(as_nobody sha256sum <"$MNT/everybodys")" "$(sha256sum <"$MNT/everybodys")" "by the daemon or not"
as_nobody /usr/bin/python3 - "$MNT/everybodys" "$WEIR" "$MNT" <<'PY' || fail "a mapping by another user"
import mmap, os, sys
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
    read = file.read()
    assert len(read) == 3 << 20 and mapped[:] == read
PY
[ "$(opens)" -gt "$before" ] || fail "the kernel did not serve nobody from the tier"

echo "== a crash, and what was made wide before"
kill9
chmod -R a+rX "$TIER"/* "$JOURNAL"/* "$BUCKET"/vol/* "$LOG"
as_nobody grep -rqs "$SECRET" "$TIER" || fail "the test is wrong: nobody cannot look into an open tier"
mount_volume
same "$(cat "$MNT/mine")" "$SECRET" "the file after the crash"
closed "after the correction"
corrections=$(corrected)
[ "$corrections" -ge 4 ] || fail "only $corrections corrections are in the log"
remount
same "$(corrected)" "$corrections" "corrections of what is right"
closed "after another mount"
umount_volume

echo "== a tier in which somebody else made the volume's directory"
id=$(jq -r .id "$BUCKET/vol/volume.json")
mkdir -p -m 1777 "$T/shared"
as_nobody mkdir "$T/shared/$id" || fail mkdir
"$WEIR" mount "$URL" "$MNT" --tier "$T/shared" 2>"$T/refused" && fail "a directory of another user is a tier"
grep -q 'belongs to user 65534' "$T/refused" || fail "it does not say why: $(cat "$T/refused")"
