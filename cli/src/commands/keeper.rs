//! The hidden `buildpool keeper`, `buildpool as-user` and `buildpool node-stacks`. The worker and its keepers
//! start them for jobs, so `main` looks for them before it builds the parser of all other subcommands.

use buildpool_worker::isolation::as_user;
use buildpool_worker::keeper::{self, stacks::node};
use std::env;
use std::process::ExitCode;

/// Runs the keeper or `as-user` if the command line starts with its name, and returns its exit code.
pub(crate) fn run_if_requested() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let subcommand = arguments.next()?;
    let code = match subcommand.to_str()? {
        keeper::SUBCOMMAND => keeper::keeper_main(arguments),
        node::SUBCOMMAND => node::node_stacks_main(arguments),
        as_user::SUBCOMMAND => as_user::as_user_main(arguments),
        _ => return None,
    };
    Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
