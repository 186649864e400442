//! The OpenAPI document. It is made from the handlers; the schema of a result is that of the answers over MCP.

use super::events::{EventData, EventPlace, Kinds};
use super::forms::{
    BuildText, FindingText, JobText, ListCursor, LogCursor, LogPlace, RequestKey, TestCursor,
};
use super::lines::Offsets;
use super::problem::Details;
use super::webhooks::WebhookText;
use buildpool_protocol::client_link::StreamChoice;
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{Ref, Schema};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi, PartialSchema, ToSchema};

/// Schema of a JobResult, and of a build's manifest.
const RESULT_SCHEMA: &str = include_str!("../../../../docs/mcp-job.schema.json");

/// Parts of the document that no handler has.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "buildpool",
        description = "Jobs, logs, workers and tokens of a pool. Every request needs `Authorization: Bearer TOKEN`."
    ),
    modifiers(&Token),
    security(("token" = [])),
    components(schemas(Details, StreamChoice, EventData, EventPlace, WebhookText, BuildText, FindingText, JobText, Kinds, ListCursor, LogCursor, LogPlace, Offsets, RequestKey, TestCursor))
)]
pub(super) struct Api;

/// Requests whose axum path differs from the documented one.
#[derive(OpenApi)]
#[openapi(paths(super::artifacts::get))]
pub(super) struct Files;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// Each request may be refused.
pub(super) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let refused = |why: &str| {
            ResponseBuilder::new()
                .description(why)
                .content("application/problem+json", content.clone())
                .build()
        };
        [
            ("400", "A value is not valid"),
            ("401", "The token is missing, unknown, expired or revoked"),
            ("403", "The role of the token does not allow this"),
            ("404", "Nothing has this id"),
            ("409", "The id or key is in use for something else, or several jobs begin with this id"),
            ("410", "It was here, and retention removed it"),
            ("413", "The body is too long"),
            ("415", "The body is not JSON"),
            ("422", "The values have the documented form, but can't be used, or not together"),
            ("429", "A limit of this token or of the pool is reached"),
            ("500", "The coordinator can't read its data"),
            ("503", "The coordinator accepts no jobs now, or is shutting down"),
        ]
        .into_iter()
        .map(|(status, why)| (status.to_owned(), RefOr::T(refused(why))))
        .collect()
    }
}

/// A JobResult. [`document`] adds its schema.
pub(super) struct JobResultSchema;

impl PartialSchema for JobResultSchema {
    fn schema() -> RefOr<Schema> {
        Ref::from_schema_name("JobResult").into()
    }
}

impl ToSchema for JobResultSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "JobResult".into()
    }
}

/// Returns the document.
pub(super) fn document() -> Value {
    let (_, document) = super::documented().split_for_parts();
    let mut document = serde_json::to_value(document).unwrap_or_default();
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) else {
        return document;
    };
    let mut result: Value = serde_json::from_str(RESULT_SCHEMA).unwrap_or_default();
    if let Some(definitions) = result.as_object_mut().and_then(|result| {
        result.remove("$schema");
        result.remove("$defs")
    }) {
        for (name, schema) in definitions.as_object().into_iter().flatten() {
            schemas.insert(definition(name), moved(schema));
        }
    }
    schemas.insert("JobResult".to_owned(), moved(&result));
    state_ranges(&mut document);
    describe_answers(&mut document);
    remove_null_parameters(&mut document);
    document
}

/// Removes null from the schemas of parameters: an absent parameter is not sent, and the text `null` has no meaning.
fn remove_null_parameters(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    let lists = operations.filter_map(|operation| operation.get_mut("parameters")?.as_array_mut());
    for schema in lists.flatten().filter_map(|parameter| parameter.get_mut("schema")) {
        let types = schema["oneOf"].as_array();
        let named = types.and_then(|types| types.iter().find(|one| one["type"] != "null"));
        if let Some(named) = named.cloned() {
            *schema = named;
        }
    }
}

/// Adds the description that OpenAPI requires of each response.
fn describe_answers(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    let answers = operations.filter_map(|operation| operation.get_mut("responses")?.as_object_mut());
    for answer in answers.flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let description = answer.entry("description").or_insert(json!(""));
        if *description == "" {
            *description = json!("The request succeeded");
        }
    }
}

/// Replaces the formats of unsigned integers by their ranges: OpenAPI has formats for signed integers only, and those
/// exclude the upper half.
fn state_ranges(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let largest = match members.get("format").and_then(Value::as_str) {
                Some("int32") => u64::from(u32::MAX),
                _ => u64::MAX,
            };
            let is_unsigned = members.get("minimum").and_then(Value::as_u64).is_some();
            if is_unsigned
                && members.get("format").is_some_and(|format| format == "int32" || format == "int64")
            {
                members.remove("format");
                members.entry("maximum").or_insert(json!(largest));
            }
            members.values_mut().for_each(state_ranges);
        }
        Value::Array(items) => items.iter_mut().for_each(state_ranges),
        _ => {}
    }
}

fn definition(name: &str) -> String {
    format!("Result-{name}")
}

/// Returns the schema with references to the place of its definitions in the document.
fn moved(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| match member.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                Some(target) if name == "$ref" => {
                    (name.clone(), json!(format!("#/components/schemas/{}", definition(target))))
                }
                _ => (name.clone(), moved(member)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(moved).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn the_committed_document_is_current() {
        let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == made, "docs/openapi.json is old; `cargo xtask bless` writes it");
    }
}
