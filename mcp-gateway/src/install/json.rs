//! The gateway's entry in a client's JSON configuration. The order, spaces, comments and number
//! formats of an existing file are kept.

use super::{Installation, McpClient, NAME};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde::de::IgnoredAny;

/// Keys that make a client use a server over HTTP. Together with a command, they would make the
/// entry invalid.
const HTTP_KEYS: [&str; 5] = ["url", "headers", "headersHelper", "oauth", "auth"];

/// Returns the file with the gateway's entry. Other keys of an existing entry are kept, except
/// those for HTTP.
///
/// # Errors
/// The reason why the file can't be changed.
pub(super) fn with_entry(
    old: &str,
    client: McpClient,
    installation: &Installation,
) -> Result<String, String> {
    if !old.trim().is_empty() && !allows_comments(client) {
        serde_json::from_str::<IgnoredAny>(old).map_err(|error| format!("it is no plain JSON ({error})"))?;
    }
    let root = CstRootNode::parse(old, &WITH_COMMENTS).map_err(|error| format!("it is no JSON ({error})"))?;
    let all = root.object_value_or_create().ok_or("it is no JSON object")?;
    let servers = match member(&all, client.key())? {
        Some(servers) => servers.object_value().ok_or_else(|| format!("`{}` is no object", client.key()))?,
        None => all.object_value_or_set(client.key()),
    };
    let ours = match member(&servers, NAME)? {
        Some(ours) => ours.object_value_or_set(),
        None => servers.object_value_or_set(NAME),
    };
    for key in HTTP_KEYS {
        if let Some(other) = member(&ours, key)? {
            other.remove();
        }
    }
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let words = installation.words(client);
    let mut wanted = vec![
        ("command", text(&installation.program.display().to_string())),
        ("args", CstInputValue::Array(words.iter().map(|word| text(word)).collect())),
    ];
    if client.names_the_transport() || member(&ours, "type")?.is_some() {
        wanted.push(("type", text("stdio")));
    }
    for (key, value) in wanted {
        match member(&ours, key)? {
            Some(member) => member.set_value(value),
            None => drop(ours.append(key, value)),
        }
    }
    Ok(root.to_string())
}

/// VS Code allows comments and trailing commas in its own files
/// (code.visualstudio.com/docs/languages/json). For the other clients, only plain JSON is
/// documented.
const fn allows_comments(client: McpClient) -> bool {
    matches!(client, McpClient::VsCode)
}

/// JSON with comments and trailing commas, but no other extensions.
const WITH_COMMENTS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Returns the member with this name. Fails on a duplicate, because parsers differ in which one
/// they use.
fn member(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, String> {
    let mut found =
        object.properties().into_iter().filter(|member| member.decoded_name().as_deref() == Some(name));
    let first = found.next();
    if found.next().is_some() { Err(format!("`{name}` is there twice")) } else { Ok(first) }
}
