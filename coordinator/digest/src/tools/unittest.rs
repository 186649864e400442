//! Output of unittest.

use super::compiler::DIED;
use super::pytest::last_place;
use crate::rules::{ERROR, Effect, Indicator, Kind, Next, Rule, SORTS, TestEvent, problem};
use crate::tool::{Announced, Tool};

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    begins_in_silence: true,
    always_totals: true,
    announces: Some(Announced::ByHeading),
    one_total: true,
    rules: RULES,
    ..Tool::named("unittest")
};

/// A test that unittest reports: heading, rule, traceback, up to the next rule.
fn unittest(so_far: &[String], line: &str) -> Next {
    // Below the heading, and the first line of the test's description, there is a rule.
    let is_rule = |line: &str| line.starts_with("------");
    let short = so_far[0].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let ruled = is_rule(line) || so_far.iter().any(|line| is_rule(line));
    if !ruled && so_far.len() >= if short { 1 } else { 2 } {
        return Next::Beyond;
    }
    if line.starts_with("======") || line.starts_with("------") && so_far.len() > 3 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "unittest.died",
        pattern: concat!(
            r"^(?P<t>\w+ \([\w.]+\)) \.\.\. (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        effects: &[
            Effect::Test(TestEvent::Started),
            Effect::Problem(DIED),
            Effect::Crash(Indicator::Died("")),
        ],
    },
    Rule {
        name: "unittest.heading",
        pattern: r"^(?:FAIL|ERROR): (?P<t>\S+ \(.*?\).*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 94).follow(unittest).owning().refine(last_place),
        )],
    },
    Rule {
        name: "unittest.heading_short",
        pattern: r"^(?:FAIL|ERROR): (?P<t>[A-Za-z_]\w*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 90).follow(unittest).owning().refine(last_place),
        )],
    },
    Rule {
        name: "unittest.line_failed",
        pattern: r"^(?P<t>\S+ \([\w.]+\))(?: \[.*\])? \.\.\. (?:FAIL|ERROR)$",
        effects: &[Effect::Test(TestEvent::Failed), Effect::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        // Output of the test may follow on the same line.
        name: "unittest.at_work",
        pattern: r"^\w+ \([\w.]+\)(?: \[.*\])? \.\.\. ",
        effects: &[Effect::AtWork],
    },
    // trial's is longer.
    Rule { name: "unittest.rule", pattern: r"^(?:-{70}|-{79})$", effects: &[Effect::Heading] },
    Rule {
        name: "unittest.ran",
        pattern: r"^Ran (?P<passed>\d+) tests? in [\d.]+s",
        effects: &[Effect::Partial(SORTS), Effect::Summary],
    },
    Rule {
        name: "unittest.failed",
        pattern: r"^FAILED \((?:(?:failures=(?P<failed>\d+)|errors=(?P<errors>\d+)|skip(?:ped|s)=(?P<skipped>\d+)|expected(?:[ _]f|F)ailures=(?P<expected>\d+)|unexpected[ _]successes=(?P<failed2>\d+)|(?:passes|unexpectedSuccesses|successes)=\d+)(?:, )?)+\)",
        effects: &[Effect::Own(|line| line.moves(SORTS)), Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "unittest.ok",
        pattern: r"^OK(?: \((?:(?:skip(?:ped|s)=(?P<skipped>\d+)|expected[ _]failures=(?P<expected>\d+)|unexpected successes=\d+|passes=\d+)(?:, )?)+\))?$",
        effects: &[Effect::Own(|line| line.moves(SORTS))],
    },
    Rule {
        name: "unittest.unexpected",
        pattern: r"^UNEXPECTED SUCCESS: (?P<t>\S+ \(.*?\).*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92))],
    },
    Rule {
        name: "unittest.running",
        pattern: r"^(?P<t>\w+ \([\w.]+\)) \.\.\. (?:$|Fatal Python error: )",
        effects: &[Effect::Test(TestEvent::Started)],
    },
];
