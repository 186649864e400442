//! `buildpool job ID`

use super::wait::{self, Limit};
use crate::arguments::{Form, JobArguments};
use crate::exit;
use crate::failure::{Failure, USAGE};
use crate::settings;
use crate::terminal;
use buildpool_client::Client;
use buildpool_gateway::builds;
use buildpool_protocol::client_link::View;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::report::{Finding, JobResult};
use buildpool_protocol::spec::Verbosity;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command. With `--wait`, the exit codes are those of `run`, so an error gets the exit
/// code of a failed pool.
pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode, Failure> {
    let shown = show(arguments);
    if arguments.wait.is_some() { shown.map_err(Failure::of_run) } else { shown }
}

fn show(arguments: &JobArguments) -> Result<ExitCode, Failure> {
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
        let view = View {
            verbosity: arguments.verbosity,
            template,
            for_json: arguments.form.json,
            ..View::default()
        };
        let Some(within) = arguments.wait else {
            print_job(&client.job(&arguments.id, view, Duration::ZERO).await?, arguments.form)?;
            return Ok(ExitCode::SUCCESS);
        };
        let result = wait::for_end(&client, &arguments.id, &view, &Limit::from_now(Some(within))).await?;
        print_job(&result, arguments.form)?;
        Ok(ExitCode::from(exit::code(&result)))
    })
}

/// Prints the manifest of a build, or a finding of one of its jobs.
async fn of_build(client: &Client, build: BuildId, arguments: &JobArguments) -> Result<ExitCode, Failure> {
    if let Some(finding) = &arguments.finding {
        let finding = builds::finding(client, build, finding).await?;
        return print_finding(&finding, arguments.form.json);
    }
    if arguments.explain {
        let text = "--explain is about one job; the build's answer names its jobs";
        return Err(Failure::new(USAGE, text));
    }
    let mut code = 0;
    if arguments.wait.is_some() {
        let limit = Limit::from_now(arguments.wait);
        for job in builds::jobs(client, build).await? {
            let result = wait::for_end(client, &job, &View::default(), &limit).await?;
            code = code.max(exit::code(&result));
        }
    }
    print_build(client, build, arguments.verbosity.unwrap_or_default(), arguments.form).await?;
    Ok(ExitCode::from(code))
}

fn print_job(result: &JobResult, form: Form) -> Result<(), Failure> {
    if form.json {
        terminal::print_json(&result.to_json())
    } else {
        let text = buildpool_digest::text(result);
        terminal::print(&terminal::paint_verdict(
            &text,
            result.verdict,
            terminal::is_colourful(&io::stdout()),
        ))
    }
}

async fn print_build(
    client: &Client,
    build: BuildId,
    verbosity: Verbosity,
    form: Form,
) -> Result<(), Failure> {
    let manifest = builds::manifest(client, build, verbosity, None).await?;
    if form.json {
        terminal::print_json(&manifest.structured)
    } else {
        terminal::print(&format!("{}\n", manifest.text.trim_end()))
    }
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
