#!/usr/bin/env bash
# Makes what is handed out from a program that is built: a tarball, .deb, .rpm, a Python wheel, an OCI
# image, a bill of materials, and the sums of all.
#
#   WEIR=PROGRAM packages.sh DIRECTORY [GLIBC [KIND...]]
#
# GLIBC  refuse a program that needs a later glibc than this, such as 2.28
# KIND   these only: tarball, deb, rpm, wheel, oci, sbom
# DEB_COMPRESSION in the environment: of .deb (xz)
# The same program makes the same bytes (.rpm aside): times are those of the last commit.
# needs: awk cargo dpkg-deb git gzip python3 readelf rpmbuild sha256sum strip tar
set -euo pipefail

WEIR=$(realpath "${WEIR:?the program to package}")
OUT=$(realpath -m "${1:?where to put the packages}")
GLIBC_MAX=${2:-}
KINDS=("${@:3}")
((${#KINDS[@]})) || KINDS=(tarball deb rpm wheel oci sbom)
cd "$(dirname "$(realpath "$0")")"
fail() { echo "packages.sh: $*" >&2; exit 1; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y "$WEIR")}
export SOURCE_DATE_EPOCH
umask 022
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# What the program asks of the machine that it runs on.
case $(readelf -h "$WEIR" | awk '/Machine:/ {print $NF}') in
    X86-64) ARCH=x86_64 DEB_ARCH=amd64 OCI_ARCH=amd64 ;;
    AArch64) ARCH=aarch64 DEB_ARCH=arm64 OCI_ARCH=arm64 ;;
    *) fail "$WEIR is for no machine that packages are made for" ;;
esac
GLIBC=$(readelf -W --version-info "$WEIR" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
GLIBC=${GLIBC#GLIBC_}
[ -z "$GLIBC_MAX" ] || [ "$(printf '%s\n' "$GLIBC" "$GLIBC_MAX" | sort -V | tail -1)" = "$GLIBC_MAX" ] ||
    fail "$WEIR needs glibc $GLIBC, later than $GLIBC_MAX: build it with make dist"
LIBRARIES=$(readelf -d "$WEIR" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | xargs)
VERSION=$("$WEIR" --version | awk '{print $2}')

lay_out() { # ROOT [SBIN]: the files as a package has them
    WEIR=$WORK/weir PREFIX=/usr SBIN=${2:-/usr/sbin} ./install.sh "$1"
    gzip -9n "$1"/usr/share/man/man?/*
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

packed() { # DIRECTORY NAME: a .tar.gz of NAME in it, always the same
    tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner -c "$2" | gzip -9n
}

make_tarball() {
    local name=weir-$VERSION-$ARCH-linux
    mkdir "$WORK/tarball"
    # To be unpacked below any prefix, as with tar -C /usr/local --strip-components=1.
    cp -a "$WORK/root/usr" "$WORK/tarball/$name"
    for helper in mount.weir mount.fuse.weir umount.weir umount.fuse.weir; do
        ln -sfn ../bin/weir "$WORK/tarball/$name/sbin/$helper"
    done
    find "$WORK/tarball" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    packed "$WORK/tarball" "$name" >"$OUT/$name.tar.gz"
}

make_deb() {
    local root=$WORK/deb needs="libc6 (>= $GLIBC), ca-certificates"
    [[ $LIBRARIES != *libgcc_s* ]] || needs+=", libgcc-s1"
    # Where /sbin is a directory of its own, as it may be in Debian 11, mount(8) looks there only.
    lay_out "$root" /sbin
    install -D -m 755 -t "$root/DEBIAN" deb/postinst deb/prerm deb/postrm
    echo /etc/logrotate.d/weir >"$root/DEBIAN/conffiles"
    cat >"$root/DEBIAN/control" <<CONTROL
Package: weir
Version: $VERSION
Architecture: $DEB_ARCH
Maintainer: The Weir authors <weir@localhost>
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: $needs
Recommends: fuse3
Suggests: logrotate
Section: admin
Priority: optional
Description: shared POSIX file system on object storage, with local NVMe speed
 Objects in a bucket hold everything. A directory on a local disk holds what is
 in use. weir is the one program that moves bytes between them, and it says what
 that costs.
CONTROL
    dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$OUT/weir_${VERSION}_$DEB_ARCH.deb" >/dev/null
}

make_rpm() {
    rpmbuild --quiet -bb --target "$ARCH" --define "_topdir $WORK/rpm" --define "_rpmdir $OUT" \
        --define "_rpmfilename weir-$VERSION-1.$ARCH.rpm" --define "version $VERSION" \
        --define "laid_out $WORK/root" rpm/weir.spec >"$WORK/rpm.log" 2>&1 || fail "rpmbuild: $(cat "$WORK/rpm.log")"
}

make_wheel() { python3 wheel.py "$WORK/weir" "$VERSION" "manylinux_${GLIBC/./_}_$ARCH" "$OUT"; }
make_oci() { python3 oci.py "$WORK/weir" "$VERSION" "$OCI_ARCH" "$OUT/weir-$VERSION-$ARCH-oci.tar"; }
make_sbom() { python3 sbom.py "$VERSION" >"$OUT/weir-$VERSION.cdx.json"; }

mkdir -p "$OUT"
rm -f "$OUT"/weir[-_]* "$OUT/SHA256SUMS"
strip -o "$WORK/weir" "$WEIR"
lay_out "$WORK/root"
for kind in "${KINDS[@]}"; do "make_$kind"; done
(cd "$OUT" && sha256sum weir[-_]* >SHA256SUMS)
echo "weir $VERSION for $ARCH, glibc $GLIBC or later; libraries: $LIBRARIES"
