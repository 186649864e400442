//! Tests of `doctor` for client, worker and coordinator.

use buildpool_tests::{Finished, Place, Pool, PoolBuilder, wait_for, wait_until};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A well-formed token that does not exist.
const UNKNOWN: &str = "bp_00000000000000000000000000000000_000000000000000000000000000000000000000000000000";

/// Returns the check with this name. Panics with all checks if it is missing.
fn check(done: &Finished, name: &str) -> Value {
    let checks = done.json();
    let found = checks.as_array().unwrap().iter().find(|check| check["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no `{name}` in {checks:#}"))
}

fn worker_file(place: &Path, coordinator: &str, token: &str) -> String {
    let file = place.join("worker.toml");
    let text = format!("coordinator = \"{coordinator}\"\ntoken = \"{token}\"\ndata_dir = \"data\"\n");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_pool_behind_tls_is_well_from_all_three_ends() {
    let pool = PoolBuilder::default().listen("0.0.0.0:0").worker(&[]).start();
    assert!(pool.url().starts_with("wss://"), "{}", pool.url());
    let client = pool.buildpool(&["doctor", "--json"]).expect(0);
    let file = worker_file(&pool.place().home(), pool.url(), pool.worker_token());
    let worker = pool.buildpool(&["doctor", "--json", "--worker", &file]).expect(0);
    let data = pool.data("coordinator");
    let coordinator = pool.buildpool(&["doctor", "--json", "--data-dir", data.to_str().unwrap()]).expect(0);
    for done in [&client, &worker, &coordinator] {
        assert_eq!(check(done, "reach")["state"], "ok", "{done}");
        let certificate = check(done, "certificate");
        assert!(certificate["text"].as_str().unwrap().contains("by its fingerprint"), "{done}");
    }
    for done in [&client, &worker] {
        assert_eq!(check(done, "clock")["text"], "this clock and the coordinator's agree", "{done}");
    }
    assert_eq!(check(&worker, "token")["state"], "ok", "{worker}");
    assert_eq!(check(&client, "workers")["text"], "1 of 1 connected");
    // A client that uses plain HTTP gets an error that names TLS.
    let plain = pool.url().replace("wss://", "ws://");
    let doctor = pool.buildpool(&["doctor", "--coordinator", &plain]).expect(1);
    let jobs = pool.buildpool(&["jobs", "--coordinator", &plain]).expect(125);
    let worker = worker_file(&pool.place().home(), &plain, pool.worker_token());
    let worker = pool.buildpool(&["doctor", "--worker", &worker]).expect(1);
    for said in [doctor.out(), jobs.err(), worker.out()] {
        assert!(said.contains("does not accept plain HTTP") && said.contains("use wss://"), "{said}");
    }
    // The token of another coordinator contains the fingerprint of another certificate.
    let other = PoolBuilder::default().listen("0.0.0.0:0").start();
    let forged = worker_file(&pool.place().home(), pool.url(), other.worker_token());
    let refused = pool.buildpool(&["doctor", "--json", "--worker", &forged]).expect(1);
    let reach = check(&refused, "reach");
    assert!(reach["text"].as_str().unwrap().contains("not the one that the token vouches for"), "{refused}");
    assert!(reach["remedy"].as_str().unwrap().contains("new tokens"), "{refused}");
}

#[test]
fn of_a_worker_s_files_only_the_one_with_the_token_has_to_be_its_owner_s() {
    let place = Place::new();
    let directory = place.home();
    let (config, token) = (directory.join("worker.toml"), directory.join("worker.token"));
    let warns = |text: &str| {
        std::fs::write(&config, format!("coordinator = \"ws://127.0.0.1:1\"\ndata_dir = \"d\"\n{text}\n"))
            .unwrap();
        std::fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
        let done = place.buildpool(&["doctor", "--worker", config.to_str().unwrap()]);
        done.out().contains("worker.toml, which may hold a token")
    };
    std::fs::write(&token, UNKNOWN).unwrap();
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    assert!(!warns("token_file = \"worker.token\""));
    assert!(warns(&format!("token = \"{UNKNOWN}\"")));
}

#[test]
fn what_a_worker_s_file_leaves_out_is_looked_for_where_the_worker_finds_it() {
    let pool = Pool::start(0);
    let file = pool.place().home().join("worker.toml");
    std::fs::write(&file, "slots = 2\n").unwrap();
    let doctor = |token: &str| -> Finished {
        let words = ["doctor", "--json", "--worker", file.to_str().unwrap()];
        let mut command = pool.command(&words);
        command.env("BUILDPOOL_URL", pool.url()).env("BUILDPOOL_TOKEN", token).output().unwrap().into()
    };
    let well = doctor(pool.worker_token()).expect(0);
    assert_eq!(check(&well, "configuration")["state"], "ok", "{well}");
    assert_eq!(check(&well, "token")["text"], "the coordinator takes it", "{well}");
    let disk = check(&well, "disk")["text"].as_str().unwrap().to_owned();
    assert!(disk.ends_with("/worker"), "{disk}");
    // A missing token is reported as missing, not as unknown to the coordinator.
    let none = doctor("").expect(0);
    assert_eq!(check(&none, "token")["state"], "warning", "{none}");
    assert!(check(&none, "token")["text"].as_str().unwrap().contains("no token was tried"), "{none}");
}

#[test]
fn what_keeps_a_worker_out_is_told_before_it_starts() {
    let pool = Pool::start(0);
    let token = pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada"]).expect(0);
    let home = pool.place().home();
    let file = worker_file(&home, pool.url(), token.out().trim());
    let wrong = pool.buildpool(&["doctor", "--json", "--worker", &file]).expect(1);
    assert_eq!(check(&wrong, "reach")["state"], "ok");
    let told = check(&wrong, "token");
    assert!(told["text"].as_str().unwrap().contains("has role submit"), "{wrong}");
    assert!(told["remedy"].as_str().unwrap().contains("token create --role worker"), "{wrong}");
    // An unused port: it was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = worker_file(&home, &format!("ws://{free}"), UNKNOWN);
    let none = pool.buildpool(&["doctor", "--json", "--worker", &file]).expect(1);
    assert!(check(&none, "reach")["text"].as_str().unwrap().contains("nothing listens"), "{none}");
}

/// Starts a server that answers like a coordinator with a wrong clock.
fn coordinator_of_2001() -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        let answer =
            "HTTP/1.1 200 OK\r\ndate: Sat, 06 Oct 2001 10:00:00 GMT\r\ncontent-length: 3\r\n\r\nok\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (url, serve)
}

