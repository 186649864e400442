//! Facts about a job that are rarely present, and its details.

use super::page::TextPage;
use buildpool_protocol::report::{CrashReport, JobResult};
use buildpool_protocol::shown::{counted, one_line};
use std::fmt::Write;

/// Adds facts that are rarely present.
pub(super) fn facts(page: &mut TextPage, result: &JobResult, details: bool) {
    result.crash_reports.iter().for_each(|report| crash_report(page, report));
    result.notes.iter().for_each(|note| page.line(format!("note: {note}")));
    for gap in &result.gaps {
        let bytes = counted(gap.bytes, "byte");
        page.line(format!("gap: {bytes} of {} missing at {}: {}", gap.stream, gap.offset, gap.reason));
    }
    for survivor in &result.survivors {
        page.line(format!("still running: {} (pid {})", survivor.command, survivor.pid));
    }
    let artifacts: Vec<String> = result
        .artifacts
        .iter()
        .map(|artifact| {
            let executable = if artifact.executable { ", executable" } else { "" };
            format!("{} ({} bytes, blake3 {}{executable})", artifact.path, artifact.bytes, artifact.blake3)
        })
        .collect();
    page.quoted("artifacts:", &artifacts);
    if let Some(snapshot) = &result.snapshot {
        page.list("kept_back, because they look like secrets:", &snapshot.kept_back);
        if details {
            page.list(
                "left_behind, because git ignores it or it leads out of the tree:",
                &snapshot.left_behind,
            );
        }
        page.list("changed_meanwhile:", &snapshot.changed_meanwhile);
        page.list("notes on the working tree:", &snapshot.notes);
    }
}

fn crash_report(page: &mut TextPage, report: &CrashReport) {
    let mut words = format!("{}: {}", report.file_path, report.process_name);
    if let Some(pid) = report.pid {
        let _ = write!(words, " (pid {pid})");
    }
    let termination = report.termination.clone().unwrap_or_default();
    let code = termination.code.map(|code| code.to_string());
    let parts = [
        &report.process_path,
        &report.exception_type,
        &report.signal,
        &termination.namespace,
        &code,
        &termination.indicator,
        &report.timestamp,
    ];
    parts.into_iter().flatten().for_each(|part| {
        let _ = write!(words, ", {part}");
    });
    if let Some(fact) = &report.matched_by {
        let _ = write!(words, ", matched by {fact}");
    }
    page.quote_after("crash report:", &one_line(&words));
    report.message.iter().for_each(|message| page.quote(message));
    report.top_frames.iter().for_each(|frame| page.quote(frame));
}

/// Adds one line with the job's times, submitter, directory and resource usage.
pub(super) fn details(page: &mut TextPage, result: &JobResult) {
    let mut about = vec![format!("job {}", result.job_id), format!("attempt {}", result.attempt)];
    if let Some(worker) = result.worker.as_ref().filter(|_| result.success) {
        about.push(format!("worker {worker}"));
    }
    if let Some(build) = &result.request_id {
        about.push(format!("part of {build}"));
    }
    if let Some(secs) = result.queued_secs {
        about.push(format!("queued {secs:.1} s"));
    }
    for (name, value) in [
        ("created", &result.created_at),
        ("started", &result.started_at),
        ("finished", &result.finished_at),
        ("submitter", &result.submitter),
    ] {
        about.extend(value.as_ref().map(|value| format!("{name} {value}")));
    }
    if !result.labels.is_empty() {
        about.push(format!("labels {}", result.labels.join(", ")));
    }
    if !result.directory.is_empty() {
        about.push(format!("directory {}", result.directory));
    }
    if let Some(snapshot) = &result.snapshot {
        about.push(format!("snapshot {} of {}", snapshot.id, counted(snapshot.files, "file")));
    }
    if let Some(usage) = &result.usage {
        about.push(format!(
            "usage {:.2} s user, {:.2} s system, {} bytes of memory",
            usage.user_secs, usage.system_secs, usage.max_rss_bytes
        ));
    }
    page.line(about.join(", "));
}
