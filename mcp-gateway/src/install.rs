//! The configuration with which an MCP client starts this gateway: where each client keeps it, and how it is added to what
//! is there already.

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
/// Seconds that Codex is told to wait for a call.
const CODEX_TIMEOUT_SECS: u32 = 300;

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
        // A client of a project starts the gateway there; the others say where.
        if !client.is_of_project() {
            words.extend(["--directory".to_owned(), self.project.display().to_string()]);
        }
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
        let program = toml_text(&self.program.display().to_string());
        let words: Vec<String> = self.words(McpClient::Codex).iter().map(|word| toml_text(word)).collect();
        format!(
            "[mcp_servers.{NAME}]\ncommand = {program}\nargs = [{}]\nstartup_timeout_sec = 10\ntool_timeout_sec = \
             {CODEX_TIMEOUT_SECS}\n",
            words.join(", ")
        )
    }

    /// The client's file.
    ///
    /// # Errors
    /// Without a home directory, for those that lie there.
    pub fn path(&self, client: McpClient) -> Result<PathBuf, InstallError> {
        if client.is_of_project() {
            return Ok(self.project.join(client.file()));
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
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
            McpClient::Codex => checked_toml(old.as_deref().unwrap_or_default(), &self.toml()),
            McpClient::ClaudeCode | McpClient::ClaudeDesktop | McpClient::Cursor | McpClient::VsCode => {
                self.with_json(old.as_deref(), client)
            }
        };
        let text = text.map_err(|reason| InstallError::Unreadable { path: path.clone(), reason })?;
        replace(&path, &text).map_err(|source| InstallError::File { path: path.clone(), source })?;
        Ok(path)
    }

    fn with_json(&self, old: Option<&str>, client: McpClient) -> Result<String, String> {
        let mut all = match old.map(str::trim).filter(|text| !text.is_empty()) {
            None => Value::Object(Map::new()),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| format!("it is no plain JSON ({error})"))?
            }
        };
        let servers = all
            .as_object_mut()
            .ok_or("it is no JSON object")?
            .entry(client.key())
            .or_insert_with(|| Value::Object(Map::new()));
        let servers = servers.as_object_mut().ok_or_else(|| format!("`{}` is no object", client.key()))?;
        servers.insert(NAME.to_owned(), self.entry(client));
        Ok(pretty(&all))
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// A basic string; what JSON escapes, TOML reads the same way.
fn toml_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// As [`with_toml`], after checking that a reader finds the new table and everything else as it was: the same can be said
/// in ways that lines do not show.
fn checked_toml(old: &str, table: &str) -> Result<String, String> {
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
    take(&mut before);
    let new = with_toml(old, table);
    let mut after = read(&new, "our table can't be added to it")?;
    let mut ours = read(table, "our table is no valid TOML")?;
    if take(&mut after) != take(&mut ours) || after != before {
        return Err(format!("`mcp_servers.{NAME}` is not a table of its own there"));
    }
    Ok(new)
}

/// The file with our table in place of an older one, line by line, so that comments and order stay.
fn with_toml(old: &str, table: &str) -> String {
    let head = format!("[mcp_servers.{NAME}");
    let mut kept = String::new();
    let mut is_ours = false;
    for line in old.lines() {
        let line_start = line.trim_start();
        if line_start.starts_with('[') {
            is_ours =
                line_start.starts_with(&format!("{head}]")) || line_start.starts_with(&format!("{head}."));
        }
        if !is_ours {
            kept.push_str(line);
            kept.push('\n');
        }
    }
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
    use super::{Installation, McpClient, checked_toml, with_toml};
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
                    "args": ["mcp", "--coordinator", "wss://pool:7070"],
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
    fn a_toml_file_that_lines_do_not_tell_is_left_alone() {
        let table = "[mcp_servers.buildpool]\ncommand = \"new\"\n";
        for old in [
            "[mcp_servers]\nbuildpool = { command = \"old\" }\n",
            "mcp_servers = { other = { command = \"x\" } }\n",
            "text = \"\"\"\n[mcp_servers.buildpool]\nnot ours\n\"\"\"\n",
            "[broken\n",
        ] {
            assert!(checked_toml(old, table).is_err(), "{old}");
        }
        for old in ["", "# mine\n", "[mcp_servers.other]\ncommand = \"x\"\n", table] {
            let new = checked_toml(old, table).unwrap();
            assert_eq!(new.matches("[mcp_servers.buildpool]").count(), 1, "{new}");
            assert_eq!(checked_toml(&new, table).unwrap(), new, "twice is as good as once");
        }
    }

    #[test]
    fn a_toml_table_is_replaced_with_its_parts() {
        let old = "# mine\nmodel = \"x\"\n\n[mcp_servers.buildpool]\ncommand = \"old\"\n\n[mcp_servers.buildpool.env]\nA = \
                   \"b\"\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let new = with_toml(old, "[mcp_servers.buildpool]\ncommand = \"new\"\n");
        assert_eq!(
            new,
            "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[mcp_servers.buildpool]\ncommand = \"new\"\n"
        );
    }

    #[test]
    fn each_client_has_its_form() {
        let installation = installation(Path::new("/work tree"));
        for client in McpClient::ALL {
            assert_eq!(client.name().parse(), Ok(client));
            let text = installation.text(client);
            assert!(text.contains("build pool/buildpool") && text.contains("wss://pool:7070"), "{text}");
            let says_where = text.contains("/work tree");
            assert_eq!(says_where, matches!(client, McpClient::Codex | McpClient::ClaudeDesktop), "{text}");
        }
        assert!("emacs".parse::<McpClient>().unwrap_err().contains("claude-code, claude-desktop, codex"));
    }
}
