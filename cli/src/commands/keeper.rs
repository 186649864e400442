//! The hidden `buildpool keeper` and `buildpool as-user`

use crate::arguments::KeeperArguments;
use std::process::ExitCode;

pub(crate) fn run(arguments: KeeperArguments) -> ExitCode {
    ended(buildpool_worker::keeper_main(arguments.arguments))
}

/// Returns only if the command could not be started.
pub(crate) fn as_user(arguments: KeeperArguments) -> ExitCode {
    ended(buildpool_worker::isolation::as_user::as_user_main(arguments.arguments))
}

fn ended(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
