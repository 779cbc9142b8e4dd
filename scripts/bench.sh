#!/usr/bin/env bash
# make bench: figures beside their floors and peers, measured in one run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-image.sh
exec go run ./bench -binary "$PWD/bin/warren" -images "$PWD/.work/data/images" "$@"
