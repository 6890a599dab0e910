# shellcheck shell=bash
# Cases inside the virtual machine of scripts/vm.sh, whose kernel has what this one lacks. Source it
# after `begin`; then `vm_disk`, `guest`, `guest_cut`.
#
# What the guest keeps over a power cut are its disks, as far as it had synced them, and $T/share,
# which is this machine's and stands for a bucket elsewhere.

VM=$TESTS/../scripts/vm.sh
VM_ARGS=()
mkdir -p "$T/share"
[ -e "$WEIR_CACHE/vm/initrd" ] && [ -d "$WEIR_CACHE/vm/zfs/tools" ] ||
    fail "there is no virtual machine: run make test-tools"

# A disk of the guest, which finds it by its name.
vm_disk() { # NAME SIZE
    truncate -s "$2" "$T/$1.img"
    VM_ARGS+=(-drive "file=$T/$1.img,format=raw,if=none,id=$1,cache=unsafe"
        -device "virtio-blk-pci,drive=$1,serial=$1")
}

boot() { # [FUNCTIONS]
    {
        printf 'WEIR=%q WEIR_CACHE=%q TESTS=%q\n' "$WEIR" "$WEIR_CACHE" "$TESTS"
        # shellcheck disable=SC2016 # for the guest
        echo 'source "$TESTS/lib-guest.sh"'
        echo "${1:-}"
        cat
    } >"$T/job.sh"
    VM_SHARE=$T/share "$VM" run "$T/job.sh" "${VM_ARGS[@]}"
}

# Runs the script on standard input in the guest, which is shut down then.
guest() { # [FUNCTIONS]
    boot "$@" || fail "the guest ends with $?"
}

# The same of a script that ends with `power_cut`.
guest_cut() { # [FUNCTIONS]
    local status
    rm -f "$T/share/cut"
    boot "$@"
    status=$?
    [ -e "$T/share/cut" ] || fail "the guest did not come to the power cut: it ends with $status"
    same "$status" 125 "the end of a guest without power"
}
