//! Reports as tools write them.

use super::*;

const REPORT: &str = "TAP version 13\n1..6\nok 1 - good\nnot ok 2 - bad # not a directive\n  ---\n  message: boom\n  at: t/a.js:3:4\n  ...\nok 3 - other # SKIP no network\nnot ok 4 later # TODO not done\n    ok 1 - inner\n    not ok 2 - inner bad\nok 5 - outer \\# SKIP\n";

#[test]
fn results_directives_and_the_plan_are_read() {
    let (parsed, issues) = parse(REPORT.as_bytes());
    let report = parsed.report;
    // The points of a subtest are the tests. Its summary point is not counted as well.
    assert_eq!((report.passed, report.failed, report.skipped, report.expected_failures), (2, 2, 1, 1));
    assert_eq!(report.cases[1].name, "outer \\# SKIP > inner bad");
    assert_eq!(parsed.notes, ["outer \\# SKIP is ok, and a test in it failed"]);
    assert_eq!(report.unfinished, ["test 6"]);
    assert_eq!(report.cases[0].name, "bad # not a directive");
    assert_eq!(report.cases[0].messages, ["message: boom\nat: t/a.js:3:4"]);
    assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(3));
    assert!(issues[0].message.contains("1 of them"));
}

#[test]
fn points_of_one_description_are_tests_of_their_own() {
    // Output of tape: the description is the description of the assertion.
    let tape = "TAP version 13\n# adds\nok 1 should be strictly equal\nnot ok 2 should be strictly equal\n  ---\n    operator: equal\n    expected: 4\n    actual:   5\n    at: Test.<anonymous> (/w/a.js:6:7)\n  ...\nok 3 should be strictly equal\n\n1..3\n# tests 3\n# pass  2\n# fail  1\n";
    let (parsed, _) = parse(tape.as_bytes());
    let report = parsed.report;
    assert_eq!((report.passed, report.failed, report.flaky), (2, 1, 0));
    assert_eq!(report.cases[0].name, "should be strictly equal (test 2)");
    assert!(report.cases[0].messages[0].contains("actual:   5"));
    // Two consecutive streams.
    let (parsed, _) = parse(b"1..1\nnot ok 1 - a\n1..1\nok 1 - a\n");
    assert_eq!((parsed.report.passed, parsed.report.failed), (1, 1));
}

#[test]
fn a_block_that_is_not_closed_ends_with_its_indentation() {
    let (parsed, _) = parse(b"ok 1\n  ---\n  x: 1\n\n  y: 2\nnot ok 2\nnot ok 3\n1..3\n");
    assert_eq!((parsed.report.passed, parsed.report.failed), (1, 2));
}

#[test]
fn a_bail_out_is_an_issue() {
    let (_, issues) = parse(b"1..2\nok 1\nBail out! no database\n");
    assert_eq!(issues[0].message, "Bail out! no database");
}

fn counts(tap: &str) -> (u64, u64, u64, u64) {
    let report = parse(tap.as_bytes()).0.report;
    (report.passed, report.failed, report.skipped, report.expected_failures)
}

/// Output of Node 20: a suite is not a test, a test with subtests is a test.
const NODE: &str = "TAP version 13
# Subtest: group
    # Subtest: inner
    not ok 1 - inner
      ---
      duration_ms: 16.152273
      location: '/w/a.test.js:5:27'
      failureType: 'testCodeFailure'
      error: |-
        The expression evaluated to a falsy value:

          assert.ok(false)

      code: 'ERR_ASSERTION'
      stack: |-
        TestContext.<anonymous> (/w/a.test.js:6:54)
        Test.run (node:internal/test_runner/test:796:25)
      ...
    # Subtest: inner
    ok 2 - inner
      ---
      duration_ms: 0.177582
      ...
    # Subtest: deep
        # Subtest: x
        not ok 1 - x # TODO
          ---
          duration_ms: 0.601482
          ...
        # Subtest: y
        ok 2 - y # SKIP
          ---
          duration_ms: 0.155531
          ...
        1..2
    ok 3 - deep
      ---
      duration_ms: 1.076219
      type: 'suite'
      ...
    1..3
not ok 1 - group
  ---
  duration_ms: 21.743015
  type: 'suite'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
# Subtest: parent
    # Subtest: sub
    ok 1 - sub
      ---
      duration_ms: 0.138659
      ...
    1..1
not ok 2 - parent
  ---
  duration_ms: 5.169016
  location: '/w/b.test.js:4:1'
  failureType: 'testCodeFailure'
  error: 'own cause'
  ...
# Subtest: hook
    # Subtest: h1
    not ok 1 - h1
      ---
      duration_ms: 0
      failureType: 'cancelledByParent'
      ...
    1..1
