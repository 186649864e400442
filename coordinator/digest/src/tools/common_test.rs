//! Output of Common Test.

use crate::machines::MatchedLine;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TOTAL, problem, set_place};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Common Test") };

/// Common Test's lines about a case, up to a blank line or the next case.
fn case_lines(so_far: &[String], line: &str) -> Next {
    let suite = so_far[0].split(" ==> ").next().unwrap_or_default();
    let of_suite = line.strip_prefix(suite).and_then(|rest| rest.strip_prefix(" ==> "));
    let is_reason = of_suite.is_some_and(|rest| so_far.len() == 1 || rest.starts_with(['{', '"', ' ']));
    if is_reason || line.starts_with(' ') && !line.trim().is_empty() && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The first frame outside Erlang's own sources, which have no directory.
fn erlang_frame(diagnostic: &mut Diagnostic) {
    let text = diagnostic.lines.join(" ");
    let place = text.split("{file,\"").skip(1).find_map(|frame| {
        let (file, rest) = frame.split_once('"')?;
        let (_, row) = rest.split_once("{line,")?;
        let row = row.split('}').next()?;
        file.contains('/').then(|| format!("{file}:{row}"))
    });
    if let Some(place) = place {
        let _placed = set_place(diagnostic, &place);
    }
}

/// A total counts below the line of a case, because other programs print the same words.
fn good(line: &mut MatchedLine<'_>) {
    if let Some(counts) = TOTAL(line.groups)
        && line.tally.is_announced(ToolId::CommonTest, line.position)
    {
        line.own_total = Some(line.total(ToolId::CommonTest, counts));
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "common_test.failed",
        pattern: r"^%%% \S+ ==> (?P<t>\S.*): FAILED$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(case_lines).owning().refine(erlang_frame),
        )],
    },
    Rule {
        // Progress, or the result of a case; the total of a good run comes directly after the last one.
        name: "common_test.case",
        pattern: r"^(?:%%% \w+_SUITE(?:: \.*$| ==> )|Testing \S+: TEST COMPLETE, )",
        effects: &[Effect::Heading],
    },
    Rule {
        name: "common_test.good",
        pattern: r"^All (?P<n>\d+) tests passed\. ?$",
        effects: &[Effect::Own(good)],
    },
    Rule {
        name: "common_test.total",
        pattern: r"^(?:Failed (?P<failed>\d+) tests\. (?:Skipped (?P<skipped>\d+) \(\d+, \d+\) tests\. )?|Skipped (?P<skipped2>\d+) \(\d+, \d+\) tests\. )Passed (?P<passed>\d+) tests\. ?$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
