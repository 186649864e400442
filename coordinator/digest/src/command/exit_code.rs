//! Whether exit code 0 of a command shows that each of its programs succeeded.

use super::readers::ENDS;
use super::wrappers::has;
use super::{Command, Simple};
use crate::tool::ToolId;

/// Commands after `||` that make a failure not count.
const PARDONS: &str = "true : echo";
/// Option with which a linter exits with 0, whatever it reports.
const EXIT_ZERO: &str = "--exit-zero";
/// Options with which a linter exits with 0 after some of its remarks.
const FAIL_LEVELS: &[&str] = &[
    EXIT_ZERO,
    "--fail-under",
    "--fail-level",
    "--fail-on",
    "--failure-threshold",
    "--fail-severity",
    "--minimum-failure-severity",
];
/// Words after the end of a command that have its exit code.
const CLOSERS: &str = "fi else elif esac }";
/// Words after a condition.
const CONSEQUENCES: &str = "then do";

impl Command {
    /// Returns true if each run of this tool ignores its failure: `tsc || true`, `pylint --exit-zero`.
    pub(crate) fn forgives(&self, tools: &[&str]) -> bool {
        self.all_runs(tools, |at, part| {
            part.operator == "||" && self.parts.get(at + 1).is_some_and(Simple::is_pardon)
                || part.words.iter().any(|word| word == EXIT_ZERO)
        })
    }

    /// Returns true if each run of this linter exits with 0 after some of its remarks: `pylint --fail-under=9`.
    pub(crate) fn accepts_remarks_of(&self, tools: &[&str]) -> bool {
        self.all_runs(tools, |_, part| {
            part.words.iter().any(|word| FAIL_LEVELS.contains(&word.split('=').next().unwrap_or_default()))
        })
    }

    /// Returns true if the command runs the tool, and each run fulfils the condition.
    fn all_runs(&self, tools: &[&str], is: impl Fn(usize, &Simple) -> bool) -> bool {
        let mut runs = self.parts.iter().enumerate().filter(|(_, part)| part.is_of(tools)).peekable();
        runs.peek().is_some() && runs.all(|(at, part)| is(at, part))
    }

    /// Returns true if a pipe can hide the exit code of a program, because `pipefail` is not set.
    pub(crate) fn has_pipe(&self) -> bool {
        !self.pipefail && self.parts.iter().any(|part| part.operator == "|")
    }

    /// Returns true if exit code 0 does not show that each run of this tool succeeded: `pylint a | cat`, `pylint a; make`.
    pub(crate) fn hides_exit_code_of(&self, tools: &[&str]) -> bool {
        self.parts.iter().enumerate().any(|(at, part)| part.is_of(tools) && self.hides_at(at))
    }

    /// Returns true if a pipe can hide the exit code of a program that does more than read: `make lint | cat`.
    pub(crate) fn pipes_program(&self) -> bool {
        let mut parts = self.parts.iter().enumerate();
        !self.pipefail && parts.any(|(at, part)| self.is_before_pipe(at) && !part.only_reads())
    }

    /// Returns true if this part, or a group that may have begun before it, stands before a pipe.
    fn is_before_pipe(&self, at: usize) -> bool {
        let ends_group = |part: &Simple| {
            part.words.first().is_some_and(|word| has(ENDS, word))
                || part.words.last().is_some_and(|word| word.ends_with(')'))
        };
        self.parts[at].operator == "|"
            || self.parts[at..].iter().any(|part| part.operator == "|" && ends_group(part))
    }

    /// Returns true if exit code 0 does not show that each program succeeded: a pipe without `pipefail`, a list
    /// without `set -e`, a program in the background, a script or an unknown command.
    pub(crate) fn may_hide_exit_codes(&self) -> bool {
        let hides = |part: &Simple| match part.operator.as_str() {
            "||" | "&" => true,
            ";" | "\n" => !self.errexit,
            _ => false,
        };
        let before_last = self.parts.len().saturating_sub(1);
        self.is_empty()
            || self.has_pipe()
            || self.parts.iter().take(before_last).any(hides)
            || self.parts.last().is_some_and(|part| part.operator == "&")
            || self.parts.iter().any(Simple::is_script)
    }

