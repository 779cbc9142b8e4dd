# Runs as root of the build's user namespace with the container image as its root: what a recipe does above the
# image. Beside it are packages, owners, users, enable, disable, run/* and env.
W=/.warren-steps
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive
step() { echo "warren-step: $*" >&2; }
fail() {
    echo "warren-error: $*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

rm -f /etc/resolv.conf
printf '%s\n' "$WARREN_RESOLV" >/etc/resolv.conf

if [ -s $W/packages ]; then
    step packages
    has apt-get || fail "the image has no apt-get, so a recipe above it cannot install packages"
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    apt-get -q=2 -o APT::Sandbox::User=root update >&2 || fail "apt-get update failed in the image"
    # shellcheck disable=SC2046
    apt-get -q=2 --yes --no-install-recommends -o APT::Sandbox::User=root -o Dpkg::Use-Pty=false -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io \
        install $(cat $W/packages) >&2 || fail "the packages could not be installed"
    rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
fi
while read -r name uid shell groups; do
    [ -n "$name" ] || continue
    has useradd || fail "the image has no useradd, so a recipe above it cannot make users"
    for g in $(echo "$groups" | tr ',' ' '); do groupadd -f --system "$g"; done
    set -- --create-home --shell "$shell"
    [ "$uid" = - ] || set -- "$@" --uid "$uid"
    [ -z "$groups" ] || set -- "$@" --groups "$groups"
    useradd "$@" "$name" || fail "the user $name could not be made"
done <$W/users
while read -r owner path; do
    [ -z "$owner" ] || chown -h "$owner" "$path" || fail "$path could not be given to $owner"
done <$W/owners
shell=/bin/sh
[ ! -x /bin/bash ] || shell="/bin/bash -o pipefail"
for f in $W/run/*; do
    [ -e "$f" ] || continue
    n=$(basename "$f")
    step "run $n"
    (
        set -a
        # shellcheck disable=SC1091
        . $W/env
        set +a
        cd /
        exec $shell -eu "$f"
    ) </dev/null >&2 || fail "run step $n of the recipe failed"
done
while read -r unit; do
    [ -z "$unit" ] || systemctl enable --quiet "$unit" >&2 || fail "the service $unit could not be enabled"
done <$W/enable
while read -r unit; do
    [ -z "$unit" ] || systemctl disable --quiet "$unit" >&2 || fail "the service $unit could not be disabled"
done <$W/disable
printf 'nameserver 10.0.2.3\noptions timeout:2 attempts:2\n' >/etc/resolv.conf
