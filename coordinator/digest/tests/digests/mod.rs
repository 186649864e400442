//! Digests of logs.
#![allow(dead_code, reason = "each test uses some of these")]

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;

/// Digest of a log, given how its job ended.
pub(crate) fn with(log: &str, facts: &Facts) -> Digest {
    let mut digester = Digester::new(Options { job: "0199".into(), ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(facts)
}

/// Digest of a log, given the exit code of its command if that is known.
pub(crate) fn digest(log: &str, code: Option<i32>) -> Digest {
    with(log, &Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
}

/// Digest of a log of a command that exited with this code.
pub(crate) fn exited(log: &str, code: i32) -> Digest {
    digest(log, Some(code))
}

/// Digest of a log of this command.
pub(crate) fn of_command(command: &str, log: &str, code: i32) -> Digest {
    let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: Some(Ending::Exited { code }), ..Facts::default() })
}
