#!/bin/sh
# Builds the programs of a release: scripts/dist.sh TARGET...
#
#   x86_64-unknown-linux-gnu    aarch64-unknown-linux-gnu    (glibc 2.28 or newer)
#   aarch64-apple-darwin        x86_64-apple-darwin          (macOS 11 or newer)
#   universal-apple-darwin      (both macOS programs in one file; needs the other two first)
#
# Each target gets target/dist/files/buildpool-VERSION-TARGET.tar.gz and a list of its parts (CycloneDX). SHA256SUMS lists
# the files. The same commit gives the same bytes with the same tools; `--compare DIRECTORY` checks that against
# the programs of an earlier build. zig links all targets, so one Linux machine builds every one.
# A target without a compiled standard library gets it from source (scripts/dist/std-source.sh).
set -eu
cd "$(dirname "$0")/.."
top=$PWD
compare=
if [ "${1:-}" = --compare ]; then
    compare=$2
    shift 2
fi
[ $# -gt 0 ] || { sed -n '2,11s/^# \{0,1\}//p' scripts/dist.sh >&2; exit 2; }

work=${CARGO_TARGET_DIR:-$top/target}/dist
files=$work/files
mkdir -p "$files"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
BUILDPOOL_COMMIT=${BUILDPOOL_COMMIT:-$(git rev-parse --short=12 HEAD)}
BUILDPOOL_COMMIT_DATE=${BUILDPOOL_COMMIT_DATE:-$(git log -1 --format=%cs)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export BUILDPOOL_COMMIT BUILDPOOL_COMMIT_DATE SOURCE_DATE_EPOCH
step() { printf '\n== %s\n' "$*" >&2; }

# The versions are part of the result: another zig gives other bytes.
tools=$work/tools
if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
    step "tools (zig, cargo-zigbuild, lief)"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0 lief==1.0.0
fi
PATH=$tools/bin:$PATH
PYTHONDONTWRITEBYTECODE=1
export PATH PYTHONDONTWRITEBYTECODE

# Prefixes of this machine that would otherwise be in the program.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
remap() { printf '%s' "--remap-path-prefix=$top=/buildpool --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$work=/work"; }

build() (
    target=$1
    name=$(printf '%s' "$target" | tr 'a-z-' 'A-Z_')
    under=$(printf '%s' "$target" | tr '-' '_')
    flags=$(remap)
    zig_target=$target
    std=
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
        root=$(sh scripts/dist/std-source.sh "${BUILDPOOL_STD_SOURCE:-$top/target/macos-check/tools}")
        rustup_root=$(rustc --print sysroot)
        host=$(rustc -vV | sed -n 's/^host: //p')
        # rustc calls this to strip programs for macOS. Debian's rustc has none.
        mkdir -p "$work/shims"
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/lib exec %s/lib/rustlib/%s/bin/rust-objcopy "$@"\n' \
            "$rustup_root" "$rustup_root" "$host" >"$work/shims/rust-objcopy"
        chmod +x "$work/shims/rust-objcopy"
        PATH=$work/shims:$PATH
        LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib
        RUSTC=$root/usr/bin/rustc
        RUSTC_BOOTSTRAP=1
        export PATH LD_LIBRARY_PATH RUSTC RUSTC_BOOTSTRAP
        std=-Zbuild-std=std,panic_unwind
        flags="$flags --remap-path-prefix=$root=/rust"
    fi
    case $target in
        *-apple-darwin)
            MACOSX_DEPLOYMENT_TARGET=11.0
            export MACOSX_DEPLOYMENT_TARGET
            # zig links two libraries of which the program uses nothing.
            flags="$flags -Clink-arg=-Wl,-dead_strip_dylibs"
            # zig has no frameworks. A relative path, because cargo makes the flags a part of each symbol's name.
            python3 scripts/dist/frameworks.py "$work/frameworks"
            flags="$flags -Clink-arg=-F$(realpath --relative-to="$top" "$work/frameworks")"
            ;;
        *-linux-gnu) zig_target=$target.2.28 ;;
    esac
    export "CARGO_TARGET_${name}_RUSTFLAGS=$flags"
    export "CFLAGS_$under=-ffile-prefix-map=$top=/buildpool -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$work=/work"
    unset RUSTFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER 2>/dev/null || true
    # shellcheck disable=SC2086
    CARGO_TARGET_DIR=$work/build cargo zigbuild --locked --profile dist --package buildpool $std --target "$zig_target"
)

for target in "$@"; do
    step "$target"
    program=$work/programs/$target/buildpool
    mkdir -p "$(dirname "$program")"
    case $target in
        universal-apple-darwin)
            python3 scripts/dist/universal.py "$program" \
                "$work/programs/aarch64-apple-darwin/buildpool" "$work/programs/x86_64-apple-darwin/buildpool"
            ;;
        *)
            build "$target"
            cp "$work/build/$target/dist/buildpool" "$program"
            case $target in *-apple-darwin) python3 scripts/dist/uuid_of_content.py "$program" ;; esac
            ;;
    esac
    "$tools/bin/python3" scripts/dist/check.py "$program" "$target" "$work/stubs"
    sbom=$files/buildpool-$version-$target.cdx.json
    "$tools/bin/python3" scripts/dist/sbom.py "$target" "$program" >"$sbom"
    python3 scripts/dist/archive.py "$files/buildpool-$version-$target.tar.gz" "buildpool-$version-$target" \
        "$program" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md
    if [ -n "$compare" ]; then
        cmp "$program" "$compare/$target/buildpool" && echo "$target: both builds are equal, byte for byte" >&2
    fi
done
(cd "$files" && sha256sum buildpool-* >SHA256SUMS)
step "files in $files"
cat "$files/SHA256SUMS"
