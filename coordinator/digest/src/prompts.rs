//! Commands that ask for a password or an answer. A job has no terminal, so such a command ends with an error, or waits
//! until its timeout. The cause states this and a remedy.

use crate::text::TailLines;
use crate::verdict::Decision;
use buildpool_protocol::report::Verdict;

/// Last lines of a stream that are searched: a prompt is the last output of its command.
const LINES: usize = 6;

/// Parts of lines in lower case, and the remedy. The first match counts.
const MESSAGES: [(&[&str], &str); 7] = [
    (
        &[
            "[sudo] password for",
            "sudo: a terminal is required",
            "sudo: a password is required",
            "sudo: no tty",
        ],
        "allow the command without a password in sudoers on the worker, or run it without sudo",
    ),
    (
        &[
            "could not read username for",
            "could not read password for",
            "username for 'http",
            "password for 'http",
        ],
        "configure a git credential helper or a token on the worker, or use an ssh address",
    ),
    (
        &["host key verification failed", "the authenticity of host", "continue connecting (yes/no"],
        "add the host's key to known_hosts on the worker (`ssh-keyscan HOST >> ~/.ssh/known_hosts`)",
    ),
    (
        &["enter passphrase for", "passphrase for key"],
        "load the key into an ssh agent on the worker, or use a key without a passphrase",
    ),
    (&["/getpass.py\", line "], SECRET_REMEDY),
    (
        &["eoferror: eof when reading a line", "end of file on stdin", "eof on standard input"],
        "give the answers as standard input (`stdin` of run_command, or a pipe into `buildpool run`)",
    ),
    (
        &[
            "input device is not a tty",
            "stdin is not a tty",
            "stdin: is not a tty",
            "inappropriate ioctl for device",
            "open /dev/tty",
            "open '/dev/tty'",
            "/dev/tty: no such device",
            "/dev/tty: device not configured",
            "requires a terminal",
            "must be run in a terminal",
            "must be run from a terminal",
        ],
        "use the tool's option for scripts, such as --batch or --no-tty, or `docker run` without -t",
    ),
];

/// The same for questions, which count on the last line only.
const QUESTIONS: [(&[&str], &str); 1] = [(
    &["[y/n]", "(y/n)", "(yes/no)"],
    "use the tool's option that answers yes, such as -y, or give the answer as standard input (`stdin` of run_command, or a \
     pipe into `buildpool run`)",
)];

/// A line with one of these endings requests a secret.
const SECRETS: [&str; 2] = ["password:", "passphrase:"];
const SECRET_REMEDY: &str = "give the secret in a file or a variable that the tool reads (`buildpool run --secret NAME` passes a variable), or use \
                             credentials of the worker";

/// Adds to the cause of a bad ending that the command requested input, if its last lines show this.
pub(crate) fn explained(mut decision: Decision, tails: &[TailLines]) -> Decision {
    let is_bad = matches!(decision.verdict, Verdict::Failed | Verdict::TimedOut);
    if let Some(cause) = decision.cause.as_mut().filter(|_| is_bad)
        && let Some(remedy) = tails.iter().find_map(|tail| remedy_of(tail))
    {
        let is_ended = cause.text.ends_with(['.', '!', '?']) || cause.text.ends_with(".)");
        let end = if is_ended { "" } else { "." };
        cause.text.push_str(&format!(
            "{end} The command asks for input from a terminal, and a job has none. To fix it: {remedy}."
        ));
    }
    decision
}

fn remedy_of(tail: &TailLines) -> Option<&'static str> {
    let filled = tail.backwards().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty());
    let last: Vec<String> = filled.take(LINES).collect();
    let message = last.iter().find_map(|line| remedy_in(&MESSAGES, line));
    // Anything may print such a question. A command that waits for the answer prints nothing after it.
    let question = || {
        let line = last.first()?;
        let asks_secret = SECRETS.iter().any(|end| line.ends_with(end));
        remedy_in(&QUESTIONS, line).or(asks_secret.then_some(SECRET_REMEDY))
    };
    message.or_else(question)
}

fn remedy_in(table: &[(&[&str], &'static str)], line: &str) -> Option<&'static str> {
    table.iter().find(|(parts, _)| parts.iter().any(|part| line.contains(part))).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::explained;
    use crate::text::TailLines;
    use crate::verdict::{Decision, VerdictRow};
    use buildpool_protocol::outcome::CrashType;
    use buildpool_protocol::report::{Cause, KnownFrom, Verdict};

    fn cause(log: &str, verdict: Verdict) -> String {
        let cause = Some(Cause { text: "Exit code 1.".into(), known_from: KnownFrom::WaitStatus });
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        let decision = Decision {
            verdict,
            crash_type: CrashType::Unknown,
            cause,
            rule: VerdictRow::CodeUnexplained,
            line: None,
        };
        let tails = [TailLines::default(), TailLines::shown(&lines)];
        explained(decision, &tails).cause.map(|cause| cause.text).unwrap_or_default()
    }

    #[test]
    fn a_command_that_asks_for_input_has_a_remedy_in_its_cause() {
        for (log, remedy) in [
            (
                "sudo: a terminal is required to read the password; either use ssh's -t\nsudo: a password is required",
                "sudoers",
            ),
            ("[sudo] password for ada: ", "sudoers"),
            (
                "Cloning into 'x'...\nfatal: could not read Username for 'https://github.com': No such device or address",
                "credential helper",
            ),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.\n\nPlease make sure you have the \
              correct access rights\nand the repository exists.",
                "known_hosts",
            ),
            (
                "  File \"a.py\", line 1, in <module>\n    x = input()\nEOFError: EOF when reading a line",
                "standard input",
            ),
            (
                "  File \"/usr/lib/python3.11/getpass.py\", line 126, in fallback_getpass\n    return _raw_input(prompt, stream)\n           ^^^^\n  File \"/usr/lib/python3.11/getpass.py\", line 148, in _raw_input\n    raise EOFError\nEOFError",
                "--secret",
            ),
            ("the input device is not a TTY", "docker run"),
            ("After this operation, 3 MB will be used.\nDo you want to continue? [Y/n] Abort.", "-y"),
            ("Password:", "--secret"),
        ] {
            for verdict in [Verdict::Failed, Verdict::TimedOut] {
                let text = cause(log, verdict);
                assert!(text.contains("a job has none") && text.contains(remedy), "{log}: {text}");
            }
            assert_eq!(cause(log, Verdict::Passed), "Exit code 1.");
        }
    }

    #[test]
    fn a_question_that_was_printed_on_the_way_is_no_wait() {
        for log in [
            "Continue? (y/n) y\nerror: boom",
            "Password:\nwrong user",
            "the password: field is missing",
            "make: *** [x] Error 1",
        ] {
            assert_eq!(cause(log, Verdict::Failed), "Exit code 1.", "{log}");
        }
    }
}
