//! The configuration with which an MCP client starts this gateway: where each client keeps it, and how it is added to what
//! is there already.

mod json_text;

use serde_json::{Map, Value, json};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Under this name a client lists the gateway.
const NAME: &str = "buildpool";
/// Largest configuration file that is changed.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Seconds that Codex is told to wait for a call, where nobody said otherwise.
const CODEX_TIMEOUT_SECS: i64 = 300;
/// What tells a client to reach a server over HTTP: beside a command it would make an entry that no client can use.
const HTTP_KEYS: [&str; 5] = ["url", "headers", "headersHelper", "oauth", "auth"];
/// The same in Codex' file.
const CODEX_HTTP_KEYS: [&str; 6] =
    ["url", "bearer_token", "bearer_token_env_var", "http_headers", "env_http_headers", "oauth_resource"];
/// And for the start.
const CODEX_STARTUP_SECS: i64 = 10;
/// What Codex is told to hand on: of the variables around it a server gets only those that are named, and without these
/// neither a token in the environment nor a configuration in another place would be found.
const CODEX_VARIABLES: [&str; 5] =
    ["BUILDPOOL_TOKEN", "BUILDPOOL_URL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// A client that can be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum McpClient {
    /// Claude Code: `.mcp.json` of the project.
    ClaudeCode,
    /// Claude Desktop: the user's `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Codex: the user's `config.toml`.
    Codex,
    /// Cursor: `.cursor/mcp.json` of the project.
    Cursor,
    /// VS Code: `.vscode/mcp.json` of the project.
    VsCode,
}

impl McpClient {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::ClaudeDesktop, Self::Codex, Self::Cursor, Self::VsCode];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    /// Whether its file lies in the project and not in the user's home.
    const fn is_of_project(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::VsCode => true,
            Self::ClaudeDesktop | Self::Codex => false,
        }
    }

    /// The file's place in the project or in the home directory.
    fn file(self) -> PathBuf {
        PathBuf::from(match self {
            Self::ClaudeCode => ".mcp.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::VsCode => ".vscode/mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::ClaudeDesktop if cfg!(target_os = "macos") => {
                "Library/Application Support/Claude/claude_desktop_config.json"
            }
            Self::ClaudeDesktop => ".config/Claude/claude_desktop_config.json",
        })
    }

    /// The key under which a JSON file lists servers.
    const fn key(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Codex | Self::Cursor => "mcpServers",
        }
    }
}

impl FromStr for McpClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is no known client; valid are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// What a client is to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation {
    /// This program.
    pub program: PathBuf,
    /// Of `buildpool mcp`, without the word itself. No secret: the file may be shared.
    pub arguments: Vec<String>,
    /// The project that a client of the user, and not of a project, works in.
    pub project: PathBuf,
}

/// Why a configuration can't be written.
#[derive(Debug)]
pub enum InstallError {
    /// The file can't be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is there can't be added to.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no home directory.
    NoHome,
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "{} can't be read or written", path.display()),
            Self::Unreadable { path, reason } => {
                write!(f, "{}: {reason}; it is left as it is, add the printed entry by hand", path.display())
            }
            Self::NoHome => f.write_str("this user has no home directory"),
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Unreadable { .. } | Self::NoHome => None,
        }
    }
}

impl Installation {
    /// What the client's file has to say, as a file of its own.
    pub fn text(&self, client: McpClient) -> String {
        match client {
            McpClient::Codex => self.toml(),
            McpClient::ClaudeCode | McpClient::ClaudeDesktop | McpClient::Cursor | McpClient::VsCode => {
                pretty(&json!({ client.key(): { NAME: self.entry(client) } }))
            }
        }
    }

