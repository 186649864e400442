//! Streams as Go writes them, complete and truncated.

use super::*;

const STREAM: &str = r#"{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0.5}
{"Action":"run","Package":"m/a","Test":"TestBad"}
{"Action":"run","Package":"m/a","Test":"TestBad/sub"}
{"Action":"output","Package":"m/a","Test":"TestBad/sub","Output":"    a_test.go:14: got 1, want 2\n"}
{"Action":"output","Package":"m/a","Test":"TestBad/sub","Output":"    --- FAIL: TestBad/sub (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad/sub","Elapsed":0}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestSkip"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:20: no network\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestHang"}
{"Action":"fail","Package":"m/a","Elapsed":1}
{"ImportPath":"m/b","Action":"build-output","Output":"b/b.go:3:5: undefined: x\n"}
{"ImportPath":"m/b","Action":"build-fail"}
{"Action":"out
"#;

#[test]
fn a_stream_is_counted_with_places_and_what_never_ended() {
    let (parsed, issues) = parse(STREAM.as_bytes());
    let report = parsed.report;
    assert_eq!((report.passed, report.failed, report.skipped), (1, 2, 1));
    assert_eq!(report.unfinished, ["m/a.TestHang"]);
    assert_eq!(report.cases[0].name, "m/a.TestBad/sub");
    assert_eq!(report.cases[0].messages, ["    a_test.go:14: got 1, want 2"]);
    assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(14));
    assert_eq!(issues.len(), 1, "package a fails by its tests, b by its build: {issues:?}");
    assert!(issues[0].message.contains("undefined: x"));
    assert_eq!(parsed.notes.len(), 1);
}

