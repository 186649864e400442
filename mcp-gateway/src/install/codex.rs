//! The gateway's table in the configuration of Codex. The order, spaces and comments of an existing
//! file are kept.

use super::{Installation, McpClient, NAME};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value, value};

/// Default of Codex' timeout for a call, in seconds.
const CALL_SECS: i64 = 300;
/// Default of Codex' timeout for the start, in seconds.
const STARTUP_SECS: i64 = 10;
/// Keys that make Codex use a server over HTTP.
const HTTP_KEYS: [&str; 6] =
    ["url", "bearer_token", "bearer_token_env_var", "http_headers", "env_http_headers", "oauth_resource"];
/// A call ends this many seconds before Codex gives up on it.
const MARGIN_SECS: i64 = 10;
/// Variables that Codex passes on to the gateway. Codex passes only the variables that an entry names, and jobs on the local
/// pool have the environment of the gateway.
const VARIABLES: &[&str] = &[
    "BUILDPOOL_TOKEN",
    "BUILDPOOL_URL",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    // Toolchains.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CMAKE_PREFIX_PATH",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DEVELOPER_DIR",
    "SDKROOT",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "GOPRIVATE",
    "GOPROXY",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NVM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYENV_ROOT",
    "CONDA_PREFIX",
    "UV_CACHE_DIR",
    "PIP_INDEX_URL",
    "GEM_HOME",
    "RBENV_ROOT",
    "DOTNET_ROOT",
    "DOCKER_HOST",
    // Access to other machines.
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
];

/// The byte order mark that some editors write at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the file with the gateway's table. Other keys of an existing table are kept, except
/// those for HTTP.
///
/// # Errors
/// The reason why the file can't be changed.
pub(super) fn with_table(old: &str, installation: &Installation) -> Result<String, String> {
    let text = old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(old);
    let mut all: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("it is not valid TOML ({})", error.message()))?;
    // In a file with only comments, the comments stay above the table.
    let above = if all.is_empty() { text.to_owned() } else { String::new() };
    if !above.is_empty() {
        all.set_trailing("");
    }
    let mut of_servers = Table::new();
    of_servers.set_implicit(true);
    let servers = table(all.as_table_mut(), "mcp_servers", of_servers)?;
    let ours = table(servers, NAME, Table::new()).map_err(|error| format!("mcp_servers: {error}"))?;
    let call_secs = ours.get("tool_timeout_sec").and_then(seconds).unwrap_or(CALL_SECS);
    for key in HTTP_KEYS {
        ours.remove(key);
    }
    set(ours, "command", installation.command(McpClient::Codex).into());
    let wait = ["--wait".to_owned(), format!("{}s", (call_secs - MARGIN_SECS).max(1))];
    let words = installation.words(McpClient::Codex).into_iter().chain(wait);
    set(ours, "args", Array::from_iter(words).into());
    let mut variables = ours.get("env_vars").and_then(Item::as_array).cloned().unwrap_or_default();
    for name in VARIABLES {
        if !variables.iter().any(|known| known.as_str() == Some(name)) {
            variables.push(*name);
        }
    }
    set(ours, "env_vars", variables.into());
    ours.entry("startup_timeout_sec").or_insert(value(STARTUP_SECS));
    ours.entry("tool_timeout_sec").or_insert(value(CALL_SECS));
    let gap = if above.is_empty() { "" } else { "\n" };
    let new = format!("{above}{gap}{all}");
    // The library writes only one kind of line end.
    let new = if old.contains("\r\n") { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new };
    Ok(if old.len() == text.len() { new } else { format!("{BYTE_ORDER_MARK}{new}") })
}

/// Returns the file without the gateway's table, or `None` if it has no such table.
///
/// # Errors
/// The problem with the file.
pub(super) fn without_table(old: &str) -> Result<Option<String>, String> {
    let text = old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(old);
    let mut all: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("it is not valid TOML ({})", error.message()))?;
    let servers = all.get_mut("mcp_servers").and_then(Item::as_table_like_mut);
    if servers.and_then(|servers| servers.remove(NAME)).is_none() {
        return Ok(None);
    }
    let new = all.to_string();
    let new = if old.contains("\r\n") { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new };
    Ok(Some(if old.len() == text.len() { new } else { format!("{BYTE_ORDER_MARK}{new}") }))
}

/// A number of whole seconds.
fn seconds(item: &Item) -> Option<i64> {
    item.as_integer().or_else(|| item.as_float().map(|seconds| seconds as i64)).filter(|seconds| *seconds > 0)
}

/// Returns the table with this name, and creates it if it is missing.
fn table<'a>(of: &'a mut dyn TableLike, name: &str, new: Table) -> Result<&'a mut dyn TableLike, String> {
    let item = of.entry(name).or_insert(Item::Table(new));
    item.as_table_like_mut().ok_or_else(|| format!("`{name}` is not a table"))
}

/// Sets a value. Spaces and comments around an older value are kept.
fn set(table: &mut dyn TableLike, key: &str, mut new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => drop(table.insert(key, Item::Value(new))),
    }
}
