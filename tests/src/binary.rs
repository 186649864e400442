//! Finds the binary under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Returns the `buildpool` program of this build. `BUILDPOOL_TEST_BINARY` selects another one.
/// Without it the program is built first, which is quick if it is up to date.
///
/// # Panics
/// If the build fails.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os("BUILDPOOL_TEST_BINARY") {
        return named.into();
    }
    // The path is target/<profile>/deps/<this test>.
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps").to_owned();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--package", "buildpool", "--bin", "buildpool"]);
    build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    build.arg("--target-dir").arg(profile.parent().expect("a profile has its directory"));
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            build.args(["--profile", name]);
        }
    }
    // Variables that cargo set for this test must not affect the other build.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    let status = build.status().expect("cargo can be run");
    assert!(status.success(), "the binary can't be built: {status}");
    profile.join("buildpool")
}
