#!/usr/bin/env python3
"""Packs files in a .tar.gz whose bytes depend on their content only: archive.py OUT DIRECTORY FILE...

The files lie in DIRECTORY inside of the archive, with the time SOURCE_DATE_EPOCH and no owner.
"""
import gzip
import io
import os
import sys
import tarfile


def main(out, directory, files):
    time = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in files:
            entry = tarfile.TarInfo(f"{directory}/{os.path.basename(path)}")
            entry.size = os.path.getsize(path)
            entry.mtime = time
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with open(path, "rb") as file:
                archive.addfile(entry, file)
    with open(out, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed:
        compressed.write(packed.getvalue())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
