//! Helpers of the benchmarks: selection, a client, a job.

use buildpool_client::{Client, Endpoint, JobEvent, Target, new_job_id};
use buildpool_protocol::client_link::SubmitMessage;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_tests::Pool;
use std::collections::BTreeMap;
use tokio::runtime::Runtime;

/// A benchmark that prints its results.
pub(crate) type Bench = fn(&Runtime);

/// Runs the benchmarks named on the command line, or all without a name.
pub(crate) fn run_wanted(benches: &[(&str, Bench)]) {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runtime = Runtime::new().expect("a runtime");
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench(&runtime);
        }
    }
}

/// Returns a client with this token.
pub(crate) async fn connect(pool: &Pool, token: &str) -> Client {
    let url = pool.url().parse().expect("a URL");
    let endpoint = Endpoint::new(url, Some(token.parse().expect("a token")));
    Client::connect(Target::Named(endpoint), "benchmark").await.expect("connected")
}

/// Returns the submit message of a job in an empty directory. The client waits for its end.
pub(crate) fn message(command: &[&str]) -> SubmitMessage {
    let argv = command.iter().map(|argument| (*argument).to_owned()).collect();
    SubmitMessage {
        job: new_job_id(),
        spec: JobSpec::new(Command::Argv(argv), Source::Empty),
        client_request_id: None,
        attach: false,
        secrets: BTreeMap::new(),
        snapshot: None,
        wait: true,
        follow: false,
        progress: false,
    }
}

/// Runs a command and returns its result.
pub(crate) async fn run(client: &Client, command: &[&str]) -> JobResult {
    let mut events = client.submit(message(command)).await.expect("submitted");
    loop {
        match events.next().await.expect("an end") {
            JobEvent::Complete(result) => return *result,
            JobEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}
