//! Tests of the public API: each file is read by its content, or refused with a reason.

mod common;

use buildpool_evidence::{
    Collection, Context, EvidenceError, Progress, ReportKind, collect, read_report, result_bundle_in,
};
use buildpool_protocol::evidence::{Evidence, TestStatus};
use buildpool_protocol::outcome::Ending;
use common::collected;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("made");
        for entry in fs::read_dir(from).expect("listed") {
            let entry = entry.expect("an entry");
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        // Write instead of copy: the modification time separates a report of this run from a stale
        // one.
        fs::write(to, fs::read(from).expect("read")).expect("written");
    }
}

#[test]
fn a_crash_of_a_simulator_test_host() {
    let read = read_report(&data("crash/xctest-sim-sigtrap.ips")).expect("a crash");
    assert_eq!(read.kind, ReportKind::Crash);
    assert_eq!(read.devices, ["D95B17F2-6822-4CD1-B7AA-E73DB34FFD4E"]);
    let report = &read.evidence.crash_reports[0];
    assert_eq!(report.process_name, "xctest3");
    assert!(
        report.process_path.as_deref().is_some_and(|path| path.ends_with("/Library/Xcode/Agents/xctest"))
    );
    assert_eq!(report.pid, Some(82_406));
    assert_eq!(report.exception_type.as_deref(), Some("EXC_BREAKPOINT"));
    assert_eq!(report.signal.as_deref(), Some("SIGTRAP"));
    let ended = report.termination.clone().expect("a termination");
    assert_eq!((ended.namespace.as_deref(), ended.code), (Some("SIGNAL"), Some(5)));
    assert_eq!(ended.indicator.as_deref(), Some("Trace/BPT trap: 5"));
    assert_eq!(report.timestamp.as_deref(), Some("2022-04-20T14:36:33.5767+01:00"));
    assert_eq!(report.top_frames[0], "TpxUnitTests  -[TpxUnitTests testExample1] + 48 (TpxUnitTests.m:15)");
    assert!(report.top_frames.iter().any(|frame| frame.contains("-[NSInvocation invoke] + 300")));
}

#[test]
fn a_crash_in_the_older_text() {
    let read = read_report(&data("crash/app-simulator.crash")).expect("a crash");
    let report = &read.evidence.crash_reports[0];
    assert_eq!((report.process_name.as_str(), report.pid), ("TableSearch", Some(37_083)));
    assert_eq!(report.exception_type.as_deref(), Some("EXC_CRASH"));
    assert_eq!(report.signal.as_deref(), Some("SIGABRT"));
    assert_eq!(report.timestamp.as_deref(), Some("2016-03-15T08:26:41.996+00:00"));
    assert_eq!(report.top_frames[0], "libsystem_kernel.dylib  __pthread_kill + 10");
    assert_eq!(report.top_frames.len(), 16);
    let message = report.message.as_deref().expect("the application printed the reason");
    assert!(
        message.starts_with("*** Terminating app due to uncaught exception 'NSInvalidArgumentException'"),
        "{message}"
    );
    assert_eq!(read.devices, ["2FF8DD07-20B7-4D04-97F0-092DF61CD3C3"]);
}

