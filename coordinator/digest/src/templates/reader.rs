//! Reads the keys of one template from the nodes of its file.

use super::node::Node;
use super::{Example, TemplateError};
use buildpool_protocol::spec::TemplateSpec;

/// Reads one template, and notes each problem with its key.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) errors: &'a mut Vec<TemplateError>,
}

const KEYS: &str = "description, include_regex, exclude_regex, context_before, context_after, tail_paragraphs, on_success, examples";

impl Reader<'_> {
    fn error(&mut self, key: String, reason: String) {
        self.errors.push(TemplateError { file: self.file.to_owned(), key, reason });
    }

    /// `examples` is None inside `on_success`, where neither examples nor another `on_success` are
    /// valid.
    pub(super) fn template(
        &mut self,
        at: &str,
        name: &str,
        node: Node,
        mut examples: Option<&mut Vec<Example>>,
    ) -> TemplateSpec {
        let mut template = TemplateSpec { name: name.to_owned(), ..TemplateSpec::default() };
        let entries = match node {
            Node::Map(entries) => entries,
            Node::Null => Vec::new(),
            other => {
                self.error(at.to_owned(), format!("is {}; expected a map with {KEYS}", other.kind()));
                Vec::new()
            }
        };
        for (field, value) in entries {
            let key = format!("{at}.{field}");
            match (field.as_str(), examples.is_some()) {
                ("description", _) => template.description = self.text(key, value).unwrap_or_default(),
                ("include_regex", _) => template.include_regex = self.text(key, value),
                ("exclude_regex", _) => template.exclude_regex = self.text(key, value),
                ("context_before", _) => template.context_before = self.count(key, value).unwrap_or(0),
                ("context_after", _) => template.context_after = self.count(key, value).unwrap_or(0),
                ("tail_paragraphs", _) => template.tail_paragraphs = self.count(key, value),
                ("on_success", true) => {
                    let inner = self.template(&key, name, value, None);
                    template.on_success = Some(Box::new(inner));
                }
                ("examples", true) => {
                    if let Some(examples) = examples.as_deref_mut() {
                        self.examples(&key, name, value, examples);
                    }
                }
                _ => self.error(key, format!("is no key of a template; valid are {KEYS}")),
            }
        }
        template
    }

    fn text(&mut self, key: String, node: Node) -> Option<String> {
        match node {
            Node::Text(text) => Some(text),
            Node::Null => None,
            other => {
                self.error(key, format!("is {}; expected text", other.kind()));
                None
            }
        }
    }

    fn count(&mut self, key: String, node: Node) -> Option<u32> {
        match node {
            Node::Integer(number) if (0..=1_000).contains(&number) => u32::try_from(number).ok(),
            Node::Null => None,
            Node::Integer(number) => {
                self.error(key, format!("is {number}; valid are 0 to 1000"));
                None
            }
            other => {
                self.error(key, format!("is {}; expected a whole number from 0 to 1000", other.kind()));
                None
            }
        }
    }

    fn examples(&mut self, at: &str, name: &str, node: Node, examples: &mut Vec<Example>) {
        let Node::List(items) = node else {
            self.error(
                at.to_owned(),
                format!("is {}; expected a list of maps with input and output", node.kind()),
            );
            return;
        };
        for (number, item) in (1..).zip(items) {
            let key = format!("{at}[{number}]");
            let Node::Map(entries) = item else {
                self.error(key, format!("is {}; expected a map with input, output, passed", item.kind()));
                continue;
            };
            let mut example = Example {
                template: name.to_owned(),
                number,
                passed: false,
                input: String::new(),
                output: String::new(),
            };
            for (field, value) in entries {
                let key = format!("{key}.{field}");
                match (field.as_str(), value) {
                    ("input", value) => example.input = self.text(key, value).unwrap_or_default(),
                    ("output", value) => example.output = self.text(key, value).unwrap_or_default(),
                    ("passed", Node::Truth(passed)) => example.passed = passed,
                    ("passed", other) => {
                        self.error(key, format!("is {}; expected true or false", other.kind()))
                    }
                    _ => {
                        self.error(key, "is no key of an example; valid are input, output, passed".to_owned())
                    }
                }
            }
            examples.push(example);
        }
    }
}
