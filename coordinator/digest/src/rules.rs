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

pub(crate) use effect::{
    BEGINS, Count, Effect, FAILS_WITHOUT_TESTS, Indicator, NO_TESTS, RUNS, SORTS, TOTAL, TestEvent,
};
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

/// Whether a recognizer has this name, or its tool: `go.fail`, `go`.
pub(crate) fn is_named(recognizer: &str, name: &str) -> bool {
    recognizer.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
            assert!(groups.iter().all(|name| name.len() <= 16), "{} has a group with a long name", rule.name);
            let own = rule.effects.iter();
            let of_others = own.clone().filter_map(|effect| match effect {
                Effect::Of(_, effects) => Some(effects.iter()),
                _ => None,
            });
            for act in own.chain(of_others.flatten()) {
                match act {
                    Effect::Test(..) => {
                        assert!(groups.contains("t"), "{} names no test", rule.name)
                    }
                    Effect::File => assert!(groups.contains("f"), "{} names no file", rule.name),
                    Effect::Crash(Indicator::Died("")) => {
                        assert!(groups.contains("sig"), "{} names no signal", rule.name);
                    }
                    Effect::RunnerSays(_) | Effect::Within(..) => {}
                    Effect::Announces => {
                        assert!(groups.contains("n"), "{} has no number", rule.name)
                    }
                    Effect::Problem(Problem { level: Level::Word, .. }) => {
                        assert!(groups.contains("s"), "{} has no severity word", rule.name);
                    }
                    Effect::Adds(..)
                    | Effect::IfKnown(_)
                    | Effect::Own(_)
                    | Effect::AtWork
                    | Effect::Partial(..)
                    | Effect::Heading
                    | Effect::Alone
                    | Effect::Problem(_)
                    | Effect::Counts(..)
                    | Effect::Session
                    | Effect::Success
                    | Effect::Failure
                    | Effect::ErrorTotal
                    | Effect::Of(..)
                    | Effect::Crash(_)
                    | Effect::WorkerDied
                    | Effect::Summary
                    | Effect::Harmless => {}
                }
            }
        }
    }
}