#[test]
fn a_crash_file_that_breaks_off_is_refused_with_a_reason() {
    let directory = TempDir::new().expect("a directory");
    let whole = fs::read(data("crash/xctest-sim-sigtrap.ips")).expect("read");
    for part in [300, 1_000, whole.len() - 5] {
        let path = directory.path().join("part");
        fs::write(&path, &whole[..part]).expect("written");
        let error = read_report(&path).expect_err("it breaks off");
        assert!(matches!(error, EvidenceError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains("part"), "{error}");
    }
}

#[test]
fn apples_json_gives_what_the_database_gives() {
    let of = |name: &str| {
        let mut report = read_report(&data(&format!("xcresult/Xcode26-Mixed-XCTest-SwiftTesting.{name}")))
            .expect("readable")
            .evidence
            .test_reports
            .remove(0);
        report.path.clear();
        report.cases.sort_by(|a, b| a.name.cmp(&b.name));
        for case in &mut report.cases {
            // The tool prints only the file name, rounds, does not list attachments, and does not
            // truncate messages.
            case.attachments.clear();
            case.duration_secs = None;
            if let Some(place) = &mut case.location {
                place.file = place.file.rsplit('/').next().unwrap_or_default().to_owned();
            }
            case.arguments.sort_by(|a, b| a.arguments.cmp(&b.arguments));
        }
        for test in &mut report.passed_tests {
            // The tool rounds them, and picks another run of a test that ran twice.
            test.duration_secs = None;
        }
        report
    };
    let (database, printed) = (of("xcresult"), of("json"));
    assert_eq!(database.cases.len(), 20);
    assert_eq!(printed, database);
}

#[test]
fn a_failed_build_is_problems_and_not_a_run_without_tests() {
    let read = read_report(&data("xcresult/resultWithCompileError.xcresult")).expect("readable");
    assert!(read.evidence.test_reports.is_empty());
    assert_eq!(read.evidence.issues.len(), 2);
    assert!(read.evidence.issues[0].message.contains("Cannot find 'xmlString1' in scope"));
}

#[cfg(not(target_os = "macos"))]
#[test]
fn a_bundle_without_a_database_says_what_it_needs() {
    for name in ["BuildError", "LinkError"] {
        let error = read_report(&data(&format!("xcresult/{name}.xcresult"))).expect_err("it needs Xcode");
        assert!(matches!(error, EvidenceError::NeedsXcode { .. }));
        assert!(error.to_string().contains("xcrun xcresulttool"), "{error}");
    }
}

#[test]
fn what_is_no_report_is_refused_and_says_why() {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    assert!(matches!(read_report(&at("none")), Err(EvidenceError::NotFound { .. })));
    fs::write(at("prose"), "hello\n").expect("written");
    assert!(matches!(read_report(&at("prose")), Err(EvidenceError::Unrecognised { .. })));
    fs::write(at("empty"), "").expect("written");
    assert!(matches!(read_report(&at("empty")), Err(EvidenceError::Unrecognised { .. })));
    for (name, content, reason) in [
        ("empty.ips", "", "the file is empty"),
        ("begun.crash", "Incident Identifier: 1\nProcess: a [1]\n", "`Process:`"),
        ("other.ips", "hello\n", "`Process:`"),
    ] {
        fs::write(at(name), content).expect("written");
        let error = read_report(&at(name)).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
    assert!(matches!(read_report(directory.path()), Err(EvidenceError::NotAReport { .. })));
    let fifo = at("pipe");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    assert!(matches!(read_report(&fifo), Err(EvidenceError::NotAReport { .. })));
    let sparse = fs::File::create(at("large.xml")).expect("made");
    std::io::Write::write_all(&mut &sparse, b"<testsuite>").expect("written");
    sparse.set_len(buildpool_evidence::limits::REPORT_BYTES_MAX + 1).expect("made long");
    assert!(matches!(read_report(&at("large.xml")), Err(EvidenceError::TooLarge { .. })));
}

fn context<'a>(
    directory: &'a Path,
    command: &'a [String],
    patterns: &'a [String],
    ending: &'a Ending,
) -> Context<'a> {
    Context { report_patterns: patterns, ..Context::new(directory, command, ending) }
}

