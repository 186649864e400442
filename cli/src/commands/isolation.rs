//! The isolation mode that `install worker` writes into a new configuration.

use crate::arguments::InstallServiceArguments;
use crate::failure::{Failure, POOL, USAGE};
use crate::terminal;
use buildpool_worker::isolation::Isolation;
use std::io::{self, BufRead, IsTerminal, Read};

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 256;
/// The meaning of mode `none`, for a question and a warning.
const ONE_DOMAIN: &str = "jobs can do everything that the worker's user can, so all submitters of this worker are one trust domain";

/// Returns the keys for a new configuration of a worker: those of the chosen mode. Prompts on a terminal. Elsewhere the mode
/// stays `none` unless `--isolation` names one, and a warning explains the consequences.
///
/// # Errors
/// If the mode can't be used on this machine, or lacks the users of its jobs.
pub(super) fn lines(arguments: &InstallServiceArguments) -> Result<Vec<(&'static str, String)>, Failure> {
    let chosen = match arguments.isolation {
        Some(mode) => mode,
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => ask()?,
        None => {
            terminal::warn(&format!(
                "isolation is `none`: {ONE_DOMAIN}; `--isolation {}` separates them (docs/security.md)",
                modes()[0]
            ));
            return Ok(Vec::new());
        }
    };
    // With another root, the files are for another machine.
    let missing = chosen.missing(std::env::var_os("PATH").as_deref()).filter(|_| arguments.root.is_none());
    if let Some(missing) = missing {
        return Err(Failure::new(
            USAGE,
            format!(
                "--isolation: {chosen} needs {missing}, which is not here; install it, or choose another mode"
            ),
        ));
    }
    let users = &arguments.job_users;
    if (chosen == Isolation::User) == users.is_empty() {
        let text = "--isolation user needs --job-user NAME for each slot, and only this mode takes it; the worker must run as \
                    root (docs/security.md has the drop-in)";
        return Err(Failure::new(USAGE, text));
    }
    let mut lines = vec![("isolation", format!("\"{chosen}\""))];
    if !users.is_empty() {
        let names: Vec<_> = users.iter().map(|name| format!("\"{}\"", name.escape_default())).collect();
        lines.push(("job_users", format!("[{}]", names.join(", "))));
    }
    Ok(lines)
}

/// The modes of this system, the recommended one first.
fn modes() -> &'static [Isolation] {
    if std::env::consts::OS == "macos" {
        &[Isolation::SandboxExec, Isolation::None]
    } else {
        &[Isolation::Bubblewrap, Isolation::User, Isolation::None]
    }
}

fn ask() -> Result<Isolation, Failure> {
    terminal::warn("how are the jobs of this worker isolated? (docs/security.md)");
    for mode in modes() {
        terminal::warn(&format!("  {mode}: {}", meaning(*mode)));
    }
    terminal::warn(&format!("type a mode, or return for {}:", modes()[0]));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .take(ANSWER_BYTES_MAX)
        .read_line(&mut answer)
        .map_err(|error| Failure::while_doing(POOL, "the answer can't be read", &error))?;
    understood(&answer, modes()).map_err(|reason| Failure::new(USAGE, reason))
}

fn meaning(mode: Isolation) -> &'static str {
    match mode {
        Isolation::None => ONE_DOMAIN,
        Isolation::Bubblewrap => {
            "each job has namespaces of its own and sees neither the worker's files nor other jobs; needs the package bubblewrap"
        }
        Isolation::User => "each job runs as a user of its own; the worker runs as root",
        Isolation::SandboxExec => {
            "each job has a profile that denies the worker's files and signals to other processes"
        }
    }
}

fn understood(answer: &str, modes: &[Isolation]) -> Result<Isolation, String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Ok(modes[0]);
    }
    let found = modes.iter().find(|mode| mode.name() == answer);
    let names: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
    found.copied().ok_or_else(|| {
        format!("`{}` is not a mode of this system; valid are {}", answer.escape_debug(), names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::{modes, understood};
    use buildpool_worker::isolation::Isolation;

    #[test]
    fn an_answer_is_a_mode_and_an_empty_one_the_recommended() {
        let linux = [Isolation::Bubblewrap, Isolation::User, Isolation::None];
        assert_eq!(understood("\n", &linux), Ok(Isolation::Bubblewrap));
        assert_eq!(understood(" none\n", &linux), Ok(Isolation::None));
        let wrong = understood("sandbox-exec\n", &linux).unwrap_err();
        assert!(wrong.contains("valid are bubblewrap, user, none"), "{wrong}");
        assert!(modes().contains(&Isolation::None) && modes()[0] != Isolation::None);
    }
}
