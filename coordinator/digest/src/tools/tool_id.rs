//! Properties of tools by their ids.

use super::{ALL, TOOLS, ToolId};
use crate::records::RecordFormat;
use crate::tool::{Includes, Tool};
use std::sync::LazyLock;

/// The tool of each rule, in the same order.
static TOOLS_OF_RULES: LazyLock<Vec<ToolId>> =
    LazyLock::new(|| ToolId::all().flat_map(|tool| tool.rules.iter().map(move |_| tool)).collect());

impl std::ops::Deref for ToolId {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &TOOLS[*self as usize]
    }
}

impl std::fmt::Display for ToolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl ToolId {
    /// The tool with the rule at this place among all rules.
    pub(crate) fn of_rule_at(index: usize) -> Self {
        TOOLS_OF_RULES[index]
    }

    /// The tool with the rule, or the format of records, of this name.
    pub(crate) fn of_rule(name: &str) -> Option<Self> {
        Self::all().find(|tool| {
            tool.rules.iter().any(|rule| rule.name == name)
                || tool.records.iter().any(|format| format.name == name)
        })
    }

    /// The tool whose report files, which a build writes too, have this format.
    pub(crate) fn of_build_report(format: &str) -> Option<Self> {
        Self::all().find(|tool| tool.build_report.as_ref().is_some_and(|report| report.name == format))
    }

    /// The formats of records of all tools, in the order of the table.
    pub(crate) fn record_formats() -> impl Iterator<Item = &'static RecordFormat> {
        // Lines that may be records are many, and tools that print some are few.
        static FORMATS: LazyLock<Vec<&RecordFormat>> =
            LazyLock::new(|| TOOLS.iter().flat_map(|tool| tool.records).collect());
        FORMATS.iter().copied()
    }

    /// All tools.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// Whether results of both are of the same program.
    pub(crate) fn is_of_program(self, other: Self) -> bool {
        self.program() == other.program()
    }

    /// The tool that stands for all results of the same program.
    pub(crate) fn program(self) -> Self {
        self.program.unwrap_or(self)
    }

    /// The tool to which a result in this format belongs.
    pub(crate) fn reporting_tool(self) -> Self {
        self.reports_as.unwrap_or(self)
    }

    /// Whether `driver` runs this tool's tests.
    pub(crate) fn is_inside(self, driver: Self) -> bool {
        match driver.includes {
            Includes::Nothing => false,
            Includes::Only(tool) => self == tool,
            Includes::AllOthers => self != driver,
        }
    }
}
