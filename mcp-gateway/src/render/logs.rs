//! Answer with a part of a log.

use super::job::call;
use super::{Answer, Budget};
use buildpool_digest::TextPage as Page;
use buildpool_protocol::Stream;
use buildpool_protocol::client_link::{LogAnswer, LogCursor, StreamChoice, TextPlace};
use buildpool_protocol::report::Omission;
use buildpool_protocol::shown::{one_line, printable};
use serde_json::{Map, Value, json};

/// Parameters of a log call that its answer depends on.
#[derive(Debug)]
pub(crate) struct LogCall {
    /// Arguments for the next call, without those that select the start.
    pub(crate) again: Map<String, Value>,
    /// Whether the call requests the end of the log.
    pub(crate) is_tail: bool,
}

impl LogCall {
    /// Returns the space for log text in an answer, over all its texts, measured as it is shown.
    pub(crate) fn room(&self, stream: StreamChoice, budget: &Budget) -> usize {
        let place = |after| TextPlace { position: u64::MAX, within: u32::MAX, after };
        // The two places differ, so that both are encoded.
        let texts = [place(u32::MAX), place(u32::MAX - 1)];
        let cursor = Some(LogCursor { attempt: u32::MAX, texts, until: Some(texts) });
        let is_interleaved = stream == StreamChoice::Interleaved;
        let text = |is_wanted: bool| is_wanted.then(String::new);
        let (stdout, stderr) = (stream.wants(Stream::Stdout), stream.wants(Stream::Stderr));
        let cut = |part: &str| Omission {
            what: part.to_owned(),
            lines: u64::MAX,
            bytes: u64::MAX,
            get: String::new(),
        };
        let widest = LogAnswer {
            job_id: uuid::Uuid::nil().to_string(),
            attempt: u32::MAX,
            stdout: text(stdout && !is_interleaved),
            stderr: text(stderr && !is_interleaved),
            interleaved: text(is_interleaved),
            next_cursor: cursor,
            rest_cursor: cursor,
            omitted: if stream == StreamChoice::Both {
                vec![cut("stdout"), cut("stderr")]
            } else {
                vec![cut("interleaved")]
            },
            ..LogAnswer::default()
        };
        budget.room_beside(&assemble(&widest, self, usize::MAX))
    }

    fn go_on(&self, cursor: LogCursor) -> String {
        let mut arguments = self.again.clone();
        arguments.insert("cursor".to_owned(), json!(cursor));
        call("get_job_logs", &Value::Object(arguments))
    }
}

/// Renders both forms of a part of a log. A text that is still too long is cut on the side where
/// more of the log exists: a tail at its beginning.
pub(crate) fn logs(mut answer: LogAnswer, log_call: &LogCall, budget: &Budget) -> Answer {
    for omission in &mut answer.omitted {
        omission.what = one_line(&omission.what);
    }
    for text in [&mut answer.stdout, &mut answer.stderr, &mut answer.interleaved].into_iter().flatten() {
        *text = printable(text);
    }
    let mut cut_bytes = 0;
    loop {
        let rendered = assemble(&answer, log_call, cut_bytes);
        let excess = budget.excess(&rendered);
        let longest = [&mut answer.stdout, &mut answer.stderr, &mut answer.interleaved]
            .into_iter()
            .flatten()
            .max_by_key(|text| text.len());
        match longest {
            Some(text) if excess > 0 && !text.is_empty() => {
                cut_bytes += cut(text, excess + text.len() / 16, log_call.is_tail);
                // The removed lines of a tail come again before its shown ones.
                for cursor in [&mut answer.next_cursor, &mut answer.rest_cursor].into_iter().flatten() {
                    cursor.until = None;
                }
            }
            _ => return rendered,
        }
    }
}

/// Removes this many bytes and the rest of their line. Returns the number of removed bytes.
fn cut(text: &mut String, bytes: usize, is_tail: bool) -> usize {
    let before = text.len();
    if is_tail {
        let from = text.ceil_char_boundary(bytes.min(before));
        let from = text[from..].find('\n').map_or(from, |at| from + at + 1);
        text.drain(..from);
    } else {
        let to = text.floor_char_boundary(before - bytes.min(before));
        text.truncate(text[..to].rfind('\n').map_or(to, |at| at + 1));
    }
    before - text.len()
}

fn assemble(answer: &LogAnswer, log_call: &LogCall, cut_bytes: usize) -> Answer {
    let next: Vec<String> = answer.next_cursor.map(|cursor| log_call.go_on(cursor)).into_iter().collect();
    let whole = || {
        call(
            "get_job_logs",
            &json!({"job_id": answer.shown_id(), "cursor": LogCursor { attempt: answer.attempt, ..LogCursor::default() }}),
        )
    };
    let omitted: Vec<Omission> = answer
        .omitted
        .iter()
        .map(|cut| Omission {
            get: answer.rest_cursor.map_or_else(whole, |cursor| log_call.go_on(cursor)),
            ..cut.clone()
        })
        .collect();
    let mut structured = json!({
        "job_id": answer.job_id,
        "attempt": answer.attempt,
        "state": answer.state,
    });
    let mut page = Page::default();
    page.line(format_args!(
        "log of job {}, attempt {}, state {}",
        answer.shown_id(),
        answer.attempt,
        answer.state.name()
    ));
    let parts =
        [("stdout", &answer.stdout), ("stderr", &answer.stderr), ("interleaved", &answer.interleaved)];
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
            "cut_bytes: {cut_bytes}, because this client accepts no longer answer; request fewer lines"
        ));
    }
    if !omitted.is_empty() {
        structured["omitted"] = json!(omitted);
        page.omitted(&omitted.iter().map(in_text).collect::<Vec<_>>());
    }
    if !next.is_empty() {
        structured["next"] = json!(next);
        page.next(&next);
    }
    Answer::new(structured, page.done().trim_end().to_owned())
}

/// Returns an omission with a noun for the page, which counts it.
fn in_text(cut: &Omission) -> Omission {
    let what = match cut.what.as_str() {
        "interleaved" if cut.lines > 0 => "interleaved_lines",
        "interleaved" => "interleaved_output",
        other => other,
    };
    Omission { what: what.to_owned(), ..cut.clone() }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Budget, LogAnswer, LogCall, Map, Omission, logs};
    use buildpool_protocol::Verbosity;

    #[test]
    fn omitted_lines_of_an_interleaved_text_are_counted_as_lines() {
        let cut = |lines, bytes| Omission { what: "interleaved".into(), lines, bytes, get: String::new() };
        for (lines, bytes, expected) in [
            (19_999, 7, "19,999 interleaved lines"),
            (1, 7, "1 interleaved line:"),
            (0, 7, "7 bytes of interleaved output"),
        ] {
            let answer = LogAnswer {
                interleaved: Some("x\n".into()),
                omitted: vec![cut(lines, bytes)],
                ..LogAnswer::default()
            };
            let call = LogCall { again: Map::new(), is_tail: true };
            let Answer { text, structured, .. } = logs(answer, &call, &Budget::of(Verbosity::Minimal, "x"));
            assert!(text.contains(expected), "{text}");
            assert_eq!(structured["omitted"][0]["what"], "interleaved");
        }
    }
}
