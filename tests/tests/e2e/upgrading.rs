//! Tests of `workers upgrade` with real programs: the new one is this build with another version in its bytes.

mod fleet;

use buildpool_test_postgres::Postgres;
use buildpool_tests::{Cluster, Finished, Peer, signal, wait_until};
use fleet::{
    Coordinators, Fleet, NEW, OLD, WaitingProgram, finish, new_program, old_program, program_of, target,
    write_program,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
#[cfg(target_os = "linux")]
use std::os::unix::{fs::MetadataExt, process::ExitStatusExt};

#[test]
fn workers_are_upgraded_one_after_another_under_the_jobs_of_others() {
    let mut fleet = Fleet::start(2);
    fleet.add(false);
    fleet.pool.wait_for_workers();
    let release = fleet.release("release", &target(), new_program());
    let go = fleet.pool.place().home().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done; echo done", go.display());
    let job = |label: &str| {
        let run = fleet.pool.buildpool(&[
            "run",
            "--detach",
            "--no-snapshot",
            "--label",
            label,
            "--",
            "sh",
            "-c",
            &wait,
        ]);
        let id = run.expect(0).out().trim().to_owned();
        fleet.pool.wait_for_state(&id, "running");
        id
    };
    let (own, other) = (job("name=w0"), job("name=w2"));
    let plan = fleet.upgrade(&release, &["--label", "group=mac", "--dry-run"]).expect(0);
    assert!(plan.err().contains(&format!("upgrade to {NEW} ({})", target())), "{plan}");
    assert_eq!(fleet.worker(0)["draining"], false, "a dry run changes nothing");

    let pids = [fleet.pool.worker_pid(0), fleet.pool.worker_pid(1)];
    let upgrade = fleet.begin(&release, &["--label", "group=mac", "--json"]);
    wait_until("the first worker is drained", || fleet.worker(0)["draining"] == true);
    assert_eq!(fleet.worker(1)["draining"], false, "one after another");
    assert_eq!(fleet.worker(0)["version"], OLD, "its job runs");
    fs::write(&go, "").unwrap();
    let upgraded = finish(upgrade).expect(0);
    let entries = upgraded.json();
    assert_eq!((&entries[0]["result"], &entries[1]["result"]), (&"upgraded".into(), &"upgraded".into()));
    for id in [own, other] {
        assert_eq!(fleet.pool.wait_for_state(&id, "done")["verdict"], "passed", "no job was harmed");
    }
    for index in [0, 1] {
        fleet.expect(index, NEW, new_program());
        assert_eq!(fleet.pool.worker_pid(index), pids[index], "the same process, for its service manager");
        let previous = fleet.program(index).with_file_name(".buildpool.previous");
        assert!(fs::read(previous).unwrap() == old_program(), "the previous program is kept");
    }
    fleet.expect(2, OLD, old_program());
    let audit = fleet.pool.buildpool(&["audit", "--json"]).expect(0).json();
    let orders: Vec<_> =
        audit.as_array().unwrap().iter().filter(|entry| entry["action"] == "upgrade").collect();
    assert!(orders.len() >= 2 && orders.iter().all(|entry| entry["actor"] == "admin"), "{orders:?}");

    let again = fleet.upgrade(&release, &["w0", "w1"]).expect(0);
    assert!(again.err().contains("up to date") && !again.err().contains("drained"), "{again}");
    // A worker that was killed starts with the new program.
    fleet.pool.kill_worker(0);
    fleet.start_again(0);
    fleet.expect(0, NEW, new_program());
}

#[test]
fn nothing_begins_if_a_selected_worker_can_t_be_upgraded() {
    let mut fleet = Fleet::start(1);
    fleet.add(false);
    fleet.pool.wait_for_workers();
    let script = b"#!/bin/sh\n";
    let release = fleet.release("release", &target(), script);
    let expect = |finished: Finished, code: i32, part: &str| {
        assert!(finished.err().contains(part), "{part}: {finished}");
        finished.expect(code);
        for index in [0, 1] {
            fleet.expect(index, OLD, old_program());
        }
    };
    expect(fleet.upgrade(&release, &[]), 1, "set `upgrades = true` in its configuration");
    expect(fleet.upgrade(&release, &["w9"]), 2, "no worker is named `w9`");
    let other = fleet.release("other", "riscv64-unknown-linux-gnu", script);
    expect(fleet.upgrade(&other, &["w0"]), 1, &format!("buildpool-{NEW}-{}.tar.gz", target()));
    expect(fleet.upgrade(&fleet.pool.place().home(), &["w0"]), 2, "SHA256SUMS can't be read");
    let archive = release.join(format!("buildpool-{NEW}-{}.tar.gz", target()));
    let mut bytes = fs::read(&archive).unwrap();
    bytes[20] ^= 1;
    fs::write(&archive, bytes).unwrap();
    expect(fleet.upgrade(&release, &["w0"]), 2, "SHA256SUMS states");
    let created = fleet.pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada", "--json"]);
    let token = created.expect(0).json()["token"].as_str().unwrap().to_owned();
    let good = fleet.release("good", &target(), script);
    expect(
        fleet.upgrade(&good, &["w0", "--token", &token]),
        1,
        "needs an admin token; `ada` has role submit",
    );
}

#[test]
fn a_program_that_fails_its_checks_does_not_take_the_place_of_the_old_one() {
    let fleet = Fleet::start(2);
    let script = |text: &str| format!("#!/bin/sh\nif [ \"$1\" = --version ]; then {text}; exit; fi\n");
    let version = script(&format!("echo buildpool {NEW}"));
    let cases = [
        (
            "wrong version",
            script("echo buildpool 0.0.1"),
            "should print `buildpool 9.9.9`; it exited with 0; its last line: buildpool 0.0.1",
        ),
        ("no program", "#!/nowhere/sh\n".to_owned(), "does not start on this machine"),
        (
            "setting",
            format!("{version}echo 'unknown setting' >&2; exit 2\n"),
            "did not register with the coordinator: it exited with 2; its last line: unknown setting",
        ),
        ("quiet", format!("{version}exit 0\n"), "did not register with the coordinator: it exited with 0"),
        (
            "hangs",
            format!("{version}sleep 1000\n"),
            "did not register with the coordinator: it was ended after 3 s",
        ),
    ];
    let pid = fleet.pool.worker_pid(0);
    for (name, program, reason) in &cases {
        let release = fleet.release(name, &target(), program.as_bytes());
        let failed = fleet.upgrade(&release, &["--register-within", "3s"]);
        assert!(
            failed.err().contains(reason) && failed.err().contains("not upgraded yet: w1"),
            "{name}: {failed}"
        );
        failed.expect(1);
        fleet.expect(0, OLD, old_program());
        assert_eq!(fleet.worker(0)["upgrade"]["stage"], "failed", "{name}");
        assert_eq!(fleet.worker(1)["upgrade"], Value::Null, "{name}: the second one was left alone");
        assert_eq!(fleet.pool.worker_pid(0), pid);
    }
    // The coordinator's copy is damaged on its disk, so the program is sent again.
    let programs = fleet.pool.data("coordinator").join("transfer/programs");
    let (_, program, reason) = &cases[2];
    let stored = fs::read_dir(&programs).unwrap().map(|entry| entry.unwrap().path());
    let stored = stored.into_iter().find(|path| fs::read(path).unwrap() == program.as_bytes()).unwrap();
    fs::write(&stored, program.replace("unknown", "another")).unwrap();
    let release = fleet.pool.place().home().join(cases[2].0);
    let failed = fleet.upgrade(&release, &["w0"]).expect(1);
    assert!(failed.err().contains(reason), "{failed}");
    assert_eq!(fs::read(&stored).unwrap(), program.as_bytes());
    fleet.expect(0, OLD, old_program());

    let release = fleet.release("good", &target(), new_program());
    fleet.upgrade(&release, &[]).expect(0);
    for index in [0, 1] {
        fleet.expect(index, NEW, new_program());
        assert_eq!(fleet.worker(index)["upgrade"], Value::Null);
    }
}

#[test]
fn an_upgrade_goes_on_after_kills_of_the_worker_and_the_coordinator() {
    let mut fleet = Fleet::start(1);
    let home = fleet.pool.place().home();
    let program = WaitingProgram::new(&home);
    let release = fleet.release("release", &target(), program.script.as_bytes());
    let upgrade = fleet.begin(&release, &[]);
    wait_until("the program is checked", || program.starts("version").len() == 1);
    fleet.pool.kill_worker(0);
    fleet.start_again(0);
    wait_until("the program is checked again", || program.starts("version").len() == 2);
    fleet.pool.restart_coordinator();
    program.go("version");
    wait_until("the trial begins", || program.starts("trial").len() == 1);
    assert!(
        fs::read(fleet.program(0)).unwrap() == old_program(),
        "nothing is replaced before the trial passes"
    );
    fleet.pool.kill_worker(0);
    fleet.start_again(0);
    wait_until("the second trial begins", || program.starts("trial").len() == 2);
    fleet.pool.restart_coordinator();
    program.go("trial");
    finish(upgrade).expect(0);
    fleet.expect(0, NEW, program.script.as_bytes());
}

#[test]
fn a_worker_that_ends_during_an_upgrade_leaves_no_copy_and_no_process() {
    let mut fleet = Fleet::start(1);
    let program = WaitingProgram::new(&fleet.pool.place().home());
    let release = fleet.release("release", &target(), program.script.as_bytes());
    let mut upgrade = fleet.begin(&release, &[]);
    wait_until("the program is checked", || program.starts("version").len() == 1);
    upgrade.kill().unwrap();
    upgrade.wait().unwrap();
    fleet.pool.kill_worker(0);
    fleet.start_again(0);
    fleet.pool.buildpool(&["resume", "w0"]).expect(0);
    fleet.expect(0, OLD, old_program());

    program.go("version");
    let mut upgrade = fleet.begin(&release, &[]);
    wait_until("the trial begins", || program.starts("trial").len() == 1);
    upgrade.kill().unwrap();
    upgrade.wait().unwrap();
    signal(i32::try_from(fleet.pool.worker_pid(0)).unwrap(), Signal::SIGTERM);
    assert!(fleet.pool.wait_for_worker_end(0).success());
    assert!(
        !signal(program.starts("trial")[0], Signal::SIGCONT),
        "the worker waited for the end of the trial"
    );
    fleet.start_again(0);
    fleet.pool.buildpool(&["resume", "w0"]).expect(0);
    fleet.expect(0, OLD, old_program());
}

#[test]
fn another_order_does_not_replace_the_one_that_is_carried_out() {
    let fleet = Fleet::start(1);
    let home = fleet.pool.place().home();
    let program = WaitingProgram::new(&home);
    let release = fleet.release("release", &target(), program.script.as_bytes());
    let upgrade = fleet.begin(&release, &[]);
    wait_until("the worker reports the order", || fleet.worker(0)["upgrade"]["stage"] == "fetching");
    wait_until("the program is checked", || program.starts("version").len() == 1);
    let first = fleet.worker(0)["upgrade"].clone();
    let stored = fs::read_dir(fleet.pool.data("coordinator").join("transfer/programs")).unwrap();
    let stored: Vec<_> = stored.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let order = json!({
        "id": "00000000-0000-7000-8000-000000000001", "version": "9.9.8", "blake3": stored[0],
        "length": program.script.len(), "register_within": 60_000
    });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let token = fleet.pool.token();
        let mut peer = Peer::dial(fleet.pool.address(), "/v1/client", Some(token)).await.unwrap();
        let register = json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"});
        peer.send_json(&register).await;
        let answer = peer.receive().await.unwrap();
        assert_ne!(answer["type"], "error", "{answer}");
        peer.send_json(&json!({"type": "upgrade", "request": 1, "worker": "w0", "order": order})).await;
        let answer = peer.receive().await.unwrap();
        let text = answer.to_string();
        assert!(answer["type"] == "error" && text.contains("conflict"), "{answer}");
        assert!(text.contains(&format!("carries out another order, for version {NEW}")), "{answer}");
    });
    assert_eq!(fleet.worker(0)["upgrade"], first);
    // Another admin upgrades it to the same version.
    let second = fleet.begin(&release, &["--json"]);
    let drains = || {
        let audit = fleet.pool.buildpool(&["audit", "--json"]).expect(0).json();
        audit.as_array().unwrap().iter().filter(|entry| entry["action"] == "drain").count()
    };
    wait_until("the second command drains it too", || drains() == 2);
    program.go("version");
    program.go("trial");
    finish(upgrade).expect(0);
    let second = finish(second).expect(0).json();
    assert_eq!(second[0]["result"], "up_to_date", "another build of this version may run: {second}");
    fleet.expect(0, NEW, program.script.as_bytes());
    assert_eq!(program.starts("trial").len(), 1);
}

