#!/usr/bin/env bash
# Lays out what is installed below a root directory: `make install` and all packages come from here.
#
#   WEIR=PROGRAM install.sh ROOT
#
# PREFIX  what the program and its pages are below (/usr)
# SBIN    where mount(8) and umount(8) look for helpers (/usr/sbin)
set -euo pipefail

WEIR=${WEIR:?the program to install}
ROOT=${1:?the root directory}
PREFIX=${PREFIX:-/usr}
SBIN=${SBIN:-/usr/sbin}
here=$(dirname "$(realpath "$0")")
share=$ROOT$PREFIX/share

install -D -m 755 "$WEIR" "$ROOT$PREFIX/bin/weir"

# What mount(8) and umount(8) call for the types `weir` (fstab) and `fuse.weir` (the kernel's name).
install -d "$ROOT$SBIN"
for helper in mount.weir mount.fuse.weir umount.weir umount.fuse.weir; do
    ln -sfn "$PREFIX/bin/weir" "$ROOT$SBIN/$helper"
done

install -d "$share"/man/man{1,5,8}
"$WEIR" "man" "$share/man/man1" >/dev/null
mv "$share"/man/man1/*.5 "$share/man/man5/"
mv "$share"/man/man1/*.8 "$share/man/man8/"
install -d "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$WEIR" completions bash >"$share/bash-completion/completions/weir"
"$WEIR" completions zsh >"$share/zsh/site-functions/_weir"
"$WEIR" completions fish >"$share/fish/vendor_completions.d/weir.fish"

install -d "$ROOT/etc/weir"
install -D -m 644 -t "$ROOT$PREFIX/lib/systemd/system" "$here"/systemd/*.service
install -D -m 644 "$here/logrotate" "$ROOT/etc/logrotate.d/weir"
install -D -m 644 -t "$share/doc/weir" "$here"/example*.env "$here/../LICENSE" "$here/../CHANGELOG.md"
