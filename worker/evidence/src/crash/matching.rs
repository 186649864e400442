//! Decides if a crash belongs to a job. Only facts of the process count, never a similar name.

use super::{CrashFile, device_in};
use std::path::PathBuf;

/// Tolerance between the clocks of the kernel and of the crash reporter.
const CLOCK_SLACK_MS: i64 = 2_000;

/// Facts of a job that crashes are compared with.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobFacts {
    /// All process ids observed in the job.
    pub pids: Vec<i32>,
    /// Start of the job, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// End of the job, in milliseconds since 1970.
    pub finished_at_ms: i64,
    /// UDIDs of simulators and devices, from the job's command or its result bundle.
    pub devices: Vec<String>,
    /// Directories with programs that only this job runs: its checkout, its own DerivedData.
    pub directories: Vec<PathBuf>,
}

/// The fact by which a crash was matched to the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchedBy {
    /// The crashed process was a process of the job.
    Pid,
    /// The parent of the crashed process was a process of the job.
    ParentPid,
    /// The responsible process (the one that it ran for) was a process of the job.
    ResponsiblePid,
    /// It was an application or a test host on a simulator of the job.
    SimulatorDevice,
    /// Its program is in a directory of the job.
    ProcessPath,
}

impl MatchedBy {
    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::ParentPid => "parent_pid",
            Self::ResponsiblePid => "responsible_pid",
            Self::SimulatorDevice => "simulator_device",
            Self::ProcessPath => "process_path",
        }
    }
}

/// Returns the fact that matches a crash to the job, or `None` if the crash is not the job's.
pub fn matched_by(crash: &CrashFile, job: &JobFacts) -> Option<MatchedBy> {
    if !in_time(crash, job) {
        return None;
    }
    let ours = |pid: Option<i64>| {
        pid.is_some_and(|pid| pid > 1 && job.pids.iter().any(|own| i64::from(*own) == pid))
    };
    if ours(crash.report.pid) {
        return Some(MatchedBy::Pid);
    }
    if ours(crash.parent_pid) {
        return Some(MatchedBy::ParentPid);
    }
    if ours(crash.responsible_pid) {
        return Some(MatchedBy::ResponsiblePid);
    }
    let on_device = crash
        .device
        .as_ref()
        .is_some_and(|device| job.devices.iter().any(|own| own.eq_ignore_ascii_case(device)));
    if on_device && is_application(crash) {
        return Some(MatchedBy::SimulatorDevice);
    }
    let path = crash.report.process_path.as_deref()?;
    let inside = job.directories.iter().any(|directory| is_inside(path, directory));
    inside.then_some(MatchedBy::ProcessPath)
}

/// Returns true if the process ran while the job ran. Process ids are reused, so a report without a
/// launch time must have a capture time within the job.
fn in_time(crash: &CrashFile, job: &JobFacts) -> bool {
    let after_start = |at: i64| at.saturating_add(CLOCK_SLACK_MS) >= job.started_at_ms;
    let before_end = |at: i64| at <= job.finished_at_ms.saturating_add(CLOCK_SLACK_MS);
    match (crash.launched_at_ms, crash.captured_at_ms) {
        (Some(launched), Some(captured)) => {
            after_start(launched) && before_end(launched) && after_start(captured)
        }
        (Some(launched), None) => after_start(launched) && before_end(launched),
        (None, Some(captured)) => after_start(captured) && before_end(captured),
        (None, None) => false,
    }
}

/// Returns true for applications and test hosts. A simulator also runs system daemons, which crash
/// for unrelated reasons.
fn is_application(crash: &CrashFile) -> bool {
    crash.report.process_path.as_deref().is_some_and(|path| {
        path.contains("/data/Containers/Bundle/Application/")
            || path.contains("/Library/Xcode/Agents/")
            || path.contains("/DerivedData/")
    })
}

