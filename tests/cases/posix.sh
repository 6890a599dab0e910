#!/usr/bin/env bash
# pjdfstest: what POSIX asks of names, attributes, permissions and errors. All of it must pass.
source "$(dirname "$0")/../lib.sh"
begin
need pjdfstest
fmt_mount -o dev,suid

mkdir "$MNT/work"
chmod 777 "$MNT/work"
cd /
pjdfstest -c "$TESTS/pjdfstest.toml" -p "$MNT/work" >"$T/pjdfstest.out" 2>&1
code=$?
tail -n 60 "$T/pjdfstest.out"
[ $code -eq 0 ] || fail "pjdfstest ends with $code"
fsck_clean
