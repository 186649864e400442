//! `buildpool job ID`

use crate::arguments::JobArguments;
use crate::failure::{Failure, USAGE};
use crate::settings;
use crate::terminal;
use buildpool_gateway::builds;
use buildpool_gateway::client::Client;
use buildpool_protocol::client_link::View;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::Finding;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        if let Some(build) = builds::named(&arguments.id) {
            return of_build(&client, build, arguments).await;
        }
        if let Some(finding) = &arguments.finding {
            let finding = client.finding(&arguments.id, finding).await?;
            return print_finding(&finding, arguments.form.json);
        }
        if arguments.explain {
            terminal::print(&client.explain(&arguments.id).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let template =
            arguments.template.as_deref().map(|name| super::template(name, Path::new("."))).transpose()?;
        let view = View { verbosity: arguments.verbosity, template, ..View::default() };
        let result = client.job(&arguments.id, view, arguments.wait).await?;
        if arguments.form.json {
            terminal::print_json(&result.to_json())?;
        } else {
            terminal::print(&buildpool_digest::text(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The manifest of a build, or a finding of one of its jobs.
async fn of_build(client: &Client, build: BuildId, arguments: &JobArguments) -> Result<ExitCode, Failure> {
    if let Some(finding) = &arguments.finding {
        let finding = builds::finding(client, build, finding).await?;
        return print_finding(&finding, arguments.form.json);
    }
    if arguments.explain {
        let text = "--explain is about one job; the build's answer names its jobs";
        return Err(Failure::new(USAGE, text));
    }
    builds::wait(client, build, arguments.wait).await?;
    let manifest = builds::manifest(client, build, arguments.verbosity.unwrap_or_default(), None).await?;
    if arguments.form.json {
        terminal::print_json(&manifest.structured)?;
    } else {
        terminal::print(&format!("{}\n", manifest.text.trim_end()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_finding(finding: &Finding, json: bool) -> Result<ExitCode, Failure> {
    if json {
        terminal::print_json(finding)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for line in finding.pre_context.iter().map(String::as_str).chain(finding.message.lines()) {
        text.push_str(line);
        text.push('\n');
    }
    for line in &finding.post_context {
        text.push_str(line);
        text.push('\n');
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