    /// Returns true if exit code 0 does not show that the last program succeeded: the last pipeline without `pipefail`,
    /// a program in the background, a script or an unknown command.
    pub(crate) fn may_hide_last_exit_code(&self) -> bool {
        let pipeline = &self.parts[self.last_pipeline()..];
        self.is_empty()
            || pipeline.len() > 1 && !self.pipefail
            || pipeline.iter().any(Simple::is_script)
            || self.parts.last().is_some_and(|part| part.operator == "&")
    }

    /// Returns true if this last line of the log may be of an earlier program whose exit code is not known, because the
    /// programs after it may print nothing: `perl a.pl; rm lock`. Errors of simple programs begin with their names.
    pub(crate) fn may_end_in_silence(&self, line: &str) -> bool {
        let last = self.last_pipeline();
        let printing = (0..self.parts.len()).rev().find(|at| self.prints_always(*at)).unwrap_or(0);
        (printing..last).any(|at| {
            let part = &self.parts[at];
            self.hides_at(at) && (!part.names_itself() || part.prints_as_own(line))
        })
    }

    /// Returns a test runner that the command runs, if exit code 0 does not show that it succeeded.
    pub(crate) fn hidden_runner(&self) -> Option<ToolId> {
        let hidden =
            self.parts.iter().enumerate().filter(|(at, part)| self.hides_at(*at) && !part.only_lists());
        let runner =
            |part: &Simple| ToolId::all().find(|tool| tool.runs_tests && part.is_of(tool.commands()));
        hidden.into_iter().find_map(|(_, part)| runner(part))
    }

    /// Index of the first part of the last pipeline.
    fn last_pipeline(&self) -> usize {
        let before = self.parts.len().saturating_sub(1);
        before - self.parts[..before].iter().rev().take_while(|part| part.operator == "|").count()
    }

    /// Returns true if this part always runs, and prints something.
    fn prints_always(&self, at: usize) -> bool {
        let part = &self.parts[at];
        let is_redirected = part.words.iter().any(|word| word.contains('>') && !word.contains(">&"));
        let is_conditional = at > 0 && matches!(self.parts[at - 1].operator.as_str(), "&&" | "||");
        let prints = part.words.first().is_some_and(|word| word == "echo" || word == "printf");
        (prints || part.runs_tests() || part.runs_script()) && !is_redirected && !is_conditional
    }

    /// Returns true if exit code 0 of the command does not show that this part succeeded.
    fn hides_at(&self, at: usize) -> bool {
        let next = self.parts.get(at + 1);
        let is_before =
            |words: &str| next.and_then(|next| next.words.first()).is_some_and(|word| has(words, word));
        match self.parts[at].operator.as_str() {
            "|" if !self.pipefail => true,
            // The failure skips the programs of the list after it, or is that of the pipeline.
            "|" => self.hides_at(at + 1),
            "&&" => {
                let end = self.parts[at..].iter().find(|part| !matches!(part.operator.as_str(), "&&" | "|"));
                match end.map_or("", |part| part.operator.as_str()) {
                    "||" => self.hides_at(at + 1),
                    operator => matches!(operator, ";" | "\n" | "&"),
                }
            }
            "||" => !next.is_some_and(Simple::is_pardon) && !self.exits_after(at + 1),
            ";" | "\n" => !self.errexit && !is_before(CLOSERS) && !is_before(CONSEQUENCES),
            "&" => true,
            _ => false,
        }
    }

