//! The gateway's table in Codex' file, added to what is there: order, spaces and comments stay.

use super::{Installation, McpClient, NAME};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value, value};

/// Seconds that Codex is told to wait for a call, where nobody said otherwise.
const CALL_SECS: i64 = 300;
/// And for the start.
const STARTUP_SECS: i64 = 10;
/// What tells Codex to reach a server over HTTP.
const HTTP_KEYS: [&str; 6] =
    ["url", "bearer_token", "bearer_token_env_var", "http_headers", "env_http_headers", "oauth_resource"];
/// What Codex is told to hand on: of the variables around it a server gets only those that are named, and without these
/// neither a token in the environment nor a configuration in another place would be found.
const VARIABLES: [&str; 5] =
    ["BUILDPOOL_TOKEN", "BUILDPOOL_URL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// What some editors begin a file with.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The file with the gateway's table in it. What somebody else put into that table stays, but for another way to reach us.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn with_table(old: &str, installation: &Installation) -> Result<String, String> {
    let text = old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(old);
    let mut all: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("it is no valid TOML ({})", error.message()))?;
    // Comments of a file that has nothing else stay above.
    let above = if all.is_empty() { text.to_owned() } else { String::new() };
    if !above.is_empty() {
        all.set_trailing("");
    }
    let mut of_servers = Table::new();
    of_servers.set_implicit(true);
    let servers = table(all.as_table_mut(), "mcp_servers", of_servers)?;
    let ours = table(servers, NAME, Table::new()).map_err(|error| format!("mcp_servers: {error}"))?;
    for key in HTTP_KEYS {
        ours.remove(key);
    }
    set(ours, "command", installation.program.display().to_string().into());
    set(ours, "args", Array::from_iter(installation.words(McpClient::Codex)).into());
    let mut variables = ours.get("env_vars").and_then(Item::as_array).cloned().unwrap_or_default();
    for name in VARIABLES {
        if !variables.iter().any(|known| known.as_str() == Some(name)) {
            variables.push(name);
        }
    }
    set(ours, "env_vars", variables.into());
    ours.entry("startup_timeout_sec").or_insert(value(STARTUP_SECS));
    ours.entry("tool_timeout_sec").or_insert(value(CALL_SECS));
    let gap = if above.is_empty() { "" } else { "\n" };
    let new = format!("{above}{gap}{all}");
    // The library writes ends of lines in one way.
    let new = if old.contains("\r\n") { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new };
    Ok(if old.len() == text.len() { new } else { format!("{BYTE_ORDER_MARK}{new}") })
}

/// A table by its name, made if it is not there.
fn table<'a>(of: &'a mut dyn TableLike, name: &str, new: Table) -> Result<&'a mut dyn TableLike, String> {
    let item = of.entry(name).or_insert(Item::Table(new));
    item.as_table_like_mut().ok_or_else(|| format!("`{name}` is no table"))
}

/// Sets a value. What stands beside an older one stays.
fn set(table: &mut dyn TableLike, key: &str, mut new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => drop(table.insert(key, Item::Value(new))),
    }
}
