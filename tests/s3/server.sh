# What the S3 servers for tests have in common: sourced by the script of each.
# shellcheck shell=bash disable=SC2034 # what it sets is used there
# needs: curl make

key=${S3_ACCESS_KEY:-weirtest} secret=${S3_SECRET_KEY:-weirtestsecret}

# The file of a program: the first of these that is there, or one on the path.
program() { # NAME FILE...
    local name=$1 file
    for file in "${@:2}" "$(command -v "$name" || true)"; do
        if [ -n "$file" ] && [ -x "$file" ]; then
            echo "$file"
            return
        fi
    done
    echo "$name is not installed: run \`make test-tools\`" >&2
    return 1
}

# Answers whether the request, which is signed, was granted.
asks() { # METHOD PORT PATH
    local nothing=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    curl -fsS -o /dev/null --max-time 5 -X "$1" --aws-sigv4 aws:amz:us-east-1:s3 \
        -H "x-amz-content-sha256: $nothing" --user "$key:$secret" "http://127.0.0.1:$2/$3" 2>/dev/null
}

# Prints the pid of a server that was started just now once it is ready: COMMAND succeeds.
ready() { # NAME PID PORT LOG COMMAND...
    local name=$1 pid=$2 port=$3 log=$4 tries=0
    shift 4
    # A pause first: should the port be taken, it is the other server that answers.
    until sleep 0.2 && kill -0 "$pid" 2>/dev/null && "$@"; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
            kill "$pid" 2>/dev/null || true
            echo "$name does not answer on 127.0.0.1:$port; is the port taken? $(tail -n 3 "$log")" >&2
            exit 1
        fi
    done
    echo "$pid"
}

stop() { # PID
    kill "$1" 2>/dev/null || return 0
    while kill -0 "$1" 2>/dev/null; do
        sleep 0.05
    done
}

usage() {
    sed -n '4,6s/^# *//p' "$0" >&2
    exit 2
}

# What a script of a server does: `install`, `start ARGS...`, of which there are so many, `stop PID`.
main() { # START_ARGS ARGS...
    local count=$1
    shift
    case "${1:-}:$#" in
        install:1) install ;;
        start:$((count + 1))) start "${@:2}" ;;
        stop:2) stop "$2" ;;
        *) usage ;;
    esac
}
