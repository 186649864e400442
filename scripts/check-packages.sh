#!/bin/sh
# Installs each package of target/dist/files in a fresh Debian and runs a first job with it: scripts/check-packages.sh [CHANNEL...]
# Prints for each channel the commands, the seconds from the first command to the end of the job, and the size of the file.
#
# Needs root on Linux, debootstrap, and a Debian mirror. The network is that of this machine: PyPI, npm and the
# download server are a local server with the packages (scripts/dist/registry.py). Packages that a channel needs
# beforehand (a Python, npm, dnf) are installed first and are not part of the time.
set -eu
cd "$(dirname "$0")/.."
dist=${CARGO_TARGET_DIR:-$PWD/target}/dist
files=$dist/files
clean=$dist/clean
[ "$(id -u)" = 0 ] || { echo "check-packages.sh: a fresh Debian needs root" >&2; exit 1; }
[ $# -gt 0 ] || set -- script wheel uvx npm npx deb rpm bundle
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
architecture=$(dpkg --print-architecture)

base=$clean/base
if [ ! -e "$base/etc/ready" ]; then
    mkdir -p "$clean"
    mirror=$(sed -n 's/^URIs: //p; s/^deb \(http[^ ]*\) .*/\1/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
    [ -d "$base/etc" ] || debootstrap --variant=minbase bookworm "$base" "${mirror:-http://deb.debian.org/debian}" >&2
    chroot "$base" useradd --create-home --shell /bin/bash tester
    touch "$base/etc/ready"
fi

place=$(mktemp -d "$clean/check.XXXXXX")
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$place/root" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
trap 'exit 1' INT TERM

# The server prints its port.
mkdir "$place/registry"
python3 -u -c 'import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1])
server.serve_forever()' "$place/registry" >"$place/port" 2>"$place/requests" &
server=$!
until [ -s "$place/port" ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat "$place/port")
python3 scripts/dist/registry.py "$files" "$place/registry" "$url"
mkdir -p "$place/registry/simple/uv"
python3 -m pip download --quiet --no-deps --dest "$place/registry/simple/uv" uv

# Runs a script in the fresh Debian as a user. Its processes end with it.
inside() {
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare --mount --pid --fork --kill-child chroot "$place/root" sh -c \
        'mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm 2>/dev/null; exec su --login "$1" -c "$2"' inside "$1" "$2"
}
# Mounts the fresh Debian with some packages. Each set of packages is installed once.
mount_with() {
    lower=$base
    if [ $# -gt 0 ]; then
        lower=$clean/with-$(printf '%s' "$*" | tr ' ' '-')
        if [ ! -d "$lower" ]; then
            rm -rf "$clean/part"
            cp -a "$base" "$clean/part"
            chroot "$clean/part" sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $* >/dev/null 2>&1" >&2
            mv "$clean/part" "$lower"
        fi
    fi
    mkdir -p "$place/upper" "$place/work" "$place/root"
    mount -t overlay overlay -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work" "$place/root"
    mkdir "$place/root/packages"
}

job='buildpool run --no-snapshot -- echo hello'
for channel in "$@"; do
    user=tester
    case $channel in
        script)
            mount_with curl ca-certificates
            package=buildpool-$version-$machine-unknown-linux-gnu.tar.gz
            commands="curl -fsSL $url/files/install.sh | BUILDPOOL_MIRROR=$url/files sh && ~/.local/bin/$job"
            ;;
        wheel)
            mount_with python3-venv
            package=buildpool-$version-py3-none-manylinux_2_28_$machine.whl
            commands="python3 -m venv v && v/bin/pip install --quiet --index-url $url/simple buildpool && v/bin/$job"
            ;;
        uvx)
            mount_with python3-venv
            inside tester "python3 -m venv v && v/bin/pip install --quiet --index-url $url/simple uv"
            package=buildpool-$version-py3-none-manylinux_2_28_$machine.whl
            commands="v/bin/uvx --quiet --default-index $url/simple $job"
            ;;
        npm | npx)
            mount_with npm
            package=buildpool-linux-x64-$version.tgz
            [ "$machine" = x86_64 ] || package=buildpool-linux-arm64-$version.tgz
            commands="npm install --silent --registry $url/npm --prefix . buildpool && node_modules/.bin/$job"
            [ "$channel" = npm ] || commands="npx --yes --registry $url/npm $job"
            ;;
        deb)
            user=root
            mount_with
            inside root "apt-get update -qq"
            package=buildpool_${version}_$architecture.deb
            cp "$files/$package" "$place/root/packages"
            commands="DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends /packages/$package >/dev/null 2>&1 && su --login tester -c '$job'"
            ;;
        rpm)
            user=root
            mount_with dnf rpm createrepo-c
            package=buildpool-$version.$machine.rpm
            cp "$files/$package" "$place/root/packages"
            # Debian's files have no entry in the database of rpm, so packages without content stand for them.
            mkdir "$place/root/packages/repository"
            for name in glibc shadow-utils bash; do
                printf 'Name: %s\nVersion: 2.36\nRelease: 1\nSummary: part of Debian\nLicense: none\nBuildArch: noarch\nProvides: /bin/sh\n%%description\nPart of Debian.\n%%files\n' \
                    "$name" >"$place/$name.spec"
                rpmbuild --quiet -bb --define "_topdir $place/rpm" --define "_rpmdir $place/root/packages/repository" "$place/$name.spec" >/dev/null 2>&1
            done
            inside root "createrepo_c --quiet /packages/repository"
            commands="dnf --quiet --assumeyes --nogpgcheck --releasever=12 --setopt=install_weak_deps=False --repofrompath=local,/packages/repository install /packages/$package && su --login tester -c '$job'"
            ;;
        bundle)
            mount_with python3
            package=buildpool-mcp-$machine-unknown-linux-gnu.mcpb
            cp "$files/$package" scripts/dist/call-bundle.py "$place/root/packages"
            commands="python3 /packages/call-bundle.py /packages/$package ~"
            ;;
        *)
            echo "check-packages.sh: unknown channel \`$channel\`" >&2
            exit 2
            ;;
    esac
    began=$(date +%s%N)
    inside "$user" "$commands" >"$place/out" 2>"$place/err" || { cat "$place/out" "$place/err" >&2; echo "FAIL $channel: $commands" >&2; exit 1; }
    took=$((($(date +%s%N) - began) / 1000000))
    grep -q hello "$place/out" || { cat "$place/out" "$place/err" >&2; echo "FAIL $channel: the job printed nothing" >&2; exit 1; }
    case $channel in
        deb | rpm)
            # The accounts and files of the daemons.
            inside root "id buildpool && id buildpool-worker && test -e /usr/share/man/man1/buildpool.1.gz && test -e /usr/lib/systemd/system/buildpool-worker.service" >/dev/null
            remove="apt-get remove -qq -y buildpool"
            [ "$channel" = deb ] || remove="dnf --quiet --assumeyes remove buildpool"
            inside root "$remove >/dev/null 2>&1 && ! command -v buildpool" ||
                { echo "FAIL $channel: the package can't be removed" >&2; exit 1; }
            ;;
    esac
    size=$(($(stat -c %s "$files/$package") / 1000))
    printf 'ok   %-7s %3d.%d s  %6d kB  %s\n' "$channel" $((took / 1000)) $((took % 1000 / 100)) "$size" "$(printf '%s' "$commands" | sed "s|$url|URL|g")"
    umount "$place/root"
    rm -rf "$place/upper" "$place/work"
done
