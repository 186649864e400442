#!/bin/sh
# Fetches a compiler and the source of its standard library from Debian (rustc-web, rust-web-src), unpacks them
# without installing them, and prints their root. Targets without a compiled standard library are built with them.
# usage: std-source.sh DIRECTORY. A directory that already has them is used as it is.
set -eu
tools=$1
mkdir -p "$tools"
tools=$(cd "$tools" && pwd)
if [ ! -x "$tools/root/usr/bin/rustc" ]; then
    command -v apt-get >/dev/null || { echo "std-source.sh: apt-get is missing; it fetches the compiler" >&2; exit 1; }
    cd "$tools"
    apt-get update -qq >/dev/null 2>&1 || true
    candidate=$(apt-cache policy rustc-web | sed -n 's/ *Candidate: //p')
    version=$(echo "$candidate" | sed -n 's/^\([0-9]*\.[0-9]*\)\..*/\1/p')
    [ -n "$version" ] || { echo "std-source.sh: Debian offers no package rustc-web here" >&2; exit 1; }
    llvm=$(apt-cache depends "libstd-rust-web-$version" rustc-web | sed -n 's/.*Depends: \(libllvm[0-9.]*\)$/\1/p' | sort -u | head -n 1)
    apt-get download -qq "rustc-web=$candidate" "libstd-rust-web-$version=$candidate" "libstd-rust-web-dev=$candidate" \
        "rust-web-src=$candidate" "${llvm:-libllvm22}" >/dev/null 2>&1 ||
        { echo "std-source.sh: the packages rustc-web and rust-web-src can't be downloaded" >&2; exit 1; }
    rm -rf root.part
    for package in *.deb; do dpkg-deb -x "$package" root.part; done
    rm -f ./*.deb
    mv root.part root
fi
echo "$tools/root"
