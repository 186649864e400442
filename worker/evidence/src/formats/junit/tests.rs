//! Dialects, as tools write them.

use super::*;

fn counts(xml: &str) -> (u64, u64, u64, u64) {
    let (parsed, _) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
    let report = parsed.report;
    (report.passed, report.failed, report.skipped, report.expected_failures)
}

const PYTEST: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5" time="0.1">
<testcase classname="tests.test_x" name="test_ok" time="0.001" />
<testcase classname="tests.test_x" name="test_bad[a-1]" time="0.002"><failure message="assert 1 == 2&#10;  +1">def test_bad():
&gt;       assert 1 == 2
E       assert 1 == 2

tests/test_x.py:7: AssertionError</failure></testcase>
<testcase classname="tests.test_x" name="test_setup" time="0.0"><error message="failed on setup">boom</error></testcase>
<testcase classname="tests.test_x" name="test_skip" time="0.0"><skipped type="pytest.skip" message="no net">x.py:3: no net</skipped></testcase>
<testcase classname="tests.test_x" name="test_xfail" time="0.0"><skipped type="pytest.xfail" message="known" /></testcase>
</testsuite></testsuites>"#;

#[test]
fn pytest() {
    assert_eq!(counts(PYTEST), (1, 2, 1, 1));
    let (parsed, _) = parse(PYTEST.as_bytes(), None).expect("it is JUnit XML");
    let case = &parsed.report.cases[0];
    assert_eq!(case.name, "tests.test_x.test_bad[a-1]");
    assert!(case.messages[0].starts_with("assert 1 == 2\n  +1\ndef test_bad"), "{}", case.messages[0]);
    assert_eq!(case.location, Some(Location { file: "tests/test_x.py".into(), line: Some(7), column: None }));
}

#[test]
fn what_node_has_still_to_do_has_not_failed() {
    let todo = "<testsuite name='s' failures='1'><testcase name='a'><skipped type='todo' message='later'/><failure message='no'/></testcase></testsuite>\
                <testcase name='b'><failure message='no'/><skipped type='todo'/></testcase><testcase name='c'><skipped type='todo'/></testcase>";
    assert_eq!(counts(&format!("<testsuites>{todo}</testsuites>")), (0, 0, 1, 2));
    let (parsed, _) = parse(format!("<testsuites>{todo}</testsuites>").as_bytes(), None).expect("it is");
    assert_eq!(parsed.report.cut, None);
}

#[test]
fn surefire_with_reruns() {
    let xml = r#"<testsuite name="com.a.BTest" tests="2" failures="0"><properties><property name="java" value="21"/></properties>
<testcase name="flaky" classname="com.a.BTest" time="1,234.5"><flakyFailure message="x" type="E"><stackTrace><![CDATA[java.lang.AssertionError: x
	at com.a.BTest.flaky(BTest.java:12)]]></stackTrace><system-out><![CDATA[noise]]></system-out></flakyFailure></testcase>
<testcase name="bad" classname="com.a.BTest"><failure message="y" type="E">E: y
	at com.a.BTest.bad(BTest.java:20)</failure><rerunFailure message="y" type="E"/></testcase></testsuite>"#;
    let (parsed, _) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
    let report = parsed.report;
    assert_eq!((report.passed, report.failed, report.flaky), (1, 1, 1));
    let flaky = report.cases.iter().find(|case| case.flaky).expect("one is flaky");
    assert_eq!(flaky.location.as_ref().and_then(|place| place.line), Some(12));
    assert_eq!((flaky.runs, flaky.duration_secs), (2, Some(1234.5)));
}

#[test]
fn gtest_and_jest() {
    let gtest = r#"<testsuites tests="3" failures="1" disabled="1" name="AllTests"><testsuite name="Math" tests="3">
<testcase name="Adds" file="m_test.cc" line="9" status="run" result="completed" time="0" classname="Math"><failure message="m_test.cc:11&#x0A;Expected equality" type=""><![CDATA[m_test.cc:11
Expected equality]]></failure></testcase>
<testcase name="DISABLED_Slow" status="notrun" result="suppressed" classname="Math"/><testcase name="Skips" status="run" result="skipped" classname="Math"><skipped message="why"/></testcase></testsuite></testsuites>"#;
    assert_eq!(counts(gtest), (0, 1, 2, 0));
    let jest = r#"<testsuites name="jest tests"><testsuite name="sum"><testcase classname="sum adds" name="sum adds" time="0.002"><failure>Error: expect(received)
at Object.&lt;anonymous&gt; (/w/src/sum.test.js:4:15)</failure></testcase></testsuite></testsuites>"#;
    let (parsed, _) = parse(jest.as_bytes(), Some(Path::new("/w"))).expect("it is JUnit XML");
    assert_eq!(parsed.report.cases[0].name, "sum adds");
    assert_eq!(
        parsed.report.cases[0].location.as_ref().map(|place| place.file.as_str()),
        Some("src/sum.test.js")
    );
}

