//! Collects the evidence of one attempt: test reports, result bundles, memory, core files and crash
//! files.

use crate::core_file;
use crate::crash::matching::{JobFacts, devices_in};
use crate::crash::search::{CrashQuery, CrashSearch, Progress};
use crate::error::EvidenceError;
use crate::files;
use crate::find;
use crate::join::{self, Part};
use crate::limits::{
    CRASH_REPORTS_MAX, EVIDENCE_BYTES_MAX, ISSUES_MAX, NOTES_MAX, PASSED_BYTES_MAX, REPORTS_MAX,
};
use crate::memory::cgroup::MemoryCounters;
use crate::memory::{self, MemoryQuery, OfProcess};
use crate::merge::{self, Weighed};
use crate::platform;
use crate::read::{ReadReport, read_at, read_report};
use crate::text;
use crate::xcresult::command::{derived_data_in, result_bundle_in};
use buildpool_protocol::evidence::{Evidence, TestReport};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::spec::check_report;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Tolerance for file timestamps. The kernel stamps files with the time of its last tick, and it
/// has at least 100 ticks per second.
const TICK_SLACK_MS: i64 = 20;
/// Tolerance for file systems that store timestamps in whole seconds or in steps of two seconds.
const WHOLE_SECONDS_SLACK_MS: i64 = 2_000;

/// Facts about the attempt that produced the evidence.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Working directory of the command.
    pub directory: &'a Path,
    /// Program and arguments of the command.
    pub command: &'a [String],
    /// Paths and globs of reports, relative to `directory`.
    pub report_patterns: &'a [String],
    /// A result bundle that the worker added to the command.
    pub result_bundle: Option<PathBuf>,
    /// Start of the attempt, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// End of the attempt, in milliseconds since 1970.
    pub finished_at_ms: i64,
    /// All process ids observed in the job.
    pub pids: Vec<i32>,
    /// Wait status of the command's own process.
    pub ending: &'a Ending,
    /// True if the pool itself ended the process. The signal is then not a sign of a crash.
    pub ended_by_pool: bool,
    /// True if the log contains a sign of a crash.
    pub crash_suspected: bool,
    /// Directories where the system writes crash files: see [`default_crash_directories`].
    pub crash_directories: Vec<PathBuf>,
    /// Directories outside `directory` with programs that only this job runs, such as the
    /// DerivedData of its workspace. A directory that the command names does not need to be listed.
    pub program_directories: Vec<PathBuf>,
    /// Control group of the job.
    pub memory_cgroup: Option<PathBuf>,
    /// Counters of the control group when the job started.
    pub memory_before: Option<MemoryCounters>,
    /// True if the control group was created for this job only.
    pub memory_exclusive: bool,
    /// Limit on the memory of each process, and the peak of the largest one.
    pub memory_of_process: OfProcess,
    /// OOM kills on the machine when the job started: [`memory::machine_kills`].
    pub machine_kills_before: Option<u64>,
    /// Seconds from boot to the start of the job.
    pub started_since_boot_secs: Option<f64>,
    /// True if the job ran as another user. The debugger then must not read its core files, because
    /// it would run with the worker's rights.
    pub is_of_another_user: bool,
    /// User id of the job, if it differs from the user id of this process. Only files of this user
    /// are read as reports.
    pub owner: Option<u32>,
}

impl<'a> Context<'a> {
    /// Creates a context with default values for everything except the command, its directory and
    /// its ending.
    pub fn new(directory: &'a Path, command: &'a [String], ending: &'a Ending) -> Self {
        Self {
            directory,
            command,
            report_patterns: &[],
            result_bundle: None,
            started_at_ms: 0,
            finished_at_ms: i64::MAX,
            pids: Vec::new(),
            ending,
            ended_by_pool: false,
            crash_suspected: false,
            crash_directories: Vec::new(),
            program_directories: Vec::new(),
            memory_cgroup: None,
            memory_before: None,
            memory_exclusive: false,
            memory_of_process: OfProcess::default(),
            machine_kills_before: None,
            started_since_boot_secs: None,
            is_of_another_user: false,
            owner: None,
        }
    }
}

