//! Checks the lock file against the dated advisory snapshot in `advisories.toml`: no crate in the
//! build has a known vulnerability.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Deserialize)]
struct Snapshot {
    reviewed: BTreeSet<String>,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    package: String,
    vulnerable: Vec<[String; 2]>,
}

#[derive(Deserialize)]
struct LockFile {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    toml::from_str(&std::fs::read_to_string(path).expect(name)).expect(name)
}

/// Returns major, minor and patch. A prerelease counts as its release.
fn numbers(version: &str) -> [u64; 3] {
    let release = version.split(['-', '+']).next().expect("a text");
    let numbers: Vec<u64> = release.split('.').map(|number| number.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

fn is_vulnerable(advisory: &Advisory, package: &Package) -> bool {
    let version = numbers(&package.version);
    let is_within = |[from, to]: &[String; 2]| numbers(from) <= version && version < numbers(to);
    advisory.package == package.name && advisory.vulnerable.iter().any(is_within)
}

#[test]
fn no_crate_in_the_lock_file_is_in_a_vulnerable_range() {
    let (snapshot, lock) = (read::<Snapshot>("advisories.toml"), read::<LockFile>("Cargo.lock"));
    let mut found = Vec::new();
    for advisory in &snapshot.advisory {
        let hit = lock.package.iter().filter(|package| is_vulnerable(advisory, package));
        found.extend(hit.map(|package| format!("{} {}: {}", package.name, package.version, advisory.id)));
    }
    assert!(found.is_empty(), "{found:?}");
    // The comparison can find a vulnerability.
    let old = Package { name: "rustls".to_owned(), version: "0.23.44".to_owned() };
    let fixed = Package { version: "0.23.45".to_owned(), ..old };
    let old = Package { name: "rustls".to_owned(), version: "0.23.44".to_owned() };
    let hits = |package| snapshot.advisory.iter().filter(|advisory| is_vulnerable(advisory, package)).count();
    assert_eq!((hits(&old), hits(&fixed)), (1, 0));
}

#[test]
fn each_dependency_of_the_workspace_was_reviewed() {
    let (snapshot, lock) = (read::<Snapshot>("advisories.toml"), read::<LockFile>("Cargo.lock"));
    let manifest: toml::Table = read("Cargo.toml");
    let direct = manifest["workspace"]["dependencies"].as_table().expect("a table");
    let missing: Vec<&String> = direct
        .iter()
        .filter(|(name, value)| value.get("path").is_none() && !snapshot.reviewed.contains(*name))
        .map(|(name, _)| name)
        .collect();
    assert!(missing.is_empty(), "look at https://rustsec.org/packages/CRATE.html, then add {missing:?}");
    let built_in: BTreeSet<&str> = lock.package.iter().map(|package| package.name.as_str()).collect();
    let gone: Vec<&String> =
        snapshot.reviewed.iter().filter(|name| !built_in.contains(name.as_str())).collect();
    assert!(gone.is_empty(), "not in Cargo.lock: {gone:?}");
    assert!(snapshot.advisory.iter().all(|advisory| snapshot.reviewed.contains(&advisory.package)));
}
