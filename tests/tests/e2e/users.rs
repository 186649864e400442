//! Tests of jobs that run as separate users: isolation, complete end of their processes, and warm
//! workspaces for the next user.

use buildpool_tests::{Pool, PoolBuilder, wait_until};
use nix::unistd::{Uid, User};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Users that exist on Debian and related systems and run no processes.
const USERS: [&str; 2] = ["daemon", "bin"];

/// Starts a pool with a worker that has one user per slot, for two slots. Prints a message and
/// returns `None` if that is not possible.
fn pool() -> Option<Pool> {
    let is_there = |name: &&str| User::from_name(name).is_ok_and(|user| user.is_some());
    if !cfg!(target_os = "linux") || !Uid::effective().is_root() || !USERS.iter().all(is_there) {
        eprintln!("SKIPPED: only root on Linux can run jobs as other users");
        return None;
    }
    let mut pool = PoolBuilder::default().start();
    // The job users must be able to pass the directories above their files.
    let top = pool.place().home().parent().unwrap().to_owned();
    std::fs::set_permissions(top, std::fs::Permissions::from_mode(0o711)).unwrap();
    let words = ["--isolation", "user", "--slots", "2", "--job-user", USERS[0], "--job-user", USERS[1]];
    pool.add_worker(words.map(str::to_owned).to_vec());
    pool.wait_for_workers();
    Some(pool)
}

