//! Parses a command line to find the tools that it runs. It covers the part of shell syntax that
//! needs no shell.

use crate::tool::ToolId;
use crate::xcodebuild;

/// Programs that run the program named in their arguments.
const CARRIERS: &[&str] = &[
    "env", "npx", "bunx", "exec", "run", "time", "nice", "command", "pnpm", "yarn", "poetry", "uv", "pipenv",
    "hatch", "pdm", "dlx", "timeout", "nohup", "stdbuf", "bundle",
];
/// Commands after `||` that make a failure not count.
const PARDONS: &[&str] = &["true", ":", "echo"];
/// Options that make a shell run text from its arguments.
const SHELL_OPTIONS: &[&str] = &["-c", "-lc", "-ec", "-euc", "-xc", "-exc", "-ic"];
/// Maven options that accept it if no test has the given name.
const NO_MATTER_IF_NONE: &[&str] = &[
    "-DfailIfNoTests=false",
    "-Dsurefire.failIfNoTests=false",
    "-DfailIfNoSpecifiedTests=false",
    "-Dsurefire.failIfNoSpecifiedTests=false",
    "-Dit.failIfNoSpecifiedTests=false",
    "-Dfailsafe.failIfNoSpecifiedTests=false",
];
/// Options of test runners that select tests by name. Each is followed by a space or `=`.
const SELECTIONS: &[&str] = &[
    "-t",
    "--testNamePattern",
    "--test-name-pattern",
    "-g",
    "--grep",
    "--match",
    "--only",
    "--example",
    "-k",
    "-run",
    "-R",
    "--tests-regex",
    "--tests",
    "--filter",
    "--name",
    "-Dtest",
];
/// Test runners. A command with one of them is a test run, also if it was not chosen by `run_tests`.
const RUNNERS: &[&str] = &[
    "pytest",
    "unittest",
    "go test",
    "cargo test",
    "cargo nextest",
    "jest",
    "vitest",
    "mocha",
    "ctest",
    "node --test",
    "swift test",
    "rspec",
    "dotnet test",
];
/// Ends of the names of test files. A line number may follow: `a_spec.rb:7`.
const TEST_FILES: &[&str] =
    &[".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".rb", ".exs", ".php", ".go"];
/// Beginning of xcodebuild's option that selects tests.
const ONLY_TESTING: &str = "-only-testing:";
/// Maximum length of a command that is parsed, in bytes.
const BYTES_MAX: usize = 16 << 10;

/// A simple command with its words and the operator after it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Simple {
    words: Vec<String>,
    operator: String,
}

/// A command line, split into simple commands.
#[derive(Debug, Default)]
pub(crate) struct Command(Vec<Simple>);

impl Command {
    /// Parses the line. If it runs a shell with `-c`, parses the text of that shell instead.
    pub(crate) fn new(line: &str) -> Self {
        let line = if line.len() > BYTES_MAX { "" } else { line };
        let parts = parsed(line);
        if let [Simple { words, .. }] = parts.as_slice()
            && let [shell, option, text, ..] = words.as_slice()
            && is_shell(shell)
            && SHELL_OPTIONS.contains(&option.as_str())
        {
            return Self(parsed(text));
        }
        Self(parts)
    }

    /// Returns true if each run of this tool ignores its failure: `tsc || true`.
    pub(crate) fn forgives(&self, tools: &[&str]) -> bool {
        let is_pardon = |after: &Simple| {
            after.words.first().is_some_and(|word| PARDONS.contains(&word.as_str()))
                || after.words == ["exit", "0"]
        };
        let mut runs = self.0.iter().enumerate().filter(|(_, part)| part.is_of(tools)).peekable();
        runs.peek().is_some()
            && runs.all(|(at, part)| part.operator == "||" && self.0.get(at + 1).is_some_and(is_pardon))
    }

    /// Returns true if a pipe can hide the exit code of a program, because `pipefail` is not set.
    pub(crate) fn has_pipe(&self) -> bool {
        let pipes = self.0.iter().any(|part| part.operator == "|");
        pipes && !self.0.iter().any(|part| part.words.iter().any(|word| word == "pipefail"))
    }