    fn words(&self, client: McpClient) -> Vec<String> {
        let mut words = vec!["mcp".to_owned()];
        words.extend(self.arguments.iter().cloned());
        // Claude Code starts the gateway in the project; the others say where that is.
        let place = match client {
            McpClient::ClaudeDesktop | McpClient::Codex => self.project.display().to_string(),
            // Cursor starts it in the home directory; VS Code, which starts it in the project, knows the word as well.
            McpClient::Cursor | McpClient::VsCode => "${workspaceFolder}".to_owned(),
            McpClient::ClaudeCode => return words,
        };
        words.extend(["--directory".to_owned(), place]);
        words
    }

    fn entry(&self, client: McpClient) -> Value {
        let mut entry = json!({"command": self.program.display().to_string(), "args": self.words(client)});
        if matches!(client, McpClient::ClaudeCode | McpClient::VsCode | McpClient::Cursor) {
            entry["type"] = json!("stdio");
        }
        entry
    }

    fn toml(&self) -> String {
        toml_text(&self.table(toml::Table::new()))
    }

    /// The table of this name in Codex' file; what somebody else put into it stays, but for another way to reach us.
    fn table(&self, mut table: toml::Table) -> toml::Table {
        table.retain(|key, _| !CODEX_HTTP_KEYS.contains(&key));
        let words: Vec<toml::Value> =
            self.words(McpClient::Codex).into_iter().map(toml::Value::from).collect();
        table.insert("command".to_owned(), self.program.display().to_string().into());
        table.insert("args".to_owned(), words.into());
        let known = table.get("env_vars").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let more =
            CODEX_VARIABLES.iter().map(|name| toml::Value::from(*name)).filter(|name| !known.contains(name));
        table.insert("env_vars".to_owned(), known.iter().cloned().chain(more).collect::<Vec<_>>().into());
        table.entry("startup_timeout_sec").or_insert_with(|| CODEX_STARTUP_SECS.into());
        table.entry("tool_timeout_sec").or_insert_with(|| CODEX_TIMEOUT_SECS.into());
        table
    }

    /// The client's file.
    ///
    /// # Errors
    /// Without a home directory, for those that lie there.
    pub fn path(&self, client: McpClient) -> Result<PathBuf, InstallError> {
        if client.is_of_project() {
            return Ok(self.project.join(client.file()));
        }
        let directory =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let (McpClient::Codex, Some(codex)) = (client, directory("CODEX_HOME")) {
            return Ok(codex.join("config.toml"));
        }
        let home = directory("HOME");
        Ok(home.ok_or(InstallError::NoHome)?.join(client.file()))
    }

    /// Adds the gateway to the client's file, in place of an older entry; everything else in it stays. Gives the file.
    ///
    /// # Errors
    /// When the file can't be read, understood or written. It is then as it was.
    pub fn write(&self, client: McpClient) -> Result<PathBuf, InstallError> {
        let path = self.path(client)?;
        let old = read(&path)?;
        let text = match client {
            McpClient::Codex => self.with_toml(old.as_deref().unwrap_or_default()),
            McpClient::ClaudeCode | McpClient::ClaudeDesktop | McpClient::Cursor | McpClient::VsCode => {
                self.with_json(old.as_deref(), client)
            }
        };
        let text = text.map_err(|reason| InstallError::Unreadable { path: path.clone(), reason })?;
        replace(&path, &text).map_err(|source| InstallError::File { path: path.clone(), source })?;
        Ok(path)
    }

