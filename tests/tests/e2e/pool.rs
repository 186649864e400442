//! Tests of a coordinator and workers in separate processes.

use buildpool_tests::{Pool, PoolBuilder, STRANGER, wait_until};
use std::io::Read;
use std::process::Stdio;

#[test]
fn jobs_run_where_their_labels_lead_them() {
    let pool = PoolBuilder::default()
        .worker(&["--label", "xcode=26.1", "--label", "gpu"])
        .worker(&["--label", "xcode=16.4", "--resource", "simulator=2"])
        .start();
    for (wish, worker) in [
        (&["--label", "xcode=26.1"][..], "w0"),
        (&["--label", "gpu"], "w0"),
        (&["--label", "xcode=16.4"], "w1"),
        (&["--resource", "simulator=2"], "w1"),
    ] {
        let all: Vec<&str> = ["run", "--no-snapshot", "--output", "json"]
            .iter()
            .chain(wish)
            .chain(&["--", "true"])
            .copied()
            .collect();
        assert_eq!(pool.buildpool(&all).expect(0).json()["worker"], worker, "{wish:?}");
    }
    let refused = pool.buildpool(&["run", "--no-snapshot", "--label", "xcode=1.0", "--", "true"]).expect(125);
    assert!(refused.err().contains("xcode=1.0") && refused.err().contains("xcode=26.1"), "{refused}");
}

#[test]
fn a_worker_that_joins_takes_what_waited_for_it_and_one_that_is_killed_leaves_its_job_to_come_back_to() {
    let mut pool = PoolBuilder::default().worker(&[]).worker(&["--slots", "2"]).start();
    let go = pool.place().file("go");
    let text = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo ended", go.display());
    let detached = |pool: &Pool, options: &[&str], text: &str| {
        let words = [&["run", "--no-snapshot", "--detach"], options, &["--", "sh", "-c", text]].concat();
        pool.buildpool(&words).expect(0).out().trim().to_owned()
    };
    let options = ["--label", "rare=yes", "--wait-for-worker", "1h"];
    let waiting = detached(&pool, &options, "echo rare");
    let shown = pool.job(&waiting);
    assert_eq!(shown["state"], "queued", "{shown}");
    assert!(shown["waiting"]["reason"].as_str().unwrap().contains("rare"), "{shown}");
    let running = detached(&pool, &["--label", "name=w1"], &text);
    pool.wait_for_state(&running, "running");
    pool.add_worker(vec!["--label".into(), "rare=yes".into()]);
    let taken = pool.wait_for_state(&waiting, "done");
    assert_eq!((&taken["verdict"], &taken["worker"]), (&"passed".into(), &"w2".into()), "{taken}");
    pool.kill_worker(1);
    wait_until("the pool notices", || pool.job(&running)["connected"] == false);
    assert_eq!(pool.shell("echo the others work").expect(0).out(), "the others work\n");
    pool.start_worker(1);
    std::fs::write(&go, "").unwrap();
    let ended = pool.wait_for_state(&running, "done");
    assert_eq!((&ended["verdict"], &ended["attempt"]), (&"passed".into(), &1.into()), "{ended}");
    assert_eq!(pool.buildpool(&["logs", &running]).expect(0).out(), "begun\nended\n");
}

#[test]
fn a_coordinators_restart_costs_a_run_nothing() {
    let mut pool = Pool::start(1);
    let go = pool.place().file("go");
    let text = format!(
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; \
         while [ ! -e {go} ]; do sleep 0.05; done; echo end; exit 5",
        go = go.display()
    );
    let mut child = pool
        .command(&["run", "--no-snapshot", "--", "sh", "-c", &text])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut begun = [0; 7];
    stdout.read_exact(&mut begun).unwrap();
    pool.restart_coordinator();
    std::fs::write(go, "").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let whole = format!("{}{rest}", String::from_utf8_lossy(&begun));
    let expected: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    assert!(whole == format!("{expected}end\n"), "{} bytes", whole.len());
    let jobs = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    assert_eq!(jobs.as_array().unwrap().len(), 1);
}

