//! The configuration with which an MCP client starts this gateway: where each client keeps it, and how it is added to what
//! is there already.

mod codex;
mod file;
mod json;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Under this name a client lists the gateway.
const NAME: &str = "buildpool";
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

    /// Whether an entry says by which transport the server is reached.
    const fn names_the_transport(self) -> bool {
        match self {
            Self::ClaudeCode | Self::VsCode | Self::Cursor => true,
            Self::ClaudeDesktop | Self::Codex => false,
        }
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
        // Where nothing is, nothing is in the way.
        self.added_to("", client).unwrap_or_default()
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
