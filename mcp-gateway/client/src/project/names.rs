//! Names of the tests in a project's sources that are similar to a filter.
//!
//! The sources are searched because not every runner can list its tests.

use super::choose::SKIPPED;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

/// Limit on files and directories that are visited.
const VISITED_MAX: usize = 20_000;
/// Limit on the size of a file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 512 << 10;
/// Limit on different names.
const NAMES_MAX: usize = 20_000;
/// Limit on names that are returned.
const SHOWN_MAX: usize = 5;
/// Minimum similarity of a name, from 0 to 1 (Jaro-Winkler).
const SIMILARITY_MIN: f64 = 0.8;

/// Patterns of test names, by extensions of source files. The last group of a match is a name; two
/// groups are a suite and a test.
const PATTERNS: [(&[&str], &str); 10] = [
    (&["rs"], r"#\[(?:\w+::)*test(?:\([^)]*\))?\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)"),
    (&["py"], r"(?m)^\s*(?:async\s+def|def|class)\s+([Tt]est\w*)"),
    (&["go"], r"(?m)^func\s+((?:Test|Fuzz|Benchmark|Example)\w*)\("),
    (
        &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"],
        r#"\b(?:it|test|describe|specify|suite)(?:\.\w+)*\s*\(\s*(?:'((?:[^'\\\n]|\\.)+)'|"((?:[^"\\\n]|\\.)+)"|`([^`\n]+)`)"#,
    ),
    (&["txt", "cmake"], r#"(?i)\badd_test\s*\(\s*(?:NAME\s+)?(?:"([^"\n]+)"|([^\s")]+))"#),
    (&["java", "kt"], r"@(?:Parameterized|Repeated)?Test\b[^{;]*?(?:void|fun)\s+(\w+)"),
    (&["swift"], r"\bfunc\s+(test\w*)\s*\("),
    (&["c", "cc", "cpp", "cxx"], r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)"),
    (&["rb", "exs"], r#"\b(?:it|test|describe|context)\s*\(?\s*(?:'([^'\n]+)'|"([^"\n]+)")"#),
    (&["cs"], r"\[(?:Fact|Theory|Test|TestMethod)[^\]]*\][^{;]*?\s(\w+)\s*\("),
];

/// Compiled patterns with the extensions of their files.
static COMPILED: LazyLock<Vec<(&[&str], Regex)>> = LazyLock::new(|| {
    PATTERNS
        .iter()
        .filter_map(|(extensions, pattern)| Some((*extensions, Regex::new(pattern).ok()?)))
        .collect()
});

/// Returns at most five names of tests below this directory, the most similar first. Only the last
/// part of the filter is compared: `m` of `C::m`, `C#m`, `C.m` and `C > m`.
pub fn similar(directory: &Path, filter: &str) -> Vec<String> {
    let mut parts = filter.trim_end_matches("()").rsplit(['#', '.', ':', '>', '›', '/']);
    let wanted = letters(parts.next().unwrap_or(filter));
    let scored = names(directory).into_iter().map(|name| (similarity(&wanted, &letters(&name)), name));
    let mut scored: Vec<(f64, String)> = scored.filter(|(score, _)| *score >= SIMILARITY_MIN).collect();
    scored.sort_by(|(a, first), (b, second)| b.total_cmp(a).then_with(|| first.cmp(second)));
    scored.into_iter().take(SHOWN_MAX).map(|(_, name)| name).collect()
}

/// Returns the letters and digits of a name, in lower case, without the word that each test begins
/// with.
fn letters(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    letters.strip_prefix("test").map_or(letters.clone(), str::to_owned)
}

/// Returns 1 for names of which one contains the other, else their Jaro-Winkler similarity.
fn similarity(wanted: &str, name: &str) -> f64 {
    if wanted.is_empty() || name.is_empty() {
        return 0.0;
    }
    match wanted.contains(name) || name.contains(wanted) {
        true => 1.0,
        false => strsim::jaro_winkler(wanted, name),
    }
}

/// Returns the names of the tests in the source files of a directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let is_skipped = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() > 0
            && (name.starts_with('.') || entry.file_type().is_dir() && SKIPPED.contains(&name.as_ref()))
    };
    let walk = walkdir::WalkDir::new(directory).sort_by_file_name().into_iter();
    let files = walk.filter_entry(|entry| !is_skipped(entry)).filter_map(Result::ok).take(VISITED_MAX);
    let mut names = BTreeSet::new();
    for file in files.filter(|entry| entry.file_type().is_file()) {
        let extension = file.path().extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let Some((_, pattern)) = COMPILED.iter().find(|(extensions, _)| extensions.contains(&extension))
        else {
            continue;
        };
        if file.metadata().is_ok_and(|metadata| metadata.len() > FILE_BYTES_MAX) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
        for found in pattern.captures_iter(&text) {
            let groups = found.iter().skip(1).flatten().map(|group| group.as_str());
            // A string of the source escapes its own quotes.
            names.insert(groups.collect::<Vec<_>>().join(".").replace("\\\"", "\"").replace("\\'", "'"));
            if names.len() == NAMES_MAX {
                return names;
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_each_language_are_found() {
        let directory = tempfile::tempdir().unwrap();
        for (file, text) in [
            (
                "src/a.rs",
                "#[test]\nfn adds_rust() {}\n#[tokio::test]\nasync fn adds_tokio() {}\nfn adds_no() {}",
            ),
            ("test_a.py", "class TestAddsPy:\n    def test_adds_py(self): pass\ndef adds_no(): pass"),
            ("a_test.go", "func TestAddsGo(t *testing.T) {}"),
            ("a.test.ts", "describe('adds suite', () => { it.only(\"adds ts\", () => {}) })"),
            ("CMakeLists.txt", "add_test(NAME adds_cmake COMMAND true)"),
            ("ATest.java", "@Test\n  public void addsJava() {}"),
            ("A.swift", "func testAddsSwift() {}"),
            ("a.cc", "TEST(Math, AddsGtest) {}"),
            ("a_spec.rb", "it \"adds ruby\" do"),
            ("A.cs", "[Fact]\n public void AddsCs() {}"),
            ("node_modules/a.js", "it('adds module', f)"),
        ] {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = names(directory.path());
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let expected = [
            "AddsCs",
            "Math.AddsGtest",
            "TestAddsGo",
            "TestAddsPy",
            "adds ruby",
            "adds suite",
            "adds ts",
            "addsJava",
            "adds_cmake",
            "adds_rust",
            "adds_tokio",
            "testAddsSwift",
            "test_adds_py",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_most_similar_names_come_first() {
        let directory = tempfile::tempdir().unwrap();
        let text = "def test_subtracts(): pass\ndef test_addition(): pass\ndef test_adds(): pass\ndef test_login(): pass";
        std::fs::write(directory.path().join("test_a.py"), text).unwrap();
        assert_eq!(similar(directory.path(), "test_a.py::test_add")[..2], ["test_addition", "test_adds"]);
        assert_eq!(similar(directory.path(), "TestMath.test_logn")[0], "test_login");
        assert!(similar(directory.path(), "zzz").is_empty());
    }
}
