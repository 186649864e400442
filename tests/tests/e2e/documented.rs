//! What the guides tell people to run is run.

use buildpool_tests::{Place, Pool};
use std::path::Path;
use std::process::Command;

/// The commands of all blocks that are marked as such, each block one script.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

fn guide(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).unwrap()
}

#[test]
fn every_command_of_the_operating_guide_works() {
    let scripts = blocks(&guide("operating.md"));
    assert!(scripts.len() >= 6, "{scripts:?}");
    run_all(&Pool::start(1), scripts);
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

/// The template of the page loads, and does what is said beside it.
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
    let mut command = place.command(words);
    let digest = command.stdin(std::fs::File::open(place.file("LOG")).unwrap()).output().unwrap();
    let shown = buildpool_tests::Finished::from(digest).expect(0).json()["filtered_output"].clone();
    assert_eq!(shown, "ERROR one\nWARN two\nlast words\nof it", "what matches, and the last paragraph");
}

/// Runs each script with the names of this pool in place of those of the guide.
fn run_all(pool: &Pool, scripts: Vec<String>) {
    let home = pool.place().home();
    let programs = home.join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(buildpool_tests::binary(), programs.join("buildpool")).unwrap();
    let git = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).output().unwrap();
    assert!(git.status.success());
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    // The longer names first: one may be the beginning of another.
    let names = [
        ("/var/lib/buildpool-restored", at("restored")),
        ("/var/lib/buildpool", pool.data("coordinator").to_str().unwrap().to_owned()),
        ("/backup/monday", at("backup")),
        ("wss://pool.example.com:7420", pool.url().to_owned()),
        ("URL#TOKEN", format!("{}#{}", pool.url(), pool.worker_token())),
        ("BUILDPOOL_TOKEN=TOKEN", format!("BUILDPOOL_TOKEN={}", pool.token())),
        ("mac-1", "w0".to_owned()),
        ("--write", format!("--write --root {}", at("root"))),
    ];
    for script in scripts {
        let script = names.iter().fold(script, |script, (name, real)| script.replace(name, real));
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
}
