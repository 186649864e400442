//! Property tests: every reader returns within its limits for any input.
//!
//! `BUILDPOOL_FUZZ_ROUNDS=N` multiplies the number of random cases by N, with other inputs each
//! time.

use buildpool_evidence::limits::EVIDENCE_BYTES_MAX;
use buildpool_evidence::memory::kernel_log;
use buildpool_evidence::xcresult::{command, database, tool};
use buildpool_evidence::{Context, collect, read_report};
use buildpool_protocol::outcome::Ending;
use proptest::prelude::*;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// First bytes that select each parser.
const STARTS: &[&str] = &[
    "",
    "<?xml version=\"1.0\"?><testsuites><testsuite name='a'>",
    "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T\"}\n",
    "{\"type\":\"test\",\"event\":\"started\",\"name\":\"a\"}\n{\"reason\":\"compiler-message\"}\n",
    "TAP version 13\n1..3\nok 1\n",
    "{\"bug_type\":\"309\"}\n{",
    "Process: a [1]\nException Type: EXC_CRASH (SIGABRT)\n",
    "{\"devices\":[],\"testNodes\":[",
    "==1==ERROR: AddressSanitizer: x\n",
    "SQLite format 3\0",
];

/// Generates parts of the formats, so that random input passes the first bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "<testcase name='x' classname='y' time='1'>",
        "</testcase>",
        "<failure message='&#0;&lt;&bad;'>",
        "</failure>",
        "<skipped/>",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "<error>",
        "&amp;",
        "not ok 2 - b # TODO x",
        "ok 3 # skip",
        "  ---\n",
        "  ...\n",
        "    ok 1 - a\n",
        "        not ok 99999999999999999999999 - b # time=1e999ms {\n",
        "    }\n",
        "not ok - c # TODO {\n",
        "  duration_ms: 1\n  type: 'suite'\n  error: |-\n    x\n",
        "# fail 18446744073709551615\n",
        "<testsuite name='s' tests='1' failures='18446744073709551615' errors='2'>",
        "</testsuite>",
        "<property name='repetition' value='1'/>",
        "<!-- fail 18446744073709551615 -->",
        "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"a#4294967295\"}\n",
        "{\"type\":\"test\",\"event\":\"started\",\"name\":\"p::b$a\"}\n",
        "{\"type\":\"suite\",\"event\":\"failed\",\"failed\":18446744073709551615,\"ignored\":18446744073709551615}\n",
        "{\"reason\":\"build-finished\",\"success\":false}\n",
        "{\"Action\":\"output\",\"Package\":\"p\",\"Output\":\"panic: x\\n\"}\n",
        "{\"Action\":\"fail\",\"Package\":\"p\",\"FailedBuild\":\"p\"}\n",
        "{\"Action\":\"build-fail\",\"ImportPath\":\"p\"}\n",
        "1..99999999999999999999",
        "1..18446744073709551615\n",
        "Bail out!",
        "\n",
        "{\"Action\":\"fail\",\"Test\":\"T\",\"Package\":\"p\"}\n",
        "{\"Action\":\"output\",\"Test\":\"T\",\"Output\":\"a.go:1: x\\n\"}\n",
        "{\"type\":\"test\",\"event\":\"failed\",\"name\":\"a\",\"message\":7}\n",
        "\"threads\":[{\"triggered\":true,\"frames\":[{\"imageIndex\":99}]}]",
        "\"faultingThread\":-1",
        "\"pid\":99999999999999999999",
        ",",
        "}",
        "]",
        "[",
        "{",
        "Thread 0 Crashed:\n",
        "0 a 0x1 b + 2\n",
        "Termination Reason: Namespace X, Code 0xFFFFFFFFFFFFFFFFF\n",
        "\u{1F600}",
        "\u{202e}",
        "#0 0x1 in f a.c:1\n",
        "SUMMARY: x\n",
        "a.c:1:2: runtime error: y\n",
        "\"nodeType\":\"Test Case\",\"children\":[",
        "Out of memory: Killed process 4294967296 (a) anon-rss:18446744073709551615kB, file-rss:1kB\n",
        "memory: usage 1kB, limit 99999999999999999999kB",
        "[nan] ",
        "6,1,99999999999999999999,-;",
        "'",
        "\"",
        "\\",
        "$",
        "xcodebuild test ",
        "-resultBundlePath ",
    ]);
    prop_oneof![3 => words.prop_map(|word: &str| word.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..12)]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(STARTS), prop::collection::vec(piece(), 0..40))
        .prop_map(|(start, pieces)| [start.as_bytes().to_vec(), pieces.concat()].concat())
}

