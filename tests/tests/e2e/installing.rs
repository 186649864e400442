//! Tests of worker installation from a token, and of an upgrade under a running job.

use buildpool_tests::{Finished, Place, Pool, wait_until};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn written(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the join text and the arguments of the command that `token create` prints.
fn joining(printed: &str) -> (String, Vec<&str>) {
    let line = printed.lines().find_map(|line| line.split_once("to join: run `buildpool ")).unwrap().1;
    let (command, join) = line.split_once("` on the worker's machine and paste this line: ").unwrap();
    (join.trim().to_owned(), command.split_whitespace().collect())
}

#[test]
fn one_line_from_the_coordinator_makes_a_worker_with_the_labels_of_its_tools() {
    let pool = Pool::start(0);
    let created = pool.buildpool(&["token", "create", "--role", "worker", "--name", "mac-1"]).expect(0);
    let line = created.err();
    let (join, mut words) = joining(&line);
    words.pop();
    words.push(&join);
    let root = pool.place().home().join("root");
    let mut all = words.clone();
    all.extend(["--system", "--init", "systemd", "--root", root.to_str().unwrap()]);
    let installed: Finished = pool.buildpool(&all).expect(0);
    assert!(installed.out().contains("systemctl enable --now buildpool-worker"), "{installed}");
    assert!(installed.err().contains("warning: the command line contains a token"), "{installed}");
    assert!(
        installed.err().contains("isolation is `none`") && installed.err().contains("one trust domain"),
        "{installed}"
    );
    let unit = written(&root.join("etc/systemd/system/buildpool-worker.service"));
    assert!(unit.contains(" worker --config /etc/buildpool/worker.toml\n"), "the rest is the file's: {unit}");
    let (config, token) = (root.join("etc/buildpool/worker.toml"), root.join("etc/buildpool/worker.token"));
    for file in [&config, &token] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", file.display());
    }
    assert_eq!(written(&token).trim(), created.out().trim());
    // The files are below another root here, so the test starts the unit's command itself.
    let here = written(&config).replace("/etc/buildpool/", root.join("etc/buildpool/").to_str().unwrap());
    // A tool that only jobs find, in the `PATH` that is configured for them.
    let tool = pool.place().home().join("tools/rustc");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho 'rustc 9.8.7 (x)'\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tool.parent().unwrap().display());
    std::fs::write(&config, format!("{here}[env]\nPATH = \"{path}\"\n")).unwrap();
    let data = pool.place().home().join("mac-1");
    let mut command = pool.place().command(["worker", "--name", "mac-1", "--config"]);
    command.arg(&config).arg("--data-dir").arg(&data).env_remove("BUILDPOOL_TOKEN").stderr(Stdio::null());
    let _worker = Daemon(command.spawn().unwrap());
    wait_until("it has joined", || {
        pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["connected"] == true
    });
    let labels = pool.buildpool(&["workers", "--json"]).expect(0).json()[0]["labels"].clone();
    assert_eq!(labels["os"], std::env::consts::OS);
    let git = labels["git"].as_str().unwrap().to_owned();
    let ran = pool.buildpool(&["run", "--no-snapshot", "--label", &format!("git={git}"), "--", "true"]);
    ran.expect(0);
    let ran = pool.buildpool(&["run", "--no-snapshot", "--label", "rust=9.8.7", "--", "rustc", "--version"]);
    assert_eq!(ran.expect(0).out(), "rustc 9.8.7 (x)\n");
    let doctor = pool.buildpool(&["doctor", "--worker", config.to_str().unwrap()]);
    assert!(doctor.out().contains(&format!("git={git}")) && doctor.out().contains("rust=9.8.7"), "{doctor}");
}

