#!/bin/sh
# Builds buildpool, starts the local pool, and runs a real build as a job: buildpool's own.
set -eu
cd "$(dirname "$0")/.."
command -v cargo >/dev/null || {
    echo "try.sh: cargo is missing; install Rust (https://rustup.rs) and a C compiler, then run this again" >&2
    exit 1
}
cargo build --locked --release --package buildpool
echo
echo '$ buildpool run --output digest -- cargo build --locked --package buildpool-protocol'
exec target/release/buildpool run --output digest -- cargo build --locked --package buildpool-protocol
