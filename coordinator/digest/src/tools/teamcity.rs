//! Service messages of TeamCity, which test runners print for servers and editors.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Rule, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("TeamCity") };

/// Maximum number of lines of a message and its details.
const LINES_MAX: usize = 60;

/// A value of a service message, without its escapes: `|n` is a new line, `|'` a quote.
fn value(message: &str, name: &str) -> Option<String> {
    let (_, rest) = message.split_once(&format!(" {name}='"))?;
    let mut text = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => break,
            '|' => match chars.next()? {
                'n' => text.push('\n'),
                'r' => {}
                '0' => {
                    // `|0x00e9`
                    let code: String = chars.by_ref().skip(1).take(4).collect();
                    text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    Some(text)
}

/// The message and its details as lines, and the first place in them.
fn unescaped(diagnostic: &mut Diagnostic) {
    let record = diagnostic.first().to_owned();
    let values =
        ["message", "description", "text", "details", "errorDetails"].map(|name| value(&record, name));
    diagnostic.test = value(&record, "name").filter(|name| !name.is_empty());
    let lines = values.iter().flatten().flat_map(|value| value.lines()).map(str::trim_end);
    let lines: Vec<String> =
        lines.filter(|line| !line.is_empty()).take(LINES_MAX).map(str::to_owned).collect();
    let words = lines.iter().flat_map(|line| line.split([' ', '(', ')'])).filter(|word| word.contains('.'));
    let _placed = words.map(str::to_owned).collect::<Vec<_>>().iter().any(|word| set_place(diagnostic, word));
    diagnostic.spurious = lines.is_empty();
    diagnostic.lines = lines;
}

const RULES: &[Rule] = &[
    Rule {
        name: "teamcity.failed",
        pattern: r"^##teamcity\[testFailed .*\]$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).refine(unescaped).fails(Fails::Always))],
    },
    Rule {
        name: "teamcity.problem",
        pattern: r"^##teamcity\[(?:buildProblem |message .*status='(?:ERROR|FAILURE)').*\]$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 86).refine(unescaped).fails(Fails::Always))],
    },
];
