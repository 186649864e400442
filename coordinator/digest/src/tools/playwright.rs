//! Output of Playwright.

use super::compiler::DIED;
use super::mocha::WORKER_DIED;
use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Playwright") };

const RULES: &[Rule] = &[
    Rule {
        name: "playwright.worker",
        pattern: r"^\s*Error: worker process exited unexpectedly \(code=\w+, signal=(?:(?P<sig>SIG[A-Z]+)|null)\)",
        effects: &[Effect::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "playwright.session",
        pattern: r"^Running (?P<n>\d+) tests? using \d+ workers?",
        effects: &[Effect::Session(ToolId::Playwright), Effect::Announces(ToolId::Playwright)],
    },
    Rule {
        name: "playwright.counts",
        pattern: r"^  (?:(?P<failed>\d+) (?:failed|interrupted)|(?P<skipped>\d+) (?:skipped|did not run)|(?P<passed>\d+) (?:passed \([\d.]+(?:ms|[smhd])\)|flaky))$",
        effects: &[Effect::Adds(ToolId::Playwright, SORTS), Effect::Summary],
    },
    Rule {
        // They were to run, and the run was over before.
        name: "playwright.other_failure",
        pattern: r"^  [1-9]\d* (?:did not run|errors? (?:was|were) not a part of any test, see above for details)$",
        effects: &[Effect::OtherFailure(ToolId::Playwright), Effect::Summary],
    },
];
