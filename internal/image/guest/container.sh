# Makes the disk of an image from the files of a container image. It runs as root of a user namespace that has
# no rights on this host, in an empty directory that only this namespace reaches. No program of the
# container image runs here.
#   20  the disk, a file to fill with an ext4 file system
#   23  facts: lines of the form key=value go out here
#   24  a tar: the files
# Arguments: the free space to leave in MiB, the label, the number of files.
set -eu -o pipefail
umask 022
step() { echo "warren-step: $*" >&2; }

step unpack
mkdir -m 0755 tree
tar -C tree --numeric-owner --same-owner --delay-directory-restore --xattrs --xattrs-include='*' -xpf - <&24 >&2
step disk
used=$(du -smx tree | cut -f1)
size=$(((used * 106 / 100 + $1 + 1023) / 1024 * 1024))
echo "diskMib=$size" >&23
inodes=$((size * 64)) # what mke2fs would make
[ "$inodes" -ge "$(($3 + 30000))" ] || inodes=$(($3 * 5 / 4 + 30000))
mke2fs -q -F -t ext4 -N "$inodes" -L "$2" -m 0 -J size=32 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0 \
    -d tree /proc/self/fd/20 "${size}M" >&2
chmod -R u+rwX tree 2>/dev/null || true
rm -rf tree
