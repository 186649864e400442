//! Tests of the local pool: started on demand, found by all commands, stopped when idle.

use buildpool_client::local::{IDLE_VARIABLE, Lock};
use buildpool_tests::{Finished, Place, STRANGER, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.local_pool().log_file()).unwrap()
}

fn starts(place: &Place) -> usize {
    log(place).matches("the local pool listens").count()
}

fn kill_pool(place: &Place) {
    let pid = place.local_pool_pid().unwrap().cast_signed();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn ten_commands_at_once_start_one_pool() {
    let place = Place::new();
    let children: Vec<_> = (0..10)
        .map(|number| {
            let text = format!("echo {number}");
            place
                .command(["run", "--", "sh", "-c", &text])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (number, child) in children.into_iter().enumerate() {
        let ended = Finished::from(child.wait_with_output().unwrap()).expect(0);
        // On a slow machine, commands behind the others print that they wait.
        let said: Vec<_> = ended
            .err()
            .lines()
            .filter(|line| !line.starts_with("buildpool: waiting: "))
            .map(str::to_owned)
            .collect();
        assert_eq!((ended.out(), said), (format!("{number}\n"), Vec::new()));
    }
    assert_eq!(starts(&place), 1, "{}", log(&place));
    assert_eq!(place.buildpool(&["jobs", "--json"]).json().as_array().unwrap().len(), 10);
}

#[test]
fn a_pool_that_died_is_replaced_and_what_it_knew_is_there() {
    let place = Place::new();
    place.shell("echo one").expect(0);
    let first = place.local_pool_pid().unwrap();
    kill_pool(&place);
    assert_eq!(place.shell("echo two").expect(0).out(), "two\n");
    assert_ne!(place.local_pool_pid().unwrap(), first);
    let jobs = place.buildpool(&["jobs", "--json"]).json();
    assert_eq!(jobs.as_array().unwrap().len(), 2);
    let oldest = jobs[1]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(place.buildpool(&["logs", &oldest]).expect(0).out(), "one\n");
}

#[test]
fn a_run_outlives_its_pool_and_loses_nothing() {
    let place = Place::new();
    let text = "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 9";
    let mut child = place.command(["run", "--", "sh", "-c", text]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut before = [0; 7];
    stdout.read_exact(&mut before).unwrap();
    kill_pool(&place);
    std::fs::write(place.file("go"), "").unwrap();
    let mut after = String::new();
    stdout.read_to_string(&mut after).unwrap();
    assert_eq!((after.as_str(), child.wait().unwrap().code()), ("after\n", Some(9)));
}

#[test]
fn an_idle_pool_ends_and_the_next_command_starts_another() {
    let mut place = Place::new();
    place.set(IDLE_VARIABLE, "0");
    place.shell("echo one").expect(0);
    let pool = place.local_pool();
    wait_until("the idle pool ends", || Lock::take(&pool).unwrap().is_some());
    assert_eq!(pool.published().unwrap(), None);
    assert_eq!(place.shell("echo two").expect(0).out(), "two\n");
    assert_eq!(starts(&place), 2, "{}", log(&place));
}

#[test]
fn nobody_takes_the_pools_own_tokens_from_it() {
    let place = Place::new();
    place.shell("true").expect(0);
    let tokens = place.buildpool(&["token", "list", "--json"]).expect(0).json();
    let own = tokens.as_array().unwrap().iter().find(|token| token["name"] == "local").unwrap();
    for which in ["local", "local-worker", own["id"].as_str().unwrap()] {
        for action in ["revoke", "rotate"] {
            let refused = place.buildpool(&["token", action, which]).expect(1);
            assert!(refused.err().contains("the local pool's own"), "{refused}");
        }
    }
    place.buildpool(&["token", "create", "--role", "submit", "--name", "mine"]).expect(0);
    place.buildpool(&["token", "revoke", "mine"]).expect(0);
    assert_eq!(place.shell("echo on").expect(0).out(), "on\n");
    assert_eq!(starts(&place), 1, "{}", log(&place));
}

#[test]
fn a_process_that_takes_over_the_port_of_a_dead_pool_receives_no_token() {
    let place = Place::new();
    place.shell("true").expect(0);
    let (pool, published) = (place.local_pool(), place.local_pool().published().unwrap().unwrap());
    kill_pool(&place);
    wait_until("the pool is gone", || !pool.is_running().unwrap());
    let listener = TcpListener::bind(("127.0.0.1", published.url.port())).unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut received = Vec::new();
        // This ends with the timeout, because the client waits for an answer.
        let _ = stream.read_to_end(&mut received);
        received
    });
    assert_eq!(place.shell("echo on").expect(0).out(), "on\n");
    let received = stranger.join().unwrap();
    // A TLS record of type handshake (RFC 8446, section 5.1).
    assert_eq!(received.first(), Some(&22), "{received:?}");
    let (text, token) = (String::from_utf8_lossy(&received), published.token.expose().to_owned());
    assert!(token.split('_').skip(1).all(|part| !text.contains(part)), "{text}");
}

#[test]
fn the_doctor_tells_a_pool_that_shuts_its_user_out_from_one_that_has_died() {
    let place = Place::new();
    place.shell("true").expect(0);
    let (pool, pid) = (place.local_pool(), place.local_pool_pid().unwrap());
    let file = pool.directory().join("endpoint.json");
    let mut endpoint: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let (_, fingerprint) = endpoint["token"].as_str().unwrap().rsplit_once('_').unwrap();
    endpoint["token"] = format!("{STRANGER}_{fingerprint}").into();
    std::fs::write(&file, endpoint.to_string()).unwrap();
    let shut_out = place.buildpool(&["doctor"]).expect(1);
    assert!(shut_out.out().contains("does not accept the token"), "{shut_out}");
    assert!(shut_out.out().contains(&format!("`kill {pid}`")), "{shut_out}");
    kill_pool(&place);
    wait_until("the pool is gone", || !pool.is_running().unwrap());
    let died = place.buildpool(&["doctor"]).expect(0);
    assert!(died.out().contains("the local pool has died"), "{died}");
    assert_eq!(place.shell("echo on").expect(0).out(), "on\n");
}

#[test]
fn a_pool_with_a_running_job_is_not_idle() {
    let mut place = Place::new();
    place.set(IDLE_VARIABLE, "0");
    let text = "while [ ! -e go ]; do sleep 0.05; done";
    let id = place.buildpool(&["run", "--detach", "--", "sh", "-c", text]).expect(0).out().trim().to_owned();
    let pid = place.local_pool_pid().unwrap();
    // Longer than the pool takes to detect that it is idle.
    place.shell("sleep 2").expect(0);
    assert_eq!(place.local_pool_pid(), Some(pid));
    std::fs::write(place.file("go"), "").unwrap();
    let result = place.buildpool(&["job", &id, "--wait", "1m", "--json"]).expect(0).json();
    assert_eq!(result["verdict"], "passed");
}

#[test]
fn the_pool_keeps_nothing_open_that_its_starter_had() {
    let place = Place::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    // A descriptor that every child of this test inherits, as with a script's `exec 5>…`.
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(writer.as_fd(), flags).unwrap();
    place.shell("true").expect(0);
    drop(writer);
    let mut read = Vec::new();
    // This would block while any process has the other end open.
    reader.read_to_end(&mut read).unwrap();
    assert!(place.local_pool_pid().is_some());
}

#[test]
fn a_directory_that_can_not_be_used_is_named() {
    let mut place = Place::new();
    std::fs::write(place.file("file"), "").unwrap();
    let directory = place.file("file/pool");
    place.set("BUILDPOOL_LOCAL_DIR", directory.to_str().unwrap());
    let ended = place.shell("true").expect(125);
    assert!(ended.err().contains(directory.to_str().unwrap()), "{ended}");
}

#[test]
fn commands_that_look_after_a_pool_start_none() {
    let place = Place::new();
    for words in [
        &["token", "list"][..],
        &["token", "create", "--role", "submit", "--name", "ada"],
        &["token", "rotate", "ada"],
        &["token", "revoke", "ada"],
        &["audit"],
        &["workers"],
        &["workers", "approve", "mac-1"],
        &["workers", "forget", "mac-1"],
        &["drain", "mac-1"],
        &["resume", "mac-1"],
    ] {
        let refused = place.buildpool(words).expect(125);
        assert!(
            refused.err().contains("local pool does not run; name a coordinator by --coordinator"),
            "{refused}"
        );
        assert_eq!(place.local_pool_pid(), None, "{words:?}");
        let named = place.buildpool(&[words, &["--coordinator", "local"]].concat()).expect(125);
        assert!(named.err().contains("local pool does not run"), "{named}");
    }
    place.shell("true").expect(0);
    let workers = place.buildpool(&["workers"]).expect(0);
    assert!(workers.err().contains("using this user's local pool (no coordinator is named)"), "{workers}");
}

#[test]
fn a_command_prints_which_pool_it_uses_unless_its_command_line_names_it() {
    let mut place = Place::new();
    let job = place.buildpool(&["run", "--detach", "--", "true"]).expect(0);
    assert_eq!(job.err(), "", "a job's own bytes go to stderr here");
    let published = place.local_pool().published().unwrap().unwrap();
    let url = published.url.to_string();
    let named = ["jobs", "--coordinator", &url, "--token", published.token.expose()];
    assert!(!place.buildpool(&named).expect(0).err().contains("using "));
    assert!(!place.buildpool(&["jobs", "--coordinator", "local"]).expect(0).err().contains("using "));
    let config = place.home().join("config/buildpool/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    let text = format!("coordinator = \"{url}\"\ntoken = \"{}\"\n", published.token.expose());
    std::fs::write(&config, text).unwrap();
    let of_file = place.buildpool(&["jobs"]).expect(0).err();
    assert_eq!(of_file, format!("buildpool: using {url} (`coordinator` in {})\n", config.display()));
    place.set("BUILDPOOL_URL", "local");
    let of_variable = place.buildpool(&["jobs"]).expect(0).err();
    assert_eq!(of_variable, "buildpool: using this user's local pool (BUILDPOOL_URL)\n");
}
