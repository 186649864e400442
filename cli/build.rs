//! Records the commit and its date for `buildpool --version`, and links the program for a fixed address on Linux.

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
    link_for_a_fixed_address();
}

/// Links the program for a fixed address on Linux, so that the loader has no addresses to change when a process starts. A
/// relocatable program of the profile `bench` has 80,000 of them on 350 pages, and each page is then read and copied: 2 ms of
/// a start that took 5.5.
/// `docs/security.md` states the price.
fn link_for_a_fixed_address() {
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    // A static program has its own options. Rust links one with musl.
    let is_static = target("ENV") != "gnu" || target("FEATURE").split(',').any(|name| name == "crt-static");
    if target("OS") == "linux" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
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
