//! Records the commit and its date for `buildpool --version`.

use std::env;
use std::process::Command;

/// Set by a build outside a checkout, as of a source package: the commit, and its date as
/// `YYYY-MM-DD`.
const COMMIT: &str = "BUILDPOOL_COMMIT";
const DATE: &str = "BUILDPOOL_COMMIT_DATE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    println!("cargo::rerun-if-env-changed={DATE}");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let text = match built_from() {
        Some((commit, date)) => format!("{version} ({commit} {date})"),
        None => version,
    };
    println!("cargo::rustc-env=BUILDPOOL_VERSION={text}");
}

fn built_from() -> Option<(String, String)> {
    if let (Ok(commit), Ok(date)) = (env::var(COMMIT), env::var(DATE)) {
        return Some((commit, date));
    }
    // A debug build would be linked again after each commit.
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return None;
    }
    println!(
        "cargo::rerun-if-changed={}",
        git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?
    );
    Some((git(&["rev-parse", "--short=12", "HEAD"])?, git(&["log", "-1", "--format=%cs"])?))
}

/// Returns what git prints. `None` outside a checkout, and without git.
fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?.trim().to_owned();
    (done.status.success() && !text.is_empty()).then_some(text)
}