    /// Returns true if the part, or the group that begins with it, ends the command as failed: `|| { echo no; exit 1; }`.
    fn exits_after(&self, at: usize) -> bool {
        let ends = |part: &Simple| {
            let mut words = part.words.iter().skip_while(|word| matches!(word.as_str(), "{" | "("));
            let ends = words.next().is_some_and(|word| matches!(word.as_str(), "exit" | "return" | "false"));
            ends && words.next().is_none_or(|word| word != "0")
        };
        let is_group = |part: &Simple| part.words.first().is_some_and(|word| word.starts_with(['{', '(']));
        let parts = &self.parts[at.min(self.parts.len())..];
        let length = if parts.first().is_some_and(is_group) {
            parts.iter().take_while(|part| part.words.first().is_none_or(|word| word != "}")).count()
        } else {
            1
        };
        parts.iter().take(length).any(ends)
    }
}

/// Options with which a test runner runs no test.
const LISTING: &str = "--version --help -h --co --collect-only --list --list-groups --list-reporters --list-suites \
    --list-tests --listTests --no-run --show-only --showConfig --init";
/// Options with this meaning for one runner. Another one has other meanings for them.
const LISTING_OF: &[(&str, &str)] =
    &[("ctest", "-N"), ("go test", "-c"), ("pytest", "-V"), ("jest", "-v"), ("mocha", "-V")];

impl Simple {
    /// Returns true if an option makes a test runner print something else than results.
    fn only_lists(&self) -> bool {
        self.words.iter().skip(1).any(|word| {
            let option = word.split('=').next().unwrap_or_default();
            let is_own = |(tool, own): &(&str, &str)| *own == option && self.is_of(&[tool]);
            has(LISTING, option) || LISTING_OF.iter().any(is_own)
        })
    }

