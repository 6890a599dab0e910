#!/usr/bin/env bash
# time-limit: 240
# The model of both sides of links (crates/engine/tests/links_model.rs) with its objects at a real
# server, for a while: random changes and crashes on both sides, and what must hold after.
source "$(dirname "$0")/../lib.sh"
begin
seed
lake_start "${LAKE_SERVER:-}"
mkdir "$T/tmp"
# shellcheck disable=SC2012 # names of our own
model=$(ls -t "$(dirname "$WEIR")"/deps/links_model-* 2>/dev/null | grep -v '\.d$' | head -1)
[ -x "$model" ] || fail "the model is not built: make e2e builds it"
export AWS_ENDPOINT_URL=http://127.0.0.1:${LAKE_PORT:-$S3_PORT}
# The same seeds each time, unless it is a soak: what chance finds there is a finding, not a red run.
first=${WEIR_SEED:-$(amount 1 "$SEED")}
TMPDIR=$T/tmp WEIR_SECONDS=$(amount 20 400) WEIR_SEED=$first \
    WEIR_LINKS_MODEL_URL=s3://lake "$model" --nocapture both_sides
