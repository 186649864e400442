//! What systemctl and the journal of systemd print about a service.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { commands: &["systemctl", "journalctl"], rules: RULES, ..Tool::named("systemd") };

/// `See "systemctl status a.service" and "journalctl -xeu a.service" for details.`
fn advice(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.starts_with("See \"systemctl ") { Next::Last } else { Next::Beyond }
}

/// Only a failed unit is a problem. Its state is the message.
fn state(diagnostic: &mut Diagnostic) {
    let state = diagnostic.lines.iter().position(|line| line.trim_start().starts_with("Active: failed "));
    diagnostic.spurious = state.is_none();
    diagnostic.head = state;
}

const RULES: &[Rule] = &[
    Rule {
        name: "systemd.job",
        pattern: r"^Job for \S+ (?:failed|canceled|timed out)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 80).follow(advice).fails(Fails::Always))],
    },
    Rule {
        name: "systemd.status",
        pattern: r"^(?:\xc3\x97|\xe2\x97\x8f) [\w@.\\-]+\.(?:service|socket|mount|timer|target)(?: - .*)?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 78).follow(indented).refine(state).fails(Fails::Always),
        )],
    },
    Rule {
        // With or without the name of the host in the journal.
        name: "systemd.unit",
        pattern: r"^(?:\S+ systemd\[\d+\]: )?[\w@.\\-]+\.(?:service|socket|mount|timer|target|slice|scope): (?:Failed with result |Main process exited, code=(?:killed|dumped|exited, status=[1-9])|Start request repeated too quickly|Failed to ).*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 76).fails(Fails::AtEnd))],
    },
];