/// Starts a job that waits for `go`. Returns its id and its first line after the line is printed.
fn held(pool: &Pool, options: &[&str], text: &str, go: &Path) -> (String, String) {
    let text = format!("{text}; while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let mut words = vec!["run", "--detach"];
    words.extend(options);
    words.extend(["--", "sh", "-c", &text]);
    let job = pool.buildpool(&words).expect(0).out().trim().to_owned();
    let line = buildpool_tests::wait_for("its first line", || {
        let out = pool.buildpool(&["logs", &job]).out();
        out.contains('\n').then(|| out.lines().next().unwrap().to_owned())
    });
    (job, line)
}

#[test]
fn a_job_reaches_neither_the_worker_nor_the_job_beside_it() {
    let Some(pool) = pool() else { return };
    // A directory where the jobs can check if they may continue.
    let signs = pool.place().home().join("signs");
    std::fs::create_dir(&signs).unwrap();
    let go = signs.join("go");
    let (other, place) = held(&pool, &["--no-snapshot"], "umask 022; echo private > mine; pwd", &go);
    let (worker, pid) = (pool.data("w0"), pool.worker_pid(0));
    let data = worker.display();
    let id = std::fs::read_to_string(worker.join("worker-id")).unwrap();
    // Every path exists, so the shell's message shows if a permission was missing.
    let attacks = [
        format!("cat {data}/worker-id"),
        format!("cat {data}/keepers.log"),
        format!("ls {data}"),
        format!("ls {data}/attempts"),
        format!("cat {place}/../log"),
        format!("cat {place}/mine"),
        format!("echo x > {place}/mine"),
        "tr '\\0' '\\n' < /proc/$PPID/environ".to_owned(),
        "cat /proc/$PPID/mem".to_owned(),
        "kill -STOP $PPID".to_owned(),
        format!("tr '\\0' '\\n' < /proc/{pid}/environ"),
        format!("kill -9 {pid}"),
        format!("touch {data}/x"),
        format!("cat {}", pool.data("coordinator").join("auth.db").display()),
    ];
    for attack in &attacks {
        let done = pool.shell(attack);
        assert_ne!(done.code(), 0, "{attack}\n{done}");
        let said = format!("{}{}", done.out(), done.err());
        let is_refused =
            ["Permission denied", "not permitted", "cannot open"].iter().any(|word| said.contains(word));
        assert!(is_refused, "{attack}\n{done}");
        assert!(!said.contains(id.trim()) && !said.contains("private"), "{attack}\n{done}");
    }
    // The user's home directory in the trust class of the submitter, and its own.
    let own = "id -un; test -O $HOME && echo ${HOME%/homes/*}/homes ${HOME##*/} $USER; sed -n 's/NoNewPrivs:\\t//p' /proc/self/status; pwd > made && cat made | wc -l; echo x > /dev/stdout; exit 7";
    let done = pool.shell(own).expect(7);
    let wanted = format!("{0}\n{data}/homes {0} {0}\n1\n1\nx\n", USERS[1]);
    assert_eq!(done.out(), wanted, "the first user is the other job's: {done}");
    pool.buildpool(&["run", "--no-snapshot", "--", "no-such-program"]).expect(127);
    let killed = pool.buildpool(&["run", "--no-snapshot", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code(), 137, "its death by a signal is seen as such: {killed}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&other, "done")["verdict"], "passed");
}

#[test]
fn variables_of_a_job_come_to_it_and_not_to_what_starts_it() {
    let Some(pool) = pool() else { return };
    let mut command = pool.command(&["run", "--no-snapshot", "--env", "LD_PRELOAD=/nowhere/evil.so"]);
    command.args(["--env", "SHOWN=line one\nline two", "--secret", "HIDDEN", "--", "sh", "-c"]);
    command.arg("echo \"$SHOWN\"; test \"$HIDDEN\" = value && echo has it; env | grep -c BUILDPOOL_; ls /proc/self/fd | wc -l");
    let done = buildpool_tests::Finished::from(command.env("HIDDEN", "value").output().unwrap()).expect(0);
    // Three standard descriptors and the descriptor of the listing.
    assert_eq!(done.out(), "line one\nline two\nhas it\n2\n4\n", "{done}");
    // The loader complains once per program: two shells, env, grep, ls and wc, and no program
    // before them.
    assert_eq!(done.err().matches("LD_PRELOAD").count(), 6, "{done}");
}

#[test]
fn a_tree_of_another_user_s_processes_ends_whole() {
    let Some(pool) = pool() else { return };
    // It leaves its session and ignores signals.
    let text = "setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 1; done' > left & while [ ! -s left ]; do sleep 0.01; done; cat left";
    let done = pool.shell(text);
    let pid: u32 = done.out().trim().parse().unwrap_or_else(|_| panic!("{done}"));
    let user = User::from_name(USERS[0]).unwrap().unwrap();
    let is_left =
        std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|entry| entry.uid() == user.uid.as_raw());
    assert!(!is_left, "{done}");
    let (job, _) = held(&pool, &["--no-snapshot"], "echo runs", Path::new("/nowhere/go"));
    pool.buildpool(&["cancel", &job]).expect(0);
    let ended = pool.wait_for_state(&job, "done");
    assert_eq!((&ended["verdict"], ended.get("survivors")), (&"cancelled".into(), None));
}

#[test]
fn a_warm_workspace_goes_to_the_next_user_and_is_closed_to_the_one_before() {
    let Some(pool) = pool() else { return };
    let work = pool.place().work();
    std::fs::write(work.join(".gitignore"), "built\n").unwrap();
    std::fs::write(work.join("file"), "first").unwrap();
    for line in ["init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m first"] {
        let done = Command::new("git").args(line.split(' ')).current_dir(&work).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let run = |text: &str| pool.buildpool(&["run", "--", "sh", "-c", text]);
    let first =
        run("umask 077; id -un; echo warm > built; pwd; git show HEAD:file; ln -s /etc link; echo x >> file");
    let first = first.expect(0);
    let lines: Vec<String> = first.out().lines().map(str::to_owned).collect();
    assert_eq!((lines[0].as_str(), lines[2].as_str()), (USERS[0], "first"), "{first}");
    let signs = pool.place().home().join("signs");
    std::fs::create_dir(&signs).unwrap();
    let go = signs.join("go");
    let (blocker, _) = held(&pool, &["--no-snapshot"], "echo runs", &go);
    let second =
        run("id -un; cat built; pwd; cat file; echo; echo more >> built; git status --porcelain").expect(0);
    let again: Vec<String> = second.out().lines().map(str::to_owned).collect();
    assert_eq!(again[0], USERS[1], "{second}");
    assert_eq!(again[1..], ["warm", lines[1].as_str(), "first"], "the same place, tidied: {second}");
    std::fs::write(&go, "").unwrap();
    pool.wait_for_state(&blocker, "done");
    let looked = pool.shell(&format!("id -un; cat {}/built", lines[1]));
    assert!(looked.code() != 0 && !looked.out().contains("warm"), "{looked}");
}

#[test]
fn jobs_that_run_are_found_again_with_their_users() {
    let Some(mut pool) = pool() else { return };
    let signs = pool.place().home().join("signs");
    std::fs::create_dir(&signs).unwrap();
    let go = signs.join("go");
    let (job, user) = held(&pool, &["--no-snapshot"], "id -un", &go);
    assert_eq!(user, USERS[0]);
    pool.kill_worker(0);
    pool.start_worker(0);
    pool.wait_for_workers();
    let beside = pool.shell("id -un").expect(0);
    assert_eq!(beside.out().trim(), USERS[1], "the first one is still taken");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "passed");
}

#[test]
fn a_worker_that_can_t_keep_its_promise_does_not_start() {
    let Some(pool) = pool() else { return };
    let data = pool.place().home().join("other");
    let closed = pool.place().home().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let refused = |data: &Path, words: &[&str], reason: &str| {
        let mut command = pool.command(&["worker", "--no-tools", "--isolation", "user", "--data-dir"]);
        let done: buildpool_tests::Finished = command.arg(data).args(words).output().unwrap().into();
        assert!(done.code() == 2 && done.err().contains(reason), "{done}");
    };
    refused(&data, &["--slots", "2", "--job-user", "daemon"], "one user a slot");
    refused(&data, &["--job-user", "root"], "has root's rights");
    refused(&data, &["--job-user", "daemon", "--token", "bp_1_2"], "on the worker's command line");
    refused(&closed.join("data"), &["--job-user", "daemon"], "can't enter");
    // A job's user can read and replace files that it owns, independent of their mode.
    let owner = User::from_name("daemon").unwrap().unwrap();
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(owner.uid.as_raw()), None).unwrap();
    let etc = pool.place().home().join("etc");
    std::fs::create_dir(&etc).unwrap();
    std::fs::write(etc.join("worker.token"), pool.worker_token()).unwrap();
    std::fs::write(etc.join("worker.toml"), "token_file = \"worker.token\"\n").unwrap();
    for file in ["worker.token", "worker.toml"] {
        std::fs::set_permissions(etc.join(file), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let config = etc.join("worker.toml");
    let words = ["--job-user", "daemon", "--config", config.to_str().unwrap()];
    for stolen in [etc.join("worker.token"), etc.clone()] {
        give(&stolen);
        refused(&data, &words, &format!("`daemon` could change {}", stolen.display()));
        std::os::unix::fs::chown(&stolen, Some(0), None).unwrap();
    }
    std::fs::create_dir(&data).unwrap();
    give(&data);
    refused(&data, &words, &format!("`daemon` could change {}", data.display()));
    let mut plain = pool.command(&["worker", "--no-tools", "--job-user", "daemon", "--data-dir"]);
    let done: buildpool_tests::Finished = plain.arg(&data).output().unwrap().into();
    assert!(done.code() == 2 && done.err().contains("isolation = \"user\""), "{done}");
}

/// Without isolation, a job of the worker's own user cannot read the worker's memory or variables.
#[test]
fn the_worker_s_processes_are_closed_to_others_of_their_user() {
    let nobody = User::from_name("nobody").unwrap();
    let Some(nobody) = nobody.filter(|_| cfg!(target_os = "linux") && Uid::effective().is_root()) else {
        eprintln!("SKIPPED: only root on Linux can start a worker as another user");
        return;
    };
    let pool = PoolBuilder::default().start();
    let top = pool.place().home().parent().unwrap().to_owned();
    std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o711)).unwrap();
    let data = pool.place().home().join("w");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    // A copy, because other users may have no access to the build directory.
    let program = pool.place().home().join("buildpool");
    std::fs::copy(buildpool_tests::binary(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["worker", "--no-tools", "--name", "w", "--coordinator", pool.url(), "--data-dir"]);
    command.arg(&data).env_clear().env("PATH", "/usr/bin:/bin").env("BUILDPOOL_TOKEN", pool.worker_token());
    command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw()).current_dir("/");
    let mut worker = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it is connected", || {
        pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"] == true
    });
    let text = format!(
        "id -un; for pid in {} $PPID; do for file in environ mem maps; do
            refusal=$(head -c 1 /proc/$pid/$file 2>&1 >/dev/null)
            case $refusal in *'Permission denied'*) echo closed ;; *) echo \"$file: $refusal\" ;; esac
        done; done",
        worker.id()
    );
    let done = pool.shell(&text);
    worker.kill().unwrap();
    worker.wait().unwrap();
    let done = done.expect(0);
    assert_eq!(done.out(), format!("nobody\n{}", "closed\n".repeat(6)), "{done}");
}

#[test]
fn a_fork_bomb_ends_at_the_limit_of_its_job_and_the_worker_stays_usable() {
    let Some(mut pool) = pool() else { return };
    let data = pool.place().home().join("limits");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let config = data.join("worker.toml");
    std::fs::write(&config, "processes_max = 40\n").unwrap();
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).unwrap();
    pool.kill_worker(0);
    let words = ["--isolation", "user", "--job-user", USERS[0], "--config", config.to_str().unwrap()];
    pool.set_worker_arguments(0, &words);
    pool.start_worker(0);
    pool.wait_for_workers();
    // The limit is hard: the job can't raise it.
    let bomb = "ulimit -u unlimited 2> /dev/null; i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done";
    let ended = pool.shell(bomb);
    assert!(ended.code() != 0 && ended.err().to_lowercase().contains("fork"), "{ended}");
    assert_eq!(pool.shell("echo well").expect(0).out(), "well\n");
}
