#!/usr/bin/env bash
# The images of the tests, built once per checkout into .work/data.
set -euo pipefail
cd "$(dirname "$0")/.."
export WARREN_DATA="$PWD/.work/data"
mkdir -p "$WARREN_DATA"
chmod 700 "$WARREN_DATA"
# An image of an earlier run is kept; its warm generation follows agent and QEMU.
bin/warren image build base --if-missing
bin/warren image build docker --if-missing
