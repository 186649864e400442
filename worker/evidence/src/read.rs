//! Reads one report of any kind.

use crate::crash;
use crate::detect::{self, ReportKind};
use crate::error::EvidenceError;
use crate::files;
use crate::formats::{cargo_json, go_json, junit, tap};
use crate::infrastructure;
use crate::limits::{CRASH_FILE_BYTES_MAX, PREAMBLE_BYTES_MAX, REPORT_BYTES_MAX, RESULT_TOOL_TIME_MAX};
use crate::platform;
use crate::run_tool;
use crate::sanitizer;
use crate::tally::Parsed;
use crate::text;
use crate::xcresult::tool::{self, Question};
use crate::xcresult::{self, Bundle, database};
use buildpool_protocol::evidence::{Evidence, ReportIssue, TestStatus};
use buildpool_protocol::report::CrashReport;
use memchr::memmem;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of bytes read to detect the kind of a file.
const HEAD_BYTES: usize = 16 << 10;

/// A report that was read.
#[derive(Clone, Debug)]
pub struct ReadReport {
    /// Detected kind.
    pub kind: ReportKind,
    /// Content: a test report, crash reports, problems, notes.
    pub evidence: Evidence,
    /// UDIDs of the devices and simulators on which tests ran.
    pub devices: Vec<String>,
    /// Result of every test, to compare reports with each other.
    pub(crate) statuses: HashMap<String, TestStatus>,
    /// Holder of each test: its suites, its binary.
    pub(crate) holders: HashMap<String, Arc<str>>,
    /// Hash of a text report. `None` if another run could have written the same content.
    pub(crate) content: Option<u64>,
}

/// Reads a report or a result bundle given by the user: `buildpool digest --report FILE`.
///
/// # Errors
///
/// Fails if it is missing, too large, malformed or of an unknown kind.
pub fn read_report(path: &Path) -> Result<ReadReport, EvidenceError> {
    // The user gave this path, so it may be a symbolic link. Links below it are not followed.
    let real = std::fs::canonicalize(path).map_err(|error| EvidenceError::io(path, error))?;
    read_at(&real, &path.display().to_string(), None)
}

/// Reads a report at a path that is not a symbolic link. `shown` is its name in the result.
pub(crate) fn read_at(path: &Path, shown: &str, root: Option<&Path>) -> Result<ReadReport, EvidenceError> {
    let metadata = std::fs::symlink_metadata(path).map_err(|error| EvidenceError::io(path, error))?;
    if metadata.is_dir() {
        return read_bundle(path, shown, root);
    }
    let head = files::read_head(path, HEAD_BYTES)?;
    let kind = match detect::kind_of(&head) {
        None => detect::kind_behind_preamble(&files::read_head(path, PREAMBLE_BYTES_MAX)?)
            .or_else(|| (has_name(path, OF_CRASHES) && !is_empty(&head)).then_some(ReportKind::Crash)),
        known => known,
    };
    let is_named = has_name(path, OF_REPORTS) || has_name(path, OF_CRASHES);
    let kind = kind.ok_or_else(|| match is_empty(&head) && is_named {
        true => EvidenceError::Empty { path: path.to_owned() },
        false => EvidenceError::Unrecognised { path: path.to_owned() },
    })?;
    match kind {
        ReportKind::ResultBundle => Ok(from_bundle(database::read(path)?, shown, root, Vec::new())),
        ReportKind::Crash => {
            let mut crash = crash::parse(&files::read_bounded(path, CRASH_FILE_BYTES_MAX)?, path)?;
            crash.report.matched_by = Some("named".to_owned());
            let evidence = Evidence { crash_reports: vec![crash.report], ..Evidence::default() };
            Ok(without_tests(kind, evidence, crash.device.into_iter().collect()))
        }
        ReportKind::Sanitizer => {
            let bytes = files::read_bounded(path, REPORT_BYTES_MAX)?;
            let evidence = sanitizer::parse(&text::lossy(&bytes), path, root);
            Ok(without_tests(kind, named(evidence, shown), Vec::new()))
        }
        ReportKind::ResultJson => {
            let bytes = files::read_bounded(path, REPORT_BYTES_MAX)?;
            let bundle = tool::parse_tests(&bytes)
                .map_err(|error| EvidenceError::malformed(path, "xcresulttool JSON", error.to_string()))?;
            Ok(from_bundle(bundle, shown, root, Vec::new()))
        }
        ReportKind::Junit | ReportKind::GoJson | ReportKind::CargoJson | ReportKind::Tap => {
            let bytes = files::read_bounded(path, REPORT_BYTES_MAX)?;
            let read = parse_text(kind, &bytes, path, shown, root)?;
            Ok(ReadReport { content: has_time(&bytes).then(|| hash_of(&bytes)), ..read })
        }
    }
}

