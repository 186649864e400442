#!/usr/bin/env python3
"""Prints the parts of a program as CycloneDX 1.5: sbom.py TARGET PROGRAM.

The parts are the crates that the program contains: no build script, no macro that runs in the compiler, no test.
"""
import hashlib
import json
import os
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone


def crates(target):
    """Returns the root and the packages that are linked into it, with their dependencies."""
    # rustc does not know the name of a file with two programs.
    targets = ["aarch64-apple-darwin", "x86_64-apple-darwin"] if target == "universal-apple-darwin" else [target]
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += [word for name in targets for word in ("--filter-platform", name)]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(key for key, package in packages.items() if package["name"] == "buildpool")

    def is_linked(key):
        return not any("proc-macro" in part["kind"] for part in packages[key]["targets"])

    found, waiting = {}, [root]
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        normal = [
            edge["pkg"]
            for edge in nodes[key]["deps"]
            if any(kind["kind"] is None for kind in edge["dep_kinds"]) and is_linked(edge["pkg"])
        ]
        found[key] = sorted(set(normal))
        waiting += normal
    return root, packages, found


def main(target, program):
    root, packages, found = crates(target)
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}

    def reference(key):
        return f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}"

    def component(key):
        package = packages[key]
        part = {
            "type": "application" if key == root else "library",
            "bom-ref": reference(key),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(key),
        }
        if package.get("license"):
            # Some crates still write `MIT/Apache-2.0`, which is not an SPDX expression.
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return part

    with open(program, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    application = component(root)
    application["hashes"] = [{"alg": "SHA-256", "content": digest}]
    time = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    keys = sorted(found, key=reference)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"timestamp": time.isoformat(), "component": application},
        "components": [component(key) for key in keys if key != root],
        "dependencies": [
            {"ref": reference(key), "dependsOn": sorted(reference(other) for other in found[key])} for key in keys
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
