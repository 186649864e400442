//! Runs the commands that the guides contain.

use buildpool_tests::{Place, Pool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the commands of all shell blocks, one script per block.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

fn guide(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

#[test]
fn every_command_of_the_operating_guide_works() {
    let guide = guide("operating.md");
    let sections =
        guide.split("\n## ").filter(|section| !ELSEWHERE.iter().any(|title| section.starts_with(title)));
    let scripts: Vec<String> = sections.flat_map(blocks).collect();
    assert!(scripts.len() >= 5, "{scripts:?}");
    let pool = Pool::start(1);
    pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada"]).expect(0);
    run_all(&pool, scripts);
}

#[test]
fn the_map_names_every_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut missing = Vec::new();
    for part in ["coordinator", "worker", "mcp-gateway", "cli"] {
        // Matches `part/src/name` and `part/src/{one,other}`.
        let place = format!("`{part}/src/");
        let named: Vec<&str> = map
            .split(&place)
            .skip(1)
            .flat_map(|rest| rest.split('`').next().unwrap().trim_matches(['{', '}']).split(','))
            .map(|name| name.split('/').next().unwrap())
            .collect();
        for entry in std::fs::read_dir(root.join(part).join("src")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if !["lib", "main", "limits", "bin"].contains(&&*name) && !named.contains(&&*name) {
                missing.push(format!("{part}/src/{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name {missing:?}");
}

/// The section with commands that stop and start services, which other sections need.
const UPGRADING: &str = "\n## Upgrading and going back\n";
/// Sections with commands that other tests run: below, and on machines with a real systemd
/// (`tests/service.rs`).
const ELSEWHERE: [&str; 3] =
    ["A pool on three machines\n", "The certificate\n", "Upgrading and going back\n"];

#[test]
fn a_pool_is_upgraded_and_goes_back_under_a_running_job_by_the_guide_s_commands() {
    let guide = guide("operating.md");
    let (_, section) = guide.split_once(UPGRADING).unwrap();
    let scripts = blocks(section.split("\n## ").next().unwrap());
    assert_eq!(scripts.len(), 3, "the coordinator, a worker, and back");
    let mut pool = Pool::start(1);
    let go = pool.place().file("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done; echo whole", go.display());
    let started = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    let job = started.out().trim().to_owned();
    pool.wait_for_state(&job, "running");
    let program = pool.place().home().join("installed");
    let (program, build) = (program.to_str().unwrap(), buildpool_tests::binary());
    let names = [
        ("/usr/local/bin/buildpool", program),
        ("chown -R buildpool:", "chown -R $(id -u):$(id -g)"),
        ("./new-buildpool", build.to_str().unwrap()),
        ("./old-buildpool", build.to_str().unwrap()),
    ];
    run_lines(&mut pool, &scripts, &names);
    pool.wait_for_workers();
    std::fs::write(&go, "").unwrap();
    let done = pool.wait_for_state(&job, "done");
    assert_eq!((&done["verdict"], &done["attempt"]), (&"passed".into(), &1.into()), "{done}");
    assert_eq!(pool.buildpool(&["logs", &job]).expect(0).out(), "whole\n");
}

/// Runs scripts line by line. Commands of the service manager act on the pool's own processes
/// instead.
fn run_lines(pool: &mut Pool, scripts: &[String], own: &[(&str, &str)]) {
    let programs = programs(pool);
    for line in scripts.iter().flat_map(|script| script.lines()) {
        match line {
            "systemctl stop buildpool-coordinator" => pool.kill_coordinator(),
            "systemctl start buildpool-coordinator" => pool.start_coordinator_again(),
            "systemctl restart buildpool-coordinator" => pool.restart_coordinator(),
            "systemctl restart buildpool-worker" => {
                pool.kill_worker(0);
                pool.start_worker(0);
            }
            line => {
                assert!(!line.contains("systemctl"), "{line}");
                let line = own.iter().fold(line.to_owned(), |line, (name, real)| line.replace(name, real));
                run_script(pool, &programs, &line);
            }
        }
        if line.starts_with("install ") {
            pool.use_binary(Path::new(own[0].1));
        }
    }
}

#[test]
fn every_command_of_the_troubleshooting_guide_works() {
    let scripts = blocks(&guide("troubleshooting.md"));
    assert!(scripts.len() >= 6, "{scripts:?}");
    let pool = Pool::start(1);
    pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada"]).expect(0);
    let job = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "echo", "well"]).expect(0);
    let job = job.out().trim().to_owned();
    pool.wait_for_state(&job, "done");
    let config = pool.place().home().join("worker.toml");
    let text =
        format!("coordinator = \"{}\"\ntoken = \"{}\"\ndata_dir = \"w0\"\n", pool.url(), pool.worker_token());
    std::fs::write(&config, text).unwrap();
    let own = [("JOB", job.as_str()), ("/etc/buildpool/worker.toml", config.to_str().unwrap())];
    let replace = |script: String| own.iter().fold(script, |script, (name, real)| script.replace(name, real));
    run_all(&pool, scripts.into_iter().map(replace).collect());
}

/// The template of the page loads, and filters as the page describes.
#[test]
fn the_template_of_the_digest_s_guide_filters_as_the_page_says() {
    let page = guide("digest.md");
    let (_, block) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = block.split_once("```").unwrap();
    let place = Place::new();
    std::fs::create_dir(place.file(".buildpool")).unwrap();
    std::fs::write(place.file(".buildpool/config.yaml"), yaml).unwrap();
    let doctor = place.buildpool(&["doctor"]).expect(0);
    assert!(doctor.out().contains(".buildpool/config.yaml"), "{doctor}");
    let project = doctor.out().lines().find(|line| line.contains(" project ")).unwrap().to_owned();
    assert!(project.starts_with("ok "), "{doctor}");
    let log = "checking\nERROR one\nquiet\nWARN two\n\nlast words\nof it\n";
    std::fs::write(place.file("LOG"), log).unwrap();
    let line = "buildpool digest --template lint < LOG";
    assert!(page.contains(line), "the page names the command");
    let words = ["digest", "--exit-code", "1", "--template", "lint", "--json"];
    let below = place.file("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    for directory in [place.work(), below] {
        let mut command = place.command(words);
        command.current_dir(directory).stdin(std::fs::File::open(place.file("LOG")).unwrap());
        let digest = buildpool_tests::Finished::from(command.output().unwrap());
        let shown = digest.expect(0).json()["filtered_output"].clone();
        assert_eq!(
            shown, "ERROR one\nWARN two\nlast words\nof it",
            "the matching lines and the last paragraph"
        );
    }
}

/// Runs each script with the names of this pool instead of the names in the guide.
fn run_all(pool: &Pool, scripts: Vec<String>) {
    let programs = programs(pool);
    for script in scripts {
        run_script(pool, &programs, &script);
    }
}

/// Returns a directory with this build as `buildpool`.
fn programs(pool: &Pool) -> PathBuf {
    let programs = pool.place().home().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(buildpool_tests::binary(), programs.join("buildpool")).unwrap();
    let git = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).output().unwrap();
    assert!(git.status.success());
    programs
}

fn run_script(pool: &Pool, programs: &Path, script: &str) {
    let home = pool.place().home();
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    // Longer names first, because one may be the prefix of another.
    let names = [
        ("/var/lib/buildpool-restored", at("restored")),
        ("/var/lib/buildpool-newer", at("newer")),
        ("/var/lib/buildpool", pool.data("coordinator").to_str().unwrap().to_owned()),
        ("/backup/monday", at("backup")),
        ("/backup/before", at("before")),
        ("wss://pool.example.com:7420", pool.url().to_owned()),
        ("URL#TOKEN", format!("{}#{}", pool.url(), pool.worker_token())),
        ("BUILDPOOL_TOKEN=TOKEN", format!("BUILDPOOL_TOKEN={}", pool.token())),
        ("mac-1", "w0".to_owned()),
        ("--write", format!("--write --root {}", at("root"))),
    ];
    let script = names.iter().fold(script.to_owned(), |script, (name, real)| script.replace(name, real));
    let mut command = pool.command(&["--version"]);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &script]).current_dir(pool.place().work()).env("PATH", path);
    for (name, value) in command.stdin(std::process::Stdio::null()).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let done = buildpool_tests::Finished::from(shell.output().unwrap());
    assert_eq!(done.code(), 0, "{script}\n{done}");
}
