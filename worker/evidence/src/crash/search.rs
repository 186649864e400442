//! Searches for crash files and waits a bounded time for late ones. The caller has the clock and
//! polls.

use super::matching::{JobFacts, matched_by};
use super::{CrashFile, read};
use crate::error::EvidenceError;
use crate::files;
use crate::limits::{
    CRASH_DIRECTORY_ENTRIES_MAX, CRASH_REPORTS_MAX, CRASH_SETTLE, CRASH_THROTTLE, CRASH_WAIT, NOTES_MAX,
};
use buildpool_protocol::report::CrashReport;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Input of a crash search.
#[derive(Clone, Debug, Default)]
pub struct CrashQuery {
    /// Directories of crash files. Empty on systems that write no crash files.
    pub directories: Vec<PathBuf>,
    /// Facts of the job that crashes are compared with.
    pub job: JobFacts,
    /// True if there is a sign of a crash, so that waiting is worthwhile.
    pub suspected: bool,
    /// True if the command was killed by SIGKILL or SIGTERM, which leave no crash file.
    pub killed_from_outside: bool,
}

/// Result of one poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Not done. Poll again at `until_ms` or earlier.
    Waiting {
        /// Time when the search ends without a new file, in milliseconds since 1970.
        until_ms: i64,
    },
    /// The search is done.
    Done,
}

/// Result of a crash search.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CrashFindings {
    /// Crashes of the job, oldest first.
    pub reports: Vec<CrashReport>,
    /// Reason why no crash report exists although there is a sign of a crash.
    pub absence: Option<String>,
    /// Unreadable files, and crashes that could not be matched to the job.
    pub notes: Vec<String>,
}

/// A crash search that is polled until it is done.
#[derive(Debug)]
pub struct CrashSearch {
    query: CrashQuery,
    deadline_ms: i64,
    settled_ms: Option<i64>,
    /// Size and modification time of files that were already read.
    looked_at: HashMap<PathBuf, (u64, i64)>,
    unreadable: HashMap<PathBuf, String>,
    found: Vec<(i64, CrashReport)>,
    unclaimed: Vec<String>,
    /// Number of reports per process name that are older than the job.
    earlier: HashMap<String, usize>,
    earlier_counted: bool,
    done: bool,
}

