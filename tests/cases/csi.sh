#!/usr/bin/env bash
# The Kubernetes driver, `weir-csi`: what csi-sanity wants of a driver, and what that does not ask for:
# the driver killed and started again, a writer elsewhere, keys, volumes of one pod, daemons that die.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need csi-sanity curl jq python3 mount umount unshare nsenter systemd-run /lib/systemd/systemd
# Made with the program by `make tested-binary`.
CSI=${WEIR_CSI:-$(dirname "$WEIR")/weir-csi}
[ -x "$CSI" ] || fail "no binary at $CSI: make e2e builds it"

call() { "$TESTS/tools/csi.py" "$T/csi.sock" "$@"; }
does() { call "$@" || fail "$*"; }
refuses() { # WORDS METHOD...
    local said
    said=$(call "${@:2}" 2>&1) && fail "it does: ${*:2}"
    [[ $said == $1 ]] || fail "${*:2}: have '$said', want '$1'"
}
driver_start() {
    "$CSI" --endpoint "unix:$T/csi.sock" --node-id node-a --weir "$WEIR" --state "$T/state" --tier "$TIER" \
        --file-urls 2>>"$T/driver.log" &
    DRIVER=$!
    remember $DRIVER
    poll 10 curl -s --max-time 2 -o /dev/null --http2-prior-knowledge --unix-socket "$T/csi.sock" http://localhost ||
        fail "the driver does not answer"
}
driver_end() { # SIGNAL
    kill "-$1" $DRIVER
    wait $DRIVER 2>/dev/null
}
none_mounted() { ! grep -q " $T/" /proc/self/mounts && [ -z "$(daemons_below "$T/state")" ]; }
# A class, and what Kubernetes says of a volume when it stages and publishes it.
W=capability=SINGLE_NODE_WRITER
create() { does CreateVolume "name=$1" "$W" "parameters.url=$URL" required_bytes=1073741824 "${@:2}"; }
stage() { # NAME [FIELDS...]
    mkdir -p "$T/pods/$1-staged"
    does NodeStageVolume "volume_id=$1" "staging_target_path=$T/pods/$1-staged" "volume_context.url=$URL" "${@:2}"
}
publish() { # NAME POD [FIELDS...]
    does NodePublishVolume "volume_id=$1" "staging_target_path=$T/pods/$1-staged" "target_path=$T/pods/$2" "${@:3}"
}
unpublish() { does NodeUnpublishVolume "volume_id=$1" "target_path=$T/pods/$2"; }
unstage() { does NodeUnstageVolume "volume_id=$1" "staging_target_path=$T/pods/$1-staged"; }
OURS=volume_context.directory=volumes/pvc-1

mkdir -p "$T/pods"
format_volume
driver_start

echo "== csi-sanity passes whole"
# What it leaves out asks for capabilities that the driver does not claim. `Controller Publish`: nothing
# is attached; and one test of ListVolumes its authors have put off themselves.
LEFT_OUT='"ControllerModifyVolume not supported", "ControllerExpandVolume not supported",
    "Controller Publish, UnpublishVolume not supported", "ControllerPublishVolume not supported",
    "ControllerUnpublishVolume not supported", "CreateSnapshot not supported", "DeleteSnapshot not supported",
    "GetCapacity not supported", "GroupControllerService not supported", "ListSnapshots not supported",
    "ListVolumes not supported", "Modify Volume not supported", "Modify volume not supported",
    "NodeExpandVolume not supported", "Snapshot not supported", "Volume Cloning not supported"'
echo "url: $URL" >"$T/parameters.yaml"
sanity() {
    csi-sanity -csi.endpoint "unix:$T/csi.sock" -csi.testvolumeparameters "$T/parameters.yaml" -ginkgo.no-color \
        -csi.mountdir "$T/pods/target" -csi.stagingdir "$T/pods/staging" --ginkgo.json-report="$T/sanity.json" \
        >"$T/sanity.log" 2>&1
}
# It may miss that it is connected, and wait a minute for that: then it has tried nothing.
sanity || { grep -q 'Connection timed out' "$T/sanity.log" && sanity; } ||
    fail "csi-sanity: $(grep -A3 FAIL "$T/sanity.log" | tail -40)"
