//! JSON of answers: which members they contain.

use crate::shown::{is_plain, name, printable};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Members whose own members have names that users chose. An empty value there is information: a label without a value.
const MAPS: [&str; 2] = ["labels", "resources"];

/// Members from which no terminal sequence is removed: without its hidden part, a command would look like another one.
const NAMES: [&str; 2] = ["command", "path"];

/// Returns an answer as JSON, for `--json` and MCP. Members that are null, zero or empty are left out at every depth.
/// List elements are kept, and so are flags: of a worker, `connected: false` is information. A job keeps `job_id`, `state`
/// and `verdict`, once it is done also `success` and `exit_code`, and all counts inside `tests`.
pub fn answer<T: Serialize + ?Sized>(answer: &T) -> Value {
    let mut value = serde_json::to_value(answer).unwrap_or_default();
    reduce(&mut value, Flags::Kept);
    value
}

/// Removes the same members as [`answer`], and members that are false. Escapes control characters.
pub fn prune(value: &mut Value) {
    reduce(value, Flags::LeftOut);
    escape(value);
}

/// What happens to members that are false.
#[derive(Clone, Copy, PartialEq)]
enum Flags {
    Kept,
    LeftOut,
}

fn reduce(value: &mut Value, flags: Flags) {
    match value {
        Value::Object(members) => {
            let kept = kept_of_job(members);
            for (name, member) in members.iter_mut() {
                let is_map = member.is_object() && MAPS.contains(&name.as_str());
                let is_counts = member.is_object() && kept.is_some() && name == "tests";
                if !is_map && !is_counts {
                    reduce(member, flags);
                }
            }
            members.retain(|name, member| {
                kept.is_some_and(|kept| kept.contains(&name.as_str())) || !is_void(member, flags)
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| reduce(item, flags)),
        _ => {}
    }
}

/// Returns the members that an answer about a job always contains, if this is one. Adds `success` to an entry of a list.
fn kept_of_job(members: &mut Map<String, Value>) -> Option<&'static [&'static str]> {
    let state = members.get("state").filter(|_| members.contains_key("job_id"))?;
    if state != "done" {
        return Some(&["job_id", "state", "verdict"]);
    }
    if let Some(verdict) = members.get("verdict") {
        let success = json!(verdict == "passed");
        members.insert("success".to_owned(), success);
    }
    Some(&["job_id", "state", "verdict", "success", "exit_code"])
}

fn is_void(value: &Value, flags: Flags) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag && flags == Flags::LeftOut,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) if !is_plain(text.as_bytes()) => *text = printable(text),
        Value::Object(members) => members.iter_mut().for_each(|(key, member)| match member {
            Value::String(text) if NAMES.contains(&key.as_str()) => *text = name(text),
            member => escape(member),
        }),
        Value::Array(items) => items.iter_mut().for_each(escape),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_no_empty_members_and_keeps_those_of_a_job() {
        let listed = json!([
            {"job_id": "a", "state": "running", "verdict": null, "exit_code": null, "waiting": null, "labels": []},
            {"job_id": "b", "state": "done", "verdict": "passed", "exit_code": 0, "duration_secs": 0.0},
            {"job_id": "c", "state": "done", "verdict": "rejected", "exit_code": null, "worker": ""},
        ]);
        let expected = json!([
            {"job_id": "a", "state": "running", "verdict": null},
            {"job_id": "b", "state": "done", "verdict": "passed", "success": true, "exit_code": 0},
            {"job_id": "c", "state": "done", "verdict": "rejected", "success": false, "exit_code": null},
        ]);
        assert_eq!(answer(&listed), expected);
        assert_eq!(answer(&expected), expected, "a second time it changes nothing");
        let log = json!({"job_id": "a", "attempt": 1, "state": "done", "stdout": "\u{1b}[1mx", "stderr": "",
            "next_cursor": null, "omitted": []});
        assert_eq!(
            answer(&log),
            json!({"job_id": "a", "attempt": 1, "state": "done", "stdout": "\u{1b}[1mx"})
        );
    }

    #[test]
    fn flags_and_labels_without_a_value_are_information() {
        let worker = json!({"name": "w", "connected": false, "busy": 0, "jobs": [], "quarantined": null,
            "labels": {"mac": "", "os": "linux"}, "resources": {}});
        assert_eq!(
            answer(&worker),
            json!({"name": "w", "connected": false, "labels": {"mac": "", "os": "linux"}})
        );
    }

    #[test]
    fn a_pruned_result_keeps_all_counts_and_no_control_characters() {
        let tests = json!({"passed": 0, "failed": 1, "source": "a\u{202e}b"});
        let mut result = json!({"job_id": "a", "state": "running", "verdict": null, "tests": tests,
            "silent_failure": false, "worker": "\u{1b}[1mw", "command": "a \u{1b}]0;b\u{7}", "tests_of_others": {"tests": {"passed": 0}}});
        prune(&mut result);
        let tests = json!({"passed": 0, "failed": 1, "source": "a\\u{202e}b"});
        assert_eq!(
            result,
            json!({"job_id": "a", "state": "running", "verdict": null, "tests": tests, "worker": "w",
                "command": "a \\x1b]0;b\\x07"})
        );
    }
}
