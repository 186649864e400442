//! Whether a command runs the same invocation of a tool again: `pytest a || pytest a`.

use super::wrappers::{has, without_keywords};
use super::{Command, Simple};

/// Programs that may stand between two runs. They change neither the directory nor the variables of the next run, and run no tool.
const BETWEEN: &str = "sleep echo printf true : break continue exit done fi }";
/// Programs that may also stand before the first run and after the last one.
const AROUND: &str = "cd export set";
/// Options and programs with which one command runs the tool several times.
const MULTIPLIERS: &str =
    "xargs hatch -r -F -w -ws --recursive --filter --filter-prod --workspace --workspaces";
/// Words that begin a loop.
const LOOPS: &str = "for while until select";

impl Command {
    /// Returns true if each run of this tool has the same words, there are several (in a list or in a loop), nothing between
    /// them can make the next one another invocation, and no other program of the command may run the tool.
    pub(crate) fn repeats(&self, tools: &[&str]) -> bool {
        let mut runs = self.parts.iter().enumerate().filter(|(_, part)| part.is_of(tools)).peekable();
        let Some((first, run)) = runs.peek().map(|(at, part)| (*at, part.invocation())) else { return false };
        if !is_constant(run)
            || run.iter().any(|word| has(MULTIPLIERS, word.split('=').next().unwrap_or_default()))
        {
            return false;
        }
        let (mut last, mut count) = (first, 0);
        for (at, part) in runs {
            if part.invocation() != run {
                return false;
            }
            (last, count) = (at, count + 1);
        }
        let is_loop = self.parts.iter().any(|part| part.words.first().is_some_and(|word| has(LOOPS, word)));
        // In a loop, each part of the command may stand between two runs.
        let is_around =
            |at: usize, part: &Simple| !is_loop && !(first..=last).contains(&at) && part.is_one_of(AROUND);
        let is_harmless = |(at, part): (usize, &Simple)| {
            part.is_of(tools) || part.counts() || part.is_one_of(BETWEEN) || is_around(at, part)
        };
        (is_loop || count > 1)
            && self.parts.iter().enumerate().all(is_harmless)
            && self.parts.iter().all(|part| !matches!(part.operator.as_str(), "|" | "&"))
            && self.parts.iter().flat_map(|part| &part.words).all(|word| !word.contains(['(', ')']))
    }
}

impl Simple {
    /// Its words without the shell's keywords before them.
    fn invocation(&self) -> &[String] {
        without_keywords(&self.words)
    }

    /// Returns true for the head of a `for` loop whose variable can't be one that a program reads.
    fn counts(&self) -> bool {
        let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase());
        self.words.first().is_some_and(|word| word == "for") && self.words.get(1).is_some_and(is_plain)
    }

    /// Returns true if it runs one of these programs, and writes no file.
    fn is_one_of(&self, programs: &str) -> bool {
        let writes = self.words.iter().any(|word| word.contains('>'));
        !writes && self.invocation().first().is_none_or(|word| has(programs, word))
    }
}

/// Returns true if the words mean the same each time: they contain no variable and no command of their own.
fn is_constant(words: &[String]) -> bool {
    !words.iter().any(|word| word.contains(['$', '`', '*', '?', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_invocation_again_is_known() {
        for line in [
            "pytest a || pytest a",
            "cd a && pytest -q b || sleep 2; pytest -q b",
            "pytest a; pytest a; echo done",
            "if ! pytest a; then pytest a; fi",
            "for i in 1 2 3; do pytest a && break; done",
            "until pytest a; do sleep 1; done",
            "sh -c 'A=1 pytest a || A=1 pytest a'",
            "python3 -m pytest a 2>&1 || python3 -m pytest a 2>&1",
        ] {
            assert!(Command::new(line).repeats(&["pytest"]), "{line}");
        }
    }

    #[test]
    fn another_selection_directory_or_environment_is_another_invocation() {
        for line in [
            "",
            "pytest a",
            "pytest a || pytest b",
            "pytest a || pytest a -k x",
            "pytest a || pytest a; pytest b",
            "A=1 pytest a || A=2 pytest a",
            "pytest a; cd b; pytest a",
            "pytest a; export A=1; pytest a",
            "pytest a; A=1; pytest a",
            "pytest a; git stash; pytest a",
            "(cd a; pytest a); pytest a",
            "pytest $A || pytest $A",
            "pytest a* || pytest a*",
            "for d in a b; do pytest $d; done",
            "for d in a b; do cd $d; pytest; done",
            "for PYTEST_ADDOPTS in -kx -ky; do pytest a; done",
            "while read -r a; do pytest a; done",
            "pytest a | tee log || pytest a",
            "pytest a & pytest a",
            "make test || make test",
            "./unit.sh; pytest e2e || pytest e2e",
            "pytest a || pytest a; npm run unit",
            "sh -c 'pytest a'; pytest b || pytest b",
            "make lint; pytest b || pytest b",
            "echo DB=pg > .env; pytest a; echo DB=sqlite > .env; pytest a",
            "for i in 1 2 3; do xargs -a suites -n1 pytest && break || sleep 5; done",
            "pnpm -r --no-bail exec pytest || pnpm -r --no-bail exec pytest",
            "pnpm --filter ui --filter api exec pytest || pnpm --filter ui --filter api exec pytest",
            "pnpm --filter=ui... exec pytest || pnpm --filter=ui... exec pytest",
            "npm exec -w a -w b -- pytest || npm exec -w a -w b -- pytest",
            "hatch -e test run pytest || hatch -e test run pytest",
        ] {
            assert!(!Command::new(line).repeats(&["pytest"]), "{line}");
        }
    }
}
