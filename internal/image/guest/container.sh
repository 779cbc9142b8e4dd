# Makes the disk of an image from the files of a container image. It runs as root of a user namespace that has
# no rights on this host, in an empty directory that only this namespace reaches. Programs of the container image run
# only for a recipe above it, with the image as their root.
#   20  the disk, a file to fill with an ext4 file system
#   23  facts: lines of the form key=value go out here
#   24  a tar: the files
#   21  a tar: what the recipe above the image does, see container-steps.sh; closed if there is no recipe
# Arguments: the free space to leave in MiB, the label, the number of files.
set -eu -o pipefail
umask 022
step() { echo "warren-step: $*" >&2; }

step unpack
mkdir -m 0755 tree
tar -C tree --numeric-owner --same-owner --delay-directory-restore --xattrs --xattrs-include='*' -xpf - <&24 >&2
if [ -e /proc/self/fd/21 ]; then
    # The image becomes the root of a mount namespace. Without the right to mount, nothing in it reaches what is below.
    unshare --mount bash -eu -c '
        mount --bind tree tree
        mkdir -p tree/.warren-steps tree/proc tree/dev
        tar -C tree/.warren-steps --no-same-owner -xf - <&21
        mount -t proc proc tree/proc 2>/dev/null || mount --rbind /proc tree/proc
        mount -t tmpfs -o mode=0755 tmpfs tree/dev
        for d in null zero full random urandom tty; do
            : >tree/dev/$d
            mount --bind /dev/$d tree/dev/$d
        done
        ln -s /proc/self/fd tree/dev/fd
        cd tree
        # mount(8) then looks at the path of what it moved, which nobody may here.
        said=$(mount --no-canonicalize --move . / 2>&1) || case $said in *"filesystem was mounted"*) ;; *) echo "$said"; exit 1 ;; esac
        exec setpriv --bounding-set=-sys_admin chroot . /bin/sh -eu /.warren-steps/run.sh </dev/null 20>&- 21>&- 23>&- 24>&-' >&2 ||
        { [ $? != 127 ] || echo "warren-error: the image has no /bin/sh, so a recipe above it can only add files" >&2; exit 1; }
    rm -rf tree/.warren-steps
fi
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
