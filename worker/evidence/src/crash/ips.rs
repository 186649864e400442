//! Parses `.ips` crash files: one header line, then a JSON body ("Interpreting the JSON format of a
//! crash report", Apple). The body is a JSON crash report only for `bug_type` 309. Files of
//! `bug_type` 109 contain the older text format.

use super::{CrashFile, date, device_in, device_of_path, states_cause, text_report};
use crate::error::EvidenceError;
use crate::limits::FRAMES_MAX;
use crate::text;
use buildpool_protocol::report::{CrashReport, Termination};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::Path;

/// Deserializes a field and returns `None` for an unexpected type, so that one unusual field does
/// not hide a crash.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

#[derive(Deserialize)]
struct Header {
    #[serde(default, deserialize_with = "lenient")]
    bug_type: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    app_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<String>,
    #[serde(default, rename = "bundleID", deserialize_with = "lenient")]
    bundle_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default, deserialize_with = "lenient")]
    proc_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    proc_path: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pid: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    parent_pid: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    responsible_pid: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    coalition_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    proc_launch: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    capture_time: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    exception: Option<Exception>,
    #[serde(default, deserialize_with = "lenient")]
    termination: Option<Ended>,
    #[serde(default, deserialize_with = "lenient")]
    asi: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default, deserialize_with = "lenient")]
    faulting_thread: Option<usize>,
    #[serde(default, deserialize_with = "lenient")]
    threads: Option<Vec<Thread>>,
    #[serde(default, deserialize_with = "lenient")]
    used_images: Option<Vec<Image>>,
    #[serde(default, deserialize_with = "lenient")]
    bundle_info: Option<BundleInfo>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    signal: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    message: Option<String>,
}

#[derive(Deserialize)]
struct Ended {
    #[serde(default, deserialize_with = "lenient")]
    namespace: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    code: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    indicator: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    reasons: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient")]
    details: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    triggered: bool,
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(default, deserialize_with = "lenient")]
    symbol: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    symbol_location: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    image_index: Option<usize>,
    #[serde(default, deserialize_with = "lenient")]
    image_offset: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    source_file: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    source_line: Option<u64>,
}

#[derive(Deserialize)]
struct Image {
    #[serde(default, deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    path: Option<String>,
}

#[derive(Deserialize)]
struct BundleInfo {
    #[serde(default, rename = "CFBundleIdentifier", deserialize_with = "lenient")]
    identifier: Option<String>,
}

/// Parses header and body.
pub(super) fn parse(content: &str, path: &Path) -> Result<CrashFile, EvidenceError> {
    let malformed = |reason: String| EvidenceError::malformed(path, ".ips", reason);
    let content = content.trim_start();
    let (first, rest) = content.split_once('\n').unwrap_or((content, ""));
    let header: Header = serde_json::from_str(first)
        .map_err(|error| malformed(format!("the first line must be a JSON object on its own: {error}")))?;
    let bug_type = header.bug_type.clone().unwrap_or_default();
    if !matches!(bug_type.as_str(), "309" | "109") {
        return Err(EvidenceError::NotACrash { path: path.to_owned(), bug_type });
    }
    if rest.trim().is_empty() {
        return Err(malformed("there is a header and no body".to_owned()));
    }
    if !rest.trim_start().starts_with('{') {
        let not_older =
            |reason| malformed(format!("the body is neither a JSON object nor the older text: {reason}"));
        return text_report::parse(rest).map_err(not_older);
    }
    let body: Body = serde_json::from_str(rest).map_err(|error| malformed(format!("body: {error}")))?;
    if body.tells_nothing() {
        return Err(malformed("the body names no process, exception, termination or thread".to_owned()));
    }
    Ok(crash_file(header, body))
}

impl Body {
    fn tells_nothing(&self) -> bool {
        let has_process = self.proc_name.is_some() || self.proc_path.is_some() || self.pid.is_some();
        let has_end = self.exception.is_some() || self.termination.is_some() || self.threads.is_some();
        !has_process && !has_end
    }
}

fn crash_file(header: Header, body: Body) -> CrashFile {
    let frames = top_frames(&body);
    let message = message(&body);
    let captured = body.capture_time.as_deref().or(header.timestamp.as_deref()).and_then(date);
    let device = body
        .coalition_name
        .as_deref()
        .filter(|coalition| coalition.contains("CoreSimulator.SimDevice."))
        .and_then(device_in)
        .or_else(|| body.proc_path.as_deref().and_then(device_of_path))
        .or_else(|| {
            let lines = body.asi.iter().flat_map(BTreeMap::values).flatten();
            lines.filter(|line| line.starts_with("CoreSimulator ")).find_map(|line| device_in(line))
        });
    let (exception_type, signal) = match &body.exception {
        Some(exception) => (exception.kind.clone(), exception.signal.as_deref().map(signal_name)),
        None => (None, None),
    };
    let termination = body.termination.map(|ended| Termination {
        namespace: ended.namespace.map(|text| text::name(&text)),
        code: ended.code,
        indicator: ended.indicator.map(|indicator| text::name(&indicator)),
    });
    let process_name = body.proc_name.or(header.name).or(header.app_name).unwrap_or_default();
    CrashFile {
        report: CrashReport {
            process_name: text::name(&process_name),
            process_path: body.proc_path.map(|path| text::name(&path)),
            pid: body.pid,
            exception_type: exception_type.map(|kind| text::name(&kind)),
            signal,
            termination,
            timestamp: captured.as_ref().map(|(_, shown)| shown.clone()),
            file_path: String::new(),
            top_frames: frames,
            message,
            matched_by: None,
        },
        parent_pid: body.parent_pid,
        responsible_pid: body.responsible_pid,
        coalition: body.coalition_name,
        device,
        bundle_id: body.bundle_info.and_then(|info| info.identifier).or(header.bundle_id),
        launched_at_ms: body.proc_launch.as_deref().and_then(date).map(|(at, _)| at),
        captured_at_ms: captured.map(|(at, _)| at),
    }
}

