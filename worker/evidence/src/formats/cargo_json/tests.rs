//! Streams as libtest, nextest and cargo write them.

use super::*;

const STREAM: &str = r#"{ "type": "suite", "event": "started", "test_count": 4 }
{ "type": "test", "event": "started", "name": "a::good" }
{ "type": "test", "name": "a::good", "event": "ok", "exec_time": 0.25 }
{ "type": "test", "event": "started", "name": "a::bad" }
{ "type": "test", "name": "a::bad", "event": "failed", "stdout": "thread 'a::bad' panicked at src/a.rs:7:9:\nleft 1\n" }
{ "type": "test", "name": "a::off", "event": "ignored", "message": "needs a network" }
{ "type": "test", "event": "started", "name": "a::dies" }
{"reason":"compiler-message","message":{"level":"error","message":"no x","rendered":"error: no x\n","spans":[{"file_name":"src/b.rs","line_start":2,"column_start":3,"is_primary":true}]}}
{"reason":"compiler-artifact","package_id":"x","target":{"name":"x"}}
"#;

#[test]
fn tests_of_two_binaries_that_share_a_name_are_two() {
    // Output of `cargo test --no-fail-fast -- -Z unstable-options --format json` in a workspace of
    // two crates.
    let binary = |result: &str| {
        format!(
            "{{ \"type\": \"suite\", \"event\": \"started\", \"test_count\": 1 }}\n{{ \"type\": \"test\", \"event\": \"started\", \"name\": \"tests::it_works\" }}\n{{ \"type\": \"test\", \"name\": \"tests::it_works\", {result} }}\n"
        )
    };
    let (bad, good) = (
        binary(
            r#""event": "failed", "stdout": "thread 'tests::it_works' panicked at a/src/lib.rs:6:9:\nno\n""#,
        ),
        binary(r#""event": "ok""#),
    );
    let (parsed, _) = parse(format!("{bad}{good}").as_bytes());
    assert_eq!((parsed.report.passed, parsed.report.failed, parsed.report.flaky), (1, 1, 0));
    assert_eq!(parsed.report.cases[0].name, "tests::it_works (binary 1)");
    assert!(parsed.report.cases[0].messages[0].ends_with("no"));
    // A stream without any mark that separates the binaries.
    let results = |text: &str| {
        text.lines()
            .filter(|line| line.contains("\"test\"") && !line.contains("started"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let (parsed, _) = parse(format!("{}{}", results(&bad), results(&good)).as_bytes());
    assert_eq!((parsed.report.passed, parsed.report.failed), (1, 1));
    // A binary that died with a test open, before another binary ran a test of that name.
    let died: String = bad.lines().take(2).map(|line| format!("{line}\n")).collect();
    let (parsed, _) = parse(format!("{died}{good}").as_bytes());
    assert_eq!(parsed.report.unfinished, ["tests::it_works"]);
}

#[test]
fn tests_and_compiler_messages_come_from_one_stream() {
    let (parsed, issues) = parse(STREAM.as_bytes());
    let report = parsed.report;
    assert_eq!((report.passed, report.failed, report.skipped), (1, 1, 1));
    assert_eq!(report.unfinished, ["a::dies"]);
    let place = report.cases[0].location.clone().unwrap_or_default();
    assert_eq!((place.file.as_str(), place.line, place.column), ("src/a.rs", Some(7), Some(9)));
    assert_eq!(report.cases[1].messages, ["needs a network"]);
    assert_eq!(issues[0].location.as_ref().and_then(|place| place.line), Some(2));
}

/// Output of nextest 0.9.143 with `--retries 2`. The test `off` starts and is only counted. The
/// suite ends early and starts again.
const NEXTEST: &str = r#"{"type":"suite","event":"started","test_count":5}
{"type":"test","event":"started","name":"a::a$tests::flaky"}
{"type":"test","event":"started","name":"a::a$tests::bad"}
{"type":"test","event":"ok","name":"a::a$tests::flaky#2","exec_time":0.027}
{"type":"test","event":"started","name":"a::a$tests::off"}
{"type":"test","event":"started","name":"a::a$tests::off2"}
{"type":"suite","event":"ok","passed":1,"failed":0,"ignored":2,"measured":0,"filtered_out":0,"exec_time":0.027}
{"type":"suite","event":"started","test_count":4}
{"type":"test","event":"started","name":"b::b$tests::fourth"}
{"type":"test","event":"ok","name":"b::b$tests::fourth","exec_time":0.026}
{"type":"test","event":"started","name":"b::b$tests::only_off"}
{"type":"test","event":"started","name":"b::b$tests::it_works"}
{"type":"test","event":"ignored","name":"b::b$tests::only_off"}
{"type":"test","event":"ok","name":"b::b$tests::it_works","exec_time":0.026}
{"type":"suite","event":"ok","passed":2,"failed":0,"ignored":1,"measured":0,"filtered_out":0,"exec_time":0.053}
{"type":"suite","event":"started","test_count":5}
{"type":"test","event":"started","name":"a::a$tests::it_works"}
{"type":"test","event":"ok","name":"a::a$tests::it_works","exec_time":0.022}
{"type":"test","event":"failed","name":"a::a$tests::bad#3","exec_time":0.18,"stdout":"thread 'tests::bad' (30438) panicked at a/src/lib.rs:3:21:\nleft: 1\n"}
{"type":"suite","event":"failed","passed":1,"failed":1,"ignored":2,"measured":0,"filtered_out":1,"exec_time":0.2}
"#;

#[test]
fn what_nextest_ran_again_is_one_test_and_what_it_only_counts_is_skipped() {
    let report = parse(NEXTEST.as_bytes()).0.report;
    assert_eq!((report.passed, report.failed, report.skipped, report.flaky), (4, 1, 3, 1), "{report:?}");
    assert_eq!((&report.unfinished, &report.cut), (&vec![], &None));
    let told: Vec<_> = report.cases.iter().map(|case| (case.name.as_str(), case.runs, case.flaky)).collect();
    assert_eq!(told, [("a::a$tests::bad", 3, false), ("a::a$tests::flaky", 2, true)]);
    assert!(report.cases[0].messages[0].contains("left: 1"));
    // With `libtest-json-plus`, suites name their binaries, and events of several suites are
    // interleaved.
    let plus = NEXTEST
        .replace("\"ignored\":2,", "\"ignored\":2,\"nextest\":{\"crate\":\"a\",\"test_binary\":\"a\"},");
    let (first, rest) = plus.split_once("{\"type\":\"suite\",\"event\":\"ok\"").expect("an end");
    let (end, rest) = rest.split_once('\n').expect("a line");
    let mixed = format!("{first}{rest}{{\"type\":\"suite\",\"event\":\"ok\"{end}\n");
    let report = parse(mixed.as_bytes()).0.report;
    assert_eq!((report.passed, report.failed, report.skipped), (4, 1, 3), "{report:?}");
    assert_eq!((&report.unfinished, &report.cut), (&vec![], &None));
    // A test that never ended is not an ignored test.
    let hangs = NEXTEST.replace("\"ignored\":2", "\"ignored\":1");
    assert_eq!(parse(hangs.as_bytes()).0.report.unfinished.len(), 2);
}

#[test]
fn a_test_that_takes_long_has_not_failed() {
    let slow = r#"{ "type": "suite", "event": "started", "test_count": 1 }
{ "type": "test", "event": "started", "name": "slow" }
{ "type": "test", "event": "timeout", "name": "slow" }
{ "type": "test", "name": "slow", "event": "ok" }
{ "type": "suite", "event": "ok", "passed": 1, "failed": 0, "ignored": 0, "measured": 0, "filtered_out": 0, "exec_time": 61.0 }
"#;
    let report = parse(slow.as_bytes()).0.report;
    assert_eq!((report.passed, report.failed, report.cut), (1, 0, None));
    let before: String = slow.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert_eq!(parse(before.as_bytes()).0.report.unfinished, ["slow"]);
}

#[test]
fn what_suites_and_cargo_say_of_their_end_is_heard() {
    let of = |lines: &[&str]| {
        let (parsed, issues) = parse(lines.join("\n").as_bytes());
        (parsed.report.cut, issues.len())
    };
    let began = r#"{"type":"suite","event":"started","test_count":1}"#;
    let good = r#"{"type":"test","name":"a","event":"ok"}"#;
    let bad = r#"{"type":"test","name":"a","event":"failed"}"#;
    let end = |word: &str, failed: u64| {
        format!(r#"{{"type":"suite","event":"{word}","passed":1,"failed":{failed},"ignored":0}}"#)
    };
    assert_eq!(of(&[began, good, &end("ok", 0)]), (None, 0));
    assert_eq!(of(&[began, bad, &end("failed", 1)]), (None, 0));
    assert_eq!(of(&[began, good]).0.as_deref(), Some("1 of 1 suite has no end"));
    assert_eq!(
        of(&[began, good, &end("failed", 1)]).0.as_deref(),
        Some("suites count 1 failed test and list 0")
    );
    assert!(of(&[good, &end("ok", 0)]).0.is_some_and(|cut| cut.contains("lacks its beginning")));
    assert!(of(&[good]).0.is_some_and(|cut| cut.contains("lacks its beginning and its end")));
    let torn = "1 line is a part of an event; the stream may be cut short";
    assert_eq!(of(&[began, good, &end("ok", 0), "{ \"type\": \"su"]).0.as_deref(), Some(torn));
    assert_eq!(of(&["\"event\": \"ok\" }", began, good, &end("ok", 0)]).0.as_deref(), Some(torn));
    let printed = format!("printed {good}");
    assert_eq!(of(&[began, "{ printed: 1 }", "{", &printed, &end("ok", 0)]), (None, 0));
    assert!(of(&[began, good, &end("failed", 0)]).0.is_some_and(|cut| cut.contains("names no test")));
    let artifact = r#"{"reason":"compiler-artifact","target":{"name":"x"}}"#;
    let finished = |success: bool| format!(r#"{{"reason":"build-finished","success":{success}}}"#);
    assert_eq!(of(&[artifact, &finished(true)]), (None, 0));
    assert_eq!(of(&[artifact, &finished(false)]), (None, 1));
    assert_eq!(of(&[artifact, &finished(false), &finished(true)]), (None, 1));
    assert_eq!(of(&[artifact]).0.as_deref(), Some("the stream ends before the build does"));
    let error = r#"{"reason":"compiler-message","message":{"level":"error","message":"no x"}}"#;
    assert_eq!(of(&[error, &finished(false)]), (None, 1), "the compiler's error has the reason");
}