#[test]
fn clocks_that_differ_are_told_with_what_it_means() {
    let (url, serve) = coordinator_of_2001();
    let place = Place::new();
    let done = place.buildpool(&["doctor", "--json", "--coordinator", &url, "--token", UNKNOWN]);
    serve.join().unwrap();
    let clock = check(&done, "clock");
    assert_eq!(clock["state"], "warning", "{done}");
    assert!(clock["text"].as_str().unwrap().contains("ahead of the coordinator's"), "{done}");
    assert!(clock["remedy"].as_str().unwrap().contains("set-ntp"), "{done}");
}

#[test]
fn a_client_s_configuration_that_others_can_read_is_told() {
    let place = Place::new();
    let directory = place.home().join("config/buildpool");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    let token = format!("token = \"{UNKNOWN}\"\n");
    for (text, mode, state) in
        [(token.as_str(), 0o644, Some("warning")), (token.as_str(), 0o600, Some("ok")), ("", 0o644, None)]
    {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let done = place.buildpool(&["doctor", "--json"]).expect(0);
        let checks = done.json();
        let found = checks.as_array().unwrap().iter().find(|check| check["name"] == "permissions");
        assert_eq!(found.and_then(|check| check["state"].as_str()), state, "{done}");
        if state == Some("warning") {
            assert!(found.unwrap()["remedy"].as_str().unwrap().contains("chmod 600"), "{done}");
        }
    }
}

