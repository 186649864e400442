"""Prints git packs that stand for far more than they hold, as JSON: name -> [tree, pack in hexadecimal digits]."""

import hashlib
import json
import struct
import zlib

KINDS = {"tree": 2, "blob": 3}


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def head(kind, length):
    first = kind << 4 | length & 0x0F
    length >>= 4
    return bytes([first | 0x80]) + varint(length) if length else bytes([first])


class Pack:
    def __init__(self):
        self.entries, self.at, self.begin = [], 12, 0

    def raw(self, data):
        self.begin = self.at
        self.entries.append(data)
        self.at += len(data)

    def add(self, kind, data):
        self.raw(head(KINDS[kind], len(data)) + zlib.compress(data, 9))
        return hashlib.sha1(f"{kind} {len(data)}".encode() + b"\0" + data).digest()

    def delta(self, base_at, base_length, length, operations):
        data = varint(base_length) + varint(length) + operations
        distance = self.at - base_at
        offset = [distance & 0x7F]
        distance >>= 7
        while distance:
            distance -= 1
            offset.insert(0, distance & 0x7F | 0x80)
            distance >>= 7
        self.raw(head(6, len(data)) + bytes(offset) + zlib.compress(data, 9))

    def tree(self, entries):
        return self.add("tree", b"".join(m + b" " + n + b"\0" + i for m, n, i in sorted(entries, key=lambda e: e[1])))

    def bytes(self):
        data = b"PACK" + struct.pack(">II", 2, len(self.entries)) + b"".join(self.entries)
        return data + hashlib.sha1(data).digest()


def nested(content, levels, name=b"%d"):
    """Each directory has ten times the one below."""
    pack = Pack()
    node, mode = pack.add("blob", content), b"100644"
    for _ in range(levels):
        node = pack.tree([(mode, name % number, node) for number in range(10)])
        mode = b"40000"
    return node, pack


def deep(levels):
    pack = Pack()
    node, mode = pack.add("blob", b"x"), b"100644"
    for _ in range(levels):
        node, mode = pack.tree([(mode, b"d", node)]), b"40000"
    return node, pack


def inflating(copies):
    """A delta that copies 16 MiB as often, of a delta that copies 64 KiB 256 times."""
    pack = Pack()
    small = bytes(1 << 16)
    tree = pack.tree([(b"100644", b"file", pack.add("blob", small))])
    # The blob is the first entry, behind the pack's head.
    small_at, large = 12, 1 << 24
    pack.delta(small_at, len(small), large, b"\x80" * 256)
    large_at = pack.begin
    copy = b"\xf0\xff\xff\xff"
    for number in range(copies[1]):
        length = copies[0] * 0xFFFFFF + 4
        pack.delta(large_at, large, length, copy * copies[0] + b"\x04" + struct.pack(">I", number))
    return tree, pack


BOMBS = {
    "paths": nested(b"x", 10),
    "bytes": nested(bytes(1 << 20), 5),
    "names": nested(b"x", 6, b"%d" + b"n" * 250),
    "deep": deep(1000),
    "one delta": inflating((1280, 1)),
    "many deltas": inflating((30, 100)),
}
print(json.dumps({name: [tree.hex(), pack.bytes().hex()] for name, (tree, pack) in BOMBS.items()}))
