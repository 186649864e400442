//! Output of rustc.

use super::libtest::panicked;
use super::shell::DIED;
use crate::records::{Event, RecordFormat};
use crate::rules::{
    Diagnostic, ERROR, Effect, Indicator, Kind, Level, Next, Problem, Role, Rule, WARNING, always, problem,
};
use crate::tool::Tool;
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    rules: RULES,
    records: &[RecordFormat {
        name: "rustc.record",
        beginnings: &[br#"{"$message_type":"#, br#"{"message":"#],
        read: record,
    }],
    ..Tool::named("rustc")
};

/// A record of `--error-format json`.
#[derive(Debug, Deserialize)]
struct Record {
    rendered: Option<String>,
    #[serde(rename = "$message_type")]
    kind: Option<String>,
    spans: Option<Vec<serde::de::IgnoredAny>>,
}

/// The message with its text. Other types of records have nothing for a reader.
fn record(line: &[u8]) -> Option<Vec<Event>> {
    let Record { rendered, kind, spans } = serde_json::from_slice(line).ok()?;
    kind.is_some().then_some(()).or_else(|| spans.map(|_| ()))?;
    Some(rendered.map(Event::Text).into_iter().collect())
}

/// The `--> file:line:column` line under a diagnostic.
fn arrow(diagnostic: &mut Diagnostic) {
    for line in diagnostic.lines.clone() {
        let line = line.trim_start();
        let Some(place) = line.strip_prefix("--> ").or_else(|| line.strip_prefix("┌─ ")) else {
            continue;
        };
        let _placed = crate::rules::set_place(diagnostic, place.trim());
        return;
    }
    super::places::located(diagnostic);
    // bun and others begin the error of a script with the same word.
    if diagnostic.file.is_none()
        && diagnostic.lines.iter().skip(1).any(|line| line.trim_start().starts_with("at "))
    {
        super::mocha::js_place(diagnostic);
        diagnostic.kind = diagnostic.file.is_some().then_some(Kind::Runtime);
    }
}

/// The lines of a rustc diagnostic: arrow, excerpt, notes.
fn diagnostic(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let excerpt =
        trimmed.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '|' | '=' | '+' | '-' | '.' | '~'));
    let arrow = trimmed.starts_with("--> ") || trimmed.starts_with("::: ");
    let word = line.starts_with("help:") || line.starts_with("note:") || line.starts_with("...");
    let deep = line.starts_with("     ")
        || line.starts_with("  ") && !trimmed.starts_with(|c: char| c.is_ascii_uppercase());
    if trimmed.is_empty() {
        Next::Beyond
    } else if excerpt || arrow || word || deep {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Cargo's own errors: the lines under them up to a blank one, `Caused by:` included.
fn cargo_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        return Next::Maybe;
    }
    // Text of bun and others about an assertion.
    let compared = line.starts_with("Expected") || line.starts_with("Received");
    if compared && so_far.len() < 12 {
        return Next::Part;
    }
    if line == "Caused by:" || line.starts_with("  ") && so_far.len() < 40 {
        diagnostic_or_deep(so_far, line)
    } else {
        diagnostic(so_far, line)
    }
}

fn diagnostic_or_deep(so_far: &[String], line: &str) -> Next {
    let verb = line.trim_start().starts_with(|c: char| c.is_ascii_uppercase()) && line.starts_with("    ");
    if verb && !so_far.iter().any(|line| line == "Caused by:") {
        diagnostic(so_far, line)
    } else {
        Next::Part
    }
}

const DIAGNOSTIC: Problem = problem(ERROR, Kind::Build, 93).follow(cargo_lines).refine(arrow);

fn one_more_plain(so_far: &[String], line: &str) -> Next {
    if line.starts_with("note: run with `RUST_BACKTRACE") || line.trim().is_empty() {
        Next::Beyond
    } else if so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Text of the runtime at the end of the process.
fn runtime_words(_: &[String], line: &str) -> Next {
    if line.starts_with("fatal runtime error: ") { Next::Last } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "miri.error",
        pattern: r"^(?:test (?P<t>\S.*?) \.\.\. )?error: (?P<m>(?:Undefined Behavior|unsupported operation|memory leaked|abnormal termination|deadlock|the evaluated program).*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 93).follow(diagnostic).refine(arrow).ended(always),
        )],
    },
    Rule {
        // As `--message-format short` has it.
        name: "rust.short",
        pattern: r"^(?P<f>[^\s:]+\.rs):(?P<l>\d+):(?P<c>\d+): (?P<s>error|warning)(?:\[\w+\])?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 93))],
    },
    Rule {
        name: "rust.error",
        pattern: r"^error(?:\[(?:E\d{4}|[a-z][a-z-]*(?:/[a-z-]+)?)\])?: (?P<m>.*)",
        effects: &[Effect::Problem(DIAGNOSTIC.role(Role::Vague))],
    },
    Rule {
        name: "rust.warning",
        pattern: r"^warning(?:\[[\w/-]+\])?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Build, 60).follow(diagnostic).refine(arrow))],
    },
    Rule {
        name: "rust.overflow",
        pattern: r"^(?:test .+ \.\.\. )?thread '(?P<t>[^']*)'(?: \(\d+\))? has overflowed its stack$",
        effects: &[
            Effect::Problem(problem(crate::rules::FATAL, Kind::Crash, 95).follow(runtime_words)),
            Effect::Crash(Indicator::FatalError),
        ],
    },
    Rule {
        name: "rust.panic",
        pattern: r"^(?:test .+ \.\.\. )?thread '(?P<t>[^']*)'(?: \(\d+\))? panicked at (?P<m>.*)",
        effects: &[
            Effect::Problem(
                problem(crate::rules::FATAL, Kind::Crash, 93).follow(one_more_plain).refine(panicked),
            ),
            Effect::Crash(Indicator::Panic),
        ],
    },
    Rule {
        name: "rust.signal",
        pattern: r"^.*\(signal: \d+, (?P<sig>SIG[A-Z]+)(?:: .*)?\)",
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::ChildDied(""))],
    },
];
