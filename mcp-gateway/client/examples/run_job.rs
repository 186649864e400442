//! Runs a command on a pool, in an empty directory, and prints its output and its verdict.
//!
//! ```text
//! BUILDPOOL_URL=wss://pool.example:7878 BUILDPOOL_TOKEN=bp_… cargo run -p buildpool-client --example run_job -- uname -a
//! ```

use buildpool_client::{AccessToken, Client, Endpoint, JobEvent, PoolUrl, Target, new_job_id};
use buildpool_protocol::client_link::SubmitMessage;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Source};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let url: PoolUrl = std::env::var("BUILDPOOL_URL")?.parse()?;
    let token: AccessToken = std::env::var("BUILDPOOL_TOKEN")?.parse()?;
    let command: Vec<String> = std::env::args().skip(1).collect();
    let target = Target::Named(Endpoint::new(url, Some(token)));
    let client = Client::connect(target, "run_job 1.0").await?;

    let submit = SubmitMessage {
        job: new_job_id(),
        spec: JobSpec::new(Command::Argv(command), Source::Empty),
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        wait: true,
        follow: true,
        progress: false,
    };
    let mut events = client.submit(submit).await?;
    let mut stdout = std::io::stdout();
    let mut verdict = None;
    while let Some(event) = events.next().await {
        match event {
            JobEvent::Output(output) => {
                for chunk in &output.chunks {
                    stdout.write_all(chunk.data())?;
                }
            }
            JobEvent::Complete(result) => verdict = result.verdict,
            JobEvent::Failed(error) => return Err(error.into()),
            JobEvent::Accepted { .. }
            | JobEvent::Progress(_)
            | JobEvent::Attempt(_)
            | JobEvent::End(_)
            | JobEvent::OutputLost(_) => {}
        }
    }
    writeln!(stdout, "verdict: {verdict:?}")?;
    Ok(if verdict == Some(Verdict::Passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
