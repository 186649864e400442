//! Meanings of exit codes and signals. `docs/endings.md` lists the same facts for users.

/// Meaning of a signal and what to check, as the end of a sentence.
pub(crate) fn signal_meaning(name: &str) -> &'static str {
    match name {
        "SIGSEGV" => "it used memory that is not its own.",
        "SIGABRT" => "it ended itself, as after a failed assertion or an uncaught exception.",
        "SIGKILL" => {
            "a person, a container's memory limit or the system's out-of-memory killer ended it at once; the pool did not."
        }
        "SIGTERM" => "a person, a service manager or a shutdown ended it; the pool did not.",
        "SIGINT" => "it was interrupted from outside, as by Ctrl-C; the pool did not.",
        "SIGTRAP" => {
            "a trap, which on Apple silicon is also how Swift ends after fatalError, a failed precondition or a force unwrap of nil."
        }
        "SIGILL" => {
            "an illegal instruction, which on x86-64 is also how Swift ends after fatalError, a failed precondition or a force unwrap of nil."
        }
        "SIGBUS" => "it used memory that is not there, as of a file that shrank, or badly aligned.",
        "SIGFPE" => "an arithmetic error, as an integer division by zero.",
        "SIGSYS" => "it made a system call that is not allowed, as in a sandbox.",
        "SIGPIPE" => "it wrote to a pipe that no process reads any more.",
        "SIGHUP" => "its terminal or session went away; the pool did not end it.",
        "SIGQUIT" => "another process sent it a request to quit with a core dump.",
        "SIGXCPU" => "it used more processor time than it was allowed.",
        "SIGXFSZ" => "it wrote a larger file than it was allowed.",
        _ => "the pool did not send this signal.",
    }
}

/// Signal for a shell exit code, if Linux and macOS use the same number for it.
pub(crate) const fn shell_signal(code: i32) -> Option<&'static str> {
    match code {
        129 => Some("SIGHUP"),
        130 => Some("SIGINT"),
        131 => Some("SIGQUIT"),
        132 => Some("SIGILL"),
        133 => Some("SIGTRAP"),
        134 => Some("SIGABRT"),
        136 => Some("SIGFPE"),
        137 => Some("SIGKILL"),
        139 => Some("SIGSEGV"),
        141 => Some("SIGPIPE"),
        142 => Some("SIGALRM"),
        143 => Some("SIGTERM"),
        _ => None,
    }
}

/// Texts of C libraries and shells for signals.
const WORDS: &[(&str, &str)] = &[
    ("killed", "SIGKILL"),
    ("segmentation fault", "SIGSEGV"),
    ("aborted", "SIGABRT"),
    ("abort trap", "SIGABRT"),
    ("bus error", "SIGBUS"),
    ("illegal instruction", "SIGILL"),
    ("floating point exception", "SIGFPE"),
    ("bad system call", "SIGSYS"),
    ("trace/bpt trap", "SIGTRAP"),
    ("trace/breakpoint trap", "SIGTRAP"),
    ("terminated", "SIGTERM"),
];
/// Names of signals that can end a process.
const NAMES: &[&str] = &[
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGQUIT",
    "SIGSEGV", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGXCPU", "SIGXFSZ",
];

/// Parses a signal from a name, a message, a number or 128+n. Numbers count only if Linux and macOS
/// agree on them.
pub(crate) fn signal_named(said: &str) -> Option<&'static str> {
    if let Ok(number) = said.parse::<i32>() {
        return shell_signal(if number < 128 { number + 128 } else { number });
    }
    let in_words = || WORDS.iter().find(|(words, _)| said.eq_ignore_ascii_case(words)).map(|(_, name)| *name);
    NAMES.iter().find(|name| **name == said).copied().or_else(in_words)
}

/// Exit code of `timeout` and similar tools when the time was up. Any program may use it for something else.
pub(crate) const TIMEOUT_CODE: i32 = 124;

/// Usual meaning of an exit code, as the continuation of a sentence that names the code.
pub(crate) const fn code_meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        TIMEOUT_CODE => ", which `timeout` uses when the time was up: a guess",
        125 => ", which tools that run other commands use for a failure of their own",
        126 => ", as a shell does for a command that is there but not executable",
        127 => ", as a shell does for a command that was not found",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_however_they_are_told() {
        for said in ["SIGSEGV", "Segmentation fault", "segmentation fault", "11", "139"] {
            assert_eq!(signal_named(said), Some("SIGSEGV"), "{said}");
        }
        assert_eq!(signal_named("Killed"), Some("SIGKILL"));
        for said in ["", "1", "SIGNAL", "killed it", "-1", "2147483647"] {
            assert_ne!(signal_named(said), Some("SIGKILL"), "{said}");
        }
        assert_eq!((signal_named("1"), signal_named("255")), (Some("SIGHUP"), None));
    }
}
