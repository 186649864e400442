//! `buildpool install`: sets up what is around this program.

use crate::arguments::{InstallMcpClientArguments, InstallWhat};
use crate::failure::{Failure, POOL, USAGE};
use crate::settings;
use crate::terminal;
use buildpool_gateway::install::Installation;
use std::process::ExitCode;

pub(crate) fn run(what: InstallWhat) -> Result<ExitCode, Failure> {
    match what {
        InstallWhat::McpClient(arguments) => mcp_client(&arguments),
    }
}

/// Prints what the client's configuration has to say, or adds it there.
fn mcp_client(arguments: &InstallMcpClientArguments) -> Result<ExitCode, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::while_doing(USAGE, "the present directory can't be read", &error))?;
    let mut words = Vec::new();
    if let Some(coordinator) = &arguments.coordinator {
        words.extend(["--coordinator".to_owned(), coordinator.clone()]);
    }
    if arguments.read_only {
        words.push("--read-only".to_owned());
    }
    let project = here.join(arguments.directory.clone().unwrap_or_default());
    let installation = Installation { program: settings::program()?, arguments: words, project };
    if !arguments.write {
        terminal::print(&installation.text(arguments.client))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = installation.write(arguments.client).map_err(|error| Failure::of(POOL, &error))?;
    terminal::print(&format!("{}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
