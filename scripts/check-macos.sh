#!/bin/sh
# Type-checks the workspace for macOS on Linux. It shows that the code compiles there, not that it works there.
#
# The standard library for aarch64-apple-darwin is checked from source, with a compiler and a source package of the same
# version, which Debian has as rustc-web and rust-web-src. C code is not compiled: for a check nothing is linked, so a
# stand-in for the C compiler is enough. Where the packages can't be had this says so and counts as skipped.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
target=aarch64-apple-darwin

skip() {
    echo "SKIPPED: the check for macOS ($1)"
    exit 0
}

if [ "$(uname -s)" = Darwin ]; then
    exec cargo check --locked --workspace --all-targets
fi
command -v apt-get >/dev/null || skip "no apt-get to fetch a compiler with"

tools=$top/target/macos-check/tools
mkdir -p "$tools"
if [ ! -x "$tools/root/usr/bin/rustc" ]; then
    (
        cd "$tools"
        apt-get update -qq >/dev/null 2>&1 || true
        candidate=$(apt-cache policy rustc-web | sed -n 's/ *Candidate: //p')
        version=$(echo "$candidate" | sed -n 's/^\([0-9]*\.[0-9]*\)\..*/\1/p')
        [ -n "$version" ] || exit 1
        llvm=$(apt-cache depends "libstd-rust-web-$version" rustc-web | sed -n 's/.*Depends: \(libllvm[0-9.]*\)$/\1/p' | sort -u | head -n 1)
        apt-get download -qq "rustc-web=$candidate" "libstd-rust-web-$version=$candidate" "libstd-rust-web-dev=$candidate" \
            "rust-web-src=$candidate" "${llvm:-libllvm22}" >/dev/null 2>&1 || exit 1
        for package in *.deb; do dpkg-deb -x "$package" root; done
        rm -f ./*.deb
    ) || skip "the packages rustc-web and rust-web-src can't be had"
fi

cat > "$tools/cc" <<'STANDIN'
#!/bin/sh
out=
while [ $# -gt 0 ]; do
    case "$1" in -o) out=$2; shift ;; esac
    shift
done
[ -z "$out" ] || : > "$out"
STANDIN
cat > "$tools/ar" <<'STANDIN'
#!/bin/sh
for argument in "$@"; do
    case "$argument" in *.a) printf '!<arch>\n' > "$argument" ;; esac
done
STANDIN
chmod +x "$tools/cc" "$tools/ar"

root=$tools/root
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu:$root/usr/lib"
export RUSTC="$root/usr/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$top/target/macos-check/build"
export CC_aarch64_apple_darwin="$tools/cc" CXX_aarch64_apple_darwin="$tools/cc"
export AR_aarch64_apple_darwin="$tools/ar" RANLIB_aarch64_apple_darwin=/bin/true
# RUSTC_WRAPPER and the like would bypass the compiler chosen here.
unset RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS 2>/dev/null || true
cargo check --locked --workspace -Zbuild-std=std,panic_unwind --target "$target"
echo "the workspace type-checks for $target"
