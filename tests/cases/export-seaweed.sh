#!/usr/bin/env bash
# All of the case `export` with another S3 server, SeaweedFS, which holds the conditions of each PUT,
# copy, completion of parts and DELETE.
LAKE_SERVER=seaweed
source "$(dirname "$0")/export.sh"
