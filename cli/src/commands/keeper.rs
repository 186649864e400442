//! The hidden `buildpool keeper`

use crate::arguments::KeeperArguments;
use std::process::ExitCode;

pub(crate) fn run(arguments: KeeperArguments) -> ExitCode {
    ExitCode::from(u8::try_from(buildpool_worker::keeper_main(arguments.arguments)).unwrap_or(u8::MAX))
}
