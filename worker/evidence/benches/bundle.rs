//! Measures time and memory for reading a result bundle of 20 MB. The bundle is the recorded one of
//! Xcode 26, with its tests repeated under other names.
//!
//! `cargo bench -p buildpool-evidence --bench bundle`
#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use buildpool_evidence::read_report;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const TARGET_BYTES: u64 = 20 << 20;
const ROUNDS: usize = 15;

/// Tables with a row count that grows with the number of tests.
const GROWING: &[&str] = &[
    "TestCases",
    "TestCaseRuns",
    "TestIssues",
    "SourceCodeContexts",
    "SourceCodeLocations",
    "SourceCodeFrames",
    "SourceCodeSymbolInfos",
    "Activities",
    "Attachments",
    "Arguments",
    "TestValues",
    "Parameters",
    "RepetitionPolicies",
    "SkipNotices",
    "TestCaseResultsByDestinationAndConfiguration",
    "TestTags",
    "Expressions",
];

/// Foreign-key columns that refer to a growing table.
const POINTERS: &[&str] = &[
    "testCase_fk",
    "testCaseRun_fk",
    "sourceCodeContext_fk",
    "location_fk",
    "context_fk",
    "symbolInfo_fk",
    "parent_fk",
    "activity_fk",
    "testIssue_fk",
    "parameter_fk",
    "testValue_fk",
    "repetitionPolicy_fk",
    "skipNotice_fk",
    "expression_fk",
];

fn enlarge(database: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(database)?;
    connection.execute_batch("PRAGMA foreign_keys=OFF")?;
    let mut last = Vec::new();
    for table in GROWING {
        last.push(connection.query_row(
            &format!("SELECT ifnull(max(rowid), 0) FROM {table}"),
            [],
            |row| row.get::<_, i64>(0),
        )?);
    }
    for copy in 1_i64.. {
        connection.execute_batch("BEGIN")?;
        for (table, last) in GROWING.iter().zip(&last) {
            let mut statement = connection.prepare(&format!("PRAGMA table_info({table})"))?;
            let columns: Vec<String> =
                statement.query_map([], |row| row.get(1))?.collect::<rusqlite::Result<_>>()?;
            let offset = copy * 100_000;
            let values: Vec<String> = columns
                .iter()
                .map(|column| match column.as_str() {
                    pointer if POINTERS.contains(&pointer) => format!("{pointer} + {offset}"),
                    "identifier" if *table == "TestCases" => format!("'Copy{copy}/' || identifier"),
                    other => other.to_owned(),
                })
                .collect();
            connection.execute_batch(&format!(
                "INSERT INTO {table} (rowid, {}) SELECT rowid + {offset}, {} FROM {table} WHERE rowid <= {last}",
                columns.join(", "),
                values.join(", ")
            ))?;
        }
        connection.execute_batch("COMMIT")?;
        if fs::metadata(database).map_or(0, |metadata| metadata.len()) >= TARGET_BYTES {
            break;
        }
    }
    Ok(())
}

/// Returns the peak resident set size of this process in MB, or `None` where `/proc` does not
/// exist.
fn peak_megabytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}

fn main() {
    let recorded = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/xcresult/Xcode26-Mixed-XCTest-SwiftTesting.xcresult");
    let directory = tempfile::TempDir::new().expect("a directory");
    let bundle = directory.path().join("large.xcresult");
    fs::create_dir(&bundle).expect("made");
    let database = bundle.join("database.sqlite3");
    fs::copy(recorded.join("database.sqlite3"), &database).expect("copied");
    enlarge(&database).expect("enlarged");
    let before = peak_megabytes();
    let mut times = Vec::new();
    let mut told = String::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let read = read_report(&bundle).expect("readable");
        times.push(started.elapsed());
        let report = &read.evidence.test_reports[0];
        told = format!("{} tests, {} runs", report.passed + report.failed + report.skipped, report.runs);
    }
    times.sort();
    let bytes = fs::metadata(&database).map_or(0, |metadata| metadata.len());
    println!("bundle: {:.1} MB, {told}", bytes as f64 / 1e6);
    println!("read: median {:?}, fastest {:?}, slowest {:?}", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
    println!("peak resident: {:?} MB before, {:?} MB after", before, peak_megabytes());
}
