//! The crates of the workspace, and which of them a set of changed files belongs to.

use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Crate {
    /// Package name.
    pub(crate) name: String,
    /// Directory, relative to the repository.
    pub(crate) directory: PathBuf,
    /// True if the package has a library, false if it has programs only.
    pub(crate) has_library: bool,
}

/// Reads the members of the workspace from `Cargo.toml` in `root`.
pub(crate) fn of_workspace(root: &Path) -> Result<Vec<Crate>, String> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let (_, list) = manifest.split_once("members = [").ok_or("Cargo.toml has no `members = [`")?;
    let list = list.split(']').next().unwrap_or_default();
    let members = list.split('"').skip(1).step_by(2);
    members.map(|member| read_crate(root, Path::new(member))).collect()
}

fn read_crate(root: &Path, directory: &Path) -> Result<Crate, String> {
    let path = root.join(directory).join("Cargo.toml");
    let manifest = read(&path)?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let name = name.ok_or_else(|| format!("{} has no `name`", path.display()))?;
    Ok(Crate {
        name: name.to_owned(),
        directory: directory.to_owned(),
        has_library: root.join(directory).join("src/lib.rs").exists(),
    })
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))
}

/// The crates that own at least one of the files. A crate inside another one's directory owns its files alone.
/// A changed `Cargo.toml` or `Cargo.lock` of the workspace belongs to no crate.
pub(crate) fn with_changes<'a>(crates: &'a [Crate], files: &[PathBuf]) -> Vec<&'a Crate> {
    let owner = |file: &PathBuf| {
        let owners = crates.iter().filter(|one| file.starts_with(&one.directory));
        owners.max_by_key(|one| one.directory.components().count())
    };
    let owners: Vec<&Crate> = files.iter().filter_map(owner).collect();
    crates.iter().filter(|one| owners.contains(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, directory: &str, has_library: bool) -> Crate {
        Crate { name: name.to_owned(), directory: directory.into(), has_library }
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let crates = [
            one("outer", "coordinator", true),
            one("inner", "coordinator/pool", true),
            one("other", "cli", false),
        ];
        let files = ["coordinator/pool/src/lib.rs", "README.md", "Cargo.lock"].map(PathBuf::from);
        assert_eq!(with_changes(&crates, &files), [&crates[1]]);
        assert_eq!(with_changes(&crates, &["coordinator/src/lib.rs".into()]), [&crates[0]]);
    }

    #[test]
    fn the_workspace_s_own_members_are_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let crates = of_workspace(&root).unwrap();
        assert!(crates.contains(&one("buildpool-xtask", "tests/xtask", false)), "{crates:?}");
        assert!(crates.contains(&one("buildpool-pool", "coordinator/pool", true)), "{crates:?}");
    }

    #[test]
    fn a_missing_manifest_is_an_error_with_its_path() {
        let error = of_workspace(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/Cargo.toml"), "{error}");
    }
}
