#!/usr/bin/env python3
"""Writes stubs of macOS frameworks, which zig links against: frameworks.py DIRECTORY.

frameworks.tsv lists each symbol that the program imports from a framework, the macOS version that has it, and the page of
Apple's documentation that states this version. A stub has these symbols only, so a program with another import does
not link. An optimised program uses fewer of them. check.py compares the imports of a built program with the same list.
"""
import os
import sys

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frameworks.tsv")
# A crate (whoami) names this framework for a function that the program does not call. It must exist at link time;
# `-dead_strip_dylibs` removes it from the program.
UNUSED = ["SystemConfiguration"]
STUB = """\
--- !tapi-tbd
tbd-version:     4
targets:         [ x86_64-macos, arm64-macos ]
install-name:    '{path}'
{exports}...
"""
EXPORTS = """\
exports:
  - targets:         [ x86_64-macos, arm64-macos ]
    symbols:         [ {symbols} ]
"""


def path_of(framework):
    """Returns the path of a framework's library on a Mac."""
    return f"/System/Library/Frameworks/{framework}.framework/Versions/A/{framework}"


def read():
    """Returns the symbols of each framework, each with the macOS version that has it: {framework: {symbol: (10, 9)}}."""
    frameworks = {}
    with open(LIST) as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            framework, symbol, since, page = line.rstrip("\n").split("\t")
            if not page.startswith("https://developer.apple.com/documentation/"):
                sys.exit(f"frameworks.tsv: {symbol} has no page of Apple's documentation, but `{page}`")
            version = tuple(map(int, since.split(".")))
            frameworks.setdefault(framework, {})[symbol] = version
    return frameworks


def main(directory):
    frameworks = {name: list(symbols) for name, symbols in read().items()}
    frameworks.update({name: [] for name in UNUSED})
    for name, symbols in frameworks.items():
        place = os.path.join(directory, f"{name}.framework")
        os.makedirs(place, exist_ok=True)
        listed = ", ".join(f"_{symbol}" for symbol in symbols)
        exports = EXPORTS.format(symbols=listed) if symbols else ""
        with open(os.path.join(place, f"{name}.tbd"), "w") as file:
            file.write(STUB.format(path=path_of(name), exports=exports))


if __name__ == "__main__":
    main(*sys.argv[1:])