#[test]
fn a_command_that_finds_an_order_for_another_version_does_not_end_it() {
    let fleet = Fleet::start(2);
    let home = fleet.pool.place().home();
    let program = WaitingProgram::new(&home);
    let waiting = fleet.release("waiting", &target(), program.script.as_bytes());
    let (version, other) = ("9.9.8", program_of("9.9.8"));
    let release = fleet.release_of(version, "other", &target(), &other);
    let go = home.join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let run = fleet.pool.buildpool(&[
        "run",
        "--detach",
        "--no-snapshot",
        "--label",
        "name=w0",
        "--",
        "sh",
        "-c",
        &wait,
    ]);
    let job = run.expect(0).out().trim().to_owned();
    fleet.pool.wait_for_state(&job, "running");
    // Its plan states that w1 is not drained. The job on w0 holds it up.
    let second = fleet.begin_to(version, &release, &[]);
    wait_until("the second command drains w0", || fleet.worker(0)["draining"] == true);
    let first = fleet.begin(&waiting, &["w1"]);
    wait_until("w1 checks the first program", || program.starts("version").len() == 1);
    fs::write(&go, "").unwrap();
    let failed = finish(second);
    let part = format!("another command upgrades it to {NEW}");
    assert!(failed.err().contains(&part) && failed.err().contains("it stays drained for"), "{failed}");
    failed.expect(1);
    program.go("version");
    program.go("trial");
    finish(first).expect(0);
    fleet.expect(0, version, &other);
    fleet.expect(1, NEW, program.script.as_bytes());
    assert_eq!(program.starts("version").len(), 1, "one order");
}