const FAILED: Ending = Ending::Exited { code: 65 };

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_bundle_that_the_command_names_is_collected_and_supersedes_its_junit_copy() {
    let directory = TempDir::new().expect("a directory");
    let bundle = "Xcode26-Mixed-XCTest-SwiftTesting.xcresult";
    copy(&data("xcresult").join(bundle), &directory.path().join("out.xcresult"));
    fs::create_dir(directory.path().join("reports")).expect("made");
    copy(
        &data("xcresult/Xcode26-Mixed-XCTest-SwiftTesting-WithoutRetries.junit"),
        &directory.path().join("reports/a.xml"),
    );
    let command = strings(&["xcodebuild", "test", "-resultBundlePath", "out.xcresult"]);
    assert_eq!(result_bundle_in(&command), Some("out.xcresult".into()));
    let patterns = strings(&["reports/*.xml", "*.xcresult"]);
    let evidence = collect(&context(directory.path(), &command, &patterns, &FAILED));
    let told: Vec<_> = evidence
        .test_reports
        .iter()
        .map(|report| (report.path.as_str(), report.failed, report.superseded_by.as_deref()))
        .collect();
    assert_eq!(
        told,
        [("out.xcresult", 13, None), ("reports/a.xml", 13, Some("out.xcresult"))],
        "{:?}",
        evidence.notes
    );
    assert_eq!(evidence.notes, Vec::<String>::new());
    let bytes = serde_json::to_vec(&evidence).expect("JSON").len();
    assert!(bytes <= buildpool_evidence::limits::EVIDENCE_BYTES_MAX, "{bytes}");
}

#[test]
fn reports_of_an_earlier_run_are_not_believed_and_take_one_note() {
    let directory = TempDir::new().expect("a directory");
    for name in ["a.xml", "b.xml", "c.xml"] {
        let path = directory.path().join(name);
        fs::write(&path, "<testsuite><testcase name='a'/></testsuite>").expect("written");
    }
    let patterns = strings(&["*.xml", "missing/*.xml", "sub/none.xml"]);
    let now = i64::try_from(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later").as_millis(),
    );
    let started_at_ms = now.expect("fits") + 60_000;
    let evidence = collect(&Context { started_at_ms, ..context(directory.path(), &[], &patterns, &FAILED) });
    assert!(evidence.test_reports.is_empty());
    assert!(evidence.notes[0].contains("matches nothing"), "{:?}", evidence.notes);
    assert_eq!(
        evidence.notes[1..],
        [
            "report sub/none.xml: there is no such file",
            "3 reports: written before the command started; not believed (a.xml to c.xml)",
        ]
    );
}

#[test]
fn one_pattern_over_many_files_is_one_report() {
    let directory = TempDir::new().expect("a directory");
    for (file, body) in [
        ("TEST-a.A.xml", "<testcase classname='a.A' name='x'/>"),
        ("TEST-a.B.xml", "<testcase classname='a.B' name='y'><failure message='m'/></testcase>"),
    ] {
        fs::write(directory.path().join(file), format!("<testsuite>{body}</testsuite>")).expect("written");
    }
    let patterns = strings(&["TEST-*.xml", "TEST-a.A.xml"]);
    let evidence = collect(&context(directory.path(), &[], &patterns, &FAILED));
    assert_eq!(evidence.test_reports.len(), 1);
    let report = &evidence.test_reports[0];
    assert_eq!((report.passed, report.failed, report.path.as_str()), (1, 1, "TEST-*.xml (2 files)"));
    assert_eq!(report.cases[0].status, TestStatus::Failed);
}

const FIRST: &str = "<testsuite name='s'><testcase classname='s' name='t1'/><testcase classname='s' name='t2'><failure message='got 1'/></testcase></testsuite>";

