#!/usr/bin/env bash
# Builds the program as it is handed out: optimised, and linked by Zig against the symbols of an older
# glibc than this machine has. Says where it is.
#
#   build.sh GLIBC      such as 2.28
#
# Zig and cargo-zigbuild are in $WEIR_CACHE/dist-tools (scripts/install-tools.sh dist).
# needs: cargo cc
set -euo pipefail

GLIBC=${1:?the oldest glibc that it shall run with}
CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
cd "$(dirname "$(realpath "$0")")/.."
export PATH=$CACHE/dist-tools/bin:$PATH
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
triple=$(uname -m)-unknown-linux-gnu

cargo-zigbuild build --locked --profile dist -p weir --bin weir --target "$triple.$GLIBC" >&2
echo "$CARGO_TARGET_DIR/$triple/dist/weir"