#[test]
fn a_worker_is_drained_and_resumed() {
    let pool = Pool::start(1);
    let drained = pool.buildpool(&["drain", "w0", "--json"]).expect(0).json();
    assert_eq!(drained[0]["draining"], true);
    let id = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"]).expect(0).out();
    let waiting = pool.job(id.trim());
    assert_eq!(waiting["state"], "queued", "{waiting}");
    assert!(!waiting["waiting"]["reason"].as_str().unwrap().is_empty());
    assert!(pool.buildpool(&["workers"]).expect(0).out().contains("draining"));
    let resumed = pool.buildpool(&["resume", "w0", "--json"]).expect(0);
    assert_eq!(resumed.json()[0]["draining"], false, "{resumed}");
    assert!(!resumed.err().contains("still takes no jobs"), "{resumed}");
    assert_eq!(pool.wait_for_state(id.trim(), "done")["verdict"], "passed");
}

#[test]
fn tokens_open_what_their_role_allows_until_they_are_revoked() {
    let pool = Pool::start(1);
    let with = |token: &str, arguments: &[&str]| {
        let mut command = pool.command(arguments);
        let output = command.env("BUILDPOOL_TOKEN", token).output().unwrap();
        buildpool_tests::Finished::from(output)
    };
    let created = pool
        .buildpool(&["token", "create", "--role", "submit", "--name", "ci", "--expires", "1h", "--json"])
        .expect(0)
        .json();
    let token = created["token"].as_str().unwrap();
    assert_eq!((&created["role"], &created["name"]), (&"submit".into(), &"ci".into()));
    let result = with(token, &["run", "--no-snapshot", "--output", "json", "--", "true"]).expect(0).json();
    assert_eq!(result["submitter"], "ci");
    with(token, &["token", "list"]).expect(1);
    for (action, doing) in [("drain", "draining a worker"), ("resume", "resuming a worker")] {
        let refused = with(token, &[action, "w0"]).expect(1);
        assert!(refused.err().contains(&format!("{doing} needs an admin token")), "{refused}");
    }
    assert!(pool.buildpool(&["token", "list"]).expect(0).out().contains(" ci"));
    let id = created["id"].as_str().unwrap();
    pool.buildpool(&["token", "revoke", id]).expect(0);
    let refused = with(token, &["jobs"]).expect(125);
    assert!(refused.err().contains("does not accept the token"), "{refused}");
    let missing = with("", &["jobs"]).expect(125);
    assert!(missing.err().contains("no token was given for the coordinator at ws://"), "{missing}");
    assert!(missing.err().contains("--token, BUILDPOOL_TOKEN or `token` in /"), "{missing}");
    let worker = pool.buildpool(&["token", "create", "--role", "worker", "--name", "w"]).expect(0);
    let wrong = with(worker.out().trim(), &["jobs"]).expect(1);
    assert!(wrong.err().contains("role worker"), "{wrong}");
}

#[test]
fn a_worker_says_what_is_wrong_with_its_token_before_it_dials() {
    let pool = Pool::start(0);
    let file = pool.place().file("worker.toml");
    std::fs::write(&file, format!("coordinator = \"{}\"\n", pool.url())).unwrap();
    let config = file.to_str().unwrap();
    let worker = |token: &str, more: &[&str]| {
        let words = [&["worker", "--config", config, "--data-dir", "w"][..], more].concat();
        let output = pool.command(&words).env("BUILDPOOL_TOKEN", token).output().unwrap();
        buildpool_tests::Finished::from(output)
    };
    let missing = worker("", &[]).expect(125);
    let expected = format!("could join {}; pass one with --token", pool.url());
    assert!(missing.err().contains("no token was given by which the worker"), "{missing}");
    assert!(missing.err().contains(&expected), "{missing}");
    assert!(missing.err().contains(&format!("`token` in {config}")), "{missing}");
    let of_variable = worker("bp_1_2", &[]).expect(2);
    assert!(of_variable.err().contains("BUILDPOOL_TOKEN is invalid: its id has 1"), "{of_variable}");
    let of_flag = worker("bp_1_2", &["--token", "s3cret"]).expect(2);
    assert!(of_flag.err().contains("--token is invalid: it does not begin with `bp_`"), "{of_flag}");
    assert!(!of_flag.err().contains("s3cret"), "{of_flag}");
    std::fs::write(&file, format!("coordinator = \"{}\"\ntoken = \"bp_1_2\"\n", pool.url())).unwrap();
    let of_file = worker("", &[]).expect(2);
    assert!(of_file.err().contains(&format!("{config} is invalid")), "{of_file}");
}

