# NFS clients that are programs of the tests, for no kernel is needed. Sourced after `begin`.
# shellcheck shell=bash

# The newest client of `crates/door-nfs/tests/requests/goes_on.rs`.
nfs_client() {
    local client
    # shellcheck disable=SC2010,SC2012 # names of our own
    client=$(ls -t "$(dirname "$WEIR")"/deps/requests-* 2>/dev/null | grep -v '\.d$' | head -1)
    [ -x "$client" ] || fail "the NFS client is not built: make e2e builds it"
    echo "$client"
}

# A client that goes on whatever becomes of its server; its pid is in GOES_ON.
nfs_goes_on() { # IP:PORT SECONDS LONGEST GAP IN SECONDS
    local client
    client=$(nfs_client)
    WEIR_NFS=$1 WEIR_SECONDS=$2 WEIR_GAP=$3 "$client" --ignored --exact goes_on::goes_on --nocapture >"$T/client.log" 2>&1 &
    GOES_ON=$!
    remember "$GOES_ON"
}

# Waits until it has begun so many lives.
nfs_lives() { # COUNT SECONDS
    poll "$2" nfs_lived "$1" || fail "the client has no life $1: $(grep -v panicked "$T/client.log" | tail -n 5)"
}
nfs_lived() { grep -q "^life $1:" "$T/client.log"; }

# Waits for its end, and says what it did.
nfs_went_on() {
    wait "$GOES_ON" || fail "the client: $(grep -e WRONG -e without -e 'panicked at' -A1 "$T/client.log" | tail -n 12)"
    grep ' without one' "$T/client.log"
}
