//! Output of CI step.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, WARNING, problem, set_place};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::WithoutCode, rules: RULES, ..Tool::named("CI step") };

/// `file=a.c,line=3,col=1` of GitHub and `sourcepath=a.c;linenumber=3;columnnumber=1` of Azure.
fn annotated(diagnostic: &mut Diagnostic) {
    let line = &diagnostic.lines[0];
    let value = |names: [&str; 2]| {
        let at = names.iter().find_map(|name| line.split_once(name).map(|(_, rest)| rest))?;
        at.split([',', ';', ']', ':']).next().map(str::to_owned).filter(|value| !value.is_empty())
    };
    let (file, row) = (value(["file=", "sourcepath="]), value(["line=", "linenumber="]));
    let column = value(["col=", "columnnumber="]);
    diagnostic.file = file;
    diagnostic.line = row.and_then(|row| row.parse().ok()).filter(|_| diagnostic.file.is_some());
    diagnostic.column = column.and_then(|column| column.parse().ok()).filter(|_| diagnostic.line.is_some());
    // GitHub's own log shows only the message, which may begin with the place.
    let text = diagnostic.first().strip_prefix("##[error]").and_then(|text| text.split(": ").next());
    let place = text.filter(|place| place.contains('.') && !place.contains(' ')).map(str::to_owned);
    if let (None, Some(place)) = (&diagnostic.file, place) {
        let _placed = set_place(diagnostic, &place);
    }
}

const RULES: &[Rule] = &[
    Rule {
        // A shell that traces its commands, yarn, and GitHub's runner.
        name: "ci.command",
        pattern: r"^(?:\+{1,3} |\$ |##\[command\]|\[command\])(?P<m>\S.*)$",
        effects: &[Effect::Own(|line| line.markers.runs.announces(&line.text("m"), line.order))],
    },
    Rule {
        name: "ci.annotation_exit",
        pattern: r"^(?:##\[error\]|::error(?: [^:]*)?::)\s*(?:Process completed with exit code|The operation was canceled|The process '.*' failed with exit code).*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 45)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "ci.annotation",
        pattern: r"^(?:##\[error\]|##vso\[task\.logissue [^\]]*type=error[^\]]*\]|::error(?: .*?)?::)(?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 74).refine(annotated)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
    Rule {
        name: "ci.annotation_warning",
        pattern: r"^(?:##\[warning\]|::warning(?: [^:]*)?::)(?P<m>.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Runtime, 45))],
    },
    Rule {
        name: "ci.exit",
        pattern: r"^(?:Process completed with exit code [1-9]\d*|\S*Error: The process '.*' failed with exit code \d+|.*\bexited with (?:code|status) [1-9]\d*\.?|ERROR: Job failed: .*|The operation was canceled\.|.*received (?:SIGINT|SIGTERM|SIGKILL)\b.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 45)), Effect::Summary],
    },
];
