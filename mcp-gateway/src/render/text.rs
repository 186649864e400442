//! Text form of the answer about a job: the digest's text and the gateway's own lines.

use super::job::Extras;
use buildpool_digest::{COMMAND_CHARS_MAX, TextForm, text_as};
use buildpool_protocol::report::JobResult;

/// Part of a reason that names other tools of the project.
const OTHER_TOOLS: &str = "(also ";

/// Renders the whole text.
pub(super) fn job(result: &JobResult, extras: &Extras) -> String {
    let mut extra = Vec::new();
    // A passed run is one line, which contains the command.
    // With a complete log, the reason matters only if there was a choice.
    let is_useful = |chosen: &&String| !result.complete_log || extras.details || chosen.contains(OTHER_TOOLS);
    let may_show = !result.success && !extras.no_test_matches;
    if let Some(chosen) = extras.chosen.as_ref().filter(|_| may_show).filter(is_useful) {
        extra.push(self::chosen(chosen, result, extras.details));
    }
    if extras.reattached {
        extra.push(format!("reattached: this is the job of an earlier {}", earlier(extras)));
    }
    if let Some(note) = &extras.note {
        let title = if extras.no_test_matches { "" } else { "note: " };
        extra.push(format!("{title}{note}"));
    }
    let is_explained = extras.no_test_matches && states_no_test(result);
    let form = TextForm {
        extra: &extra,
        output: true,
        details: extras.details,
        worker: !extras.one_worker,
        cause: !is_explained,
    };
    text_as(result, &form).trim_end().to_owned()
}

/// Returns true if the cause only states that no test ran.
fn states_no_test(result: &JobResult) -> bool {
    result.cause.as_ref().is_some_and(|cause| cause.text.to_ascii_lowercase().contains("no test"))
}

/// Returns the line about the chosen command. The first line of the answer shows the command, or its
/// beginning if it is long. With `details`, a long command is repeated whole.
fn chosen(chosen: &str, result: &JobResult, details: bool) -> String {
    let is_shown = !details || result.command.chars().count() <= COMMAND_CHARS_MAX;
    match chosen.strip_prefix(&result.command).and_then(|rest| rest.strip_prefix(", ")) {
        Some(reason) if is_shown => format!("chosen {reason}"),
        _ => format!("chosen: {chosen}"),
    }
}

/// Returns the property that the earlier call shares with this one.
pub(super) fn earlier(extras: &Extras) -> &'static str {
    if extras.by_request_id { "call with this client_request_id" } else { "equal call" }
}
