//! Built-in templates, and templates of a project's file. The caller finds the file. This module parses it.
//!
//! ```yaml
//! templates:
//!   my-tool:
//!     description: shown in lists
//!     include_regex: '(ERROR|WARN)'
//!     exclude_regex: 'deprecated'
//!     context_before: 1
//!     context_after: 3
//!     tail_paragraphs: 2
//!     on_success: { include_regex: 'done in', tail_paragraphs: 0 }
//!     examples:
//!       - input: |
//!           ERROR no
//!         output: ERROR no
//! ```

mod node;
mod reader;

use crate::limits::{TEMPLATE_FILE_BYTES_MAX, TEMPLATES_MAX};
use crate::template::{Capture, RAW, compile};
use buildpool_protocol::output::Stream;
use buildpool_protocol::spec::{TemplateSpec, check_name};
use node::Node;
use reader::Reader;
use std::collections::BTreeMap;
use std::fmt;

/// Paths of template files relative to a directory, the preferred one first. The nearest directory,
/// upward from the command's directory, with one of them is used.
pub const FILES: [&str; 2] = [".buildpool/config.yaml", ".quiet-shell/config.yaml"];

/// Result of parsing a file: the valid templates, and the errors of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Valid templates, in the order of the file.
    pub templates: Vec<TemplateSpec>,
    /// Inline examples of the templates.
    pub examples: Vec<Example>,
    /// All errors in the file.
    pub errors: Vec<TemplateError>,
}

/// An inline example: a log and the expected output of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Name of the template.
    pub template: String,
    /// Position in the template's list, from 1.
    pub number: usize,
    /// Whether the job passed.
    pub passed: bool,
    /// The log.
    pub input: String,
    /// Expected output.
    pub output: String,
}

/// An error in a template file and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Path of the file, as given by the caller.
    pub file: String,
    /// Key, such as `templates.my-tool.include_regex`. Empty for the file as a whole.
    pub key: String,
    /// The problem, and the valid values.
    pub reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.file, self.reason)
        } else {
            write!(f, "{}: {}: {}", self.file, self.key, self.reason)
        }
    }
}

impl std::error::Error for TemplateError {}

/// Returns the built-in templates.
pub fn built_in() -> Vec<TemplateSpec> {
    let spec = |name: &str, description: &str, include: &str, tail| TemplateSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        include_regex: Some(include.to_owned()),
        tail_paragraphs: Some(tail),
        ..TemplateSpec::default()
    };
    vec![
        spec(
            "tsc",
            "TypeScript compiler: each error with what belongs to it, and the count",
            r"(?:error|warning) TS\d+:|^\s{2,}\S|^\s*~+\s*$|^\d+\s|^Found \d+ errors?",
            1,
        ),
        spec(
            "vitest",
            "Vitest: failed tests with their errors and differences, and the summary",
            r"^\s*(?:FAIL|×|✖|❯|→)\s|^(?:\w*Error|AssertionError)\b|^\s*[-+] |^\s+(?:Test Files|Tests|Errors)\s|Unhandled",
            2,
        ),
        spec(
            "maven-build",
            "Maven: errors, warnings, and the reactor's summary",
            r"^\[(?:ERROR|WARNING|FATAL)\]|BUILD (?:SUCCESS|FAILURE)|Reactor Summary|(?:SUCCESS|FAILURE|SKIPPED) \[|Total time:",
            0,
        ),
        spec(
            "maven-test",
            "Maven tests: failures with their stacks' first lines, counts, and the result",
            r"^\[ERROR\]|<<< (?:FAILURE|ERROR)!|Tests run:|BUILD (?:SUCCESS|FAILURE)|^(?:java|org)\.\S+(?:Exception|Error)|^\s+at \S+Test\.",
            0,
        ),
    ]
}

/// Merges built-in and loaded templates, sorted by name. The last template of a name wins.
pub fn merged<'a>(loaded: impl IntoIterator<Item = &'a TemplateSpec>) -> Vec<TemplateSpec> {
    let mut all: BTreeMap<String, TemplateSpec> =
        built_in().into_iter().map(|template| (template.name.clone(), template)).collect();
    for template in loaded {
        all.insert(template.name.clone(), template.clone());
    }
    all.into_values().collect()
}

/// Applies a template to a complete log.
///
/// # Errors
/// The invalid pattern, with its key.
pub fn apply(template: &TemplateSpec, passed: bool, log: &[u8]) -> Result<String, TemplateError> {
    if template.name == RAW {
        return Ok(String::from_utf8_lossy(log).into_owned());
    }
    let mut errors = Vec::new();
    check(template, "", &template.name, &mut errors);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let Some(mut capture) = Capture::new(template) else { return Ok(String::new()) };
    let mut cleaner = crate::text::Cleaner::default();
    for (order, line) in (1..).zip(log.strip_suffix(b"\n").unwrap_or(log).split(|byte| *byte == b'\n')) {
        capture.line(Stream::Stdout, order, cleaner.clean(line));
    }
    let lines: Vec<String> = capture.view(passed).lines.into_iter().map(|line| line.text).collect();
    Ok(lines.join("\n"))
}