#[test]
fn joining_again_changes_the_coordinator_and_the_token_and_nothing_else() {
    let pool = Pool::start(0);
    let root = pool.place().home().join("root");
    let join = |token: &str| {
        let join = format!("{}#{token}", pool.url());
        let words = ["install", "worker", "--system", "--write", "--init", "systemd", "--join", &join];
        pool.buildpool(&[&words[..], &["--root", root.to_str().unwrap()]].concat())
    };
    let (config, token) = (root.join("etc/buildpool/worker.toml"), root.join("etc/buildpool/worker.token"));
    join(pool.worker_token()).expect(0);
    let first = written(&config);
    let own = first.replace("slots = 1", "slots = 3 # ours\nisolation = \"bubblewrap\"\nhidden = [\"/etc\"]");
    let own = own.replace("/var/lib/buildpool-worker", "/srv/pool") + "[labels]\ngpu = \"a100\"\n";
    std::fs::write(&config, own.replace(pool.url(), "ws://127.0.0.1:1")).unwrap();
    let chosen = |options: &[&str], root: &Path| {
        let join = format!("{}#{}", pool.url(), pool.worker_token());
        let words =
            ["install", "worker", "--system", "--write", "--init", "systemd", "--join", &join, "--root"];
        pool.buildpool(&[&words[..], &[root.to_str().unwrap()], options].concat())
    };
    let refused = chosen(&["--isolation", "none"], &root).expect(2);
    assert!(refused.err().contains("worker.toml exists; set `isolation` there"), "{refused}");
    let other = pool.place().home().join("other");
    let refused = chosen(&["--isolation", "user"], &other).expect(2);
    assert!(refused.err().contains("--job-user NAME for each slot") && !other.exists(), "{refused}");
    chosen(&["--isolation", "user", "--job-user", "job-1"], &other).expect(0);
    let isolated = written(&other.join("etc/buildpool/worker.toml"));
    assert!(isolated.contains("isolation = \"user\"\njob_users = [\"job-1\"]\n"), "{isolated}");
    let created = pool.buildpool(&["token", "create", "--role", "worker", "--name", "again"]).expect(0);
    let again = join(created.out().trim()).expect(0);
    assert_eq!(written(&config), own);
    assert_eq!(written(&token), created.out());
    assert!(again.err().contains("worker.toml was there: coordinator changed, and the token in"), "{again}");
    let unit = written(&root.join("etc/systemd/system/buildpool-worker.service"));
    assert!(unit.contains("/worker.toml\n") && unit.contains("ReadWritePaths=/srv/pool\n"), "{unit}");
    std::fs::write(&config, "slots = \n").unwrap();
    let refused = join(pool.worker_token()).expect(2);
    assert!(refused.err().contains("worker.toml is there and can't be read"), "{refused}");
    assert_eq!((written(&config).as_str(), written(&token)), ("slots = \n", created.out()));
}

#[test]
fn a_data_directory_that_a_configuration_names_is_where_a_service_has_its_data() {
    let place = Place::new();
    for (part, system) in [("worker", true), ("coordinator", true), ("worker", false), ("coordinator", false)]
    {
        let file = place.home().join(format!("{part}.toml"));
        let mut words = vec!["install", part, "--config", file.to_str().unwrap()];
        words.extend(system.then_some("--system"));
        for init in ["systemd", "launchd"] {
            let run = |more: &[&str]| {
                place.buildpool(&[&words[..], &["--init", init], more].concat()).expect(0).out()
            };
            std::fs::write(&file, "data_dir = \"/srv/pool-data\"\n").unwrap();
            let text = run(&[]);
            assert!(!text.contains("--data-dir"), "{part} {system}: {text}");
            assert_eq!(text.contains("ReadWritePaths=/srv/pool-data"), system && init == "systemd", "{text}");
            assert_eq!(text.contains("/srv/pool-data/log.txt"), init == "launchd", "{text}");
            let text = run(&["--data-dir", "/srv/other"]);
            assert!(text.contains("--data-dir") && text.contains("/srv/other"), "the prompts: {text}");
            std::fs::write(&file, "slots = 1\n").unwrap();
            let is_made = system && init == "systemd";
            assert_eq!(run(&[]).contains("--data-dir"), !is_made, "{part}: systemd tells its service");
        }
    }
}

#[test]
fn one_line_joins_a_coordinator_with_a_certificate_of_one_s_own() {
    let place = buildpool_tests::Place::new();
    let directory = place.home().join("etc");
    std::fs::create_dir_all(&directory).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    let certificate = directory.join("own.pem");
    std::fs::write(&certificate, made.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    let config = directory.join("coordinator.toml");
    let data = place.home().join("coordinator");
    let text = format!(
        "listen = \"127.0.0.1:0\"\ndata_dir = \"{}\"\ntls_cert = \"own.pem\"\ntls_key = \"key.pem\"\n",
        data.display()
    );
    std::fs::write(&config, text).unwrap();
    let log = std::fs::File::create(place.home().join("coordinator.log")).unwrap();
    let mut coordinator = place.command(["coordinator", "--config"]);
    let _coordinator = Daemon(coordinator.arg(&config).stderr(log).spawn().unwrap());
    let url = data.join("url");
    wait_until("it listens", || std::fs::read_to_string(&url).is_ok_and(|text| text.contains("://")));
    let create = |role: &str| {
        let mut command = place.command(["token", "create", "--role", role, "--name", role, "--config"]);
        Finished::from(command.arg(&config).output().unwrap()).expect(0)
    };
    let (worker, admin) = (create("worker"), create("admin").out().trim().to_owned());
    // The data directory alone selects the same certificate.
    let by_data =
        ["token", "create", "--role", "worker", "--name", "w2", "--data-dir", data.to_str().unwrap()];
    let by_data = place.buildpool(&by_data).expect(0);
    let told = |made: &Finished| {
        let said = made.err();
        said.split_once("--fingerprint ").map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned())
    };
    assert!(told(&by_data).is_some() && told(&by_data) == told(&worker), "{by_data}");
    assert_eq!(by_data.out().matches('_').count(), 2, "no other fingerprint is in the token");
    let said = worker.err();
    let (join, mut words) = joining(&said);
    words.pop();
    words.push(&join);
    let root = place.home().join("root");
    let installed = Finished::from(
        place.command(&words).args(["--system", "--init", "systemd", "--root"]).arg(&root).output().unwrap(),
    );
    let installed = installed.expect(0);
    assert!(!installed.err().contains("could not be tried"), "{installed}");
    let fingerprint = words[words.iter().position(|word| *word == "--fingerprint").unwrap() + 1];
    assert!(written(&root.join("etc/buildpool/worker.toml")).contains(fingerprint));
    let mut daemon = place.command(["worker", "--no-tools", "--join", &join, "--ca-file"]);
    daemon.arg(&certificate).arg("--data-dir").arg(place.home().join("w"));
    let _worker = Daemon(daemon.stderr(Stdio::null()).spawn().unwrap());
    wait_until("it has joined", || {
        let url = written(&url);
        let mut command = place.command(["workers", "--json", "--coordinator", url.trim(), "--ca-file"]);
        let listed: Finished =
            command.arg(&certificate).env("BUILDPOOL_TOKEN", &admin).output().unwrap().into();
        listed.code() == 0 && listed.json()[0]["connected"] == true
    });
}

