//! The `buildpool` binary. It parses arguments, calls the libraries and returns an exit code; it
//! makes no decisions about jobs.
//!
//! Exit codes: `run`, `wait` and `job --wait` return the exit code of the command (see [`exit`]).
//! All other subcommands return:
//!
//! - 0 on success
//! - 1 if the pool refused the request
//! - 2 for invalid arguments
//! - 125 if the pool could not be used
//! - 141 if stdout is closed

mod arguments;
mod commands;
mod completion;
mod durations;
mod exit;
mod exposure;
mod failure;
mod service;
mod settings;
mod terminal;
mod top;
mod upgrade;

use arguments::{Arguments, Subcommand};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = commands::keeper::run_if_requested() {
        return code;
    }
    completion::serve();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::complain(error),
    };
    exposure::warn();
    terminal::set_colours(arguments.color);
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
        Subcommand::Tests(arguments) => commands::tests::run(&arguments),
        Subcommand::Events(arguments) => commands::events::run(&arguments),
        Subcommand::Top(arguments) => commands::top::run(&arguments),
        Subcommand::Page(arguments) => commands::page::run(&arguments),
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
        Subcommand::Install(arguments) => commands::install::run(arguments.target),
        Subcommand::Mcp(arguments) => commands::mcp::run(*arguments),
        Subcommand::Doctor(arguments) => commands::doctor::run(&arguments),
        Subcommand::Completions(arguments) => commands::completions::run(&arguments),
        Subcommand::Man(arguments) => commands::man::run(&arguments),
        Subcommand::LocalPool(arguments) => commands::local_pool::run(&arguments),
    }
}
