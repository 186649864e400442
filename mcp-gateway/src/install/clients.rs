//! The facts about each MCP client: its file, the form of its entries, and its user's next step.
//!
//! Sources, read in November 2026: code.claude.com/docs/en/mcp; modelcontextprotocol.io/quickstart/user (Claude Desktop);
//! developers.openai.com/codex/mcp; cursor.com/docs/mcp; code.visualstudio.com/docs/copilot/customization/mcp-servers;
//! geminicli.com/docs/tools/mcp-server; docs.windsurf.com/windsurf/cascade/mcp; zed.dev/docs/ai/mcp;
//! opencode.ai/docs/mcp-servers and opencode.ai/v2/docs/mcp-servers;
//! docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers.

use std::str::FromStr;

/// A client that can be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum McpClient {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Codex.
    Codex,
    /// Copilot CLI.
    CopilotCli,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    GeminiCli,
    /// opencode.
    OpenCode,
    /// VS Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Any other client: the usual JSON, which is only printed.
    Generic,
}

/// Scope of a client's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// The file is in the project, and the client starts servers there.
    Project,
    /// The file is in the project, and the client replaces `${workspaceFolder}` by its directory.
    WorkspaceFolder,
    /// The file is in the home directory and holds for all projects, so an entry has to name its project.
    User,
    /// There is no file.
    Printed,
}

/// How a client's file looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// JSON: `command` is a text, `args` a list.
    Json,
    /// JSON: the same with `"type": "stdio"`.
    TypedJson,
    /// JSON: the same, and `tools` names the tools that may be called.
    CopilotJson,
    /// JSON: `command` is a list, with `"type": "local"`.
    OpenCodeJson,
    /// TOML.
    Toml,
}

/// The facts about a client.
pub(super) struct Form {
    name: &'static str,
    pub(super) scope: Scope,
    /// In the project or in the home directory.
    pub(super) file: &'static str,
    /// The key under which the file lists servers.
    pub(super) key: &'static str,
    pub(super) style: Style,
    /// Comments and trailing commas are allowed in its JSON.
    pub(super) comments: bool,
    /// The user's next step after the file is written.
    next: &'static str,
}

const CLAUDE_DESKTOP_FILE: &str = if cfg!(target_os = "macos") {
    "Library/Application Support/Claude/claude_desktop_config.json"
} else {
    ".config/Claude/claude_desktop_config.json"
};

impl McpClient {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Codex,
        Self::CopilotCli,
        Self::Cursor,
        Self::GeminiCli,
        Self::OpenCode,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
        Self::Generic,
    ];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        self.form().name
    }

    /// The user's next step after the file is written.
    pub const fn next_step(self) -> &'static str {
        self.form().next
    }

    pub(super) const fn form(self) -> Form {
        match self {
            Self::ClaudeCode => Form {
                name: "claude-code",
                scope: Scope::Project,
                file: ".mcp.json",
                key: "mcpServers",
                style: Style::TypedJson,
                comments: false,
                next: "start `claude` in the project and approve the server `buildpool`; `/mcp` lists its tools",
            },
            Self::ClaudeDesktop => Form {
                name: "claude-desktop",
                scope: Scope::User,
                file: CLAUDE_DESKTOP_FILE,
                key: "mcpServers",
                style: Style::Json,
                comments: false,
                next: "quit Claude Desktop and start it again; its tools menu lists the server",
            },
            Self::Codex => Form {
                name: "codex",
                scope: Scope::Project,
                file: ".codex/config.toml",
                key: "mcp_servers",
                style: Style::Toml,
                comments: true,
                next: "start `codex` in the project and trust the project; `/mcp` lists the tools",
            },
            Self::CopilotCli => Form {
                name: "copilot-cli",
                scope: Scope::Project,
                file: ".github/mcp.json",
                key: "mcpServers",
                style: Style::CopilotJson,
                comments: false,
                next: "start `copilot` in the project and trust the project; `/mcp show` lists the server",
            },
            Self::Cursor => Form {
                name: "cursor",
                scope: Scope::WorkspaceFolder,
                file: ".cursor/mcp.json",
                key: "mcpServers",
                style: Style::TypedJson,
                comments: false,
                next: "open the project in Cursor and enable `buildpool` under Settings, MCP",
            },
            Self::GeminiCli => Form {
                name: "gemini-cli",
                scope: Scope::Project,
                file: ".gemini/settings.json",
                key: "mcpServers",
                style: Style::Json,
                comments: true,
                next: "start `gemini` in the project; `/mcp` lists the tools",
            },
            Self::OpenCode => Form {
                name: "opencode",
                scope: Scope::Project,
                file: "opencode.json",
                key: "mcp",
                style: Style::OpenCodeJson,
                comments: true,
                next: "start `opencode` in the project; `opencode mcp list` lists the server",
            },
            Self::VsCode => Form {
                name: "vscode",
                scope: Scope::WorkspaceFolder,
                file: ".vscode/mcp.json",
                key: "servers",
                style: Style::TypedJson,
                comments: true,
                next: "open the project in VS Code, run `MCP: List Servers` and start `buildpool`",
            },
            Self::Windsurf => Form {
                name: "windsurf",
                scope: Scope::User,
                file: ".codeium/windsurf/mcp_config.json",
                key: "mcpServers",
                style: Style::Json,
                comments: false,
                next: "press Refresh in the MCP servers of Cascade",
            },
            Self::Zed => Form {
                name: "zed",
                scope: Scope::Project,
                file: ".zed/settings.json",
                key: "context_servers",
                style: Style::Json,
                comments: true,
                next: "open the project in Zed and trust it; the settings of the Agent Panel list the server",
            },
            Self::Generic => Form {
                name: "generic",
                scope: Scope::Printed,
                file: "",
                key: "mcpServers",
                style: Style::Json,
                comments: false,
                next: "copy the entry into the client's configuration and restart the client",
            },
        }
    }
}

impl FromStr for McpClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a known client; valid are {names}. `generic` prints an entry for any other client")
        })
    }
}
