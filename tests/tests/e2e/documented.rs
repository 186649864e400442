//! What docs/operating.md tells an operator to run is run.

use buildpool_tests::Pool;
use std::path::Path;
use std::process::Command;

/// The commands of all blocks that are marked as such, each block one script.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_of_the_operating_guide_works() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md");
    let scripts = blocks(&std::fs::read_to_string(guide).unwrap());
    assert!(scripts.len() >= 6, "{scripts:?}");
    let pool = Pool::start(1);
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
