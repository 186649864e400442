//! Directories for a user's files, by platform: the XDG base directories, on macOS
//! `~/Library/Application Support`.

use std::env;
use std::path::{Path, PathBuf};

const NAME: &str = "buildpool";

/// Directory for persistent data. `None` if the user has no home directory.
pub fn data() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join(NAME))
}

/// Directory for the configuration. `None` if the user has no home directory.
pub fn configuration() -> Option<PathBuf> {
    Some(base("XDG_CONFIG_HOME", ".config")?.join(NAME))
}

/// Directory for data that can be recreated. `None` if the user has no home directory.
pub fn caches() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let below_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    Some(named.or_else(|| Some(home()?.join(below_home)))?.join(NAME))
}

fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(platform_base(&home()?, below_home)))
}

fn platform_base(home: &Path, below_home: &str) -> PathBuf {
    if cfg!(target_os = "macos") { home.join("Library/Application Support") } else { home.join(below_home) }
}

fn home() -> Option<PathBuf> {
    let named = env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(nix::unistd::User::from_uid(nix::unistd::geteuid()).ok()??.dir))
}