reports() { jq -r "[.[0].SpecReports[] | select($1)] | $2" "$T/sanity.json"; }
ran=$(reports '.State == "passed"' length)
[ "$ran" -ge 37 ] || fail "csi-sanity ran $ran tests only"
wrong=$(reports ".State == \"skipped\" and (.Failure.Message | IN($LEFT_OUT) | not)" '.[].LeafNodeText')
[ -z "$wrong" ] || fail "csi-sanity leaves out: $wrong"
poll 10 none_mounted || fail "csi-sanity leaves something mounted: $(grep "$T" /proc/self/mounts)"

echo "== mounts outlive the driver"
ID=$(create pvc-1)
same "$(create pvc-1)" "$ID" "the id of a volume that is created twice"
stage pvc-1 "$W" "$OURS"
publish pvc-1 one "$W" "$OURS"
echo one >"$T/pods/one/file"
same "$(df --output=size "$T/pods/one" | tail -1 | tr -d " ")" 1048576 "the size that a pod sees, in KiB"
dd if=/dev/zero of="$T/pods/one/huge" bs=1M count=1025 status=none 2>"$T/full" && fail "a pod writes past its size"
grep -q "Disk quota exceeded" "$T/full" || fail "a pod that is full is told $(cat "$T/full")"
rm "$T/pods/one/huge"
daemons=$(daemons_below "$T/state")
driver_end KILL
same "$(cat "$T/pods/one/file")" one "what is read without the driver"
echo two >>"$T/pods/one/file" || fail "no writing without the driver"
driver_start
same "$(daemons_below "$T/state")" "$daemons" "the daemons"
stage pvc-1 "$W" "$OURS"
publish pvc-1 one "$W" "$OURS"
publish pvc-1 reader "$W" "$OURS" readonly=true
same "$(grep -c " $T/pods/one " /proc/self/mounts)" 1 "mounts of a pod that is published twice"
same "$(cat "$T/pods/reader/file")" "$(printf 'one\ntwo')" "what another pod reads"
(echo x >"$T/pods/reader/file") 2>/dev/null && fail "a pod that is to read only writes"
same "$(does NodeGetVolumeStats "volume_id=pvc-1" "volume_path=$T/pods/one")" "it is served" "the condition"

echo "== one pod only, where that is asked for; nothing is removed from below another"
refuses "FAILED_PRECONDITION: *one only*" NodePublishVolume volume_id=pvc-1 "staging_target_path=$T/pods/pvc-1-staged" \
    "target_path=$T/pods/three" capability=SINGLE_NODE_SINGLE_WRITER
unpublish pvc-1 one
unpublish pvc-1 one
same "$(cat "$T/pods/reader/file")" "$(printf 'one\ntwo')" "what the other pod reads still"
unpublish pvc-1 reader
[ ! -e "$T/pods/one" ] || fail "the mount point of a pod is left"

echo "== the last to unstage flushes, also a driver that was killed before"
ID2=$(create pvc-2)
stage pvc-2 $W volume_context.directory=volumes/pvc-2
unstage pvc-1
[ -n "$(daemons_below "$T/state")" ] || fail "the daemon ends while a volume is staged"
driver_end TERM
umount "$T/pods/pvc-2-staged" # and killed right behind that
driver_start
unstage pvc-2
none_mounted || fail "unstaged, and still mounted: $(grep "$T" /proc/self/mounts)"
"$WEIR" fsck --data "$URL" || fail "fsck finds problems"

echo "== all of a volume, read by many: beside a writer, too"
refuses "NOT_FOUND*" NodeStageVolume volume_id=x "staging_target_path=$T/pods/x" $W "volume_context.url=$URL" \
    volume_context.directory=nowhere
refuses "INVALID_ARGUMENT*tierSize*" NodeStageVolume volume_id=x "staging_target_path=$T/pods/x" $W \
    "volume_context.url=$URL" volume_context.tiersize=1GiB
stage pvc-1 "$W" "$OURS"
stage all capability=MULTI_NODE_READER_ONLY
publish all all capability=MULTI_NODE_READER_ONLY
same "$(head -1 "$T/pods/all/volumes/pvc-1/file")" one "what a reader of all finds"
(touch "$T/pods/all/x") 2>/dev/null && fail "a reader writes"
same "$(daemons_below "$T/state" | wc -l)" 2 "daemons of a writer and a reader"
unpublish all all
unstage all
unstage pvc-1
none_mounted || fail "something is left: $(grep "$T" /proc/self/mounts)"

