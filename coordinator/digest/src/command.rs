//! Parses a command line to find the tools that it runs. It covers the part of shell syntax that
//! needs no shell.

mod exit_code;
mod readers;
mod repeated;
mod wrappers;

use crate::tool::ToolId;
use wrappers::unwrapped;

/// Ends of the names of test files. A line number may follow: `a_spec.rb:7`.
const TEST_FILES: &[&str] =
    &[".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".rb", ".exs", ".php", ".go"];
/// Maximum length of a command that is parsed, in bytes.
const BYTES_MAX: usize = 16 << 10;

/// A simple command with its words and the operator after it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Simple {
    words: Vec<String>,
    operator: String,
    /// Index in `words` of the program, after wrappers and variables. Stored, because each tool's check reads it.
    program_at: usize,
    /// File name of the program, without directories. Empty if the part only sets variables.
    name: String,
}

/// A command line, split into simple commands.
#[derive(Debug, Default)]
pub(crate) struct Command {
    parts: Vec<Simple>,
    /// A pipeline fails if one of its programs does.
    pipefail: bool,
    /// A list ends at the first failure.
    errexit: bool,
}

impl Command {
    /// Parses the line. If it runs a shell with `-c`, parses the text of that shell instead.
    pub(crate) fn new(line: &str) -> Self {
        let line = if line.len() > BYTES_MAX { "" } else { line };
        let mut command = Self { parts: parsed(line), ..Self::default() };
        if let [part] = command.parts.as_slice()
            && let Some(of_shell) = of_shell(unwrapped(&part.words))
        {
            command = of_shell;
        }
        let sets = |part: &&Simple| part.words.first().is_some_and(|word| word == "set");
        for word in command.parts.iter().filter(sets).flat_map(|part| part.words.iter().skip(1)) {
            command.pipefail |= word == "pipefail";
            command.errexit |= word == "errexit" || word.starts_with('-') && word.contains('e');
        }
        command
    }

    /// Returns true if the command is not known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns true if a word of the command contains one of these texts.
    pub(crate) fn names_any(&self, texts: &[&str]) -> bool {
        let mut words = self.parts.iter().flat_map(|part| &part.words);
        words.any(|word| texts.iter().any(|text| word.contains(text)))
    }

    /// Returns true if the command runs this tool.
    pub(crate) fn runs(&self, tools: &[&str]) -> bool {
        self.parts.iter().any(|part| part.is_of(tools))
    }

    /// Words of each run of this tool.
    pub(crate) fn runs_of(&self, tools: &[&str]) -> impl Iterator<Item = &[String]> {
        self.parts.iter().filter(|part| part.is_of(tools)).map(|part| part.words.as_slice())
    }

    /// Returns true if the command selects tests by name.
    pub(crate) fn selects_tests(&self) -> bool {
        let is_selection = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            ToolId::all().any(|tool| tool.selections.contains(&name))
        };
        self.parts.iter().any(|part| {
            part.words.iter().skip(1).any(is_selection)
                || ToolId::all().any(|tool| (tool.selects_tests)(&part.words))
        })
    }

    /// Returns true if an argument of the command is a source file. In the command of a test run, such an argument
    /// selects tests.
    pub(crate) fn names_files(&self) -> bool {
        let is_file = |word: &String| {
            let file = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
            !word.starts_with('-') && TEST_FILES.iter().any(|end| file.ends_with(end))
        };
        self.parts.iter().any(|part| part.words.iter().skip(1).any(is_file))
    }

    /// Returns true if the command runs a test runner by itself.
    pub(crate) fn runs_tests(&self) -> bool {
        self.parts.iter().any(Simple::runs_tests)
    }

    /// Returns true if the command runs only this tool, apart from `cd`.
    pub(crate) fn runs_only(&self, tools: &[&str]) -> bool {
        let mut others = self.parts.iter().filter(|part| part.words.first().is_none_or(|word| word != "cd"));
        others.next().is_some_and(|part| part.is_of(tools)) && others.next().is_none()
    }
}