fn config(cases: u32) -> ProptestConfig {
    let rounds = std::env::var("BUILDPOOL_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let cases = cases.saturating_mul(rounds.unwrap_or(1));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in content()) {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("report");
        fs::write(&path, &bytes).expect("written");
        match read_report(&path) {
            Ok(read) => {
                let report = read.evidence.test_reports.first().cloned().unwrap_or_default();
                prop_assert!(report.cases.len() as u64 <= report.passed + report.failed + report.skipped + report.expected_failures);
            }
            Err(error) => prop_assert!(error.to_string().contains("report"), "{}", error),
        }
    }

    #[test]
    fn any_text_is_a_command_a_kernel_log_or_json(text in content()) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let argv = vec!["sh".to_owned(), "-c".to_owned(), text.clone()];
        let _ = command::result_bundle_in(&argv);
        if let Some(changed) = command::with_result_bundle(&argv, Path::new("/a")) {
            prop_assert_eq!(command::result_bundle_in(&changed), Some("/a".into()));
        }
        prop_assert!(kernel_log::kills(&text).len() <= text.lines().count());
        let _ = tool::parse_tests(text.as_bytes());
        let _ = tool::parse_build(text.as_bytes());
        let _ = tool::parse_legacy(text.as_bytes());
    }
}

proptest! {
    #![proptest_config(config(100))]

    /// Changes or truncates bytes of real files.
    #[test]
    fn damaged_recordings_are_read_or_refused(
        which in 0_usize..7,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let name = [
            "xcresult/Xcode26-Mixed-XCTest-SwiftTesting.xcresult/database.sqlite3",
            "xcresult/resultWithCompileError.xcresult/database.sqlite3",
            "xcresult/Xcode26-Mixed-XCTest-SwiftTesting.json",
            "crash/xctest-sim-sigtrap.ips",
            "crash/app-simulator.crash",
            "xcresult/Xcode26-Mixed-XCTest-SwiftTesting-WithRetries.junit",
            "xcresult/Xcode16-Mixed-XCTest-SwiftTesting.xcresult/database.sqlite3",
        ][which];
        let mut bytes = fs::read(data(name)).expect("read");
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("damaged");
        fs::write(&path, &bytes).expect("written");
        let _ = read_report(&path);
    }
}

fn database_with(sql: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("database.sqlite3");
    Connection::open(&path).and_then(|connection| connection.execute_batch(sql)).expect("made");
    (directory, path)
}

#[test]
fn views_and_computed_columns_of_a_stranger_are_not_run() {
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT x AS result, x AS testCase_fk FROM n";
    let (_kept, path) = database_with(&format!(
        "CREATE TABLE BuildIssues (message TEXT, severity INTEGER);
         INSERT INTO BuildIssues VALUES ('real', 0);
         CREATE VIEW TestCaseRuns AS {endless};
         CREATE TABLE TestCases (name TEXT, identifier TEXT AS (hex(zeroblob(100000000))));
         INSERT INTO TestCases (name) VALUES ('a');"
    ));
    let bundle = database::read(&path).expect("the rest is readable");
    assert_eq!(bundle.issues[0].message, "real");
    assert_eq!(bundle.tests[0].identifier, "a", "the computed column is passed over");
    assert!(bundle.tests[0].runs.is_empty());
}

#[test]
fn rings_of_suites_and_activities_end() {
    let (_kept, path) = database_with(
        "CREATE TABLE TestSuites (parentSuite_fk INTEGER);
         INSERT INTO TestSuites (rowid, parentSuite_fk) VALUES (1, 2), (2, 1);
         CREATE TABLE TestSuiteRuns (parentSuiteRun_fk INTEGER);
         INSERT INTO TestSuiteRuns (rowid, parentSuiteRun_fk) VALUES (1, 1);
         CREATE TABLE Activities (parent_fk INTEGER);
         INSERT INTO Activities (rowid, parent_fk) VALUES (1, 2), (2, 1);
         CREATE TABLE Attachments (name TEXT, activity_fk INTEGER);
         INSERT INTO Attachments VALUES ('a', 1);
         CREATE TABLE TestCases (identifier TEXT, testSuite_fk INTEGER);
         INSERT INTO TestCases VALUES ('S/t()', 1);
         CREATE TABLE TestCaseRuns (result TEXT, testCase_fk INTEGER, testSuiteRun_fk INTEGER);
         INSERT INTO TestCaseRuns VALUES ('Exploded', 1, 1), ('Success', 99, 1);",
    );
    let bundle = database::read(&path).expect("readable");
    assert_eq!(bundle.tests[0].runs[0].result, buildpool_evidence::xcresult::TestResult::Failed);
    assert_eq!(bundle.notes.len(), 1, "an unknown word: {:?}", bundle.notes);
    assert!(bundle.cut.is_some(), "a run of no test");
}

