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
tools=$top/target/macos-check/tools
root=$(sh scripts/dist/std-source.sh "$tools") || skip "the packages rustc-web and rust-web-src can't be had"

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

export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu:$root/usr/lib"
export RUSTC="$root/usr/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$top/target/macos-check/build"
export CC_aarch64_apple_darwin="$tools/cc" CXX_aarch64_apple_darwin="$tools/cc"
export AR_aarch64_apple_darwin="$tools/ar" RANLIB_aarch64_apple_darwin=/bin/true
# RUSTC_WRAPPER and the like would bypass the compiler chosen here.
unset RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS 2>/dev/null || true
cargo check --locked --workspace -Zbuild-std=std,panic_unwind --target "$target"
echo "the workspace type-checks for $target"
