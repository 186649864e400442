//! Output of sanitizers and libFuzzer.

use crate::rules::{ERROR, Effect, FATAL, Fails, Indicator, Kind, Next, Rule, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("sanitizers") };

/// A sanitizer's report: up to its summary.
fn sanitizer(so_far: &[String], line: &str) -> Next {
    if line.starts_with("SUMMARY: ") {
        Next::Last
    } else if so_far.len() > 60 || line.starts_with("==================") && so_far.len() > 1 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// valgrind's stack below its message, and its text about the address.
fn valgrind_lines(so_far: &[String], line: &str) -> Next {
    let body = line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit());
    if line.starts_with("==") && body.starts_with("  ") && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// `==1==    at 0x10915E: main (a.c:5)`.
fn frame_in_brackets(diagnostic: &mut crate::rules::Diagnostic) {
    let places: Vec<String> = diagnostic
        .lines
        .iter()
        .filter_map(|line| Some(line.trim_end().strip_suffix(')')?.rsplit_once('(')?.1.to_owned()))
        .filter(|place| !place.starts_with("in ") && !place.starts_with("vg_"))
        .collect();
    let _placed = places.iter().any(|place| crate::rules::set_place(diagnostic, place));
}

/// The first frame with a source place that is not the runtime's own.
fn frame(diagnostic: &mut crate::rules::Diagnostic) {
    for line in &diagnostic.lines {
        let trimmed = line.trim_start();
        if !trimmed.starts_with('#') {
            continue;
        }
        let Some(place) = trimmed.split_whitespace().next_back().or(Some("")) else { continue };
        let place = if place.starts_with('(') {
            trimmed.split_whitespace().rev().nth(1).unwrap_or(place)
        } else {
            place
        };
        let mut parts = place.splitn(3, ':');
        if let (Some(file), Some(row)) = (parts.next(), parts.next())
            && file.contains('.')
            && !["sanitizer", "compiler-rt/", "libfuzzer/"].iter().any(|part| file.contains(part))
            && let Ok(row) = row.parse()
        {
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = Some(row);
            diagnostic.column = parts.next().and_then(|column| column.parse().ok());
            return;
        }
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "sanitizer.error",
        pattern: r"^(?:\d+: )?=*\d*=*(?:ERROR|WARNING|FATAL): (?:Address|Leak|Thread|Memory|UndefinedBehavior|HWAddress|DataFlow)Sanitizer:? (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 96).follow(sanitizer).owning().refine(frame)),
            Effect::Crash(Indicator::Sanitizer),
        ],
    },
    Rule {
        name: "libfuzzer.error",
        pattern: r"^==\d+== ?ERROR: libFuzzer: (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 94).follow(sanitizer).owning().refine(frame)),
            Effect::Crash(Indicator::Sanitizer),
        ],
    },
    Rule {
        name: "libfuzzer.input",
        pattern: r"^(?:artifact_prefix='[^']*'; )?Test unit written to \S+$",
        effects: &[Effect::Summary],
    },
    Rule {
        name: "sanitizer.ubsan",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): runtime error: (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Crash, 95).follow(indented_or_blank)),
            Effect::Crash(Indicator::Sanitizer),
        ],
    },
    Rule {
        name: "sanitizer.summary",
        pattern: r"^SUMMARY: (?:\w+Sanitizer|libFuzzer): (?P<m>.*)",
        effects: &[Effect::Crash(Indicator::Sanitizer), Effect::Summary],
    },
    Rule {
        name: "valgrind.error",
        pattern: r"^==\d+== (?:Invalid (?:read|write|free)|Conditional jump|Use of uninitialised|Syscall param|Process terminating|Source and destination overlap|Mismatched free|Jump to the invalid|[\d,]+ (?:\([^)]*\) )?bytes in [\d,]+ blocks are definitely lost).*",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Crash, 92).follow(valgrind_lines).refine(frame_in_brackets),
        )],
    },
    Rule {
        name: "valgrind.errors",
        pattern: r"^==\d+== ERROR SUMMARY: [1-9]\d* errors",
        effects: &[Effect::Problem(problem(ERROR, Kind::Crash, 85).fails(Fails::Always)), Effect::Summary],
    },
    Rule {
        name: "sanitizer.aborting",
        pattern: r"^==\d+==ABORTING$",
        effects: &[Effect::Crash(Indicator::Sanitizer)],
    },
];
