#!/usr/bin/env bash
# The base image of the tests, built once per checkout into .work/data.
set -euo pipefail
cd "$(dirname "$0")/.."
export WARREN_DATA="$PWD/.work/data"
mkdir -p "$WARREN_DATA"
chmod 700 "$WARREN_DATA"
if bin/warren image ls --json | grep -q '"name": *"base"'; then
  # Kept from an earlier run; the warm generation follows agent and QEMU.
  bin/warren image build base --if-missing
else
  bin/warren image build base
fi