    fn with_json(&self, old: Option<&str>, client: McpClient) -> Result<String, String> {
        let old = old.filter(|text| !text.trim().is_empty()).unwrap_or("{}");
        let all: Value =
            serde_json::from_str(old).map_err(|error| format!("it is no plain JSON ({error})"))?;
        let all = all.as_object().ok_or("it is no JSON object")?;
        let servers = match all.get(client.key()) {
            Some(servers) => {
                Some(servers.as_object().ok_or_else(|| format!("`{}` is no object", client.key()))?)
            }
            None => None,
        };
        // What somebody else put into our entry stays, but for another way to reach us.
        let mut entry =
            servers.and_then(|servers| servers.get(NAME)?.as_object()).cloned().unwrap_or_default();
        entry.retain(|key, value| !HTTP_KEYS.contains(&key.as_str()) && (key != "type" || value == "stdio"));
        if let Value::Object(ours) = self.entry(client) {
            entry.extend(ours);
        }
        let new = json_text::with_member(old, &[client.key(), NAME], &Value::Object(entry.clone()))
            .ok_or("our entry can't be added to it")?;
        let mut expected = all.clone();
        let servers = expected.entry(client.key()).or_insert_with(|| Value::Object(Map::new()));
        servers[NAME] = Value::Object(entry);
        let read: Value = serde_json::from_str(&new)
            .map_err(|error| format!("our entry can't be added to it ({error})"))?;
        if read != Value::Object(expected) {
            return Err("our entry can't be added to it without changing something else".to_owned());
        }
        Ok(new)
    }

