//! Configuration of MCP clients, so that they start this gateway: the location of each client's
//! file, and the changes to an existing file.

mod codex;
mod file;
mod json;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Name of the gateway in a client's list of servers.
const NAME: &str = "buildpool";
/// A supported client.
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
    /// All clients.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::ClaudeDesktop, Self::Codex, Self::Cursor, Self::VsCode];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    /// Returns true if the file is in the project, not in the user's home directory.
    const fn is_of_project(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Cursor | Self::VsCode => true,
            Self::ClaudeDesktop | Self::Codex => false,
        }
    }

    /// Returns the path of the file in the project or in the home directory.
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

    /// Returns true if an entry contains the transport of the server.
    const fn names_the_transport(self) -> bool {
        match self {
            Self::ClaudeCode | Self::VsCode | Self::Cursor => true,
            Self::ClaudeDesktop | Self::Codex => false,
        }
    }

    /// Returns the key of the server list in a JSON file.
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

/// The program that a client starts, with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation {
    /// Path of this program.
    pub program: PathBuf,
    /// Arguments after `buildpool mcp`. They contain no secret, because the file may be shared.
    pub arguments: Vec<String>,
    /// The project directory, for a client with one configuration for all projects.
    pub project: PathBuf,
}

/// Reason why a configuration can't be written.
#[derive(Debug)]
pub enum InstallError {
    /// The file can't be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The existing content can't be changed.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The user has no home directory.
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
    /// Returns the entry as a file of its own.
    pub fn text(&self, client: McpClient) -> String {
        // Adding to an empty file can't fail.
        self.added_to("", client).unwrap_or_default()
    }

    fn words(&self, client: McpClient) -> Vec<String> {
        let mut words = vec!["mcp".to_owned()];
        words.extend(self.arguments.iter().cloned());
        // Claude Code starts the gateway in the project. The other clients need the directory as an
        // argument.
        let place = match client {
            McpClient::ClaudeDesktop | McpClient::Codex => self.project.display().to_string(),
            // Cursor starts it in the home directory. VS Code starts it in the project, and expands
            // the variable too.
            McpClient::Cursor | McpClient::VsCode => "${workspaceFolder}".to_owned(),
            McpClient::ClaudeCode => return words,
        };
        words.extend(["--directory".to_owned(), place]);
        words
    }

    /// Returns the path of the client's file.
    ///
    /// # Errors
    /// If there is no home directory, for files in it.
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

    /// Adds the gateway to the client's file, or replaces its entry. Everything else in the file is
    /// kept. Returns the path of the file.
    ///
    /// # Errors
    /// If the file can't be read, parsed or written. It is then unchanged.
    pub fn write(&self, client: McpClient) -> Result<PathBuf, InstallError> {
        let path = self.path(client)?;
        let old = file::read(&path)?;
        let text = self.added_to(old.as_deref().unwrap_or_default(), client);
        let text = text.map_err(|reason| InstallError::Unreadable { path: path.clone(), reason })?;
        file::replace(&path, &text).map_err(|source| InstallError::File { path: path.clone(), source })?;
        Ok(path)
    }

    fn added_to(&self, old: &str, client: McpClient) -> Result<String, String> {
        match client {
            McpClient::Codex => codex::with_table(old, self),
            McpClient::ClaudeCode | McpClient::ClaudeDesktop | McpClient::Cursor | McpClient::VsCode => {
                json::with_entry(old, client, self)
            }
        }
    }
}

#[cfg(test)]
mod tests;