not ok 3 - hook
  ---
  duration_ms: 0.359922
  type: 'suite'
  failureType: 'hookFailed'
  error: 'no database'
  ...
# Subtest: empty
ok 4 - empty
  ---
  duration_ms: 0.178793
  type: 'suite'
  ...
1..4
# tests 7
# suites 4
# pass 2
# fail 2
# cancelled 1
# skipped 1
# todo 1
# duration_ms 442.84594
";

#[test]
fn the_tests_of_nodes_suites_are_counted_as_node_counts_them() {
    let (parsed, issues) = parse(NODE.as_bytes());
    let report = parsed.report;
    assert_eq!(counts(NODE), (2, 3, 1, 1));
    let failed: Vec<_> = report.cases.iter().take(3).map(|case| case.name.as_str()).collect();
    assert_eq!(failed, ["group > inner (test 1.1)", "parent", "hook > h1"]);
    assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(6));
    assert_eq!(
        report.cases[0].messages,
        [
            "The expression evaluated to a falsy value:\n\n  assert.ok(false)\nlocation: /w/a.test.js:5:27\nfailureType: testCodeFailure\ncode: ERR_ASSERTION\nTestContext.<anonymous> (/w/a.test.js:6:54)\nTest.run (node:internal/test_runner/test:796:25)"
        ]
    );
    assert!(report.cases[1].messages[0].starts_with("own cause\n"), "{:?}", report.cases[1]);
    assert!(report.cases[0].duration_secs.is_some_and(|secs| (secs - 0.016_152).abs() < 1e-4));
    let causes: Vec<_> = issues.iter().map(|issue| issue.message.as_str()).collect();
    assert_eq!(causes, ["hook: no database"]);
    assert_eq!((parsed.notes, report.cut), (vec![], None));
    // A report truncated at any line must not pass as complete.
    for (at, _) in NODE.match_indices('\n').filter(|(at, _)| *at > 20) {
        let (cut, issues) = parse(&NODE.as_bytes()[..at]);
        let is_whole = NODE[at..].trim_start().starts_with("# ") && NODE[..at].contains("\n1..4");
        assert!(
            cut.report.cut.is_some() || !issues.is_empty() || is_whole || NODE[at..].len() < 2,
            "{}",
            &NODE[..at]
        );
    }
}

#[test]
fn subtests_of_other_tools_are_their_tests() {
    // Perl: the comment and the plan are indented with the subtest.
    let perl = "# Subtest: parses\n    ok 1 - a\n    not ok 2 - b\n    #   Failed test 'b'\n    #   at t/a.t line 7.\n    1..2\n    # Looks like you failed 1 test of 2.\nnot ok 1 - parses\n#   Failed test 'parses'\nok 2 - c\n1..2\n";
    assert_eq!(counts(perl), (2, 1, 0, 0));
    assert_eq!(parse(perl.as_bytes()).0.report.cases[0].name, "parses > b");
    // node-tap: the subtest follows its summary point.
    let buffered = "TAP version 14\nok 1 - good { \n    ok 1 - a\n    1..1\n}\nnot ok 2 - bad {\n    ok 1 - b\n    not ok 2 - c\n    1..2\n}\nok 3 - later # TODO {\n    not ok 1 - d\n    1..1\n}\n1..3\n";
    let report = parse(buffered.as_bytes()).0.report;
    assert_eq!(counts(buffered), (2, 1, 0, 1), "{report:?}");
    assert_eq!(report.cases[0].name, "bad > c");
    // A point that fails without a failed test in it, and a whole subtest marked `TODO`.
    let whole = "    ok 1 - a\n    1..2\nnot ok 1 - dies\n    not ok 1 - b\n    1..1\nnot ok 2 - later # TODO\n1..2\n";
    let (parsed, issues) = parse(whole.as_bytes());
    assert_eq!(counts(whole), (1, 1, 0, 1));
    assert_eq!(parsed.report.cases[0].name, "dies");
    assert_eq!(issues[0].message, "subtest dies: 2 tests were planned, 1 of them has no result");
    // A program's own output is not a subtest.
    assert_eq!(counts("    ok then\nok 1\n    }\n1..1\n"), (1, 0, 0, 0));
}

