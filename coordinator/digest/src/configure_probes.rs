//! Recognizes compiler errors from configuration probes. In a probe, an error is an expected
//! result.

use crate::findings::{Findings, RawFinding};
use crate::machine_faults::is_echo_of_linker;
use crate::rules::Kind;

use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// Name of autoconf's probe files. pytest has a file with a similar name.
const CONFTEST: &str = "conftest";
/// Names of the probes of autoconf, distutils, CMake and Meson. None starts inside another.
pub(crate) const PROBES: &[&str] =
    &[CONFTEST, "_configtest", "cmTC_", "CMakeTmp", "CMakeScratch", "meson-private"];
/// Options of a compiler's command.
const OPTIONS: &[&str] = &[" -o ", " -c ", " -E "];
/// File name extensions of autoconf's probe files.
const CONFTEST_ENDS: &[&[u8]] = &[
    b"c", b"cc", b"cpp", b"cxx", b"C", b"m", b"mm", b"f", b"f90", b"F", b"o", b"obj", b"exe", b"s", b"err",
    b"er1",
];

/// Returns true if a build error is neither from a probe nor an echo of the linker.
pub(crate) fn has_own_errors(findings: &Findings) -> bool {
    findings.errors.iter().any(|found| found.kind == Kind::Build && !found.probe && !is_echo_of_linker(found))
}

/// Returns true if an error names a probe.
pub(crate) fn is_of_probe(found: &RawFinding) -> bool {
    let place = found.location.iter().map(|place| &place.file);
    found.lines.iter().chain(place).any(|line| names_probe(line.as_bytes()))
}

/// Builds a searcher. Leftmost matching allows the search of many bytes at once.
fn finder(texts: &[&str]) -> AhoCorasick {
    let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts);
    finder.expect("the texts are few; a test uses them")
}

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| finder(PROBES));
static OPTIONS_FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| finder(OPTIONS));

/// Returns true if a line, such as a compiler command, names a probe.
pub(crate) fn names_probe(line: &[u8]) -> bool {
    FINDER.find_iter(line).any(|found| {
        PROBES[found.pattern().as_usize()] != CONFTEST
            || is_conftest(&line[..found.start()], &line[found.end()..])
    })
}

/// Returns true for `conftest.c` and for the program built from it: `-o conftest `.
fn is_conftest(before: &[u8], after: &[u8]) -> bool {
    let end = |text: &[u8]| text.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(text.len());
    match after.first() {
        Some(b'.') => CONFTEST_ENDS.contains(&&after[1..1 + end(&after[1..])]),
        None | Some(b' ' | b'$') => before.ends_with(b"-o "),
        _ => false,
    }
}

/// Returns true if a line is a compiler command for a probe.
pub(crate) fn is_probing(line: &[u8]) -> bool {
    names_probe(line) && OPTIONS_FINDER.is_match(line)
}
