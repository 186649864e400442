//! Parses `go test -json`: one event per line. A package fails because of its tests, its build, or
//! a cause of its own: `TestMain`, an exit, a panic, a time limit.

use crate::formats::json_lines::{Unread, json_lines};
use crate::limits::{MESSAGE_BYTES_MAX, TESTS_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::Severity;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoEvent {
    action: String,
    #[serde(default)]
    package: Option<String>,
    #[serde(default)]
    import_path: Option<String>,
    #[serde(default)]
    test: Option<String>,
    #[serde(default)]
    elapsed: Option<f64>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    failed_build: Option<String>,
}

impl GoEvent {
    /// Returns true if Go 1.20 or later wrote this event. Go 1.20 added `start` events and the line
    /// `=== NAME`. Go 1.24 added build events, Go 1.25 attributes of tests.
    fn is_of_newer_go(&self) -> bool {
        match self.action.as_str() {
            "start" | "build-output" | "build-fail" | "attr" => true,
            "output" => self.output.as_deref().is_some_and(|output| output.starts_with("=== NAME  ")),
            _ => false,
        }
    }
}

/// Bounded output. It keeps the end, where Go prints why a test failed, or the text from a panic
/// on.
#[derive(Clone, Default)]
struct Printed {
    text: String,
    has_panic: bool,
}

#[derive(Default)]
struct OpenTest {
    output: Printed,
    running: bool,
}

/// State of a package with at least one event.
#[derive(Default)]
struct Package {
    has_start: bool,
    has_test: bool,
    /// True if the package failed and no later event arrived.
    has_failed: bool,
    /// Number of results per test in this run of the package. `-count` runs a test several times.
    results: HashMap<String, u64>,
    /// Output outside its tests, before `PASS` or `FAIL`.
    before: Printed,
    /// Output after `PASS` or `FAIL`, when all tests have ended.
    after: Printed,
    is_over: bool,
    /// The reason in its last line, for example `build failed`.
    reason: Option<String>,
    has_failed_test: bool,
    /// True if a failed test reports the panic that ended the package.
    is_panic_reported: bool,
    /// A panic that no failed test reports. Go attributes it to a test that passed or never ended.
    panic: Option<String>,
    ended: bool,
}

#[derive(Default)]
struct GoStream {
    tally: Tally,
    open: HashMap<(String, String), OpenTest>,
    packages: HashMap<String, Package>,
    /// Compiler output by import path. `None` after it was reported.
    builds: HashMap<String, Option<Printed>>,
    issues: Vec<ReportIssue>,
    notes: Vec<String>,
    /// True if the stream is from Go 1.20 or later, which writes a `start` event for each package.
    has_starts: bool,
    /// The first package that passed without a `start` event.
    unstarted: Option<String>,
    /// The first result without a start: a test that did not run before, or a package without a
    /// start and without a test.
    begun: Option<String>,
}

/// The first bytes of an event line.
const OPENINGS: &[&str] = &["{\"Time\":", "{\"Action\":", "{\"ImportPath\":"];

/// Parses a stream. Lines that are not events are skipped and counted.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut stream = GoStream::default();
    let unread = json_lines(bytes, OPENINGS, |event| stream.event(event));
    stream.finish(&unread)
}

impl GoStream {
    fn event(&mut self, event: GoEvent) {
        self.has_starts |= event.is_of_newer_go();
        if let (None, Some(path)) = (&event.package, &event.import_path) {
            return self.build(&event, path);
        }
        let name = event.package.as_deref().unwrap_or_default();
        if self.packages.len() >= TESTS_MAX && !self.packages.contains_key(name) {
            return;
        }
        let package = self.packages.entry(name.to_owned()).or_default();
        match (event.action.as_str(), event.test.as_deref()) {
            ("start", None) => {
                *package = Package { has_start: true, ..Package::default() };
            }
            ("output", None) => package.printed(event.output.as_deref().unwrap_or_default()),
            (action @ ("pass" | "skip"), None) => {
                package.ended = true;
                if action == "pass" && !package.has_start {
                    let bare = if package.has_test { &mut self.unstarted } else { &mut self.begun };
                    bare.get_or_insert_with(|| package_name(name).to_owned());
                }
            }
            ("fail", None) if package.is_reported() => {}
            ("fail", None) => self.package_failed(name, event.failed_build.as_deref()),
            (_, Some(test)) => self.test(&event, name, test),
            _ => {}
        }
    }

