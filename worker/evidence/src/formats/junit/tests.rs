//! JUnit dialects as tools write them.

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
fn a_suite_that_leaves_out_tests_is_whole_only_where_it_counts_no_failure() {
    let cut = |counts: &str| {
        let xml = format!("<testsuite name='s' {counts}><testcase name='a'/></testsuite>");
        parse(xml.as_bytes(), None).expect("it is JUnit XML").0.report.cut
    };
    assert_eq!(
        cut("tests='2'").as_deref(),
        Some("suite s declares 2 tests without counting failures and lists 1")
    );
    assert_eq!(cut("tests='2' failures='0'"), None, "disabled ones are counted and not listed");
    assert!(cut("tests='1,200' failures='1,000'").is_some_and(|cut| cut.contains("declares 1000 failures")));
    assert_eq!(cut("tests='1'"), None);
}

#[test]
fn a_message_begins_with_what_is_wrong() {
    let first = |failure: &str| {
        let xml = format!("<testsuite><testcase name='a'>{failure}</testcase></testsuite>");
        let (parsed, _) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
        parsed.report.cases[0].messages[0].clone()
    };
    assert_eq!(
        first("<failure message='assert 0'>x = 1\n>  assert 0\nE  assert 0</failure>").lines().next(),
        Some("assert 0")
    );
    assert_eq!(
        first("<failure message='no'>\nError: no\n  at a.js:1:2</failure>"),
        "Error: no\n  at a.js:1:2"
    );
    let import =
        "<error message='collection failure'>ImportError while importing\nE   ModuleNotFoundError: x</error>";
    assert_eq!(first(import).lines().next(), Some("ModuleNotFoundError: x"));
}

#[test]
fn a_test_of_pytest_that_fails_twice_is_one() {
    let case =
        |name: &str, inside: &str| format!("<testcase classname='t' name='{name}'>{inside}</testcase>");
    let teardown =
        "<error message='failed on teardown with &quot;ValueError: x&quot;'>E   ValueError: x</error>";
    let bad = case("a", "<failure message='assert 0'/>");
    let suite = |cases: &str| {
        format!("<testsuite name='pytest' errors='1' failures='1' tests='1'>{cases}</testsuite>")
    };
    let (parsed, _) = parse(suite(&format!("{bad}{}", case("a", teardown))).as_bytes(), None).expect("JUnit");
    assert_eq!((parsed.report.failed, &parsed.report.cut, &parsed.notes), (1, &None, &vec![]));
    assert_eq!(parsed.report.cases[0].messages.len(), 2, "{:?}", parsed.report.cases);
    assert_eq!(counts(&suite(&format!("{bad}{}", case("b", teardown)))), (0, 2, 0, 0));
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
    // jest-junit for two files that both describe `App`. The file is named only if jest-junit is
    // configured to do so.
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
}

const TWICE: &str = r#"<testcase name="t()" classname="T"><failure message="m"/></testcase><testcase name="t()" classname="T"/>"#;