#[test]
fn what_was_named_and_cannot_be_read_is_told_apart() {
    let directory = TempDir::new().expect("a directory");
    let read = |name: &str, content: &[u8], pattern: &str| {
        fs::write(directory.path().join(name), content).expect("written");
        let evidence = collect(&context(directory.path(), &[], &strings(&[pattern]), &FAILED));
        fs::remove_file(directory.path().join(name)).expect("removed");
        evidence
    };
    let damaged = read("r.xcresult", b"SQLite format 3\0damaged", "r.xcresult");
    assert!(damaged.unread.is_some_and(|reason| reason.contains("r.xcresult")));
    let deep = format!("<testsuite>{}", "<a>".repeat(100));
    let deep = read("deep.xml", deep.as_bytes(), "*.xml");
    assert!(deep.unread.is_some_and(|reason| reason.contains("nest deeper")));
    let bundle = directory.path().join("out.xcresult");
    fs::create_dir(&bundle).expect("made");
    let emptied = collect(&context(directory.path(), &[], &strings(&["out.xcresult"]), &FAILED));
    assert!(emptied.unread.is_some_and(|reason| reason.contains("no database.sqlite3")));
    fs::remove_dir(&bundle).expect("removed");
    // A tool that died before it wrote anything leaves such files.
    for (content, reason) in
        [("", "the file is empty"), ("<?xml version='1.0'?>\n<tests", "not a whole JUnit")]
    {
        let begun = read("begun.xml", content.as_bytes(), "*.xml");
        assert!(begun.unread.is_some_and(|told| told.contains(reason)), "{content}");
    }
    let none = read("none.xml", b"<testsuites tests='0'/>", "*.xml");
    assert_eq!(none.test_reports[0].cut.as_deref(), Some("none.xml: there is no test in it"));
    // Other files next to reports are not reports. A file that is named as a report is one.
    let other = b"<?xml version='1.0'?><project/>";
    for (name, content, pattern, is_report) in [
        ("pom.xml", other.as_slice(), "*.xml", false),
        ("pom.xml", other.as_slice(), "pom.xml", true),
        ("begun.xml", b"<bad\n".as_slice(), "begun.xml", true),
        ("prose.txt", b"hello\n".as_slice(), "prose.txt", true),
        ("empty", b"".as_slice(), "empty", true),
        ("other", b"".as_slice(), "missing.xml", false),
    ] {
        let evidence = read(name, content, pattern);
        assert_eq!((evidence.unread.is_some(), evidence.notes.len()), (is_report, 1), "{name}");
    }
    let outside = TempDir::new().expect("a directory");
    fs::write(outside.path().join("r.xml"), FIRST).expect("written");
    symlink(outside.path(), directory.path().join("out")).expect("linked");
    for pattern in ["out/r.xml", "out/*.xml"] {
        let evidence = collect(&context(directory.path(), &[], &strings(&[pattern]), &FAILED));
        assert!(evidence.unread.is_some_and(|reason| reason.contains("a link leads out")), "{pattern}");
    }
    let invalid = collect(&context(directory.path(), &[], &strings(&["["]), &FAILED));
    assert!(invalid.unread.is_some_and(|reason| reason.contains("is not a glob")));
    let whole = read("whole.xml", FIRST.as_bytes(), "*.xml");
    assert_eq!((whole.unread, &whole.test_reports[0].cut), (None, &None));
    let wide: Vec<u8> = format!("\u{feff}{FIRST}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = read("wide.xml", &wide, "wide.xml");
    assert_eq!((wide.unread, wide.test_reports[0].failed), (None, 1));
}

#[test]
fn reports_behind_a_preamble_are_known() {
    for bytes in [40 << 10, 8 << 10] {
        behind_a_preamble_of(bytes);
    }
}

fn behind_a_preamble_of(bytes: usize) {
    let long = |line: &str| line.repeat(bytes / line.len() + 1);
    let xml =
        "<testsuites><testsuite name='s'><testcase name='a'><failure/></testcase></testsuite></testsuites>";
    let go = "{\"Action\":\"run\",\"Package\":\"m\",\"Test\":\"T\"}\n{\"Action\":\"fail\",\"Package\":\"m\",\"Test\":\"T\"}\n{\"Action\":\"fail\",\"Package\":\"m\"}\n";
    let cargo = "{\"type\":\"suite\",\"event\":\"started\"}\n{\"type\":\"test\",\"event\":\"failed\",\"name\":\"a\"}\n{\"type\":\"suite\",\"event\":\"failed\",\"failed\":1}\n";
    for report in [
        format!("<!-- {} -->{xml}", long("words ")),
        format!("<?xml version='1.0'?>\n<!-- {} -->\n{xml}", long("words ")),
        format!("{}{xml}", long("compiling < a & b\n")),
        format!("{}<?xml version='1.0'?>\n{xml}", long("compiling\n")),
        format!("{}{go}", long("go: downloading x v1\n")),
        format!("{}{cargo}", long("   Compiling x v1\n")),
        format!("{}TAP version 13\nnot ok 1 - a\n1..1\n", long("noise\n")),
        format!("{}1..1\nnot ok 1 - a\n", long("noise\n")),
    ] {
        let evidence = collected(&[("report", &report)], "report");
        let told = evidence.test_reports.first().map(|report| (report.failed, report.cut.clone()));
        assert_eq!(told, Some((1, None)), "{} {:?}", &report[..40], evidence.notes);
    }
    let log = collected(&[("log", &format!("{}1..5 are good\n", long("noise\n")))], "log");
    assert!(log.test_reports.is_empty(), "{:?}", log.test_reports);
}

#[test]
fn a_report_written_just_before_the_start_is_left_over() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("st.xml");
    fs::write(&path, FIRST).expect("written");
    let patterns = strings(&["st.xml"]);
    let started_at_ms = 1_767_323_045_700;
    let failed = |written_ms: u64| {
        let written = std::time::UNIX_EPOCH + std::time::Duration::from_millis(written_ms);
        fs::File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(written))
            .expect("set");
        let context = Context { started_at_ms, ..context(directory.path(), &[], &patterns, &FAILED) };
        collect(&context).test_reports.first().map(|report| report.failed)
    };
    assert_eq!(failed(1_767_323_045_600), None);
    assert_eq!(failed(1_767_323_045_690), Some(1), "a kernel's tick is not earlier");
    assert_eq!(failed(1_767_323_045_000), Some(1), "a file system of whole seconds");
    assert_eq!(failed(1_767_323_043_000), None);
}

