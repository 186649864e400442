#!/usr/bin/env python3
"""Makes the tree of a local PyPI, npm registry and download server from the files of a release: registry.py FILES ROOT URL.

A plain HTTP server on ROOT, at URL, then serves `pip --index-url URL/simple`, `npm --registry URL/npm` and the download
directory URL/files. Only for tests of the packages: scripts/check-packages.sh.
"""
import base64
import hashlib
import json
import os
import shutil
import sys
import tarfile


def npm_entry(path, url):
    """Returns a package's name, version, and the description that npm expects from a registry."""
    with open(path, "rb") as file:
        content = file.read()
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("package/package.json"))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    shasum = hashlib.sha1(content).hexdigest()
    manifest["dist"] = {"tarball": f"{url}/files/{os.path.basename(path)}", "integrity": integrity, "shasum": shasum}
    version = manifest["version"]
    return manifest["name"], {"name": manifest["name"], "dist-tags": {"latest": version}, "versions": {version: manifest}}


def main(files, root, url):
    names = sorted(os.listdir(files))
    for part in ("files", "simple/buildpool", "npm"):
        os.makedirs(os.path.join(root, part), exist_ok=True)
    for name in names:
        path = os.path.join(files, name)
        shutil.copyfile(path, os.path.join(root, "files", name))
        if name.endswith(".whl"):
            shutil.copyfile(path, os.path.join(root, "simple/buildpool", name))
        elif name.endswith(".tgz"):
            package, entry = npm_entry(path, url)
            target = os.path.join(root, "npm", package)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                json.dump(entry, file)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
