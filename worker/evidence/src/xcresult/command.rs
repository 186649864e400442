//! Finds the result bundle path in a command, and adds one if it is missing.

use std::path::{Path, PathBuf};

/// Options of xcodebuild for other actions than building or testing.
const QUERIES: &[&str] = &[
    "-list",
    "-showsdks",
    "-version",
    "-usage",
    "-help",
    "-h",
    "-license",
    "-checkFirstLaunchStatus",
    "-runFirstLaunch",
    "-showBuildSettings",
    "-showBuildSettingsForIndex",
    "-showdestinations",
    "-showTestPlans",
    "-showComponent",
    "-exportArchive",
    "-exportNotarizedApp",
    "-exportLocalizations",
    "-importLocalizations",
    "-create-xcframework",
    "-resolvePackageDependencies",
    "-downloadPlatform",
    "-downloadAllPlatforms",
    "-downloadComponent",
    "-importComponent",
    "-importPlatform",
    "-deleteComponent",
    "-enumerate-tests",
    "-dry-run",
    "-n",
    "-find-executable",
    "-find-library",
];

/// Actions that write a result bundle.
const ACTIONS: &[&str] =
    &["build", "build-for-testing", "analyze", "archive", "test", "test-without-building", "docbuild"];

/// Returns the path after `-resultBundlePath`, relative to the command's directory. The script of
/// `sh -c` is also searched. The last option counts, as in xcodebuild.
pub fn result_bundle_in(command: &[String]) -> Option<PathBuf> {
    path_after(command, "-resultBundlePath")
}

/// Returns the directory after `-derivedDataPath`. Only this command builds and tests there.
pub fn derived_data_in(command: &[String]) -> Option<PathBuf> {
    path_after(command, "-derivedDataPath")
}

fn path_after(command: &[String], option: &str) -> Option<PathBuf> {
    let of = |words: &[String]| {
        let named = words.iter().rposition(|word| word == option);
        named.and_then(|at| words.get(at + 1)).filter(|path| !path.is_empty()).map(PathBuf::from)
    };
    match script(command) {
        Some(script) => of(&words(script)?.words).filter(|path| !path.to_string_lossy().contains('$')),
        None => of(command),
    }
}

