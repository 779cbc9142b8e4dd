#!/usr/bin/env bash
# The base image of the tests, built once per checkout into .work/data, and the files of a Debian with systemd, of
# which a test makes a container image, into .work/oci.
set -euo pipefail
cd "$(dirname "$0")/.."
export WARREN_DATA="$PWD/.work/data"
mkdir -p "$WARREN_DATA" .work/oci
chmod 700 "$WARREN_DATA"
debian=
if [ ! -e .work/oci/debian.tar ]; then
    # The host's own Debian, as images are built of it. It is unpacked while the base image is built.
    (
        mmdebstrap --quiet --mode=unshare --variant=minbase --include=systemd-sysv,kmod \
            --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' \
            "$(. /etc/os-release && echo "$VERSION_CODENAME")" .work/oci/debian.tmp.tar
        mv .work/oci/debian.tmp.tar .work/oci/debian.tar
    ) &
    debian=$!
fi
# An image of an earlier run is kept; its warm generation follows agent and QEMU.
bin/warren image build base --if-missing
[ -z "$debian" ] || wait "$debian"
