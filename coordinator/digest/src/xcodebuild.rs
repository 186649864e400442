//! Actions of xcodebuild in command lines and in result markers.

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
pub(crate) fn last_action<'w>(words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
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
pub(crate) fn action_of(result: &str) -> Option<&'static str> {
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