fn ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl CrashSearch {
    /// Starts a search at `now_ms` (milliseconds since 1970). If no crash is suspected, the first
    /// poll is the last.
    pub fn new(query: CrashQuery, now_ms: i64) -> Self {
        let wait = if query.suspected { ms(CRASH_WAIT) } else { 0 };
        Self {
            query,
            deadline_ms: now_ms.saturating_add(wait),
            settled_ms: None,
            looked_at: HashMap::new(),
            unreadable: HashMap::new(),
            found: Vec::new(),
            unclaimed: Vec::new(),
            earlier: HashMap::new(),
            earlier_counted: false,
            done: false,
        }
    }

    /// Reads the directories once.
    pub fn poll(&mut self, now_ms: i64) -> Progress {
        if self.done || self.query.directories.is_empty() {
            self.done = true;
            return Progress::Done;
        }
        let before = self.found.len();
        for directory in self.query.directories.clone() {
            self.look_into(&directory);
        }
        self.earlier_counted = true;
        if self.found.len() > before {
            self.settled_ms = Some(now_ms.saturating_add(ms(CRASH_SETTLE)));
        }
        let until_ms = self.settled_ms.map_or(self.deadline_ms, |settled| settled.min(self.deadline_ms));
        if now_ms >= until_ms || self.found.len() >= CRASH_REPORTS_MAX {
            self.done = true;
            return Progress::Done;
        }
        Progress::Waiting { until_ms }
    }

    fn look_into(&mut self, directory: &Path) {
        // Subdirectories such as `Retired/` are skipped, because new files appear only at the top
        // level.
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.take(CRASH_DIRECTORY_ENTRIES_MAX).flatten() {
            let path = entry.path();
            let wanted = path.extension().is_some_and(|extension| extension == "ips" || extension == "crash");
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if !wanted || !is_file {
                continue;
            }
            let (Ok(metadata), Ok(modified)) = (entry.metadata(), files::modified_at_ms(&path)) else {
                continue;
            };
            // The modification time only excludes files older than the job. It never matches a
            // crash to a job.
            if modified.saturating_add(2_000) < self.query.job.started_at_ms {
                self.count_earlier(&path);
                continue;
            }
            let stamp = (metadata.len(), modified);
            if self.looked_at.get(&path) != Some(&stamp) {
                self.looked_at.insert(path.clone(), stamp);
                self.look_at(&path);
            }
        }
    }

    fn look_at(&mut self, path: &Path) {
        if self.found.len() >= CRASH_REPORTS_MAX {
            return;
        }
        match read(path) {
            Ok(crash) => {
                self.unreadable.remove(path);
                self.weigh(crash);
            }
            Err(EvidenceError::NotACrash { .. }) => {}
            // The file may still be incomplete. If its size changes, a later poll reads it again.
            Err(error) => {
                self.unreadable.insert(path.to_owned(), error.to_note());
            }
        }
    }

    fn weigh(&mut self, crash: CrashFile) {
        let captured = crash.captured_at_ms.unwrap_or(0);
        if let Some(fact) = matched_by(&crash, &self.query.job) {
            let mut report = crash.report;
            report.matched_by = Some(fact.name().to_owned());
            if !self.found.iter().any(|(_, known)| known.file_path == report.file_path) {
                self.found.push((captured, report));
            }
        } else if crash.device.is_some()
            && self.query.suspected
            && captured >= self.query.job.started_at_ms
            && self.unclaimed.len() < 5
        {
            self.unclaimed.push(format!(
                "{} crashed on a simulator while the job ran, and nothing ties it to the job: {}",
                crash.report.process_name, crash.report.file_path
            ));
        }
    }

    fn count_earlier(&mut self, path: &Path) {
        if !self.earlier_counted && self.earlier.len() < CRASH_DIRECTORY_ENTRIES_MAX {
            *self.earlier.entry(process_of_file(path)).or_default() += 1;
        }
    }

    /// Returns the crashes found. `absence` is set only if a crash was suspected or the command was
    /// killed.
    pub fn finish(self) -> CrashFindings {
        let is_asked = self.query.suspected || self.query.killed_from_outside;
        let is_absent = self.found.is_empty() && is_asked && !self.query.directories.is_empty();
        let absence = is_absent.then(|| self.absence());
        let mut found = self.found;
        found.sort_by(|a, b| (a.0, &a.1.file_path).cmp(&(b.0, &b.1.file_path)));
        let mut notes: Vec<String> = self.unreadable.into_values().collect();
        notes.sort();
        notes.extend(self.unclaimed);
        notes.truncate(NOTES_MAX);
        CrashFindings { reports: found.into_iter().map(|(_, report)| report).collect(), absence, notes }
    }

    fn absence(&self) -> String {
        let waited = CRASH_WAIT.as_secs();
        let mut crowded: Vec<_> =
            self.earlier.iter().filter(|(_, count)| **count >= CRASH_THROTTLE).collect();
        crowded.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        if self.query.killed_from_outside {
            return "no crash report: the command was killed from outside, and the system writes no crash file for that".to_owned();
        }
        if let Some((name, count)) = crowded.first() {
            return format!(
                "no crash report within {waited} s: throttled, if the process was {name}: there are {count} of it already, and \
                 the system writes no more from about {CRASH_THROTTLE} per name on; move old ones away from {}",
                self.directories()
            );
        }
        if !self.unreadable.is_empty() {
            return format!("no crash report that could be read within {waited} s: see the notes");
        }
        if !self.earlier.is_empty() {
            return format!(
                "no crash report within {waited} s: it may come late, or it was de-duplicated, since the system writes one \
                 report for the same crash and there are {} from before the job in {}",
                self.earlier.values().sum::<usize>(),
                self.directories()
            );
        }
        format!(
            "no crash report within {waited} s in {}: it may come late, or the process was killed from outside",
            self.directories()
        )
    }

    fn directories(&self) -> String {
        let shown: Vec<String> =
            self.query.directories.iter().map(|directory| directory.display().to_string()).collect();
        shown.join(", ")
    }
}

