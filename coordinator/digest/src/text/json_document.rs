//! Tools that print their whole output as JSON in one line: the text that they would have printed otherwise.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt::Write as _;

/// Bytes with which such documents begin.
const BEGINNINGS: [&[u8]; 8] = [
    br#"{"version":""#,
    br#"[{"filePath":"#,
    br#"{"results":[{"filePath":"#,
    br#"[{"source":"#,
    br#"[{"kind": "#,
    br#"{"file": "#,
    br#"{"cell":"#,
    br#"{"numTotalTestSuites":"#,
];

/// Reports of eslint, stylelint and gcc, a problem of mypy or ruff, or a report of vitest or rspec: each has unique keys.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Document {
    Eslint(Vec<EslintFile>),
    EslintWithMetadata(EslintReport),
    Stylelint(Vec<StylelintFile>),
    Gcc(Vec<GccDiagnostic>),
    Mypy(Mypy),
    Ruff(Ruff),
    Vitest(Vitest),
    Rspec(Rspec),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    #[serde(default)]
    line: u32,
    #[serde(default)]
    column: u32,
}

/// Report of eslint's `--format json-with-metadata`.
#[derive(Debug, Deserialize)]
struct EslintReport {
    results: Vec<EslintFile>,
    #[serde(rename = "metadata")]
    _metadata: IgnoredAny,
}

/// Diagnostic of gcc's `-fdiagnostics-format=json`.
#[derive(Debug, Deserialize)]
struct GccDiagnostic {
    kind: String,
    message: String,
    locations: Vec<GccLocation>,
    option: Option<String>,
    #[serde(default)]
    children: Vec<Self>,
}

#[derive(Debug, Deserialize)]
struct GccLocation {
    caret: GccPosition,
}

#[derive(Debug, Deserialize)]
struct GccPosition {
    file: String,
    line: u32,
    column: u32,
}

/// Report of rspec's `--format json`.
#[derive(Debug, Deserialize)]
struct Rspec {
    examples: Vec<RspecExample>,
    summary_line: String,
}

#[derive(Debug, Deserialize)]
struct RspecExample {
    full_description: String,
    file_path: String,
    line_number: u32,
    exception: Option<RspecException>,
}

#[derive(Debug, Deserialize)]
struct RspecException {
    message: String,
}

#[derive(Debug, Deserialize)]
struct StylelintFile {
    source: String,
    #[serde(rename = "errored")]
    _errored: IgnoredAny,
    warnings: Vec<StylelintWarning>,
}

