//! Output of webpack.

use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, paragraph, pointed, problem, set_place,
};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, builds: true, rules: RULES, ..Tool::named("webpack") };

/// Next.js. Node prints lines that begin with the same word.
pub(super) const NEXT: Tool = Tool { builds: true, rules: NEXT_RULES, ..Tool::named("next build") };

/// The parts of Next.js's report: for each file its name, the message and an excerpt.
fn of_file(so_far: &[String], line: &str) -> Next {
    let ends = line.starts_with("> ") || line.starts_with("https://") || so_far.len() > 30;
    match (ends, line.trim().is_empty()) {
        (true, _) => Next::Beyond,
        (false, true) => Next::Maybe,
        (false, false) => Next::Part,
    }
}

/// The file is named above the message: `./app/page.js`, `./app/page.tsx:3:5`.
fn in_file(diagnostic: &mut Diagnostic) {
    let at = diagnostic.lines.iter().position(|line| line.starts_with("./"));
    let Some(at) = at else { return };
    let named = diagnostic.lines[at].clone();
    if !set_place(diagnostic, &named) {
        diagnostic.file = Some(named);
    }
    diagnostic.head = Some(at + 1).filter(|head| *head < diagnostic.lines.len());
    pointed(diagnostic);
}

/// The pages that Next.js could not export.
fn pages(so_far: &[String], line: &str) -> Next {
    let is_page = line.starts_with([' ', '\t']) && line.trim_start().starts_with('/');
    if is_page && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "webpack.error",
        pattern: r"^ERROR in (?P<f>\S+?)(?:[ :](?P<l>\d+):(?P<c>\d+).*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).follow(paragraph))],
    },
    Rule {
        name: "webpack.cli",
        pattern: r"^\[webpack-cli\] (?:\xe2\x9c\x96 )?(?P<m>(?:Invalid|Failed|Error|Cannot|Unable|Unknown|[A-Z]\w*Error)\b.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(paragraph)), Effect::Failure],
    },
    Rule {
        // Next.js ends with it, below the errors.
        name: "webpack.next",
        pattern: r"^> Build (?:failed|error occurred)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // Next.js: the file, then the message.
        name: "webpack.next_file",
        pattern: r"^Failed to compile\.$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 92).follow(of_file).owning().refine(in_file))],
    },
    Rule {
        name: "webpack.compiled",
        pattern: r"^webpack(?: [\d.]+)? compiled with (?P<n>[1-9]\d*) errors?",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "webpack.compiled_ok",
        pattern: r"^webpack(?: [\d.]+)? compiled (?:successfully|with \d+ warnings?)",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "webpack.storybook",
        pattern: r"^WARN Broken build, fix the error above\.$",
        effects: &[Effect::Failure],
    },
];

/// The error of a page, its frames and the excerpt.
fn of_page(so_far: &[String], line: &str) -> Next {
    let is_error = so_far.len() == 1 && line.contains("rror: ");
    let is_excerpt = line.starts_with([' ', '>', '}']);
    if (is_error || is_excerpt) && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// The frame of the project's own is the place, and the error below the heading is the message.
fn at_page(diagnostic: &mut Diagnostic) {
    let has_error = diagnostic.lines.get(1).is_some_and(|line| line.contains("rror: "));
    diagnostic.head = has_error.then_some(1);
    let frames = diagnostic.lines.iter().filter_map(|line| line.trim_start().strip_prefix("at "));
    let places: Vec<String> = frames
        .filter(|frame| !frame.contains("node:") && !frame.contains(".next/"))
        .filter_map(|frame| Some(frame.rsplit_once('(')?.1.trim_end_matches(')').to_owned()))
        .collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

const NEXT_RULES: &[Rule] = &[
    Rule {
        name: "next.pages",
        pattern: r"^(?:Error: )?(?P<m>Export encountered (?:an error|errors) on (?:the )?following paths?:)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 86).follow(pages).owning().fails(Fails::Always),
        )],
    },
    Rule {
        name: "next.prerender",
        pattern: r#"^Error occurred prerendering page "(?P<m>[^"]*)""#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(of_page).owning().refine(at_page).fails(Fails::Always),
        )],
    },
    Rule {
        name: "next.ended",
        pattern: r"^(?:Export encountered an error on \S+, exiting the build\.|\S+ Next\.js build worker exited with code: [1-9].*|Failed to type check\.)$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 60).fails(Fails::Always)),
            Effect::Failure,
        ],
    },
];
