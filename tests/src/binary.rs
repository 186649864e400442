//! The binary under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program `buildpool` of this build. `BUILDPOOL_TEST_BINARY` names another one; without it the workspace's is
/// built first, which takes no time when it is up to date.
///
/// # Panics
/// When it can't be built.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os("BUILDPOOL_TEST_BINARY") {
        return named.into();
    }
    // target/<profile>/deps/<this test>
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
    // What cargo told this test about itself is not for another build.
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