/// Returns the process name in a file name such as `App-2026-01-02-030405.ips` or
/// `App_2026-01-02-030405_host.crash`.
fn process_of_file(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let date = stem.match_indices(['-', '_']).find(|(at, _)| {
        let rest = stem.as_bytes().get(at + 1..at + 6).unwrap_or_default();
        rest.len() == 5 && rest.iter().take(4).all(u8::is_ascii_digit) && rest.last() == Some(&b'-')
    });
    date.map_or(stem, |(at, _)| stem.get(..at).unwrap_or(stem)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn ips(name: &str, pid: i64, at: &str) -> String {
        format!(
            "{{\"bug_type\":\"309\"}}\n{{\"procName\":\"{name}\",\"pid\":{pid},\"procLaunch\":\"{at}\",\"captureTime\":\"{at}\"}}"
        )
    }

    fn query(directory: &TempDir) -> CrashQuery {
        CrashQuery {
            directories: vec![directory.path().to_owned()],
            // From 2026-01-02 03:04:05 UTC, for ten minutes.
            job: JobFacts {
                pids: vec![77],
                started_at_ms: 1_767_323_045_000,
                finished_at_ms: 1_767_323_645_000,
                ..JobFacts::default()
            },
            suspected: true,
            killed_from_outside: false,
        }
    }

    const NOW: i64 = 1_767_323_645_000;
    const LATER: &str = "2026-01-02 03:05:00.1 +0000";

    #[test]
    fn a_late_and_half_written_file_is_found() {
        let directory = TempDir::new().expect("a directory");
        let mut search = CrashSearch::new(query(&directory), NOW);
        assert!(matches!(search.poll(NOW), Progress::Waiting { .. }));
        let path = directory.path().join("tool-2026-01-02-030500.ips");
        let whole = ips("tool", 77, LATER);
        fs::write(&path, &whole[..whole.len() - 10]).expect("written");
        assert!(matches!(search.poll(NOW + 100), Progress::Waiting { .. }));
        fs::write(&path, &whole).expect("written");
        fs::write(directory.path().join("tool-2026-01-02-030501.ips"), ips("tool", 78, LATER))
            .expect("written");
        let Progress::Waiting { until_ms } = search.poll(NOW + 200) else { panic!("it settles first") };
        assert_eq!(until_ms, NOW + 1_200);
        assert_eq!(search.poll(until_ms), Progress::Done);
        let findings = search.finish();
        assert_eq!(findings.reports.len(), 1, "the other process is not of the job");
        assert_eq!(findings.reports[0].matched_by.as_deref(), Some("pid"));
        assert_eq!(findings.absence, None);
        assert!(findings.notes.is_empty(), "{:?}", findings.notes);
    }

    #[test]
    fn an_absence_is_explained() {
        let directory = TempDir::new().expect("a directory");
        fs::create_dir(directory.path().join("Retired")).expect("made");
        fs::write(directory.path().join("Retired/tool-2026-01-02-030500.ips"), ips("tool", 77, LATER))
            .expect("written");
        let absence = |query: CrashQuery| {
            let mut search = CrashSearch::new(query, NOW);
            assert!(matches!(search.poll(NOW), Progress::Waiting { .. }));
            assert_eq!(search.poll(NOW + 60_000), Progress::Done);
            search.finish().absence.expect("a reason")
        };
        assert!(absence(query(&directory)).contains("late"));
        assert!(
            absence(CrashQuery { killed_from_outside: true, ..query(&directory) })
                .contains("killed from outside")
        );
        // After a kill from outside the search does not wait, but it still reports the reason.
        let killed = CrashQuery { killed_from_outside: true, suspected: false, ..query(&directory) };
        let mut search = CrashSearch::new(killed, NOW);
        assert_eq!(search.poll(NOW), Progress::Done);
        assert!(search.finish().absence.is_some_and(|reason| reason.contains("killed from outside")));
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        for number in 0..CRASH_THROTTLE {
            let path = directory.path().join(format!("my-tool-2023-11-14-22{number:02}00.ips"));
            fs::File::create(&path).and_then(|file| file.set_modified(old)).expect("made");
            if number == 0 {
                assert!(absence(query(&directory)).contains("de-duplicated"));
            }
        }
        let throttled = absence(query(&directory));
        assert!(throttled.contains("throttled") && throttled.contains("my-tool"), "{throttled}");
    }

    #[test]
    fn without_a_suspicion_or_a_directory_nothing_is_waited_for() {
        let directory = TempDir::new().expect("a directory");
        let mut search = CrashSearch::new(CrashQuery { suspected: false, ..query(&directory) }, NOW);
        assert_eq!(search.poll(NOW), Progress::Done);
        assert_eq!(search.finish(), CrashFindings::default());
        let mut search = CrashSearch::new(CrashQuery { directories: vec![], ..query(&directory) }, NOW);
        assert_eq!(search.poll(NOW), Progress::Done);
        assert_eq!(search.finish().absence, None);
    }
}
