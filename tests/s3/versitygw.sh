#!/usr/bin/env bash
# An S3 server for tests: versitygw (Apache-2.0) over a directory, on loopback, without TLS.
#
#   versitygw.sh install          build it into the tools cache, unless it is there or on the path
#   versitygw.sh start DIR PORT   serve DIR (each directory in it is a bucket); print the pid
#   versitygw.sh stop PID         end that server and wait for its end
#
# Keys: S3_ACCESS_KEY and S3_SECRET_KEY (weirtest, weirtestsecret). It cannot hold keys `k` and
# `k/x` together.
# needs: curl go make
set -euo pipefail

version=v1.8.0
bin=${WEIR_CACHE:-$HOME/.cache/weir}/bin

program() {
    for file in "$bin/versitygw" "$(command -v versitygw || true)" "$HOME/go/bin/versitygw"; do
        if [ -n "$file" ] && [ -x "$file" ]; then
            echo "$file"
            return
        fi
    done
    echo "versitygw is not installed: run \`make test-tools\`" >&2
    return 1
}

install() {
    if file=$(program 2>/dev/null); then
        echo "$file"
        return
    fi
    command -v go >/dev/null || { echo "versitygw is built with Go: install it first" >&2; exit 1; }
    mkdir -p "$bin"
    GOBIN=$bin CGO_ENABLED=0 go install "github.com/versity/versitygw/cmd/versitygw@$version"
    program
}

# Lists the buckets with signed keys: only a server that is ready answers 200.
answers() {
    if command -v curl >/dev/null; then
        local nothing=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
        curl -fsS -o /dev/null --max-time 2 --aws-sigv4 aws:amz:us-east-1:s3 \
            -H "x-amz-content-sha256: $nothing" \
            --user "$key:$secret" "http://127.0.0.1:$1/" 2>/dev/null
    else
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
    fi
}

start() {
    local dir=$1 port=$2 file pid tries=0
    file=$(program)
    key=${S3_ACCESS_KEY:-weirtest} secret=${S3_SECRET_KEY:-weirtestsecret}
    mkdir -p "$dir"
    ROOT_ACCESS_KEY=$key ROOT_SECRET_KEY=$secret \
        "$file" --port "127.0.0.1:$port" --quiet --keep-alive posix "$dir" </dev/null >/dev/null 2>&1 &
    pid=$!
    # A pause first: should the port be taken, it is the other server that answers.
    until sleep 0.2 && kill -0 "$pid" 2>/dev/null && answers "$port"; do
        tries=$((tries + 1))
        if [ $tries -gt 50 ] || ! kill -0 "$pid" 2>/dev/null; then
            kill "$pid" 2>/dev/null || true
            echo "versitygw does not answer on 127.0.0.1:$port; is the port taken?" >&2
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

case ${1:-} in
    install) install ;;
    start) [ $# -eq 3 ] || usage; start "$2" "$3" ;;
    stop) [ $# -eq 2 ] || usage; stop "$2" ;;
    *) usage ;;
esac