/// Text before a time value in JUnit XML, TAP and Go's JSON.
const TIMES: &[&[u8]] =
    &[b" time=\"", b" time='", b" timestamp=\"", b" timestamp='", b"# time=", b"\"Time\":", b"\"Elapsed\":"];
/// Extensions of report files. A file with such a name is a report even if it is empty.
const OF_REPORTS: &[&str] = &["xml", "json", "jsonl", "ndjson", "tap", "sqlite3"];
const OF_CRASHES: &[&str] = &["ips", "crash"];

fn has_name(path: &Path, extensions: &[&str]) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    extensions.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

fn is_empty(head: &[u8]) -> bool {
    head.trim_ascii().is_empty()
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns true if a text report contains a non-zero time or duration.
fn has_time(bytes: &[u8]) -> bool {
    let is_some = |value: &[u8]| {
        let value = value.iter().skip_while(|byte| matches!(byte, b'"' | b'\'' | b' '));
        value.take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).any(|byte| matches!(byte, b'1'..=b'9'))
    };
    TIMES.iter().any(|name| {
        memmem::find_iter(bytes, name).any(|at| bytes.get(at + name.len()..).is_some_and(is_some))
    })
}

fn parse_text(
    kind: ReportKind,
    bytes: &[u8],
    path: &Path,
    shown: &str,
    root: Option<&Path>,
) -> Result<ReadReport, EvidenceError> {
    let text = text::lossy(bytes);
    let bytes = text.as_bytes();
    let (parsed, issues) = match kind {
        ReportKind::Junit => {
            // Other XML has the same start.
            junit::parse(detect::from_xml(&text).as_bytes(), root).map_err(|reason| {
                match text.contains("testsuite") || detect::ends_before_element(&text) {
                    true => EvidenceError::malformed(path, "JUnit XML", reason),
                    false => EvidenceError::Unrecognised { path: path.to_owned() },
                }
            })?
        }
        ReportKind::GoJson => go_json::parse(bytes),
        ReportKind::CargoJson => cargo_json::parse(bytes),
        _ => tap::parse(bytes),
    };
    Ok(report(kind, parsed, issues, shown))
}

fn report(kind: ReportKind, parsed: Parsed, mut issues: Vec<ReportIssue>, shown: &str) -> ReadReport {
    issues.iter_mut().for_each(infrastructure::label);
    let notes = parsed.notes.iter().map(|note| format!("{shown}: {note}")).collect();
    let evidence = Evidence { test_reports: vec![parsed.report], issues, notes, ..Evidence::default() };
    let (statuses, holders) = (parsed.statuses, parsed.holders);
    ReadReport {
        kind,
        evidence: named(evidence, shown),
        devices: Vec::new(),
        statuses,
        holders,
        content: None,
    }
}

fn without_tests(kind: ReportKind, evidence: Evidence, devices: Vec<String>) -> ReadReport {
    ReadReport { kind, evidence, devices, statuses: HashMap::new(), holders: HashMap::new(), content: None }
}

/// Sets the report name in all parts of the evidence that contain one.
fn named(mut evidence: Evidence, shown: &str) -> Evidence {
    let shown = text::name(shown);
    for report in &mut evidence.test_reports {
        report.path.clone_from(&shown);
        report.cut = report.cut.take().map(|reason| text::message(&format!("{shown}: {reason}")));
    }
    evidence.issues.iter_mut().for_each(|issue| issue.path.clone_from(&shown));
    evidence
}

fn read_bundle(path: &Path, shown: &str, root: Option<&Path>) -> Result<ReadReport, EvidenceError> {
    let database = path.join("database.sqlite3");
    if std::fs::symlink_metadata(&database).is_ok() {
        let bundle = database::read(&database)?;
        let crashes = attached_crashes(path, &bundle);
        return Ok(from_bundle(bundle, shown, root, crashes));
    }
    if !path.join("Info.plist").is_file() || !path.join("Data").is_dir() {
        // A directory with this extension is an incomplete or emptied bundle.
        if has_name(path, &["xcresult"]) {
            let reason = "it has no database.sqlite3, nor Info.plist and Data";
            return Err(EvidenceError::malformed(path, "result bundle", reason));
        }
        return Err(EvidenceError::NotAReport {
            path: path.to_owned(),
            kind: "a directory that is not a result bundle",
        });
    }
    if !platform::HAS_XCODE {
        return Err(EvidenceError::NeedsXcode { path: path.to_owned(), tried: None });
    }
    let bundle = ask_tool(path)?;
    Ok(from_bundle(bundle, shown, root, Vec::new()))
}