#[test]
fn a_crash_file_of_a_child_is_found_while_polling() {
    let directory = TempDir::new().expect("a directory");
    let reports = directory.path().join("DiagnosticReports");
    fs::create_dir(&reports).expect("made");
    let work = directory.path().join("work");
    fs::create_dir(&work).expect("made");
    // Process 81861 started the recorded crash at 14:36:33.4603 +0100.
    let base = Context {
        started_at_ms: 1_650_461_793_000,
        finished_at_ms: 1_650_461_800_000,
        crash_suspected: true,
        crash_directories: vec![reports.clone()],
        ..context(&work, &[], &[], &FAILED)
    };
    let ours = Context { pids: vec![81_861], ..base.clone() };
    let mut collection = Collection::begin(&ours, ours.finished_at_ms);
    assert!(matches!(collection.poll(ours.finished_at_ms), Progress::Waiting { .. }));
    copy(&data("crash/xctest-sim-sigtrap.ips"), &reports.join("xctest-2022-04-20-143633.ips"));
    let Progress::Waiting { until_ms } = collection.poll(ours.finished_at_ms + 500) else {
        panic!("it settles")
    };
    assert_eq!(collection.poll(until_ms), Progress::Done);
    let evidence = collection.finish();
    assert_eq!(evidence.crash_reports[0].matched_by.as_deref(), Some("parent_pid"));

    let device = "id=D95B17F2-6822-4CD1-B7AA-E73DB34FFD4E";
    let command = strings(&["xcodebuild", "test", "-destination", device]);
    let by_device = collect(&Context { command: &command, ..base.clone() });
    assert_eq!(by_device.crash_reports[0].matched_by.as_deref(), Some("simulator_device"));

    let mut other = Collection::begin(&base, base.finished_at_ms);
    assert!(matches!(other.poll(base.finished_at_ms), Progress::Waiting { .. }));
    assert_eq!(other.poll(base.finished_at_ms + 60_000), Progress::Done);
    let other = other.finish();
    assert!(other.crash_reports.is_empty(), "another job's crash: {:?}", other.crash_reports);
    assert!(other.crash_report_absence.is_some());
    assert!(other.notes.iter().any(|note| note.contains("nothing ties it to the job")), "{:?}", other.notes);
}

#[test]
fn nothing_to_look_for_is_no_evidence() {
    let directory = TempDir::new().expect("a directory");
    let ending = Ending::Exited { code: 0 };
    assert_eq!(collect(&context(directory.path(), &[], &[], &ending)), Evidence::default());
}
