//! Scripts of package.json: detects the test runner of a script, and adds a filter for that runner.

use crate::project::filter;
use buildpool_protocol::shell::quoted;

/// Maximum depth of scripts that call scripts.
const DEPTH_MAX: usize = 4;

/// A filtered script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Filtered {
    /// Arguments to append. The runner is the last command of the script itself.
    Appended(String),
    /// The whole script, with the arguments inserted.
    Rewritten(String),
}

/// The arguments that select tests, quoted for a shell.
#[derive(Default)]
struct Selection {
    /// A file with tests.
    file: Option<String>,
    /// Options that select by name.
    options: Option<String>,
    /// The argument after which the options stand. Without one, they stand at the end.
    after: Option<&'static str>,
}

/// A runner in a script.
struct Found {
    name: String,
    /// The arguments that could be appended to the script instead of a change in it.
    appended: Option<String>,
}

/// Adds a filter to a script.
///
/// # Errors
/// A clause with the reason why the filter can't be added.
pub(super) fn filtered(
    script: &str,
    filter: &str,
    scripts: &dyn Fn(&str) -> Option<String>,
) -> Result<Filtered, String> {
    let mut found = Vec::new();
    let rewritten = rewrite(script, filter, scripts, 0, &mut found);
    match found.as_mut_slice() {
        [] if calls_packages(script) => {
            Err(format!("`{script}` runs the tests of several packages; give the directory of one as `cwd`"))
        }
        [] => Err(format!("no known test runner is in `{script}`")),
        [runner] => match runner.appended.take() {
            Some(arguments) => Ok(Filtered::Appended(arguments)),
            None => Ok(Filtered::Rewritten(rewritten)),
        },
        several => {
            let names: Vec<&str> = several.iter().map(|runner| runner.name.as_str()).collect();
            Err(format!("it calls several test runners ({})", names.join(", ")))
        }
    }
}

/// Returns true if a script may run programs of the project's packages.
pub(super) fn needs_packages(script: &str) -> bool {
    let is_installed = |program: &str| program == "node" || MANAGERS.contains(&program);
    commands(script)
        .iter()
        .any(|(_, command)| !runner(command).is_some_and(|(program, _)| is_installed(program)))
}

/// Returns the arguments that select tests, to append to a command with a known runner.
pub(super) fn arguments(command: &str, filter: &str) -> Option<String> {
    let (name, words) = runner(command)?;
    selection(name, &words, filter)?.appended(command)
}

/// Returns the script with arguments for each of its runners. Adds the runners to `found`.
fn rewrite(
    script: &str,
    filter: &str,
    scripts: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    found: &mut Vec<Found>,
) -> String {
    let mut text = String::new();
    let commands = commands(script);
    let last = commands.len() - 1;
    for (at, (separator, command)) in commands.into_iter().enumerate() {
        text.push_str(separator);
        let selected =
            runner(command).and_then(|(name, words)| Some((name, selection(name, &words, filter)?)));
        if let Some((name, selection)) = selected {
            let appended = selection.appended(command).filter(|_| depth == 0 && at == last);
            found.push(Found { name: name.to_owned(), appended });
            text.push_str(&selection.inserted(command));
            continue;
        }
        let inner = called_script(command).filter(|_| depth < DEPTH_MAX);
        let inner = inner.and_then(|(name, arguments)| Some(format!("{} {arguments}", scripts(name)?)));
        let before = found.len();
        let inner = inner.map(|inner| rewrite(&inner, filter, scripts, depth + 1, found));
        match inner {
            Some(inner) if found.len() > before => text.push_str(&format!(" ( {} ) ", inner.trim())),
            _ => text.push_str(command),
        }
    }
    text.trim().to_owned()
}

impl Selection {
    /// Returns the arguments to append to a command. Returns `None` if the command itself must change: it
    /// names files, or the options stand elsewhere.
    fn appended(&self, command: &str) -> Option<String> {
        let must_change = self.after.is_some() && self.options.is_some()
            || self.file.is_some() && without_files(command) != command;
        (!must_change).then(|| self.end())
    }

