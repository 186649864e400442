//! What lies in `deploy/` is read by the parsers that will read it in earnest, or by the nearest that there is.

use std::path::{Path, PathBuf};
use std::process::Command;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

#[test]
fn the_example_configurations_load() {
    let coordinator = buildpool_coordinator::Config::new("/var/lib/buildpool".into());
    coordinator.read(&deploy("coordinator.toml")).expect("coordinator.toml");
    let text = std::fs::read_to_string(deploy("worker.toml")).expect("worker.toml");
    // Its token file is on another machine.
    let text = text.replace("token_file = ", "token = ");
    buildpool_worker::Config::from_toml(&text, std::path::Path::new("/")).expect("worker.toml");
}

#[test]
fn the_property_lists_are_valid_and_keep_jobs_alive() {
    for name in ["coordinator", "worker"] {
        let path = deploy(&format!("launchd/dev.buildpool.{name}.plist"));
        let list = plist::Value::from_file(&path).expect("a property list");
        let list = list.as_dictionary().expect("a dictionary");
        assert_eq!(
            list.get("Label").and_then(plist::Value::as_string),
            path.file_stem().and_then(|stem| stem.to_str())
        );
        let arguments = list.get("ProgramArguments").and_then(plist::Value::as_array).expect("arguments");
        assert_eq!(arguments.get(1).and_then(plist::Value::as_string), Some(name));
        assert_eq!(list.get("KeepAlive").and_then(plist::Value::as_boolean), Some(true));
        assert!(
            list.get("ExitTimeOut")
                .and_then(plist::Value::as_unsigned_integer)
                .is_some_and(|secs| secs >= 20)
        );
        let outlives = list.get("AbandonProcessGroup").and_then(plist::Value::as_boolean);
        assert_eq!(outlives, (name == "worker").then_some(true), "{name}");
    }
}

#[test]
fn the_units_pass_systemd_s_own_check() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("SKIPPED: systemd-analyze is not on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["buildpool-coordinator.service", "buildpool-worker.service"] {
        let unit = std::fs::read_to_string(deploy(&format!("systemd/{name}"))).expect("a unit");
        assert!(unit.contains("/usr/bin/buildpool "), "{name}");
        // The program is not installed here; another one stands in for it.
        let path = directory.path().join(name);
        std::fs::write(&path, unit.replace("/usr/bin/buildpool ", "/bin/true ")).expect("written");
        let checked = Command::new("systemd-analyze").arg("verify").arg(&path).output().expect("it runs");
        // It exits 0 for unknown keys and only says so.
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && said.trim().is_empty(), "{name}: {said}");
    }
}

#[test]
fn the_debian_package_holds_the_program_and_units_that_find_it() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("SKIPPED: dpkg-deb is not on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    // The program itself would take long to compress; what is packaged does not depend on its size.
    std::fs::write(at("program"), "#!/bin/sh\necho buildpool 1.2.3\n").expect("written");
    let run = |command: &mut Command| {
        let done = command.output().expect("it runs");
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    };
    run(Command::new("chmod").arg("755").arg(at("program")));
    let package = run(Command::new(deploy("debian/build")).arg(at("program")).arg(directory.path()));
    assert!(package.contains("buildpool_1.2.3_"), "{package}");
    let told = run(Command::new("dpkg-deb").arg("--info").arg(&package));
    for line in ["Package: buildpool", "Version: 1.2.3", "Recommends: git", "postinst", "prerm"] {
        assert!(told.contains(line), "{line} in\n{told}");
    }
    run(Command::new("dpkg").arg("-x").arg(&package).arg(at("root")));
    let installed = at("root/usr/bin/buildpool");
    assert_eq!(run(&mut Command::new(&installed)), "buildpool 1.2.3");
    for part in ["coordinator", "worker"] {
        let unit = at("root/usr/lib/systemd/system").join(format!("buildpool-{part}.service"));
        let unit = std::fs::read_to_string(unit).expect("a unit");
        assert!(unit.contains("ExecStart=/usr/bin/buildpool "), "{part}");
    }
    for script in ["postinst", "prerm"] {
        let text = run(Command::new("dpkg-deb").args(["--info", &package, script]));
        std::fs::write(at(script), text).expect("written");
        run(Command::new("sh").arg("-n").arg(at(script)));
    }
}

#[test]
fn the_homebrew_formula_is_valid_ruby() {
    if Command::new("ruby").arg("--version").output().is_err() {
        eprintln!("SKIPPED: ruby is not on this machine");
        return;
    }
    let checked =
        Command::new("ruby").arg("-c").arg(deploy("homebrew/buildpool.rb")).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
