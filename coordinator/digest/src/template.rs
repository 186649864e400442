//! Applies a template: selects matching lines with context and the last paragraphs, in order, each
//! line once.

use crate::limits::{
    PARAGRAPH_LINES_MAX, PATTERN_BYTES_MAX, PATTERN_SIZE_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_LINES_MAX,
};
use crate::text::{clipped, lossy};
use buildpool_protocol::output::Stream;
use buildpool_protocol::shown::escaped;
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
    last: VecDeque<KeptLine>,
    last_bytes: usize,
}

/// One set of patterns and the lines that it selected.
#[derive(Debug)]
struct Filter {
    include: Option<Regex>,
    exclude: Option<Regex>,
    before: usize,
    after: usize,
    paragraphs: usize,
    recent: VecDeque<KeptLine>,
    after_left: usize,
    kept: VecDeque<KeptLine>,
    kept_bytes: usize,
}

/// Output of a template.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Filtered {
    /// Selected lines, in order, each once.
    pub(crate) lines: Vec<KeptLine>,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLine {
    order: u64,
    pub(crate) text: String,
    /// Bytes of a long line that are left out.
    pub(crate) clipped: u64,
    /// Length of the whole line in bytes.
    pub(crate) length: u64,
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
        })
    }

    pub(crate) fn line(&mut self, _stream: Stream, order: u64, line: &[u8]) {
        // Patterns match the text itself; the view escapes it.
        let whole = lossy(line);
        let (text, clipped) = clipped(&whole, crate::limits::SHOWN_LINE_CHARS);
        let line = KeptLine { order, text: text.trim_end().to_owned(), clipped, length: whole.len() as u64 };
        self.always.line(&line);
        if let Some(filter) = &mut self.on_success {
            filter.line(&line);
        }
        self.last_bytes += line.text.len();
        self.last.push_back(line);
        while self.last.len() > LAST_LINES_MAX || self.last_bytes > LAST_BYTES_MAX {
            let Some(line) = self.last.pop_front() else { break };
            self.last_bytes -= line.text.len();
        }
    }

    /// Returns the output for a job that passed or failed.
    pub(crate) fn view(&self, passed: bool) -> Filtered {
        let filter = if passed { self.on_success.as_ref().unwrap_or(&self.always) } else { &self.always };
        let mut lines: BTreeMap<u64, &KeptLine> = filter.kept.iter().map(|line| (line.order, line)).collect();
        for line in self.paragraphs(filter.paragraphs) {
            if !filter.exclude.as_ref().is_some_and(|exclude| exclude.is_match(&line.text)) {
                lines.insert(line.order, line);
            }
        }
        let shown = |line: &KeptLine| KeptLine { text: escaped(line.text.as_bytes()), ..line.clone() };
        Filtered { lines: lines.into_values().map(shown).collect() }
    }

    /// Returns the last paragraphs from the end on, with the blank lines between them.
    fn paragraphs(&self, count: usize) -> Vec<&KeptLine> {
        let mut lines = self.last.iter().rev().skip_while(|line| line.is_blank()).peekable();
        let mut paragraphs: Vec<Vec<&KeptLine>> = Vec::new();
        let mut blanks = Vec::new();
        while paragraphs.len() < count && lines.peek().is_some() {
            let paragraph = std::iter::from_fn(|| lines.next_if(|line| !line.is_blank()));
            paragraphs.push(paragraph.collect());
            blanks.push(lines.peek().copied());
            while lines.next_if(|line| line.is_blank()).is_some() {}
        }
        // With fewer blank lines than paragraphs, these are not paragraphs but the log itself.
        if blanks.iter().any(Option::is_none) {
            paragraphs.iter_mut().for_each(|paragraph| paragraph.truncate(PARAGRAPH_LINES_MAX));
        }
        // Blank lines stand between two paragraphs.
        blanks.pop();
        let mut blanks = blanks.into_iter().flatten();
        paragraphs.into_iter().flat_map(|paragraph| paragraph.into_iter().chain(blanks.next())).collect()
    }
}

impl KeptLine {
    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
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
        })
    }

    fn line(&mut self, line: &KeptLine) {
        let text = line.text.as_str();
        let excluded = self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(text));
        let included = !excluded && self.include.as_ref().is_some_and(|include| include.is_match(text));
        if included {
            std::mem::take(&mut self.recent).into_iter().for_each(|line| self.keep(line));
            self.keep(line.clone());
            self.after_left = self.after;
        } else if self.after_left > 0 && !excluded {
            self.after_left -= 1;
            self.keep(line.clone());
        } else if self.before > 0 && !excluded {
            if self.recent.len() == self.before {
                self.recent.pop_front();
            }
            self.recent.push_back(line.clone());
        }
    }

    /// Keeps a line. Beyond the limit, lines of the middle are dropped: the first and the last ones
    /// stay.
    fn keep(&mut self, line: KeptLine) {
        self.kept_bytes += line.text.len();
        self.kept.push_back(line);
        while self.kept.len() > TEMPLATE_LINES_MAX || self.kept_bytes > TEMPLATE_BYTES_MAX {
            let at = self.kept.len() / 4;
            let Some(line) = self.kept.remove(at) else { break };
            self.kept_bytes -= line.text.len();
        }
    }
}