#[test]
fn a_worker_that_is_resumed_before_its_order_is_not_upgraded() {
    let fleet = Fleet::start(1);
    let release = fleet.release("release", &target(), new_program());
    let go = fleet.pool.place().home().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let run = fleet.pool.buildpool(&["run", "--detach", "--no-snapshot", "--", "sh", "-c", &wait]);
    let job = run.expect(0).out().trim().to_owned();
    fleet.pool.wait_for_state(&job, "running");
    let upgrade = fleet.begin(&release, &[]);
    wait_until("the worker is drained", || fleet.worker(0)["draining"] == true);
    fleet.pool.buildpool(&["resume", "w0"]).expect(0);
    let failed = finish(upgrade);
    assert!(failed.err().contains("it was resumed before its program was replaced"), "{failed}");
    failed.expect(1);
    fs::write(&go, "").unwrap();
    fleet.pool.wait_for_state(&job, "done");
    fleet.expect(0, OLD, old_program());
}

#[test]
fn a_new_program_that_can_t_be_executed_after_the_rename_gives_its_place_back() {
    let fleet = Fleet::start(1);
    let real = fleet.pool.place().home().join("real");
    write_program(&real, new_program());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--upgrade-trial*) {0} \"$@\" && chmod 600 \"$0\"; exit;; esac\nexec {0} \"$@\"\n",
        real.display()
    );
    let release = fleet.release("release", &target(), script.as_bytes());
    let pid = fleet.pool.worker_pid(0);
    let failed = fleet.upgrade(&release, &[]);
    assert!(failed.err().contains("the new program can't be executed: Permission denied"), "{failed}");
    failed.expect(1);
    fleet.expect(0, OLD, old_program());
    assert_eq!(fleet.pool.worker_pid(0), pid);
}

