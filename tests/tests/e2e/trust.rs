//! Submitters who do not trust each other on one pool: what one leaves behind or sends is not the other's.

use buildpool_tests::{Finished, Peer, Pool, PoolBuilder};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// A pool of one slot whose coordinator has this configuration.
fn configured(text: &str) -> Pool {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    PoolBuilder::default().coordinator(&["--config", path]).worker(&["--slots", "1"]).start()
}

fn token(pool: &Pool, name: &str, options: &[&str]) -> String {
    let mut words = vec!["token", "create", "--role", "submit", "--name", name, "--json"];
    words.extend(options);
    pool.buildpool(&words).expect(0).json()["token"].as_str().unwrap().to_owned()
}

/// Runs a shell text on the working tree with this token.
fn run(pool: &Pool, token: &str, text: &str) -> Finished {
    let mut command = pool.command(&["run", "--", "sh", "-c", text]);
    command.env("BUILDPOOL_TOKEN", token).output().unwrap().into()
}

/// A working tree in which files that end with `.o` are build products.
fn project(pool: &Pool) {
    let top = pool.place().work();
    let made = Command::new("git").args(["init", "-q", "-b", "main"]).current_dir(&top).status().unwrap();
    assert!(made.success());
    fs::write(top.join(".gitignore"), "*.o\n").unwrap();
    fs::write(top.join("secret"), "uncommitted\n").unwrap();
}

#[test]
fn what_a_submitter_leaves_behind_is_its_team_s_and_nobody_else_s() {
    let pool = configured("trust = \"team\"\n[teams]\ncore = [\"ada\", \"grace\"]\n");
    project(&pool);
    let [ada, grace, eve] = ["ada", "grace", "eve"].map(|name| token(&pool, name, &[]));
    let first = run(&pool, &ada, "echo left > left.o; pwd").expect(0);
    assert_eq!(run(&pool, &grace, "cat left.o; pwd").expect(0).out(), format!("left\n{}", first.out()));
    let theirs = run(&pool, &eve, "test ! -e left.o && pwd").expect(0);
    assert_ne!(theirs.out(), first.out());
    assert_eq!(run(&pool, &eve, "pwd").expect(0).out(), theirs.out(), "its own stays warm");
}

#[tokio::test]
async fn knowing_the_id_of_a_snapshot_is_not_having_it() {
    let pool = configured("");
    project(&pool);
    let (ada, eve) = (token(&pool, "ada", &[]), token(&pool, "eve", &[]));
    run(&pool, &ada, "cat secret").expect(0);
    let jobs = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let job = pool.job(jobs[0]["job_id"].as_str().unwrap());
    let projects = fs::read_dir(pool.data("w0").join("projects")).unwrap();
    let project = projects.flatten().find_map(|entry| fs::read_to_string(entry.path().join("project")).ok());
    let source = json!({"snapshot": {
        "id": job["snapshot"]["id"], "project": project.unwrap(), "directory": "", "head": Value::Null,
    }});
    // The access that a client writes itself is not looked at.
    let access = json!({"class": "submitter:ada", "names": ["ada"]});
    let spec = json!({"command": {"shell": "cat secret"}, "source": source, "access": access});
    for (token, answer) in [(&ada, "accepted"), (&eve, "error")] {
        let mut peer = Peer::dial(pool.address(), "/v1/client", Some(token)).await.unwrap();
        let versions = json!({"min": 1, "max": 1});
        peer.send_json(&json!({"type": "register", "protocol": versions, "client": "test"})).await;
        assert_eq!(peer.receive().await.unwrap()["type"], "registered");
        let id = format!("00000000-0000-7000-8000-{:012x}", token.len() + usize::from(answer == "error"));
        peer.send_json(&json!({"type": "submit", "request": 1, "submit": {"job": id, "spec": spec}})).await;
        let heard = peer.receive().await.unwrap();
        assert_eq!(heard["type"], answer, "{heard}");
        if answer == "error" {
            let text = heard["error"]["message"].as_str().unwrap();
            assert!(text.contains("is not here; send it first"), "{heard}");
        }
    }
}

#[test]
fn a_worker_that_accepts_a_team_gets_no_other_job() {
    let config = "[teams]\ncore = [\"ada\"]\n";
    let mut pool = configured(config);
    let (ada, eve) = (token(&pool, "ada", &[]), token(&pool, "eve", &[]));
    pool.kill_worker(0);
    pool.set_worker_arguments(0, &["--accepts", "core"]);
    pool.start_worker(0);
    pool.wait_for_workers();
    let shell = |token: &str| -> Finished {
        let mut command = pool.command(&["run", "--no-snapshot", "--", "true"]);
        command.env("BUILDPOOL_TOKEN", token).output().unwrap().into()
    };
    buildpool_tests::wait_until("the worker has reported its accepted users", || {
        let workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
        workers[0]["accepts"] == json!(["core"]) && workers[0]["connected"] == true
    });
    shell(&ada).expect(0);
    let refused = shell(&eve).expect(125);
    assert!(refused.err().contains("accept jobs of core only, not of `eve`"), "{refused}");
}