    /// The file with our table in place of an older one, after checking that a reader finds our table and everything else
    /// as it was: the same can be said in ways that lines do not show.
    fn with_toml(&self, old: &str) -> Result<String, String> {
        let read = |text: &str, what: &str| {
            text.parse::<toml::Table>().map_err(|error| format!("{what} ({})", error.message()))
        };
        let take = |all: &mut toml::Table| {
            let servers = all.get_mut("mcp_servers").and_then(toml::Value::as_table_mut)?;
            let ours = servers.remove(NAME);
            if servers.is_empty() {
                all.remove("mcp_servers");
            }
            ours
        };
        let mut before = read(old, "it is no valid TOML")?;
        let known = take(&mut before).and_then(|table| table.as_table().cloned()).unwrap_or_default();
        let table = self.table(known);
        let new = with_table(old, &toml_text(&table));
        let mut after = read(&new, "our table can't be added to it")?;
        if take(&mut after) != Some(toml::Value::Table(table)) || after != before {
            return Err(format!("`mcp_servers.{NAME}` is not a table of its own there"));
        }
        Ok(new)
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// The table as a part of Codex' file.
fn toml_text(table: &toml::Table) -> String {
    let servers = toml::Table::from_iter([(NAME.to_owned(), toml::Value::Table(table.clone()))]);
    let all = toml::Table::from_iter([("mcp_servers".to_owned(), toml::Value::Table(servers))]);
    toml::to_string(&all).unwrap_or_default()
}

/// The file with our table in place of an older one, line by line, so that comments and order stay. What stands between
/// our table and the next one belongs to that.
fn with_table(old: &str, table: &str) -> String {
    let head = format!("[mcp_servers.{NAME}");
    let mut kept = String::new();
    let mut between = String::new();
    let mut is_ours = false;
    for line in old.lines() {
        let line_start = line.trim_start();
        if line_start.starts_with('[') {
            let was_ours = is_ours;
            is_ours =
                line_start.starts_with(&format!("{head}]")) || line_start.starts_with(&format!("{head}."));
            if was_ours && !is_ours {
                kept.push_str(&between);
            }
            between.clear();
        }
        if !is_ours {
            kept.push_str(line);
            kept.push('\n');
        } else if line_start.is_empty() || line_start.starts_with('#') {
            between.push_str(line);
            between.push('\n');
        } else {
            between.clear();
        }
    }
    kept.push_str(&between);
    let kept = kept.trim_end();
    if kept.is_empty() { table.to_owned() } else { format!("{kept}\n\n{table}") }
}

fn read(path: &Path) -> Result<Option<String>, InstallError> {
    let file = |source| InstallError::File { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file(error)),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            let reason = format!("it has {} bytes, more than any such file", metadata.len());
            return Err(InstallError::Unreadable { path: path.to_owned(), reason });
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(file)
}

/// Writes beside the file and renames: a reader sees the old file or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays one: what it points at is what the user keeps.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = directory.join(name);
    let write = || {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        if let Ok(metadata) = fs::metadata(&path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&beside, &path)
    };
    write().inspect_err(|_| {
        // What could not be finished is of no use to anybody.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::{Installation, McpClient, with_table};
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    fn installation(project: &Path) -> Installation {
        Installation {
            program: "/opt/build pool/buildpool".into(),
            arguments: vec!["--coordinator".into(), "wss://pool:7070".into()],
            project: project.to_owned(),
        }
    }

    #[test]
    fn an_entry_is_added_and_everything_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let installation = installation(directory.path());
        let path = directory.path().join(".vscode/mcp.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, r#"{"inputs":[1],"servers":{"other":{"url":"x"},"buildpool":{"command":"old"}}}"#)
            .unwrap();
        for _ in 0..2 {
            assert_eq!(installation.write(McpClient::VsCode).unwrap(), path);
            let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let expected = json!({"inputs": [1], "servers": {
                "other": {"url": "x"},
                "buildpool": {
                    "type": "stdio",
                    "command": "/opt/build pool/buildpool",
                    "args": ["mcp", "--coordinator", "wss://pool:7070", "--directory", "${workspaceFolder}"],
                },
            }});
            assert_eq!(read, expected);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn what_can_not_be_understood_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".mcp.json");
        for text in ["{ // comment\n}", "[]", r#"{"mcpServers": 3}"#] {
            fs::write(&path, text).unwrap();
            let error = installation(directory.path()).write(McpClient::ClaudeCode).unwrap_err().to_string();
            assert!(error.contains(".mcp.json") && error.contains("by hand"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_json_file_stays_as_it_is_but_for_the_entry() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".mcp.json");
        let installation = installation(directory.path());
        let old = "{\"z\": 12345678901234567890123, \"a\":[1,\n 2],\n  \"mcpServers\": {\n    \"other\": {\"url\": \"}x\"},\n    \
                   \"buildpool\": {\"env\": {\"A\": \"b\"}, \"command\": \"old\", \"timeout\": 600000}\n  }, \"b\": 1}\n";
        fs::write(&path, old).unwrap();
        installation.write(McpClient::ClaudeCode).unwrap();
        let new = fs::read_to_string(&path).unwrap();
        let (head, _) = old.split_once("{\"env\"").unwrap();
        assert!(new.starts_with(head) && new.ends_with("\n  }, \"b\": 1}\n"), "{new}");
        let read: Value = serde_json::from_str(&new).unwrap();
        let ours = &read["mcpServers"]["buildpool"];
        assert_eq!((&ours["env"]["A"], &ours["timeout"]), (&json!("b"), &json!(600_000)));
        assert_eq!(ours["command"], "/opt/build pool/buildpool");
        for old in ["{}", " {\"a\": 1 } ", "{\"mcpServers\": {}}", "{\"mcpServers\":{\"x\":{}}}", ""] {
            fs::write(&path, old).unwrap();
            installation.write(McpClient::ClaudeCode).unwrap();
            let once = fs::read_to_string(&path).unwrap();
            let read: Value = serde_json::from_str(&once).unwrap();
            assert_eq!(read["mcpServers"]["buildpool"]["type"], "stdio", "{once}");
            assert_eq!(
                (read.get("a").is_some(), read["mcpServers"].get("x").is_some()),
                (old.contains("a"), old.contains("x"))
            );
            installation.write(McpClient::ClaudeCode).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), once, "twice is as good as once");
        }
    }

    #[test]
    fn a_toml_file_that_lines_do_not_tell_is_left_alone() {
        let installation = installation(Path::new("/work"));
        for old in [
            "[mcp_servers]\nbuildpool = { command = \"old\" }\n",
            "mcp_servers = { other = { command = \"x\" } }\n",
            "text = \"\"\"\n[mcp_servers.buildpool]\nnot ours\n\"\"\"\n",
            "[broken\n",
        ] {
            assert!(installation.with_toml(old).is_err(), "{old}");
        }
        let table = installation.toml();
        for old in ["", "# mine\n", "[mcp_servers.other]\ncommand = \"x\"\n", table.as_str()] {
            let new = installation.with_toml(old).unwrap();
            assert_eq!(new.matches("[mcp_servers.buildpool]").count(), 1, "{new}");
            assert_eq!(installation.with_toml(&new).unwrap(), new, "twice is as good as once");
        }
    }

    #[test]
    fn a_toml_table_keeps_what_others_put_into_it() {
        let old = "# mine\nmodel = \"x\"\n\n[mcp_servers.buildpool]\ncommand = \"old\"\ntool_timeout_sec = 900\nenv_vars = \
                   [\"MINE\"]\n\n[mcp_servers.buildpool.env]\nA = \"b\"\n\n# of the other\n[mcp_servers.other]\ncommand = \"y\"\n";
        let new = installation(Path::new("/work")).with_toml(old).unwrap();
        assert!(
            new.starts_with("# mine\nmodel = \"x\"\n\n\n# of the other\n[mcp_servers.other]\ncommand = \"y\"\n\n[mcp_servers.buildpool]\n"),
            "{new}"
        );
        let read: toml::Table = new.parse().unwrap();
        let ours = &read["mcp_servers"]["buildpool"];
        assert_eq!(
            (ours["tool_timeout_sec"].as_integer(), ours["env"]["A"].as_str()),
            (Some(900), Some("b"))
        );
        let passed: Vec<&str> =
            ours["env_vars"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
        assert!(passed.starts_with(&["MINE", "BUILDPOOL_TOKEN"]), "{passed:?}");
        assert_eq!(with_table("", "x"), "x");
    }

    #[test]
    fn an_entry_for_http_becomes_one_that_is_started_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let installation = installation(directory.path());
        for (client, file) in [
            (McpClient::ClaudeCode, ".mcp.json"),
            (McpClient::Cursor, ".cursor/mcp.json"),
            (McpClient::VsCode, ".vscode/mcp.json"),
        ] {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let old = json!({client.key(): {"buildpool": {
                "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}, "env": {"A": "b"},
            }}});
            fs::write(&path, old.to_string()).unwrap();
            installation.write(client).unwrap();
            let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let keys: Vec<&String> = read[client.key()]["buildpool"].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["args", "command", "env", "type"], "{read}");
            assert_eq!(read[client.key()]["buildpool"]["type"], "stdio");
        }
        let old = "[mcp_servers.buildpool]\nurl = \"http://h/mcp\"\nbearer_token_env_var = \"T\"\nenabled = true\n\n\
                   [mcp_servers.buildpool.http_headers]\nX = \"y\"\n";
        let read: toml::Table = installation.with_toml(old).unwrap().parse().unwrap();
        let ours = read["mcp_servers"]["buildpool"].as_table().unwrap();
        let mut keys: Vec<&str> = ours.keys().map(|key| key.as_str()).collect();
        keys.sort_unstable();
        let expected = ["args", "command", "enabled", "env_vars", "startup_timeout_sec", "tool_timeout_sec"];
        assert_eq!(keys, expected, "{ours}");
    }

    #[test]
    fn each_client_has_its_form() {
        let installation = installation(Path::new("/work tree"));
        for client in McpClient::ALL {
            assert_eq!(client.name().parse(), Ok(client));
            let text = installation.text(client);
            assert!(text.contains("build pool/buildpool") && text.contains("wss://pool:7070"), "{text}");
            let place = ["/work tree", "${workspaceFolder}"].into_iter().find(|place| text.contains(place));
            let expected = match client {
                McpClient::Codex | McpClient::ClaudeDesktop => Some("/work tree"),
                McpClient::Cursor | McpClient::VsCode => Some("${workspaceFolder}"),
                McpClient::ClaudeCode => None,
            };
            assert_eq!(place, expected, "{text}");
        }
        assert!("emacs".parse::<McpClient>().unwrap_err().contains("claude-code, claude-desktop, codex"));
    }
}
