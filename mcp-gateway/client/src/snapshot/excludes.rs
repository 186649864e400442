//! Ignore patterns that are not in the tree. A workspace keeps files between jobs if the user
//! ignores them here.

use super::disk::regular_file;
use super::ignores::ignore_file;
use super::repository::Repository;
use super::secrets::is_secret;
use buildpool_protocol::limits::EXCLUDES_BYTES_MAX;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Patterns of all repositories of a project, relative to its top.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Excludes {
    text: String,
    /// Files with too many patterns to send.
    too_long: Vec<PathBuf>,
    /// Repositories with their own `core.excludesFile`, which is not used.
    unused: Vec<PathBuf>,
}

impl Excludes {
    /// Adds the patterns of a repository at `prefix` (empty, or with `/` at the end).
    pub(super) fn add(&mut self, repository: &Repository, prefix: &[u8]) {
        let user = repository.user.as_ref();
        let own = [user.and_then(|user| exclude_file(&user.common_dir)), ignore_file(repository)];
        if repository.has_own_excludes_file {
            self.unused.push(repository.top.clone());
        }
        if let Some(global) = global_file(repository) {
            // Unanchored patterns were already added for the top, and match at every depth.
            let of_place = |pattern: &str| prefix.is_empty() || place_of(pattern).is_some();
            self.add_file(&global, prefix, of_place);
        }
        for path in own.into_iter().flatten() {
            self.add_file(&path, prefix, |_| true);
        }
    }

    fn add_file(&mut self, path: &Path, prefix: &[u8], is_wanted: impl Fn(&str) -> bool) {
        let Some(bytes) = regular_file(path) else { return };
        let text = String::from_utf8_lossy(&bytes);
        let patterns = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let lines: Vec<String> =
            patterns.filter(|line| is_wanted(line)).filter_map(|line| below(prefix, line)).collect();
        if self.text.len() + lines.iter().map(|line| line.len() + 1).sum::<usize>() > EXCLUDES_BYTES_MAX {
            self.too_long.push(path.to_owned());
            return;
        }
        for line in lines {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// Returns all patterns, one per line, and adds notes about unused files.
    pub(super) fn text(self, notes: &mut Vec<String>) -> String {
        notes.extend(self.too_long.iter().map(|path| {
            format!(
                "{} is too long to travel; files that only it ignores are not kept between builds",
                path.display()
            )
        }));
        notes.extend(self.unused.iter().map(|top| {
            format!(
                "core.excludesFile in the configuration of the repository {} is not used, because it may name any file; set it in your own (`git config --global`)",
                top.display()
            )
        }));
        self.text
    }
}

/// Returns the path of the repository's `info/exclude`, unless `info` is a link.
fn exclude_file(common_dir: &Path) -> Option<PathBuf> {
    let info = common_dir.join("info");
    fs::symlink_metadata(&info).is_ok_and(|metadata| metadata.is_dir()).then(|| info.join("exclude"))
}

/// Returns the path of the user's own ignore file. A link is followed, because many users keep
/// their settings behind links. A file that looks like a secret is not used.
fn global_file(repository: &Repository) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let mut settings = repository.settings.iter().rev();
    let named = match settings.find(|(key, _)| key.eq_ignore_ascii_case("core.excludesfile")) {
        Some((_, path)) => match path.strip_prefix("~/") {
            Some(rest) => home().map(|home| home.join(rest)),
            None => Some(repository.top.join(path)),
        },
        None => std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| home().map(|home| home.join(".config")))
            .map(|configuration| configuration.join("git/ignore")),
    };
    let path = named?.canonicalize().ok()?;
    (!is_secret(path.as_os_str().as_bytes())).then_some(path)
}

/// Returns an anchored pattern without its `!` and its leading `/`. Returns `None` for a pattern
/// that matches at every depth.
fn place_of(pattern: &str) -> Option<&str> {
    let body = pattern.strip_prefix('!').unwrap_or(pattern);
    let name = body.trim_end();
    name.strip_suffix('/').unwrap_or(name).contains('/').then(|| body.strip_prefix('/').unwrap_or(body))
}

/// Converts a pattern of the repository at `prefix` into a pattern for the top. Returns `None` if
/// that is not possible.
fn below(prefix: &[u8], pattern: &str) -> Option<String> {
    if prefix.is_empty() {
        return Some(pattern.to_owned());
    }
    let prefix = std::str::from_utf8(prefix).ok().filter(|prefix| !prefix.contains(['\n', '\r']))?;
    let mut line = String::from(if pattern.starts_with('!') { "!/" } else { "/" });
    for c in prefix.chars() {
        if matches!(c, '\\' | '*' | '?' | '[') {
            line.push('\\');
        }
        line.push(c);
    }
    match place_of(pattern) {
        Some(place) => line.push_str(place),
        None => {
            line.push_str("**/");
            line.push_str(pattern.strip_prefix('!').unwrap_or(pattern));
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_pattern_means_the_same_from_further_up() {
        for (pattern, expected) in [
            ("*.o", "/a/b/**/*.o"),
            ("out/", "/a/b/**/out/"),
            ("/out", "/a/b/out"),
            ("/out/", "/a/b/out/"),
            ("x/y", "/a/b/x/y"),
            ("**/y", "/a/b/**/y"),
            ("!keep", "!/a/b/**/keep"),
            ("!/keep", "!/a/b/keep"),
            ("\\!odd", "/a/b/**/\\!odd"),
        ] {
            assert_eq!(below(b"a/b/", pattern).as_deref(), Some(expected), "{pattern}");
            assert_eq!(below(b"", pattern).as_deref(), Some(pattern));
        }
        assert_eq!(below(b"[x]*/", "y").as_deref(), Some("/\\[x]\\*/**/y"));
        assert_eq!(below(b"caf\xe9/", "y"), None);
    }
}
