//! Output of lab.

use crate::machines::{MatchedLine, OwnTotal};
use crate::rules::{Effect, Rule};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { judges_more_than_tests: true, rules: RULES, ..Tool::named("lab") };

/// The last total. Other programs print the same words, so it counts if the next line has the duration.
#[derive(Debug)]
struct LastTotal(OwnTotal);

/// lab prints the number of skipped tests separately from the total.
fn total(line: &mut MatchedLine<'_>) {
    let groups = line.groups;
    let (total, failed) = (groups.number("n") + groups.number("all"), groups.number("failed"));
    let passed = total.saturating_sub(failed);
    let counts = Counts { passed, failed, skipped: groups.number("skipped"), expected: 0 };
    let total = line.total(ToolId::Lab, counts);
    line.machines.set(LastTotal(total));
}

fn duration(line: &mut MatchedLine<'_>) {
    let (stream, number) = (line.stream, line.position.number);
    let is_above = |total: &OwnTotal| total.stream == stream && total.position.number + 1 == number;
    line.own_total = line.machines.take().map(|LastTotal(total)| total).filter(is_above);
}

const RULES: &[Rule] = &[
    Rule {
        name: "lab.total",
        pattern: r"^(?:(?P<failed>\d+) of (?P<n>\d+) tests? failed|(?P<all>\d+) tests? (?:passed|complete))(?: \((?:(?P<skipped>\d+) skipped|\d+ todo)(?:, \d+ todo)?\))?$",
        effects: &[Effect::Own(total)],
    },
    Rule { name: "lab.duration", pattern: r"^Test duration: [\d.]+ ms$", effects: &[Effect::Own(duration)] },
];
