#!/usr/bin/env python3
"""Checks a built program without running it: check.py PROGRAM TARGET STUBS.

Linux: processor, libraries, no symbol of a glibc newer than 2.28. macOS: processor, minimum system, libraries, each
imported symbol in the libSystem of macOS 11, 12 and 13 or in the list of framework symbols (frameworks.tsv), and each
page hash of the signature. Both: no path of the machine that built it. STUBS is a directory for Apple's symbol lists,
which an old release of zig contains. Needs the Python package lief.
"""
import glob
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

import frameworks
import lief

lief.logging.disable()

GLIBC = (2, 28)
LINUX_LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libgcc_s.so.1",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}
LIBSYSTEM = "/usr/lib/libSystem.B.dylib"
SYSTEMS = (11, 12, 13)
MINIMUM = [11, 0, 0]
CPUS = {"aarch64": "arm64", "x86_64": "x86_64"}


def fail(text):
    sys.exit(f"check.py: {text}")


def check_paths(program, content):
    home = os.path.expanduser("~").encode()
    for path in (os.getcwd().encode(), home + b"/.cargo"):
        if path in content:
            fail(f"{program} contains the path {path.decode()} of this machine")


def check_linux(program, cpu):
    elf = lief.ELF.parse(program)
    machine = {"x86_64": lief.ELF.ARCH.X86_64, "aarch64": lief.ELF.ARCH.AARCH64}[cpu]
    if elf.header.machine_type != machine:
        fail(f"{program} is for {elf.header.machine_type}, not for {cpu}")
    if elf.header.file_type != lief.ELF.Header.FILE_TYPE.EXEC:
        fail(f"{program} is not linked for a fixed address (cli/build.rs), so it starts slowly")
    libraries = set(elf.libraries)
    if not libraries <= LINUX_LIBRARIES:
        fail(f"{program} needs {sorted(libraries - LINUX_LIBRARIES)}, which a plain system may lack")
    versions = [
        tuple(map(int, found.group(1).split(".")))
        for needed in elf.symbols_version_requirement
        for entry in needed.get_auxiliary_symbols()
        if (found := re.fullmatch(r"GLIBC_([0-9.]+)", entry.name))
    ]
    newest = max(versions, default=(0,))
    if newest > GLIBC:
        fail(f"{program} needs glibc {newest}, at most {GLIBC} is allowed")
    print(f"ELF {cpu}, newest glibc symbol {'.'.join(map(str, newest))}, {', '.join(sorted(libraries))}")


