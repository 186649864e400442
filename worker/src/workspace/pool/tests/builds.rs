//! Build tools rebuild only the parts that changed in a warm workspace.

use super::Bench;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn build(program: &str, arguments: &[&str], root: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Puts time between a build and the next change, as between two calls of an agent. Tools that
/// compare whole seconds would miss a change in the same second.
fn age(root: &Path) {
    let past = SystemTime::now() - Duration::from_secs(5);
    for entry in walkdir::WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file())
    {
        let file = fs::File::options().append(true).open(entry.path()).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified.min(past)).unwrap();
    }
}

#[test]
fn make_rebuilds_only_what_changed() {
    let bench = Bench::new();
    bench.write(".gitignore", "*.o\n");
    bench.write("Makefile", "all: a.o b.o\n%.o: %.c\n\t@echo making $@\n\t@cp $< $@\n");
    bench.write("a.c", "a\n");
    bench.write("b.c", "b\n");
    bench.commit();
    let root = bench.run(1);
    assert_eq!(build("make", &[], &root), "making a.o\nmaking b.o\n");
    bench.run(2);
    assert_eq!(build("make", &[], &root), "make: Nothing to be done for 'all'.\n");
    bench.write("b.c", "c\n");
    bench.run(3);
    assert_eq!(build("make", &[], &root), "making b.o\n");
    bench.write("b.c", "b\n");
    bench.run(4);
    assert_eq!(build("make", &[], &root), "making b.o\n", "back to older content is a change too");
}

#[test]
fn cargo_stays_fresh_and_rebuilds_only_the_crate_that_changed() {
    let bench = Bench::new();
    bench.write(".gitignore", "/target\n");
    bench.write("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n");
    for name in ["one", "two"] {
        bench.write(
            &format!("{name}/Cargo.toml"),
            &format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        );
        bench.write(&format!("{name}/src/lib.rs"), "pub fn f() -> u32 { 1 }\n");
    }
    bench.commit();
    let root = bench.run(1);
    let compiled = |root: &Path| {
        let output = build("cargo", &["build", "--offline", "-v"], root);
        ["one", "two"].map(|name| output.contains(&format!("Compiling {name} ")))
    };
    assert_eq!(compiled(&root), [true, true]);
    age(&root);
    bench.run(2);
    assert_eq!(compiled(&root), [false, false]);
    bench.write("two/src/lib.rs", "pub fn f() -> u32 { 2 }\n");
    bench.run(3);
    assert_eq!(compiled(&root), [false, true]);
}
