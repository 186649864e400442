#!/bin/sh
# Builds the program of the newest release before this version, once, and prints its path: target/previous/VERSION/buildpool.
# Exits with 3 if there is no such release. tests/sample/versions checks the upgrade paths with it.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
present=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
tag=$(git tag --list 'v[0-9]*' --sort=-version:refname | grep -vx "v$present" | head -n 1 || true)
if [ -z "$tag" ]; then
    echo "previous.sh: no release before $present has a tag here" >&2
    exit 3
fi
place=${CARGO_TARGET_DIR:-$top/target}/previous/${tag#v}
if [ ! -x "$place/buildpool" ]; then
    mkdir -p "$place"
    source=$place/source
    rm -rf "$source"
    git worktree prune
    git worktree add --quiet --detach "$source" "$tag" >&2
    (cd "$source" && CARGO_TARGET_DIR=$place/build cargo build --locked --package buildpool >&2)
    cp "$place/build/debug/buildpool" "$place/buildpool"
    git worktree remove --force "$source"
    rm -rf "$place/build"
fi
echo "$place/buildpool"