impl Context<'_> {
    /// Returns true if nothing can contain evidence of this attempt: [`collect`] would return none, and read nothing.
    pub fn has_no_sources(&self) -> bool {
        let is_success = matches!(self.ending, Ending::Exited { code: 0 });
        is_success && !self.memory_exclusive && self.crash_directories.is_empty() && !self.names_reports()
    }

    fn names_reports(&self) -> bool {
        self.result_bundle.is_some()
            || !self.report_patterns.is_empty()
            || result_bundle_in(self.command).is_some()
    }
}

/// Returns the directories where macOS writes crash files of the user and of the system. Empty on
/// Linux.
pub fn default_crash_directories(home: impl FnOnce() -> Option<PathBuf>) -> Vec<PathBuf> {
    if !platform::WRITES_CRASH_FILES {
        return Vec::new();
    }
    let own = home().map(|home| home.join("Library/Logs/DiagnosticReports"));
    own.into_iter().chain([PathBuf::from("/Library/Logs/DiagnosticReports")]).collect()
}

/// Collects all evidence immediately and searches for crash files only once.
pub fn collect(context: &Context<'_>) -> Evidence {
    let mut collection = Collection::begin(context, context.finished_at_ms);
    collection.poll(context.finished_at_ms);
    collection.finish()
}

/// Reads the given reports and result bundles, as in `buildpool digest --report FILE...`. The same
/// precedence rules apply as in [`collect`]. A bundle that needs Xcode becomes a note.
///
/// # Errors
///
/// Fails if a file is missing, too large, malformed or of an unknown kind.
pub fn read_reports(paths: &[PathBuf]) -> Result<Evidence, EvidenceError> {
    let mut evidence = Evidence::default();
    let mut weighed = Vec::new();
    for path in paths {
        match read_report(path) {
            Ok(read) => take(read, &mut evidence, &mut weighed, &mut Vec::new()),
            Err(error @ EvidenceError::NeedsXcode { .. }) => not_read(&error, Asked::Matches, &mut evidence),
            Err(error) => return Err(error),
        }
    }
    let (reports, notes) = merge::weigh(weighed);
    evidence.test_reports = reports;
    evidence.notes.extend(notes);
    Ok(evidence)
}

/// A collection that can wait for late crash files. Call `begin`, then `poll` until done, then
/// `finish`. It never sleeps and never reads a clock.
#[derive(Debug)]
pub struct Collection {
    evidence: Evidence,
    search: CrashSearch,
}

impl Collection {
    /// Reads reports, memory and core files, and starts the search for crash files.
    pub fn begin(context: &Context<'_>, now_ms: i64) -> Self {
        let mut evidence = Evidence::default();
        let devices = reports(context, &mut evidence);
        evidence.memory = memory(context);
        core(context, &mut evidence);
        let crashed_tests = evidence.test_reports.iter().any(hints_at_crash);
        let query = CrashQuery {
            directories: context.crash_directories.clone(),
            job: JobFacts {
                pids: context.pids.clone(),
                started_at_ms: context.started_at_ms,
                finished_at_ms: context.finished_at_ms,
                devices: devices_in(context.command).into_iter().chain(devices).collect(),
                directories: [context.directory.to_owned()]
                    .into_iter()
                    .chain(derived_data_in(context.command).map(|path| context.directory.join(path)))
                    .chain(context.program_directories.clone())
                    .collect(),
            },
            suspected: context.crash_suspected || crashed_tests || died_by_itself(context),
            killed_from_outside: !context.ended_by_pool && is_killed(context.ending),
        };
        Self { evidence, search: CrashSearch::new(query, now_ms) }
    }

    /// Searches for crash files. `now_ms` is in milliseconds since 1970.
    pub fn poll(&mut self, now_ms: i64) -> Progress {
        self.search.poll(now_ms)
    }

