//! Checks the files in `deploy/` with the parsers that read them in production, or with the nearest
//! available ones.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Returns the valid configuration keys, which the error for an unknown key lists.
fn accepted(refusal: &str) -> BTreeSet<String> {
    let (_, listed) = refusal.split_once("expected one of").expect("the refusal lists the valid keys");
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the keys in the first column of the table under a heading.
fn documented(guide: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = guide.split_once(&format!("### {heading}\n")).expect(heading);
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with("| `"))
        .take_while(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_guide_and_the_examples_name_every_key_and_no_other() {
    let guide = std::fs::read_to_string(deploy("../docs/operating.md")).expect("the guide");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "no_such_key = 1\n").expect("written");
    let coordinator = buildpool_coordinator::Config::new("/data".into()).read(file.path());
    let coordinator = coordinator.expect_err("no such key").to_string();
    let worker = buildpool_worker::Config::from_toml("no_such_key = 1", Path::new("/"));
    let worker = worker.expect_err("no such key").to_string();
    for (name, refusal) in [("coordinator.toml", coordinator), ("worker.toml", worker)] {
        let keys = accepted(&refusal);
        assert!(keys.len() > 10, "{refusal}");
        assert_eq!(documented(&guide, name), keys, "{name} in docs/operating.md");
        let example = std::fs::read_to_string(deploy(name)).expect("an example");
        let lines = example.lines().map(|line| line.trim_start_matches("# ").trim_start_matches('['));
        let named: BTreeSet<String> = lines
            .filter_map(|line| line.split([' ', ']', '.']).next())
            .filter(|word| keys.contains(*word))
            .map(str::to_owned)
            .collect();
        assert_eq!(named, keys, "deploy/{name}");
    }
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
        // The program is not installed here, so another one replaces it.
        let path = directory.path().join(name);
        std::fs::write(&path, unit.replace("/usr/bin/buildpool ", "/bin/true ")).expect("written");
        let checked = Command::new("systemd-analyze").arg("verify").arg(&path).output().expect("it runs");
        let complaints = buildpool_tests::complaints_of_verify(&checked.stderr);
        assert!(checked.status.success() && complaints.is_empty(), "{name}: {complaints:?}");
    }
}