/// Returns true if `path` is below `directory`. Crash reports replace the user name in paths with
/// `USER`.
fn is_inside(path: &str, directory: &std::path::Path) -> bool {
    let Some(directory) = directory.to_str().map(|directory| directory.trim_end_matches('/')) else {
        return false;
    };
    let anonymous = directory
        .strip_prefix("/Users/")
        .and_then(|rest| rest.split_once('/'))
        .map(|(_, rest)| format!("/Users/USER/{rest}"));
    [Some(directory), anonymous.as_deref()].into_iter().flatten().any(|directory| {
        // `/` or a whole home directory would match every program of the user.
        let specific = directory.matches('/').count() >= 3;
        specific && path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Returns the UDIDs in a command: `-destination "platform=iOS Simulator,id=…"`, `simctl … UDID`.
pub fn devices_in(command: &[String]) -> Vec<String> {
    let mut devices = Vec::new();
    for argument in command {
        for word in argument.split([',', ' ', '\'', '"', '=']) {
            if word.len() == 36
                && let Some(device) = device_in(word)
                && !devices.contains(&device)
                && devices.len() < 64
            {
                devices.push(device);
            }
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use buildpool_protocol::report::CrashReport;

    const DEVICE: &str = "D95B17F2-6822-4CD1-B7AA-E73DB34FFD4E";

    fn job() -> JobFacts {
        JobFacts {
            pids: vec![100, 101],
            started_at_ms: 1_000_000,
            finished_at_ms: 2_000_000,
            devices: vec![DEVICE.into()],
            directories: vec!["/Users/me/work/app".into()],
        }
    }

    fn crash(pid: i64, launched: i64) -> CrashFile {
        CrashFile {
            report: CrashReport { process_name: "xctest".into(), pid: Some(pid), ..CrashReport::default() },
            launched_at_ms: Some(launched),
            captured_at_ms: Some(launched + 5),
            ..CrashFile::default()
        }
    }

    #[test]
    fn a_process_of_the_job_matches_and_an_older_one_of_the_same_id_does_not() {
        assert_eq!(matched_by(&crash(100, 1_500_000), &job()), Some(MatchedBy::Pid));
        assert_eq!(matched_by(&crash(100, 900_000), &job()), None);
        assert_eq!(matched_by(&crash(100, 2_500_000), &job()), None);
        assert_eq!(matched_by(&crash(7, 1_500_000), &job()), None);
    }

    #[test]
    fn relatives_match() {
        let child = CrashFile { parent_pid: Some(101), ..crash(7, 1_500_000) };
        assert_eq!(matched_by(&child, &job()), Some(MatchedBy::ParentPid));
        let led = CrashFile { parent_pid: Some(1), responsible_pid: Some(100), ..crash(7, 1_500_000) };
        assert_eq!(matched_by(&led, &job()), Some(MatchedBy::ResponsiblePid));
        let init = JobFacts { pids: vec![1, 0, -1], ..job() };
        assert_eq!(matched_by(&CrashFile { parent_pid: Some(1), ..crash(7, 1_500_000) }, &init), None);
    }

    #[test]
    fn applications_of_the_simulator_match_and_its_daemons_do_not() {
        let on_device = |path: &str| {
            let mut file = crash(7, 1_500_000);
            file.device = Some(DEVICE.to_ascii_lowercase());
            file.report.process_path = Some(path.into());
            matched_by(&file, &job())
        };
        let app = format!(
            "/Users/USER/Library/Developer/CoreSimulator/Devices/{DEVICE}/data/Containers/Bundle/Application/X/A.app/A"
        );
        assert_eq!(on_device(&app), Some(MatchedBy::SimulatorDevice));
        assert_eq!(on_device("/Library/Developer/CoreSimulator/Volumes/iOS/mediaanalysisd"), None);
    }

    #[test]
    fn programs_of_the_job_match_also_when_the_user_is_hidden() {
        let at = |path: &str| {
            let mut file = crash(7, 1_500_000);
            file.report.process_path = Some(path.into());
            matched_by(&file, &job())
        };
        assert_eq!(at("/Users/USER/work/app/.build/debug/tool"), Some(MatchedBy::ProcessPath));
        assert_eq!(at("/Users/me/work/app/x"), Some(MatchedBy::ProcessPath));
        assert_eq!(at("/Users/me/work/app2/x"), None);
        assert!(!is_inside("/Users/me/x", std::path::Path::new("/Users/me")));
    }

    #[test]
    fn devices_are_read_from_a_destination() {
        let command =
            ["xcodebuild", "-destination", &format!("platform=iOS Simulator,id={DEVICE}")].map(String::from);
        assert_eq!(devices_in(&command), [DEVICE]);
    }
}