    fn build(&mut self, event: &GoEvent, path: &str) {
        if self.builds.len() >= TESTS_MAX && !self.builds.contains_key(path) {
            return;
        }
        match event.action.as_str() {
            "build-output" => {
                let printed = self.builds.entry(path.to_owned()).or_insert_with(|| Some(Printed::default()));
                if let Some(printed) = printed {
                    printed.keep(event.output.as_deref().unwrap_or_default());
                }
            }
            "build-fail" => {
                let printed = self.builds.insert(path.to_owned(), None).flatten().unwrap_or_default();
                self.issues.push(issue(path, " (build failed)", &printed.text));
            }
            _ => {}
        }
    }

    fn test(&mut self, event: &GoEvent, package: &str, test: &str) {
        let key = (package.to_owned(), test.to_owned());
        if self.open.len() >= TESTS_MAX && !self.open.contains_key(&key) {
            return;
        }
        match event.action.as_str() {
            "run" => {
                self.open.entry(key).or_default().running = true;
                // Some tools run the tests of a package again after the package ended.
                if let Some(package) = self.packages.get_mut(package) {
                    if package.ended {
                        package.results.clear();
                    }
                    (package.ended, package.is_over, package.has_test) = (false, false, true);
                }
            }
            "output" => {
                self.open.entry(key).or_default().output.keep(event.output.as_deref().unwrap_or_default());
            }
            "pass" | "fail" | "skip" => {
                let seen = self.open.remove(&key).unwrap_or_default();
                let mut place = 0;
                if let Some(package) = self.packages.get_mut(package) {
                    // With `-count`, a later pass of the same package run does not hide a failure.
                    // A new run of the package does.
                    place = package.nth(test);
                    package.test_ended(event.action == "fail", &seen.output);
                    if !seen.running && !package.has_start {
                        self.begun.get_or_insert_with(|| test.to_owned());
                    }
                }
                let run = test_run(package, test, &event.action, event.elapsed, &seen.output.text);
                self.tally.record(TestRun { place, ..run });
            }
            _ => {}
        }
    }

    fn package_failed(&mut self, name: &str, failed_build: Option<&str>) {
        let mut package = self.packages.remove(name).unwrap_or_default();
        let running = self.open.iter().filter(|((of, _), open)| of == name && open.running);
        let panic = running.map(|(_, open)| &open.output).find(|output| output.has_panic);
        package.panic = package.panic.or(panic.map(|output| output.text.clone()));
        let is_reported =
            failed_build.is_some_and(|build| self.builds.get(build).is_some_and(Option::is_none));
        if let (true, Some(build)) = (is_reported, failed_build) {
            // `m/a [m/a.test]` is the package itself, built for its tests.
            if build.split(' ').next() != Some(name) {
                self.notes.push(format!("package {name} failed: {build} did not build"));
            }
        } else if let Some(cause) = package.own_cause() {
            let reason = match (failed_build, &package.reason) {
                (Some(build), _) => format!(" ({build} did not build)"),
                (None, Some(reason)) => format!(" ({reason})"),
                (None, None) => String::new(),
            };
            self.issues.push(issue(name, &reason, &cause));
        }
        let failed_package = Package { ended: true, has_failed: true, ..Package::default() };
        self.packages.insert(name.to_owned(), failed_package);
    }

    fn finish(self, unread: &Unread) -> (Parsed, Vec<ReportIssue>) {
        let mut tally = self.tally;
        let mut left: Vec<_> =
            self.open.into_iter().filter(|(_, open)| open.running).map(|(key, _)| key).collect();
        left.sort();
        left.iter().for_each(|(package, test)| tally.unfinished(&full_name(package, test)));
        let mut parsed = tally.finish("go_json");
        parsed.notes.extend(self.notes);
        parsed.notes.extend(unread.note());
        let mut open: Vec<String> =
            self.packages.into_iter().filter(|(_, package)| !package.ended).map(|(name, _)| name).collect();
        open.sort();
        let ends = open.first().map(|first| {
            let more = if open.len() > 1 { format!(" and {} more", open.len() - 1) } else { String::new() };
            format!("the stream ends before {}{more}", package_name(first))
        });
        let begun = self.begun.or(self.unstarted.filter(|_| self.has_starts));
        let begins = begun.map(|what| format!("the stream begins after {what}"));
        let cut = ends.or(begins).or_else(|| unread.cut());
        parsed.notes.extend(cut.clone());
        parsed.report.cut = cut;
        (parsed, self.issues)
    }
}