#[test]
fn a_certificate_of_the_operator_s_own_is_looked_at_where_it_is_served() {
    let pool = Pool::start(0);
    let home = pool.place().home();
    let mut parameters = rcgen::CertificateParams::new(vec!["pool.example".into()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(home.join("own.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(home.join("key.pem"), key.serialize_pem()).unwrap();
    let config = home.join("coordinator.toml");
    std::fs::write(&config, "tls_cert = \"own.pem\"\ntls_key = \"key.pem\"\n").unwrap();
    let words = ["doctor", "--json", "--config", config.to_str().unwrap(), "--data-dir"];
    let data = pool.data("coordinator");
    let done: Finished = pool.command(&words).arg(&data).output().unwrap().into();
    assert_eq!(done.code(), 1, "{done}");
    let certificate = check(&done, "certificate");
    assert_eq!(certificate["state"], "failed", "{done}");
    assert!(certificate["text"].as_str().unwrap().contains("has expired on 2020-01-01"), "{done}");
}

/// Returns the log files in a coordinator's data directory.
fn logs(data: &Path) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(data.join("logs")).unwrap();
    let files = directories.filter_map(|directory| std::fs::read_dir(directory.unwrap().path()).ok());
    files.flatten().map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_damaged_byte_of_a_log_is_found_where_every_byte_is_read() {
    let pool = Pool::start(1);
    pool.shell("seq 1 300000").expect(0);
    let data = pool.data("coordinator");
    let pack = wait_for("the log is packed", || {
        let files = logs(&data);
        files.into_iter().next().filter(|file| file.extension().is_some_and(|end| end == "pack"))
    });
    wait_until("only that is left", || logs(&data) == [pack.clone()]);
    let place = ["--data-dir", data.to_str().unwrap()];
    pool.buildpool(&["doctor", "--full", place[0], place[1]]).expect(0);
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    pool.buildpool(&["doctor", place[0], place[1]]).expect(0);
    let found = pool.buildpool(&["doctor", "--full", place[0], place[1]]).expect(1);
    assert!(found.out().contains("checksum"), "{found}");
    assert!(found.out().contains("to mend: ") && found.out().contains("backup"), "{found}");
    let refused = pool.buildpool(&["doctor", "--full"]).expect(2);
    assert!(refused.err().contains("--data-dir"), "{refused}");
}

#[test]
fn the_doctor_finds_what_is_wrong_with_a_coordinator_and_says_how_to_mend_it() {
    let pool = Pool::start(0);
    let data = pool.data("coordinator");
    let well = pool.buildpool(&["doctor", "--data-dir", data.to_str().unwrap()]).expect(0);
    // The free space of this machine must not affect the test. All other checks must pass.
    let told = well.out();
    // The clock synchronization of this machine must not affect it either.
    let is_of_machine =
        |line: &&str| line.starts_with(' ') || line.contains(" disk ") || line.contains(" it is not set by");
    let states = told.lines().filter(|line| !is_of_machine(line));
    assert!(states.clone().count() > 0 && states.clone().all(|line| line.starts_with("ok ")), "{well}");
    std::fs::set_permissions(data.join("auth.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = pool.buildpool(&["doctor", "--data-dir", data.to_str().unwrap()]).expect(0);
    assert!(found.out().contains("to mend: chmod 600"), "{found}");
    let none = pool.buildpool(&["doctor", "--data-dir", "/no/such/directory"]).expect(1);
    assert!(none.out().contains("there is no such directory"), "{none}");
}

#[test]
fn a_certificate_without_the_public_name_is_found_and_mended_by_a_rotation() {
    let place = Place::new();
    let file = place.home().join("coordinator.toml");
    let listen = "listen = \"0.0.0.0:7420\"\ndata_dir = \"data\"\n";
    std::fs::write(&file, listen).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let run = |words: &[&str]| place.buildpool(&[words, &config].concat());
    let created = run(&["token", "create", "--role", "worker", "--name", "w"]).expect(0);
    let before = run(&["certificate", "show"]).expect(0).out();
    std::fs::write(&file, format!("{listen}public_url = \"wss://pool.example.com:7420\"\n")).unwrap();
    let warning = "not for pool.example.com, so curl and browsers refuse it";
    assert!(run(&["doctor"]).out().contains(warning), "{}", run(&["doctor"]));
    let rotated = run(&["certificate", "rotate"]).expect(0);
    assert!(rotated.err().contains("tokens stay valid for 4 rotations"), "{rotated}");
    assert!(!run(&["doctor"]).out().contains(warning));
    let shown = run(&["certificate", "show"]).expect(0).out();
    assert!(shown.starts_with("-----BEGIN CERTIFICATE-----\n") && shown != before, "{shown}");
    let next = run(&["token", "create", "--role", "submit", "--name", "s"]).expect(0).out();
    assert!(next.trim().ends_with(rotated.out().trim()) && !created.out().contains(rotated.out().trim()));
    let other = run(&["token", "create", "--role", "worker", "--name", "w2"]).expect(0);
    assert!(other.err().contains("paste this line: wss://pool.example.com:7420#bp_"), "{other}");
    std::fs::write(&file, format!("{listen}tls_cert = \"a.pem\"\ntls_key = \"a.pem\"\n")).unwrap();
    assert!(run(&["certificate", "rotate"]).expect(1).err().contains("the coordinator uses "));
}

#[test]
fn a_coordinator_that_refuses_jobs_is_not_well() {
    let builder = PoolBuilder::default().listen("0.0.0.0:0").worker(&[]);
    let Some(mut pool) = builder.small_disk("coordinator", 64 << 20).start_on_disk() else { return };
    let data = pool.data("coordinator");
    let data = data.to_str().unwrap();
    let well = pool.buildpool(&["doctor", "--json", "--data-dir", data]).expect(0);
    assert_eq!(check(&well, "git")["state"], "ok", "{well}");
    pool.disk().unwrap().fill_but(4 << 20);
    for end in [&["doctor", "--json"][..], &["doctor", "--json", "--data-dir", data]] {
        let refusing = wait_for("doctor fails", || Some(pool.buildpool(end)).filter(|done| done.code() == 1));
        let jobs = check(&refusing, "jobs");
        assert!(jobs["text"].as_str().unwrap().contains("no new job is accepted"), "{refusing}");
        assert!(jobs["remedy"].as_str().unwrap().contains("data_dir"), "{refusing}");
    }
    pool.kill_coordinator();
    let stopped = pool.buildpool(&["doctor", "--json", "--data-dir", data]).expect(1);
    let disk = check(&stopped, "disk");
    assert!(disk["text"].as_str().unwrap().contains("no new job is accepted below"), "{stopped}");
    assert_eq!(disk["state"], "failed", "{stopped}");
}