#[test]
fn a_pool_beyond_this_machine_speaks_tls_and_is_known_by_its_tokens() {
    let pool = PoolBuilder::default().listen("0.0.0.0:0").worker(&[]).start();
    let port = pool.url().rsplit(':').next().unwrap().to_owned();
    assert!(pool.url().starts_with("wss://"), "{}", pool.url());
    assert_eq!(pool.shell("echo over tls").expect(0).out(), "over tls\n");
    let with = |token: &str| {
        let output = pool.command(&["jobs"]).env("BUILDPOOL_TOKEN", token).output().unwrap();
        buildpool_tests::Finished::from(output)
    };
    // A token without the fingerprint does not authenticate the coordinator.
    let refused = with(STRANGER).expect(125);
    assert!(refused.err().contains("is not trusted"), "{refused}");
    // A malformed or missing token is reported before that.
    let cut = &pool.token()[..pool.token().len() - 7];
    let malformed = with(cut).expect(2);
    let expected = "the token in BUILDPOOL_TOKEN is invalid: its fingerprint has 57 characters";
    assert!(malformed.err().contains(expected) && !malformed.err().contains(cut), "{malformed}");
    let missing = with("").expect(125);
    assert!(missing.err().contains("no token was given"), "{missing}");
    let last = if pool.token().ends_with('0') { "1" } else { "0" };
    let another = with(&format!("{}{last}", &pool.token()[..pool.token().len() - 1])).expect(125);
    let expected = "is not trusted: its certificate does not have the fingerprint in the token";
    assert!(another.err().contains(expected), "{another}");
    let without = Pool::start(0);
    let secure = format!("wss://{}", without.address());
    let no_tls = pool.buildpool(&["jobs", "--coordinator", &secure]).expect(125);
    assert!(no_tls.err().contains("does not use TLS") && no_tls.err().contains("ws://"), "{no_tls}");
    let plain = pool.buildpool(&["jobs", "--coordinator", &format!("ws://127.0.0.1:{port}")]).expect(125);
    assert!(plain.err().starts_with("buildpool: "), "{plain}");
}

#[test]
fn no_token_leaves_this_machine_unencrypted_unless_that_was_said_in_as_many_words() {
    let pool = Pool::start(0);
    // Both systems treat this address as one of their own, although the text does not show it.
    let beyond = pool.url().replace("127.0.0.1", "0.0.0.0");
    let expected = format!("the token would go to {beyond} unencrypted; give wss://");
    for (words, code) in [(&["jobs"][..], 2), (&["run", "--coordinator", &beyond, "--", "true"], 125)] {
        let output = pool.command(words).env("BUILDPOOL_URL", &beyond).output().unwrap();
        let refused = buildpool_tests::Finished::from(output).expect(code);
        assert!(refused.err().contains(&expected), "{refused}");
    }
    let doctor = pool.buildpool(&["doctor", "--coordinator", &beyond]).expect(1);
    assert!(doctor.out().contains(&expected), "{doctor}");
    pool.buildpool(&["jobs", "--coordinator", &beyond, "--insecure-plain-text"]).expect(0);
    // The same for a worker. A line of its configuration permits it.
    let created = pool.buildpool(&["token", "create", "--role", "worker", "--name", "w"]).expect(0);
    let token = created.out().trim().to_owned();
    let join = format!("{beyond}#{token}");
    for words in [&["worker", "--data-dir", "w"][..], &["install", "worker", "--write"]] {
        let refused = pool.buildpool(&[words, &["--join", &join]].concat()).expect(2);
        assert!(refused.err().contains(&expected), "{refused}");
    }
    let file = pool.place().file("worker.toml");
    let text = format!("coordinator = \"{beyond}\"\ntoken = \"{token}\"\ndata_dir = \"w\"\n");
    std::fs::write(&file, &text).unwrap();
    let doctor = pool.buildpool(&["doctor", "--worker", file.to_str().unwrap()]).expect(1);
    assert!(doctor.out().contains(&expected), "{doctor}");
    std::fs::write(&file, format!("insecure_plain_text = true\n{text}")).unwrap();
    let doctor = pool.buildpool(&["doctor", "--worker", file.to_str().unwrap()]).expect(0);
    assert!(doctor.out().contains("the coordinator takes it"), "{doctor}");
    // The permission applies only to the coordinator that the file names.
    std::fs::write(&file, format!("insecure_plain_text = true\n{text}").replace(&beyond, "ws://192.0.2.1:1"))
        .unwrap();
    let elsewhere = ["worker", "--config", file.to_str().unwrap(), "--coordinator", &beyond];
    let refused = pool.buildpool(&elsewhere).expect(2);
    assert!(refused.err().contains(&expected), "{refused}");
    // The same applies to the user's file.
    let directory = pool.place().home().join("config/buildpool");
    std::fs::create_dir_all(&directory).unwrap();
    let settings = |url: &str| format!("coordinator = \"{url}\"\ninsecure_plain_text = true\n");
    for (url, code) in [(beyond.as_str(), 0), ("wss://pool.example", 2)] {
        std::fs::write(directory.join("config.toml"), settings(url)).unwrap();
        pool.buildpool(&["jobs", "--coordinator", &beyond]).expect(code);
    }
}