    /// Returns the arguments for the end of a command.
    fn end(&self) -> String {
        let options = self.options.as_ref().filter(|_| self.after.is_none());
        options.into_iter().chain(&self.file).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command with the arguments.
    fn inserted(&self, command: &str) -> String {
        let mut text = match self.file {
            Some(_) => without_files(command),
            None => command.to_owned(),
        };
        if let (Some(word), Some(options)) = (self.after, &self.options) {
            text = text.replacen(word, &format!("{word} {options}"), 1);
        }
        let end = self.end();
        if end.is_empty() { text } else { format!("{} {end} ", text.trim_end()) }
    }
}

/// Options of runners whose value is a path.
const PATH_OPTIONS: [&str; 20] = [
    "-c",
    "-r",
    "-p",
    "--config",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "--project",
    "--tsconfig",
    "--root",
    "--rootDir",
    "--dir",
    "--file",
    "--ignore",
    "--exclude",
    "--reporter",
    "--outputFile",
    "--coverageDirectory",
    "--globalSetup",
];

/// Returns a command without the files and patterns of files in its arguments.
fn without_files(command: &str) -> String {
    let is_path = |word: &str| {
        let bare = word.trim_matches(['\'', '"']);
        !bare.starts_with('-')
            && (bare.contains(['/', '*'])
                || filter::SCRIPTS.iter().any(|extension| bare.ends_with(extension)))
    };
    let Some((_, arguments)) = runner(command) else { return command.to_owned() };
    let words: Vec<&str> = command.split_whitespace().collect();
    let first = words.len() - arguments.len();
    let is_kept = |at: usize| at < first || !is_path(words[at]) || PATH_OPTIONS.contains(&words[at - 1]);
    if (first..words.len()).all(is_kept) {
        return command.to_owned();
    }
    let kept: Vec<&str> = (0..words.len()).filter(|at| is_kept(*at)).map(|at| words[at]).collect();
    format!(" {} ", kept.join(" "))
}

/// Returns the commands of a script, each with the operator before it.
fn commands(script: &str) -> Vec<(&str, &str)> {
    let mut commands = Vec::new();
    let (mut start, mut operator, mut quote) = (0, "", None);
    let mut at = 0;
    while let Some(c) = script[at..].chars().next() {
        let length = match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                0
            }
            (Some(open), _) if open == c => {
                quote = None;
                0
            }
            (None, _) => ["&&", "||", ";", "&", "|"]
                .iter()
                .find(|operator| script[at..].starts_with(**operator))
                .map_or(0, |operator| operator.len()),
            _ => 0,
        };
        if length > 0 {
            commands.push((operator, &script[start..at]));
            operator = &script[at..at + length];
            start = at + length;
        }
        at += length.max(c.len_utf8());
    }
    commands.push((operator, &script[start..]));
    commands
}

/// Commands that run the command after them.
const PREFIXES: [&str; 12] =
    ["npx", "bunx", "pnpx", "cross-env", "env", "c8", "nyc", "exec", "dlx", "dotenv", "--", "time"];
/// Package managers. With `exec`, `dlx` or the name of a runner, they start another program.
const MANAGERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

/// Returns the program of a command and its arguments, without assignments and programs that only
/// start another one.
fn runner(command: &str) -> Option<(&str, Vec<&str>)> {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    let mut is_prefixed = false;
    loop {
        let word = *words.first()?;
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        let starts_another = MANAGERS.contains(&word)
            && words.get(1).is_some_and(|next| PREFIXES.contains(next) || RUNNERS.contains(next));
        if is_assignment
            || PREFIXES.contains(&word)
            || starts_another
            || (is_prefixed && word.starts_with('-'))
        {
            is_prefixed |= !is_assignment;
            words.remove(0);
        } else {
            break;
        }
    }
    let program = words.first()?.rsplit('/').next()?;
    let program = program.strip_suffix(".js").unwrap_or(program);
    Some((program, words.split_off(1)))
}