/// Returns the signal name without the text that some reports add after it: `SIGTRAP`.
fn signal_name(signal: &str) -> String {
    text::name(signal.split([' ', '(']).next().unwrap_or(signal))
}

/// Returns the application's last messages, then the system's termination reason.
fn message(body: &Body) -> Option<String> {
    let left = body.asi.iter().flat_map(BTreeMap::values).flatten();
    let mut lines: Vec<String> = left.filter(|line| states_cause(line)).cloned().collect();
    if let Some(ended) = &body.termination {
        lines.extend(ended.reasons.iter().flatten().take(8).cloned());
        lines.extend(ended.details.iter().flatten().take(8).cloned());
    }
    if let Some(exception) = &body.exception {
        lines.extend(exception.message.clone());
        if lines.is_empty() {
            lines.extend(exception.subtype.clone());
        }
    }
    lines.dedup();
    (!lines.is_empty()).then(|| text::message(&lines.join("\n")))
}

fn top_frames(body: &Body) -> Vec<String> {
    let threads = body.threads.as_deref().unwrap_or_default();
    let thread = body
        .faulting_thread
        .and_then(|index| threads.get(index))
        .or_else(|| threads.iter().find(|thread| thread.triggered));
    let images = body.used_images.as_deref().unwrap_or_default();
    thread.map_or_else(Vec::new, |thread| {
        thread.frames.iter().take(FRAMES_MAX).map(|frame| frame_line(frame, images)).collect()
    })
}

fn frame_line(frame: &Frame, images: &[Image]) -> String {
    let image = frame.image_index.and_then(|index| images.get(index)).and_then(|image| {
        let of_path = || image.path.as_deref().and_then(|path| path.rsplit('/').next());
        image.name.as_deref().or_else(of_path)
    });
    let image = image.unwrap_or("???");
    let place = match (&frame.source_file, frame.source_line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    text::name(&match (&frame.symbol, frame.symbol_location) {
        (Some(symbol), Some(offset)) => format!("{image}  {symbol} + {offset}{place}"),
        (Some(symbol), None) => format!("{image}  {symbol}{place}"),
        (None, _) => format!("{image}  0x{:x}{place}", frame.image_offset.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(content: &str) -> Result<CrashFile, EvidenceError> {
        parse(content, Path::new("a.ips"))
    }

    #[test]
    fn only_a_crash_is_one() {
        let error = parsed("{\"bug_type\":\"288\"}\n{}").expect_err("a stackshot");
        assert!(matches!(error, EvidenceError::NotACrash { bug_type, .. } if bug_type == "288"));
        for bad in [
            "{\"bug_type\":\"309\"}",
            "{\"bug_type\":\"309\"}\n{\"pid\":",
            "{",
            "{}\n{}",
            "{\n\"bug_type\":\"309\"}\n{}",
            "{\"bug_type\":\"309\",\"name\":\"app\"}\n{}",
            "{\"bug_type\":\"309\",\"name\":\"app\"}\n[]",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_termination_code_is_no_signal_outside_its_namespace() {
        let body = r#"{"procName":"a","pid":1,"termination":{"namespace":"FRONTBOARD","code":2343432205,"indicator":"x","reasons":["scene-create watchdog"]}}"#;
        let file = parsed(&format!("{{\"bug_type\":\"309\"}}\n{body}")).expect("a crash");
        assert_eq!(file.report.signal, None);
        assert_eq!(file.report.termination.and_then(|ended| ended.code), Some(2_343_432_205));
        assert_eq!(file.report.message.as_deref(), Some("scene-create watchdog"));
    }

    #[test]
    fn odd_fields_do_not_hide_a_crash() {
        let body = r#"{"procName":7,"pid":"no","asi":[1],"threads":{"a":1},"exception":{"type":"EXC_CRASH","signal":"SIGABRT (6)"},"usedImages":null,"faultingThread":99}"#;
        let file = parsed(&format!("{{\"bug_type\":\"309\",\"name\":\"app\"}}\n{body}")).expect("a crash");
        assert_eq!(
            (file.report.process_name.as_str(), file.report.signal.as_deref()),
            ("app", Some("SIGABRT"))
        );
    }
}
