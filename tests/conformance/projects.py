"""Published projects with a planted bug, for `trial.py --projects`.

The sources come from PyPI, npm, crates.io and Debian's source packages, by their ordinary clients. They are kept below a
directory, so that only the first call needs a network. A package that can't be fetched is reported, and its case is skipped.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from cases import JUNIT, POM, REPOSITORY, Case

PYTEST = {"pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n"}
VITEST = "export default { test: { globals: true, include: ['test/test_*.js'] } };\n"


def run(directory, *words):
    subprocess.run(words, cwd=directory, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def from_pypi(directory, package):
    run(directory, sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", package)
    return only(directory, "*.tar.gz")


def from_npm(directory, package):
    run(directory, "npm", "pack", "--silent", package)
    return only(directory, "*.tgz")


def from_crates(directory, package):
    name, version = package.split("@")
    manifest = f'[package]\nname = "fetch"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\n{name} = "={version}"\n'
    (directory / "Cargo.toml").write_text(manifest)
    (directory / "src").mkdir()
    (directory / "src/lib.rs").write_text("")
    run(directory, "cargo", "vendor", "--quiet", "vendor")
    return directory / "vendor" / name


def from_debian(directory, package):
    """Downloads the upstream source of a package. The lists of sources are the user's own, not the system's."""
    system = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*.sources"))]
    (directory / "parts/partial").mkdir(parents=True)
    (directory / "lists/partial").mkdir(parents=True)
    for place in system:
        if place.is_file():
            text = place.read_text().replace("Types: deb\n", "Types: deb-src\n")
            lines = [line.replace("deb ", "deb-src ", 1) if line.startswith("deb ") else line for line in text.splitlines()]
            (directory / "parts" / place.name).write_text("\n".join(lines) + "\n")
    own = ["-o", "Dir::Etc::sourcelist=-", "-o", f"Dir::Etc::sourceparts={directory}/parts", "-o", f"Dir::State::lists={directory}/lists"]
    run(directory, "apt-get", "-qq", *own, "update")
    # A mirror may lack Debian's own part of a source package; the upstream part suffices.
    subprocess.run(["apt-get", "-qq", *own, "source", "--download-only", package], cwd=directory, check=False, capture_output=True)
    return only(directory, "*.orig.tar.*")


def only(directory, pattern):
    """Unpacks the one archive, and returns its directory."""
    archive = next(iter(sorted(directory.glob(pattern))), None)
    if archive is None:
        raise FileNotFoundError(f"no {pattern}")
    (directory / "unpacked").mkdir()
    run(directory, "tar", "-xf", archive.name, "-C", "unpacked")
    return next((directory / "unpacked").iterdir())


FETCH = {"pypi": from_pypi, "npm": from_npm, "crates": from_crates, "debian": from_debian}


def source(case, kept):
    """Returns the directory with the fetched source of a case, None if it can't be fetched."""
    kind, package = case.source
    place = kept / f"{kind}-{package.replace('/', '_')}"
    done = place / "directory"
    if not done.is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            done_at = FETCH[kind](place, package)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{case.name}: {package} can't be fetched: {error}", file=sys.stderr)
            return None
        done.write_text(str(done_at.relative_to(place)))
    return place / done.read_text()


def plant(project, bug):
    """Replaces a text of the source. It must exist once."""
    file, good, bad = bug
    text = (project / file).read_text()
    if text.count(good) != 1:
        raise ValueError(f"{file} has {text.count(good)} times: {good}")
    (project / file).write_text(text.replace(good, bad))


def python_projects():
    more = {"source": ("pypi", "more-itertools==11.2.1"), "needs": ("pytest",), "files": PYTEST, "arguments": {"command": "python3 -m pytest"}}
    yield Case("more-itertools", **more, bug=("more_itertools/more.py", "partial(take, n, iter(iterable)), [])", "partial(take, n + 1 if n else n, iter(iterable)), [])"),
               cause=r"\['A', 'B', 'C', 'D'\]", facts=(r"test_more\.py",))
    yield Case("more-itertools-large", **more, bug=("more_itertools/recipes.py", "    return list(islice(iterable, n))\n", "    return list(islice(iterable, n, stop))\n"),
               cause=r"name 'stop' is not defined", facts=(r"recipes\.py:\d+",))
    toml = {"source": ("pypi", "tomlkit==0.15.2"), "needs": ("pytest",), "files": PYTEST}
    yield Case("tomlkit", **toml, bug=("tomlkit/items.py", 'TRUE: True, BoolType.FALSE: False}[self]', 'TRUE: True, BoolType.FALSE: True}[self]'),
               cause=r"True", facts=(r"test_\w+\.py",))
    yield Case("tomlkit-syntax", **toml, bug=("tomlkit/parser.py", "    def _parse_bool(self, style: BoolType) -> Bool:\n", "    def _parse_bool(self, style: BoolType) -> Bool\n"),
               cause=r"SyntaxError: expected ':'", facts=(r"parser\.py",))


