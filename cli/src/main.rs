//! The one binary. Arguments in, a library called, exit code out; nothing is decided here.
//!
//! Exit codes: `run` gives the command's own (see [`exit`]); everything else 0 when it did what it was asked, 1 when the
//! pool said no, 2 for arguments that make no sense, 125 when the pool could not be asked, 141 when nobody reads.

mod arguments;
mod commands;
mod durations;
mod exit;
mod exposure;
mod failure;
mod service;
mod settings;
mod terminal;

use arguments::{Arguments, Subcommand};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::complain(&error),
    };
    exposure::warn();
    match dispatch(arguments.subcommand) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn dispatch(subcommand: Subcommand) -> Result<ExitCode, failure::Failure> {
    match subcommand {
        Subcommand::Coordinator(arguments) => commands::coordinator::run(arguments),
        Subcommand::Worker(arguments) => commands::worker::run(arguments),
        Subcommand::Run(arguments) => commands::run::run(*arguments),
        Subcommand::Digest(arguments) => commands::digest::run(&arguments),
        Subcommand::Jobs(arguments) => commands::jobs::run(&arguments),
        Subcommand::Job(arguments) => commands::job::run(&arguments),
        Subcommand::Wait(arguments) => commands::wait::run(&arguments),
        Subcommand::Logs(arguments) => commands::logs::run(&arguments),
        Subcommand::Artifacts(arguments) => commands::artifacts::run(&arguments),
        Subcommand::Cancel(arguments) => commands::cancel::run(&arguments),
        Subcommand::Retry(arguments) => commands::retry::run(&arguments),
        Subcommand::Workers(arguments) => commands::workers::run(&arguments),
        Subcommand::Drain(arguments) => commands::workers::drain(&arguments),
        Subcommand::Resume(arguments) => commands::workers::resume(&arguments),
        Subcommand::Audit(arguments) => commands::audit::run(&arguments),
        Subcommand::Backup(arguments) => commands::backup::create(&arguments),
        Subcommand::Restore(arguments) => commands::backup::restore(&arguments),
        Subcommand::Certificate { action } => commands::certificate::run(&action),
        Subcommand::Token(arguments) => commands::token::run(arguments),
        Subcommand::Install(arguments) => commands::install::run(arguments.what),
        Subcommand::Mcp(arguments) => commands::mcp::run(*arguments),
        Subcommand::Doctor(arguments) => commands::doctor::run(&arguments),
        Subcommand::LocalPool(arguments) => commands::local_pool::run(&arguments),
        Subcommand::Keeper(arguments) => Ok(commands::keeper::run(arguments)),
        Subcommand::AsUser(arguments) => Ok(commands::keeper::as_user(arguments)),
    }
}