def stubs(directory):
    """Returns the lists of libSystem's symbols, one for each system, as text."""
    names = [f"libSystem.{system}.tbd" for system in SYSTEMS]
    if not all(os.path.exists(os.path.join(directory, name)) for name in names):
        os.makedirs(directory, exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", place, "ziglang==0.11.0"]
            subprocess.run(command, check=True)
            with zipfile.ZipFile(glob.glob(f"{place}/*.whl")[0]) as wheel:
                for name in names:
                    member = next(entry for entry in wheel.namelist() if entry.endswith(f"/libc/darwin/{name}"))
                    with open(os.path.join(directory, name), "wb") as out:
                        out.write(wheel.read(member))
    texts = {}
    for system, name in zip(SYSTEMS, names):
        with open(os.path.join(directory, name)) as file:
            texts[system] = file.read()
    return texts


def symbols_of(text, cpu):
    """Returns the symbols that a stub file (text-based stub, version 4) lists for a processor."""
    found = set()
    for block in re.split(r"\n\s*- targets:", text)[1:]:
        targets, _, rest = block.partition("]")
        if f"{CPUS[cpu]}-macos" in targets:
            for listed in re.findall(r"(?:symbols|weak-symbols|thread-local-symbols):\s*\[(.*?)\]", rest, re.S):
                found |= {name.strip().strip("'\"") for name in listed.split(",")}
    return found


def check_signature(program, content, macho):
    """Recomputes the hash of each page. Returns a description."""
    command = macho.code_signature
    if command is None:
        if macho.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64:
            fail(f"{program} has no signature, and arm64 Macs refuse such programs")
        return "no signature (Intel Macs need none)"
    start = command.data_offset
    magic, _, count = struct.unpack_from(">III", content, start)
    if magic != 0xFADE0CC0:
        fail(f"{program}: the signature is not an embedded one ({magic:#x})")
    for index in range(count):
        kind, offset = struct.unpack_from(">II", content, start + 12 + 8 * index)
        if kind == 0:
            break
    else:
        fail(f"{program}: the signature has no code directory")
    at = start + offset
    magic, _, _, flags, hashes, _, _, slots, limit = struct.unpack_from(">9I", content, at)
    size, kind, _, page_bits = struct.unpack_from(">4B", content, at + 36)
    if magic != 0xFADE0C02 or kind != 2 or size != 32 or not flags & 0x2:
        fail(f"{program}: the code directory is not an ad hoc one with SHA-256")
    page = 1 << page_bits
    if slots != -(-limit // page) or limit != start:
        fail(f"{program}: {slots} pages of {page} bytes do not cover the {start} bytes before the signature")
    for slot in range(slots):
        part = content[slot * page : min((slot + 1) * page, limit)]
        if hashlib.sha256(part).digest() != content[at + hashes + slot * size :][:size]:
            fail(f"{program}: page {slot} differs from its hash in the signature")
    return f"ad hoc signature, {slots} pages checked"


def check_framework(program, library, imports, listed):
    """Checks that frameworks.tsv has each import from a framework, and that macOS 11 has it. The list covers all
    optimisation levels: a better one removes calls."""
    missing = sorted(imports - set(listed))
    if missing:
        fail(f"{program}: frameworks.tsv lacks the imports {missing} from {library}")
    newer = sorted(name for name in imports if listed[name] > tuple(MINIMUM))
    if newer:
        fail(f"{program}: {newer} of {library} need a macOS newer than {MINIMUM}")


def check_macos(program, cpu, content, macho, lists):
    machine = lief.MachO.Header.CPU_TYPE.ARM64 if cpu == "aarch64" else lief.MachO.Header.CPU_TYPE.X86_64
    if macho.header.cpu_type != machine:
        fail(f"{program} is for {macho.header.cpu_type}, not for {cpu}")
    if not macho.is_pie:
        fail(f"{program} has a fixed address")
    minimum = list(macho.build_version.minos)
    if minimum != MINIMUM:
        fail(f"{program} needs macOS {minimum}, expected is {MINIMUM}")
    allowed = {frameworks.path_of(name): symbols for name, symbols in frameworks.read().items()}
    expected = sorted([LIBSYSTEM, *allowed])
    libraries = sorted(library.name for library in macho.libraries)
    if libraries != expected:
        fail(f"{program} needs {libraries}, expected are {expected}")
    imports = {}
    for binding in macho.bindings:
        if binding.has_symbol:
            library = binding.library.name if binding.has_library else "no library"
            imports.setdefault(library, set()).add(binding.symbol.name)
    system = imports.pop(LIBSYSTEM, set())
    if len(system) < 100:
        fail(f"{program}: only {len(system)} imports were found, so this check reads them wrongly")
    for version, text in lists.items():
        missing = sorted(system - symbols_of(text, cpu))
        if missing:
            fail(f"{program}: the libSystem of macOS {version} lacks {missing}")
    for library, symbols in imports.items():
        check_framework(program, library, {name.removeprefix("_") for name in symbols}, allowed.get(library, {}))
    systems = ", ".join(map(str, SYSTEMS))
    counts = ", ".join(f"{len(symbols)} of {os.path.basename(library)}" for library, symbols in sorted(imports.items()))
    signature = check_signature(program, content, macho)
    print(
        f"Mach-O {cpu}, macOS 11.0, {len(system)} imports of libSystem all in macOS {systems}, "
        f"{counts}, all in macOS 11 by Apple's documentation, {signature}"
    )


def main(program, target, directory):
    with open(program, "rb") as file:
        content = file.read()
    check_paths(program, content)
    cpu = target.split("-")[0]
    if target.endswith("linux-gnu"):
        check_linux(program, cpu)
    elif target == "universal-apple-darwin":
        lists = stubs(directory)
        slices = struct.unpack_from(">II", content)[1]
        parsed = lief.MachO.parse(program)
        if slices != 2 or parsed.size != 2:
            fail(f"{program} holds {slices} programs, expected are 2")
        for index, slice_cpu in enumerate(("aarch64", "x86_64")):
            _, _, offset, size, _ = struct.unpack_from(">5I", content, 8 + 20 * index)
            check_macos(program, slice_cpu, content[offset : offset + size], parsed.at(index), lists)
    elif target.endswith("apple-darwin"):
        check_macos(program, cpu, content, lief.MachO.parse(program).at(0), stubs(directory))
    else:
        fail(f"no checks for {target}")
    print(f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
