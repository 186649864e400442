//! Parses reports of the address, thread, leak, memory and undefined-behaviour sanitizers, as
//! written with `log_path=`.

use crate::files;
use crate::limits::{FRAMES_MAX, ISSUES_MAX};
use crate::text;
use buildpool_protocol::evidence::{Evidence, ReportIssue};
use buildpool_protocol::report::{CrashReport, Severity};
use std::path::Path;

const KINDS: &[&str] =
    &["AddressSanitizer", "ThreadSanitizer", "LeakSanitizer", "MemorySanitizer", "HWAddressSanitizer"];

/// Returns true if a text is a sanitizer report.
pub(crate) fn looks_like(head: &str) -> bool {
    head.lines().any(|line| banner(line).is_some() || runtime_error(line).is_some())
}

/// Parses a report. Each banner becomes one crash report. Undefined behaviour does not end the
/// program, so it becomes a problem.
pub(crate) fn parse(content: &str, path: &Path, root: Option<&Path>) -> Evidence {
    let mut evidence = Evidence::default();
    let mut in_stack = false;
    let written_at = files::written_at(path);
    for line in content.lines().take(1_000_000) {
        if let Some((pid, report)) = banner(line) {
            if evidence.crash_reports.len() >= crate::limits::CRASH_REPORTS_MAX {
                break;
            }
            let (kind, detail) = report.split_once(": ").unwrap_or((report, ""));
            let short = detail.split(" on ").next().unwrap_or(detail).split(" (pid").next().unwrap_or(detail);
            evidence.crash_reports.push(CrashReport {
                pid,
                exception_type: Some(text::name(&format!("{kind}: {}", short.trim()))),
                message: Some(text::message(report)),
                timestamp: written_at.clone(),
                file_path: path.display().to_string(),
                matched_by: Some("named".to_owned()),
                ..CrashReport::default()
            });
            in_stack = true;
        } else if let Some(place) = runtime_error(line) {
            if evidence.issues.len() < ISSUES_MAX {
                evidence.issues.push(ReportIssue {
                    path: String::new(),
                    severity: Severity::Error,
                    message: text::message(line.trim()),
                    location: text::place_in(place, root),
                    category: None,
                    advice: None,
                });
            }
        } else if let Some(report) = evidence.crash_reports.last_mut() {
            let trimmed = line.trim_start();
            if let Some(frame) = trimmed.strip_prefix('#').and_then(frame) {
                if in_stack && report.top_frames.len() < FRAMES_MAX {
                    name_process(report, line);
                    report.top_frames.push(text::name(&frame));
                }
            } else if trimmed.is_empty() && !report.top_frames.is_empty() {
                // Only the first stack belongs to the fault. The stacks of allocation and free
                // follow.
                in_stack = false;
            } else if let Some(summary) = line.strip_prefix("SUMMARY: ") {
                report.message = Some(text::message(summary));
            }
        }
    }
    evidence
}

/// Parses a banner: `==4711==ERROR: AddressSanitizer: …`, `WARNING: ThreadSanitizer: data race
/// (pid=4711)`.
fn banner(line: &str) -> Option<(Option<i64>, &str)> {
    let (before, report) = line.split_once("ERROR: ").or_else(|| line.split_once("WARNING: "))?;
    if !KINDS.iter().any(|kind| report.starts_with(kind) && report[kind.len()..].starts_with(": ")) {
        return None;
    }
    let pid = before.trim_matches('=').parse().ok();
    let named = || report.split_once("(pid=").and_then(|(_, pid)| pid.trim_end_matches(')').parse().ok());
    Some((pid.or_else(named), report))
}

fn runtime_error(line: &str) -> Option<&str> {
    let (place, _) = line.split_once(": runtime error: ")?;
    place.rsplit_once(':').map(|_| place)
}

/// Parses a frame: `0 0x4f in main /x/a.c:5:3`.
fn frame(line: &str) -> Option<String> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    match rest.split_once(" in ") {
        Some((address, symbol)) if address.starts_with("0x") => Some(symbol.trim().to_owned()),
        _ if !rest.is_empty() => Some(rest.to_owned()),
        _ => None,
    }
}

/// Sets the program of a report from `(/path/program+0x1234)` at the end of a frame, if it is not
/// set yet.
fn name_process(report: &mut CrashReport, line: &str) {
    let module = line.rsplit_once('(').map_or("", |(_, module)| module);
    let Some((path, _)) = module.rsplit_once("+0x") else { return };
    let is_library = path.contains(".so") || path.contains(".dylib");
    if report.process_name.is_empty() && path.starts_with('/') && !is_library {
        report.process_path = Some(text::name(path));
        report.process_name = text::name(path.rsplit('/').next().unwrap_or(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASAN: &str = "=================================================================\n==42==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x1 bp 0x2 sp 0x3\nREAD of size 1 at 0x602 thread T0\n    #0 0x55d in use /w/a.c:5:10\n    #1 0x55e in main /w/a.c:9 (/w/prog+0x12)\n\n0x602 is located 0 bytes inside\nfreed by thread T0 here:\n    #0 0x7f in free (/usr/lib/libasan.so+0x1)\n\nSUMMARY: AddressSanitizer: heap-use-after-free /w/a.c:5:10 in use\n";

    #[test]
    fn the_faulting_stack_and_the_summary_are_kept() {
        assert!(looks_like(ASAN));
        let report = parse(ASAN, Path::new("asan.42"), None).crash_reports.remove(0);
        assert_eq!(report.exception_type.as_deref(), Some("AddressSanitizer: heap-use-after-free"));
        assert_eq!(report.pid, Some(42));
        assert_eq!(report.top_frames, ["use /w/a.c:5:10", "main /w/a.c:9 (/w/prog+0x12)"]);
        assert_eq!(
            report.message.as_deref(),
            Some("AddressSanitizer: heap-use-after-free /w/a.c:5:10 in use")
        );
        assert_eq!(report.process_name, "prog");
    }

    #[test]
    fn races_and_undefined_behaviour() {
        let race = parse(
            "WARNING: ThreadSanitizer: data race (pid=7)\n  Write of size 4\n    #0 f a.cc:1 (p+0x1)\n",
            Path::new("t"),
            None,
        );
        assert_eq!(race.crash_reports[0].pid, Some(7));
        assert_eq!(race.crash_reports[0].exception_type.as_deref(), Some("ThreadSanitizer: data race"));
        let undefined = parse(
            "/w/b.c:3:7: runtime error: signed integer overflow: 1 + 2\n",
            Path::new("u"),
            Some(Path::new("/w")),
        );
        let place = undefined.issues[0].location.clone().expect("a place");
        assert_eq!((place.file.as_str(), place.line, place.column), ("b.c", Some(3), Some(7)));
        assert!(!looks_like("ERROR: AddressSanitizer is off\nWARNING: x"));
    }
}
