//! Property tests: any byte string is a valid log. Nothing panics, depends on chunk boundaries, or
//! grows with the log.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{TemplateSpec, Verbosity};
use proptest::prelude::*;

/// Texts that recognizers match, so that random logs reach them.
const PIECES: &[&str] = &[
    "error: x\n",
    "src/a.rs:1:2: error: no\n",
    "   |\n",
    " --> a.rs:1:2\n",
    "\n",
    "\r",
    "\x1b[31m",
    "\x1b[0m",
    "test a ... ok\n",
    "test a ... FAILED\n",
    "---- a stdout ----\n",
    "failures:\n",
    "running 2 tests\n",
    "test result: FAILED. 1 passed; 1 failed; 0 ignored\n",
    "** TEST FAILED **\n",
    "Traceback (most recent call last):\n",
    "  File \"a.py\", line 3, in f\n",
    "ValueError: no\n",
    "==== FAILURES ====\n",
    "____ test_a ____\n",
    "FAILED a.py::test_a - no\n",
    "--- FAIL: TestA (0.0s)\n",
    "panic: no\n",
    "FAIL\n",
    "\u{fffd}",
    "✘ Test f() failed after 0.1 seconds\n",
    "Test Case '-[A b]' started.\n",
    "Test Case '-[A b]' failed (0.1 seconds).\n",
    "a.c:3: Failure\n",
    "[ RUN      ] A.B\n",
    "[  FAILED  ] A.B (0 ms)\n",
    "  1) x\n",
    "make: *** [a] Error 1\n",
    "2024-05-21T10:00:05.123Z ",
    "In file included from a.h:1:\n",
    "Segmentation fault\n",
    "● a › b\n",
    "/a/b.js\n",
    "  1:2  error  no  rule\n",
    "Internal Error at (1):\n",
    "a.f90:1.2:\n",
    "File \"a.ml\", line 1:\n",
    "\0",
    "\t",
    "x",
    "ä",
    "* What went wrong:\n",
    "ERROR: AddressSanitizer: x\n",
    "#0 0x1 in f a.c:3\n",
    "SUMMARY: AddressSanitizer: x\n",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn log() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    prop::collection::vec((any::<bool>(), piece()), 0..60)
}

fn digest(pieces: &[(bool, Vec<u8>)], chunk: usize, code: Option<i32>) -> (JobResult, String, String) {
    let template = TemplateSpec {
        name: "t".into(),
        include_regex: Some("error|FAIL".into()),
        ..TemplateSpec::default()
    };
    let mut digester = Digester::new(Options { template: Some(template.clone()), ..Options::default() });
    for (err, bytes) in pieces {
        let stream = if *err { Stream::Stderr } else { Stream::Stdout };
        for part in bytes.chunks(chunk) {
            digester.push(stream, part);
        }
    }
    let live = format!("{:?}", digester.live());
    let digest =
        digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() });
    let mut result = JobResult::default();
    let mut shown = String::new();
    for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
        digest.render(verbosity, None, None, &mut result);
        shown.push_str(&text(&result));
        digest.render(
            verbosity,
            Some(&TemplateSpec { name: "raw".into(), ..TemplateSpec::default() }),
            Some(500),
            &mut result,
        );
        shown.push_str(&text(&result));
    }
    shown.push_str(&digest.explain());
    shown.push_str(&digest.signatures().join(","));
    (result, shown, live)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunk_borders_change_nothing(pieces in log(), chunk in 1_usize..9, code in prop::option::of(0_i32..256)) {
        let whole = digest(&pieces, usize::MAX, code);
        let cut = digest(&pieces, chunk, code);
        prop_assert_eq!(&whole.1, &cut.1);
        prop_assert_eq!(&whole.2, &cut.2);
        prop_assert_eq!(whole.0, cut.0);
    }

    #[test]
    fn passed_means_that_it_exited_with_zero_or_a_tool_said_so(pieces in log(), code in prop::option::of(0_i32..256)) {
        let (result, _, _) = digest(&pieces, usize::MAX, code);
        if result.success {
            prop_assert!(code.is_none_or(|code| code == 0));
            prop_assert!(result.tests.is_none_or(|tests| tests.failed == 0 || tests.passed > 0));
        }
        if code.is_some_and(|code| code != 0) {
            prop_assert!(!result.success);
            prop_assert_eq!(result.exit_code, code);
        }
    }

    #[test]
    fn budgets_hold_for_any_log(pieces in log(), times in 1_usize..60, characters in 200_usize..3_000) {
        let mut digester = Digester::new(Options::default());
        for _ in 0..times {
            for (err, bytes) in &pieces {
                digester.push(if *err { Stream::Stderr } else { Stream::Stdout }, bytes);
            }
        }
        let digest = digester.finish(&Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() });
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let mut result = JobResult::default();
            digest.render(verbosity, None, None, &mut result);
            let (lines, chars) = verbosity.budget();
            let shown = text(&result);
            prop_assert!(shown.chars().count() <= chars, "{} of {}", shown.chars().count(), verbosity.name());
            let rows = shown.lines().count();
            // A complete log of many short lines has no limit on its lines.
            prop_assert!(rows <= lines || result.complete_log, "{rows} lines of {}", verbosity.name());
            digest.render_json(verbosity, None, None, 0, &mut result);
            let json = result.to_json().to_string().chars().count();
            prop_assert!(json <= chars, "JSON: {json} of {}", verbosity.name());
            digest.render(verbosity, None, Some(characters), &mut result);
            prop_assert!(size(&result) <= characters.max(1_000) + 200, "{} for {characters}", size(&result));
        }
    }
}

