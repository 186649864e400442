//! Configuration of MCP clients, so that they start this gateway: the location of each client's
//! file, and the changes to an existing file.

mod clients;
mod codex;
mod file;
mod json;

pub use clients::McpClient;
use clients::{Scope, Style};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the entry in a file that belongs to one project.
const NAME: &str = "buildpool";
/// Longest part of an entry's name that comes from the project, in bytes.
const PROJECT_NAME_BYTES: usize = 24;

/// The program that a client starts, with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installation {
    /// Path of this program.
    pub program: PathBuf,
    /// Arguments after `buildpool mcp`. They contain no secret, because the file may be shared.
    pub arguments: Vec<String>,
    /// The project.
    pub project: PathBuf,
    /// `PATH` finds this program by its name.
    pub is_on_path: bool,
}

/// Reason why a configuration can't be written.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The file can't be read or written.
    #[error("{} can't be read or written", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The existing content can't be changed.
    #[error("{}: {reason}; it is left as it is, add the printed entry by hand", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The user has no home directory.
    #[error("this user has no home directory")]
    NoHome,
    /// The client has no file that is known.
    #[error(
        "`generic` has no file of its own: run `buildpool install mcp-client generic` without --write or --remove, \
         and copy the printed entry into the client's configuration"
    )]
    NoFile,
}

/// Whether `PATH` finds this file under the name `buildpool`.
pub fn is_on_path(program: &Path) -> bool {
    let Ok(own) = program.canonicalize() else { return false };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|directory| directory.join(NAME)).find(|file| file.is_file());
    first.and_then(|file| file.canonicalize().ok()).is_some_and(|found| found == own)
}

impl Installation {
    /// Returns the entry as a file of its own.
    pub fn text(&self, client: McpClient) -> String {
        // An empty file has nothing that an entry could conflict with.
        self.added_to("", client).unwrap_or_default()
    }

    /// The program as an entry names it. An application that a desktop starts does not have the `PATH` of a shell, so
    /// a file of the user has the whole path.
    fn command(&self, client: McpClient) -> String {
        if self.is_on_path && client.form().scope != Scope::User {
            return NAME.to_owned();
        }
        self.program.display().to_string()
    }

    /// The arguments of an entry.
    fn words(&self, client: McpClient) -> Vec<String> {
        let mut words = vec!["mcp".to_owned()];
        words.extend(self.arguments.iter().cloned());
        let directory = match client.form().scope {
            Scope::Project => return words,
            Scope::WorkspaceFolder => "${workspaceFolder}".to_owned(),
            Scope::User | Scope::Printed => self.project.display().to_string(),
        };
        words.extend(["--directory".to_owned(), directory]);
        words
    }

    /// The name of this project's entry. `entries` are the entries of the file with their arguments: an entry of another
    /// project keeps its name.
    fn entry_name(&self, client: McpClient, entries: &[(String, Vec<String>)]) -> String {
        if client.form().scope != Scope::User {
            return NAME.to_owned();
        }
        let project = self.project.display().to_string();
        let is_of_project =
            |words: &[String]| words.windows(2).any(|pair| pair[0] == "--directory" && pair[1] == project);
        let is_ours = |name: &str| name == NAME || name.starts_with(&format!("{NAME}-"));
        if let Some((name, _)) = entries.iter().find(|(name, words)| is_ours(name) && is_of_project(words)) {
            return name.clone();
        }
        let wanted = format!("{NAME}-{}", short_name(&self.project));
        let names =
            std::iter::once(wanted.clone()).chain((2_u64..).map(|number| format!("{wanted}-{number}")));
        let is_free = |name: &String| entries.iter().all(|(known, _)| known != name);
        names.into_iter().find(is_free).unwrap_or(wanted)
    }

    /// Returns the path of the client's file.
    ///
    /// # Errors
    /// Without a home directory, for a file that lies there, and for a client without a file.
    pub fn path(&self, client: McpClient) -> Result<PathBuf, InstallError> {
        let form = client.form();
        match form.scope {
            Scope::Project | Scope::WorkspaceFolder => Ok(self.project.join(form.file)),
            Scope::User => {
                let home = std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
                Ok(home.ok_or(InstallError::NoHome)?.join(form.file))
            }
            Scope::Printed => Err(InstallError::NoFile),
        }
    }

    /// Adds the gateway to the client's file, in place of an older entry of this project; everything else in it stays.
    /// Returns the file.
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

    /// Removes this project's entry from the client's file. Returns the file, and whether there was an entry.
    ///
    /// # Errors
    /// As [`Installation::write`].
    pub fn remove(&self, client: McpClient) -> Result<(PathBuf, bool), InstallError> {
        let path = self.path(client)?;
        let Some(old) = file::read(&path)? else { return Ok((path, false)) };
        let text = match client.form().style {
            Style::Toml => codex::without_table(&old),
            Style::Json | Style::TypedJson | Style::CopilotJson | Style::OpenCodeJson => {
                json::without_entry(&old, client, self)
            }
        };
        let text = text.map_err(|reason| InstallError::Unreadable { path: path.clone(), reason })?;
        let Some(text) = text else { return Ok((path, false)) };
        file::replace(&path, &text).map_err(|source| InstallError::File { path: path.clone(), source })?;
        Ok((path, true))
    }

    fn added_to(&self, old: &str, client: McpClient) -> Result<String, String> {
        match client.form().style {
            Style::Toml => codex::with_table(old, self),
            Style::Json | Style::TypedJson | Style::CopilotJson | Style::OpenCodeJson => {
                json::with_entry(old, client, self)
            }
        }
    }
}

/// The name of a project's directory in letters, digits and dashes.
fn short_name(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let plain = plain[..plain.len().min(PROJECT_NAME_BYTES)].trim_matches('-');
    if plain.is_empty() { "project".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests;
