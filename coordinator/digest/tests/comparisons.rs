//! No excerpt loses the lines between what a test expected and what it received, for any runner with samples.

#[expect(dead_code, reason = "other tests compare the facts of a log")]
mod recorded;

use buildpool_digest::limits::WHOLE_LOG_CHARS;
use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use recorded::{Log, ending, read, sets};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// First words of the two sides of a comparison. The sides come in any order.
const SIDES: [(&[&str], &[&str]); 3] = [
    (
        &["expected", "expecting"],
        &["received", "actual", "got", "but was", "but got", "to equal", "to be", "was:"],
    ),
    (&["left:"], &["right:"]),
    (&["want"], &["got", "have"]),
];
/// Titles of a comparison as a difference: its lines begin with a sign.
const DIFFERENCES: [&str; 10] = [
    "difference (- actual, + expected)",
    "+ expected - ",
    "- expected",
    "+ expected - actual",
    "+ actual - expected",
    "--- expected",
    "--- actual",
    "-expected +actual",
    "diff (-want +got)",
    "differences (-left|+right)",
];
/// Limit on the lines of a comparison that must be complete in every answer.
const LINES_MAX: usize = 14;
/// Titles of a comparison in the indented lines below.
const BLOCKS: [&str; 2] = ["expected equality of these values:", "with expansion:"];

/// Returns the line without the marks that runners put before a message.
fn bare(line: &str) -> String {
    let line = line.trim().trim_start_matches("[ERROR]").trim();
    let line = line.strip_prefix("E ").unwrap_or(line);
    line.trim_start_matches(['|', '#', '│', '!', ' ', '\t']).to_lowercase()
}

/// Returns the first and the last line of each comparison in a log.
fn comparisons(lines: &[String]) -> Vec<(usize, usize)> {
    let bare: Vec<String> = lines.iter().map(|line| bare(line)).collect();
    let begins = |at: usize, words: &[&str]| {
        words.iter().any(|word| {
            bare[at]
                .strip_prefix(word)
                .is_some_and(|rest| word.ends_with(':') || rest.starts_with([':', ' ', '=', '<', '[']))
        })
    };
    let mut found = Vec::new();
    for at in 0..lines.len() {
        if DIFFERENCES.iter().any(|title| bare[at].starts_with(title)) {
            let signed = |at: &usize| bare[*at].starts_with(['+', '-']);
            let ends = |at: usize| bare[at].starts_with("at ") || bare[at].starts_with("--- fail");
            let until = lines.len().min(at + LINES_MAX);
            let last = (at + 1..until).take_while(|next| !ends(*next)).filter(signed).last();
            found.extend(last.map(|last| (at, last)));
            continue;
        }
        let is_of_pytest = |at: usize| lines[at].starts_with("E  ");
        if is_of_pytest(at) && (at == 0 || !is_of_pytest(at - 1)) {
            let last =
                (at + 1..lines.len().min(at + LINES_MAX)).take_while(|next| is_of_pytest(*next)).last();
            found.extend(last.map(|last| (at, last)));
            continue;
        }
        if BLOCKS.contains(&bare[at].as_str()) {
            let indented =
                |next: &usize| lines[*next].starts_with([' ', '\t']) && !lines[*next].trim().is_empty();
            let last = (at + 1..lines.len().min(at + LINES_MAX)).take_while(indented).last();
            found.extend(last.map(|last| (at, last)));
            continue;
        }
        for (first, second) in SIDES.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
            if begins(at, first) {
                let until = lines.len().min(at + LINES_MAX);
                let next = (at + 1..until)
                    .take_while(|next| !begins(*next, first))
                    .find(|next| begins(*next, second));
                found.extend(next.map(|next| (at, next)));
            }
        }
    }
    found
}

/// Returns the samples of tools. The text beside each begins with its exit code.
fn samples() -> Vec<Log> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let entries = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).expect("the samples are there");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
        paths.sort();
        paths
    };
    let logs = entries(&root).into_iter().filter(|path| path.is_dir()).flat_map(|tool| entries(&tool));
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let read = |path: PathBuf| {
        let beside = std::fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        let code = beside
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("exit code ")?.split(':').next()?.parse().ok());
        Log {
            id: path.strip_prefix(&root).expect("it is below the root").display().to_string(),
            bytes: std::fs::read(&path).expect("it can be read"),
            exit_code: code,
            outcome: String::new(),
            must_keep: Vec::new(),
        }
    };
    logs.map(read).collect()
}

/// Returns a text without the sequences that set colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Renders a failed log that is too long to be shown whole.
fn answer(log: &Log, verbosity: Verbosity) -> String {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, &[b'\n'; WHOLE_LOG_CHARS + 1]);
    digester.push(Stream::Stdout, &log.bytes);
    let digest = digester.finish(&Facts { ending: log.exit_code.map(ending), ..Facts::default() });
    let mut result = JobResult::default();
    digest.render(verbosity, None, None, &mut result);
    text(&result)
}

#[test]
fn no_excerpt_loses_lines_between_expected_and_received() {
    let is_failed = |log: &Log| log.exit_code.is_some_and(|code| code != 0);
    let mut with_comparisons = BTreeSet::new();
    let mut faults = Vec::new();
    let recorded = sets().into_iter().flat_map(|directory| read(&directory));
    for log in samples().into_iter().chain(recorded).filter(is_failed) {
        let plain = without_colours(&String::from_utf8_lossy(&log.bytes));
        let lines: Vec<String> = plain.lines().map(str::to_owned).collect();
        let all = comparisons(&lines);
        if all.is_empty() {
            continue;
        }
        with_comparisons.insert(log.id.split('/').next().unwrap_or_default().to_owned());
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let shown = answer(&log, verbosity);
            // Compression joins spaces.
            let shown_words = words(&shown.replace("\n|", "\n"));
            let has = |line: &str| shown_words.contains(&words(line));
            let bodies: BTreeSet<&str> =
                shown.lines().filter_map(|shown| shown.strip_prefix('|')).map(str::trim).collect();
            let missing = |(first, last): &(usize, usize)| -> Vec<&String> {
                lines[*first..=*last].iter().filter(|line| !has(line)).collect()
            };
            let whole: BTreeSet<&str> = all
                .iter()
                .filter(|range| missing(range).is_empty())
                .map(|(first, _)| lines[*first].trim())
                .collect();
            for range in &all {
                let first = lines[range.0].trim();
                // Another test may have failed with the same line, and is shown whole.
                if bodies.contains(first) && !whole.contains(first) {
                    faults.push(format!("{} {verbosity:?}: {first:?} without {:?}", log.id, missing(range)));
                }
            }
            if whole.is_empty() {
                faults.push(format!(
                    "{} {verbosity:?}: no comparison of {} is shown, first {:?}",
                    log.id,
                    all.len(),
                    lines[all[0].0]
                ));
            }
        }
    }
    println!("tools with comparisons: {with_comparisons:?}");
    assert!(with_comparisons.len() >= 20, "{with_comparisons:?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
