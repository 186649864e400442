use std::path::Path;

/// Places outside of the tools' files and of tests that name a tool.
fn named_in(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "tools" {
            named_in(&path, found);
        } else if path.is_file() && name != "tools.rs" && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let mut names = code.split("ToolId::").skip(1);
            if names.any(|name| name.starts_with(|first: char| first.is_ascii_uppercase())) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn only_the_files_of_tools_name_a_tool() {
    let mut found = Vec::new();
    named_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert_eq!(found, [""; 0], "a property of the tool in `tools` replaces its name");
}
