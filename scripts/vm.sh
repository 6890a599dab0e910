#!/usr/bin/env bash
# A small virtual machine whose kernel has what the host's may lack: NBD and ublk clients, NFS, XFS,
# OpenZFS. It is emulated, so it proves what is right and says nothing about speed.
#
#   vm.sh setup              what it runs with: QEMU, a Debian kernel that is not installed
#   vm.sh zfs                OpenZFS for that kernel, built once from Debian's sources (minutes)
#   vm.sh run JOB [ARG...]   boot, run the bash script JOB as root, end as it ends; needs root here
#
# The guest's root is the host's, read-only below a layer in memory that goes with the guest: what
# is installed here runs there. JOB is an absolute path; ARGs go to QEMU. A disk is
# `-drive file=F,format=raw,if=none,id=a,cache=unsafe -device virtio-blk-pci,drive=a,serial=NAME`,
# found by /sys/block/vd*/serial. The host is 10.0.2.2. A guest that resets itself ends there.
#
# VM_ZFS      whether it has OpenZFS, which measures its own speed when it is loaded (no)
# VM_SHARE    a directory that the guest may write: `mount -t virtiofs share DIR` (none)
# VM_MEMORY   MiB (3072)        VM_CPUS   (2)        VM_TIMEOUT   seconds (1200)
# WEIR_CACHE  all that it keeps is in vm below it (~/.cache/weir)
# needs: awk cpio depmod dpkg-deb modprobe mount qemu-system-x86_64 sha256sum tar xz
# needs: /usr/lib/qemu/virtiofsd /var/lib/dpkg/info/busybox-static.list
# To build OpenZFS:
# needs: autoconf automake cc gawk gcc-12 libtoolize make strip
set -euo pipefail

DIR=${WEIR_CACHE:-$HOME/.cache/weir}/vm
MACHINE=6b1a2f3c-94d7-4c1e-8a52-0f5d7e9b3c61
RUN=$DIR/run
SELF=$(realpath "$0")
# The guest's packages come through lists of their own: the machine's stay as they are.
APT=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$DIR/apt/etc"
    -o "Dir::State::lists=$DIR/apt/lists" -o "Dir::Cache=$DIR/apt/cache" -o APT::Sandbox::User=root)
RELEASE=bookworm-backports
MODULES="virtio_pci virtio_net virtio_blk virtiofs overlay fuse loop dm-mod dm-flakey raid0 xfs ext4 nbd ublk_drv
    nfs nfsv3 nfsv4 nfsd veth sch_netem failover net_failover af_packet zlib_deflate zlib_inflate"

die() {
    echo "vm.sh: $*" >&2
    exit 1
}

kernel() { cat "$DIR/kernel" 2>/dev/null || die "there is no kernel: run $0 setup"; }

# The machine's own Debian sources, and contrib and backports besides.
refresh_lists() {
    local own=/etc/apt/sources.list.d/debian.sources etc=$DIR/apt/etc
    [ -e "$own" ] || die "there is no $own: this needs Debian 12"
    mkdir -p "$etc" "$DIR"/apt/{lists,cache/archives}/partial "$DIR/k" "$RUN"
    sed 's/^Components:.*/Components: main contrib/' "$own" >"$etc/all.sources"
    awk -v RS= -v suite=$RELEASE \
        '/bookworm-updates/ { sub(/Suites:[^\n]*/, "Suites: " suite); print; exit }' \
        "$etc/all.sources" >"$etc/bpo.sources"
    apt-get "${APT[@]}" update >"$RUN/apt.log" 2>&1 || die "no package lists: see $RUN/apt.log"
}

fetch() { # DIRECTORY PACKAGE...: the packages' files
    local into=$1
    shift
    (cd "$into" && apt-get "${APT[@]}" download "$@" >>"$RUN/apt.log" 2>&1) ||
        die "cannot fetch $*: see $RUN/apt.log"
}

unpack() { # DIRECTORY FILE...
    local into=$1 file
    shift
    for file in "$@"; do
        dpkg-deb -x "$file" "$into"
        rm "$file"
    done
}

depends() { # PACKAGE [PATTERN]: the first package that it depends on
    apt-cache "${APT[@]}" -o APT::Default-Release=$RELEASE depends "$1" |
        awk -v pattern="${2:-.}" '/Depends:/ && $2 ~ pattern { print $2; exit }'
}

