#!/bin/sh
# Installs buildpool: curl -fsSL https://github.com/buildpool/buildpool/releases/latest/download/install.sh | sh
#
# It downloads the program of this platform and the list of checksums, compares them, and puts the program into
# BUILDPOOL_BIN (default: ~/.local/bin). BUILDPOOL_VERSION selects a version, as 0.1.0. It needs no root, starts nothing,
# and changes no other file. TLS protects the list of checksums. To prove where the files come from as well, use
# `gh attestation verify FILE --repo buildpool/buildpool`.
set -eu

main() {
    version=${BUILDPOOL_VERSION:-}
    bin=${BUILDPOOL_BIN:-$HOME/.local/bin}
    # A mirror has the same files as a release, in one directory.
    base=${BUILDPOOL_MIRROR:-}
    if [ -z "$base" ]; then
        base=https://github.com/buildpool/buildpool/releases/latest/download
        [ -z "$version" ] || base=https://github.com/buildpool/buildpool/releases/download/v$version
    fi

    target=$(target_of "$(uname -s)" "$(uname -m)")
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    fetch "$base/SHA256SUMS" "$place/SHA256SUMS"
    file=$(sed -n "s/^[0-9a-f]\{64\}  \(buildpool-${version:-[0-9][^ ]*}-$target\.tar\.gz\)\$/\1/p" "$place/SHA256SUMS" | head -n 1)
    [ -n "$file" ] || fail "the release has no program for $target${version:+ in version $version}; build it from source: https://github.com/buildpool/buildpool"
    fetch "$base/$file" "$place/$file"
    grep "  $file\$" "$place/SHA256SUMS" >"$place/expected"
    (cd "$place" && check expected) || fail "$base/$file does not have the checksum in SHA256SUMS; nothing was installed. Try again, and report it if it happens twice"
    tar -xzf "$place/$file" -C "$place"
    program=$place/${file%.tar.gz}/buildpool
    "$program" --version >/dev/null || fail "the program for $target does not start on this machine; nothing was installed"
    mkdir -p "$bin"
    # A rename replaces a program that runs; its processes keep the old one.
    cp "$program" "$bin/.buildpool.new"
    chmod 755 "$bin/.buildpool.new"
    mv "$bin/.buildpool.new" "$bin/buildpool"
    echo "installed $("$bin/buildpool" --version) as $bin/buildpool"
    case ":$PATH:" in
        *":$bin:"*) ;;
        *) echo "$bin is not in PATH; add it: export PATH=\"$bin:\$PATH\"" ;;
    esac
    echo "first job: buildpool run -- echo hello"
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

target_of() {
    case $2 in
        x86_64 | amd64) machine=x86_64 ;;
        arm64 | aarch64) machine=aarch64 ;;
        *) fail "there is no program for the processor $2; available are x86_64 and aarch64" ;;
    esac
    case $1 in
        Linux)
            ! ldd --version 2>&1 | grep -qi musl || fail "the program for Linux needs glibc 2.28 or newer; this system has musl. Build it from source: https://github.com/buildpool/buildpool"
            echo "$machine-unknown-linux-gnu"
            ;;
        Darwin)
            # A shell under Rosetta reports x86_64 on an arm64 Mac.
            [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" != 1 ] || machine=aarch64
            echo "$machine-apple-darwin"
            ;;
        *) fail "there is no program for $1; available are Linux and macOS" ;;
    esac
}

fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 3 -o "$2" "$1" || fail "$1 can't be downloaded"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1" || fail "$1 can't be downloaded"
    else
        fail "curl or wget is needed to download $1"
    fi
}

check() {
    if command -v sha256sum >/dev/null; then
        sha256sum -c "$1" >/dev/null 2>&1
    else
        shasum -a 256 -c "$1" >/dev/null 2>&1
    fi
}

# The last line starts the work, so a download that is cut off does nothing.
main
