#!/usr/bin/env bash
# pjdfstest: what POSIX asks of names, attributes, permissions and errors, asked by /dev/fuse and over
# io_uring. All of it must pass; the one test that cannot run is named in pjdfstest.toml.
source "$(dirname "$0")/../lib.sh"
begin
need pjdfstest mount.fuse unshare
fmt_mount -o dev,suid

mkdir "$MNT/work" "$T/elsewhere"
chmod 777 "$MNT/work" "$T/elsewhere"
# mount(8) hands the remount of any FUSE type to mount.fuse, which can only mount anew. What is to
# be tested is the kernel's own remount; the stand-in is seen by pjdfstest alone.
cat >"$T/mount.fuse" <<'SHIM'
#!/bin/sh
exec mount -i -o "$4" "$2"
SHIM
chmod 755 "$T/mount.fuse"

cd /
suite() { # PATTERN SUMMARY: runs the tests of that name (all: "") and compares the last line
    local code
    # Whether a program runs that is opened with O_RDONLY and O_TRUNC the kernel asks when it is truncated, and on a busy
    # machine the program may have died of that.
    for _ in 1 2 3; do
        KEEP=$T unshare --mount --propagation private bash -c "$DROP_OTHERS"'
            mount --bind "$1/mount.fuse" "$(realpath /sbin/mount.fuse)" &&
                exec pjdfstest -c "$1/pjdfstest.toml" -p "$1/mnt/work" -s "$1/elsewhere" $2
        ' - "$T" "$1" >"$T/pjdfstest.out" 2>&1
        code=$?
        [ "$(awk '$NF == "FAILED" { print $1 }' "$T/pjdfstest.out")" = open::etxtbsy ] || break
    done
    grep -E -A 3 '(FAILED|skipped)$|^Summary' "$T/pjdfstest.out"
    [ $code -eq 0 ] || fail "pjdfstest $1 ends with $code"
    grep -qx "Summary: $2" "$T/pjdfstest.out" || fail "not the tests that should have run: $2"
}

# Some tests keep files open till the end of their process, on which nothing can be remounted: those
# of read-only file systems run by themselves, before the others.
cp "$TESTS/pjdfstest.toml" "$T/pjdfstest.toml"
suite erofs '0 failed, 0 skipped, 13 passed, 0 expected failures, 13 total'
sed -i 's/^allow_remount = true/allow_remount = false/' "$T/pjdfstest.toml"
most='0 failed, 14 skipped, 384 passed, 0 expected failures, 398 total'
suite '' "$most"
if over_uring remount; then
    suite '' "$most"
else
    echo "this kernel has no FUSE over io_uring"
fi
fsck_clean