fn size(result: &JobResult) -> usize {
    let texts = [&result.stdout, &result.stderr, &result.filtered_output]
        .into_iter()
        .flatten()
        .map(|text| text.chars().count());
    let findings = result.tier_1_findings.iter().map(|finding| {
        finding.message.chars().count()
            + finding
                .pre_context
                .iter()
                .chain(&finding.post_context)
                .map(|line| line.chars().count())
                .sum::<usize>()
    });
    let others = result.other_findings.iter().map(|finding| finding.message.chars().count());
    let warnings = result.warnings.shown.iter().map(|line| line.chars().count());
    texts.chain(findings).chain(others).chain(warnings).sum()
}

/// A log of sixty thousand lines, with an error near the start.
fn long_log(options: Options) -> Digest {
    let mut digester = Digester::new(options);
    for number in 0..60_000 {
        let line =
            if number == 100 { "a.c:1:2: error: early\n".to_owned() } else { format!("line {number}\n") };
        digester.push(Stream::Stdout, line.as_bytes());
    }
    digester.finish(&Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() })
}

#[test]
fn what_frames_an_answer_is_in_its_budget() {
    let raw = TemplateSpec { name: "raw".into(), ..TemplateSpec::default() };
    for (template, verbosity) in [None, Some(&raw)].into_iter().flat_map(|template| {
        [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full].map(|verbosity| (template, verbosity))
    }) {
        let mut result = JobResult::default();
        long_log(Options::default()).render(verbosity, template, None, &mut result);
        let (shown, (lines, chars)) = (text(&result), verbosity.budget());
        assert!(shown.chars().count() <= chars && shown.lines().count() <= lines, "{}", verbosity.name());
    }
}

#[test]
fn the_call_for_what_was_cut_gets_it() {
    let mut result = JobResult::default();
    long_log(Options::default()).render(Verbosity::Full, None, None, &mut result);
    let first = result.stdout.as_deref().and_then(|text| text.lines().next()).expect("the end is shown");
    let number: usize = first.trim_start_matches("line ").parse().expect("it is a line of the log");
    // The first shown line is `line N`, line N+1 of the log. The suggested command prints all N
    // lines before it.
    assert_eq!(result.omitted[0].get, format!("sed -n 1,{number}p LOG"));
    assert_eq!(result.omitted[0].lines, number as u64);
    let mut result = JobResult::default();
    long_log(Options { job: "0199".into(), ..Options::default() }).render(
        Verbosity::Full,
        None,
        None,
        &mut result,
    );
    assert_eq!(result.omitted[0].get, "buildpool logs 0199 --stream stdout");
}

#[test]
fn endless_lines_and_endless_errors_stay_bounded() {
    let mut digester = Digester::new(Options::default());
    for number in 0..30_000 {
        digester
            .push(Stream::Stdout, format!("src/a{number}.c:{number}:1: error: number {number}\n").as_bytes());
    }
    let block = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        digester.push(Stream::Stderr, &block);
    }
    digester.push(Stream::Stderr, b" the end\n");
    let digest = digester.finish(&Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() });
    assert_eq!(digest.errors_total, 30_000);
    assert!(digest.findings.len() <= 400);
    let last = digest.findings.iter().any(|finding| finding.message.contains("number 29999"));
    assert!(last, "the last error is always kept");
    let mut result = JobResult::default();
    digest.render(Verbosity::Normal, None, None, &mut result);
    assert!(
        text(&result).contains("number 29999") || result.stdout.is_some_and(|text| text.contains("29999"))
    );
    assert!(result.stderr.is_some_and(|text| text.contains("the end")));
}
