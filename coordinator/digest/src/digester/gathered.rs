//! Results of the digester at the end of the log.

use super::{Options, SummaryLine};
use crate::command::Command;
use crate::findings::Findings;
use crate::keyword_lines::KeywordLines;
use crate::machines::Machines;
use crate::markers::Markers;
use crate::missing_total::MissingTotal;
use crate::tally::Tally;
use crate::template::Capture;
use crate::text::TailLines;
use crate::transcript::StreamEnds;
use buildpool_protocol::report::GapEntry;

/// All that the log gave.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) options: Options,
    pub(crate) command: Command,
    pub(crate) machines: Machines,
    pub(crate) findings: Findings,
    pub(crate) keyword_lines: KeywordLines,
    pub(crate) missing_total: MissingTotal,
    pub(crate) tally: Tally,
    pub(crate) markers: Markers,
    pub(crate) summary: Vec<SummaryLine>,
    pub(crate) capture: Option<Capture>,
    pub(crate) gaps: Vec<GapEntry>,
    pub(crate) tails: [TailLines; 2],
    pub(crate) ends: [StreamEnds; 2],
    /// The lines of a short log.
    pub(crate) whole: Option<Vec<String>>,
    /// Lines and bytes of each stream.
    pub(crate) counts: [(u64, u64); 2],
    /// Order of the last line with content that is not part of a message.
    pub(crate) last_text: u64,
    /// The same, without lines that look like the context of an error above them.
    pub(crate) last_statement: u64,
}
