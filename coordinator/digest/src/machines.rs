//! Functions of single tools beyond the common effects, and the state that they keep between lines.

use crate::digester::TestOutput;
use crate::markers::{MarkerLine, Markers};
use crate::rules::{Count, Groups};
use crate::tally::{Counts, LinePosition, Tally};
use crate::text::lossy;
use crate::tool::ToolId;
use buildpool_protocol::output::Stream;
use std::any::Any;

/// States of tools, each of a type that only the tool's file knows.
#[derive(Default)]
pub(crate) struct Machines(Vec<Box<dyn Any + Send + Sync>>);

impl Machines {
    /// The state of this type, if a line has created it.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|state| state.downcast_ref())
    }

    /// The state of this type for a change, if a line has created it.
    pub(crate) fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find_map(|state| state.downcast_mut())
    }

    /// Replaces the state of this type.
    pub(crate) fn set<T: Any + Send + Sync>(&mut self, state: T) {
        match self.get_mut() {
            Some(old) => *old = state,
            None => self.0.push(Box::new(state)),
        }
    }

    /// Removes the state of this type and returns it.
    pub(crate) fn take<T: Any>(&mut self) -> Option<T> {
        let at = self.0.iter().position(|state| state.is::<T>())?;
        self.0.swap_remove(at).downcast().ok().map(|state| *state)
    }
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").field("states", &self.0.len()).finish()
    }
}

/// A total that its tool certainly printed.
#[derive(Debug)]
pub(crate) struct OwnTotal {
    pub(crate) tool: ToolId,
    pub(crate) counts: Counts,
    pub(crate) text: String,
    pub(crate) stream: Stream,
    /// Offset of its line in the stream.
    pub(crate) from: u64,
    pub(crate) order: u64,
    pub(crate) position: LinePosition,
}

/// A matched line, and the parts of the digester that the tool's own function may change.
pub(crate) struct MatchedLine<'m> {
    /// The tool to which the rule belongs.
    pub(crate) tool: ToolId,
    pub(crate) groups: &'m Groups<'m>,
    pub(crate) body: &'m [u8],
    pub(crate) stream: Stream,
    pub(crate) from: u64,
    pub(crate) order: u64,
    pub(crate) position: LinePosition,
    pub(crate) tally: &'m mut Tally,
    pub(crate) markers: &'m mut Markers,
    pub(crate) machines: &'m mut Machines,
    pub(crate) test_output: &'m mut TestOutput,
    /// A total that this line completes.
    pub(crate) own_total: Option<OwnTotal>,
    /// Counts of the tool that this line completes.
    pub(crate) standing: Option<Counts>,
}

impl MatchedLine<'_> {
    /// Text of a group, empty without it.
    pub(crate) fn text(&self, group: &str) -> String {
        self.groups.text(group).unwrap_or_default().into_owned()
    }

    /// The tests of a part of the run follow, named by group `t`. Only tests of the same part are the same tests.
    pub(crate) fn part(&mut self) {
        let name = self.text("t");
        self.tally.part(self.tool, &name);
    }

    /// Counts tests of the summary before this line that did not simply pass: `FAILED (failures=3)`.
    pub(crate) fn moves(&mut self, count: Count) {
        self.standing = count(self.groups).and_then(|counts| self.tally.moves(self.tool, counts));
    }

    /// A program of this tool has ended, completely if all its tests passed.
    pub(crate) fn over(&mut self, completely: bool) {
        self.tally.over(self.tool, completely);
        self.markers.settle(self.order);
    }

    /// The tool reports failure in passing. Its earlier report is its last word.
    pub(crate) fn fails_too(&mut self) {
        let success = self.markers.success.as_ref().map_or(0, |seen| seen.order);
        if !self.markers.runs.fails_still(self.tool, success, self.order) {
            self.markers.failed(self.marker(self.tool), false);
        }
    }

    /// The line as a sign of something.
    pub(crate) fn marker<T>(&self, what: T) -> MarkerLine<T> {
        MarkerLine::new(what, &lossy(self.body), self.stream, self.from, self.order)
    }

    /// The total in this line.
    pub(crate) fn total(&self, tool: ToolId, counts: Counts) -> OwnTotal {
        let text = lossy(self.body).into_owned();
        let &Self { stream, from, order, position, .. } = self;
        OwnTotal { tool, counts, text, stream, from, order, position }
    }

    /// The run under way works on the unit in group `u`, in that of group `w` if present.
    pub(crate) fn works_on(&mut self, tool: ToolId) {
        self.markers.runs.at_work(tool, self.order);
        let unit = self.unit();
        self.markers.runs.works_on(tool, &unit);
    }

    /// The run under way failed at that unit.
    pub(crate) fn fails_at(&mut self, tool: ToolId) {
        let unit = self.unit();
        self.markers.runs.fails_at(tool, &unit);
    }

    /// Name of a run's unit: a package, or a goal in a project.
    fn unit(&self) -> String {
        format!("{} {}", self.text("u"), self.text("w"))
    }
}
