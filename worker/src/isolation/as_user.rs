//! Switches permanently from root to the job's user: the program that runs before a command.
//!
//! It starts without the job's variables, so that a job's `LD_PRELOAD` cannot run with root's
//! rights. It reads the variables from a descriptor after it has dropped all these rights.

use super::VARIABLES_FD;
use super::users::JobUser;
use crate::platform;
use nix::unistd::{Gid, Uid};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::fchown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The hidden subcommand that starts it.
pub const SUBCOMMAND: &str = "as-user";
/// Exit code for a command that cannot be executed, as in a shell.
const NOT_EXECUTED: i32 = 126;

/// Returns the arguments before a command. Without a user they start nothing.
pub(super) fn command_line(program: &Path, user: Option<&JobUser>) -> Vec<String> {
    let mut command_line = vec![program.display().to_string(), SUBCOMMAND.to_owned()];
    if let Some(user) = user {
        let groups: Vec<String> = user.groups.iter().map(Gid::to_string).collect();
        command_line.extend([user.user.uid.to_string(), user.user.gid.to_string(), groups.join(",")]);
    }
    command_line
}

/// Runs the arguments after [`SUBCOMMAND`] as the user that they name. Returns an exit code only on
/// failure.
pub fn as_user_main(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let Err(error) = run(arguments.into_iter().collect());
    eprintln!("buildpool: the command can't be run as the job's user: {error}");
    NOT_EXECUTED
}

fn run(arguments: Vec<OsString>) -> Result<Infallible, io::Error> {
    let [uid, gid, groups, program, rest @ ..] = arguments.as_slice() else {
        return Err(invalid("it is started by a keeper, with ids and a command"));
    };
    let (uid, gid) = (Uid::from_raw(number(uid)?), Gid::from_raw(number(gid)?));
    let groups = groups.to_str().ok_or_else(|| invalid("it has no supplementary groups"))?;
    let groups: Vec<Gid> = groups
        .split(',')
        .map(|group| number(OsStr::new(group)).map(Gid::from_raw))
        .collect::<Result<_, _>>()?;
    if uid.is_root() || gid.as_raw() == 0 || groups.contains(&Gid::from_raw(0)) {
        return Err(invalid("no job runs with root's rights"));
    }
    let variables = variables()?;
    // The pipe belongs to the keeper so far. The command needs access to open it as /dev/stdout.
    fchown(io::stdout(), Some(uid.as_raw()), Some(gid.as_raw()))?;
    fchown(io::stderr(), Some(uid.as_raw()), Some(gid.as_raw()))?;
    platform::become_user(uid, gid, &groups)?;
    // The keeper may enter directories that this user cannot enter.
    std::env::set_current_dir(".")
        .map_err(|error| io::Error::new(error.kind(), format!("its directory can't be entered: {error}")))?;
    Err(Command::new(program).args(rest).env_clear().envs(variables).exec())
}

fn number(text: &OsStr) -> Result<u32, io::Error> {
    text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| invalid("an id is not a number"))
}

/// Reads the job's variables, in bubblewrap's format (bwrap(1), `--args`).
fn variables() -> io::Result<Vec<(OsString, OsString)>> {
    // SAFETY: the descriptor belongs to this program by its interface, and no other code in this
    // process uses it.
    let mut file = unsafe { File::from_raw_fd(VARIABLES_FD) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| invalid("its variables are not whole"))
}

fn parse(bytes: &[u8]) -> Option<Vec<(OsString, OsString)>> {
    let mut fields = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
    (fields.next()? == b"--clearenv").then_some(())?;
    let mut found = Vec::new();
    while let Some(word) = fields.next() {
        (word == b"--setenv").then_some(())?;
        let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        found.push((owned(fields.next()?), owned(fields.next()?)));
    }
    Some(found)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use super::{as_user_main, parse};
    use std::ffi::OsString;

    #[test]
    fn variables_come_whole_or_not_at_all() {
        let bytes = b"--clearenv\0--setenv\0A\0line\nline\0--setenv\0EMPTY\0\0";
        let found = parse(bytes).unwrap();
        assert_eq!(found, [("A".into(), "line\nline".into()), ("EMPTY".into(), OsString::new())]);
        for cut in 0..bytes.len() {
            let whole = ["--clearenv\0".len(), b"--clearenv\0--setenv\0A\0line\nline\0".len()].contains(&cut);
            assert_eq!(parse(&bytes[..cut]).is_some(), whole, "{cut} bytes");
        }
    }

    #[test]
    fn no_command_runs_with_root_s_rights_and_none_without_ids() {
        // A mistake here would replace this process, so each of these must fail earlier.
        for ids in [&["0", "1", "1"][..], &["1", "0", "1"], &["1", "1", "1,0"], &["x", "1", "1"], &["1", "1"]]
        {
            let arguments = ids.iter().chain(&["/bin/true"]).map(OsString::from);
            assert_eq!(as_user_main(arguments), 126, "{ids:?}");
        }
    }
}
