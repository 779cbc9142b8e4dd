# Runs once per image build as mmdebstrap's customize hook: as root of the
# build's user namespace, outside the new system, whose root is $1.
# Everything it reads and writes except $1 comes through descriptors, since
# this user may not be able to open a path of the one who builds. They are
# above 9, since apt and dash between them need the ones below; hence bash.
#   20  the disk, a file to fill with an ext4 file system
#   21  a tar: the files of the recipe, and /.warren with its lists
#   22  a tar: kernel and modules go out here
#   23  facts: lines of the form key=value go out here
#   24  a tar: the system with the packages of a layer, to start from
#   25  a tar: the same, to be written for later builds
# With "restore" as $0 it runs as the setup hook, before apt's lists are fetched.
# The environment also says:
#   WARREN_KERNEL    the package that depends on the kernel
#   WARREN_RESTORED  1 = there is a 24
#   WARREN_BELOW     packages that the layer at 25 lacks still
#   WARREN_SAVE      1 = there is a 25
#   WARREN_PACKAGES  packages above that layer
set -eu -o pipefail
umask 022
R=$1
W=$R/.warren

step() { echo "warren-step: $*" >&2; }
fact() { echo "$1=$2" >&23; }
inside() {
    chroot "$R" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
# The host's apt, with the new system's configuration: it finds the host's CAs and proxy.
outer() { APT_CONFIG=$MMDEBSTRAP_APT_CONFIG "$@"; }

# As mmdebstrap does it: apt of the host, dpkg of the new system.
apt() {
    outer apt-get --quiet=2 --yes -o Dpkg::Use-Pty=false -o Dir::Bin::dpkg=env \
        -o DPkg::Options::=--unset=TMPDIR -o DPkg::Options::=dpkg -o DPkg::Chroot-Directory="$R" "$@" </dev/null >&2
}

if [ "$0" = restore ]; then
    step restore
    exec tar -C "$R" --numeric-owner --xattrs --xattrs-include='*' -xpf - <&24
fi
mkdir -p "$W"

if [ "$WARREN_RESTORED" = 1 ]; then # what was published since
    step upgrade
    apt dist-upgrade
fi
if [ -n "$WARREN_BELOW" ]; then
    step below
    # shellcheck disable=SC2086
    apt install $WARREN_BELOW
fi

# The kernel is not installed but unpacked: Warren boots it from outside, so the
# guest needs its modules, and neither an initrd nor a boot loader.
step kernel
real=$(outer apt-cache show --no-all-versions "$WARREN_KERNEL" | sed -n 's/^Depends: *\(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
if [ -z "$real" ]; then
    echo "warren-error: no kernel package $WARREN_KERNEL in the apt sources" >&2
    exit 1
fi
real=$real=$(outer apt-cache show --no-all-versions "$real" | sed -n 's/^Version: *//p' | head -n 1)
if [ "$(cat "$R/boot/.warren-kernel" 2>/dev/null)" != "$real" ]; then # not that of the layer
    rm -rf "$R"/boot/* "$R"/usr/lib/modules/*
    mkdir "$W/deb"
    (cd "$W/deb" && outer apt-get --quiet=2 download "$real" 2>&1) >&2
    dpkg-deb --fsys-tarfile "$W"/deb/*.deb | tar -C "$R" --keep-directory-symlink --exclude='./usr/share/*' -xpf -
    rm -r "$W/deb"
    inside depmod -a "$(cd "$R/usr/lib/modules" && echo *)"
    echo "$real" >"$R/boot/.warren-kernel"
fi
release=$(cd "$R/usr/lib/modules" && echo *)

# A layer is the system as dpkg left it: without what mmdebstrap has mounted on it
# and put into it to keep daemons from starting.
if [ "$WARREN_SAVE" = 1 ]; then
    daemon=$R/usr/sbin/start-stop-daemon
    mv "$daemon" "$W/start-stop-daemon"
    mv "$daemon.REAL" "$daemon"
    unshare --mount bash -eu -c 'mount --bind "$1" "$1/mnt"; exec tar -C "$1/mnt" -cf - --numeric-owner --xattrs --xattrs-include="*" --exclude="./.warren" \
        --exclude="./dev/*" --exclude="./tmp/*" --exclude="./usr/sbin/policy-rc.d" --exclude="./var/lib/apt/lists/*" --exclude="./var/cache/apt/*" . >&25' bash "$R"
    mv "$daemon" "$daemon.REAL"
    mv "$W/start-stop-daemon" "$daemon"
    echo "warren-saved: layer" >&2
fi
if [ -n "$WARREN_PACKAGES" ]; then
    step packages
    # shellcheck disable=SC2086
    apt install --allow-downgrades $WARREN_PACKAGES # a recipe may pin an older version
fi

step files
tar -C "$R" --numeric-owner --keep-directory-symlink -xpf - <&21
# shellcheck disable=SC1091
. "$W/settings" # SLACK_MIB LABEL

tar -C "$R" -cf - "boot/vmlinuz-$release" \
    "usr/lib/modules/$release/modules.dep" "usr/lib/modules/$release/modules.builtin" "usr/lib/modules/$release/kernel" >&22
rm -f "$R/boot/vmlinuz-$release" "$R/boot/System.map-$release" "$R/boot/.warren-kernel"
fact kernel "$release"

step certificates
inside update-ca-certificates >&2 2>/dev/null || true

step users
while read -r name uid shell groups; do
    [ -n "$name" ] || continue
    for g in $(echo "$groups" | tr ',' ' '); do
        inside groupadd -f --system "$g"
    done
    set -- --create-home --shell "$shell"
    [ "$uid" = - ] || set -- "$@" --uid "$uid"
    [ -z "$groups" ] || set -- "$@" --groups "$groups"
    inside useradd "$@" "$name"
done <"$W/users"
while read -r owner path; do
    [ -n "$owner" ] || continue
    inside chown -h "$owner" "$path"
done <"$W/owners"

mapfile -t run_env <"$W/run-env"
for f in "$W"/run/*; do
    [ -e "$f" ] || continue
    n=$(basename "$f")
    step "run $n"
    if ! inside "${run_env[@]}" /bin/bash -eu -o pipefail "/.warren/run/$n" </dev/null >&2; then
        echo "warren-error: run step $n of the recipe failed" >&2
        exit 1
    fi
done

step services
while read -r unit; do
    [ -z "$unit" ] || inside systemctl enable --quiet "$unit" >&2
done <"$W/enable"
while read -r unit; do
    [ -z "$unit" ] || inside systemctl disable --quiet "$unit" >&2
done <"$W/disable"
while read -r unit; do
    [ -z "$unit" ] || ln -sfn /dev/null "$R/etc/systemd/system/$unit"
done <"$W/mask"
if [ -e "$W/mask-timers" ]; then
    for t in "$R"/usr/lib/systemd/system/*.timer; do
        n=$(basename "$t")
        grep -qxF "$n" "$W/enable" || ln -sfn /dev/null "$R/etc/systemd/system/$n"
    done
fi
inside systemctl set-default --quiet multi-user.target >&2
# The bus starts when somebody connects to its socket.
rm -f "$R/usr/lib/systemd/system/multi-user.target.wants/dbus.service"
mkdir -p "$R/etc/systemd/system-generators"
for g in bless-boot cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update veritysetup; do
    ln -sfn /dev/null "$R/etc/systemd/system-generators/systemd-$g-generator"
done

# Which registries the package managers of this system are configured for, as they say themselves.
step facts
fact packages "$(inside dpkg-query -f '.\n' -W | wc -l)"
inside apt-get indextargets --format '$(SITE)' | sort -u | sed 's/^/registry=apt /' >&23
if inside sh -c 'command -v npm' >/dev/null; then
    fact registry "npm $(inside npm config get registry)"
fi
if inside python3 -c 'import pip' 2>/dev/null; then
    inside python3 - <<'PY' | sed 's/^/registry=pip /' >&23
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
c = Configuration(isolated=False)
c.load()
got = {k.split(".", 1)[1]: v for k, v in c.items() if k.startswith(("global.", "install."))}
urls = got.get("index-url", "").split() + got.get("extra-index-url", "").split()
if "index-url" not in got:
    urls += [PyPI.simple_url, "https://" + PyPI.file_storage_domain]
print("\n".join(urls))
PY
fi
if inside sh -c 'command -v go' >/dev/null; then
    inside go env GOPROXY GOSUMDB | tr ',|' '\n\n' | sed 's/^/registry=go /' >&23
fi
if inside sh -c 'command -v cargo' >/dev/null; then
    # No stable command of cargo prints them. Its configuration may replace those that it has by itself.
    urls=$(inside sh -c 'cat "${CARGO_HOME:-/root/.cargo}/config.toml" 2>/dev/null || :' | sed -nE 's/^ *(registry|index) *= *"(sparse\+)?(https?:[^"]*)".*/\3/p')
    printf '%s\n' ${urls:-https://index.crates.io https://static.crates.io} | sed 's/^/registry=cargo /' >&23
fi

step clean
if [ -e "$R/usr/sbin/start-stop-daemon.REAL" ]; then # mmdebstrap would put it back too late
    mv "$R/usr/sbin/start-stop-daemon.REAL" "$R/usr/sbin/start-stop-daemon"
fi
rm -f "$R"/usr/sbin/policy-rc.d "$R"/etc/apt/apt.conf.d/00mmdebstrap "$R"/etc/apt/sources.list.d/0000* "$R"/etc/apt/sources.list
# A file may replace a link that leads nowhere, such as /etc/default/locale of Debian 13.
cp -a --remove-destination "$W/final/." "$R/"
rm -rf "$R"/var/lib/apt/lists "$R"/var/cache/apt "$R"/var/cache/debconf/*-old "$R"/var/lib/dpkg/*-old \
    "$R"/var/log/dpkg.log "$R"/var/log/apt "$R"/var/log/alternatives.log "$R"/var/log/bootstrap.log \
    "$R"/var/lib/dbus/machine-id "$R"/var/lib/systemd/random-seed "$R"/etc/ssh/ssh_host_* \
    "$R"/root/.npm "$R"/etc/.pwd.lock
# What was compiled is worth its space; what was downloaded is not.
[ ! -d "$R/root/.cache" ] || find "$R/root/.cache" -mindepth 1 -maxdepth 1 ! -name go-build -exec rm -rf {} +
mkdir -p "$R/var/log/apt" "$R/var/lib/apt/lists/partial" "$R/var/cache/apt/archives/partial"
inside chown _apt:root /var/lib/apt/lists/partial /var/cache/apt/archives/partial
chmod 700 "$R/var/lib/apt/lists/partial" "$R/var/cache/apt/archives/partial"
: >"$R/etc/machine-id"
# The boot need not look for what an update of /usr left to do.
touch -r "$R/usr" "$R/etc/.updated" "$R/var/.updated"
slack=$SLACK_MIB label=$LABEL
rm -rf "$W"

step disk
# A bind mount shows the tree without what is mounted on it (/proc, /sys, /dev).
exec unshare --mount bash -eu -c '
    mount --bind "$1" "$1/mnt"
    cd "$1/mnt"
    find run tmp var/tmp -xdev -mindepth 1 -delete
    mkdir -p run/lock
    used=$(du -smx . | cut -f1)
    size=$(((used * 106 / 100 + $2 + 1023) / 1024 * 1024))
    echo "usedMib=$used" >&23
    echo "diskMib=$size" >&23
    mke2fs -q -F -t ext4 -L "$3" -m 0 -J size=32 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard \
        -d . /proc/self/fd/20 "${size}M"
' bash "$R" "$slack" "$label"
