//! `buildpool artifacts ID`

use crate::arguments::ArtifactsArguments;
use crate::failure::{Failure, POOL};
use crate::settings;
use crate::terminal;
use buildpool_client::artifacts::{self, Executables, FetchError};
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
        let executables = if arguments.keep_executable { Executables::Keep } else { Executables::Clear };
        let mut shown = Vec::new();
        let mut failures = Vec::new();
        for entry in result.artifacts {
            if let Some(directory) = &arguments.output {
                match artifacts::fetch(&client, &result.job_id, &entry, directory, executables).await {
                    Ok(_) => {}
                    // An artifact that can't be fetched or written does not stop the others. A
                    // failure of the pool stops all.
                    Err(FetchError::Client(error)) => return Err(error.into()),
                    Err(error) => {
                        let what = format!("artifact `{}`", terminal::name(&entry.path));
                        failures.push(Failure::while_doing(POOL, what, &error).message().to_owned());
                        continue;
                    }
                }
            }
            shown.push(entry);
        }
        if arguments.form.json {
            terminal::print_json(&shown)?;
        } else {
            let lines = shown.iter().map(|entry| {
                let path = match &arguments.output {
                    Some(directory) => directory.join(&entry.path).display().to_string(),
                    None => entry.path.clone(),
                };
                format!("{:>12}  {}\n", entry.bytes, terminal::name(&path))
            });
            terminal::print(&lines.collect::<String>())?;
        }
        if failures.is_empty() {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new(POOL, failures.join("\nbuildpool: ")))
        }
    })
}