#[derive(Debug, Deserialize)]
struct StylelintWarning {
    line: u32,
    column: u32,
    severity: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Mypy {
    file: String,
    line: u32,
    column: u32,
    message: String,
    code: Option<String>,
    severity: String,
    #[serde(rename = "hint")]
    _hint: IgnoredAny,
}

#[derive(Debug, Deserialize)]
struct Ruff {
    filename: String,
    location: RuffLocation,
    code: Option<String>,
    message: String,
    #[serde(rename = "end_location")]
    _end: IgnoredAny,
}

#[derive(Debug, Deserialize)]
struct RuffLocation {
    row: u32,
    column: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vitest {
    num_total_tests: u64,
    num_passed_tests: u64,
    num_failed_tests: u64,
    num_pending_tests: u64,
    num_todo_tests: u64,
    test_results: Vec<VitestFile>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestFile {
    name: String,
    status: String,
    message: String,
    assertion_results: Vec<VitestTest>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestTest {
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    failure_messages: Option<Vec<String>>,
}

/// The text of a document. `None` if the line is not such a document.
pub(crate) fn told(line: &[u8]) -> Option<String> {
    if !line.ends_with(b"}") && !line.ends_with(b"]")
        || !BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
    {
        return None;
    }
    Some(match serde_json::from_slice(line).ok()? {
        Document::Eslint(files) => eslint(&files),
        Document::EslintWithMetadata(report) => eslint(&report.results),
        Document::Gcc(diagnostics) => gcc(&diagnostics),
        Document::Stylelint(files) => problems(files.iter().map(|file| {
            let rows = file.warnings.iter().map(|warning| ProblemRow {
                line: warning.line,
                column: warning.column,
                is_error: warning.severity == "error",
                text: warning.text.clone(),
            });
            (file.source.as_str(), rows.collect())
        })),
        Document::Mypy(Mypy { file, line, column, message, code, severity, .. }) => {
            let code = code.map(|code| format!("  [{code}]")).unwrap_or_default();
            format!("{file}:{line}:{column}: {severity}: {}{code}", in_one_line(&message))
        }
        Document::Ruff(Ruff { filename, location, code, message, .. }) => {
            let code = code.as_deref().unwrap_or("invalid-syntax:");
            format!("{filename}:{}:{}: {code} {}", location.row, location.column, in_one_line(&message))
        }
        Document::Vitest(report) => vitest(&report),
        Document::Rspec(report) => rspec(&report),
    })
}

fn eslint(files: &[EslintFile]) -> String {
    problems(files.iter().map(|file| {
        let rows = file.messages.iter().map(|message| ProblemRow {
            line: message.line,
            column: message.column,
            is_error: message.severity > 1,
            text: format!("{}  {}", message.message, message.rule_id.as_deref().unwrap_or_default()),
        });
        (file.file_path.as_str(), rows.collect())
    }))
}

/// gcc's diagnostics, one a line, each with its notes below it.
fn gcc(diagnostics: &[GccDiagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics.iter().flat_map(|one| std::iter::once(one).chain(&one.children)) {
        if let Some(GccLocation { caret: GccPosition { file, line, column } }) = diagnostic.locations.first()
        {
            let _ = write!(text, "{file}:{line}:{column}: ");
        }
        let _ = write!(text, "{}: {}", diagnostic.kind, in_one_line(&diagnostic.message));
        let option = diagnostic.option.as_ref().map(|option| format!(" [{option}]"));
        let _ = writeln!(text, "{}", option.unwrap_or_default());
    }
    text
}

/// One row of a file's problems.
struct ProblemRow {
    line: u32,
    column: u32,
    is_error: bool,
    text: String,
}

/// A list by file, with the total that such a tool prints below it.
fn problems<'a>(files: impl Iterator<Item = (&'a str, Vec<ProblemRow>)>) -> String {
    let mut text = String::new();
    let (mut errors, mut warnings) = (0, 0);
    for (file, rows) in files.filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(text, "{file}");
        for row in rows {
            let word = if row.is_error { "error" } else { "warning" };
            *(if row.is_error { &mut errors } else { &mut warnings }) += 1;
            let _ = writeln!(text, "  {}:{}  {word}  {}", row.line, row.column, in_one_line(&row.text));
        }
        text.push('\n');
    }
    if errors + warnings > 0 {
        let _ = writeln!(text, "✖ {} problems ({errors} errors, {warnings} warnings)", errors + warnings);
    }
    text
}

fn vitest(report: &Vitest) -> String {
    let mut text = String::new();
    for file in &report.test_results {
        for test in file.assertion_results.iter().filter(|test| test.status == "failed") {
            let names = test.ancestor_titles.iter().chain([&test.title]);
            let names: Vec<_> = names.filter(|name| !name.is_empty()).map(String::as_str).collect();
            let _ = writeln!(text, " FAIL  {} > {}", file.name, names.join(" > "));
            for message in test.failure_messages.iter().flatten() {
                let _ = writeln!(text, "{}\n", message.trim_end());
            }
        }
        if file.assertion_results.is_empty() && file.status == "failed" {
            let _ = writeln!(text, " FAIL  {0} [ {0} ]\nError: {1}\n", file.name, file.message.trim_end());
        }
    }
    let counts = [
        (report.num_failed_tests, "failed"),
        (report.num_passed_tests, "passed"),
        (report.num_pending_tests, "skipped"),
        (report.num_todo_tests, "todo"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let counts: Vec<_> = counts.collect();
    let failed_files = report.test_results.iter().filter(|file| file.status == "failed").count();
    let files = report.test_results.len();
    let _ = match failed_files {
        0 => writeln!(text, " Test Files  {files} passed ({files})"),
        failed => writeln!(text, " Test Files  {failed} failed | {} passed ({files})", files - failed),
    };
    if !counts.is_empty() {
        let _ = writeln!(text, "      Tests  {} ({})", counts.join(" | "), report.num_total_tests);
    }
    text
}

fn rspec(report: &Rspec) -> String {
    let mut text = String::from("\nFailures:\n");
    let failed = report.examples.iter().filter_map(|example| Some((example, example.exception.as_ref()?)));
    for (at, (example, exception)) in failed.enumerate() {
        let RspecExample { full_description, file_path, line_number, .. } = example;
        let _ = writeln!(text, "\n  {}) {}", at + 1, in_one_line(full_description));
        for line in exception.message.trim().lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(text, "     {line}");
        }
        let _ = writeln!(text, "     # {file_path}:{line_number}:in `block'");
    }
    let _ = writeln!(text, "\nFinished in 0 seconds\n{}", report.summary_line);
    text
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_stand_for_text_and_other_lines_for_themselves() {
        let eslint = r#"[{"filePath":"/w/a.js","messages":[{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error:\nno","line":2,"column":3}],"errorCount":1},{"filePath":"/w/b.js","messages":[],"errorCount":0}]"#;
        let text = told(eslint.as_bytes()).expect("it is eslint's");
        assert_eq!(text, "/w/a.js\n  2:3  error  Parsing error: no\n\n✖ 1 problems (1 errors, 0 warnings)\n");
        assert_eq!(told(br#"[{"filePath":"/w/b.js","messages":[],"errorCount":0}]"#).as_deref(), Some(""));
        let ruff = r#"{"cell":null,"code":null,"end_location":{"column":1,"row":2},"filename":"a.py","location":{"column":8,"row":1},"message":"Expected an expression"}"#;
        assert_eq!(
            told(ruff.as_bytes()).as_deref(),
            Some("a.py:1:8: invalid-syntax: Expected an expression")
        );
        for line in [
            r#"[{"filePath":"/w/a.js"}]"#,
            r#"[{"source":"a","warnings":[]}]"#,
            r#"{"file": "a.py", "line": 3}"#,
            r#"{"cell":3}"#,
            r#"{"numTotalTestSuites":1}"#,
            r#"[{"filePath":"/w/a.js","messages":[]"#,
            "]",
        ] {
            assert_eq!(told(line.as_bytes()), None, "{line}");
        }
    }
}
