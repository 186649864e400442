//! The log of a job as lines on the screen.

use super::Key;
use crate::terminal::one_line;
use buildpool_protocol::output::Stream;
use buildpool_protocol::shown;
use std::collections::VecDeque;

/// Maximum number of kept lines. Older ones are dropped.
const LINES_MAX: usize = 5_000;
/// Length at which a line without an end is broken, in bytes.
const LINE_BYTES_MAX: usize = 4_096;
/// Columns that one key scrolls sideways.
const SIDEWAYS: usize = 16;

/// Lines of a log, and the part on the screen.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) job: String,
    pub(super) command: String,
    pub(super) lines: VecDeque<(Stream, String)>,
    /// Bytes of the incomplete last line of each stream.
    partial: [Vec<u8>; 2],
    /// Shows the end, also while the log grows.
    pub(super) follows: bool,
    /// Index of the first line on the screen, unless it follows.
    first: usize,
    /// Number of columns that are scrolled out on the left.
    pub(super) left: usize,
    /// Reason why no more lines come.
    pub(super) ended: Option<String>,
}

impl Log {
    pub(super) fn new(job: &str, command: &str) -> Self {
        Self {
            job: one_line(job),
            command: one_line(command),
            lines: VecDeque::new(),
            partial: Default::default(),
            follows: true,
            first: 0,
            left: 0,
            ended: None,
        }
    }

    /// Returns the id of the job.
    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    /// Adds output of the job.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let partial = &mut self.partial[stream.index()];
            partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || partial.len() >= LINE_BYTES_MAX {
                let line = std::mem::take(partial);
                self.add(stream, &line);
            }
        }
    }

    /// Adds a line of this program.
    pub(crate) fn note(&mut self, text: &str) {
        self.add(Stream::Stderr, format!("buildpool: {text}").as_bytes());
    }

    /// Adds the incomplete lines, and states why no more lines come.
    pub(crate) fn end(&mut self, reason: &str) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let line = std::mem::take(&mut self.partial[stream.index()]);
            if !line.is_empty() {
                self.add(stream, &line);
            }
        }
        self.ended = Some(one_line(reason));
    }

    fn add(&mut self, stream: Stream, line: &[u8]) {
        let text = shown::printable(&String::from_utf8_lossy(line)).replace('\t', "    ");
        // A carriage return replaces the text before it, as on a terminal.
        let text = text.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
        self.lines.push_back((stream, text.to_owned()));
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
            self.first = self.first.saturating_sub(1);
        }
    }

    /// Returns the index of the first line on a screen with this many rows.
    pub(super) fn first(&self, rows: usize) -> usize {
        let last = self.lines.len().saturating_sub(rows);
        if self.follows { last } else { self.first.min(last) }
    }

    /// Scrolls. At the end, the log follows again.
    pub(super) fn key(&mut self, key: Key, rows: usize) {
        let first = self.first(rows);
        let to = match key {
            Key::Up | Key::Char('k') => first.saturating_sub(1),
            Key::Down | Key::Char('j') => first.saturating_add(1),
            Key::PageUp | Key::Char('b') => first.saturating_sub(rows),
            Key::PageDown | Key::Char(' ') => first.saturating_add(rows),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            Key::Char('f') => {
                (self.follows, self.first) = (!self.follows, first);
                return;
            }
            Key::Left => {
                self.left = self.left.saturating_sub(SIDEWAYS);
                return;
            }
            Key::Right => {
                self.left = (self.left + SIDEWAYS).min(LINE_BYTES_MAX);
                return;
            }
            _ => return,
        };
        let last = self.lines.len().saturating_sub(rows);
        (self.first, self.follows) = (to.min(last), to >= last);
    }
}
