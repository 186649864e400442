//! `buildpool artifacts ID`

use crate::arguments::ArtifactsArguments;
use crate::failure::{Failure, POOL};
use crate::settings;
use crate::terminal;
use buildpool_gateway::artifacts;
use buildpool_protocol::client_link::View;
use buildpool_protocol::report::JobState;
use std::process::ExitCode;

pub(crate) fn run(arguments: &ArtifactsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        let result = client.job(&arguments.id, View::default(), std::time::Duration::ZERO).await?;
        if result.state != JobState::Done {
            let text = format!("job {} is not over yet; its artifacts come with its end", result.job_id);
            return Err(Failure::new(1, text));
        }
        if let Some(directory) = &arguments.output {
            for entry in &result.artifacts {
                let fetched = artifacts::fetch(&client, &result.job_id, entry, directory).await;
                let what = format!("artifact `{}`", entry.path);
                fetched.map_err(|error| Failure::while_doing(POOL, what, &error))?;
            }
        }
        if arguments.form.json {
            terminal::print_json(&result.artifacts)?;
        } else {
            let lines = result.artifacts.iter().map(|entry| {
                let path = match &arguments.output {
                    Some(directory) => directory.join(&entry.path).display().to_string(),
                    None => entry.path.clone(),
                };
                format!("{:>12}  {path}\n", entry.bytes)
            });
            terminal::print(&lines.collect::<String>())?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
