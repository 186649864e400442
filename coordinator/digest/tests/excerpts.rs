//! Tests the excerpt of a log in an answer: short logs, long lines and floods.

mod digests;

use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use digests::digest;

/// Text of a log's digest in `minimal`.
fn minimal(log: &str, code: Option<i32>) -> String {
    let mut result = JobResult::default();
    digest(log, code).render(Verbosity::Minimal, None, None, &mut result);
    text(&result)
}

const NODE_STACKS: &str = "TAP version 13\n# Subtest: late\nnot ok 1 - late\n  ---\n  duration_ms: 51.878304\n  error: 'test timed out after 50ms'\n  ...\n# Subtest: bad\nnot ok 2 - bad\n  ---\n  duration_ms: 1.06846\n  location: '/w/b.test.mjs:5:1'\n  failureType: 'testCodeFailure'\n  error: '1 == 2'\n  code: 'ERR_ASSERTION'\n  name: 'AssertionError'\n  expected: 2\n  actual: 1\n  operator: '=='\n  stack: |-\n    TestContext.<anonymous> (file:///w/b.test.mjs:5:26)\n    Test.runInAsyncScope (node:async_hooks:206:9)\n    Test.run (node:internal/test_runner/test:796:25)\n    Test.processPendingSubtests (node:internal/test_runner/test:526:18)\n    Test.postRun (node:internal/test_runner/test:889:19)\n    Test.run (node:internal/test_runner/test:835:12)\n    async Test.processPendingSubtests (node:internal/test_runner/test:526:7)\n  ...\n1..2\n    Test.run (node:internal/test_runner/test:796:25)\n# tests 2\n# suites 0\n# pass 0\n# fail 2\n";
const UNITTEST_TWO: &str = "FE.s\n======================================================================\nERROR: test_err (test_u.T.test_err)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/test_u.py\", line 5, in test_err\n    def test_err(self): raise ValueError('boom')\n                        ^^^^^^^^^^^^^^^^^^^^^^^^\nValueError: boom\n\n======================================================================\nFAIL: test_bad (test_u.T.test_bad)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/test_u.py\", line 4, in test_bad\n    def test_bad(self): self.assertEqual([1,2],[1,3])\n                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\nAssertionError: Lists differ: [1, 2] != [1, 3]\n\nFirst differing element 1:\n2\n3\n\n- [1, 2]\n?     ^\n\n+ [1, 3]\n?     ^\n\n\n----------------------------------------------------------------------\nRan 4 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n";

#[test]
fn a_short_log_of_a_failure_is_shown_once_and_whole() {
    for log in [NODE_STACKS, UNITTEST_TWO] {
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let mut result = JobResult::default();
            digest(log, Some(1)).render(verbosity, None, None, &mut result);
            assert_eq!(result.filtered_output.as_deref(), Some(log.trim_end()));
            assert!(!result.tier_1_findings.is_empty());
            assert!(result.tier_1_findings.iter().all(|finding| finding.message.lines().count() == 1));
            let shown = text(&result);
            let bars = log.lines().count();
            assert!(shown.len() <= log.len() + bars + 200, "{shown}");
        }
    }
}

#[test]
fn the_end_of_a_long_line_is_shown() {
    let long = format!("ValueError: {} the end of it", "word ".repeat(600));
    let shown = minimal(
        &format!("Traceback (most recent call last):\n  File \"/w/a.py\", line 1, in <module>\n{long}\n"),
        Some(1),
    );
    assert!(shown.contains("the end of it"), "{shown}");
}

#[test]
fn a_flood_of_failures_leaves_each_a_line_and_the_last_word() {
    let rule = "=".repeat(70);
    let thin = "-".repeat(70);
    let block = |n: usize| {
        format!(
            "{rule}\nFAIL: test_{n} (t.T.test_{n})\n{thin}\nTraceback (most recent call last):\n  File \"/w/a/long/directory/t.py\", line {n}, in test_{n}\n    self.assertEqual(1, 2)\n\nAssertionError: 1 != 2\n\n"
        )
    };
    let blocks: String = (0..60).map(block).collect();
    let shown = minimal(&format!("{blocks}{thin}\nRan 900 tests in 2.3s\n\nFAILED (failures=60)\n"), Some(1));
    for n in 0..60 {
        assert!(shown.contains(&format!("test_{n} (t.T.test_{n})")), "test_{n}: {shown}");
    }
    assert!(shown.contains("\n|FAILED (failures=60)\n"), "{shown}");
}