/// Runs the inline examples. Returns those that fail.
pub fn check_examples(file: &str, loaded: &Loaded) -> Vec<TemplateError> {
    let mut errors = Vec::new();
    for example in &loaded.examples {
        let Some(template) = loaded.templates.iter().find(|template| template.name == example.template)
        else {
            continue;
        };
        let made = apply(template, example.passed, example.input.as_bytes()).unwrap_or_default();
        if made.trim_end() != example.output.trim_end() {
            errors.push(TemplateError {
                file: file.to_owned(),
                key: format!("templates.{}.examples[{}]", example.template, example.number),
                reason: format!("gives `{}`, expected `{}`", made.trim_end(), example.output.trim_end()),
            });
        }
    }
    errors
}

/// Parses the text of a template file. It never fails as a whole: problems are in `errors`, and the
/// other templates work.
pub fn parse(file: &str, text: &str) -> Loaded {
    let mut loaded = Loaded::default();
    let error =
        |key: &str, reason: String| TemplateError { file: file.to_owned(), key: key.to_owned(), reason };
    if text.len() > TEMPLATE_FILE_BYTES_MAX {
        let reason = format!("has {} bytes; at most {TEMPLATE_FILE_BYTES_MAX} are valid", text.len());
        loaded.errors.push(error("", reason));
        return loaded;
    }
    if text.trim().is_empty() {
        return loaded;
    }
    let root: Node = match serde_saphyr::from_str(text) {
        Ok(root) => root,
        Err(reason) => {
            loaded.errors.push(error("", format!("is no valid YAML: {}", first_line(&reason.to_string()))));
            return loaded;
        }
    };
    let templates = match root {
        Node::Map(entries) => entries.into_iter().find(|(key, _)| key == "templates").map(|(_, node)| node),
        Node::Null => None,
        other => {
            loaded
                .errors
                .push(error("", format!("is {}; expected a map with the key `templates`", other.kind())));
            None
        }
    };
    match templates {
        None | Some(Node::Null) => {}
        Some(Node::Map(entries)) => {
            for (name, node) in entries {
                if loaded.templates.len() == TEMPLATES_MAX {
                    loaded.errors.push(error(
                        "templates",
                        format!("more than {TEMPLATES_MAX} are there; the rest is not used"),
                    ));
                    break;
                }
                read_template(file, &name, node, &mut loaded);
            }
        }
        Some(other) => {
            loaded.errors.push(error(
                "templates",
                format!("is {}; expected a map from names to templates", other.kind()),
            ));
        }
    }
    loaded
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

fn read_template(file: &str, name: &str, node: Node, loaded: &mut Loaded) {
    let key = format!("templates.{name}");
    let before = loaded.errors.len();
    if let Err(wrong) = check_name("template", name) {
        loaded.errors.push(TemplateError { file: file.to_owned(), key: key.clone(), reason: wrong.reason });
    } else if name == RAW {
        let reason = "`raw` stands for no filtering and cannot be defined; use another name".to_owned();
        loaded.errors.push(TemplateError { file: file.to_owned(), key: key.clone(), reason });
    }
    let mut examples = Vec::new();
    let mut reader = Reader { file, errors: &mut loaded.errors };
    let template = reader.template(&key, name, node, Some(&mut examples));
    check(&template, file, &key, &mut loaded.errors);
    if loaded.errors.len() == before {
        loaded.templates.retain(|other| other.name != name);
        loaded.templates.push(template);
        loaded.examples.extend(examples);
    }
}

/// Compiles the patterns of a template.
fn check(template: &TemplateSpec, file: &str, key: &str, errors: &mut Vec<TemplateError>) {
    for (field, pattern) in
        [("include_regex", &template.include_regex), ("exclude_regex", &template.exclude_regex)]
    {
        if let Some(reason) = pattern.as_ref().and_then(|pattern| compile(pattern).err()) {
            errors.push(TemplateError { file: file.to_owned(), key: format!("{key}.{field}"), reason });
        }
    }
    if let Some(success) = &template.on_success {
        check(success, file, &format!("{key}.on_success"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_templates_in_its_own_words() {
        let loaded = parse(
            "config.yaml",
            "templates:\n  mine:\n    description: d\n    include_regex: '(ERROR|✖)'\n    tail_paragraphs: 2\n  bare: {}\n",
        );
        assert_eq!(loaded.errors, []);
        assert_eq!(loaded.templates.len(), 2);
        assert_eq!(loaded.templates[0].tail_paragraphs, Some(2));
        assert_eq!(loaded.templates[1].tail_paragraphs, None);
    }

    #[test]
    fn errors_name_file_key_and_reason_and_the_rest_works() {
        let text = "templates:\n  bad:\n    include_regex: '(unclosed'\n  worse:\n    tail_paragraphs: many\n    tale: 1\n  good:\n    include_regex: ok\n";
        let loaded = parse("p/config.yaml", text);
        let names: Vec<_> = loaded.templates.iter().map(|template| template.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        let errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
        assert!(errors[0].starts_with("p/config.yaml: templates.bad.include_regex: "), "{errors:?}");
        assert_eq!(
            errors[1],
            "p/config.yaml: templates.worse.tail_paragraphs: is text; expected a whole number from 0 to 1000"
        );
        assert!(
            errors[2].starts_with("p/config.yaml: templates.worse.tale: is no key of a template"),
            "{errors:?}"
        );
    }

    #[test]
    fn no_yaml_is_one_error() {
        for text in ["templates: [unclosed", "- a\n- b", "templates: 7", "\t: x"] {
            let loaded = parse("c", text);
            assert_eq!((loaded.templates.len(), loaded.errors.len()), (0, 1), "{text}");
        }
        assert_eq!(parse("c", ""), Loaded::default());
    }

    #[test]
    fn huge_patterns_are_refused() {
        let loaded = parse("c", "templates:\n  big:\n    include_regex: '(?:a{1000}){1000}'\n");
        assert_eq!(loaded.errors[0].key, "templates.big.include_regex");
        assert!(loaded.errors[0].reason.contains("too large"), "{}", loaded.errors[0]);
    }

    #[test]
    fn a_project_overrides_built_in_ones() {
        let loaded = parse("c", "templates:\n  tsc:\n    include_regex: mine\n  zz: {}\n");
        let all = merged(&loaded.templates);
        assert_eq!(all.len(), 5);
        let tsc = all.iter().find(|template| template.name == "tsc").expect("tsc is built in");
        assert_eq!(tsc.include_regex.as_deref(), Some("mine"));
    }

    #[test]
    fn built_in_templates_are_valid() {
        for template in built_in() {
            let mut errors = Vec::new();
            check(&template, "", &template.name, &mut errors);
            assert_eq!(errors, []);
        }
    }

    #[track_caller]
    fn view(yaml: &str, log: &str, expected: &str) {
        let loaded = parse("c", &format!("templates:\n  t: {yaml}\n"));
        assert_eq!(loaded.errors, []);
        assert_eq!(
            apply(&loaded.templates[0], false, log.as_bytes()).expect("the template is valid"),
            expected
        );
    }

    #[test]
    fn lines_keep_their_order_and_each_position_is_shown_once() {
        view(
            "{include_regex: E, tail_paragraphs: 1}",
            "E 1\nx\nE 1\n\nlast E\nend\n",
            "E 1\nE 1\nlast E\nend",
        );
        view("{include_regex: E, context_after: 1, tail_paragraphs: 0}", "a\nE\nb\nc\n", "E\nb");
        view("{include_regex: E, context_before: 1, tail_paragraphs: 0}", "a\nb\nE\nE\n", "b\nE\nE");
        view("{include_regex: E, exclude_regex: nay, tail_paragraphs: 0}", "E yes\nE nay\n", "E yes");
        view("{include_regex: zzz}", "a\n\nb\nc\n\n\n", "b\nc");
        view("{include_regex: 'a.b', tail_paragraphs: 0}", "a\u{200d}b\nab\n", "a\\u{200d}b");
        view("{include_regex: zzz, tail_paragraphs: 2}", "a\n\nb\n\n\nc\n", "b\n\nc");
    }

    #[test]
    fn too_few_blank_lines_bound_a_paragraph() {
        let log: String = (0..200).map(|n| format!("{n}\n")).collect();
        let made = apply(&parse("c", "templates:\n  t: {}\n").templates[0], false, log.as_bytes());
        let made = made.expect("the template is valid");
        assert_eq!(made.lines().count(), 50);
        let two = &parse("c", "templates:\n  t: {tail_paragraphs: 2}\n").templates[0];
        let lines =
            |log: String| apply(two, false, log.as_bytes()).expect("the template is valid").lines().count();
        assert_eq!(lines(format!("{log}\n{log}")), 50 + 1 + 50);
        assert_eq!(lines(format!("a\n\n{log}\n{log}")), 200 + 1 + 200);
        assert!(made.ends_with("199"));
    }

    #[test]
    fn examples_are_checked() {
        let loaded = parse(
            "c",
            "templates:\n  t:\n    include_regex: E\n    tail_paragraphs: 0\n    on_success: {include_regex: ok, tail_paragraphs: 0}\n    examples:\n      - {input: \"E\\nx\", output: E}\n      - {input: \"E\\nok\", output: ok, passed: true}\n      - {input: x, output: z}\n",
        );
        assert_eq!(loaded.errors, []);
        let wrong = check_examples("c", &loaded);
        assert_eq!(wrong.len(), 1);
        assert_eq!(wrong[0].to_string(), "c: templates.t.examples[3]: gives ``, expected `z`");
    }
}