echo "== a volume that another machine writes is refused, and may be read"
stage pvc-1 "$W" "$OURS"
for pid in $(daemons_below "$T/state"); do kill -KILL "$pid"; done
same "$(does NodeGetVolumeStats "volume_id=pvc-1" "volume_path=$T/pods/pvc-1-staged")" \
    "its daemon is gone: end the pods that use it" "the condition of a dead volume"
refuses "FAILED_PRECONDITION: the daemon of pvc-1 is gone*" NodePublishVolume volume_id=pvc-1 $W \
    "staging_target_path=$T/pods/pvc-1-staged" "target_path=$T/pods/one"
lease_of_another
unstage pvc-1
refuses "FAILED_PRECONDITION: *mounted for writing by*elsewhere*" NodeStageVolume volume_id=pvc-1 "$W" "$OURS" \
    "staging_target_path=$T/pods/pvc-1-staged" "volume_context.url=$URL"
stage pvc-1 capability=MULTI_NODE_READER_ONLY $OURS
same "$(head -1 "$T/pods/pvc-1-staged/file")" one "what is read beside a writer elsewhere"
unstage pvc-1
mkdir "$T/by-hand" && "$WEIR" mount "$URL" "$T/by-hand" --tier "$TIER/read-write" --take-over || fail "no taking over"
"$WEIR" umount "$T/by-hand"

echo "== a daemon that died is started anew with the next stage"
stage pvc-1 "$W" "$OURS"
for pid in $(daemons_below "$T/state"); do kill -KILL "$pid"; done
stage pvc-1 "$W" "$OURS"
publish pvc-1 one "$W" "$OURS"
same "$(head -1 "$T/pods/one/file")" one "what is read then"
unpublish pvc-1 one
unstage pvc-1