/// Builds events from short lines: `run T`, `out T text`, `pass T`, `fail T`, `say text`, `end
/// pass`. All events belong to package `m/a`.
fn stream(lines: &[&str]) -> String {
    let event = |line: &&str| {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let quoted = |text: &str| serde_json::Value::from(format!("{text}\n"));
        match verb {
            "out" => {
                let (test, text) = rest.split_once(' ').expect("a test and its text");
                format!(r#"{{"Action":"output","Package":"m/a","Test":"{test}","Output":{}}}"#, quoted(text))
            }
            "say" => format!(r#"{{"Action":"output","Package":"m/a","Output":{}}}"#, quoted(rest)),
            "end" => format!(r#"{{"Action":"{rest}","Package":"m/a","Elapsed":1}}"#),
            _ => format!(r#"{{"Action":"{verb}","Package":"m/a","Test":"{rest}"}}"#),
        }
    };
    lines.iter().map(event).collect::<Vec<_>>().join("\n")
}

fn told(lines: &[&str]) -> (u64, Vec<String>, Option<String>) {
    let (parsed, issues) = parse(stream(lines).as_bytes());
    let messages = issues.into_iter().map(|issue| issue.message).collect();
    (parsed.report.failed, messages, parsed.report.cut)
}

#[test]
fn a_package_with_failed_tests_that_fails_for_a_cause_of_its_own_says_so() {
    let bad = ["run TestBad", "out TestBad a_test.go:7: no", "fail TestBad"];
    let of = |rest: &[&str]| told(&[bad.as_slice(), rest].concat());
    let usual = of(&[
        "say FAIL",
        "say coverage: 10.0% of statements",
        "say exit status 1",
        "say FAIL\tm/a\t0.1s",
        "end fail",
    ]);
    assert_eq!(usual, (1, vec![], None), "its tests are why");
    let (_, messages, _) = of(&["say FAIL", "say cleanup: no database", "say FAIL\tm/a\t0.1s", "end fail"]);
    assert_eq!(messages, ["package m/a failed: cleanup: no database"]);
    let (_, messages, _) =
        of(&["say panic: in a goroutine", "say ", "say goroutine 7 [running]:", "end fail"]);
    assert!(messages[0].starts_with("package m/a failed: panic: in a goroutine"), "{messages:?}");
    let (_, messages, _) = of(&["say signal: killed", "say FAIL\tm/a\t0.1s", "end fail"]);
    assert_eq!(messages, ["package m/a failed: signal: killed"]);
    // The test that failed already reports its panic.
    let panics = ["run TestP", "out TestP panic: boom", "fail TestP", "say exit status 2", "end fail"];
    assert_eq!(told(&panics), (1, vec![], None));
}

#[test]
fn a_panic_that_goes_to_a_test_without_a_failure_is_told() {
    // A time limit that expires as the last test ends, as recorded with Go 1.20.
    let late = [
        "run TestOk",
        "out TestOk panic: test timed out after 1s",
        "pass TestOk",
        "say FAIL\tm/a\t1s",
        "end fail",
    ];
    let (failed, messages, _) = told(&late);
    assert_eq!(failed, 0);
    assert_eq!(messages, ["package m/a failed: panic: test timed out after 1s"]);
    let never = ["run TestP", "out TestP panic: boom", "say FAIL\tm/a\t1s", "end fail"];
    assert_eq!(told(&never).1, ["package m/a failed: panic: boom"]);
    // The output after a panic is longer than the part that is kept.
    let dump: Vec<String> = (0..2_000).map(|line| format!("out TestP goroutine {line}")).collect();
    let dump = dump.iter().map(String::as_str);
    let long: Vec<&str> =
        ["run TestP", "out TestP panic: boom"].into_iter().chain(dump).chain(["end fail"]).collect();
    assert!(told(&long).1[0].starts_with("package m/a failed: panic: boom\ngoroutine 0"));
}

#[test]
fn a_build_that_failed_is_told_once() {
    // Output of Go 1.24 and later. Package `m/c` needs `m/b`.
    let build = r##"{"ImportPath":"m/b [m/b.test]","Action":"build-output","Output":"# m/b [m/b.test]\n"}
{"ImportPath":"m/b [m/b.test]","Action":"build-output","Output":"b/b.go:3:5: undefined: x\n"}
{"ImportPath":"m/b [m/b.test]","Action":"build-fail"}
{"Action":"start","Package":"m/b"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b [build failed]\n"}
{"Action":"fail","Package":"m/b","Elapsed":0,"FailedBuild":"m/b [m/b.test]"}
{"Action":"start","Package":"m/c"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c","Elapsed":0,"FailedBuild":"m/b [m/b.test]"}
"##;
    let (parsed, issues) = parse(build.as_bytes());
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert!(issues[0].message.contains("undefined: x"), "{issues:?}");
    assert_eq!(parsed.notes, ["package m/c failed: m/b [m/b.test] did not build"]);
    assert_eq!(parsed.report.cut, None);
    // Before Go 1.24 the compiler output is not in the stream.
    let old = r#"{"Action":"output","Package":"m/b","Output":"FAIL\tm/b [build failed]\n"}
{"Action":"fail","Package":"m/b","Elapsed":0}"#;
    assert_eq!(parse(old.as_bytes()).1[0].message, "package m/b failed (build failed): no output");
}

#[test]
fn a_stream_that_ends_before_its_packages_is_cut() {
    let whole = ["run TestA", "pass TestA", "say PASS", "end pass"];
    assert_eq!(told(&whole).2, None);
    assert_eq!(told(&whole[..3]).2.as_deref(), Some("the stream ends before m/a"));
    let again = [whole.as_slice(), &["run TestA", "pass TestA"]].concat();
    assert!(told(&again).2.is_some(), "run again, and not to the end");
    assert_eq!(told(&whole[1..]).2.as_deref(), Some("the stream begins after TestA"));
    assert_eq!(told(&whole[2..]).2.as_deref(), Some("the stream begins after m/a"));
    let of = |text: &str| parse(text.as_bytes()).0.report.cut;
    let start = r#"{"Action":"start","Package":"m/b"}"#;
    let end = r#"{"Action":"pass","Package":"m/b"}"#;
    assert_eq!(
        of(&format!("{start}\n{}\n{end}", stream(&whole))).as_deref(),
        Some("the stream begins after m/a")
    );
    // A stream that lost only its `start` event. Without one, the stream counts as older Go, unless
    // another event proves a newer version.
    let named = ["run TestA", "out TestA === NAME  TestA", "pass TestA", "say PASS", "end pass"];
    assert_eq!(told(&named).2.as_deref(), Some("the stream begins after m/a"));
    let begun = r#"{"Action":"start","Package":"m/a"}"#;
    assert_eq!(of(&format!("{begun}\n{}", stream(&named))), None);
    let torn = "1 line is a part of an event; the stream may be cut short";
    for text in [format!("\"Package\":\"m\"}}\n{}", stream(&whole)), format!("{}\n{{\"Ti", stream(&whole))] {
        assert_eq!(of(&text).as_deref(), Some(torn), "{text}");
    }
    let bare = r#"{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}"#;
    assert_eq!(parse(bare.as_bytes()).0.report.cut, None, "test2json without a package");
}

#[test]
fn a_package_that_fails_again_without_a_word_is_told_once() {
    let first = ["run TestBad", "fail TestBad", "end fail"];
    assert_eq!(told(&[first.as_slice(), &["end fail"]].concat()), (1, vec![], None));
    let (_, messages, _) = told(&[first.as_slice(), &["say no database", "end fail"]].concat());
    assert_eq!(messages, ["package m/a failed: no database"]);
    let (_, messages, _) = told(&["run TestOk", "pass TestOk", "end pass", "end fail"]);
    assert_eq!(messages, ["package m/a failed: no output"]);
}

#[test]
fn a_test_that_ran_twice_in_one_run_of_its_package_failed_if_it_failed_once() {
    // Output of `go test -count=2`.
    let twice = ["run TestA", "fail TestA", "run TestA", "pass TestA"];
    let count = [twice.as_slice(), &["end fail"]].concat();
    assert_eq!(told(&count).0, 1);
    // A tool that runs the package again adds a new run with its own result.
    let again = [&twice[..2], &["end fail"], &twice[2..], &["end pass"]].concat();
    assert_eq!(told(&again), (0, vec![], None));
    let (parsed, _) = parse(stream(&again).as_bytes());
    assert_eq!((parsed.report.passed, parsed.report.flaky), (1, 1));
}
