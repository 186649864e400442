//! RSpec, minitest, ExUnit, PHPUnit, Pest, dotnet test: numbered failures and one summary line.

use super::TestEvent::{Ended, Started};
use super::javascript_tests::numbered;
use super::{Act, Count, Draft, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tally::Counts;
use crate::tool::ToolId;

const EXAMPLES: Count = |groups| {
    let (total, skipped) = (groups.number("n"), groups.number("pending"));
    // A failure outside of examples is not a failure of an example.
    let failed = groups.number("failed") + groups.number("errors");
    let passed = total.saturating_sub(failed + skipped);
    Some(Counts { passed, failed: failed + groups.number("outside"), skipped, expected: 0 })
};

const MINITEST: Count = |groups| {
    let failed = groups.number("failed") + groups.number("errors");
    let (total, skipped) = (groups.number("n") + groups.number("all"), groups.number("skipped"));
    let others = groups.number("ignored") + groups.number("pending") + groups.number("incomplete");
    let skipped = skipped + others;
    Some(Counts { passed: total.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

const PEST: Count = |groups| {
    let (passed, failed) = (groups.number("passed"), groups.number("failed"));
    Some(Counts { passed, failed, skipped: groups.number("skipped"), expected: 0 })
};

fn place(draft: &mut Draft) {
    for line in &draft.lines[1..] {
        let trimmed = line.trim_start().trim_start_matches("# ");
        let mut parts = trimmed.splitn(3, ':');
        if let (Some(file), Some(row)) = (parts.next(), parts.next())
            && file.contains('.')
            && !file.contains([' ', '(', '"'])
            && let Ok(row) = row.trim_end_matches(')').parse()
        {
            draft.file = Some(file.to_owned());
            draft.line = Some(row);
            return;
        }
    }
    draft.spurious = draft.lines.len() == 1;
}

/// An error outside of examples: up to the next such message or the run's last lines.
fn outside(so_far: &[String], line: &str) -> Next {
    let ends = ["An error occurred ", "Run options:", "Finished in ", "No examples found", "Randomized with"];
    if ends.iter().any(|end| line.starts_with(end)) || so_far.len() > 20 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn minitest_lines(so_far: &[String], line: &str) -> Next {
    let named = so_far.len() > 1 || line.contains('#');
    if line.trim().is_empty() || so_far.len() > 30 || !named { Next::Beyond } else { Next::Part }
}

/// `TestApp#test_adds [test/app_test.rb:12]:`, or the name alone and a stack.
fn minitest(draft: &mut Draft) {
    let Some(line) = draft.lines.get(1).cloned() else {
        draft.spurious = true;
        return;
    };
    let name = line.split([' ', ':']).next().unwrap_or_default();
    draft.test = Some(name.to_owned());
    let placed = line.split_once('[').is_some_and(|(_, rest)| super::set_place(draft, rest));
    if !placed {
        place(draft);
    }
}

/// PHPUnit's failures: up to the next number or the last word.
fn phpunit_lines(so_far: &[String], line: &str) -> Next {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let next = digits > 0 && line[digits..].starts_with(") ");
    let end = ["FAILURES!", "ERRORS!", "Tests: ", "--"].iter().any(|end| line.starts_with(end));
    if next || end || so_far.len() > 40 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A frame of a backtrace is not a failed example.
fn no_frame(draft: &mut Draft) {
    draft.spurious = draft.test.as_deref().is_some_and(|test| test.starts_with("in "));
}

/// A failure of test-unit, up to its rule.
fn test_unit(so_far: &[String], line: &str) -> Next {
    if line.starts_with("=====") || so_far.len() > 40 { Next::Beyond } else { Next::Part }
}

/// `a.rb:3:in `test_a'`.
fn test_unit_place(draft: &mut Draft) {
    let place = draft.lines.iter().find_map(|line| Some(line.split_once(":in ")?.0.to_owned()));
    draft.spurious = place.is_none();
    if let Some(place) = place {
        let _placed = super::set_place(draft, &place);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "test_unit.failed",
        pattern: r"^(?:Failure|Error): (?P<t>test[\w ]*\([A-Z][\w:]*\))(?::.*)?$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 92).follow(test_unit).owning().refine(test_unit_place),
        )],
    },
    Rule {
        name: "exunit.numbered",
        pattern: r"^\s{2}\d+\) (?P<t>test .+ \(.+\))$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(numbered).owning().refine(place))],
    },
    Rule {
        name: "exunit.invalid",
        pattern: r"^\s{2}\d+\) (?P<t>\S+): failure on setup_all callback, .+$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(numbered).owning().refine(place))],
    },
    Rule {
        name: "exunit.none",
        pattern: r#"^(?:All tests have been excluded\.|The --only option was given to "mix test" but no test was executed)$"#,
        acts: &[Act::Sign(Sign::NoTests), Act::Summary],
    },
    Rule {
        name: "rspec.rerun",
        pattern: r"^rspec (?P<f>\./[^\s:]+):(?P<l>\d+) # (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).bare()), Act::Summary],
    },
    Rule {
        // A line of the documentation format. The list at the end has the full name.
        name: "rspec.line_failed",
        pattern: r"^ +\S.* \(FAILED - \d+\)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::RSpec))],
    },
    Rule {
        name: "rspec.list",
        pattern: r"^(?P<f>\S+_spec\.rb):(?P<l>\d+):(?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).refine(no_frame))],
    },
    Rule {
        name: "rspec.reruns",
        pattern: r"^Run options: include \{:?last_run_status(?:=>|: )\x22failed\x22\}",
        acts: &[Act::RerunsFailed(ToolId::RSpec)],
    },
    Rule {
        name: "rspec.outside",
        pattern: r"^An error occurred (?:while loading (?P<f>\S+?)\.|in an? .* hook\.?|outside of examples\.?)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(outside).owning())],
    },
    Rule { name: "rspec.finished", pattern: r"^Finished in [\d.]+ ", acts: &[Act::Heading(ToolId::RSpec)] },
    Rule {
        name: "rspec.summary",
        pattern: r"^(?P<n>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<errors>\d+) errors?\b[^,]*)?(?:, (?P<pending>\d+) pending)?(?:, (?P<outside>\d+) errors?\b.*)?$",
        acts: &[Act::Counts(ToolId::RSpec, EXAMPLES), Act::Summary],
    },
    Rule {
        name: "minitest.running",
        pattern: r"^(?P<t>[A-Z][\w:]*#\w+) = (?:$|.*\[BUG\] )",
        acts: &[Act::Test(ToolId::Minitest, Started)],
    },
    Rule {
        name: "phpunit.header",
        pattern: r"^PHPUnit \S+ by Sebastian Bergmann(?: and contributors)?\.$",
        acts: &[Act::Header(ToolId::PhpUnit)],
    },
    Rule { name: "phpunit.runtime", pattern: r"^Runtime: +PHP \d", acts: &[Act::Settings(ToolId::PhpUnit)] },
    Rule {
        // Output of `ls -a` and `find .` after the header of `phpunit --version`: its first line is a mark, too.
        name: "phpunit.no_marks",
        pattern: r"^\.(?:\.$|/)",
        acts: &[Act::NoMarks(ToolId::PhpUnit)],
    },
    Rule {
        name: "phpunit.marks",
        pattern: r"^(?P<marks>[.FEWIRSDN]+)(?: +(?P<k>\d+) / (?P<n>\d+) \( *\d+%\))?$",
        acts: &[Act::Marks(ToolId::PhpUnit)],
    },
    Rule {
        name: "phpunit.begun",
        pattern: r"^Test '(?P<t>[\w\\]+::[^']+)' started$",
        acts: &[Act::Test(ToolId::PhpUnit, Started)],
    },
    Rule {
        name: "phpunit.ended",
        pattern: r"^Test '(?P<t>[\w\\]+::[^']+)' ended$",
        acts: &[Act::Test(ToolId::PhpUnit, Ended)],
    },
    Rule {
        name: "phpunit.prepared",
        pattern: r"^Test Prepared \((?P<t>[\w\\]+::.+)\)$",
        acts: &[Act::Test(ToolId::PhpUnit, Started)],
    },
    Rule {
        name: "phpunit.finished",
        pattern: r"^Test Finished \((?P<t>[\w\\]+::.+)\)$",
        acts: &[Act::Test(ToolId::PhpUnit, Ended)],
    },
    Rule {
        name: "exunit.begun",
        pattern: r"^  \* (?P<t>(?:test|doctest|property) .+?) \[L#\d+\]$",
        acts: &[Act::Test(ToolId::Bats, Started)],
    },
    Rule {
        name: "exunit.ended",
        pattern: r"^  \* (?P<t>(?:test|doctest|property) .+?) \((?:[\d.]+ms|skipped|excluded)\)(?: \[L#\d+\])?$",
        acts: &[Act::Test(ToolId::Bats, Ended)],
    },
    Rule {
        name: "minitest.summary",
        pattern: r"^(?P<n>\d+) (?:runs|tests), \d+ assertions, (?P<failed>\d+) failures, (?P<errors>\d+) errors(?:, (?P<skipped>\d+) skips|, (?P<pending>\d+) pendings, (?P<ignored>\d+) omissions)?",
        acts: &[Act::Session(ToolId::Minitest), Act::Counts(ToolId::Minitest, MINITEST), Act::Summary],
    },
    Rule {
        name: "minitest.numbered",
        pattern: r"^(?:\s{0,2}\d+\) )?(?:Failure|Error):$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 92).follow(minitest_lines).owning().refine(minitest),
        )],
    },
    Rule {
        name: "phpunit.numbered",
        pattern: r"^\d+\) (?P<t>[\w\\]+::\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(phpunit_lines).owning().refine(place))],
    },
    Rule {
        name: "pest.summary",
        pattern: r"^\s+Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) (?:skipped|incomplete|todos?|risky)|(?P<passed>\d+) passed|\d+ warnings?)(?:, )?)+ \(\d+ assertions?\)",
        acts: &[Act::Session(ToolId::PhpUnit), Act::Counts(ToolId::PhpUnit, PEST), Act::Summary],
    },
    Rule {
        name: "phpunit.summary",
        pattern: r"^(?:Tests: (?P<n>\d+), Assertions: \d+(?:, Errors: (?P<errors>\d+))?(?:, Failures: (?P<failed>\d+))?(?:, .*?Skipped: (?P<skipped>\d+))?(?:, .*?Incomplete: (?P<incomplete>\d+))?|OK \((?P<all>\d+) tests?, \d+ assertions?\)$)",
        acts: &[Act::Session(ToolId::PhpUnit), Act::Counts(ToolId::PhpUnit, MINITEST), Act::Summary],
    },
    Rule {
        name: "phpunit.bad",
        pattern: r"^(?:FAILURES!|ERRORS!)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::PhpUnit))],
    },
    Rule {
        name: "dotnet.summary",
        pattern: r"^(?:(?:Failed!|Passed!|Skipped!)\s+- Failed:\s+(?P<failed>\d+), Passed:\s+\d+, Skipped:\s+(?P<skipped>\d+), Total:\s+(?P<n>\d+)(?:, Duration: .* - (?P<t>\S+\.dll(?: \(\S+\))?)$)?|Test summary: total: (?P<all>\d+), failed: (?P<errors>\d+), succeeded: \d+, skipped: (?P<ignored>\d+))",
        acts: &[
            Act::Session(ToolId::DotnetTest),
            Act::Part(ToolId::DotnetTest),
            Act::Counts(ToolId::DotnetTest, MINITEST),
            Act::Summary,
        ],
    },
];
