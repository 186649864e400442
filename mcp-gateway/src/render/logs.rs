//! A part of a log.

use super::clean::{one_line, printable};
use super::job::call;
use super::text::Page;
use super::{Answer, Budget, UNTRUSTED};
use buildpool_protocol::client_link::LogAnswer;
use serde_json::{Map, Value, json};

/// Both forms of a part of a log. `query` is the call's arguments without what says where to begin, so that the next call
/// goes on in the same way. What is too long here despite all is cut from the front: the end says how it ended.
pub(crate) fn logs(mut answer: LogAnswer, query: &Map<String, Value>, budget: &Budget) -> Answer {
    for omission in &mut answer.omitted {
        omission.what = one_line(&omission.what);
        omission.get = call("get_job_logs", &go_on(query, &[("offset", json!(0)), ("limit", json!(200))]));
    }
    for text in [&mut answer.stdout, &mut answer.stderr, &mut answer.interleaved].into_iter().flatten() {
        *text = printable(text);
    }
    let mut cut_bytes = 0;
    loop {
        let rendered = assemble(&answer, query, cut_bytes);
        let excess = budget.excess(&rendered);
        let longest = [&mut answer.stdout, &mut answer.stderr, &mut answer.interleaved]
            .into_iter()
            .flatten()
            .max_by_key(|text| text.len());
        match longest {
            Some(text) if excess > 0 && !text.is_empty() => {
                let from = text.ceil_char_boundary((excess + text.len() / 16).min(text.len()));
                let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
                cut_bytes += from;
                text.drain(..from);
            }
            _ => return rendered,
        }
    }
}

fn go_on(query: &Map<String, Value>, more: &[(&str, Value)]) -> Value {
    let mut arguments = query.clone();
    arguments.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    Value::Object(arguments)
}

fn assemble(answer: &LogAnswer, query: &Map<String, Value>, cut_bytes: usize) -> Answer {
    let mut next = Vec::new();
    if let Some(cursor) = answer.next_cursor {
        next.push(call("get_job_logs", &go_on(query, &[("cursor", json!(cursor))])));
    }
    let mut structured = json!({
        "job_id": answer.job_id,
        "attempt": answer.attempt,
        "state": answer.state,
        "next": next,
    });
    let mut page = Page::default();
    page.line(format_args!(
        "log of job {}, attempt {}, state {}",
        answer.job_id,
        answer.attempt,
        answer.state.name()
    ));
    let parts =
        [("stdout", &answer.stdout), ("stderr", &answer.stderr), ("interleaved", &answer.interleaved)];
    let names: Vec<&str> = parts.iter().filter(|(_, text)| text.is_some()).map(|(name, _)| *name).collect();
    let untrusted = format!("{} {UNTRUSTED}", names.join(", "));
    page.line(format_args!("untrusted: {} {UNTRUSTED}; each such line begins with a bar", names.join(", ")));
    structured["untrusted"] = json!(untrusted);
    for (name, text) in parts {
        let Some(text) = text else { continue };
        structured[name] = json!(text);
        page.line(format_args!("{name}:"));
        if text.is_empty() {
            page.line("(nothing)");
        } else {
            page.quote(text.strip_suffix('\n').unwrap_or(text));
        }
    }
    if let Some(cursor) = answer.next_cursor {
        structured["next_cursor"] = json!(cursor);
        page.line(format_args!("next_cursor: {cursor}"));
    }
    if cut_bytes > 0 {
        structured["cut_bytes"] = json!(cut_bytes);
        page.line(format_args!(
            "cut_bytes: {cut_bytes} from the front, because this client takes no more; ask for fewer lines"
        ));
    }
    if !answer.omitted.is_empty() {
        structured["omitted"] = json!(answer.omitted);
        let omitted: Vec<String> = answer
            .omitted
            .iter()
            .map(|cut| format!("{}: {} lines, {} bytes: {}", cut.what, cut.lines, cut.bytes, cut.get))
            .collect();
        page.list("omitted:", &omitted);
    }
    page.list("next:", &next);
    Answer { structured, text: page.done() }
}