    /// Returns all collected evidence.
    pub fn finish(self) -> Evidence {
        let mut evidence = self.evidence;
        let found = self.search.finish();
        let known = !evidence.crash_reports.is_empty();
        evidence.crash_reports.splice(0..0, found.reports);
        evidence.crash_reports.truncate(CRASH_REPORTS_MAX);
        evidence.crash_report_absence = found.absence.filter(|_| !known).or(evidence.crash_report_absence);
        evidence.notes.extend(found.notes);
        bounded(evidence)
    }
}

fn is_killed(ending: &Ending) -> bool {
    matches!(ending, Ending::Signaled { name, .. } if matches!(name.as_str(), "SIGKILL" | "SIGTERM" | "SIGINT" | "SIGHUP"))
}

fn died_by_itself(context: &Context<'_>) -> bool {
    !context.ended_by_pool && matches!(context.ending, Ending::Signaled { .. }) && !is_killed(context.ending)
}

fn hints_at_crash(report: &TestReport) -> bool {
    let names_crash = |message: &String| {
        message.starts_with("Crash:")
            || message.contains("crashed with signal")
            || message.contains("Test crashed")
    };
    !report.unfinished.is_empty() || report.cases.iter().any(|case| case.messages.iter().any(names_crash))
}

/// Reads all reports into `evidence` and returns the devices on which tests ran.
fn reports(context: &Context<'_>, evidence: &mut Evidence) -> Vec<String> {
    if !context.names_reports() {
        return Vec::new();
    }
    let (added, own) = (context.result_bundle.as_ref(), result_bundle_in(context.command));
    let mut seen = HashSet::new();
    let mut weighed = Vec::new();
    let mut devices = Vec::new();
    let mut stale = Vec::new();
    let root = std::fs::canonicalize(context.directory).unwrap_or_else(|_| context.directory.to_owned());
    let own_bundle = context.result_bundle.as_ref().and_then(|path| std::fs::canonicalize(path).ok());
    let added = added.map(|path| path.display().to_string());
    let own = own.map(|path| path.display().to_string());
    let patterns = added.into_iter().chain(own).map(|path| (path, true));
    let asked = context.report_patterns.iter().map(|pattern| (pattern.clone(), false));
    for (pattern, implied) in patterns.chain(asked) {
        if !implied && let Err(error) = check_report(&pattern) {
            let note = format!("report pattern: {}", error.reason);
            evidence.unread.get_or_insert_with(|| text::message(&note));
            evidence.notes.push(note);
            continue;
        }
        let mut found = find::expand(&root, &pattern);
        if let Some(owner) = context.owner {
            found.keep_only_of(owner);
        }
        // A missing implied bundle is normal, because xcodebuild writes no bundle after a usage
        // error.
        let how = match (implied, found.is_named) {
            (true, _) => Asked::Implied,
            (false, false) => Asked::Matches,
            (false, true) => Asked::Named,
        };
        if !implied {
            evidence.notes.extend(found.notes);
            found.refused.iter().for_each(|error| not_read(error, how, evidence));
        }
        let mut of_pattern: Vec<Part> = Vec::new();
        for path in found.files {
            if seen.len() >= REPORTS_MAX {
                evidence.notes.push(format!("more than {REPORTS_MAX} reports; the rest is not read"));
                break;
            }
            if !seen.insert(path.clone()) {
                continue;
            }
            // The path of the worker's own bundle is not useful to a reader.
            let shown = match &own_bundle {
                Some(own) if *own == path => "result.xcresult".to_owned(),
                _ => text::relative(&path.display().to_string(), Some(&root)),
            };
            if is_stale(&path, context.started_at_ms) {
                stale.push(shown);
                continue;
            }
            match read_at(&path, &shown, Some(&root)) {
                Ok(read) => {
                    let mut weighed = Vec::new();
                    let content = read.content;
                    take(read, evidence, &mut weighed, &mut devices);
                    let written_at_ms = files::modified_at_ms(&path).unwrap_or(i64::MAX);
                    let part = |weighed| Part { path: path.clone(), written_at_ms, content, weighed };
                    of_pattern.extend(weighed.into_iter().map(part));
                }
                Err(error) => not_read(&error.shown_as(&shown), how, evidence),
            }
        }
        let (joined, notes) = join::joined(of_pattern, &pattern);
        weighed.extend(joined);
        evidence.notes.extend(notes);
    }
    evidence.notes.extend(stale_note(&stale));
    let (reports, notes) = merge::weigh(weighed);
    evidence.test_reports = reports;
    evidence.notes.extend(notes);
    devices
}

