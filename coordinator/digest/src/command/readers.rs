//! Programs that only read files or logs: errors in their output are those of another run.

use super::wrappers::has;
use super::{Command, Simple};

/// Programs that print what they read, and parts of a command line that print nothing of their own.
const READERS: &str = "cat tac head tail less more zcat bzcat xzcat zless bat nl grep egrep fgrep zgrep rg ag ack sed \
    awk gawk mawk cut paste column fold fmt sort uniq tr rev wc tee jq yq ls tree find fd stat file \
    du df diff cmp comm strings xxd od hexdump base64 md5sum sha256sum journalctl dmesg echo printf \
    pwd date which type command read cd pushd popd export unset set shopt true : sleep test [ [[ for \
    done fi esac }";
/// Programs that change files, or the shell, and begin each error with their name.
const QUIET: &str = "cp mv rm rmdir mkdir ln chmod chown touch kill wait trap ulimit umask curl tar gzip gunzip unzip \
    xz dd install";
/// Ends of loops, conditions and groups.
pub(super) const ENDS: &str = "done fi esac }";
/// Options of programs with subcommands that take a value.
const VALUED: &str =
    "-C -c -n -f -H -p -R --namespace --context --git-dir --work-tree --file --repo --project-name";
/// Options of `find` that run a program.
const RUNNING: &str = "-exec -execdir -ok -okdir";

/// Programs of which some subcommands only read.
struct Subcommands {
    programs: &'static [&'static str],
    /// Words before the subcommand.
    groups: &'static [&'static str],
    reading: &'static [&'static str],
    /// Beginnings of the program's own errors, apart from its name.
    errors: &'static [&'static str],
}

const SUBCOMMANDS: &[Subcommands] = &[
    Subcommands {
        programs: &["git"],
        groups: &[],
        reading: &[
            "grep",
            "log",
            "show",
            "diff",
            "blame",
            "status",
            "ls-files",
            "ls-tree",
            "cat-file",
            "reflog",
            "shortlog",
            "rev-list",
            "rev-parse",
        ],
        errors: &["fatal: "],
    },
    Subcommands {
        programs: &["docker", "podman", "nerdctl", "docker-compose", "podman-compose"],
        groups: &["compose", "container", "service"],
        reading: &["logs", "ps", "inspect"],
        errors: &["Error response from daemon", "Cannot connect to the Docker daemon", "Error: No such "],
    },
    Subcommands {
        programs: &["kubectl", "oc"],
        groups: &[],
        reading: &["logs", "get", "describe", "events"],
        errors: &["Error from server", "The connection to the server", "Unable to connect to the server"],
    },
    Subcommands {
        programs: &["gh"],
        groups: &["run", "pr", "issue"],
        reading: &["view", "list", "diff"],
        errors: &[],
    },
];

impl Command {
    /// Returns true if each program of the command only reads: `docker logs app | tail`, `cd a && grep -rn error .`
    pub(crate) fn only_reads(&self) -> bool {
        !self.is_empty() && self.parts.iter().all(Simple::only_reads)
    }

    /// Returns true if a program of the command prints such a line about itself: `tail: cannot open 'a'`.
    pub(crate) fn prints_as_own(&self, line: &str) -> bool {
        self.parts.iter().any(|part| part.prints_as_own(line))
    }
}

impl Simple {
    /// Returns true if this part only reads.
    pub(super) fn only_reads(&self) -> bool {
        // Such a word runs another command: `$(make)`, `<(make)`, `awk '{ system($1) }'`.
        let is_nested = |word: &String| {
            word.contains("$(") || word.contains('`') || word.starts_with("<(") || word.contains("system(")
        };
        if self.words.iter().any(is_nested) {
            return false;
        }
        let Some((program, arguments)) = self.program() else { return true };
        match program {
            "find" | "fd" => {
                arguments.windows(2).all(|pair| !has(RUNNING, &pair[0]) || has(READERS, &pair[1]))
            }
            _ => has(READERS, program) || of_program(program).is_some_and(|of| of.reads(arguments)),
        }
    }

    /// Returns true if each error of this part begins with the name of its program. A loop or a condition may run any one.
    pub(super) fn names_itself(&self) -> bool {
        let ends_group = self.words.first().is_some_and(|word| has(ENDS, word));
        !ends_group && self.only_reads() || self.program().is_some_and(|(program, _)| has(QUIET, program))
    }

    /// Returns true if this part's program prints such a line about itself.
    pub(super) fn prints_as_own(&self, line: &str) -> bool {
        let Some((program, _)) = self.program() else { return false };
        line.strip_prefix(program).is_some_and(|rest| rest.starts_with(": "))
            || of_program(program).is_some_and(|of| of.errors.iter().any(|error| line.starts_with(error)))
    }
}

fn of_program(program: &str) -> Option<&'static Subcommands> {
    SUBCOMMANDS.iter().find(|of| of.programs.contains(&program))
}

impl Subcommands {
    /// Returns true if the first argument that is neither an option nor a group only reads.
    fn reads(&self, arguments: &[String]) -> bool {
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if has(VALUED, word) {
                words.next();
            } else if !word.starts_with('-') && !self.groups.contains(&word) {
                return self.reading.contains(&word);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_only_reads_is_known() {
        for line in [
            "cat build.log",
            "docker logs app 2>&1 | tail -20",
            "docker compose -f a.yaml logs web | grep -i error",
            "kubectl -n prod logs x | tail",
            "git --no-pager -C a log -5 | cat",
            "git grep -n error",
            "cd a && grep -rn Error . | head -3; echo; sudo journalctl -u x",
            "git ls-files | xargs -n 1 grep -n error",
            "find . -name '*.log' -exec tail -3 {} +",
            "for f in a b; do tail -2 $f; done",
            "timeout 10 tail -f a.log",
            "bash -c 'cat a | sort > b'",
            "gh run view 12 --log-failed",
        ] {
            assert!(Command::new(line).only_reads(), "{line}");
        }
        for line in [
            "",
            "gcc a.c | cat",
            "make >log 2>&1; tail log",
            "make > log || cat log",
            "docker run app | tail",
            "docker compose run logs",
            "git commit -m log",
            "cat a.sh | sh",
            "cat $(make log)",
            "diff <(make) a",
            "find . -name '*.py' -exec python3 {} +",
            "git ls-files | xargs eslint",
            "awk 'BEGIN { system(\"make\") }'",
            "sh log.sh",
        ] {
            assert!(!Command::new(line).only_reads(), "{line}");
        }
    }

    #[test]
    fn an_error_of_a_reader_itself_is_known() {
        for (line, error) in [
            ("tail -5 a.log | cat", "tail: cannot open 'a.log' for reading: No such file or directory"),
            ("git log | head", "fatal: not a git repository (or any of the parent directories): .git"),
            ("docker logs a | tail", "Error response from daemon: No such container: a"),
            ("kubectl logs a | tail", "Error from server (NotFound): pods \"a\" not found"),
        ] {
            assert!(Command::new(line).prints_as_own(error), "{line}");
            assert!(!Command::new(line).prints_as_own("ERROR connection lost"), "{line}");
        }
    }
}