#[test]
fn what_javascript_tools_write_beside_a_failure_is_read() {
    let vitest = "TAP version 13\n1..2\nnot ok 1 - a.test.mjs # time=21.74ms {\n    1..2\n    not ok 1 - same # time=12.38ms\n        ---\n        error:\n            name: \"AssertionError\"\n            message: \"expected 1 to be 2\"\n        at: \"/w/a.test.mjs:2:73\"\n        ...\n    ok 2 - s # SKIP\n}\nok 2 - b.test.mjs # time=9.29ms {\n    1..1\n    ok 1 - good # time=6.87ms\n}\n";
    let report = parse(vitest.as_bytes()).0.report;
    assert_eq!(counts(vitest), (1, 1, 1, 0));
    let case = &report.cases[0];
    assert_eq!((case.name.as_str(), case.duration_secs), ("a.test.mjs > same", Some(0.012_38)));
    assert!(case.messages[0].starts_with("expected 1 to be 2\n"), "{case:?}");
    assert_eq!(case.location.as_ref().and_then(|place| place.line), Some(2));
    let mocha = "ok 1 App pend # SKIP -\nnot ok 2 App same\n  no luck\n  Error: no luck\n      at Context.<anonymous> (mo/a.js:2:65)\n# tests 1\n# pass 0\n# fail 1\n1..2\n";
    let report = parse(mocha.as_bytes()).0.report;
    assert_eq!(report.cases.len(), 1, "a dash is no reason");
    assert!(
        report.cases[0].messages[0].starts_with("no luck\nError: no luck\n    at Context"),
        "{:?}",
        report.cases
    );
    assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(2));
    let ava = "TAP version 13\nnot ok 1 - four # TODO\nok 2 - one\n\n1..2\n# tests 1\n# pass 1\n# fail 1\n";
    assert_eq!(parse(ava.as_bytes()).0.report.cut, None);
}

#[test]
fn more_subtests_than_are_held_are_counted_all_the_same() {
    let mut tap = String::new();
    for number in 0..SUBTESTS_HELD_MAX + 10 {
        tap.push_str(&format!(
            "    {}ok {number} - t{number}\n",
            if number == SUBTESTS_HELD_MAX + 5 { "not " } else { "" }
        ));
    }
    tap.push_str("not ok 1 - many\n1..1\n");
    assert_eq!(counts(&tap), (SUBTESTS_HELD_MAX as u64 + 9, 1, 0, 0));
}

#[test]
fn a_plan_and_a_summary_that_do_not_fit_are_told() {
    let (_, issues) = parse(b"1..2\nok 1\nok 2\nok 3\n");
    assert_eq!(issues[0].message, "2 tests were planned, and 3 have a result");
    let cut = |tap: &str| parse(tap.as_bytes()).0.report.cut;
    assert_eq!(cut("ok 1\nok 2\n").as_deref(), Some("there is no plan; the report may be cut short"));
    assert_eq!(cut("Bail out! no database\n"), None);
    assert_eq!(cut("1..1\nok 1\n# fail 1\n").as_deref(), Some("the report counts 1 failure and lists 0"));
    assert_eq!(cut("1..1\nnot ok 1\n# tests 1\n# pass  0\n# fail  1\n"), None);
    // `prove -v` writes one `ok` per file.
    let (parsed, issues) = parse(
        b"t/a.t .. \n1..2\nok 1 - a\nok 2 - b\nok\nt/b.t .. \n1..1\nok 1 - c\nok\nAll tests successful.\n",
    );
    assert_eq!((parsed.report.passed, issues.len(), parsed.report.cut), (3, 0, None));
}

#[test]
fn what_one_stream_lacks_no_other_one_makes_up_for() {
    // `prove -v` for a file that dies, one that ends early without a plan, and a good one.
    let dies = "1..3\nok 1 - a\nDubious, test returned 255\n";
    let good = "ok 1 - c\nok 2 - d\n1..2\nok\n";
    let of = |text: &str| {
        let (parsed, issues) = parse(text.as_bytes());
        let issues: Vec<String> = issues.into_iter().map(|issue| issue.message).collect();
        (parsed.report.passed, issues)
    };
    let missing = "of several streams, one breaks off: 2 tests have no result".to_owned();
    assert_eq!(of(&format!("{dies}ok 1 - e\nok 2 - f\n{good}")), (5, vec![missing]));
    assert_eq!(of(&format!("{dies}{good}")).0, 3, "the word of `prove` is no test");
    assert_eq!(of(&format!("{good}{good}1..1\nok 1\nok\n")), (5, vec![]));
    assert_eq!(of("ok 1 - a\nok 1 - b\n1..2\n"), (2, vec![]), "odd numbers are not tests");
}

#[test]
fn points_in_any_order_are_of_one_stream() {
    let issues = |text: &str| parse(text.as_bytes()).1.len();
    assert_eq!(issues("1..3\nok 2\nok 1\nok 3\n"), 0);
    // A point without a number is the first of its stream, so the truncated stream is reported.
    let streams = "1..3\nok - a\nok 1 - e\nok 2 - f\nok 1 - c\nok 2 - d\n1..2\n";
    assert_eq!(issues(streams), 1);
}
