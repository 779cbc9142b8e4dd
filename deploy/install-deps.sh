#!/bin/sh
# Installs the Debian packages that Warren needs on a host, and nothing that is
# there already; with --tests also those that the tests need. As root it installs
# them; as somebody else it prints the one command. Exit status: 0 all there, 1
# something is missing.
set -eu

missing=
need() { # program package
    PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 && return
    case " $missing " in *" $2 "*) ;; *) missing="$missing $2" ;; esac
}

need qemu-system-x86_64 qemu-system-x86
need qemu-img qemu-utils
need mmdebstrap mmdebstrap
need newuidmap uidmap
need mke2fs e2fsprogs
need unshare util-linux
need xz xz-utils
need git git
need ssh openssh-client
if [ "${1:-}" = --tests ]; then
    need mkfs.xfs xfsprogs
    need rsync rsync
    need chromium chromium
    need gh gh
    need socat socat
    need gocryptfs gocryptfs
    need fusermount fuse
    need s3cmd s3cmd
    need rclone rclone
    need clamd clamav-daemon
fi

missing=${missing# }
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends $missing"
if [ "$(id -u)" -ne 0 ]; then
    echo "warren needs packages that are not installed. Run this, then try again:" >&2
    echo "    sudo sh -c 'apt-get update && $install'" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# With package lists that are there already an update is often not needed.
# shellcheck disable=SC2086
$install >/dev/null 2>&1 || { apt-get update -q && $install; }
