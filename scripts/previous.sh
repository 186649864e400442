#!/bin/sh
# Builds the program of the newest release before this version, once, and prints its path: target/previous/VERSION/buildpool.
# `previous.sh COMMIT` builds that commit, before the first release or to find the cause of a failure.
# Exits with 3 if there is no such release. tests/sample/versions checks the upgrade paths with the program.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
present=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [ $# -gt 0 ]; then
    commit=$(git rev-parse --verify --quiet "$1^{commit}") || {
        echo "previous.sh: $1 is not a commit of this repository" >&2
        exit 2
    }
    name=$(git rev-parse --short=12 "$commit")
else
    commit=$(git tag --list 'v[0-9]*' --sort=-version:refname | grep -vx "v$present" | head -n 1 || true)
    if [ -z "$commit" ]; then
        echo "previous.sh: no release before $present has a tag here; name a commit instead: previous.sh COMMIT" >&2
        exit 3
    fi
    name=${commit#v}
fi
place=${CARGO_TARGET_DIR:-$top/target}/previous/$name
if [ ! -x "$place/buildpool" ]; then
    mkdir -p "$place"
    source=$place/source
    rm -rf "$source"
    git worktree prune
    git worktree add --quiet --detach "$source" "$commit" >&2
    (cd "$source" && CARGO_TARGET_DIR=$place/build cargo build --locked --package buildpool >&2)
    cp "$place/build/debug/buildpool" "$place/buildpool"
    git worktree remove --force "$source"
    rm -rf "$place/build"
fi
echo "$place/buildpool"
