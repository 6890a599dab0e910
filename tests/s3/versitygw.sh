#!/usr/bin/env bash
# An S3 server for tests: versitygw (Apache-2.0) over a directory, on loopback, without TLS.
#
#   versitygw.sh install          build it into the tools cache, unless it is there or on the path
#   versitygw.sh start DIR PORT   serve DIR (each directory in it is a bucket); print the pid
#   versitygw.sh stop PID         end that server and wait for its end
#
# Keys: S3_ACCESS_KEY and S3_SECRET_KEY (weirtest, weirtestsecret). It cannot hold keys `k` and
# `k/x` together.
# needs: go
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

version=v1.8.0
bin=${WEIR_CACHE:-$HOME/.cache/weir}/bin

file() { program versitygw "$bin/versitygw" "$HOME/go/bin/versitygw"; }

install() {
    if file 2>/dev/null; then return; fi
    command -v go >/dev/null || {
        echo "versitygw is built with Go: install Go 1.25 or later, https://go.dev/dl" >&2
        exit 1
    }
    mkdir -p "$bin"
    GOBIN=$bin CGO_ENABLED=0 go install "github.com/versity/versitygw/cmd/versitygw@$version"
    file
}

# Lists the buckets with signed keys: only a server that is ready answers 200.
answers() { # PORT
    if command -v curl >/dev/null; then
        asks GET "$1" ""
    else
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
    fi
}

start() { # DIR PORT
    local dir=$1 port=$2 file
    file=$(file)
    mkdir -p "$dir"
    ROOT_ACCESS_KEY=$key ROOT_SECRET_KEY=$secret \
        "$file" --port "127.0.0.1:$port" --quiet --keep-alive posix "$dir" </dev/null >/dev/null 2>&1 &
    ready versitygw $! "$port" /dev/null answers "$port"
}

main 2 "$@"
