#!/usr/bin/env bash
# time-limit: 240
# All of the case `links-model-versitygw` with another S3 server, SeaweedFS.
LAKE_SERVER=seaweed
source "$(dirname "$0")/links-model-versitygw.sh"
