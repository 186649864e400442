//! Rules: a rule is a pattern, anchored at the beginning of the cleaned line, and its effects.
//!
//! [`set`] matches all patterns of all tools at once. Patterns match bytes, so that invalid UTF-8 hides nothing. The rules of each tool are in its file in [`crate::tools`].

#[macro_use]
mod signal_words;

mod act;
mod follow;
mod group_splitter;
mod groups;
mod literal_search;
mod literals;
mod pattern_shape;
mod problem;
mod set;

pub(crate) use act::{Act, Count, Indicator, SORTS, Sign, TOTAL, TestEvent};
pub(crate) use follow::{
    always, boxed, drawn, indented, indented_or_blank, is_drawing, one_more, paragraph, place, pointed,
    set_place, up_to_rule,
};
pub(crate) use groups::Groups;
pub(crate) use problem::{
    Draft, ERROR, FATAL, Fails, INFO, Join, Kind, Level, Next, Problem, Role, WARNING, problem,
    severity_of_word,
};
pub(crate) use set::{LineMatcher, RuleSet};

/// A pattern and its effects.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `tool.name`, for explanations and tests.
    pub(crate) name: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) acts: &'static [Act],
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::bytes::RegexBuilder;
    use std::collections::BTreeSet;

    #[test]
    fn tables_are_sound() {
        let mut names = BTreeSet::new();
        for rule in crate::tools::rules() {
            assert!(names.insert(rule.name), "{} is there twice", rule.name);
            assert!(
                rule.pattern.starts_with('^') || rule.pattern.starts_with("(?i)^"),
                "{} is not anchored",
                rule.name
            );
            let regex = RegexBuilder::new(rule.pattern).unicode(false).build();
            let regex = regex.unwrap_or_else(|error| panic!("{}: {error}", rule.name));
            assert!(regex.captures_len() <= groups::GROUPS_MAX, "{} has too many groups", rule.name);
            let groups: BTreeSet<_> = regex.capture_names().flatten().collect();
            for act in rule.acts {
                match act {
                    Act::Test(..) | Act::Speaks | Act::Flaky | Act::Part(_) | Act::TargetOutput => {
                        assert!(groups.contains("t"), "{} names no test", rule.name)
                    }
                    Act::File => assert!(groups.contains("f"), "{} names no file", rule.name),
                    Act::Sign(Sign::Crash(Indicator::Died(""))) => {
                        assert!(groups.contains("sig"), "{} names no signal", rule.name);
                    }
                    Act::RunnerSays(_) | Act::Within(..) => {}
                    Act::Unit(_) | Act::FailedUnit(_) | Act::ActionResult => {
                        assert!(groups.contains("u"), "{} names no unit", rule.name);
                    }
                    Act::Command | Act::XcodebuildCommand => {
                        assert!(groups.contains("m"), "{} names no command", rule.name);
                    }
                    Act::Plan(_) | Act::Announces(_) => {
                        assert!(groups.contains("n"), "{} has no number", rule.name)
                    }
                    Act::Problem(Problem { level: Level::Word, .. }) => {
                        assert!(groups.contains("s"), "{} has no severity word", rule.name);
                    }
                    Act::Adds(..)
                    | Act::Awaits(..)
                    | Act::Confirms(_)
                    | Act::Announced(..)
                    | Act::FailedPart(_)
                    | Act::Logs
                    | Act::TriesAgain(_)
                    | Act::RerunsFailed(_)
                    | Act::AtWork(_)
                    | Act::Ends(_)
                    | Act::Cut(_)
                    | Act::TellsPasses(_)
                    | Act::Partial(..)
                    | Act::Heading(_)
                    | Act::Amiss(_)
                    | Act::Header(_)
                    | Act::Settings(_)
                    | Act::Marks(_)
                    | Act::NoMarks(_)
                    | Act::Over(..)
                    | Act::Alone
                    | Act::Moves(..)
                    | Act::Problem(_)
                    | Act::Counts(..)
                    | Act::Session(_)
                    | Act::Sign(_)
                    | Act::WorkerDied
                    | Act::Summary
                    | Act::Harmless => {}
                }
            }
        }
    }
}
