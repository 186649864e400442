//! The files that the checks of layout and prose read.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories with files of other programs, or with made ones.
const FOREIGN: [&str; 5] = ["target", "node_modules", "logs", "corpus", "artifacts"];

/// Returns the Rust and Markdown files of the project, sorted, relative to this root.
pub fn source_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory)).expect("a readable directory") {
            let entry = entry.expect("a readable entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = directory.join(&name);
            if entry.file_type().expect("a type").is_dir() {
                if !FOREIGN.contains(&&*name) && !name.starts_with('.') {
                    open.push(path);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