echo "== what was not made for a volume is not removed, nor what is linked into one"
refuses "FAILED_PRECONDITION: *not made by this driver*" DeleteVolume "volume_id=${ID%pvc-1}"
does DeleteVolume "volume_id=${ID%pvc-1}pvc-9" # never made
mkdir "$T/lake" && echo object >"$T/lake/object"
stage all $W
# Where the volume is mounted, of which all else are binds.
MOUNTED=$(echo "$T"/state/*-rw/mnt)
"$WEIR" link "file://$T/lake" "$MOUNTED/volumes/pvc-1/lake" --import all --export all >/dev/null || fail "no link"
refuses "FAILED_PRECONDITION: *weir unlink*" DeleteVolume "volume_id=$ID"
"$WEIR" unlink "$MOUNTED/volumes/pvc-1/lake" || fail "no unlink"
does DeleteVolume "volume_id=$ID"
does DeleteVolume "volume_id=$ID"
same "$(ls "$T/pods/all-staged/volumes")" pvc-2 "volumes that are left"
[ -s "$T/lake/object" ] || fail "an object of somebody else is gone"
does DeleteVolume "volume_id=$ID2"

echo "== a volume of one pod ends with it"
E=volume_context.csi.storage.k8s.io/ephemeral=true
ephemeral() { # ID POD [FIELDS...]
    does NodePublishVolume "volume_id=$1" "target_path=$T/pods/$2" $W $E "volume_context.url=$URL" "${@:3}"
}
ephemeral csi-7 scratch
ephemeral csi-8 kept volume_context.directory=volumes
echo x >"$T/pods/scratch/x" && echo y >"$T/pods/kept/y"
[ -s "$T/pods/all-staged/ephemeral/csi-7/x" ] || fail "an ephemeral volume is elsewhere"
unpublish csi-7 scratch
unpublish csi-7 scratch
unpublish csi-8 kept
[ ! -e "$T/pods/all-staged/ephemeral/csi-7" ] || fail "an ephemeral volume outlives its pod"
[ -s "$T/pods/all-staged/volumes/y" ] || fail "what was there before the pod is gone after it"
unstage all
none_mounted || fail "something is left: $(grep "$T" /proc/self/mounts)"

echo "== keys are the child's only, and who has others does not join"
s3_start
"$WEIR" format "$URL" "${CONNECT[@]}" >/dev/null || fail "no format on S3"
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
AT="volume_context.endpoint=${CONNECT[1]}"
KEYS=(secrets.AWS_ACCESS_KEY_ID=weirtest secrets.AWS_SECRET_ACCESS_KEY=weirtestsecret)
stage pvc-3 $W "$AT" "${KEYS[@]}"
echo three >"$T/pods/pvc-3-staged/file"
refused() { # WORDS ID FIELDS...
    mkdir -p "$T/pods/$2-staged"
    refuses "$1" NodeStageVolume "volume_id=$2" "staging_target_path=$T/pods/$2-staged" "volume_context.url=$URL" \
        "$AT" $W "${@:3}"
}
refused "FAILED_PRECONDITION: *other keys*" pvc-4
refused "FAILED_PRECONDITION: *other keys*" pvc-4 "${KEYS[0]}" secrets.AWS_SECRET_ACCESS_KEY=another
refused "INVALID_ARGUMENT: the secret has password*" pvc-4 secrets.password=weirtestsecret
refuses "INVALID_ARGUMENT: *brings its own keys*" NodePublishVolume volume_id=csi-9 $W $E "$AT" \
    "volume_context.url=$URL" "target_path=$T/pods/nine"
daemon=$(daemons_below "$T/state")
tr '\0' '\n' <"/proc/$daemon/environ" | grep -q weirtestsecret || fail "the daemon has no keys"
grep -a weirtest "/proc/$daemon/cmdline" && fail "keys are on the command line"
grep -rl weirtestsecret "$T/driver.log" "$T/state" --include=*.log --include=*.json && fail "keys are written down"
unstage pvc-3
stage pvc-3 $W "$AT" "${KEYS[@]}"
same "$(cat "$T/pods/pvc-3-staged/file")" three "what was unstaged to S3"
unstage pvc-3

echo "== an encrypted volume is opened by what the secret has"
URL=s3://bucket/sealed
"$WEIR" key new "$T/volume.key" >/dev/null || fail "no key"
AWS_ACCESS_KEY_ID=weirtest AWS_SECRET_ACCESS_KEY=weirtestsecret "$WEIR" format "$URL" --encrypt --key-file "$T/volume.key" \
    "${CONNECT[@]}" >/dev/null || fail "no encrypted volume"
OPENS="secrets.WEIR_PASSPHRASE=$(cat "$T/volume.key")"
refused "*encrypted*" pvc-5 "${KEYS[@]}"
refused "*opens none of its keys*" pvc-5 "${KEYS[@]}" "secrets.WEIR_PASSPHRASE=five words of another"
stage pvc-5 $W "$AT" "${KEYS[@]}" "$OPENS"
echo five >"$T/pods/pvc-5-staged/file"
refused "FAILED_PRECONDITION: *other keys*" pvc-6 "${KEYS[@]}"
daemon=$(daemons_below "$T/state")
hidden=$(cut -d' ' -f2 "$T/volume.key")
grep -aq "$hidden" "/proc/$daemon/cmdline" && fail "the key is on the command line"
grep -rl "$hidden" "$T/driver.log" "$T/state" --include=*.log --include=*.json && fail "the key is written down"
unstage pvc-5
stage pvc-5 $W "$AT" "${KEYS[@]}" "$OPENS"
same "$(cat "$T/pods/pvc-5-staged/file")" five "what was unstaged to an encrypted volume"
unstage pvc-5
driver_end TERM

echo "== a directory of a node is no volume for a cluster"
"$CSI" --endpoint "unix:$T/csi.sock" --node-id node-a --weir "$WEIR" --state "$T/state" --tier "$TIER" \
    2>>"$T/driver.log" &
DRIVER=$!
remember $DRIVER
poll 10 test -S "$T/csi.sock" && sleep 0.3
refuses "INVALID_ARGUMENT: *file-urls*" NodeStageVolume volume_id=x $W "staging_target_path=$T/pods/x" \
    "volume_context.url=file://$BUCKET"
driver_end TERM

echo "== out of a container, whose end the daemons outlive: the host's systemd has them"
# A host of our own: systemd as the first process of its namespaces, with units of ours only.
HOST=$T/host
mkdir -p "$HOST"/{units,bucket,run,staged,state} && chmod 700 "$HOST/run"
printf '[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n' >"$HOST/units/host.target"
cat >"$HOST/boot" <<'EOF'
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system &&
    mount --make-rshared / || exit 1
export container=other SYSTEMD_UNIT_PATH=$HOST/units
bash "$HOST/try" >"$HOST/said" 2>&1 &
exec /lib/systemd/systemd --system --unit=host.target --log-target=console --show-status=no
EOF
cat >"$HOST/try" <<'EOF'
say() { echo "$1" >>"$HOST/found"; }
# The container: all namespaces but that of processes, and a control group that ends as one.
pod_start() {
    mkdir -p /sys/fs/cgroup/pod
    (
        echo "$BASHPID" >/sys/fs/cgroup/pod/cgroup.procs
        exec unshare --mount --net --uts --ipc --propagation unchanged "$CSI" --endpoint "unix:$HOST/csi.sock" \
            --node-id host --weir "$WEIR" --on-host --state "$HOST/state" --tier "$HOST/tier" --file-urls
    ) &
    until curl -s --max-time 2 -o "$HOST/nothing" --http2-prior-knowledge --unix-socket "$HOST/csi.sock" \
        http://localhost; do
        sleep 0.1
    done
}
pod_end() {
    echo 1 >/sys/fs/cgroup/pod/cgroup.kill
    until [ -z "$(cat /sys/fs/cgroup/pod/cgroup.procs)" ]; do sleep 0.05; done
}
call() { "$TESTS/tools/csi.py" "$HOST/csi.sock" "$@"; }
until systemctl is-active --quiet host.target; do sleep 0.1; done
pod_start
call NodeStageVolume volume_id=x "staging_target_path=$HOST/staged" capability=SINGLE_NODE_WRITER \
    "volume_context.url=file://$HOST/bucket" secrets.AWS_ACCESS_KEY_ID=id secrets.AWS_SECRET_ACCESS_KEY=hiddenkey
say "staged: $?"
echo written >"$HOST/staged/file"
daemons=$(cat /sys/fs/cgroup/weir.slice/run-*.scope/cgroup.procs)
say "daemons in scopes: $(wc -w <<<"$daemons")"
say "with keys: $(grep -lz hiddenkey "/proc/$daemons/environ" | wc -l)"
say "units that tell keys: $(systemctl show '*' | grep -c hiddenkey)"
[ "$(readlink "/proc/$daemons/ns/net")" = "$(readlink /proc/1/ns/net)" ]
say "in the host's network: $?"
pod_end
say "read without the container: $(cat "$HOST/staged/file")"
pod_start
call NodeUnstageVolume volume_id=x "staging_target_path=$HOST/staged"
say "unstaged: $?"
say "mounts that are left: $(grep -c " $HOST/" /proc/self/mounts)"
say end
EOF
cat >"$HOST/group" <<'EOF'
mount -t cgroup2 none /sys/fs/cgroup && mkdir -p "/sys/fs/cgroup/$GROUP" &&
    echo $$ >"/sys/fs/cgroup/$GROUP/cgroup.procs" || exit 1
exec unshare --cgroup --pid --fork --kill-child --mount --mount-proc bash "$HOST/boot"
EOF
"$WEIR" format "file://$HOST/bucket" >/dev/null || fail "format"
HOST=$HOST GROUP=weir-csi-$$ CSI=$CSI WEIR=$WEIR TESTS=$TESTS WEIR_RUN_DIR=$HOST/run \
    unshare --mount bash -c "$DROP_COPIES"'; exec bash "$0"' "$HOST/group" >"$T/host.log" 2>&1 &
host=$!
remember $host
poll 120 grep -qs '^end' "$HOST/found"
kill -KILL $host
wait $host 2>/dev/null
# Its control groups outlive its processes, which end one after the other.
groups_gone() {
    unshare --mount bash -c "mount -t cgroup2 none /sys/fs/cgroup &&
        find /sys/fs/cgroup/weir-csi-$$ -depth -type d -exec rmdir {} ';'" 2>/dev/null
    ! unshare --mount bash -c "mount -t cgroup2 none /sys/fs/cgroup && [ -e /sys/fs/cgroup/weir-csi-$$ ]"
}
poll 20 groups_gone || fail "control groups are left"
same "$(cat "$HOST/found")" "staged: 0
daemons in scopes: 1
with keys: 1
units that tell keys: 0
in the host's network: 0
read without the container: written
unstaged: 0
mounts that are left: 0
end" "what a host with systemd sees ($(tail -5 "$HOST/said"))"
