#!/usr/bin/env python3
"""Joins macOS programs for several processors in one file: universal.py OUT PROGRAM...

The format is the `fat_header` of <mach-o/fat.h>. Each slice keeps its own signature, so nothing is signed again.
"""
import os
import struct
import sys

MAGIC_FAT = 0xCAFEBABE
MAGIC_64 = 0xFEEDFACF
# Slices begin at a multiple of the largest page: 16 KiB on arm64.
ALIGN_BITS = 14


def main(out, programs):
    slices = []
    offset = 1 << ALIGN_BITS
    for program in programs:
        with open(program, "rb") as file:
            content = file.read()
        magic, cpu, subtype = struct.unpack_from("<III", content)
        if magic != MAGIC_64:
            sys.exit(f"universal.py: {program} is not a 64-bit Mach-O program")
        slices.append((cpu, subtype, offset, content))
        offset = -(-(offset + len(content)) // (1 << ALIGN_BITS)) << ALIGN_BITS
    with open(out, "wb") as file:
        file.write(struct.pack(">II", MAGIC_FAT, len(slices)))
        for cpu, subtype, start, content in slices:
            file.write(struct.pack(">IIIII", cpu, subtype, start, len(content), ALIGN_BITS))
        for _, _, start, content in slices:
            file.write(b"\0" * (start - file.tell()))
            file.write(content)
    os.chmod(out, 0o755)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