#[test]
fn the_home_of_an_isolated_job_is_its_class_s() {
    let sandbox = Command::new("bwrap").args(["--bind", "/", "/", "--unshare-pid", "true"]).output();
    if !sandbox.is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: bubblewrap is not on this machine, or may not make namespaces here");
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let [ada, eve] = ["ada", "eve"].map(|name| token(&pool, name, &[]));
    let shell = |token: &str, text: &str| -> Finished {
        let mut command = pool.command(&["run", "--no-snapshot", "--", "sh", "-c", text]);
        command.env("BUILDPOOL_TOKEN", token).output().unwrap().into()
    };
    let left = shell(&ada, "echo 'echo left' > ~/.profile && echo ~").expect(0);
    assert_eq!(shell(&ada, "cat ~/.profile && echo ~").expect(0).out(), format!("echo left\n{}", left.out()));
    let theirs = shell(&eve, "test ! -e ~/.profile && echo ~").expect(0);
    assert_ne!(theirs.out(), left.out());
    shell(&eve, &format!("test ! -e {}", left.out().trim())).expect(0);
    // Programs that ignore HOME find the account's, in which no job can leave anything.
    let account = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).unwrap().unwrap().dir;
    let text = format!("touch {}/.left-by-a-job", account.display());
    assert!(shell(&eve, &text).expect(1).err().contains("Read-only file system"));
}

#[test]
fn a_restricted_token_runs_on_its_workers_and_its_projects_only() {
    let pool = Pool::start(2);
    let on_one = token(&pool, "ada", &["--only-worker", "w1"]);
    let on_none = token(&pool, "bob", &["--only-label", "gpu"]);
    let on_project = token(&pool, "eve", &["--only-project", "example.org/other"]);
    let shell = |token: &str, options: &[&str]| -> Finished {
        let mut command = pool.command(&["run", "--no-snapshot", "--output", "json"]);
        command.args(options).args(["--", "true"]).env("BUILDPOOL_TOKEN", token).output().unwrap().into()
    };
    for _ in 0..3 {
        assert_eq!(shell(&on_one, &[]).expect(0).json()["worker"], "w1");
    }
    let refused = shell(&on_one, &["--label", "name=w0"]);
    assert!(refused.to_string().contains("restricted to name=w1"), "{refused}");
    let refused = shell(&on_none, &[]);
    assert!(refused.to_string().contains("restricted to gpu"), "{refused}");
    let refused = shell(&on_project, &[]).expect(125);
    assert!(refused.to_string().contains("restricted to snapshots of example.org/other"), "{refused}");
    let listed = pool.buildpool(&["token", "list"]).expect(0);
    assert!(listed.out().contains("worker w1") && listed.out().contains("label gpu"), "{listed}");
    let words = ["token", "create", "--role", "admin", "--name", "root", "--only-worker", "w1"];
    let refused = pool.buildpool(&words).expect(1);
    assert!(refused.err().contains("a token of role `admin` can't be restricted"), "{refused}");
}

#[test]
fn a_job_without_a_network_has_none_and_runs_only_where_that_is_possible() {
    let run = |pool: &Pool, text: &str| {
        pool.buildpool(&["run", "--no-snapshot", "--network", "none", "--", "sh", "-c", text])
    };
    let open = Pool::start(1);
    let refused = run(&open, "true").expect(125);
    assert!(refused.to_string().contains("isolation=bubblewrap"), "{refused}");
    let sandbox = Command::new("bwrap").args(["--bind", "/", "/", "--unshare-net", "true"]).output();
    if !sandbox.is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: bubblewrap is not on this machine, or may not make namespaces here");
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let interfaces = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    assert_eq!(run(&pool, interfaces).expect(0).out(), "lo\n");
    let coordinator = pool.url().rsplit(':').next().unwrap().to_owned();
    let text = format!("exec 3<>/dev/tcp/127.0.0.1/{coordinator}");
    let words = ["run", "--no-snapshot", "--network", "none", "--", "bash", "-c", &text];
    assert!(pool.buildpool(&words).expect(1).err().contains("refused"), "its loopback is its own");
}

#[test]
fn processors_and_memory_are_taken_from_what_a_worker_has() {
    let pool = Pool::start(1);
    let workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
    let (cpus, memory) = (&workers[0]["resources"]["cpus"], &workers[0]["resources"]["memory_mib"]);
    assert!(cpus.as_u64() > Some(0) && memory.as_u64() > Some(64), "{workers}");
    let run = |options: &[&str], text: &str| {
        pool.buildpool(&[&["run", "--no-snapshot"], options, &["--", "python3", "-c", text]].concat())
    };
    let refused = run(&["--cpus", "100000"], "pass").expect(125);
    assert!(refused.to_string().contains("no worker has 100000 of the resource `cpus`"), "{refused}");
    assert!(run(&["--memory", "0G"], "pass").expect(125).err().contains("512M or 4G"));
    if cfg!(target_os = "linux") {
        let ended = run(&["--memory", "100M", "--cpus", "1"], "bytearray(200 << 20)").expect(1);
        assert!(ended.err().contains("MemoryError"), "{ended}");
    }
    run(&["--memory", "1G"], "bytearray(200 << 20)").expect(0);
}
