#!/usr/bin/env bash
# Installs what is missing: `build` for building and `make run`, `test` for the test suites,
# `bench` for `make bench`.
# Debian and its like; elsewhere it says what to install.
set -euo pipefail
CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
mkdir -p "$CACHE/bin"

packages() { # PROGRAM=PACKAGE ...: installs the packages of programs and files that are not there
  local missing=() pair
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "please install: ${missing[*]}" >&2
    exit 1
  fi
  echo "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

cargo_tool() { # PROGRAM CRATE@VERSION: into the cache, built once
  [ -x "$CACHE/bin/$1" ] || command -v "$1" >/dev/null || {
    echo "building $2"
    CARGO_TARGET_DIR="$CACHE/tools-target" cargo install --quiet --locked --root "$CACHE" "$2"
  }
}

for what in "$@"; do
  case $what in
    build)
      packages cc=build-essential fusermount3=fuse3 blastn=ncbi-blast+
      command -v cargo >/dev/null || { echo "please install Rust: https://rustup.rs" >&2; exit 1; }
      ;;
    test)
      packages fio=fio sqlite3=sqlite3 git=git mkfs.xfs=xfsprogs xfs_io=xfsprogs setfattr=attr curl=curl \
        python3=python3 strace=strace go=golang-go unshare=util-linux jq=jq man=man-db \
        chromium=chromium \
        bwa=bwa samtools=samtools /usr/share/doc/bowtie2/examples=bowtie2-examples \
        /usr/lib/python3/dist-packages/boto3=python3-boto3 \
        /usr/lib/llvm-14/lib/libclang.so.1=libclang1-14 \
        nbdkit=nbdkit nbdinfo=libnbd-bin qemu-io=qemu-utils openssl=openssl \
        /usr/lib/python3/dist-packages/nbd.py=python3-libnbd
      tests/s3/versitygw.sh install
      cargo_tool pjdfstest pjdfstest@0.2.2
      cargo_tool fsx fsx@0.3.2
      scripts/vm.sh setup
      scripts/vm.sh zfs
      ;;
    bench)
      packages fio=fio python3=python3 go=golang-go nbdkit=nbdkit
      tests/s3/versitygw.sh install >/dev/null
      ;;
    *) echo "usage: $0 build|test|bench ..." >&2; exit 2 ;;
  esac
done
