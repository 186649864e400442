#!/bin/sh
# Packs the programs that scripts/dist.sh built for every channel: scripts/packages.sh [DIRECTORY].
# DIRECTORY has TARGET/buildpool for each target (default: target/dist/programs). The packages lie in ../files beside it.
# One of the targets must be that of this machine: its program prints completions and manual pages. Needs python3, npm,
# dpkg-deb and rpmbuild.
set -eu
cd "$(dirname "$0")/.."
programs=${1:-${CARGO_TARGET_DIR:-target}/dist/programs}
files=$(dirname "$programs")/files
mkdir -p "$files"
native=$programs/$(uname -m)-unknown-linux-gnu/buildpool
[ -x "$native" ] || { echo "packages.sh: $native does not exist; build it: scripts/dist.sh $(uname -m)-unknown-linux-gnu" >&2; exit 1; }
version=$("$native" --version | cut -d' ' -f2)
npm=
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin; do
    program=$programs/$target/buildpool
    if [ ! -f "$program" ]; then
        echo "packages.sh: no program for $target; its packages are left out" >&2
        continue
    fi
    npm="$npm $target=$program"
    deploy/python/wheel "$program" "$target" "$version" "$files"
    TARGET=$target deploy/mcp/pack "$program" "$files"
    case $target in
        x86_64-unknown-linux-gnu) deploy/debian/build "$program" "$files" amd64 "$native" && deploy/rpm/build "$program" "$files" x86_64 "$native" ;;
        aarch64-unknown-linux-gnu) deploy/debian/build "$program" "$files" arm64 "$native" && deploy/rpm/build "$program" "$files" aarch64 "$native" ;;
    esac
done
# shellcheck disable=SC2086
deploy/npm/pack "$version" "$files" $npm
cp deploy/install.sh "$files/install.sh"
(cd "$files" && sha256sum ./* | sed 's|  \./|  |; /  SHA256SUMS$/d; /  buildpool\.rb$/d' >SHA256SUMS)
if [ -f "$programs/x86_64-apple-darwin/buildpool" ] && [ -f "$programs/aarch64-unknown-linux-gnu/buildpool" ]; then
    deploy/homebrew/formula "$version" "$files/SHA256SUMS" >"$files/buildpool.rb"
fi
cat "$files/SHA256SUMS"
