//! Detects the kind of a report by its content. File names are not reliable: a JUnit report can
//! have any name, and a crash file may be renamed.

use crate::sanitizer;

/// Kinds of reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReportKind {
    /// A result bundle of Xcode, or only its database.
    ResultBundle,
    /// Output of `xcresulttool get test-results tests`.
    ResultJson,
    /// JUnit XML.
    Junit,
    /// Output of `go test -json`.
    GoJson,
    /// libtest JSON and cargo's compiler messages.
    CargoJson,
    /// The Test Anything Protocol.
    Tap,
    /// A crash file, `.ips` or `.crash`.
    Crash,
    /// A sanitizer report.
    Sanitizer,
}

/// Number of lines checked in the head of a file.
const HEAD_LINES: usize = 200;

/// Returns the kind of a file from its first bytes.
pub(crate) fn kind_of(head: &[u8]) -> Option<ReportKind> {
    if head.starts_with(b"SQLite format 3\0") {
        return Some(ReportKind::ResultBundle);
    }
    let content = crate::text::lossy(head);
    let trimmed = content.trim_start();
    if trimmed.starts_with('<') {
        let is_xml = has_suite(trimmed) || trimmed.starts_with("<?xml") || ends_before_element(trimmed);
        return is_xml.then_some(ReportKind::Junit);
    }
    if trimmed.starts_with('{')
        && let Some(kind) = whole_json(trimmed)
    {
        return Some(kind);
    }
    let has_suite = has_suite(&content);
    let kind = |line: &str| if has_suite && is_xml(line) { Some(ReportKind::Junit) } else { line_kind(line) };
    content.lines().take(HEAD_LINES).find_map(kind).or_else(|| {
        let crash = content.contains("\nException Type:") || content.contains("\nTermination Reason:");
        if crash && content.lines().any(|line| line.starts_with("Process:")) {
            return Some(ReportKind::Crash);
        }
        sanitizer::looks_like(&content).then_some(ReportKind::Sanitizer)
    })
}

/// Returns the kind of a report that follows a long comment or other output.
pub(crate) fn kind_behind_preamble(head: &[u8]) -> Option<ReportKind> {
    let content = crate::text::lossy(head);
    let has_suite = has_suite(&content);
    if has_suite && content.trim_start().starts_with('<') {
        return Some(ReportKind::Junit);
    }
    let mut has_point = false;
    let mut has_plan = false;
    for line in content.lines() {
        match line_kind(line) {
            _ if has_suite && is_xml(line) => return Some(ReportKind::Junit),
            // So far into a file, a single TAP line is not enough evidence: both a plan and a point
            // must exist.
            Some(ReportKind::Tap) if !line.starts_with("TAP version ") => {
                *(if line.starts_with("1..") { &mut has_plan } else { &mut has_point }) = true;
            }
            Some(kind) => return Some(kind),
            None => {}
        }
        if has_point && has_plan {
            return Some(ReportKind::Tap);
        }
    }
    None
}

/// Returns the XML part of a text: all of it, or the part after other output.
pub(crate) fn from_xml(text: &str) -> &str {
    if text.trim_start().starts_with('<') {
        return text;
    }
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_xml(line) {
            return text.get(at..).unwrap_or(text);
        }
        at += line.len();
    }
    text
}

/// Returns true if the text ends before the name of its first element.
pub(crate) fn ends_before_element(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some((_, after)) = rest.strip_prefix("<?").and_then(|rest| rest.split_once("?>")) {
        rest = after.trim_start();
    }
    rest.is_empty() || "<testsuites".starts_with(rest.trim_end())
}

fn has_suite(text: &str) -> bool {
    text.contains("<testsuite") || text.contains(":testsuite")
}

fn is_xml(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("<?xml") || line.starts_with("<testsuite")
}

fn whole_json(trimmed: &str) -> Option<ReportKind> {
    let first = trimmed.lines().next().unwrap_or(trimmed);
    if first.contains("\"bug_type\"") {
        return Some(ReportKind::Crash);
    }
    let multi_line = first.trim() == "{";
    if trimmed.contains("\"testNodes\"") || (multi_line && trimmed.contains("\"testPlanConfigurations\"")) {
        return Some(ReportKind::ResultJson);
    }
    let keys = ["\"devices\"", "\"nodeType\""];
    keys.iter().all(|key| trimmed.contains(key)).then_some(ReportKind::ResultJson)
}

fn line_kind(line: &str) -> Option<ReportKind> {
    let line = line.trim_end();
    if line.starts_with('{') {
        let has = |key: &str| line.contains(key);
        return if has("\"Action\":") {
            Some(ReportKind::GoJson)
        } else if has("\"reason\"") || (has("\"type\"") && has("\"event\"")) {
            Some(ReportKind::CargoJson)
        } else {
            None
        };
    }
    let plan = line.strip_prefix("1..").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let point = ["ok ", "not ok "].iter().any(|start| line.strip_prefix(start).is_some_and(is_point));
    (plan || point || line.starts_with("TAP version ")).then_some(ReportKind::Tap)
}

/// Returns true if `rest` starts like a TAP point: `1 - description`. A Go log has `ok  \tpackage`,
/// which is not a TAP point.
fn is_point(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells() {
        let kind = |text: &str| kind_of(text.as_bytes());
        assert_eq!(kind("\u{feff}<?xml version=\"1.0\"?>\n<testsuites>"), Some(ReportKind::Junit));
        assert_eq!(
            kind("# pkg\nx.go:1: bad\n{\"Time\":\"t\",\"Action\":\"run\",\"Test\":\"T\"}"),
            Some(ReportKind::GoJson)
        );
        assert_eq!(kind("<ns:testsuite xmlns:ns='urn:x'>"), Some(ReportKind::Junit));
        let wide: Vec<u8> = "\u{feff}<testsuite/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(kind_of(&wide), Some(ReportKind::Junit));
        assert_eq!(kind("{ \"type\": \"suite\", \"event\": \"started\" }"), Some(ReportKind::CargoJson));
        assert_eq!(kind("{\"reason\":\"compiler-artifact\"}"), Some(ReportKind::CargoJson));
        assert_eq!(kind("TAP version 14\n"), Some(ReportKind::Tap));
        assert_eq!(kind("ok 1 - x\n"), Some(ReportKind::Tap));
        assert_eq!(kind("ok  \tpkg\t0.1s\n"), None);
        assert_eq!(kind("{\"app_name\":\"x\",\"bug_type\":\"309\"}\n{"), Some(ReportKind::Crash));
        assert_eq!(kind("Process: a [1]\nException Type: EXC_CRASH\n"), Some(ReportKind::Crash));
        assert_eq!(kind("{\"devices\":[],\"testNodes\":[]}"), Some(ReportKind::ResultJson));
        assert_eq!(kind("==1==ERROR: AddressSanitizer: SEGV on unknown"), Some(ReportKind::Sanitizer));
        assert_eq!(kind_of(b"SQLite format 3\0xx"), Some(ReportKind::ResultBundle));
        assert_eq!(kind("Done.\n  <testsuites>"), Some(ReportKind::Junit));
        assert_eq!(kind("hello <testsuites>"), None);
        assert_eq!(kind("<tests"), Some(ReportKind::Junit));
        assert_eq!(kind("<p>"), None);
        assert_eq!(kind("hello"), None);
        assert_eq!(kind(""), None);
    }
}
