//! Real logs: each verdict against the known outcome, with and without the exit code. The logs in `tests/logs` are always
//! there; a larger set is used when `BUILDPOOL_CORPUS` names its directory.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;
use serde_json::Value;
use std::path::{Path, PathBuf};

struct Log {
    id: String,
    bytes: Vec<u8>,
    exit_code: Option<i64>,
    outcome: String,
    must_keep: Vec<String>,
}

fn read(directory: &Path) -> Vec<Log> {
    let manifest = std::fs::read_to_string(directory.join("manifest.jsonl")).expect("the set has a manifest");
    let logs = manifest.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let entry: Value = serde_json::from_str(line).expect("each line of the manifest is JSON");
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let keep = entry["must_keep"].as_array().cloned().unwrap_or_default();
        Log {
            id: text("id"),
            bytes: std::fs::read(directory.join(text("file"))).expect("each log of the manifest is there"),
            exit_code: entry["exit_code"].as_i64(),
            outcome: text("outcome"),
            must_keep: keep.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        }
    });
    logs.collect()
}

fn sets() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let larger = std::env::var_os("BUILDPOOL_CORPUS").map(PathBuf::from).filter(|path| path.exists());
    std::iter::once(own).chain(larger).collect()
}

fn ending(code: i64) -> Ending {
    // The manifests write a death by a signal as its negative number.
    let name = |signal: i64| match signal {
        6 => "SIGABRT",
        11 => "SIGSEGV",
        9 => "SIGKILL",
        _ => "SIGTERM",
    };
    if code < 0 {
        Ending::Signaled { signal: -code as i32, name: name(-code).to_owned(), core_dump: false }
    } else {
        Ending::Exited { code: code as i32 }
    }
}

fn digest(log: &Log, ending: Option<Ending>) -> Digest {
    digest_with(log, ending, Options::default())
}

fn digest_with(log: &Log, ending: Option<Ending>, options: Options) -> Digest {
    let mut digester = Digester::new(options);
    for chunk in log.bytes.chunks(50_000) {
        digester.push(Stream::Stdout, chunk);
    }
    digester.finish(&Facts { ending, ..Facts::default() })
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_verdict_contradicts_a_known_outcome() {
    let mut wrong = Vec::new();
    for log in sets().iter().flat_map(|directory| read(directory)) {
        for ending in [None, log.exit_code.map(ending)] {
            let known = ending.is_some();
            let digest = digest(&log, ending);
            let fine = match (log.outcome.as_str(), digest.verdict) {
                ("pass", Verdict::Passed) => true,
                ("pass", Verdict::Inconclusive) => !known,
                ("fail" | "crash", Verdict::Failed | Verdict::Crashed) => true,
                ("fail" | "crash", Verdict::Inconclusive) => !known,
                ("pass" | "fail" | "crash", _) => false,
                _ => true,
            };
            if !fine {
                let cause = digest.cause.map(|cause| cause.text).unwrap_or_default();
                wrong
                    .push(format!("{} ({}, known {known}): {} {cause}", log.id, log.outcome, digest.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_fact_is_kept() {
    let mut missing = Vec::new();
    for log in sets().iter().flat_map(|directory| read(directory)) {
        let digest = digest(&log, log.exit_code.map(ending));
        let mut result = JobResult::default();
        digest.render(Verbosity::Normal, None, None, &mut result);
        let shown = words(&text(&result));
        for fact in &log.must_keep {
            if !shown.contains(&words(fact)) {
                missing.push(format!("{}: {fact}", log.id));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Whether a log's verdict, findings or counts change when the rules with this prefix are left out.
fn is_red_without(log: &Log, prefix: &str) -> bool {
    let facts = |digest: &Digest| {
        let messages: Vec<_> = digest
            .findings
            .iter()
            .map(|finding| {
                (finding.message.clone(), finding.tier, finding.location.clone(), finding.confidence)
            })
            .collect();
        (digest.verdict, messages, digest.tests.clone(), digest.cause.clone())
    };
    let ending = log.exit_code.map(ending);
    let options = Options { without_rules: Some(prefix.to_owned()), ..Options::default() };
    facts(&digest(log, ending.clone())) != facts(&digest_with(log, ending, options))
}

#[test]
fn each_recogniser_is_worth_something() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let logs = read(&own);
    for (prefix, id) in [
        ("swift_testing", "xcnvim-tc18"),
        ("xcodebuild", "xcnvim-tc24"),
        ("xctest", "xcnvim-tc20"),
        ("rust", "hex-compile-error"),
        ("pytest", "pyparsing-collect-missing-module"),
        ("go", "demo-race"),
        ("gtest", "ctest-output-on-failure"),
        ("ctest", "ctest-quiet"),
        ("mocha", "mocha-spec-fail"),
        ("maven", "mvn-test-fail-multi-module"),
        ("rspec", "rspec-doc-fail"),
        ("cmake", "cmake-configure-error"),
        ("sanitizer", "asan-uaf"),
        ("shell", "sigsegv-null"),
    ] {
        let log = logs.iter().find(|log| log.id == id).unwrap_or_else(|| panic!("{id} is in tests/logs"));
        assert!(is_red_without(log, prefix), "{id} does not show what the rules `{prefix}` are worth");
    }
}

#[test]
fn budgets_hold() {
    for log in sets().iter().flat_map(|directory| read(directory)) {
        let digest = digest(&log, log.exit_code.map(ending));
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let mut result = JobResult::default();
            digest.render(verbosity, None, None, &mut result);
            let mut parts: Vec<&str> = Vec::new();
            parts.extend(
                [&result.stdout, &result.stderr, &result.filtered_output]
                    .into_iter()
                    .flatten()
                    .map(String::as_str),
            );
            parts.extend(result.warnings.shown.iter().map(String::as_str));
            parts.extend(result.other_findings.iter().map(|finding| finding.message.as_str()));
            for finding in &result.tier_1_findings {
                parts.push(&finding.message);
                parts.extend(finding.pre_context.iter().chain(&finding.post_context).map(String::as_str));
            }
            let (lines, chars) = verbosity.budget();
            let used: usize = parts.iter().map(|part| part.chars().count()).sum();
            let rows: usize = parts.iter().map(|part| part.lines().count()).sum();
            assert!(used <= chars, "{} {}: {used} characters", log.id, verbosity.name());
            assert!(rows <= lines, "{} {}: {rows} lines", log.id, verbosity.name());
            assert!(result.tier_1_findings.len() <= 15 && result.next.len() <= 3);
        }
    }
}
