#!/usr/bin/env bash
# What `make dist` hands out, made of the binary that is tested: each package is installed where it
# belongs, used there, and taken away again.
#
# --soak makes the binary as `make dist` does, for older machines (WEIR_DIST=PROGRAM: that one), and mounts with it on
# other releases of Debian and Ubuntu (WEIR_RELEASES="trixie noble": these).
# time-limit: 600
source "$(dirname "$0")/../lib.sh"
source "$TESTS/lib-root.sh"
begin
need cargo dpkg-deb git gzip jq make python3 readelf rpm rpmbuild sha256sum strip systemd-analyze tar
need /usr/lib/python3.11/ensurepip
TREE=$(realpath "$TESTS/..")
OUT=$T/out
debian_root ca-certificates fuse3 libgcc-s1 logrotate systemd systemd-sysv

# What is handed out is compressed for longer.
soaking || export DEB_COMPRESSION=gzip
"$TREE/packaging/packages.sh" "$OUT" >"$T/made.log" 2>&1 || fail "packages.sh"
VERSION=$("$WEIR" --version)
(cd "$OUT" && sha256sum --quiet -c SHA256SUMS) || fail "the sums are not those of the packages"
same "$(wc -l <"$OUT/SHA256SUMS")" 6 "packages"

echo "== a program that needs a later glibc is not packaged"
"$TREE/packaging/packages.sh" "$T/none" 2.17 2>"$T/err" && fail "packaged for a glibc that it does not run with"
grep -q 'later than 2.17' "$T/err" || fail "not told why: $(cat "$T/err")"
[ ! -e "$T/none" ] || fail "refused, and $T/none is there"

# What a root has after what was installed is gone: nothing but what it had, and what users made.
# shellcheck disable=SC2016 # for the inside
LISTED='find / -xdev \( -path /proc -o -path /dev -o -path /out -o -path "/var/lib/*" -o -path "/var/log/[^w]*" \
    -o -path "/run/[^w]*" -o -path "/var/cache/[^w]*" -o -path /etc/ld.so.cache \) -prune -o -print | sort'