// macOS has no setsid(1).
#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_should_end_between_the_trial_and_the_start_of_the_new_program_ends() {
    let mut fleet = Fleet::start(1);
    let home = fleet.pool.place().home();
    let (real, ready) = (home.join("real"), home.join("ready"));
    write_program(&real, new_program());
    // As soon as the worker has reaped the program of the trial, a process outside of its group stops all its threads,
    // records the file at its program's path, and sends SIGTERM. So the record shows whether that comes before the rename.
    let (path, found) = (fleet.program(0), home.join("found"));
    let inode = fs::metadata(&path).unwrap().ino();
    let after = format!(
        "touch {}; while kill -0 $0 2>/dev/null; do :; done; kill -STOP $1; \
         while grep -L \"^State:.T\" /proc/$1/task/*/status | grep -q .; do :; done; \
         stat -c %i {} > {}; kill -TERM $1; kill -CONT $1",
        ready.display(),
        path.display(),
        found.display()
    );
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--upgrade-trial*) {0} \"$@\" || exit; setsid sh -c '{after}' $$ $PPID <&- >&- 2>&- & \
         while [ ! -e {1} ]; do sleep 0.01; done; exit 0;; esac\nexec {0} \"$@\"\n",
        real.display(),
        ready.display()
    );
    let release = fleet.release("release", &target(), script.as_bytes());
    let mut upgrade = fleet.begin(&release, &[]);
    let ended = fleet.pool.wait_for_worker_end(0);
    upgrade.kill().unwrap();
    upgrade.wait().unwrap();
    let is_before_rename = fs::read_to_string(&found).unwrap().trim() == inode.to_string();
    let log = fleet.pool.log_text("w0");
    let is_read = log.contains("the upgrade ends, because the worker should end");
    let (version, program) = if is_before_rename {
        let expected = if is_read { None } else { Some(Signal::SIGTERM as i32) };
        assert!(ended.signal() == expected && (ended.success() || !is_read), "{ended}: {log}");
        assert!(fs::read(&path).unwrap() == old_program(), "the program was replaced after SIGTERM: {log}");
        (OLD, old_program())
    } else {
        // On a slow machine, the new program may have begun. Then it ends by the signal, or drains.
        assert!(
            !is_read && (ended.success() || ended.signal() == Some(Signal::SIGTERM as i32)),
            "{ended}: {log}"
        );
        (NEW, script.as_bytes())
    };
    fleet.start_again(0);
    fleet.pool.buildpool(&["resume", "w0"]).expect(0);
    fleet.expect(0, version, program);
}

#[test]
fn another_leader_that_lacks_the_program_gets_it() {
    let Some(postgres) = Postgres::start() else { return };
    let database = postgres.database();
    let cluster = Cluster::start(&[database.clone(), database], 0);
    let mut fleet = Fleet { pool: Coordinators::Several(cluster) };
    fleet.add(true);
    fleet.pool.wait_for_workers();
    let program = WaitingProgram::new(&fleet.pool.place().home());
    let release = fleet.release("release", &target(), program.script.as_bytes());
    let upgrade = fleet.begin(&release, &[]);
    wait_until("the program is checked", || program.starts("version").len() == 1);
    fleet.pool.kill_worker(0);
    if let Coordinators::Several(cluster) = &mut fleet.pool {
        let old = cluster.leader();
        cluster.kill(old);
        cluster.leader_after(old);
    }
    fleet.start_again(0);
    program.go("version");
    program.go("trial");
    finish(upgrade).expect(0);
    fleet.expect(0, NEW, program.script.as_bytes());
}