#[test]
fn a_bundle_that_was_emptied_is_cut() {
    let whole = data("xcresult/Xcode26-Mixed-XCTest-SwiftTesting.xcresult/database.sqlite3");
    let directory = TempDir::new().expect("a directory");
    let after = |sql: &str| {
        let bundle = directory.path().join("r.xcresult");
        fs::create_dir_all(&bundle).expect("made");
        let path = bundle.join("database.sqlite3");
        fs::write(&path, fs::read(&whole).expect("read")).expect("written");
        let sql = format!("PRAGMA foreign_keys = OFF; {sql}");
        Connection::open(&path).and_then(|connection| connection.execute_batch(&sql)).expect("changed");
        let evidence = read_report(&bundle).expect("readable").evidence;
        evidence.test_reports.first().and_then(|report| report.cut.clone())
    };
    let results = "DELETE FROM TestCaseResultsByDestinationAndConfiguration;";
    assert_eq!(after(""), None);
    let none = format!(
        "DELETE FROM TestCases; DELETE FROM TestCaseRuns; {results} DELETE FROM TestSuiteRuns; DELETE FROM TestableRuns; DELETE FROM TestPlanRuns; DELETE FROM TestIssues;"
    );
    for sql in [
        "DELETE FROM TestCases;",
        "DELETE FROM TestCases WHERE rowid = 7;",
        "DROP TABLE TestCases;",
        "DELETE FROM TestCases; DELETE FROM TestCaseRuns;",
        &format!("DELETE FROM TestCases; DELETE FROM TestCaseRuns; {results}"),
        &format!(
            "DROP TABLE TestCases; DELETE FROM TestCaseRuns; {results} DELETE FROM TestSuiteRuns; DELETE FROM TestSuites;"
        ),
        &format!("DELETE FROM TestCaseRuns; {results}"),
        &format!("{none} DELETE FROM TestPlans;"),
        &format!("{none} DELETE FROM Actions; DELETE FROM Invocations; DELETE FROM BuildIssues;"),
    ] {
        assert!(after(sql).is_some(), "{sql}");
    }
    // A build has no tests either, and a failed build cannot run tests.
    for sql in [
        format!("{none} UPDATE Actions SET name = 'Build';"),
        format!("{none} UPDATE BuildIssues SET severity = 0;"),
    ] {
        assert_eq!(after(&sql), None, "{sql}");
    }
}

#[test]
fn a_database_that_is_a_link_or_no_bundle_is_refused() {
    let (kept, path) = database_with("CREATE TABLE Accounts (secret TEXT);");
    assert!(database::read(&path).expect_err("not a bundle").to_string().contains("TestCaseRuns"));
    let bundle = kept.path().join("a.xcresult");
    fs::create_dir(&bundle).expect("made");
    let real = data("xcresult/Xcode26-Mixed-XCTest-SwiftTesting.xcresult/database.sqlite3");
    std::os::unix::fs::symlink(real, bundle.join("database.sqlite3")).expect("linked");
    assert!(read_report(&bundle).expect_err("a link").to_string().contains("symbolic link"));
}

#[test]
fn evidence_stays_within_one_message() {
    let directory = TempDir::new().expect("a directory");
    for file in 0..30 {
        let mut xml = String::from("<testsuite>");
        for test in 0..600 {
            xml.push_str(&format!(
                "<testcase classname='c{file}' name='t{test}'><failure message='m'>{}</failure></testcase>",
                "x".repeat(5_000)
            ));
        }
        xml.push_str("</testsuite>");
        fs::write(directory.path().join(format!("{file}.xml")), xml).expect("written");
    }
    let patterns: Vec<String> = (0..30).map(|file| format!("{file}.xml")).collect();
    let ending = Ending::Exited { code: 1 };
    let evidence =
        collect(&Context { report_patterns: &patterns, ..Context::new(directory.path(), &[], &ending) });
    assert_eq!(
        evidence.test_reports.iter().map(|report| report.failed).sum::<u64>(),
        30 * 600,
        "counts stay"
    );
    let kept: u64 =
        evidence.test_reports.iter().map(|report| report.cases.len() as u64 + report.cases_omitted).sum();
    assert_eq!(kept, 30 * 600, "omitted parts are counted");
    assert!(serde_json::to_vec(&evidence).expect("JSON").len() <= EVIDENCE_BYTES_MAX);
}