#[test]
fn a_service_whose_user_is_missing_is_refused_with_the_line_that_makes_it() {
    let pool = Pool::start(0);
    let place = pool.place().home().join("etc");
    let config = place.join("worker.toml");
    let words = ["install", "worker", "--system", "--write", "--service-user", "nobody-of-this-name"];
    let home = "/var/lib/nobody-of-this-name-home";
    let useradd = format!("useradd --system --user-group --create-home --home-dir '{home}' ");
    let sysadminctl = format!("sysadminctl -addUser nobody-of-this-name -home '{home}' ");
    for (init, line) in [("systemd", useradd), ("launchd", sysadminctl)] {
        let mut all = words.to_vec();
        all.extend([
            "--init",
            init,
            "--config",
            config.to_str().unwrap(),
            "--data-dir",
            place.to_str().unwrap(),
        ]);
        let refused = pool.buildpool(&all).expect(2);
        assert!(refused.err().contains(&line), "{refused}");
        assert!(!place.exists(), "nothing is written");
    }
    let root = pool.place().home().join("root");
    let all =
        ["install", "worker", "--system", "--write", "--init", "launchd", "--root", root.to_str().unwrap()];
    pool.buildpool(&all).expect(0);
    assert!(root.join("var/lib/buildpool-worker").is_dir(), "the log has a directory");
}

#[test]
fn a_token_that_is_none_of_a_worker_s_makes_no_worker() {
    let pool = Pool::start(0);
    let created = pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada"]).expect(0);
    let token = created.out().trim().to_owned();
    let root = pool.place().home().join("root");
    let unknown = format!("bp_{}_{}", "0".repeat(32), "0".repeat(48));
    for token in [&token, &unknown] {
        let join = format!("{}#{token}", pool.url());
        let words = ["install", "worker", "--system", "--write", "--init", "systemd", "--join", &join];
        let mut all = words.to_vec();
        all.extend(["--root", root.to_str().unwrap()]);
        let refused = pool.buildpool(&all).expect(2);
        assert!(refused.err().contains("nothing was written") && !root.exists(), "{refused}");
        assert!(!refused.err().contains(token), "a token is not repeated: {refused}");
    }
    let data = pool.place().home().join("data");
    let mut worker = pool.command(&["worker", "--no-tools", "--data-dir", data.to_str().unwrap()]);
    let ended: Finished = worker.env("BUILDPOOL_TOKEN", &token).output().unwrap().into();
    assert_eq!(ended.code(), 2, "{ended}");
    let said = ended.err();
    assert!(said.contains("has role submit") && said.contains("token create --role worker"), "{ended}");
}

#[test]
fn a_service_finds_its_files_whatever_the_mask_and_its_token_is_not_on_a_command_line() {
    let pool = Pool::start(0);
    let root = pool.place().home().join("root");
    let mut command = Command::new("sh");
    let words =
        "umask 077; exec \"$0\" install worker --system --write --init systemd --join - --root \"$1\"";
    command.args(["-c", words]).arg(buildpool_tests::binary()).arg(&root).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let join = format!("{}#{}\n", pool.url(), pool.worker_token());
    child.stdin.take().unwrap().write_all(join.as_bytes()).unwrap();
    Finished::from(child.wait_with_output().unwrap()).expect(0);
    assert_eq!(written(&root.join("etc/buildpool/worker.token")).trim(), pool.worker_token());
    let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o777;
    for directory in ["etc", "etc/buildpool", "etc/systemd/system"] {
        assert_eq!(mode(directory), 0o755, "{directory}");
    }
    assert_eq!(mode("etc/systemd/system/buildpool-worker.service"), 0o644);
    assert_eq!(mode("etc/buildpool/worker.token"), 0o600);
}

