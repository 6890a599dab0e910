#!/usr/bin/env bash
# What users copy from deploy/: the node's script with no disk, one, a used one and an empty one, Slurm's prolog and
# epilog with jobs that end well and otherwise, and the container that mounts, all run as they are in a root of their
# own; the rest is parsed. Commands of weir in them have the options that they name.
source "$(dirname "$0")/../lib.sh"
begin
need jq blkdiscard blkid curl findmnt losetup mkfs.ext4 mkfs.xfs pkill python3 setpriv shellcheck systemd-analyze unshare
need /usr/lib/python3/dist-packages/yaml
DEPLOY=$(realpath "$TESTS/../deploy")
TOOLS=$WEIR_CACHE/example-tools/bin/python
[ -x "$TOOLS" ] || fail "there is no $TOOLS: run make test-tools"

echo "== options of weir in examples and in their page"
# A command goes to the end of its line, or to what ends commands in a shell.
sed -E ':a; /\\$/ { N; s/\\\n[# ]*//; ta }' "$DEPLOY"/{node,slurm,docker}/* "$TESTS/../docs/cloud.md" |
    grep -oP '(?<![\w/@.-])weir [a-z]+[^;|&)>]* -[^;|&)>]*' | sed 's/ # .*//; s/[`,]/ /g' >"$T/commands"
[ "$(wc -l <"$T/commands")" -ge 7 ] || fail "no commands were found: $(cat "$T/commands")"
while read -r _ command words; do
    "$WEIR" "$command" --help >"$T/help" 2>&1 || fail "there is no weir $command"
    for word in $words; do
        [[ $word =~ ^--?[a-z][a-z-]*$ ]] || continue
        grep -qE -- "(^| |,)$word( |,|\$)" "$T/help" || fail "weir $command has no $word"
    done
done <"$T/commands"

echo "== what shells, systemd, Kubernetes, Docker and Nextflow read is what they can read"
(cd "$DEPLOY/.." && shellcheck -x deploy/*/*.sh) >"$T/lint.log" 2>&1 || fail "shellcheck"
LC_ALL=C grep -nP '[^\x00-\x7F]' "$DEPLOY/node/weir-node.sh" && fail "user data is ASCII"
"$TESTS/tools/manifests.py" "$DEPLOY" "$TESTS/../docs/kubernetes.md" >"$T/manifests.log" || fail "manifests"
"$TOOLS" - "$DEPLOY" <<'PY' >"$T/parsed.log" 2>&1 || fail "parsers"
import pathlib, sys
from dockerfile_parse import DockerfileParser
from groovy_parser.parser import parse_groovy_content

deploy = pathlib.Path(sys.argv[1])
for path in deploy.rglob("Dockerfile*"):
    with open(path, "rb") as file:
        steps = DockerfileParser(fileobj=file).structure
    known = "COMMENT FROM RUN COPY USER WORKDIR ENTRYPOINT CMD".split()
    assert all(step["instruction"] in known for step in steps), (path, steps)
    for step in steps:
        if step["instruction"] == "COPY" and step["value"].endswith("/weir-run"):
            assert (path.parent / step["value"].split()[0]).exists(), (path, step)
parse_groovy_content((deploy / "nextflow/nextflow.config").read_text())
PY

echo "== Terraform: in its own form, complete; values that would do harm are refused"
terraform() { "$TOOLS" "$TESTS/tools/terraform.py" "$@"; }
terraform format "$DEPLOY/aws-batch" >"$T/format.log" 2>&1 || fail "terraform fmt"
terraform load "$DEPLOY/aws-batch" >"$T/load.log" 2>&1 || fail "Terraform does not load it"
EXAMPLE=$DEPLOY/aws-batch/terraform.tfvars.example
terraform values "$DEPLOY/aws-batch" "$EXAMPLE" node_conf policy container cloud_config >"$T/values" 2>"$T/values.log" ||
    fail "Terraform refuses the example"
refused() { # SETTING WORDS
    { grep -v "^${1%% *} " "$EXAMPLE"; echo "$1"; } >"$T/refused.tfvars"
    terraform values "$DEPLOY/aws-batch" "$T/refused.tfvars" node_conf >"$T/refused" 2>&1 && fail "Terraform takes $1"
    grep -q "Invalid value for variable" "$T/refused" && grep -qF -- "$2" "$T/refused" ||
        fail "of $1 it says: $(cat "$T/refused")"
}
refused "volumes = \"s3://my-bucket\"" "s3://BUCKET/PREFIX"
refused "results = \"s3://my-bucket/out/\"" "without a slash"
refused "reference = \"s3://a-b/x'; rm -rf '/\"" "s3://BUCKET/PREFIX"
refused 'hydrate = ["$(reboot)"]' "Directories below"
refused 'reference_options = "--region x; reboot"' "Options and their values"
refused 'package_url = "https://b.s3.amazonaws.com/weir.rpm?X-Amz-Signature=00"' "nothing behind it"
refused 'package_url = "http://b.s3.amazonaws.com/weir.rpm"' "https://"
refused 'package_sha256 = "00"' "hexadecimal"
refused 'instance_types = ["optimal"]' "instance store"
refused 'user = "root"' "UID:GID"
jq -r .node_conf "$T/values" >"$T/node.conf"
diff <(grep -o '^[A-Z0-9_]*=' "$T/node.conf" | sort) \
    <(grep -o '^[A-Z0-9_]*=' "$DEPLOY/node/node.conf" | grep -v 'STORES\|ENDPOINT' | sort) || fail "settings of the node"
# Amazon takes 16 KiB, and Batch adds its part.
bytes=$(jq -c .cloud_config "$T/values" | cat - "$DEPLOY/node/weir-node.sh" | wc -c)
[ "$bytes" -lt 14000 ] || fail "user data has $bytes bytes"
# Of the container: nothing but what docs/cloud.md says.
same "$(jq -r '.container | keys | join(" ")' "$T/values")" \
    "command image mountPoints resourceRequirements user volumes" "what a job has"
same "$(jq -c '[.container.mountPoints[] | select(.readOnly) | .containerPath]' "$T/values")" '["/mnt/weir/db"]' \
    "what a job may only read"
# Its policy is the page's, with the example's names.
python3 - "$TESTS/../docs/credentials.md" "$T/values" <<'PY' >"$T/policy.log" 2>&1 || fail "the policy is not the page's"
import json, re, sys

page = open(sys.argv[1]).read()
volume, reader, exporter = re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)
wanted = (
    json.loads(volume.replace("vol/", "fleet/"))["Statement"]
    + json.loads(reader.replace(":::data", ":::open-data").replace("db/", "blast/db/"))["Statement"]
    + json.loads(exporter.replace(":::data", ":::my-results").replace("db/", "out/"))["Statement"]
)
have = json.load(open(sys.argv[2]))["policy"]["Statement"]


def listed(value):
    return sorted(value) if isinstance(value, list) else [value]


def told(statements):
    return sorted(
        json.dumps({k: listed(v) if k in ("Action", "Resource") else v for k, v in s.items()}, sort_keys=True)
        for s in statements
    )


assert told(have) == told(wanted), (told(have), told(wanted))
PY

# --- a root of their own: this machine's, with what changes in a layer over it. It has its own processes, too, so that
# nothing outlives it.
mkdir -p "$T"/{upper,work,root,srv,buckets/{fleet,db/nt,out,run}}
mkdir -p "$T"/upper/{etc/weir,usr/bin,usr/local/{bin,sbin},job}
cp "$WEIR" "$T/upper/usr/bin/weir"
cp "$DEPLOY/node/weir-node.sh" "$DEPLOY"/slurm/*.sh "$DEPLOY/docker/weir-run.sh" \
    "$TESTS/../packaging/systemd/weir@.service" "$T/upper/job/"
head -c 3000000 /dev/urandom >"$T/buckets/db/nt/nt.00.nsq"
echo text >"$T/buckets/db/nt.nal"
# What would change the machine, or is not here: said instead of done.
for program in systemctl apt-get dnf mdadm; do
    printf '#!/bin/sh\necho "%s $*" >>/job/called\n[ "$1" != --assemble ] && [ "$1" != --detail ]\n' $program >"$T/upper/usr/local/bin/$program"
    chmod +x "$T/upper/usr/local/bin/$program"
done
conf() { # SETTING...: over those of the example
    {
        cat "$DEPLOY/node/node.conf"
        printf '%s\n' NODE=one REGION= VOLUMES=file:///buckets/fleet REFERENCE=file:///buckets/db HYDRATE=nt \
            RESULTS=file:///buckets/out "$@"
    } >"$T/upper/etc/weir/node.conf"
}
inside() { # SCRIPT
    unshare --mount --pid --fork --kill-child --propagation private bash -euc "$DROP_COPIES"'
        root=$1/root
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mount -t tmpfs tmpfs "$root/run"
        mkdir -p "$root/buckets" "$root/mnt" "$root/srv"
        mount --bind "$1/buckets" "$root/buckets"
        mount --bind "$1/srv" "$root/srv"
        exec chroot "$root" /usr/bin/env -i HOME=/root AWS_EC2_METADATA_DISABLED=true \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euc "$2" inside
    ' outside "$T" "$HELPERS$1" >"$T/inside.log" 2>&1 || fail "${2:-inside}"
}
# shellcheck disable=SC2016 # for the inside
HELPERS='
set -E
trap '\''echo "$BASH_COMMAND ends with $?" >>/job/ends'\'' ERR
trap '\''[ $? = 0 ] || tail -n 5 /job/said /job/ends >&2'\'' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
refuses() { # WORDS COMMAND...
    "${@:2}" >/job/said 2>&1 && fail "${*:2} succeeds"
    grep -q "$1" /job/said || fail "${*:2} says: $(cat /job/said)"
}
# What systemd does by weir@.service and the drop-in.
boot() {
    local line
    weir-node disk
    while read -r line; do export "${line?}"; done </etc/weir/node.env
    mkdir -p "$DIR"
    weir-node volume
    weir mount --tier "$TIER" $OPTIONS -- "$URL" "$DIR"
    weir-node links
}
down() { weir umount /mnt/weir && { umount /srv/nvme || ! mountpoint -q /srv/nvme; }; }
'

echo "== a node is installed: units, in whose order it starts"
conf USERS=taker.service
inside '
    bash /job/weir-node.sh
    bash /job/weir-node.sh install
    cmp /job/weir-node.sh /usr/local/sbin/weir-node
    printf "systemctl %s\n" daemon-reload "enable weir@node.service" "start weir@node.service" >/job/wanted
    cat /job/wanted /job/wanted | diff - /job/called
    cp /etc/systemd/system/taker.service.d/weir.conf /job/taker
    # With the units that this one goes with.
    printf "[Service]\nExecStart=true\n" >/etc/systemd/system/taker.service
    cp /job/weir@.service /etc/systemd/system/ && touch /etc/weir/node.env
    systemd-analyze verify --man=no weir@node.service weir-disk.service taker.service
' "install"

echo "== weir is fetched, if it is what it should be"
sum=$(echo package | sha256sum | cut -d' ' -f1)
conf PACKAGE=https://packages/weir.deb PACKAGE_SHA256="$sum"
# shellcheck disable=SC2016 # for the inside
inside '
    mv /usr/bin/weir /job/weir
    printf "#!/bin/sh\nwhile [ \$1 != --output ]; do shift; done\necho \$WHAT >\$2\necho curl \$3 >>/job/called\n" \
        >/usr/local/bin/curl
    chmod +x /usr/local/bin/curl
    export WHAT=package
    rm /job/called
    weir-node
    grep -x "curl https://packages/weir.deb" /job/called
    grep "^dnf --assumeyes.* /tmp/.*/weir.deb" /job/called
    rm /usr/local/bin/dnf
    weir-node
    grep "^apt-get install .* /tmp/.*/weir.deb" /job/called
    rm /job/called
    WHAT=another refuses "is not what PACKAGE_SHA256 says" weir-node
    ! grep -v curl /job/called
    sed -i "/^PACKAGE=/d" /etc/weir/node.conf
    refuses "PACKAGE does not say where" weir-node
    mv /job/weir /usr/bin/weir
' "a package"

echo "== Terraform's node, with keys that may do what its policy says, and no instance store: run twice, killed"
s3_start
mkdir -p "$T"/s3/{my-bucket,my-results,open-data/blast} "$T/upper/root/.aws"
cp -r "$T/buckets/db" "$T/s3/open-data/blast/"
jq .policy "$T/values" >"$T/policy.json"
PORT=$(free_port)
"$TESTS/tools/policy_s3.py" "$PORT" "$S3_PORT" "$T/policy.json" </dev/null &
remember $!
disown
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
poll 20 listening || fail "the proxy does not come up"
printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" \
    >"$T/upper/root/.aws/credentials"
printf '%s\n' "ENDPOINT=http://127.0.0.1:$PORT" NODE=i-1 "STORES='/by-id/none*'" |
    cat "$T/node.conf" - >"$T/upper/etc/weir/node.conf"
# shellcheck disable=SC2016
inside '
    boot 2>/job/said
    grep "no instance store here" /job/said
    weir status /mnt/weir | grep "^s3://my-bucket/fleet/i-1 on /mnt/weir"
    for step in disk volume links; do weir-node $step; done
    weir links /mnt/weir | grep -c "^s3:" | grep -x 2
    cmp /mnt/weir/db/nt/nt.00.nsq /buckets/db/nt/nt.00.nsq
    mkdir /mnt/weir/out/job && echo result >/mnt/weir/out/job/hits
    weir archive -r /mnt/weir/out/job --wait
    [ "$(stat -c %a /mnt/weir/out /srv/nvme/scratch /srv/nvme/weir | xargs)" = "1777 1777 700" ]
    echo kept >/mnt/weir/file && sync /mnt/weir/file
    pkill -KILL -x weir; sleep 0.5
    umount -l /mnt/weir
    boot
    [ "$(cat /mnt/weir/file)" = kept ]
    down
' "no instance store"
same "$(cat "$T/s3/my-results/out/job/hits")" result "what a job wrote"
same "$(find "$T/s3/open-data" -type f | wc -l)" 2 "objects of the reference"
rm -rf "$T"/srv/*

echo "== one disk, under several names: made once, kept over a reboot, made anew when it is empty"
truncate -s 400M "$T/a.img" "$T/b.img"
DISK_A=$(losetup -f --show "$T/a.img") && DISK_B=$(losetup -f --show "$T/b.img") || fail "losetup"
mkdir "$T/upper/by-id"
for name in store-a store-a_1 store-a-part1; do ln -s "$DISK_A" "$T/upper/by-id/$name"; done
ln -s "$DISK_B" "$T/upper/by-id/other-b"
conf "STORES='/by-id/store-*'"
# shellcheck disable=SC2016
inside '
    id() { blkid -p -s UUID -o value /by-id/store-a; }
    boot
    [ "$(findmnt -no FSTYPE /srv/nvme)" = xfs ]
    [[ $(findmnt -no OPTIONS /srv/nvme) == *nosuid,nodev* ]]
    first=$(id)
    weir-node disk
    echo kept >/mnt/weir/file
    echo result >/mnt/weir/out/result
    poll() { local i; for i in $(seq 100); do "$@" && return; sleep 0.1; done; return 1; }
    poll test -s /buckets/out/result
    down
    : rebooted
    boot
    [ "$(id)" = "$first" ]
    weir state /mnt/weir/db/nt/nt.00.nsq | grep -v released
    [ "$(cat /mnt/weir/file /mnt/weir/out/result | xargs)" = "kept result" ]
    echo unflushed >/mnt/weir/late
    : stopped without a shutdown, and started with an empty store
    pkill -KILL -x weir; sleep 0.5
    umount -l /mnt/weir
    umount /srv/nvme
    blkdiscard -f /by-id/store-a
    boot
    [ "$(id)" != "$first" ]
    [ "$(cat /mnt/weir/file /mnt/weir/out/result | xargs)" = "kept result" ]
    cmp /mnt/weir/db/nt/nt.00.nsq /buckets/db/nt/nt.00.nsq
    down
' "one disk"

echo "== a disk that holds something is left alone"
mkfs.ext4 -q "$DISK_B" || fail "mkfs.ext4"
sum=$(sha256sum <"$T/b.img")
conf "STORES='/by-id/other-*'"
inside 'refuses "is not blank" weir-node disk; ! mountpoint -q /srv/nvme' "a used disk"
conf "STORES='/by-id/*'"
inside 'refuses "is not blank" weir-node disk; ! mountpoint -q /srv/nvme' "two disks, one of them used"
same "$(sha256sum <"$T/b.img")" "$sum" "the disk that holds something"

echo "== Slurm: before and after jobs"
conf "STORES='/by-id/store-*'" HYDRATE=
# shellcheck disable=SC2016
inside '
    export SLURM_JOB_ID=7 SLURM_JOB_UID=65534
    refuses "no volume is mounted" /job/prolog.sh
    refuses "no volume is mounted" /job/epilog.sh
    boot
    weir release -r /mnt/weir/db
    SLURM_JOB_COMMENT=weir:nt /job/prolog.sh
    weir state /mnt/weir/db/nt/nt.00.nsq | grep -v released
    weir state /mnt/weir/db/nt.nal | grep released
    [ "$(stat -c "%a %u" /mnt/weir/out/7)" = "700 65534" ]
    /job/prolog.sh # of a job that is run again
    : a job that is killed in the middle of a write
    setpriv --reuid 65534 --clear-groups sh -c "exec 3>/mnt/weir/out/7/hits; seq 100000 >&3; exec sleep 60" &
    sleep 0.5
    kill -KILL $!
    wait $! || true
    /job/epilog.sh
    [ "$(sha256sum </buckets/out/7/hits)" = "$(seq 100000 | sha256sum)" ]
    : comments and directories of somebody who means it badly
    for SLURM_JOB_COMMENT in "weir:../../../etc" "weir:\$(touch /job/bad)" "weir:-r" "weir:none" weir: other; do
        export SLURM_JOB_COMMENT SLURM_JOB_ID=8
        /job/prolog.sh
        /job/epilog.sh
        [ ! -e /mnt/weir/out/8 ] # nothing was in it
    done
    [ ! -e /job/bad ]
    owner=$(stat -c %u /job)
    setpriv --reuid 65534 --clear-groups ln -s /job /mnt/weir/out/9
    SLURM_JOB_ID=9 /job/prolog.sh
    [ "$(stat -c %u /job)" = "$owner" ]
    down
' "Slurm"

echo "== a container that mounts"
# shellcheck disable=SC2016
inside '
    refuses WEIR_URL /job/weir-run.sh true
    export WEIR_URL=file:///buckets/run WEIR_OPTIONS="--tier-size 1GiB"
    refuses "which program" /job/weir-run.sh
    refuses "volume" /job/weir-run.sh true # there is none
    weir format $WEIR_URL
    mkdir -p /srv/tier && ln -s /srv/tier /tier
    code=0
    /job/weir-run.sh sh -c "echo one >/mnt/weir/one; exit 3" || code=$?
    [ $code = 3 ]
    rm -rf /srv/tier/* # all is in the bucket
    /job/weir-run.sh sh -c "[ \$(cat /mnt/weir/one) = one ]"
    : stopped
    /job/weir-run.sh bash -c "trap \"echo two >/mnt/weir/two; exit 4\" TERM; touch /mnt/weir/up
        while :; do sleep 0.1; done" &
    until [ -e /mnt/weir/up ]; do sleep 0.1; done
    kill -TERM $!
    code=0
    wait $! || code=$?
    [ $code = 4 ]
    rm -rf /srv/tier/*
    /job/weir-run.sh cat /mnt/weir/two | grep -x two
    : the program is gone, and what it started is not
    /job/weir-run.sh sh -c "cd /mnt/weir && sleep 100 & true"
    ! mountpoint -q /mnt/weir
' "a container"
