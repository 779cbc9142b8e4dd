#!/usr/bin/env bash
# What limits an encrypted volume: the processor time and the elapsed time of this
# host's qemu-io for 256 MiB of the host's cache, through a plain qcow2 and through
# LUKS with one thing changed at a time. No guest runs. docs/performance.md has the
# figures.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mib=256
secret=(--object secret,id=k0,data=0123456789abcdef)
luks=encrypt.format=luks,encrypt.key-secret=k0,encrypt.iter-time=10
declare -A made=(
  [plain]=""
  [aes-256-xts]="$luks"
  [aes-128-xts]="$luks,encrypt.cipher-alg=aes-128"
  [aes-256-cbc]="$luks,encrypt.cipher-mode=cbc,encrypt.ivgen-alg=essiv,encrypt.ivgen-hash-alg=sha256"
  [2M-clusters]="$luks,cluster_size=2M"
)
order=(plain aes-256-xts aes-128-xts aes-256-cbc 2M-clusters)

# measure IMAGE COMMAND SIZE: runs the command for each SIZE bytes of the image.
measure() {
  local image="driver=qcow2,file.filename=$dir/$1" args=() at
  if [ "$1" != plain ]; then image+=,encrypt.key-secret=k0; fi
  for ((at = 0; at < mib << 20; at += $3)); do args+=(-c "$2 -q $at $3"); done
  case $2 in aio*) args+=(-c aio_flush) ;; esac
  local TIMEFORMAT='%R %U %S' wall user sys
  read -r wall user sys < <({ time qemu-io "${secret[@]}" --image-opts -t writeback "$image" "${args[@]}" >"$dir/log" 2>&1; } 2>&1)
  awk -v i="$1" -v c="$2" -v s="$3" -v m=$mib -v w="$wall" -v u="$user" -v y="$sys" 'BEGIN {
    printf "%-12s %-9s %5d KiB  %5.2f ms/MiB user  %5.2f ms/MiB kernel  %6.0f MB/s\n", i, c, s / 1024, 1000 * u / m, 1000 * y / m, m * 1.048576 / w }'
}

qemu-img --version | head -n 1
for lib in libnettle libgcrypt; do
  if ldd "$(command -v qemu-img)" | grep -q $lib; then echo "linked with $lib"; fi
done
for i in "${order[@]}"; do
  qemu-img create -q -f qcow2 "${secret[@]}" ${made[$i]:+-o "${made[$i]}"} "$dir/$i" ${mib}M
  measure "$i" write $((1 << 20)) >"$dir/first" # which also allocates
done
for i in "${order[@]}"; do
  measure "$i" read $((1 << 20))
  measure "$i" read $((64 << 10))
  measure "$i" aio_read $((1 << 20)) # all at once
  measure "$i" write $((1 << 20))
done
echo "OpenSSL, AES-256-XTS, one thread, 512 bytes each:"
openssl speed -elapsed -seconds 1 -bytes 512 -evp aes-256-xts 2>/dev/null | tail -n 1