#[test]
fn a_unit_that_hides_its_own_program_is_not_written() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let program = place.path().join("buildpool");
    std::fs::copy(buildpool_tests::binary(), &program).unwrap();
    let run = |words: &[&str]| Finished::from(Command::new(&program).args(words).output().unwrap());
    let printed = run(&["install", "coordinator", "--system", "--init", "systemd"]).expect(0);
    assert!(
        printed.err().contains("lies below /tmp") && printed.err().contains("install -m 755"),
        "{printed}"
    );
    assert!(printed.out().contains("ExecStart="), "{printed}");
    // The user `nobody` exists everywhere. It is refused before anything is written.
    let data = place.path().join("data");
    let words =
        ["install", "coordinator", "--system", "--write", "--init", "systemd", "--service-user", "nobody"];
    let refused = run(&[&words[..], &["--data-dir", data.to_str().unwrap()]].concat()).expect(2);
    assert!(refused.err().contains("lies below /tmp") && !data.exists(), "{refused}");
}

#[test]
fn a_token_in_a_joining_string_is_not_repeated_when_it_is_wrong() {
    let pool = Pool::start(0);
    for (text, expected) in
        [("pool.example#bp_1_s3cret", "URL#TOKEN"), ("ws://pool.example#bp_1_s3cret", "its id has")]
    {
        for words in [&["worker", "--join"][..], &["install", "worker", "--join"]] {
            let refused = pool.buildpool(&[words, &[text]].concat()).expect(2);
            assert!(refused.err().contains(expected) && !refused.err().contains("s3cret"), "{refused}");
        }
    }
}

#[test]
fn a_new_program_takes_over_the_jobs_of_the_old_one() {
    let mut pool = Pool::start(1);
    let go = pool.place().file("go");
    let text = format!("echo old; while [ ! -e {} ]; do sleep 0.05; done; echo new", go.display());
    let started = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    let job = started.out().trim().to_owned();
    pool.wait_for_state(&job, "running");
    let new = pool.place().home().join("new-buildpool");
    std::fs::copy(buildpool_tests::binary(), &new).unwrap();
    pool.use_binary(&new);
    pool.kill_worker(0);
    pool.kill_coordinator();
    pool.start_coordinator_again();
    pool.start_worker(0);
    pool.wait_for_workers();
    std::fs::write(&go, "").unwrap();
    let done = pool.wait_for_state(&job, "done");
    assert_eq!((&done["verdict"], &done["attempt"]), (&"passed".into(), &1.into()), "{done}");
    assert_eq!(pool.buildpool(&["logs", &job]).expect(0).out(), "old\nnew\n");
}

#[test]
fn the_user_units_pass_systemd_s_own_check() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("SKIPPED: systemd-analyze is not on this machine");
        return;
    }
    let pool = Pool::start(0);
    for part in ["worker", "coordinator"] {
        let unit = pool.buildpool(&["install", part, "--init", "systemd"]).expect(0).out();
        let file = pool.place().file(format!("buildpool-{part}.service"));
        std::fs::write(&file, &unit).unwrap();
        let mut check = Command::new("systemd-analyze");
        check.args(["--user", "verify"]).arg(&file).env("XDG_RUNTIME_DIR", pool.place().home());
        let checked = check.output().unwrap();
        let complaints = buildpool_tests::complaints_of_verify(&checked.stderr);
        assert!(checked.status.success() && complaints.is_empty(), "{part}: {complaints:?}\n{unit}");
    }
}

#[test]
fn a_client_is_set_up_for_a_coordinator_and_with_no_secret() {
    let place = Place::new();
    for (wrong, reason) in
        [("nonsense", "it has no scheme"), ("wss://h:7420#bp_a_b", "only a host, a port and a path")]
    {
        let said =
            place.buildpool(&["install", "mcp-client", "claude-code", "--write", "--coordinator", wrong]);
        assert!(!said.status.success() && said.err().contains(reason), "{said}");
        assert!(!place.file(".mcp.json").exists());
    }
    let said =
        place.buildpool(&["install", "mcp-client", "claude-code", "--write", "--directory", "nowhere"]);
    assert!(!said.status.success() && said.err().contains("nowhere is not a directory"), "{said}");
    assert!(!place.file("nowhere").exists());
    let right = ["install", "mcp-client", "claude-code", "--write", "--coordinator", "wss://h:7420"];
    place.buildpool(&right).expect(0);
    assert!(written(&place.file(".mcp.json")).contains("wss://h:7420"));
}
