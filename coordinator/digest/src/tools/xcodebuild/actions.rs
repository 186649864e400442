//! Actions of xcodebuild in command lines and in result markers.

use crate::command::Command;
use crate::machines::{Machines, MatchedLine};
use crate::tool::ToolId;
use std::collections::BTreeSet;

/// Actions of the command lines in the log, and their results.
#[derive(Debug, Default)]
struct Actions {
    /// The last action of a command line, until the log has its result.
    asked: Option<&'static str>,
    /// An action without a result before the next command line.
    left: Option<&'static str>,
    /// Actions whose results are in the log.
    results: BTreeSet<&'static str>,
}

/// An announced command line.
pub(super) fn command(line: &mut MatchedLine<'_>) {
    let command = line.text("m");
    line.markers.runs.announces(&command, line.order);
    let mut actions = line.machines.take::<Actions>().unwrap_or_default();
    actions.left = actions.left.or(actions.asked);
    actions.asked = last_action(command.split_whitespace());
    line.machines.set(actions);
}

/// The result of an action.
pub(super) fn result(line: &mut MatchedLine<'_>) {
    let Some(action) = action_of(&line.text("u")) else { return };
    line.markers.runs.works_on(ToolId::Xcodebuild, action);
    let mut actions = line.machines.take::<Actions>().unwrap_or_default();
    actions.results.insert(action);
    actions.asked = actions.asked.filter(|asked| *asked != action);
    line.machines.set(actions);
}

/// A requested action without a result, if other actions have results. The last action of the command counts too.
pub(super) fn missing_result(machines: &Machines, command: &Command) -> Option<String> {
    let Actions { asked, left, results } = machines.get::<Actions>()?;
    let last = command.runs_of(&["xcodebuild"]).last();
    let missing = last.and_then(|words| last_action(words.iter().map(String::as_str)));
    let missing = missing.filter(|action| !results.contains(action));
    let action = left.or(*asked).or(missing).filter(|_| !results.is_empty())?;
    Some(format!("xcodebuild {action}"))
}

/// Actions and the names in their result markers.
const ACTIONS: &[(&str, &str)] = &[
    ("clean", "CLEAN"),
    ("build", "BUILD"),
    ("build-for-testing", "TEST BUILD"),
    ("test", "TEST"),
    ("test-without-building", "TEST EXECUTE"),
    ("archive", "ARCHIVE"),
    ("analyze", "ANALYZE"),
    ("install", "INSTALL"),
    ("docbuild", "DOCBUILD"),
    ("-exportArchive", "EXPORT"),
];
/// Options without a value. Each other option takes the next word, which can look like an action:
/// `-scheme test`.
const BARE_OPTIONS: &[&str] = &[
    "-quiet",
    "-verbose",
    "-json",
    "-alltargets",
    "-parallelizeTargets",
    "-allowProvisioningUpdates",
    "-allowProvisioningDeviceRegistration",
    "-hideShellScriptEnvironment",
    "-showBuildTimingSummary",
    "-retry-tests-on-failure",
    "-run-tests-until-failure",
    "-skipMacroValidation",
    "-skipPackagePluginValidation",
    "-skipPackageUpdates",
    "-skipUnavailableActions",
    "-disableAutomaticPackageResolution",
    "-onlyUsePackageVersionsFromResolvedFile",
    "-exportLocalizations",
];

/// Last action in a command line. None if it prints no results, or has no action.
fn last_action<'w>(words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
    let (mut last, mut is_value) = (None, false);
    for word in words {
        if word == "-quiet" {
            return None;
        }
        let action = ACTIONS.iter().find(|(action, _)| *action == word).filter(|_| !is_value);
        last = action.map(|(action, _)| *action).or(last);
        is_value =
            word.starts_with('-') && !word.contains(':') && action.is_none() && !BARE_OPTIONS.contains(&word);
    }
    last
}

/// Action of a result marker such as `** ARCHIVE SUCCEEDED **`.
fn action_of(result: &str) -> Option<&'static str> {
    ACTIONS.iter().find(|(_, name)| *name == result).map(|(action, _)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_action_is_told_from_values_of_options() {
        for (command, action) in [
            ("xcodebuild clean archive -scheme App", Some("archive")),
            ("xcodebuild -scheme test build", Some("build")),
            ("xcodebuild -quiet -scheme App test", None),
            ("xcodebuild -only-testing:A/b -verbose test", Some("test")),
            ("xcodebuild -exportArchive -archivePath build/A.xcarchive", Some("-exportArchive")),
            ("xcodebuild -scheme App", None),
        ] {
            assert_eq!(last_action(command.split(' ')), action, "{command}");
        }
        assert_eq!(action_of("TEST BUILD"), Some("build-for-testing"));
    }
}
