//! Warning about a token on the command line, which every user of the machine can read.

use crate::{settings, terminal};
use buildpool_protocol::token;
use std::ffi::OsString;

/// Prints a warning if an argument of this process contains a token (`/proc/PID/cmdline` on Linux,
/// ps(1) on both systems).
pub(crate) fn warn() {
    if !has_token(std::env::args_os().skip(1)) {
        return;
    }
    let file = settings::file().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string());
    terminal::warn(&format!(
        "warning: the command line contains a token, and every user of this machine can read it (`ps`); use BUILDPOOL_TOKEN, `token` in {file}, `token_file` of a worker, or `--join -` instead"
    ));
}

/// Returns true if an argument is a token, or ends with one after `=` or `#`. Arguments after `--`
/// belong to a job.
fn has_token(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut own = arguments.into_iter().take_while(|argument| argument != "--");
    own.any(|argument| {
        let text = argument.to_string_lossy();
        text.rsplit(['=', '#']).next().is_some_and(|text| token::parse(text.trim()).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::has_token;

    #[test]
    fn a_token_is_found_wherever_an_option_takes_one() {
        let token = format!("bp_{}_{}", "0".repeat(32), "0".repeat(48));
        let found = |arguments: &[&str]| has_token(arguments.iter().map(Into::into));
        assert!(found(&["jobs", "--token", &token]));
        assert!(found(&["jobs", &format!("--token={token}")]));
        assert!(found(&["install", "worker", "--join", &format!("wss://pool:1#{token}")]));
        assert!(!found(&["jobs", "--token", "other"]));
        assert!(!found(&["install", "worker", "--join", "-"]));
        assert!(!found(&["run", "--", "echo", &token]), "the job's own arguments");
    }
}
