//! Scripts of package.json: detects the test runner of a script, and adds a filter for that runner.

use crate::project::filter;
use buildpool_protocol::shell::quoted;

/// Maximum depth of scripts that call scripts.
const DEPTH_MAX: usize = 4;

/// A filtered script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Filtered {
    /// Options to append. The runner is the last command of the script itself.
    Appended(String),
    /// The whole script, with the options inserted.
    Rewritten(String),
}

/// The options that select tests by name, and their position.
enum Options {
    /// After the arguments.
    Last(String),
    /// After this argument.
    After(&'static str, String),
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
    match found.as_slice() {
        [] => Err(format!("no known test runner is in `{script}`")),
        [_] => match last_options(script, filter) {
            Some(options) => Ok(Filtered::Appended(options)),
            None => Ok(Filtered::Rewritten(rewritten)),
        },
        several => Err(format!("it calls several test runners ({})", several.join(", "))),
    }
}

/// Returns the options if the script's last command is the runner and accepts them at the end.
fn last_options(script: &str, filter: &str) -> Option<String> {
    let (_, last) = commands(script).pop()?;
    match runner(last).and_then(|(name, words)| options(name, &words, filter))? {
        Options::Last(options) => Some(options),
        Options::After(..) => None,
    }
}

/// Returns the script with options for each of its runners. Adds the names of the runners to
/// `found`.
fn rewrite(
    script: &str,
    filter: &str,
    scripts: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    found: &mut Vec<String>,
) -> String {
    let mut text = String::new();
    for (separator, command) in commands(script) {
        text.push_str(separator);
        let with_options = runner(command).and_then(|(name, words)| {
            let options = options(name, &words, filter)?;
            found.push(name.to_owned());
            Some(match options {
                Options::Last(options) => format!("{} {options} ", command.trim_end()),
                Options::After(word, options) => command.replacen(word, &format!("{word} {options}"), 1),
            })
        });
        if let Some(command) = with_options {
            text.push_str(&command);
            continue;
        }
        let inner = called_script(command).filter(|_| depth < DEPTH_MAX).and_then(scripts);
        let before = found.len();
        let inner = inner.map(|inner| rewrite(&inner, filter, scripts, depth + 1, found));
        match inner {
            Some(inner) if found.len() > before => text.push_str(&format!(" ( {} ) ", inner.trim())),
            _ => text.push_str(command),
        }
    }
    text.trim().to_owned()
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

/// Returns the script that a command of a package manager calls.
fn called_script(command: &str) -> Option<&str> {
    let words: Vec<&str> = command.split_whitespace().filter(|word| !word.starts_with('-')).collect();
    match words.as_slice() {
        [manager, "run" | "run-script", name, ..] if MANAGERS.contains(manager) => Some(name),
        [manager, name, ..] if MANAGERS.contains(manager) => Some(name),
        _ => None,
    }
}

/// Returns the options of a runner that select tests by name.
fn options(program: &str, words: &[&str], name: &str) -> Option<Options> {
    let has = |word: &str| words.contains(&word);
    let spaced = filter::spaced(name);
    let pattern = quoted(&filter::pattern(&spaced));
    Some(match program {
        "jest" => Options::Last(format!("-t {pattern}")),
        "react-scripts" | "craco" | "razzle" if has("test") => Options::Last(format!("-t {pattern}")),
        // Without `run`, vitest waits for changes on a terminal.
        "vitest" if has("run") || has("--run") || has("related") => Options::Last(format!("-t {pattern}")),
        "vitest" => Options::Last(format!("--run -t {pattern}")),
        "mocha" | "ts-mocha" | "electron-mocha" => Options::Last(format!("--grep {pattern}")),
        "ava" => Options::Last(format!("--match={}", quoted(&format!("*{spaced}*")))),
        "playwright" if has("test") => Options::Last(format!("--grep {pattern}")),
        "jasmine" => Options::Last(format!("--filter={pattern}")),
        "qunit" => Options::Last(format!("--filter {}", quoted(&spaced))),
        "bun" if has("test") => Options::Last(format!("-t {pattern}")),
        "deno" if has("test") => Options::Last(format!("--filter {}", quoted(&spaced))),
        // Node passes arguments after a file to that file.
        "node" | "tsx" if has("--test") => {
            // Node 20 compares a pattern with a test's own name, without the names of its suites.
            let own = name.rsplit(" > ").next().unwrap_or(name);
            Options::After("--test", format!("--test-name-pattern={}", quoted(&filter::pattern(own))))
        }
        _ => return None,
    })
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
        ] {
            assert_eq!(with(script, "adds"), Ok(Filtered::Rewritten(expected.to_owned())), "{script}");
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
            ("vitest run && playwright test", "vitest, playwright"),
        ] {
            let error = with(script, "adds").unwrap_err();
            assert!(error.contains(reason), "{script}: {error}");
        }
    }
}
