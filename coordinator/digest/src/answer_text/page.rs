//! Text of an answer, line by line. Text behind a bar comes from the job.

use buildpool_protocol::report::{EARLIER_OUTPUT, Finding, FindingSummary, Location, Omission, Severity};
use buildpool_protocol::shown::{counted, one_line, printable};
use std::fmt::{Display, Write};

/// Text builder whose lines are safe to print: control, bidirectional and zero-width characters are
/// escaped.
#[derive(Default)]
pub struct TextPage {
    text: String,
}

impl TextPage {
    /// Adds a line of the pool.
    pub fn line(&mut self, line: impl Display) {
        self.text.push_str(&one_line(&line.to_string()));
        self.text.push('\n');
    }

    /// Adds lines of the job, each behind a bar.
    pub fn quote(&mut self, text: &str) {
        let text = printable(text);
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            self.text.push('|');
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Adds a line of the pool that ends with text of the job: `title|text`. Further lines are
    /// behind a bar.
    pub fn quote_after(&mut self, title: &str, text: &str) {
        self.text.push_str(&one_line(title));
        self.text.push(' ');
        self.quote(text);
    }

    /// Adds a title, then one line for each entry.
    pub fn list(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.line(format!("- {entry}")));
        }
    }

    /// Adds a title, then one quoted line for each entry of the job.
    pub fn quoted(&mut self, title: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.line(title);
            entries.iter().for_each(|entry| self.quote(&one_line(entry)));
        }
    }

    /// Adds one finding: its id, the facts that its message lacks, then its lines.
    pub fn finding(&mut self, finding: &Finding, job: &str) {
        let mut title = lead(finding);
        if finding.recurrence > 1 {
            let _ = write!(title, " (×{})", finding.recurrence);
        }
        if finding.also_in_passing_jobs {
            title.push_str(" (also in passing runs)");
        }
        if finding.job != job && !finding.job.is_empty() {
            let _ = write!(title, " job {}", finding.job);
        }
        if finding.pre_context.is_empty() {
            self.quote_after(&title, &finding.message);
        } else {
            self.line(&title);
            finding.pre_context.iter().for_each(|line| self.quote(line));
            self.quote(&finding.message);
        }
        finding.post_context.iter().for_each(|line| self.quote(line));
    }

    /// Adds the line of a finding that is not expanded.
    pub fn finding_line(&mut self, finding: &FindingSummary, job: &str) {
        let of = match finding.job.as_str() {
            "" => String::new(),
            of if of == job => String::new(),
            of => format!(" job {of}"),
        };
        self.quote_after(&format!("{}{of}", finding.id), &finding.message);
    }

    /// Adds the counts of omitted parts. Each command that returns parts stands behind them, once.
    pub fn omitted(&mut self, cuts: &[Omission]) {
        let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
        for omission in cuts {
            match groups.iter_mut().find(|(get, _)| *get == omission.get) {
                Some((_, parts)) => parts.push(cut(omission)),
                None => groups.push((&omission.get, vec![cut(omission)])),
            }
        }
        let named = |(get, parts): &(&str, Vec<String>)| match (*get, parts.join(", ")) {
            ("", parts) => parts,
            (get, parts) => format!("{parts}: `{get}`"),
        };
        if !groups.is_empty() {
            self.line(format!("not shown: {}", groups.iter().map(named).collect::<Vec<_>>().join("; ")));
        }
    }

    /// Adds suggested commands.
    pub fn next(&mut self, calls: &[String]) {
        calls.iter().for_each(|call| self.line(format!("next: {call}")));
    }

    /// Number of characters so far.
    pub(super) fn chars(&self) -> usize {
        self.text.chars().count()
    }

    /// Returns the text.
    pub fn done(self) -> String {
        self.text
    }
}

/// Id of a finding, and the severity, location and test that its message lacks.
pub(crate) fn lead(finding: &Finding) -> String {
    let mut out = finding.id.clone();
    if finding.severity == Severity::Warning && !finding.message.to_ascii_lowercase().contains("warn") {
        out.push_str(" warning");
    }
    if let Some(location) =
        finding.location.as_ref().filter(|location| !finding.message.contains(&location.file))
    {
        let _ = write!(out, " at {}", place(location));
    }
    if let Some(test) = finding.test.as_ref().filter(|test| !finding.message.contains(test.as_str())) {
        let _ = write!(out, " in {test}");
    }
    out
}

pub(super) fn place(location: &Location) -> String {
    let mut text = location.file.clone();
    for number in [location.line, location.column].into_iter().flatten() {
        let _ = write!(text, ":{number}");
    }
    text
}

/// Describes an omitted part: `231 lines of stdout`, `1 other finding`.
fn cut(omission: &Omission) -> String {
    if omission.lines == 0 && omission.bytes > 0 {
        let what = omission.what.replace('_', " ");
        return format!("{} of {what}", counted(omission.bytes, "byte"));
    }
    let lines = counted(omission.lines, "line");
    match omission.what.as_str() {
        "stdout" | "stderr" => format!("{lines} of {}", omission.what),
        "filtered_output" => format!("{lines} of the filtered output"),
        EARLIER_OUTPUT => format!("{lines} of earlier output"),
        crate::render::ORIGINAL => "the original of this compressed text".to_owned(),
        list => counted(omission.lines, &list.trim_end_matches('s').replace('_', " ")),
    }
}