/// Runners that a package manager starts by name.
const RUNNERS: [&str; 6] = ["jest", "vitest", "mocha", "ava", "playwright", "jasmine"];

/// Options of package managers that run a script in other packages.
const OTHER_PACKAGES: [&str; 10] =
    ["-w", "--workspace", "--workspaces", "-ws", "-r", "--recursive", "--filter", "--prefix", "-C", "--cwd"];
/// Programs that run the scripts of several packages.
const TASK_RUNNERS: [&str; 4] = ["turbo", "nx", "lerna", "wireit"];

fn is_for_other_packages(word: &&str) -> bool {
    OTHER_PACKAGES.contains(&word.split('=').next().unwrap_or(word))
}

/// Returns true if a script runs the tests of other packages.
fn calls_packages(script: &str) -> bool {
    commands(script).iter().any(|(_, command)| {
        let program = runner(command).map(|(program, _)| program).unwrap_or_default();
        let is_manager = MANAGERS.contains(&program);
        TASK_RUNNERS.contains(&program)
            || is_manager && command.split_whitespace().any(|word| is_for_other_packages(&word))
    })
}

/// Returns the script that a command of a package manager calls, and the arguments for it.
fn called_script(command: &str) -> Option<(&str, String)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let (manager, rest) = words.split_first()?;
    let own = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
    if !MANAGERS.contains(manager) || rest[..own].iter().any(is_for_other_packages) {
        return None;
    }
    let mut at = rest.iter().position(|word| !word.starts_with('-'))?;
    if ["run", "run-script"].contains(&rest[at]) {
        at += 1 + rest[at + 1..].iter().position(|word| !word.starts_with('-'))?;
    }
    let arguments = &rest[at + 1..];
    let arguments = arguments.strip_prefix(&["--"]).unwrap_or(arguments);
    Some((rest[at], arguments.join(" ")))
}

/// Returns the arguments of a runner that select tests.
fn selection(program: &str, words: &[&str], text: &str) -> Option<Selection> {
    let has = |word: &str| words.contains(&word);
    let (file, name) = filter::file_and_name(text, &filter::SCRIPTS);
    let spaced = name.map(filter::spaced);
    let plain = |option: &str| spaced.as_deref().map(|name| format!("{option}{}", quoted(name)));
    let pattern =
        |option: &str| spaced.as_deref().map(|name| format!("{option}{}", quoted(&filter::pattern(name))));
    let file = file.map(quoted);
    let options = match program {
        "jest" => pattern("-t "),
        "react-scripts" | "craco" | "razzle" if has("test") => pattern("-t "),
        // Without `run`, vitest waits for changes on a terminal.
        "vitest" if has("run") || has("--run") || has("related") => pattern("-t "),
        "vitest" => Some(format!("--run {}", pattern("-t ").unwrap_or_default()).trim_end().to_owned()),
        "mocha" | "ts-mocha" | "electron-mocha" => pattern("--grep "),
        "ava" => spaced.as_deref().map(|name| format!("--match={}", quoted(&format!("*{name}*")))),
        "playwright" if has("test") => pattern("--grep "),
        "jasmine" => pattern("--filter="),
        "qunit" => plain("--filter "),
        "bun" if has("test") => pattern("-t "),
        "deno" if has("test") => plain("--filter "),
        // Node passes arguments after a file to that file.
        "node" | "tsx" if has("--test") => {
            // Node 20 compares a pattern with a test's own name, without the names of its suites.
            let own = name.map(|name| quoted(&filter::pattern(filter::own_name(name))));
            let options = own.map(|own| format!("--test-name-pattern={own}"));
            return Some(Selection { file, options, after: Some("--test") });
        }
        _ => return None,
    };
    Some(Selection { file, options, after: None })
}

#[cfg(test)]
mod tests {
    use super::{Filtered, filtered};

