#!/usr/bin/env bash
# Weir by NFS beside NFS-Ganesha, by the kernel's own client, both in the emulated machine of scripts/vm.sh: small files
# by tar (BENCH_FILES, 2,000), and one large one, BENCH_REPEATS times (3). `make bench-nfs-guest` runs it and prints
# seconds. Emulation makes all of it slow, some things more than others: what it says are ratios.
# needs: ganesha.nfsd python3 tar
source "$(dirname "$0")/../tests/lib.sh"
begin
source "$TESTS/lib-vm.sh"
need ganesha.nfsd python3 tar
export VM_TIMEOUT=3600

python3 - "$T/share" "${BENCH_FILES:-2000}" <<'PY' || fail "the files"
import hashlib, io, random, sys, tarfile
share, rng = sys.argv[1], random.Random(1)
with tarfile.open(f"{share}/many.tar", "w") as tar, open(f"{share}/sums", "w") as sums:
    for n in range(int(sys.argv[2])):
        data = rng.randbytes(1_000 + n % 3_000)
        info = tarfile.TarInfo(f"d{n // 100}/f{n % 100}")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        sums.write(f"{hashlib.sha256(data).hexdigest()}  {info.name}\n")
PY
vm_disk local 8G
guest "ROUNDS=${BENCH_REPEATS:-3}" <<'GUEST'
mount_local
cp "$SHARE/many.tar" "$SHARE/sums" "$LOCAL"
"$WEIR" format "$URL" >/dev/null || fail "format"
"$WEIR" serve "$URL" --tier "$LOCAL/tier" --log-file "$LOG" --nfs 127.0.0.1:2049 --nfs-lease 10s --journal "$LOCAL/journal" ||
    fail "weir serve"
"$WEIR" export add "$URL" / --name '' --squash none --async >/dev/null || fail "weir export add"
mkdir -p /mnt/weir /mnt/ganesha "$LOCAL/ganesha" /var/lib/nfs/ganesha
cat >/run/ganesha.conf <<CONF
NFS_CORE_PARAM { NFS_Port = 12049; Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; Lease_Lifetime = 10; RecoveryBackend = fs; }
EXPORT {
    Export_Id = 1; Path = $LOCAL/ganesha; Pseudo = /g; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 4; Transports = TCP; FSAL { Name = VFS; }
}
CONF
ganesha.nfsd -f /run/ganesha.conf -L /run/ganesha.log -p /run/ganesha.pid || fail "ganesha.nfsd"
# With 4.2 what Ganesha 4.3 answers to this kernel's reads is not what was written; sums are compared below.
opts=vers=4.1,addr=127.0.0.1,clientaddr=127.0.0.1,hard
mount -i -t nfs4 -o "$opts" 127.0.0.1:/ /mnt/weir || fail "mount Weir"
is_mounted() { mount -i -t nfs4 -o "$opts,port=12049" 127.0.0.1:/g /mnt/ganesha 2>/run/mount.err; }
poll 60 is_mounted || fail "mount Ganesha: $(cat /run/mount.err; tail -n 20 /run/ganesha.log)"

up() { cut -d' ' -f1 /proc/uptime; }
took() { # SERVER WHAT COMMAND...
    local began
    began=$(up)
    "${@:3}" >/run/out 2>&1 || fail "$1, $2: $(tail -n 3 /run/out)"
    echo "$1 $2 $began $(up)" >>"$SHARE/took"
}
cold() { sync && echo 3 >/proc/sys/vm/drop_caches; }
extract() { tar xf "$LOCAL/many.tar" -C "$1" && sync -f "$1"; }
collect() { tar cf - -C "$1" . | cat >/dev/null; }
for round in $(seq "$ROUNDS"); do
    for server in weir ganesha; do
        cold
        at=/mnt/$server/round$round && mkdir "$at" || fail "mkdir $at"
        took $server "tar-x" extract "$at"
        cold
        took $server "find-size" find "$at" -type f -size +2k
        cold
        took $server "tar-c" collect "$at"
        [ "$round" -gt 1 ] || (cd "$at" && sha256sum --quiet -c "$LOCAL/sums") || fail "$server: files are not what tar wrote"
        took $server "rm" rm -r "$at"
        took $server "write" dd if=/dev/zero of="$at.big" bs=1M count=100 conv=fsync
        cold
        took $server "read" dd if="$at.big" of=/dev/null bs=1M
        rm "$at.big"
    done
done
umount /mnt/weir /mnt/ganesha || fail "umount"
kill "$(cat /run/ganesha.pid)"
stop_serving
"$WEIR" fsck "$URL" --data >/run/fsck 2>&1 || fail "weir fsck: $(cat /run/fsck)"
GUEST
python3 - "$T/share/took" <<'PY'
import statistics, sys
took = {}
for line in open(sys.argv[1]):
    server, what, began, ended = line.split()
    took.setdefault(what, {}).setdefault(server, []).append(float(ended) - float(began))
print(f"{'':10} {'Weir':>8} {'Ganesha':>8}   Weir's speed to Ganesha's, in each round")
for what, by in took.items():
    ratios = sorted(theirs / max(ours, 0.01) for ours, theirs in zip(by["weir"], by["ganesha"]))
    seconds = [f"{statistics.median(by[server]):7.1f}s" for server in ("weir", "ganesha")]
    print(f"{what:10}", *seconds, f"  {statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})")
PY