    /// Returns true if exit code 0 does not show that each program succeeded: a pipe without `pipefail`, a list
    /// without `set -e`, a program in the background, a script or an unknown command.
    pub(crate) fn may_hide_exit_codes(&self) -> bool {
        let ends_at_failure = self.0.iter().any(|part| {
            part.words.first().is_some_and(|word| word == "set")
                && part.words.iter().any(|word| word.starts_with("-e") || word == "errexit")
        });
        let hides = |part: &Simple| match part.operator.as_str() {
            "||" | "&" => true,
            ";" | "\n" => !ends_at_failure,
            _ => false,
        };
        let before_last = self.0.len().saturating_sub(1);
        self.is_empty()
            || self.has_pipe()
            || self.0.iter().take(before_last).any(hides)
            || self.0.last().is_some_and(|part| part.operator == "&")
            || self.0.iter().any(Simple::is_script)
    }

    /// Returns true if exit code 0 does not show that the last program succeeded: a pipe without `pipefail`, a
    /// program in the background, a script or an unknown command.
    pub(crate) fn may_hide_last_exit_code(&self) -> bool {
        self.is_empty()
            || self.has_pipe()
            || self.0.last().is_some_and(|part| part.operator == "&" || part.is_script())
    }

    /// Last action of the last xcodebuild call.
    pub(crate) fn xcodebuild_action(&self) -> Option<&'static str> {
        let last = self.0.iter().rev().find(|part| part.is_of(ToolId::Xcodebuild.commands()))?;
        xcodebuild::last_action(last.words.iter().map(String::as_str))
    }

    /// Returns true if the command is not known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a word of the command contains one of these texts.
    pub(crate) fn names_any(&self, texts: &[&str]) -> bool {
        let mut words = self.0.iter().flat_map(|part| &part.words);
        words.any(|word| texts.iter().any(|text| word.contains(text)))
    }

    /// Returns true if the command runs this tool.
    pub(crate) fn runs(&self, tools: &[&str]) -> bool {
        self.0.iter().any(|part| part.is_of(tools))
    }

    /// Test filter of a Maven call that also accepts it if no test matches. Many modules have no
    /// test of the given name.
    pub(crate) fn tests_asked_of_maven(&self) -> Option<&str> {
        self.0.iter().filter(|part| part.is_of(ToolId::Maven.commands())).find_map(|part| {
            let of = |starts: &[&str]| {
                part.words.iter().find(|word| starts.iter().any(|start| word.starts_with(start)))
            };
            of(NO_MATTER_IF_NONE)?;
            if of(&["-DskipTests", "-DskipITs", "-Dmaven.test.skip"]).is_some() {
                return None;
            }
            of(&["-Dtest=", "-Dit.test="]).map(String::as_str)
        })
    }

    /// Returns true if the command selects tests by name: with an option, or with a node id of
    /// pytest.
    pub(crate) fn selects_tests(&self) -> bool {
        let is_selection = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            SELECTIONS.contains(&name) || word.starts_with(ONLY_TESTING) || word.contains(".py::")
        };
        // meson's names are arguments without an option.
        let is_meson_name =
            |pair: &[String]| pair[0] != "-C" && !pair[1].starts_with('-') && pair[1] != "test";
        self.0.iter().any(|part| {
            part.words.iter().skip(1).any(is_selection)
                || part.is_of(&["meson test"]) && part.words.windows(2).any(is_meson_name)
        })
    }

    /// Returns true if an argument of the command is a source file. In the command of a test run, such an argument
    /// selects tests.
    pub(crate) fn names_files(&self) -> bool {
        let is_file = |word: &String| {
            let file = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
            !word.starts_with('-') && TEST_FILES.iter().any(|end| file.ends_with(end))
        };
        self.0.iter().any(|part| part.words.iter().skip(1).any(is_file))
    }

    /// Returns true if the command runs a test runner by itself.
    pub(crate) fn runs_tests(&self) -> bool {
        self.runs(RUNNERS)
    }

    /// Returns true if the command runs only this tool, apart from `cd`.
    pub(crate) fn runs_only(&self, tools: &[&str]) -> bool {
        let mut others = self.0.iter().filter(|part| part.words.first().is_none_or(|word| word != "cd"));
        others.next().is_some_and(|part| part.is_of(tools)) && others.next().is_none()
    }
}