    fn with(script: &str, filter: &str) -> Result<Filtered, String> {
        let scripts = |name: &str| match name {
            "unit" => Some("mocha test".to_owned()),
            "lint" => Some("eslint .".to_owned()),
            "loop" => Some("npm run loop".to_owned()),
            _ => None,
        };
        filtered(script, filter, &scripts)
    }

    #[test]
    fn options_are_appended_where_the_runner_is_last() {
        for (script, expected) in [
            ("jest --ci", "-t 'adds two'"),
            ("tsc && vitest run", "-t 'adds two'"),
            ("vitest --coverage", "--run -t 'adds two'"),
            ("NODE_ENV=test cross-env A=b c8 --all mocha 'test/*.js'", "--grep 'adds two'"),
            ("npx ava", "--match='*adds two*'"),
            ("yarn playwright test", "--grep 'adds two'"),
            ("react-scripts test", "-t 'adds two'"),
            ("bun test", "-t 'adds two'"),
        ] {
            assert_eq!(with(script, "adds › two"), Ok(Filtered::Appended(expected.to_owned())), "{script}");
        }
    }

    #[test]
    fn scripts_are_rewritten_where_options_go_elsewhere() {
        for (script, expected) in [
            ("node --test test/", "node --test --test-name-pattern=adds test/"),
            ("jest && eslint 'a && b'", "jest -t adds && eslint 'a && b'"),
            ("npm run lint && npm run unit", "npm run lint && ( mocha test --grep adds )"),
            ("npm run -s unit -- --bail", "( mocha test --bail --grep adds )"),
            ("yarn unit --bail", "( mocha test --bail --grep adds )"),
        ] {
            assert_eq!(with(script, "adds"), Ok(Filtered::Rewritten(expected.to_owned())), "{script}");
        }
    }

    #[test]
    fn a_file_replaces_the_files_of_the_script() {
        let appended = |text: &str| Ok(Filtered::Appended(text.to_owned()));
        let rewritten = |text: &str| Ok(Filtered::Rewritten(text.to_owned()));
        for (script, filter, expected) in [
            ("jest --ci", "src/a b.test.ts", appended("'src/a b.test.ts'")),
            ("jest", "a.test.ts > math > adds", appended("-t 'math adds' a.test.ts")),
            ("vitest", "a.test.ts", appended("--run a.test.ts")),
            ("ava", "a.test.js", appended("a.test.js")),
            ("bun test", "a.test.js › adds", appended("-t adds a.test.js")),
            ("node --test", "a.test.js", appended("a.test.js")),
            ("node --test test/", "a.test.js", rewritten("node --test a.test.js")),
            (
                "node --test test/*.js",
                "a.test.js::adds",
                rewritten("node --test --test-name-pattern=adds a.test.js"),
            ),
            (
                "cross-env A=b mocha -r ts/register --recursive 'test/**/*.js' && eslint src/",
                "a.test.js",
                rewritten("cross-env A=b mocha -r ts/register --recursive a.test.js && eslint src/"),
            ),
        ] {
            assert_eq!(with(script, filter), expected, "{script}");
        }
    }

    #[test]
    fn node_selects_by_the_tests_own_name() {
        let expected = "node --test --test-name-pattern='adds two'";
        assert_eq!(with("node --test", "math > adds two"), Ok(Filtered::Rewritten(expected.to_owned())));
    }

    #[test]
    fn scripts_without_one_known_runner_are_refused() {
        for (script, reason) in [
            ("tape test/*.js", "no known test runner"),
            ("npm run loop", "no known test runner"),
            ("turbo run test", "give the directory of one as `cwd`"),
            ("npm run unit --workspace=a", "give the directory of one as `cwd`"),
            ("vitest run && playwright test", "vitest, playwright"),
        ] {
            let error = with(script, "adds").unwrap_err();
            assert!(error.contains(reason), "{script}: {error}");
        }
    }
}
