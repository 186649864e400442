//! Tests of the tool list: it is small, strict and deterministic, and matches the golden file.

use super::arguments::Arguments;
use super::{Choices, FRAME, LISTING_BYTES_MAX, Name};
use serde_json::{Value, json};
use std::path::Path;

/// Environment variable that rewrites the golden file.
const WRITE_VARIABLE: &str = "UPDATE_GOLDEN";

fn choices() -> Choices {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Choices {
        templates: texts(&["raw", "maven-build", "maven-test", "tsc", "vitest"]),
        labels: texts(&["arch=arm64", "os=linux", "os=macos", "xcode=26.1"]),
    }
}

fn listing(choices: &Choices) -> Value {
    serde_json::to_value(super::listing(choices)).unwrap()
}

#[test]
fn the_listing_is_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tools-list.json");
    let now = serde_json::to_string_pretty(&listing(&choices())).unwrap() + "\n";
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(
        now == golden,
        "the listing differs from {}; look at it, then set {WRITE_VARIABLE}",
        path.display()
    );
}

#[test]
fn the_listing_is_small_and_the_same_each_time() {
    let choices = choices();
    let text = listing(&choices).to_string();
    let size = text.len() + FRAME.len();
    assert!(size <= LISTING_BYTES_MAX, "{size} bytes");
    assert_eq!(text, listing(&choices).to_string());
}

#[test]
fn whatever_there_is_to_choose_the_listing_stays_small() {
    let many = |count: usize, word: &str| (0..count).map(|n| format!("{word}-{n}=x")).collect::<Vec<_>>();
    let template =
        |listing: &Value, tool: usize| listing[tool]["inputSchema"]["properties"]["template"].clone();
    let mut levels = Vec::new();
    for templates in [0, 1, 5, 10, 30, 100, 10_000] {
        for labels in [0, 3, 10_000] {
            let choices = Choices { templates: many(templates, "template"), labels: many(labels, "label") };
            let listing = listing(&choices);
            let size = listing.to_string().len() + FRAME.len();
            assert!(size <= LISTING_BYTES_MAX, "{size} bytes with {templates} templates and {labels} labels");
            // The list contains all values of a choice or omits the choice: a partial list would
            // forbid the others.
            let said = [0, 1, 2, 3].map(|tool| template(&listing, tool).get("enum").is_some());
            levels.push(said);
            for said in [0, 1, 2, 3].map(|tool| template(&listing, tool)) {
                assert!(said.get("enum").is_none_or(|names| *names == json!(choices.templates)));
            }
        }
    }
    for wanted in [[true; 4], [true, false, false, false], [false; 4]] {
        assert!(levels.contains(&wanted), "{wanted:?} in {levels:?}");
    }
}

#[test]
fn what_is_the_same_parameter_is_said_in_the_same_way() {
    let listing = listing(&choices());
    for name in ["verbosity", "template"] {
        let said: Vec<&Value> = listing
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| tool["inputSchema"]["properties"].get(name))
            .collect();
        assert_eq!(said.len(), 4, "{name}");
        assert!(
            said.iter().all(|schema| *schema == said[0] && schema.get("enum").is_some()),
            "{name}: {said:?}"
        );
    }
}

#[test]
fn each_tool_is_titled_annotated_and_strict() {
    for (name, tool) in Name::ALL.into_iter().zip(listing(&choices()).as_array().unwrap()) {
        assert_eq!(tool["name"], name.text());
        assert!(!tool["title"].as_str().unwrap().is_empty());
        let description = tool["description"].as_str().unwrap();
        assert!(description.len() <= 300, "{}: {} bytes", name.text(), description.len());
        let hints = &tool["annotations"];
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{}: {hint}", name.text());
        }
        assert_eq!(hints["readOnlyHint"], name.is_read_only());
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        assert_eq!(tool["inputSchema"]["type"], "object");
        if let Some(output) = tool.get("outputSchema") {
            assert_eq!(output["type"], "object");
            assert!(output.get("additionalProperties").is_none(), "open");
        }
        let example: Value = serde_json::from_str(name.example()).unwrap();
        for key in example.as_object().unwrap().keys() {
            assert!(tool["inputSchema"]["properties"].get(key).is_some(), "{}: {key}", name.text());
        }
        for key in tool["inputSchema"].get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(example.get(key.as_str().unwrap()).is_some(), "{}: {key}", name.text());
        }
    }
}

/// An error about a parameter shows a call that has it.
#[test]
fn the_example_of_an_error_has_the_parameter() {
    let listing = listing(&choices());
    for (name, tool) in Name::ALL.iter().zip(listing.as_array().unwrap()) {
        for (key, schema) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            let text = Arguments::new(None, name.example()).wrong(key, "is wrong").to_string();
            let (_, example) = text.split_once("has arguments like ").unwrap();
            let example: Value = serde_json::from_str(example).unwrap();
            let kind = match &example[key] {
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "integer",
                Value::Null => panic!("{}: {key}: {text}", name.text()),
            };
            assert!(schema.get("type").is_none_or(|valid| *valid == kind), "{}: {key}: {text}", name.text());
        }
    }
}

/// The tool that is read first explains each parameter; the others explain their own and refer to it.
#[test]
fn each_parameter_is_explained() {
    let listing = listing(&choices());
    let is_explained = |schema: &Value| schema.get("description").or(schema.get("enum")).is_some();
    let properties =
        |tool: &Value| tool["inputSchema"]["properties"].as_object().cloned().unwrap_or_default();
    let first = properties(&listing[0]);
    for tool in listing.as_array().unwrap() {
        for (name, schema) in properties(tool) {
            let refers = tool["description"].as_str().unwrap().contains("as in run_command");
            let elsewhere = refers && first.get(&name).is_some_and(is_explained);
            assert!(is_explained(&schema) || elsewhere, "{}: {name}", tool["name"]);
        }
    }
}
