#!/bin/sh
# Builds buildpool, starts the local pool, and runs a real build as a job: buildpool's own.
# The build uses the profile `try` of Cargo.toml, which takes about half of the time of a release build.
set -eu
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || {
    echo "try.sh: cargo is missing; install Rust (https://rustup.rs) and a C compiler, then run this again" >&2
    exit 1
}
echo "building buildpool: a few minutes on two cores, once"
cargo build --locked --profile try --package buildpool
echo
echo '$ buildpool run --output digest -- cargo build --locked --package buildpool-protocol'
exec "${CARGO_TARGET_DIR:-target}/try/buildpool" run --output digest -- cargo build --locked --package buildpool-protocol
