//! Parses `.crash` files: the text format of macOS up to 11 and of simulators up to iOS 14.

use super::{CrashFile, date, device_of_path, states_cause};
use crate::limits::FRAMES_MAX;
use crate::text;
use buildpool_protocol::report::{CrashReport, Termination};

/// Parses a text report.
pub(super) fn parse(content: &str) -> Result<CrashFile, String> {
    let mut file = CrashFile::default();
    let mut section = Section::Head;
    let mut notes = Vec::new();
    for line in content.lines().take(200_000) {
        if let Some(next) = Section::begun_by(line) {
            section = next;
            continue;
        }
        if line.trim().is_empty() {
            // The application information can contain empty lines. The frames end at the first
            // empty line.
            if section == Section::CrashedThread {
                break;
            }
            continue;
        }
        match section {
            Section::Head => head(&mut file, line),
            Section::Information => {
                if states_cause(line) {
                    notes.push(line.trim().to_owned());
                }
            }
            Section::CrashedThread if file.report.top_frames.len() < FRAMES_MAX => {
                file.report.top_frames.extend(frame(line));
            }
            Section::CrashedThread | Section::Other => {}
        }
    }
    if file.report.process_name.is_empty()
        || (file.report.exception_type.is_none() && file.report.termination.is_none())
    {
        return Err(
            "there is no `Process:` line, or neither `Exception Type:` nor `Termination Reason:`".to_owned()
        );
    }
    if !notes.is_empty() {
        file.report.message = Some(text::message(&notes.join("\n")));
    }
    Ok(file)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Head,
    Information,
    CrashedThread,
    Other,
}

impl Section {
    fn begun_by(line: &str) -> Option<Self> {
        if line.starts_with("Application Specific Information:") {
            Some(Self::Information)
        } else if line.starts_with("Thread ") && line.contains(" Crashed:") {
            Some(Self::CrashedThread)
        } else if line.starts_with("Thread ")
            || line.starts_with("Application Specific Backtrace")
            || line.starts_with("Binary Images:")
            || line.starts_with("Last Exception Backtrace:")
        {
            Some(Self::Other)
        } else {
            None
        }
    }
}

fn head(file: &mut CrashFile, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let value = value.trim();
    let report = &mut file.report;
    match key.trim() {
        "Process" => (report.process_name, report.pid) = named_pid(value),
        "Path" => {
            file.device = device_of_path(value);
            report.process_path = Some(text::name(value));
        }
        "Identifier" => file.bundle_id = Some(text::name(value)),
        "Parent Process" => file.parent_pid = named_pid(value).1,
        "Responsible" | "Responsible Process" => file.responsible_pid = named_pid(value).1,
        "Coalition" => file.coalition = Some(text::name(value)),
        "Date/Time" => {
            if let Some((at, shown)) = date(value) {
                file.captured_at_ms = Some(at);
                file.report.timestamp = Some(shown);
            }
        }
        "Launch Time" => file.launched_at_ms = date(value).map(|(at, _)| at),
        "Exception Type" => exception(report, value),
        "Termination Signal" => report.termination_mut().indicator = Some(text::name(value)),
        "Termination Reason" => termination(report, value),
        _ => {}
    }
}

/// Parses a name with a process id: `TableSearch [37083]`.
fn named_pid(value: &str) -> (String, Option<i64>) {
    match value.rsplit_once(" [") {
        Some((name, pid)) => (text::name(name), pid.trim_end_matches(']').parse().ok()),
        None => (text::name(value), None),
    }
}

/// Parses an exception type: `EXC_CRASH (SIGABRT)`.
fn exception(report: &mut CrashReport, value: &str) {
    let (kind, signal) = value.split_once(" (").unwrap_or((value, ""));
    report.exception_type = Some(text::name(kind.trim()));
    let signal = signal.trim_end_matches(')');
    report.signal = signal.starts_with("SIG").then(|| text::name(signal));
}

/// Parses a termination reason: `Namespace SIGNAL, Code 0x5` or `DYLD, [0x1] Library missing`.
fn termination(report: &mut CrashReport, value: &str) {
    let (namespace, rest) = value.split_once(',').unwrap_or((value, ""));
    let namespace = namespace.trim().trim_start_matches("Namespace").trim();
    let rest = rest.trim().trim_start_matches("Code").trim_start();
    let (code, words) = rest.split_once(' ').unwrap_or((rest, ""));
    let digits = code.trim_matches(['[', ']', ',']);
    let code = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let ended = report.termination_mut();
    ended.namespace = Some(text::name(namespace));
    ended.code = code;
    if !words.trim().is_empty() {
        ended.indicator = Some(text::name(words.trim()));
    }
}

trait TerminationMut {
    fn termination_mut(&mut self) -> &mut Termination;
}

impl TerminationMut for CrashReport {
    fn termination_mut(&mut self) -> &mut Termination {
        self.termination.get_or_insert_with(Termination::default)
    }
}

/// Parses a frame: `0   libsystem_kernel.dylib   0x0346058a __pthread_kill + 10`.
fn frame(line: &str) -> Option<String> {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let at = rest.find("0x")?;
    let (image, address) = rest.split_at(at);
    let symbol = address.split_once(' ').map_or(address, |(_, symbol)| symbol);
    Some(text::name(&format!("{}  {}", image.trim(), symbol.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_refused() {
        assert!(parse("Process: a [1]\n").is_err());
        assert!(parse("hello").is_err());
    }

    #[test]
    fn terminations_of_both_spellings() {
        let report = |line: &str| {
            let content = format!(
                "Process: a b [12]\n{line}\n\nThread 1 Crashed:\n0   lib x.dylib  0x01 f(int) + 3\n\nThread 2:\n0 y 0x2 g\n"
            );
            parse(&content).expect("a report").report
        };
        let ended = report("Termination Reason:    Namespace SIGNAL, Code 0x5").termination.expect("one");
        assert_eq!((ended.namespace.as_deref(), ended.code), (Some("SIGNAL"), Some(5)));
        let dyld = report("Termination Reason:    DYLD, [0x1] Library missing");
        assert_eq!(dyld.top_frames, ["lib x.dylib  f(int) + 3"]);
        assert_eq!((dyld.process_name.as_str(), dyld.pid), ("a b", Some(12)));
        let ended = dyld.termination.expect("one");
        assert_eq!(
            (ended.namespace.as_deref(), ended.code, ended.indicator.as_deref()),
            (Some("DYLD"), Some(1), Some("Library missing"))
        );
    }
}
