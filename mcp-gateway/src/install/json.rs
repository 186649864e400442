//! The gateway's entry in a client's JSON configuration. The order, spaces, comments and number
//! formats of an existing file are kept.

use super::clients::Style;
use super::{Installation, McpClient};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde::de::IgnoredAny;

/// Keys that make a client use a server over HTTP. Together with a command, they would make the
/// entry invalid.
const HTTP_KEYS: [&str; 5] = ["url", "headers", "headersHelper", "oauth", "auth"];

/// The file with the gateway's entry in it. Keys that a user added to that entry stay, except those of another transport.
///
/// # Errors
/// The reason why the file can't be changed.
pub(super) fn with_entry(
    old: &str,
    client: McpClient,
    installation: &Installation,
) -> Result<String, String> {
    let root = parse(old, client)?;
    let all = root.object_value_or_create().ok_or("it is not a JSON object")?;
    let key = client.form().key;
    let servers = match servers(&all, client)? {
        Some(servers) => servers,
        None => all.object_value_or_set(key),
    };
    let name = installation.entry_name(client, &entries(&servers));
    let ours = match member(&servers, &name)? {
        Some(ours) => ours.object_value_or_set(),
        None => servers.object_value_or_set(&name),
    };
    for key in HTTP_KEYS {
        if let Some(other) = member(&ours, key)? {
            other.remove();
        }
    }
    for (key, value) in wanted(client, installation, member(&ours, "type")?.is_some()) {
        match member(&ours, key)? {
            Some(member) => member.set_value(value),
            None => drop(ours.append(key, value)),
        }
    }
    Ok(root.to_string())
}

/// Returns the file without this project's entry, or `None` if it has no such entry.
///
/// # Errors
/// The problem with the file.
pub(super) fn without_entry(
    old: &str,
    client: McpClient,
    installation: &Installation,
) -> Result<Option<String>, String> {
    let root = parse(old, client)?;
    let Some(all) = root.object_value() else { return Ok(None) };
    let Some(servers) = servers(&all, client)? else { return Ok(None) };
    let name = installation.entry_name(client, &entries(&servers));
    let Some(ours) = member(&servers, &name)? else { return Ok(None) };
    ours.remove();
    Ok(Some(root.to_string()))
}

fn parse(old: &str, client: McpClient) -> Result<CstRootNode, String> {
    if !old.trim().is_empty() && !client.form().comments {
        serde_json::from_str::<IgnoredAny>(old).map_err(|error| format!("it is not plain JSON ({error})"))?;
    }
    CstRootNode::parse(old, &WITH_COMMENTS).map_err(|error| format!("it is not JSON ({error})"))
}

/// The object that lists the servers, if it is there. Version 2 of opencode has it one level deeper than version 1.
fn servers(all: &CstObject, client: McpClient) -> Result<Option<CstObject>, String> {
    let key = client.form().key;
    let Some(servers) = member(all, key)? else { return Ok(None) };
    let servers = servers.object_value().ok_or_else(|| format!("`{key}` is not an object"))?;
    if client.form().style == Style::OpenCodeJson
        && let Some(deeper) = member(&servers, "servers")?.and_then(|deeper| deeper.object_value())
        && deeper.get("type").is_none()
    {
        return Ok(Some(deeper));
    }
    Ok(Some(servers))
}

/// The names of the entries, and their arguments.
fn entries(servers: &CstObject) -> Vec<(String, Vec<String>)> {
    let arguments = |entry: &CstObjectProp| {
        let list = entry.object_value()?.get("args")?.array_value()?;
        let text = |node: CstNode| node.as_string_lit()?.decoded_value().ok();
        Some(list.elements().into_iter().filter_map(text).collect())
    };
    let entry = |entry: CstObjectProp| Some((entry.decoded_name()?, arguments(&entry).unwrap_or_default()));
    servers.properties().into_iter().filter_map(entry).collect()
}

/// The members that an entry must have.
fn wanted(
    client: McpClient,
    installation: &Installation,
    has_type: bool,
) -> Vec<(&'static str, CstInputValue)> {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let list = |words: &[String]| CstInputValue::Array(words.iter().map(|word| text(word)).collect());
    let (command, words) = (installation.command(client), installation.words(client));
    let style = client.form().style;
    if style == Style::OpenCodeJson {
        return vec![("type", text("local")), ("command", list(&[vec![command], words].concat()))];
    }
    let mut wanted = vec![("command", text(&command)), ("args", list(&words))];
    if style != Style::Json || has_type {
        wanted.push(("type", text("stdio")));
    }
    if style == Style::CopilotJson {
        wanted.push(("tools", list(&["*".to_owned()])));
    }
    wanted
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