def javascript_projects():
    shlex = {"source": ("npm", "shlex@3.0.0"), "needs": ("node",), "modules": True}
    quote = ("shlex.js", "this.whitespace = ' \\t\\r\\n'", "this.whitespace = '\\t\\r\\n'")
    yield Case("shlex", **shlex, bug=quote, files={}, cause=r"foo bar|a b", facts=(r"test_split\.js",), arguments={"command": "npx mocha"})
    yield Case("shlex-vitest", **shlex, bug=quote, files={"vitest.config.mjs": VITEST}, cause=r"foo bar|a b",
               arguments={"command": "npx vitest run"}, facts=(r"test_split\.js",))
    ms = {"source": ("debian", "node-ms"), "needs": ("node", "apt-get"), "modules": True, "files": {}}
    yield Case("ms", **ms, bug=("index.js", "      return n * h;\n", "      return n * m;\n"), cause=r"3600000", facts=(r"tests\.js:\d+",))
    yield Case("ms-jest", **ms, bug=("index.js", "var n = parseFloat(match[1]);", "var n = parseFloat(found[1]);"),
               cause=r"found is not defined", facts=(r"index\.js:\d+",), arguments={"command": "npx jest --testRegex tests.js"})


def rust_projects():
    shlex = {"source": ("crates", "shlex@1.3.0"), "needs": ("cargo",), "files": {}, "arguments": {"command": "cargo test --offline"}}
    yield Case("shlex-rust", **shlex, bug=("src/bytes.rs", "' ' | '\\t' | '\\n' => { break; },", "'\\t' | '\\n' => { break; },"),
               cause=r"left: |assertion", facts=(r"src/\w+\.rs:\d+",))


def go_projects():
    pflag = {"source": ("debian", "golang-github-spf13-pflag"), "needs": ("go", "apt-get"), "files": {}, "arguments": {"command": "go test -vet=off ./..."}}
    yield Case("pflag", **pflag, bug=("int_slice.go", "*s.value = append(*s.value, out...)", "*s.value = append(out, *s.value...)"),
               cause=r"expected|got", facts=(r"int_slice_test\.go:\d+",))
    yield Case("pflag-compile", **pflag, bug=("bool.go", "*b = boolValue(v)", "*b = boolValue(value)"),
               cause=r"undefined: value", facts=(r"bool\.go:22",))


def c_projects():
    cjson = {"source": ("debian", "cjson"), "needs": ("cmake", "cc", "apt-get"), "files": {}}
    yield Case("cjson", **cjson, bug=("cJSON.c", "h += (unsigned int) input[i] - '0';", "h += (unsigned int) input[i] - '1';"),
               cause=r"Expected .* Was|FAIL", facts=(r"\.c:\d+",))
    yield Case("cjson-compile", **cjson, tool="build", bug=("cJSON.c", "h += (unsigned int) input[i] - '0';", "h += (unsigned int) inputs[i] - '0';"),
               cause=r"inputs.* undeclared", facts=(r"cJSON\.c:621",))


def java_projects():
    lang = "<dependency><groupId>org.apache.commons</groupId><artifactId>commons-lang3</artifactId><version>3.x</version></dependency>"
    pom = POM.replace("options", "codec").replace("</dependencies>", f"{lang}</dependencies>")
    files = {"pom.xml": pom, ".mvn/maven.config": f"-o\n-Dmaven.repo.local={REPOSITORY}\n"}
    codec = {"source": ("debian", "libcommons-codec-java"), "needs": ("mvn", "apt-get", JUNIT), "files": files}
    yield Case("commons-codec", **codec, bug=("src/main/java/org/apache/commons/codec/binary/Hex.java", "int f = toDigit(data[j], j) << 4;", "int f = toDigit(data[j], j) << 3;"),
               cause=r"expected|FAIL", facts=(r"HexTest",), arguments={"filter": "HexTest"})


def all_projects():
    for part in (python_projects, javascript_projects, rust_projects, go_projects, c_projects, java_projects):
        yield from part()