/// Note about the reports of earlier runs.
fn stale_note(reports: &[String]) -> Option<String> {
    match reports {
        [] => None,
        [report] => Some(format!("report {report}: written before the command started; not believed")),
        [first, .., last] => Some(format!(
            "{} reports: written before the command started; not believed ({first} to {last})",
            reports.len()
        )),
    }
}

/// How a file was requested as a report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// By the worker or the command itself.
    Implied,
    /// It matches a glob, which also matches other files.
    Matches,
    /// By its path. So it is a report, whatever it contains.
    Named,
}

/// Notes a report that could not be read. It sets `unread` only for a requested file that is a
/// report.
fn not_read(error: &EvidenceError, asked: Asked, evidence: &mut Evidence) {
    let note = error.to_note();
    let is_report = match asked {
        Asked::Implied => false,
        Asked::Matches => error.is_of_a_report(),
        Asked::Named => !matches!(error, EvidenceError::NotFound { .. }),
    };
    if is_report {
        evidence.unread.get_or_insert_with(|| text::message(&note));
    }
    evidence.notes.push(note);
}

fn take(read: ReadReport, evidence: &mut Evidence, weighed: &mut Vec<Weighed>, devices: &mut Vec<String>) {
    let mut found = read.evidence;
    evidence.crash_reports.append(&mut found.crash_reports);
    evidence.issues.append(&mut found.issues);
    evidence.notes.append(&mut found.notes);
    devices.extend(read.devices);
    let mut tests = Some((read.statuses, read.holders));
    for report in found.test_reports {
        let (statuses, holders) = tests.take().unwrap_or_default();
        weighed.push(Weighed { report, statuses, holders });
    }
}

/// Returns true if the file was last written before the command started. A bundle is as old as the
/// newest of the files that change when it is closed.
fn is_stale(path: &Path, started_at_ms: i64) -> bool {
    let parts = [path.to_owned(), path.join("database.sqlite3"), path.join("Info.plist")];
    let newest = parts.iter().filter_map(|part| files::modified_at_ms(part).ok()).max();
    newest.is_some_and(|newest| {
        let slack = if newest % 1_000 == 0 { WHOLE_SECONDS_SLACK_MS } else { TICK_SLACK_MS };
        newest.saturating_add(slack) < started_at_ms
    })
}

fn memory(context: &Context<'_>) -> Option<buildpool_protocol::evidence::MemoryEvidence> {
    let failed = !matches!(context.ending, Ending::Exited { code: 0 });
    // After exit code 0, only a kill in the job's own group is evidence.
    if !failed && !context.memory_exclusive {
        return None;
    }
    let query = MemoryQuery {
        cgroup: context.memory_cgroup.as_deref(),
        before: context.memory_before,
        exclusive: context.memory_exclusive,
        pids: &context.pids,
        started_since_boot_secs: context.started_since_boot_secs,
        kernel_log: None,
        of_process: context.memory_of_process,
        machine_kills: context
            .machine_kills_before
            .and_then(|before| memory::machine_kills().map(|now| now.saturating_sub(before))),
    };
    // A command that ended with code 0 needs no memory limit as explanation. But one of its
    // processes may have been OOM-killed, so the counters are still checked.
    let needs_kernel_log = failed || memory::evidence(&query).is_some_and(|found| found.oom_killed);
    // The kernel log is read only after a failure or a counted kill. Example: a compiler killed
    // below `make` makes `make` fail.
    let log = needs_kernel_log.then(platform::kernel_log).flatten();
    needs_kernel_log.then(|| memory::evidence(&MemoryQuery { kernel_log: log.as_deref(), ..query })).flatten()
}

