#!/usr/bin/env python3
"""Replaces the UUID of a macOS program by one of its content: uuid_of_content.py PROGRAM.

zig makes the UUID from names of temporary files too, so two builds would differ in it. The hash of its page in the
signature is renewed; check.py verifies all of them.
"""
import hashlib
import struct
import sys

LC_UUID, LC_CODE_SIGNATURE = 0x1B, 0x1D


def main(path):
    with open(path, "rb") as file:
        content = bytearray(file.read())
    commands, at, uuid, signature = struct.unpack_from("<I", content, 16)[0], 32, None, None
    for _ in range(commands):
        kind, size = struct.unpack_from("<2I", content, at)
        if kind == LC_UUID:
            uuid = at + 8
        elif kind == LC_CODE_SIGNATURE:
            signature = struct.unpack_from("<I", content, at + 8)[0]
        at += size
    if uuid is None:
        sys.exit(f"uuid_of_content.py: {path} has no UUID")
    end = len(content) if signature is None else signature
    content[uuid : uuid + 16] = bytes(16)
    content[uuid : uuid + 16] = hashlib.sha256(content[:end]).digest()[:16]
    if signature is not None:
        # The code directory is the first blob (see check_signature in check.py).
        directory = signature + struct.unpack_from(">I", content, signature + 16)[0]
        hashes = struct.unpack_from(">I", content, directory + 16)[0]
        size, page = content[directory + 36], 1 << content[directory + 39]
        slot, start = uuid // page, uuid // page * page
        digest = hashlib.sha256(content[start : min(start + page, signature)]).digest()
        content[directory + hashes + slot * size : directory + hashes + (slot + 1) * size] = digest
    with open(path, "r+b") as file:
        file.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
