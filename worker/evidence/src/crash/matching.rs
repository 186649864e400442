//! Whether a crash belongs to a job: by facts of the process, never by a name that merely looks alike.

use super::{CrashFile, device_in};
use std::path::PathBuf;

/// Clocks of the kernel and of the crash reporter are read at different moments.
const CLOCK_SLACK_MS: i64 = 2_000;

/// The facts of a job that a crash is held against.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobFacts {
    /// Every process id that was seen in the job.
    pub pids: Vec<i32>,
    /// Milliseconds since 1970.
    pub started_at_ms: i64,
    /// Milliseconds since 1970.
    pub finished_at_ms: i64,
    /// UDIDs of simulators and devices that the job named or that its result bundle lists.
    pub devices: Vec<String>,
    /// Directories whose programs only this job runs: its checkout, its own DerivedData.
    pub directories: Vec<PathBuf>,
}

/// By which fact a crash belongs to the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchedBy {
    /// It was a process of the job.
    Pid,
    /// Its parent was.
    ParentPid,
    /// The process on whose behalf it ran was.
    ResponsiblePid,
    /// It was an application or test host on a simulator of the job.
    SimulatorDevice,
    /// Its program lies in a directory of the job.
    ProcessPath,
}

impl MatchedBy {
    /// As in JSON.
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

/// By which fact a crash belongs to the job, if it does.
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

/// Process ids are used again, so a report without a launch time must at least have been taken while the job ran.
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

/// A simulator runs many daemons of the system, which crash for reasons of their own.
fn is_application(crash: &CrashFile) -> bool {
    crash.report.process_path.as_deref().is_some_and(|path| {
        path.contains("/data/Containers/Bundle/Application/")
            || path.contains("/Library/Xcode/Agents/")
            || path.contains("/DerivedData/")
    })
}

/// Reports replace the user's name in paths by `USER`.
fn is_inside(path: &str, directory: &std::path::Path) -> bool {
    let Some(directory) = directory.to_str().map(|directory| directory.trim_end_matches('/')) else {
        return false;
    };
    let anonymous = directory
        .strip_prefix("/Users/")
        .and_then(|rest| rest.split_once('/'))
        .map(|(_, rest)| format!("/Users/USER/{rest}"));
    [Some(directory), anonymous.as_deref()].into_iter().flatten().any(|directory| {
        // The root, or a home directory as a whole, would claim every program of the user.
        let specific = directory.matches('/').count() >= 3;
        specific && path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    })
}

/// UDIDs that a command names: `-destination "platform=iOS Simulator,id=…"`, `simctl … UDID`.
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
