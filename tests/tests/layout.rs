//! Checks that the source files have one layout: `foo.rs` beside `foo/`.

use buildpool_tests::source_files;
use std::fs;
use std::path::Path;

#[test]
fn modules_are_files_beside_their_directories() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files: Vec<_> = source_files(&root)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "rs"))
        .collect();
    assert!(files.len() > 100, "the files of the project were found: {files:?}");
    let mut failures = Vec::new();
    for file in files {
        let name = file.display();
        // Cargo runs each file in `tests` and `benches` as a program, so a shared module there needs a directory.
        let in_source = file.iter().any(|part| part == "src");
        if file.ends_with("mod.rs") && in_source {
            failures.push(format!("{name}: move it to {}.rs", file.parent().unwrap_or(&file).display()));
        }
        let text = fs::read_to_string(root.join(&file)).expect("a readable file");
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("#[path") || line.starts_with("include!(") {
                failures.push(format!("{name}:{}: declare the module with `mod`", number + 1));
            }
        }
    }
    assert!(failures.is_empty(), "modules that are hard to find:\n{}", failures.join("\n"));
}

/// Limit on the lines of a source file. A longer file has more than one subject: its parts belong into modules.
const LINES_MAX: usize = 500;

#[test]
fn source_files_have_one_subject() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut failures = Vec::new();
    for file in source_files(&root) {
        let is_source = file.extension().is_some_and(|kind| kind == "rs");
        if !is_source {
            continue;
        }
        let lines = fs::read_to_string(root.join(&file)).expect("a readable file").lines().count();
        if lines > LINES_MAX {
            failures.push(format!("{}: {lines} lines; move a subject into a module", file.display()));
        }
    }
    assert!(failures.is_empty(), "files over {LINES_MAX} lines:\n{}", failures.join("\n"));
}
