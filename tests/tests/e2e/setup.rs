//! Files that stay behind, and the setup that makes them in each workspace.

use buildpool_tests::mcp::{Gateway, structured};
use buildpool_tests::{Finished, Place, Pool, PoolBuilder, wait_until};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project that ignores its dependencies. `needs` fails unless they are there.
fn project(place: &Place) -> PathBuf {
    let top = place.work();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments).current_dir(&top);
        assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success());
    };
    git(&["init", "-q", "-b", "main"]);
    fs::write(top.join(".gitignore"), "node_modules/\n/build/\n").unwrap();
    fs::write(top.join("package-lock.json"), "{\"one\": 1}").unwrap();
    fs::write(
        top.join("needs"),
        "cat node_modules/have || { echo \"Cannot find module 'x'\" >&2; exit 1; }\n",
    )
    .unwrap();
    git(&["add", "-A"]);
    git(&["commit", "-qm", "first"]);
    fs::create_dir(top.join("node_modules")).unwrap();
    fs::write(top.join("node_modules/have"), "mine\n").unwrap();
    top
}

fn configure(top: &Path, text: &str) {
    fs::create_dir_all(top.join(".buildpool")).unwrap();
    fs::write(top.join(".buildpool/config.yaml"), text).unwrap();
}

/// Counts its runs in a file outside the workspace.
fn counting(place: &Place) -> (PathBuf, String) {
    let runs = place.file("runs");
    let setup = format!(
        "echo run >> {}; mkdir -p node_modules; cp package-lock.json node_modules/have",
        runs.display()
    );
    (runs, setup)
}

fn count(runs: &Path) -> usize {
    fs::read_to_string(runs).unwrap_or_default().lines().count()
}