/// Each version of systemd scores the same unit differently, so this test compares only one
/// version.
#[test]
fn the_security_guide_quotes_the_analysis_of_both_units() {
    let version = Command::new("systemd-analyze").arg("--version").output();
    if !version.is_ok_and(|version| version.stdout.starts_with(b"systemd 252 ")) {
        eprintln!("SKIPPED: systemd-analyze 252 is not on this machine");
        return;
    }
    let guide = std::fs::read_to_string(deploy("../docs/security.md")).expect("the guide");
    for part in ["coordinator", "worker"] {
        let unit = deploy(&format!("systemd/buildpool-{part}.service"));
        let mut analyze = Command::new("systemd-analyze");
        let done = analyze.args(["security", "--offline=true"]).arg(unit).output().expect("it runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("Overall")).expect("a verdict");
        let words: Vec<&str> =
            line.split_whitespace().take_while(|word| word.is_ascii() || *word == "→").collect();
        assert!(guide.contains(&words.join(" ")), "{words:?}");
    }
}

/// Checks that the unit covers no part of `/proc`. According to proc_pid(5) and the kernel's
/// `mnt_already_visible`, a namespace gets no own `/proc` while a part of the outer one is covered.
/// Isolated jobs could not start.
#[test]
fn the_worker_s_unit_covers_no_part_of_proc() {
    let unit = std::fs::read_to_string(deploy("systemd/buildpool-worker.service")).expect("a unit");
    let covering = [
        "ProtectKernelLogs",
        "ProtectKernelTunables",
        "ProtectHostname",
        "ProtectProc",
        "ProcSubset",
        "InaccessiblePaths",
    ];
    let set = unit.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key);
    let found: Vec<&str> = set.filter(|key| covering.contains(key)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_debian_package_holds_the_program_and_units_that_find_it() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("SKIPPED: dpkg-deb is not on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    // The real program would take long to compress, and the package does not depend on its size.
    let program =
        "#!/bin/sh\n[ \"$1\" != man ] || { echo page >\"$2/buildpool.1\"; exit; }\necho buildpool 1.2.3\n";
    std::fs::write(at("program"), program).expect("written");
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
    let shared = [
        "bash-completion/completions/buildpool",
        "zsh/vendor-completions/_buildpool",
        "fish/vendor_completions.d/buildpool.fish",
        "man/man1/buildpool.1.gz",
    ];
    for file in shared {
        assert!(at("root/usr/share").join(file).is_file(), "{file}");
    }
    for part in ["coordinator", "worker"] {
        let unit = at("root/usr/lib/systemd/system").join(format!("buildpool-{part}.service"));
        let unit = std::fs::read_to_string(unit).expect("a unit");
        assert!(unit.contains("ExecStart=/usr/bin/buildpool "), "{part}");
        // The flag would override the configuration.
        assert!(!unit.contains("--data-dir"), "{part}");
    }
    for script in ["postinst", "prerm"] {
        let text = run(Command::new("dpkg-deb").args(["--info", &package, script]));
        // Jobs would find the worker's files in their home.
        let home = "--home /var/lib/buildpool-worker-home --shell /bin/sh buildpool-worker\n";
        assert_eq!(text.contains(home), script == "postinst", "{text}");
        std::fs::write(at(script), text).expect("written");
        run(Command::new("sh").arg("-n").arg(at(script)));
    }
}

#[test]
fn the_homebrew_formula_of_a_release_names_its_files_and_is_valid_ruby() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let targets = [
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "aarch64-unknown-linux-gnu",
        "x86_64-unknown-linux-gnu",
    ];
    let sums = targets.iter().enumerate().map(|(at, target)| {
        let sum = format!("{at}").repeat(64);
        format!("{sum}  buildpool-1.2.3-{target}.tar.gz\n{sum}  buildpool-1.2.3-{target}.cdx.json\n")
    });
    std::fs::write(at("SHA256SUMS"), sums.collect::<String>()).expect("written");
    let made = |version: &str| {
        let mut formula = Command::new(deploy("homebrew/formula"));
        formula.arg(version).arg(at("SHA256SUMS")).output().expect("it runs")
    };
    let done = made("1.2.3");
    let formula = String::from_utf8(done.stdout).expect("a text");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for (number, target) in targets.iter().enumerate() {
        let url = format!("/releases/download/v1.2.3/buildpool-1.2.3-{target}.tar.gz\"\n");
        let (_, after) = formula.split_once(&url).expect("the URL of the target");
        let line = after.lines().next().expect("a checksum after the URL").trim();
        assert_eq!(line, format!("sha256 \"{}\"", number.to_string().repeat(64)));
    }
    assert!(!formula.contains('@'), "a placeholder is left:\n{formula}");
    let refused = made("1.2.4");
    assert!(!refused.status.success() && refused.stdout.is_empty());
    if Command::new("ruby").arg("--version").output().is_err() {
        eprintln!("SKIPPED: ruby is not on this machine");
        return;
    }
    let file = at("buildpool.rb");
    std::fs::write(&file, &formula).expect("written");
    let checked = Command::new("ruby").arg("-c").arg(&file).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_files_for_registries_name_the_version_of_this_program() {
    for name in ["manifest.json", "server.json"] {
        let text = std::fs::read_to_string(deploy("mcp").join(name)).expect(name);
        let file: serde_json::Value = serde_json::from_str(&text).expect(name);
        let packages = file["packages"].as_array().into_iter().flatten();
        for version in packages.map(|package| &package["version"]).chain([&file["version"]]) {
            assert_eq!(version, env!("CARGO_PKG_VERSION"), "{name}");
        }
    }
}

/// Serves the files of a directory on a free port of this machine.
fn serve(directory: &Path) -> (std::process::Child, String) {
    let script = "import functools, http.server, sys\n\
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n\
        server = http.server.ThreadingHTTPServer((\"127.0.0.1\", 0), handler)\n\
        print(server.server_address[1], flush=True)\n\
        server.serve_forever()\n";
    let mut server = Command::new("python3");
    server.args(["-c", script]).arg(directory).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().expect("python3 starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut line).expect("a port");
    (server, format!("http://127.0.0.1:{}", line.trim()))
}

#[test]
fn the_install_script_installs_only_a_program_with_the_right_checksum() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    let name = format!("buildpool-1.2.3-{}-{system}", std::env::consts::ARCH);
    let files = at("files");
    std::fs::create_dir_all(files.join(&name)).expect("made");
    let program = files.join(&name).join("buildpool");
    std::fs::write(&program, "#!/bin/sh\necho buildpool 1.2.3\n").expect("written");
    let pack = format!(
        "chmod 755 {name}/buildpool && tar -czf {name}.tar.gz {name} && \
         {{ sha256sum {name}.tar.gz || shasum -a 256 {name}.tar.gz; }} > SHA256SUMS"
    );
    let sh = |text: &str| Command::new("sh").args(["-c", text]).current_dir(&files).status().expect("sh");
    assert!(sh(&pack).success());
    let (mut server, url) = serve(&files);
    let install = || {
        let mut script = Command::new("sh");
        script.arg(deploy("install.sh")).env("BUILDPOOL_MIRROR", &url).env("BUILDPOOL_BIN", at("bin"));
        script.output().expect("it runs")
    };
    let done = install();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("installed buildpool 1.2.3 as "), "{text}");
    let installed = std::fs::read(at("bin/buildpool")).expect("installed");
    std::fs::write(&program, "#!/bin/sh\necho buildpool 6.6.6\n").expect("written");
    assert!(sh(&format!("tar -czf {name}.tar.gz {name}")).success());
    let refused = install();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("does not have the checksum"), "{text}");
    assert_eq!(std::fs::read(at("bin/buildpool")).expect("still there"), installed);
    server.kill().expect("ended");
    server.wait().expect("ended");
}

