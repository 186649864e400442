"""Small projects with a planted bug, for `trial.py`.

Each case has the files of a project, the call, and a pattern that only an answer with the cause matches.
"""

import dataclasses
import textwrap


@dataclasses.dataclass
class Case:
    name: str
    files: dict
    cause: str
    tool: str = "run_tests"
    arguments: dict = dataclasses.field(default_factory=dict)
    # Programs, and files by their absolute path, without which the case is skipped.
    needs: tuple = ()
    # JavaScript packages, linked as `node_modules`.
    modules: bool = False
    # Patterns of further facts that the first answer must have.
    facts: tuple = ()
    # Registry and name of a published source, and the text that replaces a text of it: file, text, replacement.
    source: tuple = ()
    bug: tuple = ()
    # The directory of the fetched source.
    fetched: object = None
    # Why a target is out of reach. Such a case is measured, and does not fail the trial.
    limit: str = ""


def text(source):
    return textwrap.dedent(source).lstrip("\n")


def repeated(count, template, joint=""):
    return joint.join(template.replace("@", str(number)) for number in range(count))


PYTHON = {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p no:cacheprovider'\n"}
CHUNKS = text("""
    def chunked(values, size):
        return [values[at:at + size] for at in range(0, len(values) - size, size)]
""")
GO_MODULE = {"go.mod": "module example.com/flags\n\ngo 1.19\n"}
CARGO = {"Cargo.toml": '[package]\nname = "words"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'}
WORDS = text("""
    /// Splits a line into words.
    pub fn split(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }
""")
CMAKE = text("""
    cmake_minimum_required(VERSION 3.13)
    project(numbers C)
    enable_testing()
    add_executable(check check.c)
    add_test(NAME parses COMMAND check)
""")


def package(script, **other):
    return {"package.json": '{"name": "case", "version": "1.0.0", "scripts": {"test": "' + script + '"}}\n', **other}


def python_cases():
    yield Case(
        "pytest-fail",
        {**PYTHON, "chunks.py": CHUNKS, "test_chunks.py": text("""
            from chunks import chunked

            def test_even():
                assert chunked([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]

            def test_empty():
                assert chunked([], 2) == []
        """)},
        r"assert \[\[1, 2\]\] == \[\[1, 2\], \[3, 4\]\]", needs=("pytest",), facts=(r"test_chunks\.py:4",),
    )
    yield Case(
        "pytest-collect",
        {**PYTHON, "chunks.py": CHUNKS, "test_chunks.py": "from chunks import chunk\n\ndef test_one():\n    assert chunk\n"},
        r"cannot import name 'chunk'", needs=("pytest",), facts=(r"build_failure",),
    )
    yield Case(
        "pytest-hang",
        {**PYTHON, "chunks.py": "def wait():\n    while True:\n        pass\n",
         "test_chunks.py": "from chunks import wait\n\ndef test_ends():\n    wait()\n"},
        r"chunks\.py.*line [23] in wait", arguments={"timeout_secs": 6}, needs=("pytest",), facts=(r"test_ends",),
    )
    yield Case(
        "pytest-large",
        {**PYTHON, "chunks.py": CHUNKS, "test_chunks.py": "from chunks import chunked\n" + repeated(60, text("""

            def test_case_@():
                values = list(range(@ * 2 + 2))
                assert sum(chunked(values, 2), []) == values
        """))},
        r"chunked\(values, 2\)", needs=("pytest",), facts=(r"60 of 60 tests failed",),
    )


def javascript_cases():
    broken = "exports.join = (...parts) => parts.filter(Boolean).join('//');\n"
    test = text("""
        const { join } = require('./path');
        test('joins two parts', () => { expect(join('a', 'b')).toBe('a/b'); });
        test('joins one part', () => { expect(join('a')).toBe('a'); });
    """)
    yield Case("jest-fail", package("jest", **{"path.js": broken, "path.test.js": test}), r'Expected: "a/b"',
               modules=True, needs=("node",), facts=(r"path\.test\.js:2",))
    names = "const { join } = require('./path');\n" + repeated(
        40, "test('joins case @', () => { expect(join('a@', 'b')).toBe('a@/b'); });\n")
    missing = "exports.join = (a, b) => [a, b].join(separator);\n"
    yield Case("jest-large", package("jest", **{"path.js": missing, "path.test.js": names}),
               r"separator is not defined", modules=True, needs=("node",), facts=(r"path\.js:1", r"40 of 40"))
    loop = "exports.join = (a, b) => { for (;;) { a = b; } };\n"
    yield Case("jest-hang", package("jest", **{"path.js": loop, "path.test.js": test}), r"join \(.*path\.js:",
               arguments={"timeout_secs": 8}, modules=True, needs=("node",), facts=(r"while `path\.test\.js` ran",))
    other = "test('other', () => {});\n"
    yield Case("jest-hang-workers", package("jest -w 2", **{"path.js": loop, "path.test.js": test, "b.test.js": other, "c.test.js": other}),
               r"join \(.*path\.js:", arguments={"timeout_secs": 8}, modules=True, needs=("node",),
               facts=(r"while `path\.test\.js` ran",))
    mocha = text("""
        const assert = require('assert');
        const { join } = require('./path');
        describe('join', () => { it('joins two parts', () => assert.strictEqual(join('a', 'b'), 'a/b')); });
    """)
    yield Case("mocha-fail", package("mocha path.spec.js", **{"path.js": broken, "path.spec.js": mocha}), r"a//b",
               modules=True, needs=("node",), facts=(r"path\.spec\.js:3",))
    vitest = text("""
        import { expect, test } from 'vitest';
        import { join } from './path.mjs';
        test('joins two parts', () => { expect(join('a', 'b')).toBe('a/b'); });
        test('joins one part', () => { expect(join('a')).toBe('a'); });
    """)
    module = "export const join = (...parts) => parts.filter(Boolean).join('//');\n"
    yield Case("vitest-fail", package("vitest run", **{"path.mjs": module, "path.test.mjs": vitest}), r"a//b",
               modules=True, needs=("node",), facts=(r"path\.test\.mjs:3",))
    yield Case("mocha-hang", package("mocha path.spec.js", **{"path.js": loop, "path.spec.js": mocha}), r"join \(.*path\.js:",
               arguments={"timeout_secs": 6}, modules=True, needs=("node",), facts=(r"while `path\.spec\.js` ran",))
    endless = "export const join = (a, b) => { for (;;) { a = b; } };\n"
    yield Case("vitest-hang", package("vitest run", **{"path.mjs": endless, "path.test.mjs": vitest}), r"join \(.*path\.mjs:",
               arguments={"timeout_secs": 8}, modules=True, needs=("node",), facts=(r"while `path\.test\.mjs` ran",))
    node = text("""
        const test = require('node:test');
        const assert = require('assert');
        const { join } = require('./path');
        test('joins two parts', () => { assert.strictEqual(join('a', 'b'), 'a/b'); });
    """)
    yield Case("node-fail", package("node --test", **{"path.js": broken, "path.test.js": node}), r"a//b",
               needs=("node",), facts=(r"path\.test\.js:4",))
    yield Case("node-hang", package("node --test", **{"path.js": loop, "path.test.js": node}), r"join \(.*path\.js:",
               arguments={"timeout_secs": 6}, needs=("node",), facts=(r"while `path\.test\.js` ran",))
    yield Case("node-none", package("node --test", **{"path.js": broken, "path.test.js": node}), r"joins two parts",
               arguments={"filter": "joins three parts"}, needs=("node",), facts=(r"INCONCLUSIVE",))


def rust_cases():
    tests = text("""
        #[cfg(test)]
        mod tests {
            #[test]
            fn double_spaces() {
                assert_eq!(super::split("a  b"), ["a", "b"]);
            }
        }
    """)
    yield Case("cargo-fail", {**CARGO, "src/lib.rs": WORDS + tests}, r'right: \["a", "b"\]', needs=("cargo",),
               facts=(r"src/lib\.rs:9",))
    yield Case("cargo-compile", {**CARGO, "src/lib.rs": WORDS.replace("str::to_owned", "str::to_own") + tests},
               r"to_own", needs=("cargo",), facts=(r"src/lib\.rs:3", r"build_failure"))
    yield Case("cargo-none", {**CARGO, "src/lib.rs": WORDS + tests}, r"double_spaces",
               arguments={"filter": "double_space_s"}, needs=("cargo",), facts=(r"INCONCLUSIVE",))


def go_cases():
    source = "package flags\n\nfunc Double(n int) int { return n + n + n }\n"
    test = text("""
        package flags

        import "testing"

        func TestDouble(t *testing.T) {
            if got := Double(2); got != 4 {
                t.Errorf("Double(2) = %d, want 4", got)
            }
        }
    """)
    yield Case("go-fail", {**GO_MODULE, "flags.go": source, "flags_test.go": test}, r"Double\(2\) = 6, want 4",
               needs=("go",), facts=(r"flags_test\.go:7",))
    hang = source.replace("return n + n + n", "ends := make(chan int); return <-ends")
    yield Case("go-hang", {**GO_MODULE, "flags.go": hang, "flags_test.go": test}, r"flags\.go:3",
               arguments={"timeout_secs": 15}, needs=("go",), facts=(r"TestDouble",))
    yield Case("go-none", {**GO_MODULE, "flags.go": source, "flags_test.go": test}, r"TestDouble",
               arguments={"filter": "TestDoubled"}, needs=("go",), facts=(r"INCONCLUSIVE",))


def c_cases():
    check = text("""
        #include <stdio.h>
        #include <stdlib.h>

        static int parse(const char *text) {
            return (int)strtol(text, NULL, 8);
        }

        int main(void) {
            if (parse("10") != 10) {
                fprintf(stderr, "check.c:10: parse(\\"10\\") is %d, expected 10\\n", parse("10"));
                return 1;
            }
            return 0;
        }
    """)
    yield Case("ctest-fail", {"CMakeLists.txt": CMAKE, "check.c": check}, r"parse\(.*10.*\) is 8, expected 10",
               needs=("cmake", "cc"), facts=(r"parses",))
    crash = check.replace("return (int)strtol(text, NULL, 8);", "int *none = NULL;\n    return *none + text[0];")
    yield Case("ctest-crash", {"CMakeLists.txt": CMAKE, "check.c": crash}, r"(?i)segfault|SIGSEGV|segmentation",
               needs=("cmake", "cc"), facts=(r"parses",))
    yield Case("make-compile", {"Makefile": "all: check\ncheck: check.c\n\tcc -o check check.c\n",
                                "check.c": check.replace("strtol", "strtoll_")},
               r"strtoll_", tool="build", needs=("make", "cc"), facts=(r"check\.c:5", r"build_failure|FAILED"))


# Debian's packages `maven-debian-helper` and `junit4` install it: no download is needed.
REPOSITORY = "/usr/share/maven-repo"
JUNIT = f"{REPOSITORY}/junit/junit/4.x"
POM = text("""
    <project xmlns="http://maven.apache.org/POM/4.0.0">
      <modelVersion>4.0.0</modelVersion>
      <groupId>example</groupId>
      <artifactId>options</artifactId>
      <version>1</version>
      <properties>
        <maven.compiler.source>8</maven.compiler.source>
        <maven.compiler.target>8</maven.compiler.target>
        <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
      </properties>
      <dependencies>
        <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency>
      </dependencies>
    </project>
""")
GRADLE = text(f"""
    apply plugin: 'java'
    repositories {{ maven {{ url 'file://{REPOSITORY}' }} }}
    dependencies {{ testImplementation 'junit:junit:4.x' }}
""")
OPTIONS = text("""
    package example;

    public class Options {
        public static String strip(String option) {
            return option.substring(1);
        }
    }
""")
OPTIONS_TEST = text("""
    package example;

    import static org.junit.Assert.assertEquals;
    import org.junit.Test;

    public class OptionsTest {
        @Test
        public void stripsTwoHyphens() {
            assertEquals("all", Options.strip("--all"));
        }

        @Test
        public void stripsOneHyphen() {
            assertEquals("a", Options.strip("-a"));
        }
    }
""")


def java_cases():
    sources = {"src/main/java/example/Options.java": OPTIONS, "src/test/java/example/OptionsTest.java": OPTIONS_TEST}
    maven = {**sources, "pom.xml": POM, ".mvn/maven.config": f"-o\n-Dmaven.repo.local={REPOSITORY}\n"}
    gradle = {**sources, "build.gradle": GRADLE, "settings.gradle": ""}
    failure = r"expected:<\[\]all> but was:<\[-\]all>"
    for name, files, program, cause in (
        ("maven", maven, "mvn", failure), ("gradle", gradle, "gradle", r"ComparisonFailure at OptionsTest\.java:9|" + failure),
    ):
        needs = (program, JUNIT)
        yield Case(f"{name}-fail", files, cause, needs=needs, facts=(r"stripsTwoHyphens", r"1 of 2 tests failed"))
        yield Case(f"{name}-match", files, r"PASSED: 1 test", arguments={"filter": "example.OptionsTest.stripsOneHyphen"},
                   needs=needs)
        yield Case(f"{name}-none", files, r"stripsTwoHyphens",
                   arguments={"filter": "example.OptionsTest.stripsThreeHyphens"}, needs=needs, facts=(r"INCONCLUSIVE",),
                   limit="a mark on each of 44 lines, and the repeated filter" if name == "maven" else "")


def all_cases():
    for part in (python_cases, javascript_cases, rust_cases, go_cases, c_cases, java_cases):
        yield from part()