    fn is_pardon(&self) -> bool {
        self.words.first().is_some_and(|word| has(PARDONS, word)) || self.words == ["exit", "0"]
    }
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
            ("pylint --exit-zero a | tee log", "pylint"),
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
            "bash -eo pipefail -c 'flake8 .' && bash -c 'a; b'",
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
            "bash -eo pipefail -c 'flake8 . | cat; pytest'",
            "bash -euo pipefail -c 'flake8 . | cat; pytest'",
            "bash -e -o pipefail -c 'flake8 . | cat; pytest'",
            "bash --norc -ec 'flake8 .; pytest'",
            "shellcheck a.sh && cat deploy.sh",
            "command -v bash",
        ] {
            assert!(!Command::new(line).may_hide_exit_codes(), "{line}");
        }
    }

    #[test]
    fn a_runner_with_a_hidden_exit_code_is_known() {
        for line in [
            "npx jest | tail -5",
            "for d in a b; do npx mocha $d; done",
            "bundle exec rspec; echo done",
            "deno test 2>&1 | cat",
            "python3 -m pytest -q | tee log",
            "npx jest --coverage --config jest.ci.js 2>&1 | tail -3",
            "npx --yes jest --collectCoverage | tail -3",
            "timeout 60 npx jest | tail -3",
            "nice -n 5 pytest --cov=a --color=no --show-capture=no -c setup.cfg | tail -1",
            "ctest -V | tail",
            "bats a.bats | tail -1",
            "mix test | tail -1",
            "meson test -C b | tail -5",
            "sudo -u ci busted | tail -3",
        ] {
            assert!(Command::new(line).hidden_runner().is_some(), "{line}");
        }
        for line in [
            "npx jest",
            "npx jest || true",
            "set -o pipefail; npx jest | cat",
            "npm test | cat",
            "pytest --version | head -1",
            "pytest --collect-only | tail -3",
            "pytest -V | cat",
            "ctest -N | tail",
            "go test -c ./... | cat",
            "npx jest --listTests | wc -l",
            "pytest && echo ok",
            "deno run a.ts | cat",
            "mix compile | tail -1",
            "meson compile -C b | tail -5",
            "meson test -C b --list | tail -5",
        ] {
            assert!(Command::new(line).hidden_runner().is_none(), "{line}");
        }
    }

    #[test]
    fn only_the_pipe_of_a_program_hides_its_exit_code() {
        for line in
            ["pylint a.py | tee log", "cd a && python3 -m pylint a.py | tail -1; make", "pylint a; make"]
        {
            assert!(Command::new(line).hides_exit_code_of(&["pylint"]), "{line}");
        }
        for line in
            ["", "pylint a.py && make | cat", "set -o pipefail; pylint a.py | cat", "make | cat && pylint a"]
        {
            assert!(!Command::new(line).hides_exit_code_of(&["pylint"]), "{line}");
        }
        for line in [
            "make lint | cat",
            "(make lint; echo done) | tail",
            "for d in a b; do make -C $d lint; done | cat",
            "cat files | xargs make lint | tee log",
        ] {
            assert!(Command::new(line).pipes_program(), "{line}");
        }
        for line in [
            "",
            "make lint",
            "make lint && cat a | head",
            "cat files | xargs make",
            "set -o pipefail; make | cat",
        ] {
            assert!(!Command::new(line).pipes_program(), "{line}");
        }
    }

    #[test]
    fn a_command_that_hides_the_last_exit_code_is_known() {
        for line in ["", "git fetch | tail -1", "make && sh a.sh", "git fetch &", "ci/all.sh", ". ci/all.sh"]
        {
            assert!(Command::new(line).may_hide_last_exit_code(), "{line}");
        }
        for line in [
            "git describe; make",
            "git fetch || true",
            "set -o pipefail; git fetch | cat",
            "make",
            "ls | sort > x; make",
            "curl a | tar xz && make test",
            "bash -o pipefail -c 'git fetch | cat'",
            "cat deploy.sh",
        ] {
            assert!(!Command::new(line).may_hide_last_exit_code(), "{line}");
        }
    }

    #[test]
    fn an_earlier_program_may_have_printed_the_last_line() {
        for line in [
            "perl a.pl; rm -f lock",
            "perl a.pl; true",
            "perl a.pl || rm -f lock",
            "perl a.pl; echo x >f",
            "perl a.pl && echo ok; rm lock",
            "perl a.pl | tee log; exit 0",
            "perl a.pl & wait",
            "for f in a b; do perl $f; done",
            "if a; then perl a.pl; fi; rm lock",
            "sh -c 'perl a.pl; cd b'",
            "perl a.pl; make",
            "perl a.pl; npm --silent test",
            "perl a.pl; npm ci",
            "perl a.pl; CI=1 yarn run check",
        ] {
            assert!(Command::new(line).may_end_in_silence("no table at a.pl line 3."), "{line}");
        }
        for line in [
            "perl a.pl",
            "cd a; perl a.pl",
            "mkdir a; perl a.pl",
            "perl a.pl && rm lock",
            "perl a.pl || true",
            "perl a.pl || exit 1",
            "perl a.pl || { echo no; exit 1; }",
            "set -e; perl a.pl; rm lock",
            "bash -ec 'perl a.pl; rm lock'",
            "perl a.pl; echo done",
            "perl a.pl; pytest",
            "perl a.pl; npm test",
            "if [ -f a ]; then perl a.pl; fi",
            "cat a.log; make",
        ] {
            assert!(!Command::new(line).may_end_in_silence("no table at a.pl line 3."), "{line}");
        }
        let error = "cp: cannot stat 'a': No such file or directory";
        assert!(Command::new("cp a b; make").may_end_in_silence(error));
        assert!(!Command::new("mv a b; make").may_end_in_silence(error));
    }

    #[test]
    fn options_that_accept_remarks_are_known() {
        for line in ["pylint --fail-under=9 a | cat", "pylint --fail-under 9 a", "pylint --exit-zero a"] {
            assert!(Command::new(line).accepts_remarks_of(&["pylint"]), "{line}");
        }
        for line in
            ["pylint a", "coverage report --fail-under=80; pylint a", "pylint a; pylint --fail-under=9 b"]
        {
            assert!(!Command::new(line).accepts_remarks_of(&["pylint"]), "{line}");
        }
    }
}