#[test]
fn a_suite_that_counts_tests_of_one_name_each_has_several() {
    // Two sets of arguments under one name look like this. So do the attempts of a tool that counts
    // each attempt.
    let gradle = format!(r#"<testsuite name="T" tests="2" failures="1">{TWICE}</testsuite>"#);
    let (parsed, _) = parse(gradle.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!((parsed.report.passed, parsed.report.failed, parsed.report.flaky), (1, 1, 0));
    assert_eq!(parsed.report.cases[0].name, "T.t() (T, test 1)");
    assert_eq!(parsed.notes.len(), 1, "{:?}", parsed.notes);
    assert!(parsed.notes[0].contains("T.t() (1 of 2 failed)"), "{:?}", parsed.notes);
    // More failures than remain when only the last run counts.
    let failures = format!(r#"<testsuite name="T" tests="1" failures="1">{TWICE}</testsuite>"#);
    assert_eq!(counts(&failures), (1, 1, 0, 0));
    let inside = format!(
        r#"<testsuite name="A" tests="3" failures="1"><testsuite name="B" tests="1"><testcase name="b"/></testsuite>{TWICE}</testsuite>"#
    );
    assert_eq!(counts(&inside), (2, 1, 0, 0));
    for silent in ["<testsuite name='T'>", "<testsuites>", "<testsuites tests='2'>"] {
        let end = if silent.contains("suites") { "</testsuites>" } else { "</testsuite>" };
        assert_eq!(counts(&format!("{silent}{TWICE}{end}")), (1, 1, 0, 0), "{silent}");
    }
    assert_eq!(
        counts(&format!("<testsuite name='T' tests='1' failures='0'>{TWICE}")),
        (1, 0, 0, 0),
        "no end"
    );
    for unsaid in ["tests='1'", "tests='0' failures='0'", "failures='0'"] {
        assert_eq!(counts(&format!("<testsuite {unsaid}>{TWICE}</testsuite>")), (1, 1, 0, 0), "{unsaid}");
    }
    let places = r#"<testsuite tests="1"><testcase name="t" file="a.c" line="1"><failure/></testcase><testcase name="t" file="a.c" line="9"/></testsuite>"#;
    assert_eq!(counts(places), (1, 1, 0, 0), "two places are two tests");
}

#[test]
fn a_suite_that_counts_each_name_once_has_attempts() {
    // Output of pytest-rerunfailures: one case per attempt, and the counts are the counts of tests.
    let rerun = format!(r#"<testsuite name="pytest" tests="1" failures="0" errors="0">{TWICE}</testsuite>"#);
    let (parsed, _) = parse(rerun.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!((parsed.report.passed, parsed.report.failed, parsed.report.flaky), (1, 0, 1));
    assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
    // A failure replaced by a later pass does not account for a failure that the surrounding report
    // declares.
    let hidden = format!(
        r#"<testsuites failures="1">{rerun}<testsuite name="b" tests="9" failures="0"/></testsuites>"#
    );
    let (parsed, _) = parse(hidden.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!(parsed.report.cut.as_deref(), Some("the report declares 1 failure or error and lists 0"));
    // fastlane marks each case with its run, independent of the counts of the suite.
    let property = "<properties><property name='repetition' value='First Run'/></properties>";
    let fastlane = format!(
        "<testsuite name='S' tests='2' failures='1'><testcase name='t'><failure message='m'/>{property}</testcase><testcase name='t'>{property}</testcase></testsuite>"
    );
    assert_eq!(counts(&fastlane), (1, 0, 0, 0));
}

#[test]
fn node_names_tests_at_the_root_and_counts_none_of_them() {
    let node = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="same" time="0.015107" classname="test" failure="1 !== 2"><failure type="testCodeFailure" message="1 !== 2">at TestContext.&lt;anonymous> (/w/a.test.js:3:29)</failure></testcase>
	<testcase name="same" time="0.000374" classname="test"/>
	<testsuite name="group" time="0.032443" disabled="0" errors="0" tests="3" failures="1" skipped="0" hostname="vm">
		<testcase name="inner" time="0.028262" classname="test"><failure type="testCodeFailure" message="no"/></testcase>
		<testcase name="inner" time="0.000301" classname="test"/>
		<testcase name="ok" time="0.000275" classname="test"/>
	</testsuite>
	<!-- tests 5 -->
	<!-- fail 2 -->
	<!-- cancelled 0 -->
</testsuites>"#;
    let report = |xml: &str| parse(xml.as_bytes(), None).expect("it is JUnit XML").0.report;
    assert_eq!((report(node).passed, report(node).failed, report(node).cut), (3, 2, None));
    // A test with passing subtests that failed for a cause of its own is not in the list.
    let own = node.replace("fail 2", "fail 3");
    assert_eq!(report(&own).cut.as_deref(), Some("the report counts 3 failures and lists 2"));
}

#[test]
fn failures_that_only_the_root_declares_are_noted() {
    let of = |xml: &str| parse(xml.as_bytes(), None).expect("it is JUnit XML").0.report.cut;
    let root = |attributes: &str| {
        format!("<testsuites {attributes}><testsuite name='s'><testcase name='a'/></testsuite></testsuites>")
    };
    assert_eq!(
        of(&root("tests='2' failures='1' errors='1'")).as_deref(),
        Some("the report declares 2 failures and errors and lists 0")
    );
    assert_eq!(of(&root("tests='1' failures='0'")), None);
    let listed = "<testsuites failures='1' errors='1'><testsuite name='s'><testcase name='a'><failure/></testcase><error message='m'/></testsuite></testsuites>";
    assert_eq!(of(listed), None);
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
    assert!(parsed.notes[0].contains("is incomplete"), "{:?}", parsed.notes);
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
    assert!(parsed.notes.iter().any(|note| note.contains("is incomplete")), "{:?}", parsed.notes);
    assert_eq!(parsed.report.passed, 1);
    assert!(parse(b"<html></html>", None).is_err());
}

#[test]
fn what_follows_a_report_is_none_of_it() {
    let report = "<testsuite name='s'><testcase name='a'/></testsuite>";
    for after in ["", "\nDone in 3 s, a < b & c\n", "\n<done>\n", "</oops>", "<br/>"] {
        let (parsed, _) = parse(format!("{report}{after}").as_bytes(), None).expect("it is JUnit XML");
        assert_eq!((parsed.report.passed, parsed.report.cut), (1, None), "{after}");
    }
    let two = format!(
        "{report}<?xml version='1.0'?>\n<testsuite name='t'><testcase name='b'><failure/></testcase></testsuite>"
    );
    assert_eq!(counts(&two), (1, 1, 0, 0));
    let (parsed, _) = parse(format!("{report}\na < b\n{report}").as_bytes(), None).expect("it is JUnit XML");
    assert!(parsed.report.cut.is_some(), "the second one is not read");
}

#[test]
fn a_suite_that_fails_outside_its_tests_is_an_issue() {
    let xml = r#"<testsuite name="s"><error message="cannot load a.rb:3: bad"/></testsuite>"#;
    let (_, issues) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
    assert_eq!(issues[0].location.as_ref().and_then(|place| place.line), Some(3));
}