# shellcheck disable=SC2016
USED='same() { [ "$1" = "$2" ] || { echo "have $1, want $2" >&2; exit 1; }; }
    same "$(weir --version)" "$1"
    for page in /usr/share/man/man?/*weir*; do gzip -t "$page"; done
    [ -e /usr/share/man/man1/weir-mount.1.gz ] && [ -e /usr/share/man/man8/mount.weir.8.gz ] && [ -e /usr/share/man/man5/weir-workload.5.gz ]
    bash -n /usr/share/bash-completion/completions/weir
    [ -s /usr/share/zsh/site-functions/_weir ] && [ -s /usr/share/fish/vendor_completions.d/weir.fish ]
    # mount(8) finds its helper, which checks the options and, with -f, goes no further.
    mount -f -t weir file:///vol /mnt -o tier=/tier,_netdev
    ! mount -f -t weir file:///vol /mnt -o no-such-option 2>/dev/null
    logrotate -d /etc/logrotate.d/weir
    cp /usr/share/doc/weir/example.env /etc/weir/vol.env
    cp /usr/share/doc/weir/example-serve.env /etc/weir/disks.env
    systemd-analyze verify --man=no weir@vol.service weir-serve@disks.service
    mkdir -p /var/cache/weir /var/log/weir && touch /var/cache/weir/precious /var/log/weir/mnt.log'

# Installs, uses and removes a package in a layer of its own.
tried() { # NAME INSTALL REMOVE WHAT STAYS...
    local name=$1 install=$2 remove=$3 layer=$T/$1
    shift 3
    mkdir -p "$layer/upper/out" && cp "$OUT"/weir[-_]*."$name" "$layer/upper/out/"
    in_root "$layer" "$LISTED >/out/before; $install; $USED; $remove; $LISTED >/out/after" "$VERSION" \
        >"$T/$name.log" 2>&1 || fail "$name"
    diff "$layer/upper/out/before" "$layer/upper/out/after" | sed -n 's/^[<>] //p' >"$T/left"
    diff <(printf '%s\n' "$@") "$T/left" || fail "$name leaves other than what users made"
    echo "ok: $name"
}

echo "== .deb"
tried deb 'dpkg -i /out/weir*.deb' 'dpkg -P weir' \
    /etc/weir /etc/weir/disks.env /etc/weir/vol.env /var/cache/weir /var/cache/weir/precious

echo "== .rpm"
# Its own dependencies are by name of another distribution's packages; what the program itself asks for
# was found by rpmbuild.
rpm -qp --requires "$OUT"/*.rpm | grep -q '^libc.so.6(GLIBC_' || fail "the .rpm does not say which glibc"
# There is no rpm in the root: it unpacks there from outside.
LAYER=$T/rpm
mkdir -p "$LAYER"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$LAYER/upper,workdir=$LAYER/work" "$LAYER/root" || fail "overlay"
rpm --root "$LAYER/root" --nodeps -i "$OUT"/*.rpm 2>"$T/rpm.log" || fail "rpm -i"
chroot "$LAYER/root" bash -euc "$USED" inside "$VERSION" >"$T/rpm.log" 2>&1 || fail "what .rpm installed"
rpm --root "$LAYER/root" --nodeps -e weir 2>"$T/rpm.log" || fail "rpm -e"
for path in usr/bin/weir usr/sbin/mount.weir usr/lib/systemd/system/weir{,-serve}@.service etc/logrotate.d/weir; do
    [ ! -e "$LAYER/root/$path" ] && [ ! -L "$LAYER/root/$path" ] || fail "rpm -e leaves $path"
done
[ -e "$LAYER/root/var/cache/weir/precious" ] || fail "rpm -e takes a tier"
umount "$LAYER/root"

echo "== wheel"
python3 -m venv "$T/venv" || fail "a virtual environment"
pip() { "$T/venv/bin/pip" "$@" --quiet --disable-pip-version-check >"$T/pip.log" 2>&1 || fail "pip $1"; }
listed() { find "$T/venv" -not -path '*/__pycache__*' | sort; }
listed >"$T/before"
pip install --no-index "$OUT"/*.whl
same "$("$T/venv/bin/weir" --version)" "$VERSION" "version from the wheel"
pip uninstall --yes weir-fs
diff "$T/before" <(listed) >"$T/left" || fail "pip uninstall leaves something: $(cat "$T/left")"

echo "== tarball"
mkdir "$T/prefix" && tar -C "$T/prefix" --strip-components=1 -xzf "$OUT"/*.tar.gz || fail "tar"
same "$("$T/prefix/bin/weir" --version)" "$VERSION" "version from the tarball"
same "$(readlink -f "$T/prefix/sbin/mount.weir")" "$T/prefix/bin/weir" "the mount helper"
# Taken away by its own list, as docs/install.md has it, with what else is below the prefix left alone.
echo other >"$T/prefix/bin/other"
by_list=$(grep "^tar -tzf" "$TREE/docs/install.md") || fail "docs/install.md does not say how a tarball is taken away"
by_list=${by_list/weir-0.1.0-x86_64-linux.tar.gz/"$OUT"/*.tar.gz}
bash -euc "${by_list/\/usr\/local/$T/prefix}" || fail "$by_list"
same "$(cd "$T/prefix" && find . ! -type d)" ./bin/other "what is left of the tarball"

echo "== OCI image"
python3 "$TESTS/tools/oci_layer.py" "$OUT"/*-oci.tar "$T/image" || fail "the image"
same "$(chroot "$T/image" /usr/bin/weir --version)" "$VERSION" "version in the image"
grep -q 'BEGIN CERTIFICATE' "$T/image/etc/ssl/certs/ca-certificates.crt" || fail "no certificates in the image"

echo "== bill of materials"
bill() { jq -e "$1" "$OUT"/*.cdx.json >/dev/null || fail "the bill of materials: $1"; }
bill '.bomFormat == "CycloneDX" and (.components | length > 100)'
bill '.components[] | select(.name == "slatedb") | .hashes[0].content | length == 64'
bill '[.components[] | select(.licenses | not)] == []'
bill '[.components[] | select(.name == "proptest")] == []'

echo "== make run with a program that is there builds nothing"
make -C "$TREE" -n run WEIR="$WEIR" >"$T/make" || fail "make run"
grep -q "WEIR=$WEIR scripts/demo.sh" "$T/make" || fail "it runs another program"
grep -q cargo "$T/make" && fail "it calls cargo"

soaking || exit 0
if [ -z "${WEIR_DIST:-}" ]; then
    echo "== built for older machines"
    "$TREE/scripts/install-tools.sh" dist >"$T/tools.log" 2>&1 || fail "the tools of make dist"
    WEIR_DIST=$("$TREE/packaging/build.sh" 2.28 2>"$T/build.log") || fail "packaging/build.sh"
fi
WEIR=$WEIR_DIST "$TREE/packaging/packages.sh" "$T/dist" "" deb >"$T/made.log" 2>&1 || fail "packages.sh"

# shellcheck disable=SC2016 # for the inside
MOUNTS='trap "weir umount --force /mnt || true" EXIT
    dpkg -i /out/weir*.deb
    mkdir /srv/bucket
    weir format file:///srv/bucket/vol
    weir mount file:///srv/bucket/vol /mnt --tier /srv/tier
    head -c 3000000 /dev/urandom >/mnt/file
    sum=$(sha256sum </mnt/file)
    weir umount /mnt
    rm -rf /srv/tier
    mount -t weir file:///srv/bucket/vol /mnt -o tier=/srv/tier
    [ "$(sha256sum </mnt/file)" = "$sum" ]
    umount /mnt
    trap - EXIT
    dpkg -P weir
    [ ! -e /usr/bin/weir ]'
debian=http://deb.debian.org/debian ubuntu=http://archive.ubuntu.com/ubuntu
for release in ${WEIR_RELEASES:-bullseye bookworm trixie focal jammy noble}; do
    case $release in
        focal | jammy | noble)
            # Debian 13 has, and so vouches for, the keys that Ubuntu signs with.
            release_root trixie "deb $debian trixie main" ca-certificates fuse3 ubuntu-keyring
            keys=$ROOT/usr/share/keyrings/ubuntu-archive-keyring.gpg
            release_root "$release" "deb [signed-by=$keys] $ubuntu $release main universe" ca-certificates fuse3
            ;;
        *) release_root "$release" "deb $debian $release main" ca-certificates fuse3 ;;
    esac
    echo "== a mount on $release"
    mkdir -p "$T/$release"/{srv,upper/out} && cp "$T/dist"/*.deb "$T/$release/upper/out/"
    in_root "$T/$release" "$MOUNTS" >"$T/$release.log" 2>&1 || fail "on $release"
done