setup() {
    "$(dirname "$SELF")/install-tools.sh" packages-of "$SELF"
    if ! [ -e "$DIR/kernel" ]; then
        refresh_lists
        local package version files
        package=$(depends linux-image-cloud-amd64)
        version=${package#linux-image-}
        files=$(mktemp -d "$DIR/files.XXXX")
        fetch "$files" "$package"
        mkdir -p "$DIR/k/$version"
        unpack "$DIR/k/$version" "$files"/*.deb
        rm -rf "$files"
        echo "$version" >"$DIR/kernel"
    fi
    initramfs
    echo "virtual machine: kernel $(kernel)"
}

# What the initramfs is made of: it is made anew when this changes.
initramfs_key() {
    kernel
    ls "$DIR/zfs/$(kernel)" 2>/dev/null || true
    sha256sum <"$SELF"
}

# Busybox, the modules, and an init that enters the host's root.
initramfs() {
    local version tree modules name file into
    [ "$(cat "$DIR/initrd.key" 2>/dev/null)" = "$(initramfs_key)" ] && return
    version=$(kernel)
    modules=$DIR/k/$version/lib/modules/$version
    tree=$(mktemp -d "$DIR/tree.XXXX")
    into=$tree/lib/modules/$version
    mkdir -p "$tree"/{bin,proc,sys,dev,ro,rw,new} "$into/extra"
    cp /bin/busybox "$tree/bin/"
    for name in sh mount modprobe mkdir cat; do ln -s busybox "$tree/bin/$name"; done
    [ -e "$modules/modules.dep" ] || depmod -b "$DIR/k/$version" "$version"
    cp "$modules"/modules.{builtin,order,builtin.modinfo} "$into/"
    for name in $MODULES; do
        # A kernel may have it built in.
        modprobe -d "$DIR/k/$version" -S "$version" --show-depends "$name" 2>/dev/null || true
    done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
        name=${file#"$modules"/}
        mkdir -p "$into/$(dirname "$name")"
        case $name in
            *.xz) xz -dc "$file" >"$into/${name%.xz}" ;;
            *) cp "$file" "$into/$name" ;;
        esac
    done
    cp "$DIR/zfs/$version"/*.ko "$into/extra/" 2>/dev/null || true
    depmod -b "$tree" "$version"
    init >"$tree/init"
    chmod +x "$tree/init"
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet) >"$DIR/initrd.new"
    mv "$DIR/initrd.new" "$DIR/initrd"
    rm -rf "$tree"
    initramfs_key >"$DIR/initrd.key"
}

# The guest's first program.
init() {
    cat <<'INIT'
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
echo 4 >/proc/sys/kernel/printk
echo VM-INIT
for word in $(cat /proc/cmdline); do
    case $word in
        vm.job=*) JOB=${word#*=} ;;
        vm.tools=*) TOOLS=${word#*=} ;;
    esac
done
for module in virtio_pci virtio_net virtio_blk virtiofs overlay fuse xfs ext4 nfs nfsv3 nfsv4 veth \
    ublk_drv ${TOOLS:+zfs}; do
    modprobe $module 2>/dev/null
done
modprobe nbd nbds_max=16 2>/dev/null
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
mount -t virtiofs root /ro -o ro || echo "vm: the host's root is not there"
mount -t tmpfs tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -o bind /dev /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs tmpfs /new/run
# Modules of this kernel for those inside who ask.
mkdir -p /new/lib/modules
cp -r /lib/modules/* /new/lib/modules/
[ -n "$TOOLS" ] && chroot /new /bin/sh -c \
    "tar -C $TOOLS -cf - . | tar -C / --keep-directory-symlink -xf -; ldconfig"
chroot /new /bin/bash $JOB
echo "VM-STATUS $?"
sync
echo o >/proc/sysrq-trigger
sleep 5
poweroff -f
INIT
}

# Modules for the guest, and zpool and zfs in a directory that the guest lays over its root.
zfs() {
    local version build
    version=$(kernel)
    if ! [ -e "$DIR/zfs/$version/zfs.ko" ]; then
        "$(dirname "$SELF")/install-tools.sh" packages-of "$SELF"
        refresh_lists
        build=$DIR/zfs/build
        rm -rf "$build"
        mkdir -p "$build"/{deb,source,headers} "$DIR/zfs"/{"$version",tools}
        zfs_packages "$version" "$build"
        zfs_build "$version" "$build"
        rm -rf "$build"
    fi
    initramfs
    echo "virtual machine: OpenZFS for kernel $version"
}

zfs_packages() { # VERSION BUILD
    local deb=$2/deb package names=()
    fetch "$deb" "linux-headers-$1" "linux-headers-${1%-cloud-amd64}-common" \
        "$(depends "linux-headers-$1" linux-kbuild)"
    unpack "$2/headers" "$deb"/*.deb
    fetch "$deb" zfs-dkms/$RELEASE
    unpack "$2/source" "$deb"/*.deb
    for package in zfsutils-linux libzfs6linux libzpool6linux libnvpair3linux libuutil3linux; do
        names+=("$package/$RELEASE")
    done
    fetch "$deb" "${names[@]}"
    unpack "$DIR/zfs/tools" "$deb"/*.deb
}

zfs_build() { # VERSION BUILD
    local headers=$2/headers common object link module
    common=$headers/usr/src/linux-headers-${1%-cloud-amd64}-common
    object=$headers/usr/src/linux-headers-$1
    # The headers believe that they are installed below /usr.
    sed -i "s# /usr/src/# $headers/usr/src/#g; s#=/usr/src/#=$headers/usr/src/#g" "$object/Makefile"
    for link in {"$object","$common"}/{scripts,tools}; do
        [ -L "$link" ] || continue
        ln -sfn "$headers$(readlink -m "$link" | sed "s#^$headers##")" "$link"
    done
    rm -f "$object/vmlinux"
    (
        cd "$2"/source/usr/src/zfs-*
        ./configure --with-config=kernel --with-linux="$common" --with-linux-obj="$object" \
            KERNEL_CC=gcc-12 >"$RUN/zfs-configure.log" 2>&1
        make -j"$(nproc)" >"$RUN/zfs-make.log" 2>&1
        for module in spl zfs; do
            strip -g -o "$DIR/zfs/$1/$module.ko" "module/$module.ko"
        done
    ) || die "OpenZFS does not build: see $RUN/zfs-*.log"
}

# Lends a directory to the guest until this script ends.
lend() { # TAG DIRECTORY OPTION
    /usr/lib/qemu/virtiofsd --socket-path="$WORK/$1.sock" -o source="$2" -o sandbox=chroot \
        -o "$3" -o readdirplus >"$WORK/$1.log" 2>&1 &
    LENT+=($!)
    for _ in {1..100}; do
        [ -S "$WORK/$1.sock" ] && break
        sleep 0.05
    done
    DEVICES+=(-chardev "socket,id=$1,path=$WORK/$1.sock"
        -device "vhost-user-fs-pci,chardev=$1,tag=$1")
}

# shellcheck disable=SC2317 # a trap's
end_run() {
    [ ${#LENT[@]} -eq 0 ] || kill "${LENT[@]}" 2>/dev/null || true
    rm -rf "$WORK"
}

run() { # JOB [ARG...]
    local job=$1 version memory=${VM_MEMORY:-3072}M append status
    shift
    version=$(kernel)
    [ -e "$DIR/initrd" ] || die "there is no initramfs: run $0 setup"
    mkdir -p "$RUN"
    WORK=$(mktemp -d "$RUN/run.XXXX") LENT=() DEVICES=()
    trap end_run EXIT
    append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable vm.job=$job"
    [ -z "${VM_ZFS:-}" ] || append+=" vm.tools=$DIR/zfs/tools"
    # The emulator crashes a kernel now and then that changes its own code at boot: nothing ran then.
    for _ in 1 2 3; do
        boot "$@"
        ! grep -q VM-INIT "$WORK/output" || break
        echo "vm.sh: the kernel did not come up" >&2
    done
    # Behind what a program left on the line.
    status=$(sed -nE 's/^.*VM-STATUS ([0-9]+).*/\1/p' "$WORK/output" | tail -1)
    [ -n "$status" ] || echo "vm.sh: the guest ended without a status" >&2
    return "${status:-125}"
}

# Runs the machine once, with what it is lent.
boot() { # [ARG...]
    LENT=() DEVICES=()
    lend root / cache=always
    [ -z "${VM_SHARE:-}" ] || lend share "$VM_SHARE" cache=auto
    # The same machine at each run: a guest that was reset must know itself again.
    # With cx16 this emulator crashes Debian's 6.12 kernel in about half of all boots.
    timeout --foreground "${VM_TIMEOUT:-1200}" qemu-system-x86_64 -nodefaults -no-user-config -machine q35 \
        -accel tcg,thread=multi,tb-size=256 -cpu max,-cx16 -uuid $MACHINE -smp "${VM_CPUS:-2}" -m "$memory" \
        -object memory-backend-memfd,id=memory,size="$memory",share=on \
        -machine memory-backend=memory \
        -nographic -serial stdio -no-reboot \
        -kernel "$DIR/k/$version/boot/vmlinuz-$version" -initrd "$DIR/initrd" -append "$append" \
        -netdev user,id=net -device virtio-net-pci,netdev=net,romfile= "${DEVICES[@]}" "$@" \
        </dev/null 2>&1 | tr -d '\r' | tee "$WORK/output" || true
    kill "${LENT[@]}" 2>/dev/null || true
    wait "${LENT[@]}" 2>/dev/null || true
    LENT=()
    rm -f "$WORK"/*.sock
}

case ${1:-} in
    setup | zfs) "$1" ;;
    run) shift && run "$@" ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
