//! Rules: a rule is a pattern, anchored at the beginning of the cleaned line, and its effects.
//!
//! [`set`] matches all patterns of all tools at once. Patterns match bytes, so that invalid UTF-8 hides nothing. The rules of each tool are in its file in [`crate::tools`].

#[macro_use]
mod signal_words;

mod effect;
mod follow;
mod group_splitter;
mod groups;
mod known_texts;
mod literal_search;
mod literals;
mod pattern_shape;
mod problem;
mod set;

pub(crate) use effect::{Count, Effect, Indicator, Marker, SORTS, TOTAL, TestEvent};
pub(crate) use follow::{
    always, boxed, drawn, indented, indented_or_blank, is_drawing, one_more, paragraph, place, pointed,
    set_place, up_to_rule,
};
pub(crate) use groups::Groups;
pub(crate) use problem::{
    Diagnostic, ERROR, FATAL, Fails, INFO, Join, Kind, Level, Next, Problem, Role, WARNING, after_text,
    known_severity, problem, severity_of_word,
};
pub(crate) use set::{LineMatcher, RuleSet};

/// A pattern and its effects.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `tool.name`, for explanations and tests.
    pub(crate) name: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) effects: &'static [Effect],
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
            for act in rule.effects {
                match act {
                    Effect::Test(..) | Effect::OutputFollows | Effect::Part(_) => {
                        assert!(groups.contains("t"), "{} names no test", rule.name)
                    }
                    Effect::File => assert!(groups.contains("f"), "{} names no file", rule.name),
                    Effect::Marker(Marker::Crash(Indicator::Died(""))) => {
                        assert!(groups.contains("sig"), "{} names no signal", rule.name);
                    }
                    Effect::RunnerSays(_) | Effect::Within(..) => {}
                    Effect::Plan(_) | Effect::Announces(_) => {
                        assert!(groups.contains("n"), "{} has no number", rule.name)
                    }
                    Effect::Problem(Problem { level: Level::Word, .. }) => {
                        assert!(groups.contains("s"), "{} has no severity word", rule.name);
                    }
                    Effect::Adds(..)
                    | Effect::IsOutput
                    | Effect::IfKnown(_)
                    | Effect::Own(_)
                    | Effect::AtWork(_)
                    | Effect::Partial(..)
                    | Effect::Heading(_)
                    | Effect::OtherFailure(_)
                    | Effect::Over(..)
                    | Effect::Alone
                    | Effect::Moves(..)
                    | Effect::Problem(_)
                    | Effect::Counts(..)
                    | Effect::Session(_)
                    | Effect::Marker(_)
                    | Effect::WorkerDied
                    | Effect::Summary
                    | Effect::Harmless => {}
                }
            }
        }
    }
}