impl Simple {
    /// Returns true if this part runs a shell or a script of a shell.
    fn is_script(&self) -> bool {
        self.words.iter().take(2).any(|word| is_shell(word) || word.ends_with(".sh"))
    }

    /// Returns true if this part runs the tool. A tool can have a second word: `node --test`.
    fn is_of(&self, tools: &[&str]) -> bool {
        let is_set = |word: &String| word.contains('=') && !word.starts_with('-');
        let is_carrier = |word: &String| CARRIERS.contains(&word.as_str());
        let mut words = self.words.iter().skip_while(|word| is_set(word) || is_carrier(word));
        let Some(program) = words.next() else { return false };
        let name = program.rsplit('/').next().unwrap_or_default();
        let rest: Vec<&str> = words.map(String::as_str).collect();
        let is_one = |tool: &&str| {
            let mut parts = tool.split(' ');
            let (first, second) = (parts.next().unwrap_or_default(), parts.next());
            let is_named = name == first && second.is_none_or(|second| rest.contains(&second));
            let is_module = name.starts_with("python") && rest.windows(2).any(|pair| pair == ["-m", tool]);
            is_named || is_module
        };
        tools.iter().any(is_one)
    }
}

fn is_shell(word: &str) -> bool {
    ["sh", "bash", "zsh", "dash", "ksh"].contains(&word.rsplit('/').next().unwrap_or_default())
}

