//! Output of Boost.Test.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tally::Counts;
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    names_failed_part: true,
    names_parts: true,
    counts_no_tests: true,
    rules: RULES,
    ..Tool::named("Boost.Test")
};

/// Boost.Test counts the failures and not the tests.
const SOME_FAILED: Count = |_| Some(Counts { failed: 1, ..Counts::default() });

const ALL_PASSED: Count = |_| Some(Counts { passed: 1, ..Counts::default() });

/// Last known position of a program that did not print the location of its failure: `a.cc(10): last checkpoint: …`.
fn checkpoint(_: &[String], line: &str) -> Next {
    if line.contains(": last checkpoint: ") { Next::Last } else { Next::Beyond }
}

fn last_checkpoint(diagnostic: &mut Diagnostic) {
    let checkpoint = diagnostic.lines.iter().find_map(|line| line.split_once(": last checkpoint: "));
    let place = checkpoint
        .and_then(|(place, _)| place.trim_start_matches('*').trim_end_matches(')').rsplit_once(['(', ':']));
    if let Some((file, line)) = place {
        (diagnostic.file, diagnostic.line) = (Some(file.to_owned()), line.parse().ok());
    } else {
        (diagnostic.file, diagnostic.line) = (None, None);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "boost.unplaced",
        pattern: r#"^\**unknown location(?:\(0\)|:0): (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(checkpoint).refine(last_checkpoint),
        )],
    },
    Rule {
        // The stars are its progress.
        name: "boost.failed",
        pattern: r#"^\**(?P<f>[^\s:(*][^:(]*)[(:](?P<l>\d+)\)?: (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94))],
    },
    Rule {
        // A failure names the module, a success does not: the number of its tests identifies a run.
        name: "boost.begun",
        pattern: r"^Running (?P<t>\d+) test cases?\.\.\.$",
        effects: &[Effect::Own(|line| line.part())],
    },
    Rule {
        name: "boost.bad",
        pattern: r#"^\*\*\* (?:\d+ failures? (?:(?:is|are) )?detected(?: \(\d+ failures? (?:(?:is|are) )?expected\))? in (?:the )?test (?:module|suite|case) ".*"|[Ee]rrors (?:w?h?ere )?detected in (?:the )?test (?:module|suite|case) ".*"; see standard output for details|The test (?:module|suite|case) ".*" was (?:aborted|timed out); see standard output for details)$"#,
        effects: &[Effect::Session, Effect::Partial(SOME_FAILED), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "boost.good",
        pattern: r#"^(?:\*\*\* No errors detected|Test module ".*" has passed with:)$"#,
        effects: &[Effect::Session, Effect::Partial(ALL_PASSED), Effect::Success, Effect::Summary],
    },
    Rule {
        name: "boost.report",
        pattern: r#"^Test module ".*" (?:has failed|was aborted) with:$"#,
        effects: &[Effect::Session, Effect::Partial(SOME_FAILED), Effect::Failure, Effect::Summary],
    },
];