#[test]
fn tests_of_two_suites_that_share_a_name_are_two() {
    // jest-junit over two files that both describe `App`; the file is named where it is asked to.
    for (a, b) in [("file=\"a/App.test.js\"", "file=\"b/App.test.js\""), ("", "")] {
        let jest = format!(
            r#"<testsuites name="jest tests" tests="2" failures="1" errors="0"><testsuite name="App" errors="0" failures="1" {a} tests="1"><testcase classname="App renders" name="App renders" time="0.004"><failure>Error: expect(received).toBe(expected)
at Object.toBe (/w/a/App.test.js:3:13)</failure></testcase></testsuite><testsuite name="App" errors="0" failures="0" {b} tests="1"><testcase classname="App renders" name="App renders" time="0.001"/></testsuite></testsuites>"#
        );
        let (parsed, _) = parse(jest.as_bytes(), None).expect("it is JUnit XML");
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.flaky), (1, 1, 0), "{a}");
        assert!(report.cases[0].name.starts_with("App renders (App"), "{}", report.cases[0].name);
        assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
    }
    let nested = r#"<testsuites><testsuite name="A"><testsuite name="when empty"><testcase name="is 0"><failure message="1"/></testcase></testsuite></testsuite>
<testsuite name="B"><testsuite name="when empty"><testcase name="is 0"/></testsuite></testsuite></testsuites>"#;
    assert_eq!(counts(nested), (1, 1, 0, 0));
    let nameless =
        "<testsuite><testcase><failure/></testcase><testcase/><testcase><failure/></testcase></testsuite>";
    assert_eq!(counts(nameless), (1, 2, 0, 0));
    // Within one suite it is the same test, run again.
    let gradle = r#"<testsuite name="T" tests="2" failures="1"><testcase name="t()" classname="T"><failure message="m"/></testcase><testcase name="t()" classname="T"/></testsuite>"#;
    assert_eq!(counts(gradle), (1, 0, 0, 0));
}

#[test]
fn failures_that_a_suite_only_declares_are_noted() {
    let words = r#"<testsuite name="s" failures="1" errors="1"><testcase name="a" status="failed"/><testcase name="b" result="Error"/><testcase name="c" status="run" result="completed"/></testsuite>"#;
    assert_eq!(counts(words), (1, 2, 0, 0));
    let silent = r#"<testsuites><testsuite name="s" failures="2"><testcase name="a"/><testcase name="b"/></testsuite></testsuites>"#;
    let (parsed, _) = parse(silent.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!(parsed.notes, ["suite s declares 2 failures and errors and lists 0"]);
}

#[test]
fn a_report_that_breaks_off_in_a_failure_names_it() {
    let bare =
        r#"<testsuite name="s"><testcase name="a"/><testcase name="b"><failure message="got 1">a && b"#;
    let (parsed, _) = parse(bare.as_bytes(), None).expect("a part is still a report");
    assert_eq!((parsed.report.passed, parsed.report.failed), (1, 1), "{:?}", parsed.report);
    assert!(parsed.report.unfinished.is_empty());
    assert!(parsed.report.cases[0].messages[0].starts_with("got 1"), "{:?}", parsed.report.cases);
    assert!(parsed.notes[0].contains("breaks off"), "{:?}", parsed.notes);
    let (parsed, _) = parse(b"<testsuite><testcase name='b'>", None).expect("a part is still a report");
    assert_eq!(parsed.report.unfinished, ["b"]);
}

#[test]
fn hostile_or_broken_input_does_no_harm() {
    let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<testsuite><testcase name="&b;"><failure message="m">&f;&b;&#65;</failure></testcase></testsuite>"#;
    let (parsed, _) = parse(bomb.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!(parsed.report.cases[0].messages, ["m\n&f;&b;A"]);
    let deep = format!("<testsuite>{}", "<a>".repeat(10_000));
    assert!(parse(deep.as_bytes(), None).expect_err("too deep").contains("nest deeper"));
    let (parsed, _) = parse(&PYTEST.as_bytes()[..PYTEST.len() / 2], None).expect("a part is still a report");
    assert!(parsed.notes.iter().any(|note| note.contains("breaks off")), "{:?}", parsed.notes);
    assert_eq!(parsed.report.passed, 1);
    assert!(parse(b"<html></html>", None).is_err());
}

#[test]
fn a_suite_that_fails_outside_its_tests_is_an_issue() {
    let xml = r#"<testsuite name="s"><error message="cannot load a.rb:3: bad"/></testsuite>"#;
    let (_, issues) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!(issues[0].location.as_ref().and_then(|place| place.line), Some(3));
}
