//! The build directory of Xcode. Pure.

use std::path::Path;

/// Actions of `xcodebuild` that build nothing and do not accept `-derivedDataPath`.
const WITHOUT_BUILDING: &[&str] = &[
    "-version",
    "-help",
    "-usage",
    "-license",
    "-showsdks",
    "-checkFirstLaunchStatus",
    "-runFirstLaunch",
    "-downloadPlatform",
    "-downloadAllPlatforms",
    "-importPlatform",
    "-exportArchive",
    "-exportNotarizedApp",
    "-exportLocalizations",
    "-importLocalizations",
    "-create-xcframework",
];

/// Adds a build directory in the workspace to the arguments, if they are an `xcodebuild` command
/// without its own. Otherwise, products go to `~/Library/Developer/Xcode/DerivedData`, in a
/// directory with a hash of the project's path. It is also separate per workspace, but never
/// removed with it. A shell command is not changed.
///
/// A scheme is required: `-derivedDataPath` is refused together with `-target` ("xcodebuild: error:
/// The flag -scheme, -testProductsPath, or -xctestrun is required when specifying
/// -derivedDataPath").
pub(super) fn with_derived_data(mut argv: Vec<String>, directory: &Path) -> Vec<String> {
    let mut words = argv.iter().map(String::as_str);
    let program = words.next().and_then(|program| program.rsplit('/').next());
    let tool = match program {
        Some("xcrun") => words.next(),
        other => other,
    };
    let rest: Vec<&str> = words.collect();
    let names = |options: &[&str]| rest.iter().any(|word| options.contains(word));
    let chooses = names(&["-derivedDataPath"]) || rest.iter().any(|word| word.starts_with("SYMROOT="));
    let takes = names(&["-scheme", "-xctestrun", "-testProductsPath"]);
    if tool == Some("xcodebuild") && takes && !chooses && !names(WITHOUT_BUILDING) {
        argv.push("-derivedDataPath".to_owned());
        argv.push(directory.display().to_string());
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::with_derived_data;
    use std::path::Path;

    #[test]
    fn xcodebuild_gets_a_directory_of_the_workspace_unless_it_chooses_or_builds_nothing() {
        for (command, expected) in [
            ("xcodebuild -scheme App build", true),
            ("/usr/bin/xcodebuild test -xctestrun x.xctestrun", true),
            ("xcrun xcodebuild -scheme App test", true),
            ("xcodebuild -scheme App -derivedDataPath mine build", false),
            ("xcodebuild -scheme App SYMROOT=out build", false),
            ("xcodebuild -target App build", false),
            ("xcodebuild -version", false),
            ("xcodebuild -exportArchive -scheme App", false),
            ("swift build", false),
            ("sh -c xcodebuild\u{20}-scheme", false),
        ] {
            let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let mut with = argv.clone();
            with.extend(["-derivedDataPath".to_owned(), "/w/derived".to_owned()]);
            let wanted = if expected { with } else { argv.clone() };
            assert_eq!(with_derived_data(argv, Path::new("/w/derived")), wanted, "{command}");
        }
        assert!(with_derived_data(Vec::new(), Path::new("/w")).is_empty());
    }
}
