#!/usr/bin/env bash
# The core of the real-VM suite as a user without any privilege, on its own
# copy of the image. Prints `go test -json` events.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
  echo "already unprivileged: the suite before this one was it"
  exit 0
fi
base=$(mktemp -d /tmp/warren-user.XXXXXX)
trap 'rm -rf "$base"' EXIT
mkdir -p "$base/home" "$base/run" "$base/data"
go test -c -tags=system -o "$base/system.test" ./test/system
cp bin/warren "$base/warren"
cp -a --sparse=always .work/data/images "$base/data/images"
chown -R 65534:65534 "$base"
chmod 700 "$base/home" "$base/run" "$base/data"
chmod 755 "$base"
cd "$base"
set +e
setpriv --reuid=65534 --regid=65534 --clear-groups \
  env -i PATH="$PATH" HOME="$base/home" XDG_RUNTIME_DIR="$base/run" TMPDIR="$base/home" \
  WARREN_TEST_BINARY="$base/warren" WARREN_TEST_IMAGES="$base/data/images" \
  "$base/system.test" -test.v=test2json -test.timeout=8m -test.run='^TestCore' -test.skip='^TestCore(Terminal|State|Service|Prepared|Resize)' |
  go tool test2json -t -p github.com/warren-vm/warren/test/system/unprivileged
exit "${PIPESTATUS[0]}"
