#!/usr/bin/env bash
# make bench: figures, their lower bounds and their peers, measured in one run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test-image.sh
# libvirt is a peer; bench runs a libvirtd of its own. Without it, as without
# root, the report says that its figures are missing.
if ! command -v virsh >/dev/null || ! command -v libvirtd >/dev/null; then
  apt-get install -y -q --no-install-recommends libvirt-daemon-system libvirt-clients >&2 || echo "bench: no libvirt" >&2
fi
exec go run ./bench -binary "$PWD/bin/warren" -images "$PWD/.work/data/images" "$@"
