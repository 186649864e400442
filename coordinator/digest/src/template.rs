//! Applies a template: selects matching lines with context and the last paragraphs, in order, each
//! line once.

use crate::limits::{
    PARAGRAPH_LINES_MAX, PATTERN_BYTES_MAX, PATTERN_SIZE_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_LINES_MAX,
};
use crate::text::{clip_chars, lossy};
use buildpool_protocol::output::Stream;
use buildpool_protocol::spec::TemplateSpec;
use regex::{Regex, RegexBuilder};
use std::collections::{BTreeMap, VecDeque};

/// Template name for unfiltered output.
pub const RAW: &str = "raw";
/// Maximum number of lines kept from the end for paragraphs.
const LAST_LINES_MAX: usize = 2_000;
/// Maximum number of bytes kept from the end for paragraphs.
const LAST_BYTES_MAX: usize = 512 << 10;

/// Compiles a template's pattern in bounded size. The engine runs in linear time.
///
/// # Errors
/// The reason why the pattern is invalid.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("has {} bytes; at most {PATTERN_BYTES_MAX} are valid", pattern.len()));
    }
    RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "is too large when compiled; use fewer or smaller repetitions".to_owned()
        }
        error => error.to_string().lines().last().unwrap_or("is no valid pattern").trim().to_owned(),
    })
}

/// Lines that a template selects, collected while the log is received.
#[derive(Debug)]
pub(crate) struct Capture {
    always: Filter,
    on_success: Option<Filter>,
    last: VecDeque<(u64, String)>,
    last_bytes: usize,
    dropped_last: bool,
    total: u64,
}

/// One set of patterns and the lines that it selected.
#[derive(Debug)]
struct Filter {
    include: Option<Regex>,
    exclude: Option<Regex>,
    before: usize,
    after: usize,
    paragraphs: usize,
    recent: VecDeque<(u64, String)>,
    after_left: usize,
    kept: VecDeque<(u64, String)>,
    kept_bytes: usize,
    dropped: u64,
}

/// Output of a template.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Filtered {
    /// Selected lines, in order, each once.
    pub(crate) lines: Vec<String>,
    /// Number of lines that were not selected.
    pub(crate) left_out: u64,
}

impl Capture {
    /// Returns None for `raw` and for an invalid pattern. Templates are validated before a job is
    /// accepted.
    pub(crate) fn new(spec: &TemplateSpec) -> Option<Self> {
        if spec.name == RAW {
            return None;
        }
        Some(Self {
            always: Filter::new(spec)?,
            on_success: match &spec.on_success {
                Some(success) => Some(Filter::new(success)?),
                None => None,
            },
            last: VecDeque::new(),
            last_bytes: 0,
            dropped_last: false,
            total: 0,
        })
    }

    pub(crate) fn line(&mut self, _stream: Stream, order: u64, line: &[u8]) {
        self.total += 1;
        let text = clip_chars(&lossy(line), crate::limits::SHOWN_LINE_CHARS).trim_end().to_owned();
        self.always.line(order, &text);
        if let Some(filter) = &mut self.on_success {
            filter.line(order, &text);
        }
        self.last_bytes += text.len();
        self.last.push_back((order, text));
        while self.last.len() > LAST_LINES_MAX || self.last_bytes > LAST_BYTES_MAX {
            let Some((_, text)) = self.last.pop_front() else { break };
            self.last_bytes -= text.len();
            self.dropped_last = true;
        }
    }

    /// Returns the output for a job that passed or failed.
    pub(crate) fn view(&self, passed: bool) -> Filtered {
        let filter = if passed { self.on_success.as_ref().unwrap_or(&self.always) } else { &self.always };
        let mut lines: BTreeMap<u64, &str> =
            filter.kept.iter().map(|(order, text)| (*order, text.as_str())).collect();
        for (order, text) in self.paragraphs(filter.paragraphs) {
            if !filter.exclude.as_ref().is_some_and(|exclude| exclude.is_match(text)) {
                lines.insert(order, text);
            }
        }
        let left_out = self.total.saturating_sub(lines.len() as u64);
        Filtered { lines: lines.into_values().map(str::to_owned).collect(), left_out }
    }

    /// Returns the last paragraphs, with the blank lines between them.
    fn paragraphs(&self, count: usize) -> Vec<(u64, &str)> {
        let mut out = Vec::new();
        let mut lines = self.last.iter().rev().skip_while(|(_, text)| text.trim().is_empty()).peekable();
        for _ in 0..count {
            let start = out.len();
            while let Some((order, text)) = lines.next_if(|(_, text)| !text.trim().is_empty()) {
                out.push((*order, text.as_str()));
            }
            if lines.peek().is_none() {
                // Without a blank line above, this is not a paragraph but the log itself.
                out.truncate(start + PARAGRAPH_LINES_MAX);
                break;
            }
            let blank = out.len();
            while let Some((order, text)) = lines.next_if(|(_, text)| text.trim().is_empty()) {
                if out.len() == blank {
                    out.push((*order, text.as_str()));
                }
            }
        }
        if out.last().is_some_and(|(_, text)| text.trim().is_empty()) {
            out.pop();
        }
        out
    }
}

impl Filter {
    fn new(spec: &TemplateSpec) -> Option<Self> {
        let compiled = |pattern: &Option<String>| match pattern {
            Some(pattern) => compile(pattern).ok().map(Some),
            None => Some(None),
        };
        Some(Self {
            include: compiled(&spec.include_regex)?,
            exclude: compiled(&spec.exclude_regex)?,
            before: spec.context_before.min(100) as usize,
            after: spec.context_after.min(100) as usize,
            paragraphs: spec.tail_paragraphs.unwrap_or(1).min(1_000) as usize,
            recent: VecDeque::new(),
            after_left: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            dropped: 0,
        })
    }

    fn line(&mut self, order: u64, text: &str) {
        let excluded = self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(text));
        let included = !excluded && self.include.as_ref().is_some_and(|include| include.is_match(text));
        if included {
            let recent = std::mem::take(&mut self.recent);
            for (order, text) in recent {
                self.keep(order, text);
            }
            self.keep(order, text.to_owned());
            self.after_left = self.after;
        } else if self.after_left > 0 && !excluded {
            self.after_left -= 1;
            self.keep(order, text.to_owned());
        } else if self.before > 0 && !excluded {
            if self.recent.len() == self.before {
                self.recent.pop_front();
            }
            self.recent.push_back((order, text.to_owned()));
        }
    }

    /// Keeps a line. Beyond the limit, lines of the middle are dropped: the first and the last ones
    /// stay.
    fn keep(&mut self, order: u64, text: String) {
        self.kept_bytes += text.len();
        self.kept.push_back((order, text));
        while self.kept.len() > TEMPLATE_LINES_MAX || self.kept_bytes > TEMPLATE_BYTES_MAX {
            let at = self.kept.len() / 4;
            let Some((_, text)) = self.kept.remove(at) else { break };
            self.kept_bytes -= text.len();
            self.dropped += 1;
        }
    }
}