/// Splits a line into its simple commands, in order.
fn parsed(line: &str) -> Vec<Simple> {
    let mut parts = Vec::new();
    let mut part = Simple::default();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, ' ' | '\t') => part.words.extend(word.take()),
            // `2>&1` and `&>log` are redirections, not operators.
            (None, '&')
                if chars.peek() == Some(&'>') || word.as_ref().is_some_and(|word| word.ends_with('>')) =>
            {
                word.get_or_insert_default().push(c);
            }
            (None, ';' | '&' | '|' | '\n') => {
                part.words.extend(word.take());
                part.operator.push(c);
                if matches!(c, '&' | '|') && chars.peek() == Some(&c) {
                    part.operator.extend(chars.next());
                }
                if !part.words.is_empty() {
                    parts.push(std::mem::take(&mut part));
                }
                part.operator.clear();
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    part.words.extend(word);
    if !part.words.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_the_command_does_not_mind_is_forgiven() {
        for (line, tool) in [
            ("tsc || true; pytest -q", "tsc"),
            ("npx tsc -p . || :; pytest", "tsc"),
            ("sh -c 'eslint \"a b\" || echo no; pytest -q'", "eslint"),
            ("python3 -m mypy . || exit 0", "mypy"),
            ("tsc >log 2>&1 || true; pytest", "tsc"),
            ("tsc &>log || true; tsc -p b || :", "tsc"),
            ("node --test || true\npytest", "node --test"),
        ] {
            assert!(Command::new(line).forgives(&[tool]), "{line}");
        }
        for (line, tool) in [
            ("tsc; pytest -q", "tsc"),
            ("tsc && pytest || true", "tsc"),
            ("tsc || exit 1; pytest", "tsc"),
            ("echo 'tsc || true'", "tsc"),
            ("tsc | true", "tsc"),
            ("tsc || true; tsc -p core; pytest", "tsc"),
            ("cargo clippy || true; cargo build | tee log", "cargo"),
            ("", "tsc"),
        ] {
            assert!(!Command::new(line).forgives(&[tool]), "{line}");
        }
    }

    #[test]
    fn a_command_that_hides_exit_codes_is_known() {
        for line in [
            "",
            "flake8 . | tee log",
            "flake8 .; echo done",
            "for d in a b; do flake8 $d; done",
            "flake8 . || true",
            "flake8 . &",
            "sh lint.sh",
            "ci/lint.sh && echo ok",
            "bash -c 'shellcheck a.sh; true'",
        ] {
            assert!(Command::new(line).may_hide_exit_codes(), "{line}");
        }
        for line in [
            "flake8 --exit-zero .",
            "flake8 . && pytest",
            "set -o pipefail; set -e; flake8 . | cat",
            "set -eu; flake8 .; pytest",
            "cd a && pylint a.py 2>&1",
            "sh -c 'flake8 .'",
        ] {
            assert!(!Command::new(line).may_hide_exit_codes(), "{line}");
        }
    }

    #[test]
    fn a_command_that_hides_the_last_exit_code_is_known() {
        for line in ["", "git fetch | tail -1", "make && sh a.sh", "git fetch &", "ci/all.sh"] {
            assert!(Command::new(line).may_hide_last_exit_code(), "{line}");
        }
        for line in ["git describe; make", "git fetch || true", "set -o pipefail; git fetch | cat", "make"] {
            assert!(!Command::new(line).may_hide_last_exit_code(), "{line}");
        }
    }

    #[test]
    fn tests_that_maven_is_asked_for_are_known() {
        let mind_none = "-Dsurefire.failIfNoSpecifiedTests=false";
        for (line, asked) in [
            (format!("mvn --batch-mode test -Dtest='a b' {mind_none}"), Some("-Dtest=a b")),
            (format!("sh -c 'cd a && ./mvnw {mind_none} -Dit.test=B verify'"), Some("-Dit.test=B")),
            ("mvn test -Dtest=A".to_owned(), None),
            (format!("mvn test {mind_none}"), None),
            (format!("mvn install -DskipTests -Dtest=A {mind_none}"), None),
            (format!("gradle test -Dtest=A {mind_none}"), None),
        ] {
            assert_eq!(Command::new(&line).tests_asked_of_maven(), asked, "{line}");
        }
    }

    #[test]
    fn a_selection_of_tests_is_known() {
        for line in [
            "npm test -- -t 'adds two'",
            "node --test --test-name-pattern=adds",
            "cd a && ctest --test-dir build --tests-regex a",
            "python3 -m pytest tests/test_a.py::test_b",
            "mvn test -Dtest=A#b",
            "xcodebuild test -scheme A -only-testing:T/C/m",
            "{ test -f b || meson setup b; } && meson test -C build --print-errorlogs 'a b'",
        ] {
            assert!(Command::new(line).selects_tests(), "{line}");
        }
        for line in
            ["npm test", "pytest -q tests", "cargo test", "npm test && echo 'a -t b'", "meson test -C b"]
        {
            assert!(!Command::new(line).selects_tests(), "{line}");
        }
    }

    #[test]
    fn arguments_that_are_source_files_are_known() {
        for line in ["npm test -- a.test.ts", "pytest tests/test_a.py", "bundle exec rspec spec/a_spec.rb:7"]
        {
            assert!(Command::new(line).names_files(), "{line}");
        }
        for line in ["npm test", "./run.py", "pytest --config=a.py", "go test ./..."] {
            assert!(!Command::new(line).names_files(), "{line}");
        }
    }

    #[test]
    fn a_test_run_is_known() {
        for line in
            ["go test ./... -run A", "cd a && python3 -m unittest -k a", "npx jest", "sh -c 'ctest -R a'"]
        {
            assert!(Command::new(line).runs_tests(), "{line}");
        }
        for line in ["go build ./...", "make test", "cat jest", "grep -k a"] {
            assert!(!Command::new(line).runs_tests(), "{line}");
        }
    }

    #[test]
    fn a_command_that_runs_one_tool_is_known() {
        for (line, tool) in [
            ("pytest -q", "pytest"),
            ("cd a && CI=1 python -m pytest", "pytest"),
            ("bash -lc 'npx mocha -R dot'", "mocha"),
            ("./node_modules/.bin/mocha", "mocha"),
            ("node --test a.mjs", "node --test"),
            ("python3 -m unittest discover", "unittest"),
        ] {
            assert!(Command::new(line).runs_only(&[tool]), "{line}");
        }
        for (line, tool) in
            [("tsc; pytest", "pytest"), ("make test", "pytest"), ("node a.js", "node --test"), ("", "pytest")]
        {
            assert!(!Command::new(line).runs_only(&[tool]), "{line}");
        }
    }
}