#[test]
fn in_a_flood_of_remarks_the_first_are_whole_and_each_file_is_named() {
    let row = |n: usize| format!("  {n}:5  error  'name{n}' is not defined  no-undef\n");
    let rows: String = (1..6).map(row).collect();
    let files: String = (0..50).map(|n| format!("/w/src/file{n}.js\n{rows}\n")).collect();
    let shown = minimal(&format!("{files}\u{2716} 250 problems (250 errors, 0 warnings)\n"), Some(1));
    let names = (0..50).map(|n| format!("/w/src/file{n}.js"));
    let first = (1..6).map(|n| format!("{n}:5 error 'name{n}'"));
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in names.chain(first).chain(["250 problems".to_owned()]) {
        assert!(words.contains(&said), "{said}: {shown}");
    }
}

#[test]
fn of_a_flood_of_remarks_two_of_each_sort_are_shown() {
    let long =
        |n: usize| format!("[a/b{n}.proto:{n}:1] The line length is 91, but it must be shorter than 80\n");
    let long: String = (1..1500).map(long).collect();
    let rare = "[a/z.proto:40:1] Imports are not sorted.\n[a/z.proto:41:1] Imports are not sorted.\n";
    let shown = minimal(&format!("{long}{rare}"), None);
    assert!(shown.contains("z.proto:40") && shown.contains("z.proto:41"), "{shown}");
}

fn rendered(log: &[u8], verbosity: Verbosity, template: Option<TemplateSpec>) -> JobResult {
    let options = Options { job: "0199".into(), template, ..Options::default() };
    let mut digester = Digester::new(options);
    digester.push(Stream::Stdout, log);
    let facts = Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() };
    let mut result = JobResult::default();
    digester.finish(&facts).render(verbosity, None, None, &mut result);
    result
}

/// Each cut as its name, lines and bytes.
fn cuts(result: &JobResult) -> Vec<(&str, u64, u64)> {
    result.omitted.iter().map(|cut| (cut.what.as_str(), cut.lines, cut.bytes)).collect()
}

#[test]
fn a_part_of_a_line_that_is_left_out_is_counted() {
    let log = format!("{}\n", "x".repeat(20_000));
    for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
        let result = rendered(log.as_bytes(), verbosity, None);
        let texts = [&result.filtered_output, &result.stdout];
        let shown: usize = texts.into_iter().flatten().map(|text| text.matches('x').count()).sum();
        assert_eq!(cuts(&result), [("stdout", 0, 20_000 - shown as u64)], "{verbosity:?}");
    }
    let whole = rendered(b"a line\n", Verbosity::Full, None);
    assert_eq!(cuts(&whole), []);
}

#[test]
fn what_a_template_leaves_out_is_counted_once() {
    let template = |include: &str| TemplateSpec {
        name: "mine".into(),
        include_regex: Some(include.to_owned()),
        ..TemplateSpec::default()
    };
    let log = "1\n2\n3\n\nFAIL here\n\nlast p\n";
    let result = rendered(log.as_bytes(), Verbosity::Minimal, Some(template("FAIL")));
    assert_eq!(result.filtered_output.as_deref(), Some("FAIL here\nlast p"));
    assert_eq!(cuts(&result), [("filtered_output", 5, 8)]);
    let whole = rendered(log.as_bytes(), Verbosity::Minimal, Some(template(".|^$")));
    assert_eq!((cuts(&whole), whole.next.len()), (vec![], 0), "{whole:?}");
    let long = format!("FAIL {}\n", "x".repeat(20_000));
    let result = rendered(long.as_bytes(), Verbosity::Minimal, Some(template("FAIL")));
    let shown = result.filtered_output.as_deref().expect("the line").matches('x').count() as u64;
    assert_eq!(cuts(&result), [("filtered_output", 0, 20_000 - shown)]);
}

#[test]
fn bytes_of_a_failure_that_are_not_text_are_escaped() {
    let line = b"bad \xff\xe4 byte, \xc2\x85 next, \xe2\x80\xae turned\n";
    let expected = "bad \\xff\\xe4 byte, \\u{85} next, \\u{202e} turned";
    let whole = rendered(line, Verbosity::Minimal, None);
    assert_eq!(whole.filtered_output.as_deref(), Some(expected));
    let long =
        [line.as_slice(), &b"a longer line of the log, with some words\n".repeat(1_000), b"end ", line]
            .concat();
    for verbosity in [Verbosity::Minimal, Verbosity::Normal] {
        let result = rendered(&long, verbosity, None);
        let texts = [&result.filtered_output, &result.stdout];
        assert!(
            texts.into_iter().flatten().any(|text| text.ends_with(&format!("end {expected}"))),
            "{result:?}"
        );
    }
}