#[test]
fn one_call_runs_a_build_on_several_labels_and_gives_one_manifest() {
    let pool = PoolBuilder::default()
        .worker(&["--label", "os=mac", "--label", "fast"])
        .worker(&["--label", "os=linux"])
        .start();
    let script = "echo 'src/a.c:3:4: error: no such thing'; exit 7";
    let made = pool.buildpool(&[
        "run",
        "--no-snapshot",
        "--on",
        "os=mac,fast",
        "os=linux",
        "--output",
        "json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let made = made.expect(7).json();
    assert_eq!(made["build"]["status"], "failed", "{made}");
    assert_eq!(made["jobs"].as_array().map(Vec::len), Some(2), "{made}");
    let workers: Vec<_> =
        made["jobs"].as_array().into_iter().flatten().map(|job| job["worker"].clone()).collect();
    assert_eq!(workers, ["w0", "w1"], "{made}");
    assert_eq!(made["jobs"][0]["command"], serde_json::Value::Null, "it is the same for all: {made}");
    assert!(made["jobs"][0]["cause"].as_str().unwrap().contains("no such thing"), "{made}");
    assert_eq!(made["tier_1_findings"].as_array().map(Vec::len), Some(1), "{made}");
    assert_eq!(made["tier_1_findings"][0]["recurrence"], 2, "{made}");

    let name = made["request_id"].as_str().unwrap_or_default();
    assert_eq!(pool.buildpool(&["job", name, "--json"]).expect(0).json()["build"]["status"], "failed");
    let id = made["tier_1_findings"][0]["id"].as_str().unwrap_or_default();
    let finding = pool.buildpool(&["job", name, "--finding", id]).expect(0);
    assert!(finding.out().contains("no such thing"), "{finding}");
}

#[test]
fn what_a_passing_job_of_a_build_says_too_is_told_apart_from_what_failed() {
    let pool = Pool::start(1);
    let text = "echo 'src/q.c:1:2: error: boom [nullPointer]'; [ $1 = good ] || { echo 'src/r.c:3:4: error: bang'; exit 1; }";
    let words = ["run", "--no-snapshot", "--several", "--output", "json", "--"];
    let job = |word: &'static str| ["sh", "-c", text, "sh", word];
    let all = [&words[..], &job("bad"), &[":::"], &job("good")].concat();
    let made = pool.buildpool(&all).expect(1).json();
    let messages = |list: &str| -> Vec<(String, u64)> {
        let told = |finding: &serde_json::Value| {
            (finding["message"].as_str().unwrap().to_owned(), finding["tier"].as_u64().unwrap())
        };
        made[list].as_array().unwrap().iter().map(told).collect()
    };
    assert_eq!(messages("tier_1_findings"), [("src/r.c:3:4: error: bang".to_owned(), 1)], "{made}");
    assert_eq!(
        messages("other_findings"),
        [("src/q.c:1:2: error: boom [nullPointer]".to_owned(), 3)],
        "{made}"
    );
    let (build, id) =
        (made["request_id"].as_str().unwrap(), made["other_findings"][0]["id"].as_str().unwrap());
    let finding = pool.buildpool(&["job", build, "--finding", id, "--json"]).expect(0).json();
    assert_eq!((&finding["also_in_passing_jobs"], &finding["tier"]), (&true.into(), &3.into()), "{finding}");
}

#[test]
fn several_commands_are_one_build_and_a_refused_one_takes_the_others_along() {
    let pool = PoolBuilder::default().worker(&["--label", "os=mac"]).start();
    let text = pool
        .buildpool(&["run", "--no-snapshot", "--several", "--", "true", ":::", "sh", "-c", "exit 3"])
        .expect(3);
    assert!(text.out().contains("1 failed, 1 passed, of 2 jobs"), "{text}");
    for next in text.out().lines().filter_map(|line| line.split_once("buildpool job ")) {
        let words: Vec<&str> = ["job"].into_iter().chain(next.1.split_whitespace()).collect();
        pool.buildpool(&words).expect(0);
    }
    pool.buildpool(&["run", "--no-snapshot", "--several", "--", "true", ":::", "true"]).expect(0);

    let refused = pool
        .buildpool(&["run", "--no-snapshot", "--on", "os=mac", "os=beos", "--", "sleep", "600"])
        .expect(125);
    assert!(refused.err().contains("os=beos"), "{refused}");
    let jobs = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let goes_on = |job: &serde_json::Value| job["command"].as_str().is_some_and(|text| text.contains("600"));
    let ended = |job: &serde_json::Value| {
        let id = job["job_id"].as_str().unwrap_or_default();
        let ended = pool.buildpool(&["job", id, "--wait", "60s", "--json"]).json();
        ended["verdict"].as_str().unwrap_or_default().to_owned()
    };
    let mut verdicts: Vec<String> =
        jobs.as_array().into_iter().flatten().filter(|job| goes_on(job)).map(ended).collect();
    verdicts.sort();
    assert_eq!(verdicts, ["cancelled", "rejected"], "{jobs}");
    let empty = pool.buildpool(&["run", "--no-snapshot", "--several", "--", "true", ":::"]).expect(125);
    assert!(empty.err().contains("--several"), "{empty}");
}

#[test]
fn a_build_that_nobody_knows_is_an_error_and_one_that_is_known_is_cancelled_whole() {
    let pool = PoolBuilder::default().worker(&["--slots", "2"]).start();
    let unknown = "build-00000000-0000-7000-8000-000000000000";
    for command in [
        &["job", unknown][..],
        &["job", unknown, "--json"],
        &["job", unknown, "--finding", "f1"],
        &["cancel", unknown],
    ] {
        let refused = pool.buildpool(command).expect(1);
        assert!(refused.out().is_empty(), "{refused}");
        assert!(refused.err().contains(&format!("no job of {unknown} is known")), "{refused}");
    }

    for command in [&["job", unknown, "--wait", "1s"][..], &["wait", unknown]] {
        let refused = pool.buildpool(command).expect(125);
        assert!(refused.err().contains(&format!("no job of {unknown} is known")), "{refused}");
    }

    let detached =
        ["run", "--no-snapshot", "--detach", "--several", "--", "sleep", "600", ":::", "sleep", "601"];
    let made = pool.buildpool(&detached).expect(0).out();
    let name = made.trim();
    for command in ["logs", "artifacts"] {
        let refused = pool.buildpool(&[command, name]).expect(1);
        assert!(
            refused.err().contains("this is the id of a build") && refused.err().contains("`buildpool job`"),
            "{refused}"
        );
    }
    for command in ["job", "cancel", "logs"] {
        let refused = pool.buildpool(&[command, &name[..12]]).expect(1);
        assert!(refused.err().contains("a build is known by its whole id only"), "{refused}");
    }

    let cancelled = pool.buildpool(&["cancel", name, "--reason", "enough"]).expect(0);
    assert_eq!(cancelled.out().lines().count(), 2, "{cancelled}");
    let ended = pool.buildpool(&["job", name, "--wait", "60s", "--json"]).expect(130).json();
    assert_eq!(ended["build"]["status"], "cancelled", "{ended}");
    let again = pool.buildpool(&["cancel", name, "--json"]).expect(0).json();
    assert_eq!(
        (&again["build"]["status"], &again["state"]),
        (&"cancelled".into(), &"done".into()),
        "{again}"
    );
}
