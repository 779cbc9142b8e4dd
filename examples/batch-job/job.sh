#!/usr/bin/env bash
# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

# job.sh BUCKET: a batch job. Every object below BUCKET/in/ is worked on in a machine of its own, and the result is
# stored below BUCKET/out/. The machines are gone afterwards; the objects stay, with their history.
set -euo pipefail
bucket=${1:?which bucket? job.sh BUCKET}

warren artifact ls "s3://$bucket/in/" --json | sed -n 's/^ *"key": "\(.*\)".*/\1/p' | while read -r key; do
    file=${key##*/}
    # No network, and an end after at most an hour: what runs here may be somebody else's program.
    warren run --input "s3://$bucket/$key" --publish "/work/$file.count=s3://$bucket/out/" -- \
        sh -c 'wc -l <"$0" >"$0.count"' "/work/$file" </dev/null
    echo "$file: $(warren artifact get "s3://$bucket/out/$file.count" -) lines"
done
