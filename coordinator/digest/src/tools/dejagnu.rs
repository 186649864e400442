//! Output of DejaGnu.

use crate::rules::{Count, Effect, Rule, SORTS};
use crate::tally::Counts;
use crate::tool::{Announced, Tool};

pub(super) const TOOL: Tool = Tool {
    announces: Some(Announced::ByHeading),
    totals_begin: true,
    rules: RULES,
    ..Tool::named("DejaGnu")
};

/// Begins a total with its numbers on separate lines.
const NONE_YET: Count = |_| Some(Counts::default());

const RULES: &[Rule] = &[
    Rule {
        // Of several targets each has a summary as well; this is that of all.
        name: "dejagnu.summary",
        pattern: r"^\t\t=== \S+ Summary ===$",
        effects: &[Effect::Heading, Effect::Partial(NONE_YET)],
    },
    Rule {
        name: "dejagnu.part",
        pattern: r"^\t\t=== \S+ Summary for .* ===$",
        effects: &[Effect::Partial(NONE_YET)],
    },
    Rule {
        name: "dejagnu.sorts",
        pattern: r"^# of (?:expected passes\t\t(?P<passed>\d+)|(?:unexpected failures|unexpected successes|unknown successes|unresolved testcases)\t(?P<failed>\d+)|(?:expected|known) failures\t\t(?P<expected>\d+)|(?:untested testcases|unsupported tests)\t{1,2}(?P<skipped>\d+))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary, Effect::Harmless],
    },
];
