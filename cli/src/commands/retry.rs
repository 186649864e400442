//! `buildpool retry ID`: a new job with the spec and the snapshot of an earlier one.

use crate::arguments::RetryArguments;
use crate::failure::{Failure, POOL, REFUSED};
use crate::settings;
use crate::terminal;
use buildpool_client::Client;
use buildpool_protocol::client_link::View;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::version::RETRY_ON_WORKER;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(arguments: &RetryArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let client = settings::connect(&arguments.pool).await?;
        retry(&client, arguments).await
    })
}

async fn retry(client: &Client, arguments: &RetryArguments) -> Result<ExitCode, Failure> {
    let worker = arguments.worker.as_deref();
    if worker.is_some() && client.pool().protocol < RETRY_ON_WORKER {
        let text = "--worker: this coordinator is older and can't choose the worker of a retry; update it";
        return Err(Failure::new(REFUSED, text.to_owned()));
    }
    let job = client.retry(&arguments.id, worker).await?.to_string();
    let now = client.job(&job, View::default(), Duration::ZERO).await?;
    if now.verdict == Some(Verdict::Rejected) {
        let why = now.cause.map_or_else(|| "no cause is known".to_owned(), |cause| cause.text);
        // As `run` and `wait` exit for a rejected job.
        return Err(Failure::new(POOL, format!("job {job} was rejected: {why}")));
    }
    if arguments.form.json {
        terminal::print_json(&now.to_json())?;
    } else {
        terminal::print(&format!("{job}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