/// Returns the command with `-resultBundlePath PATH` added. Returns `None` unless it is an
/// xcodebuild command that builds or tests without a bundle path. The path must not exist, because
/// xcodebuild refuses an existing one. Scripts are changed only if they are a single simple
/// command.
pub fn with_result_bundle(command: &[String], path: &Path) -> Option<Vec<String>> {
    let path = path.to_str()?;
    if let Some(script) = script(command) {
        let parsed = words(script.trim_end())?;
        if !parsed.simple || !wants_bundle(&parsed.words) {
            return None;
        }
        let mut changed = command.to_vec();
        let at = changed.iter().position(|word| word == script)?;
        let quoted = path.replace('\'', r"'\''");
        changed[at] = format!("{} -resultBundlePath '{quoted}'", script.trim_end());
        return Some(changed);
    }
    wants_bundle(command).then(|| {
        let mut changed = command.to_vec();
        changed.push("-resultBundlePath".to_owned());
        changed.push(path.to_owned());
        changed
    })
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the script of `sh -c SCRIPT`, for the common shells.
fn script(command: &[String]) -> Option<&str> {
    let shell = base(command.first()?);
    if !matches!(shell, "sh" | "bash" | "zsh" | "dash") {
        return None;
    }
    let flag = command.get(1)?;
    let runs_script = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    runs_script.then(|| command.get(2).map(String::as_str)).flatten()
}

fn wants_bundle(words: &[String]) -> bool {
    let Some(arguments) = xcodebuild_arguments(words) else { return false };
    let has = |list: &[&str]| arguments.iter().any(|argument| list.contains(&argument.as_str()));
    if has(&["-resultBundlePath", "-resultStreamPath"]) || has(QUERIES) {
        return false;
    }
    let values_follow = |option: &str| {
        option.starts_with('-') && !matches!(option, "-quiet" | "-verbose" | "-json" | "-alltargets")
    };
    let mut previous = "";
    let mut actions = Vec::new();
    for argument in arguments {
        let is_action = ACTIONS.contains(&argument.as_str())
            || matches!(argument.as_str(), "clean" | "install" | "installsrc");
        // In `-scheme test`, `test` is the name of a scheme.
        if is_action && !values_follow(previous) {
            actions.push(argument.as_str());
        }
        previous = argument;
    }
    // Without an action, xcodebuild builds.
    actions.is_empty() || actions.iter().any(|action| ACTIONS.contains(action))
}

/// Returns the arguments after `xcodebuild`, also after `env A=B`, `xcrun`, `arch -arm64`, `nice`,
/// `caffeinate`.
fn xcodebuild_arguments(words: &[String]) -> Option<&[String]> {
    for (at, word) in words.iter().enumerate().take(16) {
        let name = base(word);
        if name == "xcodebuild" {
            return words.get(at + 1..);
        }
        let is_wrapper =
            matches!(name, "env" | "xcrun" | "arch" | "nice" | "caffeinate" | "time" | "exec" | "command");
        let is_setting =
            word.split_once('=').is_some_and(|(key, _)| !key.is_empty() && !key.starts_with('-'));
        if !(is_wrapper || is_setting || word.starts_with('-')) {
            return None;
        }
    }
    None
}

struct Words {
    words: Vec<String>,
    /// True for a single command without expansion, redirection or pipe.
    simple: bool,
}

/// Splits a script into words like a shell and removes quotes. Returns `None` if a quote is not
/// closed.
fn words(script: &str) -> Option<Words> {
    let mut out = Words { words: Vec::new(), simple: true };
    let mut word: Option<String> = None;
    let mut characters = script.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => word.push(characters.next()?),
                        inner => {
                            out.simple &= !matches!(inner, '$' | '`');
                            word.push(inner);
                        }
                    }
                }
            }
            '\\' => match characters.next()? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => {
                out.simple = false;
                out.words.extend(word.take());
            }
            ' ' | '\t' => out.words.extend(word.take()),
            '#' if word.is_none() => {
                out.simple = false;
                for inner in characters.by_ref() {
                    if inner == '\n' {
                        break;
                    }
                }
            }
            other => {
                out.simple &= !matches!(other, '$' | '`' | '*' | '?' | '{' | '~');
                word.get_or_insert_default().push(other);
            }
        }
    }
    out.words.extend(word);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn sh(script: &str) -> Vec<String> {
        vec!["/bin/sh".into(), "-c".into(), script.into()]
    }

    #[test]
    fn the_named_bundle_is_found() {
        let found = |command: &[String]| result_bundle_in(command).map(|path| path.display().to_string());
        assert_eq!(
            found(&argv("xcodebuild test -resultBundlePath out/a.xcresult")).as_deref(),
            Some("out/a.xcresult")
        );
        assert_eq!(found(&argv("xcodebuild -resultBundlePath a -resultBundlePath b")).as_deref(), Some("b"));
        assert_eq!(found(&argv("xcodebuild test -resultBundlePath")), None);
        let script = "set -o pipefail; cd x && xcodebuild test -resultBundlePath 'a b.xcresult' | xcbeautify";
        assert_eq!(found(&sh(script)).as_deref(), Some("a b.xcresult"));
        assert_eq!(found(&sh("xcodebuild test -resultBundlePath \"$OUT/a\"")), None);
        assert_eq!(found(&sh("xcodebuild test -resultBundlePath 'open")), None);
        assert_eq!(
            derived_data_in(&sh("xcodebuild -scheme A -derivedDataPath '/d d' test | tee log")),
            Some(PathBuf::from("/d d"))
        );
        assert_eq!(derived_data_in(&argv("xcodebuild -scheme A test")), None);
    }

    #[test]
    fn one_is_added_only_where_xcodebuild_builds_or_tests() {
        let added = |command: &[String]| with_result_bundle(command, Path::new("/t/a.xcresult")).is_some();
        for yes in [
            "xcodebuild test -scheme App",
            "xcodebuild -scheme App",
            "/usr/bin/xcodebuild clean build",
            "env A=1 xcrun xcodebuild build-for-testing",
            "arch -arm64 xcodebuild test",
        ] {
            assert!(added(&argv(yes)), "{yes}");
        }
        for no in [
            "xcodebuild -list",
            "xcodebuild clean",
            "xcodebuild clean -scheme test",
            "xcodebuild -showBuildSettings -scheme App",
            "xcodebuild test -resultBundlePath x",
            "swift test",
            "echo xcodebuild",
            "xcodebuild -exportArchive -archivePath x",
        ] {
            assert!(!added(&argv(no)), "{no}");
        }
    }

    #[test]
    fn a_script_is_changed_only_when_it_is_one_simple_command() {
        let path = Path::new("/t/it's.xcresult");
        let changed = with_result_bundle(&sh("xcodebuild test -scheme 'My App'\n"), path);
        assert_eq!(
            changed.expect("changed")[2],
            r"xcodebuild test -scheme 'My App' -resultBundlePath '/t/it'\''s.xcresult'"
        );
        for script in [
            "xcodebuild test | xcbeautify",
            "cd x && xcodebuild test",
            "xcodebuild test $ARGS",
            "xcodebuild test # x",
        ] {
            assert_eq!(with_result_bundle(&sh(script), path), None, "{script}");
        }
    }
}
