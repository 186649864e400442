#!/bin/sh
# Sets up what the tests need and passes them all: formatting, lints, documentation, the check for macOS, tests, and the gateway's
# conformance by others' code.
set -eu
cd "$(dirname "$0")/.."

need() {
    command -v "$1" >/dev/null && return
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2" >/dev/null
    else
        echo "test.sh: $1 is missing; install $2" >&2
        exit 1
    fi
}
command -v cargo >/dev/null || { echo "test.sh: cargo is missing; install Rust (https://rustup.rs)" >&2; exit 1; }
need cc gcc
need git git
need python3 python3
need make make

# Tests that need one of these pass without it by doing nothing: that is said where it can't be overlooked.
missing=""
want() {
    [ "$(uname -s)" = Linux ] || return 0
    command -v "$1" >/dev/null && return
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] && apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends "$2" >/dev/null; then
        return
    fi
    missing="$missing $1 (package $2);"
}
want bwrap bubblewrap
want dpkg-deb dpkg
want systemd-analyze systemd
want strip binutils
want setpriv util-linux
want ip iproute2
want adduser adduser
want chromium chromium
want pg_ctlcluster postgresql
announce_missing() {
    [ -z "$missing" ] || printf '\n%s\n' \
        '**********************************************************************' \
        "*** SKIPPED, NOT PASSED: tests that need$missing" \
        '**********************************************************************' >&2
}
announce_missing

step() { printf '\n== %s\n' "$*"; }

step formatting
cargo fmt --all --check
step lints
cargo clippy --locked --workspace --all-targets -- -D warnings
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
step macOS
sh scripts/check-macos.sh
step conformance of the gateway
conformance=0
sh tests/conformance/run || conformance=$?
case $conformance in
    0) ;;
    3)
        # Not having the tools is no failure of the project, and no success either.
        printf '\n%s\n' \
            '**********************************************************************' \
            '*** SKIPPED, NOT PASSED: conformance of the gateway. Node and the  ***' \
            '*** official clients could not be fetched from PyPI and npm.       ***' \
            '**********************************************************************' >&2
        ;;
    4)
        printf '\n%s\n' \
            '**********************************************************************' \
            "*** SKIPPED, NOT PASSED: the coordinator's page in a browser.      ***" \
            '*** No Chromium starts here.                                       ***' \
            '**********************************************************************' >&2
        ;;
    *) exit "$conformance" ;;
esac
step dependencies
if command -v cargo-deny >/dev/null; then
    cargo deny --locked check
else
    missing="$missing cargo-deny (cargo install cargo-deny: licences, sources and advisories of what is built in);"
fi
step upgrade paths
previous=0
program=$(sh scripts/previous.sh) || previous=$?
case $previous in
    0)
        cargo build --locked --package buildpool
        python3 tests/sample/versions "$program" "${CARGO_TARGET_DIR:-target}/debug/buildpool"
        ;;
    3) missing="$missing an earlier release (the upgrade paths, tests/sample/versions);" ;;
    *) exit "$previous" ;;
esac
step tests
cargo test --locked --workspace --no-fail-fast
announce_missing
