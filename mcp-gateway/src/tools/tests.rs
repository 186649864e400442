//! The listing: small, strict, the same each time, and as the golden file has it.

use super::{Choices, Name};
use serde_json::{Value, json};
use std::path::Path;

/// Set it to write the golden file anew.
const WRITE_VARIABLE: &str = "BUILDPOOL_WRITE_GOLDEN";
/// Bytes that the whole listing may have.
const LISTING_BYTES_MAX: usize = 6 * 1024;

fn choices() -> Choices {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Choices {
        templates: texts(&["raw", "maven-build", "maven-test", "tsc", "vitest"]),
        labels: texts(&["arch=arm64", "os=linux", "os=macos", "xcode=26.1"]),
    }
}

fn listing(choices: &Choices) -> Value {
    serde_json::to_value(Name::ALL.map(|name| name.listing(choices))).unwrap()
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
    let text = json!({"tools": listing(&choices)}).to_string();
    assert!(text.len() <= LISTING_BYTES_MAX, "{} bytes", text.len());
    assert_eq!(text, json!({"tools": listing(&choices)}).to_string());
    let labels = (0..10_000).map(|n| format!("label-{n}=x")).collect();
    let many = listing(&Choices { labels, ..choices }).to_string();
    assert!(many.len() <= LISTING_BYTES_MAX + 128, "{} bytes with many labels", many.len());
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