impl Simple {
    /// Returns true if this part runs a shell or a script of a shell.
    fn is_script(&self) -> bool {
        self.program().is_some_and(|(program, arguments)| match program {
            "." | "source" => arguments.first().is_some_and(|file| file.ends_with(".sh")),
            program => is_shell(program) || program.ends_with(".sh"),
        })
    }

    /// Name and arguments of the program that this part runs. `None` if it only sets variables.
    fn program(&self) -> Option<(&str, &[String])> {
        Some((&self.name, self.words.get(self.program_at + 1..)?))
    }

    /// Sets `program_at` and `name` from `words`.
    fn find_program(&mut self) {
        let inner = unwrapped(&self.words);
        let program = inner.first().map_or("", |word| word.trim_start_matches('(').trim_end_matches(')'));
        self.program_at = self.words.len() - inner.len();
        self.name = program.rsplit('/').next().unwrap_or_default().to_owned();
    }

    /// Returns true if this part runs a test runner.
    fn runs_tests(&self) -> bool {
        ToolId::all().any(|tool| tool.runs_tests && self.is_of(tool.commands()))
    }

    /// Returns true if this part runs a script of a package. The package manager prints its name first.
    fn runs_script(&self) -> bool {
        let is_silent = |word: &String| matches!(word.as_str(), "-s" | "--silent");
        self.program().is_some_and(|(program, arguments)| {
            let script = arguments.iter().find(|word| !word.starts_with('-'));
            matches!(program, "npm" | "pnpm")
                && script.is_some_and(|word| {
                    matches!(word.as_str(), "run" | "run-script" | "test" | "t" | "start")
                })
                && !arguments.iter().any(is_silent)
        })
    }

    /// Returns true if this part runs the tool. A tool can have a second word: `node --test`.
    fn is_of(&self, tools: &[&str]) -> bool {
        let Some((program, arguments)) = self.program() else { return false };
        // `jest@29` of npx.
        let name = program.split('@').next().filter(|name| !name.is_empty()).unwrap_or(program);
        let runs_modules = name.starts_with("python") || name.starts_with("pypy") || name == "coverage";
        // `yarn jest`, `yarn run jest`, `run jest` of a workspace.
        let script = match name {
            "pnpm" | "yarn" | "run" => {
                let mut words = arguments.iter().filter(|word| !word.starts_with('-') && *word != "run");
                words.next().map(String::as_str)
            }
            _ => None,
        };
        // Asked for each tool and part, so a name that differs is found without a search for the second word.
        let is_run_as = |tool: &str, name: &str| {
            tool.strip_prefix(name).is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix(' ')
                        .is_some_and(|second| arguments.iter().any(|word| word == second))
            })
        };
        let is_one = |tool: &&str| {
            is_run_as(tool, name)
                || script.is_some_and(|script| is_run_as(tool, script))
                || runs_modules && arguments.windows(2).any(|pair| pair[0] == "-m" && pair[1] == *tool)
        };
        tools.iter().any(is_one)
    }
}

/// The text that a shell runs with `-c`, parsed, with the options of the shell: `bash -eo pipefail -c 'make | cat'`.
fn of_shell(words: &[String]) -> Option<Command> {
    let mut words = words.iter();
    words.next().filter(|word| is_shell(word))?;
    let (mut command, mut runs_text) = (Command::default(), false);
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else {
            command.parts = parsed(word);
            return runs_text.then_some(command);
        };
        if letters.starts_with('-') {
            continue;
        }
        command.errexit |= letters.contains('e');
        runs_text |= letters.contains('c');
        if letters.contains('o') {
            let name = words.next()?;
            command.pipefail |= name == "pipefail";
            command.errexit |= name == "errexit";
        }
    }
    None
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
    parts.iter_mut().for_each(Simple::find_program);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

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