/// Checks a file with a program of Python, if its packages can be installed.
fn validated(script: &str, file: &str) {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let home = target.join("validators");
    let lock = std::fs::File::create(target.join("validators.lock")).expect("a file");
    lock.lock().expect("locked");
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let packages = ["kubernetes-validate", "python-hcl2", "pyyaml"];
    let works = |home: &Path| {
        runs(Command::new(home.join("bin/python")).args(["-c", "import hcl2, kubernetes_validate, yaml"]))
    };
    let is_there = works(&home)
        || runs(Command::new("python3").args(["-m", "venv"]).arg(&home))
            && runs(Command::new(home.join("bin/pip")).args(["install", "--quiet"]).args(packages));
    if !is_there {
        eprintln!("SKIPPED, NOT PASSED: the Python packages {packages:?} can't be installed");
        return;
    }
    let output = Command::new(home.join("bin/python")).args(["-c", script]).arg(deploy(file)).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_kubernetes_manifests_fit_their_schemas() {
    let script = "import sys, yaml, kubernetes_validate as k
for one in yaml.safe_load_all(open(sys.argv[1])): k.validate(one, k.latest_version(), strict=True)";
    validated(script, "kubernetes/buildpool.yaml");
}

#[test]
fn the_nomad_job_can_be_parsed() {
    validated(
        "import sys, hcl2; assert 'job' in hcl2.load(open(sys.argv[1]))",
        "nomad/coordinators.nomad.hcl",
    );
}

/// `docker compose config` reads the file where it is installed. Each service has an image, and each name that another part
/// refers to exists.
#[test]
fn the_compose_file_is_whole_and_its_configurations_load() {
    for name in ["a", "b"] {
        let file = deploy(&format!("compose/coordinator-{name}.toml"));
        buildpool_coordinator::Config::new("/data".into()).read(&file).expect("a configuration");
    }
    let script = "import sys, yaml
one = yaml.safe_load(open(sys.argv[1])); services = one['services']
for name, service in services.items():
    assert service['image'], name
    assert set(service.get('depends_on', [])) <= set(services), name
    assert set(service.get('secrets', [])) <= set(one['secrets']), name
    for volume in service.get('volumes', []):
        assert volume.startswith('./') or volume.split(':')[0] in one['volumes'], volume";
    validated(script, "compose/compose.yaml");
    let file = deploy("compose/compose.yaml");
    let compose = || Command::new("docker").args(["compose", "version"]).output();
    if compose().is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("docker");
        let command = command.args(["compose", "-f"]).arg(file).args(["config", "--quiet"]);
        let output = command.env("OBJECTS_PASSWORD", "x").output().expect("docker runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        eprintln!("SKIPPED, NOT PASSED: `docker compose config` is not on this machine");
    }
}