impl Package {
    fn printed(&mut self, output: &str) {
        if is_verdict(output) {
            self.is_over = true;
        } else if let Some(line) = output.strip_prefix("FAIL\t") {
            let bracket = line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once('['));
            self.reason = bracket.map(|(_, reason)| reason.to_owned()).or(self.reason.take());
        } else {
            if self.is_over { &mut self.after } else { &mut self.before }.keep(output);
        }
    }

    fn test_ended(&mut self, failed: bool, output: &Printed) {
        self.has_failed_test |= failed;
        self.is_panic_reported |= failed && output.has_panic;
        if output.has_panic && !failed {
            self.panic.get_or_insert_with(|| output.text.clone());
        }
    }

    /// Returns true if the package has already failed and has printed nothing since.
    fn is_reported(&self) -> bool {
        self.ended && self.has_failed && self.before.text.is_empty() && self.after.text.is_empty()
    }

    /// Returns the index of this result of the test within this run of the package.
    fn nth(&mut self, test: &str) -> u64 {
        if let Some(count) = self.results.get_mut(test) {
            *count += 1;
            return *count;
        }
        if self.results.len() < TESTS_MAX {
            self.results.insert(test.to_owned(), 0);
        }
        0
    }

    /// Returns the output about a failure cause other than failed tests. Failed tests alone make a
    /// package fail with code 1.
    fn own_cause(&self) -> Option<String> {
        let Self { before, after, .. } = self;
        if !self.has_failed_test || self.reason.is_some() {
            let panic = self.panic.as_deref().filter(|_| !before.has_panic && !after.has_panic);
            return Some(format!("{}{}{}", panic.unwrap_or_default(), before.text, after.text));
        }
        let last: Vec<&str> = after.text.lines().filter(|line| !is_usual(line)).collect();
        if !last.is_empty() {
            return Some(last.join("\n"));
        }
        let ended = |line: &str| line.starts_with("signal: ") || line.starts_with("*** Test killed");
        let exited = |line: &str| line.starts_with("exit status ") && line != "exit status 1";
        let is_cause = |line: &str| ended(line) || (exited(line) && !self.is_panic_reported);
        if before.has_panic || before.text.lines().any(is_cause) {
            return Some(before.text.clone());
        }
        self.panic.clone()
    }
}

impl Printed {
    fn keep(&mut self, more: &str) {
        let framing =
            ["=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- ", "PASS\n", "FAIL\n", "ok  \t", "FAIL\t"];
        if framing.iter().any(|prefix| more.trim_start_matches(' ').starts_with(prefix)) {
            return;
        }
        if !self.has_panic && (more.starts_with("panic: ") || more.starts_with("fatal error: ")) {
            self.has_panic = true;
            // The text before a panic is less useful than the panic that ended the process.
            self.cut_to(MESSAGE_BYTES_MAX / 4);
        }
        if self.text.len() <= 2 * MESSAGE_BYTES_MAX {
            self.text.push_str(more);
        }
        if !self.has_panic && self.text.len() > 2 * MESSAGE_BYTES_MAX {
            self.cut_to(MESSAGE_BYTES_MAX);
        }
    }

    /// Keeps only the last `bytes` bytes.
    fn cut_to(&mut self, bytes: usize) {
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(bytes));
        self.text.drain(..from);
    }
}

/// Returns true for the result line of the test binary: `PASS` or `FAIL`.
fn is_verdict(output: &str) -> bool {
    matches!(output.trim_end(), "PASS" | "FAIL")
}

/// Returns true for lines that a package normally prints after its tests.
fn is_usual(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line == "exit status 1" || line.starts_with("coverage:")
}

fn package_name(name: &str) -> &str {
    if name.is_empty() { "the package" } else { name }
}

fn full_name(package: &str, test: &str) -> String {
    if package.is_empty() { test.to_owned() } else { format!("{package}.{test}") }
}

fn test_run(package: &str, test: &str, action: &str, elapsed: Option<f64>, output: &str) -> TestRun {
    let status = match action {
        "pass" => TestStatus::Passed,
        "skip" => TestStatus::Skipped,
        _ => TestStatus::Failed,
    };
    let trimmed = output.trim_end();
    let messages =
        if status == TestStatus::Passed || trimmed.is_empty() { vec![] } else { vec![trimmed.to_owned()] };
    let location = (status == TestStatus::Failed).then(|| text::place_in(trimmed, None)).flatten();
    TestRun {
        name: full_name(package, test),
        status,
        duration_secs: elapsed,
        messages,
        location,
        ..TestRun::default()
    }
}

fn issue(package: &str, why: &str, output: &str) -> ReportIssue {
    let output = output.trim_end();
    let text = if output.is_empty() { "no output" } else { output };
    let which = match package {
        "" => package_name(package).to_owned(),
        _ => format!("package {package}"),
    };
    ReportIssue {
        path: String::new(),
        severity: Severity::Error,
        message: text::message(&format!("{which} failed{why}: {text}")),
        location: text::place_in(output, None),
        category: None,
        advice: None,
    }
}

#[cfg(test)]
mod tests;