#[test]
fn a_failure_names_what_stayed_behind_and_the_call_that_installs_it() {
    let pool = Pool::start(1);
    let top = project(pool.place());
    fs::create_dir(top.join("build")).unwrap();
    fs::write(top.join("build/product"), "").unwrap();
    symlink("/opt/elsewhere", top.join("outward")).unwrap();
    fs::write(top.join(".gitattributes"), "*.bin filter=lfs -text\n").unwrap();
    fs::write(
        top.join("model.bin"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
    )
    .unwrap();
    let failed = pool.buildpool(&["run", "--output", "json", "--", "sh", "needs"]).expect(1).json();
    let left = ["build", "node_modules", "model.bin (LFS pointer)", "outward -> /opt/elsewhere"];
    assert_eq!(failed["snapshot"]["left_behind"], serde_json::json!(left), "{failed}");
    let cause = failed["cause"]["text"].as_str().unwrap();
    assert!(
        cause.contains("Left behind, so not in the workspace: node_modules. `setup: npm ci` in"),
        "{cause}"
    );
    assert_eq!(failed["next"][0], "buildpool run -- sh -c 'npm ci && sh needs'", "{failed}");
    let text = pool.buildpool(&["run", "--output", "digest", "--", "sh", "needs"]).expect(1).out();
    assert_eq!(text.matches("node_modules.").count(), 1, "one line: {text}");
    let passed = pool.buildpool(&["run", "--output", "digest", "--", "true"]).expect(0).out();
    assert!(!passed.contains("node_modules"), "{passed}");
    let other = pool.buildpool(&["run", "--output", "json", "--", "false"]).expect(1).json();
    assert!(!other["cause"]["text"].as_str().unwrap().contains("Left behind"), "{other}");

    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    let answer = gateway.result("run_command", serde_json::json!({"command": "sh needs"}));
    let text = answer["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(r#"next: run_command {"command":"npm ci && sh needs"}"#), "{text}");
    assert!(text.contains("`setup: npm ci` in .buildpool/config.yaml"), "{text}");
    assert_eq!(structured(answer)["snapshot"]["left_behind"][1], "node_modules");
}

#[test]
fn a_setup_runs_once_in_each_workspace_until_an_input_changes() {
    let pool = Pool::start(1);
    let top = project(pool.place());
    let (runs, setup) = counting(pool.place());
    configure(&top, &format!("setup: \"{setup}; echo setting up; echo more >&2\"\n"));
    let run = |options: &[&str]| {
        pool.buildpool(&[&["run", "--output", "json"], options, &["--", "sh", "needs"]].concat())
            .expect(0)
            .json()
    };
    let first = run(&[]);
    assert_eq!(first["stdout"], "{\"one\": 1}", "{first}");
    assert_eq!(
        (&first["setup"]["ran"], &first["setup"]["exit_code"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert!(first["setup"].get("log").is_none(), "shown on a failure and in full: {first}");
    let full = pool.buildpool(&["job", first["job_id"].as_str().unwrap(), "--json", "--verbosity", "full"]);
    let full = full.expect(0).json();
    assert!(full["setup"]["log"].as_str().unwrap().contains("setting up"), "{full}");
    assert!(full["setup"]["log"].as_str().unwrap().contains("more"), "{full}");
    assert_eq!(full["stdout"], "{\"one\": 1}", "the log of the setup is apart: {full}");

    let second = run(&[]);
    assert_eq!((count(&runs), &second["setup"]["ran"]), (1, &serde_json::Value::Null), "{second}");
    fs::write(top.join("needs"), "cat node_modules/have # changed\n").unwrap();
    run(&[]);
    assert_eq!(count(&runs), 1, "not an input");
    fs::write(top.join("package-lock.json"), "{\"two\": 2}").unwrap();
    assert_eq!(run(&[])["stdout"], "{\"two\": 2}");
    assert_eq!(count(&runs), 2, "an input has changed");
    run(&["--clean"]);
    assert_eq!(count(&runs), 3, "an empty workspace has no dependencies");
    pool.buildpool(&["run", "--", "rm", "-r", "node_modules"]).expect(0);
    run(&[]);
    assert_eq!(count(&runs), 4, "a job has removed them");
    configure(&top, &format!("{{setup: \"{setup}\", setup_inputs: [needs]}}\n"));
    run(&[]);
    assert_eq!(count(&runs), 5, "another setup");
    fs::write(top.join("package-lock.json"), "{}").unwrap();
    run(&[]);
    assert_eq!(count(&runs), 5, "not an input any more");
}

#[test]
fn a_setup_that_fails_ends_the_job_and_runs_again() {
    let pool = Pool::start(1);
    let top = project(pool.place());
    let ok = pool.place().file("ok");
    let setup = format!(
        "mkdir -p node_modules; echo half > node_modules/have; echo no network >&2; test -e {}",
        ok.display()
    );
    configure(&top, &format!("setup: \"{setup}\"\n"));
    let failed = pool.buildpool(&["run", "--output", "json", "--", "sh", "needs"]).expect(1).json();
    assert_eq!(failed["verdict"], "failed", "{failed}");
    assert!(failed["exit_code"].is_null() && failed.get("process_state").is_none(), "{failed}");
    assert_eq!(failed["setup"]["exit_code"], 1, "{failed}");
    let cause = failed["cause"]["text"].as_str().unwrap();
    assert!(
        cause.starts_with("The setup (`mkdir -p") && cause.contains("exited with code 1 after"),
        "{cause}"
    );
    assert_eq!(failed["setup"]["log"], "no network\n");
    assert_eq!(failed.get("duration_secs"), None, "the command did not run");
    let text = pool.buildpool(&["run", "--output", "digest", "--", "sh", "needs"]).expect(1).out();
    assert!(text.contains("|no network") && text.contains("cause: The setup"), "{text}");
    let streamed = pool.buildpool(&["run", "--", "sh", "needs"]).expect(1);
    assert!(
        streamed.err().contains("setup: no network") && streamed.err().contains("failed: The setup"),
        "{streamed}"
    );
    assert_eq!(streamed.out(), "", "the command did not run");
    fs::write(&ok, "").unwrap();
    let passed = pool.buildpool(&["run", "--", "sh", "needs"]).expect(0);
    assert_eq!(passed.out(), "half\n");
}

#[test]
fn a_setup_is_cancelled_and_timed_out_and_survives_the_worker() {
    let mut pool = Pool::start(1);
    let top = project(pool.place());
    let (begun, go) = (pool.place().file("begun"), pool.place().file("go"));
    let wait = format!("echo $$ > {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), go.display());
    configure(&top, &format!("setup: \"{wait}; mkdir -p node_modules; echo made > node_modules/have\"\n"));
    let submit = |pool: &Pool| {
        let _ = fs::remove_file(&begun);
        let id = pool.buildpool(&["run", "--detach", "--", "sh", "needs"]).expect(0).out().trim().to_owned();
        wait_until("the setup runs", || fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
        id
    };
    let is_gone = || {
        let pid = fs::read_to_string(&begun).unwrap();
        !Path::new("/proc").join(pid.trim()).exists()
    };
    let cancelled = submit(&pool);
    assert_eq!(pool.job(&cancelled)["state"], "preparing");
    pool.buildpool(&["cancel", &cancelled]).expect(0);
    assert_eq!(pool.wait_for_state(&cancelled, "done")["verdict"], "cancelled");
    assert!(is_gone(), "its processes are ended");

    let late =
        pool.buildpool(&["run", "--timeout", "1s", "--output", "json", "--", "sh", "needs"]).expect(124);
    let late = late.json();
    assert_eq!(late["verdict"], "timed_out", "{late}");
    assert!(late["cause"]["text"].as_str().unwrap().starts_with("The pool ended the setup (`echo"), "{late}");
    assert!(is_gone(), "its processes are ended");

    let survives = submit(&pool);
    pool.kill_worker(0);
    pool.start_worker(0);
    pool.wait_for_workers();
    assert_eq!(pool.job(&survives)["state"], "preparing");
    fs::write(&go, "").unwrap();
    let done = pool.wait_for_state(&survives, "done");
    assert_eq!((&done["verdict"], &done["attempt"]), (&"passed".into(), &1.into()), "{done}");
    assert_eq!(pool.buildpool(&["logs", &survives]).expect(0).out(), "made\n");
}

#[test]
fn no_job_finds_dependencies_that_another_one_left() {
    let pool = PoolBuilder::default().worker(&["--slots", "2"]).start();
    let top = project(pool.place());
    pool.buildpool(&[
        "run",
        "--",
        "sh",
        "-c",
        "mkdir -p node_modules build; echo left | tee node_modules/have build/x",
    ])
    .expect(0);
    let seen = pool.buildpool(&["run", "--", "sh", "-c", "[ ! -e node_modules ] && cat build/x"]).expect(0);
    assert_eq!(seen.out(), "left\n", "build products stay, dependencies don't");

    let (runs, setup) = counting(pool.place());
    configure(&top, &format!("setup: \"{setup}\"\n"));
    let meeting = pool.place().file("meeting");
    fs::create_dir(&meeting).unwrap();
    // Each waits for the other, so that they have two workspaces.
    let both = format!(
        "touch {0}/$BUILDPOOL_JOB_ID; until [ $(ls {0} | wc -l) -ge 2 ]; do sleep 0.02; done; sh needs; ls node_modules",
        meeting.display()
    );
    let children: Vec<_> = (0..2)
        .map(|_| {
            let mut command = pool.command(&["run", "--timeout", "60s", "--", "sh", "-c", &both]);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"one\": 1}have\n");
    }
    assert_eq!(count(&runs), 2, "once in each workspace");
}

#[test]
fn a_job_in_place_needs_no_setup_and_a_wrong_setup_is_refused() {
    let place = Place::new();
    let top = project(&place);
    let (runs, setup) = counting(&place);
    configure(&top, &format!("setup: \"{setup}\"\n"));
    let in_place = place.command(["run", "--", "sh", "needs"]).output().unwrap();
    assert_eq!((in_place.stdout.as_slice(), count(&runs)), (&b"mine\n"[..], 0));
    configure(&top, "{setup: npm ci, setup_inputs: ['../x']}");
    let refused = place.command(["run", "--snapshot", "--", "true"]).output().unwrap();
    let refused = Finished::from(refused).expect(125);
    assert!(refused.err().contains("config.yaml: setup_inputs: `../x` leads out"), "{refused}");
}
