//! `buildpool events`

use crate::arguments::EventsArguments;
use crate::failure::Failure;
use crate::settings;
use crate::terminal::{self, one_line};
use buildpool_client::{Api, Event, Events};
use buildpool_protocol::shown;
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::time::Duration;

/// Pauses between attempts to reach the coordinator.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);

/// Facts that the line of an event begins with; others follow as `name=value`.
const FIRST: [&str; 3] = ["id", "at", "kind"];

/// Follows the events until the program is ended. A lost connection continues after the last event that was printed.
pub(crate) fn run(arguments: &EventsArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let api = settings::api_of_running(&arguments.pool)?;
        let mut after = arguments.after;
        // An error at the first attempt is one of the caller: a wrong URL or token.
        let mut events = api.events(after).await?;
        loop {
            let is_cut = loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        after = Some(event.id);
                        print(&event, arguments.form.json)?;
                    }
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            tracing::debug!(is_cut, after, "the stream of events ended");
            events = again(&api, after).await?;
        }
    })
}

/// Connects again, as long as it is worth a retry.
async fn again(api: &Api, after: Option<u64>) -> Result<Events, Failure> {
    let mut pause = AGAIN_AFTER;
    loop {
        // The coordinator does not announce its return.
        tokio::time::sleep(pause).await;
        match api.events(after).await {
            Ok(events) => return Ok(events),
            Err(error) if error.is_worth_a_retry() => pause = (pause * 2).min(AGAIN_AFTER_MAX),
            Err(error) => return Err(error.into()),
        }
    }
}

fn print(event: &Event, json: bool) -> Result<(), Failure> {
    if event.data.is_empty() {
        return Ok(());
    }
    if json {
        return terminal::print(&shown::json(format!("{}\n", event.data)));
    }
    let facts: Map<String, Value> = serde_json::from_str(&event.data).unwrap_or_default();
    terminal::print(&format!("{}\n", line(&facts)))
}

/// Returns an event as one line.
fn line(facts: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => one_line(text),
        other => other.to_string(),
    };
    let first = FIRST.iter().filter_map(|name| facts.get(*name)).map(text);
    let others = facts.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let others = others.map(|(name, value)| format!("{name}={}", text(value)));
    first.chain(others).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::line;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line() {
        let event =
            json!({ "id": 7, "kind": "job_state", "at": "2026-01-01", "state": "done", "command": "a\nb" });
        let text = line(event.as_object().unwrap());
        assert!(text.starts_with("7  2026-01-01  job_state  ") && text.lines().count() == 1, "{text}");
        assert!(text.contains("state=done"), "{text}");
    }
}