/// Reads a bundle with `xcresulttool`. The current subcommands run first, the legacy one only if
/// they fail.
fn ask_tool(path: &Path) -> Result<Bundle, EvidenceError> {
    let bytes = usize::try_from(REPORT_BYTES_MAX).unwrap_or(usize::MAX);
    let ask = |question| run_tool::output(&tool::command(question, path), RESULT_TOOL_TIME_MAX, bytes);
    let failed = |tried: String| EvidenceError::NeedsXcode { path: path.to_owned(), tried: Some(tried) };
    let tests =
        ask(Question::Tests).and_then(|json| tool::parse_tests(&json).map_err(|error| error.to_string()));
    let build =
        ask(Question::Build).and_then(|json| tool::parse_build(&json).map_err(|error| error.to_string()));
    match (tests, build) {
        (Ok(mut bundle), build) => {
            bundle.issues = build.unwrap_or_default();
            Ok(bundle)
        }
        (Err(_), Ok(issues)) if !issues.is_empty() => Ok(Bundle { issues, ..Bundle::default() }),
        (Err(_), _) => {
            let json = ask(Question::Legacy).map_err(failed)?;
            tool::parse_legacy(&json).map_err(|error| failed(error.to_string()))
        }
    }
}

fn from_bundle(bundle: Bundle, shown: &str, root: Option<&Path>, crashes: Vec<CrashReport>) -> ReadReport {
    let devices =
        bundle.destinations.iter().map(|place| place.device_id.clone()).filter(|id| !id.is_empty()).collect();
    let (parsed, issues) = xcresult::to_parsed(bundle, root);
    let nothing_ran =
        parsed.statuses.is_empty() && parsed.report.unfinished.is_empty() && parsed.report.cut.is_none();
    let mut read = report(ReportKind::ResultBundle, parsed, issues, shown);
    if nothing_ran && !read.evidence.issues.is_empty() {
        // A failed build has no tests. An empty report would look like a run without tests.
        read.evidence.test_reports.clear();
    }
    read.evidence.crash_reports = crashes;
    read.devices = devices;
    read
}

/// Reads crash files that Xcode attached to failed tests. Their contents are zstd frames in `Data`.
fn attached_crashes(bundle_path: &Path, bundle: &Bundle) -> Vec<CrashReport> {
    let attachments = bundle.tests.iter().flat_map(|test| &test.runs).flat_map(|run| &run.attachments);
    let is_crash =
        |name: &str| Path::new(name).extension().is_some_and(|kind| kind == "ips" || kind == "crash");
    attachments
        .filter(|attachment| is_crash(&attachment.name))
        .filter_map(|attachment| {
            let path = payload_path(bundle_path, attachment.payload_id.as_deref()?)?;
            let mut crash = crash::parse(&payload(&path)?, Path::new(&attachment.name)).ok()?;
            crash.report.matched_by = Some("attached".to_owned());
            crash.report.file_path = text::name(&format!("{}/{}", bundle_path.display(), attachment.name));
            Some(crash.report)
        })
        .take(crate::limits::CRASH_REPORTS_MAX)
        .collect()
}

/// Returns the path of an attachment. An id must be a plain file name, and `Data` must not be a
/// link out of the bundle.
fn payload_path(bundle: &Path, id: &str) -> Option<PathBuf> {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"~_-=".contains(&byte));
    let data = std::fs::canonicalize(bundle.join("Data")).ok()?;
    let inside = data.starts_with(std::fs::canonicalize(bundle).ok()?);
    (plain && inside && id.len() < 200).then(|| data.join(format!("data.{id}")))
}

fn payload(path: &Path) -> Option<Vec<u8>> {
    let stored = files::read_bounded(path, CRASH_FILE_BYTES_MAX).ok()?;
    if !stored.starts_with(b"\x28\xB5\x2F\xFD") {
        return Some(stored);
    }
    let mut content = Vec::new();
    zstd::Decoder::new(stored.as_slice()).ok()?.take(CRASH_FILE_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(content)
}
