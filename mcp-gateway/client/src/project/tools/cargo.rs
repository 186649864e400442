//! Rust with Cargo.

use super::{Detected, Parallel, Refusal, Tool, with_target};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Cargo;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Cargo, directory.first_file(&["Cargo.toml"])?))
}

impl Tool for Cargo {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        Ok(match filter {
            Some(filter) => format!("cargo test {}", selection(filter)),
            None => "cargo test".to_owned(),
        })
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = with_target("cargo build", "--package ", target);
        Ok(if release { format!("{command} --release") } else { command })
    }
}

/// Returns the arguments of `cargo test` that select tests. A source file selects the tests of its target or
/// module, by Cargo's layout of a package.
pub(super) fn selection(filter: &str) -> String {
    let (Some(file), name) = filter::file_and_name(filter, &[".rs"]) else { return quoted(filter) };
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let below = |folder: &str| parts.iter().rposition(|part| *part == folder).map(|at| &parts[at + 1..]);
    let target = |option: &str, parts: &[&str]| {
        let named = parts.first().map(|name| format!("{option} {}", quoted(name)));
        named.into_iter().chain(name.map(quoted)).collect::<Vec<_>>().join(" ")
    };
    if let Some(inner) = below("src") {
        return match inner {
            ["bin", rest @ ..] => target("--bin", rest),
            ["lib" | "main"] => match name {
                Some(name) => quoted(name),
                None => if inner == ["lib"] { "--lib" } else { "--bins" }.to_owned(),
            },
            module => {
                let module = module.strip_suffix(&["mod"]).unwrap_or(module).join("::");
                quoted(&format!("{module}::{}", name.unwrap_or_default()))
            }
        };
    }
    for (folder, option) in [("tests", "--test"), ("examples", "--example"), ("benches", "--bench")] {
        if let Some(inner) = below(folder) {
            return target(option, inner);
        }
    }
    quoted(filter)
}

#[cfg(test)]
mod tests {
    use super::selection;

    #[test]
    fn a_file_selects_its_target_or_module() {
        for (filter, expected) in [
            ("adds", "adds"),
            ("m::tests::adds", "m::tests::adds"),
            ("tests/it.rs", "--test it"),
            ("crates/a/tests/it.rs::whole", "--test it whole"),
            ("tests/it/main.rs", "--test it"),
            ("src/m.rs", "m::"),
            ("src/m/tests.rs::adds", "m::tests::adds"),
            ("./crates/a/src/m/mod.rs", "m::"),
            ("src/lib.rs", "--lib"),
            ("src/main.rs", "--bins"),
            ("src/bin/tool.rs", "--bin tool"),
            ("examples/e.rs", "--example e"),
        ] {
            assert_eq!(selection(filter), expected, "{filter}");
        }
    }
}
