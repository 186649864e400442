//! Output of Boost.Test.

use crate::rules::{Act, Count, Draft, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tally::Counts;
use crate::tool::{Apart, Tool, ToolId};

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

fn last_checkpoint(draft: &mut Draft) {
    let checkpoint = draft.lines.iter().find_map(|line| line.split_once(": last checkpoint: "));
    let place = checkpoint
        .and_then(|(place, _)| place.trim_start_matches('*').trim_end_matches(')').rsplit_once(['(', ':']));
    if let Some((file, line)) = place {
        (draft.file, draft.line) = (Some(file.to_owned()), line.parse().ok());
    } else {
        (draft.file, draft.line) = (None, None);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "boost.unplaced",
        pattern: r#"^\**unknown location(?:\(0\)|:0): (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(checkpoint).refine(last_checkpoint))],
    },
    Rule {
        // The stars are its progress.
        name: "boost.failed",
        pattern: r#"^\**(?P<f>[^\s:(*][^:(]*)[(:](?P<l>\d+)\)?: (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94))],
    },
    Rule {
        // A failure names the module, a success does not: the number of its tests identifies a run.
        name: "boost.begun",
        pattern: r"^Running (?P<t>\d+) test cases?\.\.\.$",
        acts: &[Act::Part(ToolId::BoostTest)],
    },
    Rule {
        name: "boost.bad",
        pattern: r#"^\*\*\* (?:\d+ failures? (?:(?:is|are) )?detected(?: \(\d+ failures? (?:(?:is|are) )?expected\))? in (?:the )?test (?:module|suite|case) ".*"|[Ee]rrors (?:w?h?ere )?detected in (?:the )?test (?:module|suite|case) ".*"; see standard output for details|The test (?:module|suite|case) ".*" was (?:aborted|timed out); see standard output for details)$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, SOME_FAILED),
            Act::Sign(Sign::Failure(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "boost.good",
        pattern: r#"^(?:\*\*\* No errors detected|Test module ".*" has passed with:)$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, ALL_PASSED),
            Act::Sign(Sign::Success(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "boost.report",
        pattern: r#"^Test module ".*" (?:has failed|was aborted) with:$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, SOME_FAILED),
            Act::Sign(Sign::Failure(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
];
