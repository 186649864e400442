//! Attacks of several kinds, with real processes.

use buildpool_tests::{Finished, Pool, PoolBuilder, STRANGER, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tempfile::NamedTempFile;

/// Returns a coordinator with this configuration. Dropping the second value removes the file.
fn configured(text: &str) -> (PoolBuilder, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    (PoolBuilder::default().coordinator(&["--config", file.path().to_str().unwrap()]), file)
}

fn token(pool: &Pool, role: &str, name: &str) -> String {
    pool.buildpool(&["token", "create", "--role", role, "--name", name]).expect(0).out().trim().to_owned()
}

fn with(pool: &Pool, token: &str, arguments: &[&str]) -> Finished {
    pool.command(arguments).env("BUILDPOOL_TOKEN", token).output().unwrap().into()
}

#[test]
fn a_submitter_can_t_end_another_s_job_nor_do_what_only_an_admin_may() {
    let pool = Pool::start(1);
    let (ada, mallory) = (token(&pool, "submit", "ada"), token(&pool, "submit", "mallory"));
    let go = pool.place().file("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let started = with(&pool, &ada, &["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    let job = started.out().trim().to_owned();
    for forbidden in [
        &["audit"][..],
        &["token", "rotate", "ada"],
        &["token", "list"],
        &["drain", "w0"],
        &["workers", "approve", "w0"],
        &["workers", "forget", "w0"],
    ] {
        let refused = with(&pool, &mallory, forbidden).expect(1);
        assert!(refused.err().contains("needs an admin token"), "{forbidden:?}: {refused}");
    }
    let refused = with(&pool, &mallory, &["cancel", &job]).expect(1);
    assert!(refused.err().contains("is ada's"), "{refused}");
    // The first of the refusals within ten seconds is recorded.
    let entries = pool.buildpool(&["audit", "--json"]).expect(0).json();
    let refused: Vec<_> =
        entries.as_array().unwrap().iter().filter(|entry| entry["action"] == "refused").collect();
    let first = refused.last().unwrap();
    assert_eq!(
        (&first["actor"], &first["detail"]),
        (&"mallory".into(), &"its role does not allow it".into())
    );
    assert!(first["subject"].as_str().unwrap().contains("audit"), "{entries:#}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "passed");
}

#[test]
fn the_audit_log_says_who_did_what_and_can_t_be_forged_by_what_is_written_into_it() {
    let pool = Pool::start(1);
    let job = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sleep", "600"]).expect(0);
    let reason = "enough\n2026-01-01T00:00:00Z  root  token_create  evil\x1b[2J";
    pool.buildpool(&["cancel", job.out().trim(), "--reason", reason]).expect(0);
    pool.buildpool(&["drain", "w0"]).expect(0);
    with(&pool, STRANGER, &["jobs"]).expect(125);
    let entries = pool.buildpool(&["audit", "--json"]).expect(0).json();
    let entries = entries.as_array().unwrap();
    let actions: Vec<&str> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["refused", "drain", "cancel_request", "submit", "token_create", "token_create"]);
    let peers: Vec<_> = entries.iter().map(|entry| entry["peer"].as_str()).collect();
    let local = Some("127.0.0.1");
    assert_eq!(peers, [local, local, local, local, None, None], "none for access through the files");
    let submit = &entries[3];
    assert_eq!((&submit["actor"], &submit["subject"]), (&"admin".into(), &job.out().trim().into()));
    assert!(submit["detail"].as_str().unwrap().starts_with("token "), "{submit}");
    assert_eq!((&entries[1]["actor"], &entries[1]["subject"]), (&"admin".into(), &"w0".into()));
    assert_eq!(entries[2]["detail"], reason, "kept as it was");
    let shown = pool.buildpool(&["audit"]).expect(0).out();
    assert!(shown.contains("127.0.0.1"), "{shown}");
    assert_eq!(shown.lines().count(), 1 + entries.len(), "one line an entry:\n{shown}");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    let data = pool.data("coordinator");
    let by_files = pool.buildpool(&["audit", "--data-dir", data.to_str().unwrap(), "--limit", "1", "--json"]);
    assert_eq!(by_files.expect(0).json().as_array().unwrap().len(), 1);
}

#[test]
fn the_audit_log_has_nothing_of_what_was_not_done_to_a_worker() {
    let pool = Pool::start(1);
    let words = |action: &str| action.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for action in
        ["workers forget w0", "workers approve nope", "workers forget nope", "drain nope", "resume nope"]
    {
        let words = words(action);
        pool.buildpool(&words.iter().map(String::as_str).collect::<Vec<_>>()).expect(1);
    }
    for action in ["drain w0", "resume w0", "workers approve w0"] {
        let words = words(action);
        pool.buildpool(&words.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
    }
    let entries = pool.buildpool(&["audit", "--json"]).expect(0).json();
    let told = |entry: &serde_json::Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        (text("actor"), text("action"), text("subject"), text("detail").starts_with("worker id "))
    };
    let of_workers = entries.as_array().unwrap().iter().filter(|entry| entry["action"] != "token_create");
    let expected = ["approve", "resume", "drain"]
        .map(|what| ("admin".to_owned(), what.to_owned(), "w0".to_owned(), true));
    assert_eq!(of_workers.map(told).collect::<Vec<_>>(), expected, "{entries:#}");
}

#[test]
fn the_audit_log_is_read_over_the_link_as_far_back_as_is_asked_for() {
    let pool = Pool::start(0);
    let tokens = buildpool_coordinator::auth::Tokens::open(&pool.data("coordinator")).unwrap();
    // More than a page.
    for number in 0..1_005 {
        tokens.audit("test", "note", &number.to_string(), "").unwrap();
    }
    let entries = pool.buildpool(&["audit", "--limit", "1004", "--json"]).expect(0).json();
    let subjects: Vec<u32> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["subject"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(subjects, (1..1_005).rev().collect::<Vec<u32>>());
    let all = pool.buildpool(&["audit", "--limit", "100000", "--json"]).expect(0).json();
    assert!(all.as_array().unwrap().len() > 1_005);
}

#[test]
fn a_rotated_token_lets_its_bearer_change_over_and_then_cuts_it_off() {
    let mut pool = PoolBuilder::default().start();
    let old = token(&pool, "submit", "ci");
    let new = pool.buildpool(&["token", "rotate", "ci", "--grace", "1h"]).expect(0).out().trim().to_owned();
    for token in [&old, &new] {
        with(&pool, token, &["jobs"]).expect(0);
    }
    pool.add_worker(Vec::new());
    pool.wait_for_workers();
    pool.buildpool(&["token", "rotate", "worker", "--grace", "0s"]).expect(0);
    wait_until("the live connection is cut", || {
        pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"] == false
    });
}

#[test]
fn a_worker_that_nobody_approved_gets_no_job() {
    let (builder, _file) = configured("approve_workers = true\n");
    let pool = builder.worker(&[]).start();
    let job =
        pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"]).expect(0).out().trim().to_owned();
    let waits = pool.job(&job);
    assert_eq!(waits["state"], "queued");
    assert!(waits["waiting"]["reason"].as_str().unwrap().contains("waiting for an operator's approval"));
    assert!(pool.buildpool(&["workers"]).expect(0).out().contains("buildpool workers approve w0"));
    pool.buildpool(&["workers", "approve", "w0"]).expect(0);
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "passed");
}

#[test]
fn who_asks_too_often_is_told_so_and_nobody_else_is_held_up() {
    // A low limit, so that even on a slow machine the requests below exceed it.
    let (builder, _file) = configured("requests_per_minute = 4\n");
    let pool = builder.start();
    let (one, other) = (token(&pool, "submit", "one"), token(&pool, "submit", "other"));
    let refused = (0..60).map(|_| with(&pool, &one, &["jobs"])).find(|asked| asked.code() != 0).unwrap();
    assert!(refused.err().contains("`one` sends too many requests: 4 a minute"), "{refused}");
    with(&pool, &other, &["jobs"]).expect(0);
}

/// Starts a worker with another token as `w0`, with a copied or a new identity, and checks the
/// error.
fn refused_worker(pool: &Pool, token: &str, is_copy: bool, why: &str) {
    let forged = pool.place().home().join("forged");
    std::fs::create_dir_all(&forged).unwrap();
    if is_copy {
        std::fs::copy(pool.data("w0").join("worker-id"), forged.join("worker-id")).unwrap();
    }
    let log = pool.place().home().join("forged.log");
    let mut command = pool.command(&["worker", "--name", "w0", "--data-dir", forged.to_str().unwrap()]);
    command.env("BUILDPOOL_TOKEN", token).stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    wait_until("it is refused", || std::fs::read_to_string(&log).unwrap().contains(why));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn one_command_creates_tokens_for_many_workers_by_file_and_by_link() {
    let pool = Pool::start(0);
    let counted = ["token", "create", "--role", "worker", "--count", "12", "--prefix", "mac-"];
    let printed = pool.buildpool(&counted).expect(0);
    let tokens: std::collections::BTreeSet<_> = printed.out().lines().map(str::to_owned).collect();
    assert!(tokens.len() == 12 && tokens.iter().all(|token| token.starts_with("bp_")), "{printed}");
    let data = pool.place().home().join("another");
    let by_file = [&counted[..], &["--json", "--data-dir", data.to_str().unwrap()]].concat();
    let array = pool.buildpool(&by_file).expect(0).json();
    let names: Vec<_> = array.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[11]), (12, "mac-01", "mac-12"), "{array:#}");
    let listed = pool.buildpool(&["token", "list", "--json"]).expect(0).json();
    let listed = listed.as_array().unwrap().iter().filter(|one| one["role"] == "worker");
    assert_eq!(listed.filter(|one| names.contains(&one["name"].as_str().unwrap())).count(), 12);
}

#[test]
fn a_copied_worker_id_is_of_no_use_with_another_token() {
    let mut pool = Pool::start(1);
    let mallory = token(&pool, "worker", "mallory");
    pool.kill_worker(0);
    refused_worker(&pool, &mallory, true, "belongs to the token `worker`");
    assert_eq!(pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"], false);
}

#[test]
fn a_worker_s_name_stays_its_token_s_while_it_is_away_until_an_admin_frees_it() {
    let (builder, _file) = configured("approve_workers = true\n");
    let mut pool = builder.worker(&[]).start();
    let mallory = token(&pool, "worker", "mallory");
    pool.buildpool(&["workers", "approve", "w0"]).expect(0);
    let known = pool.buildpool(&["workers", "--json"]).expect(0).json()[0].clone();
    assert_eq!(known["token"], "worker");
    let entry = pool.buildpool(&["audit", "--limit", "1", "--json"]).expect(0).json()[0].clone();
    assert_eq!((&entry["action"], &entry["subject"]), (&"approve".into(), &"w0".into()));
    let detail = entry["detail"].as_str().unwrap();
    assert!(
        detail.contains(known["worker_id"].as_str().unwrap()) && detail.contains("token worker"),
        "{detail}"
    );
    let refused = pool.buildpool(&["workers", "forget", "w0"]).expect(1);
    assert!(refused.err().contains("is connected"), "{refused}");
    pool.kill_worker(0);
    let is_away = || pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"] == false;
    wait_until("it is away", is_away);
    refused_worker(&pool, &mallory, false, "the name `w0` belongs to a worker of the token `worker`");
    assert!(is_away());
    assert_eq!(
        pool.buildpool(&["workers", "forget", "w0", "--json"]).expect(0).json(),
        serde_json::json!([])
    );
    pool.restart_coordinator();
    assert_eq!(pool.buildpool(&["workers", "--json"]).expect(0).json(), serde_json::json!([]));
}

/// Returns true if bubblewrap works on this machine.
fn has_bubblewrap() -> bool {
    let sandbox = Command::new("bwrap").args(["--bind", "/", "/", "--unshare-pid", "true"]).output();
    let is_here = sandbox.is_ok_and(|done| done.status.success());
    if !is_here {
        eprintln!("SKIPPED: bubblewrap is not on this machine, or may not make namespaces here");
    }
    is_here
}

#[test]
fn a_job_s_variables_choose_neither_the_sandbox_s_program_nor_what_is_loaded_into_it() {
    if !has_bubblewrap() {
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let work = pool.place().work();
    let git = Command::new("git").args(["init", "-q"]).current_dir(&work).output().unwrap();
    assert!(git.status.success());
    let mark = pool.place().home().join("outside");
    std::fs::create_dir(work.join("bin")).unwrap();
    let impostor = work.join("bin/bwrap");
    std::fs::write(&impostor, format!("#!/bin/sh\necho impostor; touch {}\n", mark.display())).unwrap();
    std::fs::set_permissions(&impostor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let show = "echo \"$SHOWN\"; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' ' ' < /proc/1/cmdline; ls /proc/self/fd | wc -l";
    let path = "bin:/usr/bin:/bin";
    for way in [["--env", "PATH=bin:/usr/bin:/bin"], ["--secret", "PATH"]] {
        let mut command = pool.command(&["run"]);
        command.env("PATH", path).args(way).args(["--env", "LD_PRELOAD=/nowhere/evil.so"]);
        command.args(["--env", "SHOWN=line one\nline two", "--", "sh", "-c", show]);
        let done: Finished = command.output().unwrap().into();
        let done = done.expect(0);
        assert!(done.out().contains("line one\nline two\n"), "variables come whole: {done}");
        assert!(!done.out().contains("impostor") && !mark.exists(), "{done}");
        // The sandbox itself prints nothing about them, and its descriptor is closed.
        assert!(!done.out().contains("SHOWN=") && !done.out().contains("LD_PRELOAD="), "{done}");
        assert!(!done.out().contains("BUILDPOOL_TOKEN"), "{done}");
    }
}

#[test]
fn git_answers_in_an_isolated_workspace_and_its_objects_can_t_be_changed() {
    if !has_bubblewrap() {
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let work = pool.place().work();
    std::fs::write(work.join("file"), "committed").unwrap();
    for line in ["init -q", "add file", "-c user.name=a -c user.email=a@b commit -q -m first"] {
        let done = Command::new("git").args(line.split(' ')).current_dir(&work).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    std::fs::write(work.join("file"), "changed").unwrap();
    let text =
        "git status --porcelain && git show HEAD:file && echo && touch $(cat .git/objects/info/alternates)/x";
    let done = pool.buildpool(&["run", "--", "sh", "-c", text]).expect(1);
    assert!(done.out().contains(" M file\ncommitted\n"), "{done}");
    assert!(done.err().contains("Read-only file system") || done.out().contains("Read-only"), "{done}");
}

#[test]
fn an_isolated_job_reads_neither_the_token_nor_other_jobs_nor_the_worker() {
    if !has_bubblewrap() {
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap", "--slots", "2"]).start();
    let worker = pool.data("w0");
    // A finished job has left its log in the spool or a workspace. The other job can neither read
    // nor write the directory.
    pool.shell("echo of another job").expect(0);
    let data = worker.display();
    // The job sees only the path to its own files.
    let listing =
        pool.shell(&format!("ls -A {data}; echo of attempts; ls -A {data}/attempts | wc -l")).expect(0);
    assert_eq!(listing.out(), "attempts\nhomes\nof attempts\n1\n", "{listing}");
    let hidden = pool.shell(&format!("cat {data}/worker-id; echo x > {data}/worker-id"));
    let identity = std::fs::read_to_string(worker.join("worker-id")).unwrap();
    assert!(!hidden.out().contains(identity.trim()) && identity.len() > 30, "{hidden}");
    // The daemon's environment and memory contain the token, so its processes must be invisible.
    let pid = pool.worker_pid(0);
    let secret =
        pool.shell(&format!("cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/{pid}/environ; kill -9 {pid}"));
    assert!(!secret.out().contains("BUILDPOOL_TOKEN"), "{secret}");
    // The job's own files work, and the job ends as without isolation: a file, an exit code, a
    // missing program.
    assert_eq!(pool.shell("pwd > mine && test -s mine && cat mine | wc -l").expect(0).out().trim(), "1");
    pool.shell("exit 7").expect(7);
    pool.buildpool(&["run", "--no-snapshot", "--", "no-such-program"]).expect(127);
    assert_eq!(pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"], true);
}

/// The test writes nothing: a path counts if it opens for writing.
#[test]
fn an_isolated_job_sets_nothing_of_the_machine_s_kernel_and_writes_no_disk() {
    if !has_bubblewrap() {
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let places = "/proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/vm/panic_on_oom /proc/sysrq-trigger /proc/mtrr $(find /proc/irq /proc/bus /proc/acpi /sys/fs/cgroup /sys/kernel -type f | head -n 2000) $(find /dev -type b)";
    let text = format!(
        "for place in {places}; do if [ -e $place ] && (: >> $place) 2> /dev/null; then echo \"opened $place\"; fi; done; test -e /proc/sys/kernel/core_pattern && echo looked; mount -o remount,rw /proc/sys 2> /dev/null && echo opened all; true"
    );
    let done = pool.shell(&text).expect(0);
    assert_eq!(done.out(), "looked\n", "{done}");
    // Devices that builds need exist.
    let text = "test -c /dev/null -a -c /dev/urandom -a -d /dev/shm && echo x > /dev/stdout && touch /dev/shm/$BUILDPOOL_JOB_ID && rm /dev/shm/$BUILDPOOL_JOB_ID";
    assert_eq!(pool.shell(text).expect(0).out(), "x\n");
}

/// Starts a pool with one worker that isolates its jobs with bubblewrap. The worker is configured
/// as `install worker --write --join` does. Also returns its configuration directory.
fn with_a_token_file() -> Option<(Pool, std::path::PathBuf)> {
    if !has_bubblewrap() {
        return None;
    }
    let mut pool = PoolBuilder::default().start();
    let directory = pool.place().home().join(".config/buildpool");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("worker.token"), pool.worker_token()).unwrap();
    let config = directory.join("worker.toml");
    std::fs::write(&config, "token_file = \"worker.token\"\n").unwrap();
    let words = ["--isolation", "bubblewrap", "--slots", "2", "--config", config.to_str().unwrap()];
    pool.add_worker(words.map(str::to_owned).to_vec());
    pool.wait_for_workers();
    Some((pool, directory))
}

#[test]
fn no_directory_on_the_way_to_what_is_hidden_can_be_renamed_from_a_job() {
    let Some((pool, config)) = with_a_token_file() else { return };
    let data = pool.data("w0");
    let id = std::fs::read_to_string(data.join("worker-id")).unwrap();
    let top = pool.place().home().parent().unwrap().to_owned();
    // Another running job owns the files that the attack targets.
    let go = top.join("go");
    let victim =
        format!("echo VICTIM > mine; echo runs; while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let victim = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &victim]).expect(0);
    let victim = victim.out().trim().to_owned();
    wait_until("it runs", || pool.buildpool(&["logs", &victim]).out().contains("runs"));
    let ways = [&config, &data].into_iter().flat_map(|hidden| hidden.ancestors());
    let ways: Vec<_> = ways.filter(|way| way.starts_with(&top)).collect();
    assert!(ways.len() > 4, "{ways:?}");
    for way in ways {
        let attack = format!("mv -T {0} {0}.moved", way.display());
        let done = pool.shell(&attack);
        assert!(done.code() != 0 && way.exists(), "{attack}: {done}");
    }
    let look = r"-name worker-id -o -name worker.token -o -name worker.toml -o -name mine";
    let look = format!("find {} {look} | while read file; do cat $file; done", top.display());
    let found = pool.shell(&look);
    for secret in [pool.worker_token(), id.trim(), "VICTIM\n"] {
        assert!(!found.out().contains(secret), "{secret}");
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&victim, "done")["verdict"], "passed");
}

#[test]
fn an_isolated_job_does_not_read_the_way_into_the_local_pool_of_its_user() {
    if !has_bubblewrap() {
        return;
    }
    let pool = PoolBuilder::default().worker(&["--isolation", "bubblewrap"]).start();
    let mut local = pool.command(&["run", "--", "true"]);
    let started: Finished =
        local.env_remove("BUILDPOOL_URL").env_remove("BUILDPOOL_TOKEN").output().unwrap().into();
    started.expect(0);
    let directory = pool.place().local_pool().directory().to_owned();
    let endpoint = directory.join("endpoint.json");
    assert!(std::fs::read_to_string(&endpoint).unwrap().contains("token"), "it runs");
    let look = format!("ls -A {}; cat {}", directory.display(), endpoint.display());
    let done = pool.shell(&look).expect(1);
    assert!(!done.out().contains("token") && !done.out().contains("endpoint"), "{done}");
}

#[test]
fn a_token_that_is_replaced_does_not_show_itself_to_a_job_that_runs() {
    let Some((pool, config)) = with_a_token_file() else { return };
    let (begun, go) = (pool.place().home().join("begun"), pool.place().home().join("go"));
    let text = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.05; done; cat {2}/* {2}/worker.token",
        begun.display(),
        go.display(),
        config.display()
    );
    let job = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    wait_until("it runs", || begun.exists());
    // A rotation writes a file next to the target and renames it.
    for name in ["worker.token", "worker.toml"] {
        let beside = config.join("new");
        std::fs::copy(config.join(name), &beside).unwrap();
        std::fs::rename(&beside, config.join(name)).unwrap();
    }
    std::fs::write(&go, "").unwrap();
    let job = job.out().trim().to_owned();
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "failed", "there is nothing to read");
    let log = pool.buildpool(&["logs", &job]).out();
    assert!(!log.contains(pool.worker_token()) && !log.contains("token_file"), "{log}");
    pool.shell("true").expect(0);
}

#[test]
fn a_worker_whose_data_directory_went_away_takes_no_job_until_it_is_back() {
    let pool = PoolBuilder::default().worker(&[]).start();
    pool.shell("true").expect(0);
    let (data, moved) = (pool.data("w0"), pool.place().home().join("moved"));
    std::fs::rename(&data, &moved).unwrap();
    let job = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"]).expect(0);
    let job = job.out().trim().to_owned();
    let quarantined = || pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["quarantined"].clone();
    wait_until("it says so", || {
        quarantined().as_str().is_some_and(|why| why.contains("can't be found any more"))
    });
    assert_eq!(pool.job(&job)["state"], "queued");
    std::fs::rename(&moved, &data).unwrap();
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "passed");
}

#[test]
fn a_configuration_that_can_t_be_hidden_without_what_jobs_need_is_refused() {
    if !has_bubblewrap() {
        return;
    }
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "coordinator = \"ws://127.0.0.1:1\"\ntoken = \"x\"\n").unwrap();
    let place = buildpool_tests::Place::new();
    let data = place.home().join("data");
    let words =
        ["worker", "--isolation", "bubblewrap", "--config", file.path().to_str().unwrap(), "--data-dir"];
    let refused = place.buildpool(&[&words[..], &[data.to_str().unwrap()]].concat()).expect(2);
    assert!(
        refused.err().contains("would hide all of") && refused.err().contains("directory of its own"),
        "{refused}"
    );
}