fn core(context: &Context<'_>, evidence: &mut Evidence) {
    if !platform::HAS_CORE_PATTERN || !matches!(context.ending, Ending::Signaled { core_dump: true, .. }) {
        return;
    }
    if context.is_of_another_user {
        let reason = "a core was dumped, which is not read: the debugger would have the worker's rights and the job has not";
        evidence.crash_report_absence = Some(reason.to_owned());
        return;
    }
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    match core_file::find(context.directory, &pattern, &context.pids, context.started_at_ms) {
        Some(core) => match core_file::explain(&core) {
            Ok(report) => evidence.crash_reports.push(report),
            Err(reason) => evidence.notes.push(format!("core file {}: {reason}", core.display())),
        },
        None => {
            let where_to = core_file::piped_to(&pattern);
            evidence.crash_report_absence = Some(
                where_to
                    .unwrap_or_else(|| "a core was dumped and is not in the command's directory".to_owned()),
            );
        }
    }
}

/// Limits the size of the evidence, because it is sent in one message with the outcome. A report that
/// is kept has its counts of tests, and one of the names of its unfinished tests.
fn bounded(mut evidence: Evidence) -> Evidence {
    let all_reports = evidence.test_reports.len();
    keep(&mut evidence, all_reports, ISSUES_MAX);
    for note in &mut evidence.notes {
        *note = text::message(note);
    }
    let dropped = evidence.notes.len().saturating_sub(NOTES_MAX);
    evidence.notes.truncate(NOTES_MAX);
    if dropped > 0 {
        evidence.notes.push(format!("{dropped} more remarks were left out"));
    }
    limit_passed(&mut evidence);
    let size = |evidence: &Evidence| serde_json::to_vec(evidence).map_or(0, |json| json.len());
    for _ in 0..32 {
        if size(&evidence) <= EVIDENCE_BYTES_MAX {
            break;
        }
        for report in &mut evidence.test_reports {
            let keep = report.cases.len() / 2;
            report.cases_omitted += (report.cases.len() - keep) as u64;
            report.cases.truncate(keep);
            report.unfinished.truncate(report.unfinished.len().div_ceil(2));
            report.passed_tests.clear();
        }
        // Even reports without cases can exceed the size limit. Reports with the highest precedence
        // come first and are kept.
        let has_cases = evidence.test_reports.iter().any(|report| !report.cases.is_empty());
        let reports = evidence.test_reports.len();
        let reports = if has_cases { reports } else { reports.div_ceil(2) };
        let issues = evidence.issues.len().div_ceil(2);
        keep(&mut evidence, reports, issues);
    }
    evidence
}

/// Shortens the lists of reports and problems. Keeps the most severe problems. A failure that is left
/// out would contradict a success, so it counts as unread.
fn keep(evidence: &mut Evidence, reports: usize, issues: usize) {
    if evidence.issues.len() > issues {
        evidence.issues.sort_by_key(|issue| issue.severity);
    }
    if evidence.unread.is_none() {
        evidence.unread = evidence.failures_beyond(reports, issues);
    }
    cut(&mut evidence.issues, issues, "problems", &mut evidence.notes);
    cut(&mut evidence.test_reports, reports, "test reports", &mut evidence.notes);
}

/// Limits the names of tests that passed. They are listed for the history only, so no note reports it.
fn limit_passed(evidence: &mut Evidence) {
    let mut bytes = 0;
    for report in &mut evidence.test_reports {
        report.passed_tests.retain(|test| {
            bytes += test.name.len();
            bytes <= PASSED_BYTES_MAX
        });
    }
}

fn cut<T>(list: &mut Vec<T>, keep: usize, items: &str, notes: &mut Vec<String>) {
    let dropped = list.len().saturating_sub(keep);
    if dropped > 0 {
        list.truncate(keep);
        notes.push(format!("{dropped} {items} were left out: too many for one answer"));
    }
}

#[cfg(test)]
mod tests;
