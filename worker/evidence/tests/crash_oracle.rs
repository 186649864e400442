//! Compares every field of recorded crash files with the file itself, parsed here in the simplest
//! way.

use buildpool_evidence::limits::FRAMES_MAX;
use buildpool_evidence::read_report;
use buildpool_protocol::report::CrashReport;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/crash").join(name)
}

fn read(name: &str) -> (CrashReport, String) {
    let evidence = read_report(&data(name)).expect("a crash").evidence;
    assert_eq!(evidence.crash_reports.len(), 1);
    (evidence.crash_reports[0].clone(), fs::read_to_string(data(name)).expect("a text"))
}

/// Converts `2022-04-20 14:36:33.5767 +0100` to RFC 3339.
fn rfc3339(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let (hours, minutes) = words[2].split_at(3);
    format!("{}T{}{hours}:{minutes}", words[0], words[1])
}

/// Compares fields and returns their number.
fn compare(ours: &CrashReport, wanted: &[(&str, Option<String>)], frames: &[String], path: &str) -> usize {
    let ended = ours.termination.clone().unwrap_or_default();
    let found = [
        ("process_name", Some(ours.process_name.clone())),
        ("process_path", ours.process_path.clone()),
        ("pid", ours.pid.map(|pid| pid.to_string())),
        ("exception_type", ours.exception_type.clone()),
        ("signal", ours.signal.clone()),
        ("termination.namespace", ended.namespace),
        ("termination.code", ended.code.map(|code| code.to_string())),
        ("termination.indicator", ended.indicator),
        ("timestamp", ours.timestamp.clone()),
    ];
    assert_eq!(found.as_slice(), wanted);
    assert_eq!(ours.top_frames, frames[..frames.len().min(FRAMES_MAX)]);
    assert!(ours.file_path.ends_with(path), "{}", ours.file_path);
    // The path and the message of each file are compared as well.
    wanted.len() + ours.top_frames.len() + 2
}

#[test]
fn an_ips_file_is_read_in_every_field() {
    let (ours, text) = read("xctest-sim-sigtrap.ips");
    let (_, body) = text.split_once('\n').expect("a header and a body");
    let body: Value = serde_json::from_str(body).expect("a body");
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let number = |value: &Value| value.as_i64().map(|number| number.to_string());
    let wanted = [
        ("process_name", word(&body["procName"])),
        ("process_path", word(&body["procPath"])),
        ("pid", number(&body["pid"])),
        ("exception_type", word(&body["exception"]["type"])),
        ("signal", word(&body["exception"]["signal"])),
        ("termination.namespace", word(&body["termination"]["namespace"])),
        ("termination.code", number(&body["termination"]["code"])),
        ("termination.indicator", word(&body["termination"]["indicator"])),
        ("timestamp", word(&body["captureTime"]).map(|time| rfc3339(&time))),
    ];
    let thread = body["faultingThread"].as_u64().expect("a thread") as usize;
    let frames = body["threads"][thread]["frames"].as_array().expect("frames");
    let frames: Vec<String> = frames
        .iter()
        .map(|frame| {
            let image = &body["usedImages"][frame["imageIndex"].as_u64().expect("an image") as usize];
            let symbol = frame["symbol"].as_str().expect("a symbol");
            let place = match (frame["sourceFile"].as_str(), &frame["sourceLine"]) {
                (Some(file), line) if line.is_number() => format!(" ({file}:{line})"),
                _ => String::new(),
            };
            let name = image["name"].as_str().expect("a name");
            format!("{name}  {symbol} + {}{place}", frame["symbolLocation"])
        })
        .collect();
    assert_eq!(ours.message, None, "the application left no words");
    let fields = compare(&ours, &wanted, &frames, "xctest-sim-sigtrap.ips");
    let (kept, all) = (ours.top_frames.len(), frames.len());
    assert_eq!(
        (fields, kept, all),
        (31, 20, 55),
        "fields that were compared, frames among them, frames in the file"
    );
}

#[test]
fn the_older_text_is_read_in_every_field() {
    let (ours, text) = read("app-simulator.crash");
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.expect(key).trim().to_owned()
    };
    let process = value("Process");
    let (name, pid) = process.trim_end_matches(']').split_once(" [").expect("a name and an id");
    let exception = value("Exception Type");
    let (kind, signal) = exception.trim_end_matches(')').split_once(" (").expect("a type and a signal");
    let wanted = [
        ("process_name", Some(name.to_owned())),
        ("process_path", Some(value("Path"))),
        ("pid", Some(pid.to_owned())),
        ("exception_type", Some(kind.to_owned())),
        ("signal", Some(signal.to_owned())),
        // This version of the format has no termination reason.
        ("termination.namespace", None),
        ("termination.code", None),
        ("termination.indicator", None),
        ("timestamp", Some(rfc3339(&value("Date/Time")))),
    ];
    let crashed = text.lines().skip_while(|line| !line.starts_with("Thread 0 Crashed")).skip(1);
    let frames: Vec<String> = crashed
        .take_while(|line| !line.trim().is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{}  {}", words[1], words[3..].join(" "))
        })
        .collect();
    let message = ours.message.clone().expect("the application printed the reason");
    let said = text.split_once("Application Specific Information:\n").expect("its words").1;
    assert_eq!(message.lines().next(), said.lines().next());
    let fields = compare(&ours, &wanted, &frames, "app-simulator.crash");
    let (kept, all) = (ours.top_frames.len(), frames.len());
    assert_eq!(
        (fields, kept, all),
        (27, 16, 16),
        "fields that were compared, frames among them, frames in the file"
    );
}
