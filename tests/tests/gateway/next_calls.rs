//! Tests that follow each call that an answer suggests: it works, and it returns something that the answer lacks.

use buildpool_tests::mcp::Gateway;
use buildpool_tests::{Place, Pool, PoolBuilder, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Shell text that prints 400 lines without a message of a tool.
const BUSY: &str = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo \"line $i of the output\"; done";
/// Limit on the calls that follow from one answer. Pages of a log or a list lead from one to the next.
const FOLLOWED_MAX: usize = 200;

/// Tools that an answer may suggest.
const TOOLS: [&str; 10] = [
    "run_command",
    "run_tests",
    "build",
    "get_job",
    "get_job_logs",
    "get_finding_details",
    "list_jobs",
    "cancel_job",
    "worker_status",
    "list_templates",
];

/// Returns the lines of an answer that carry content: not the lines about omissions and next calls.
fn content(result: &Value) -> BTreeSet<String> {
    let text = result["content"][0]["text"].as_str().unwrap();
    let is_content = |line: &&str| !line.starts_with("next: ") && !line.starts_with("not shown: ");
    let lines = text.lines().filter(is_content).map(|line| line.trim_start_matches('|').trim().to_owned());
    let mut lines: BTreeSet<String> = lines.collect();
    // A running job's time is new in each answer.
    lines.retain(|line| !line.starts_with("RUNNING for") && !line.starts_with("no output for"));
    lines
}

/// Returns the suggested calls of an answer: those of `next`, and those of omitted parts.
fn suggested(result: &Value) -> Vec<String> {
    let answer = &result["structuredContent"];
    let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let omitted = list("omitted").into_iter().map(|cut| cut["get"].clone());
    let calls = list("next").into_iter().chain(omitted).filter_map(|call| call.as_str().map(str::to_owned));
    // Some parts of a list have no call, only a command for a person.
    let is_call = |call: &String| !call.is_empty() && !call.starts_with("a person ");
    let calls: BTreeSet<String> = calls.filter(is_call).collect();
    calls.into_iter().collect()
}

/// Parses a call such as `get_job {"job_id": "…"}`.
fn parsed(call: &str) -> (&str, Value) {
    let (tool, arguments) = call.split_once(' ').unwrap_or_else(|| panic!("no call: {call}"));
    assert!(TOOLS.contains(&tool), "no tool: {call}");
    (tool, serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {call}")))
}

/// Calls each suggestion of an answer, and those of their answers. `before` prepares the change that a
/// waiting call returns. Returns the number of calls.
fn follow(gateway: &mut Gateway, case: &str, first: &Value, mut before: impl FnMut(&str)) -> usize {
    assert_ne!(first["isError"], true, "{case}: {first}");
    let mut queue: Vec<(Value, String)> =
        suggested(first).into_iter().map(|call| (first.clone(), call)).collect();
    let mut called = BTreeSet::new();
    while let Some((of, call)) = queue.pop() {
        let (tool, arguments) = parsed(&call);
        if !called.insert(call.clone()) {
            continue;
        }
        assert!(
            called.len() <= FOLLOWED_MAX,
            "{case}: one call leads to the next without an end: {called:?}"
        );
        before(tool);
        let result = gateway.result(tool, arguments);
        assert_ne!(result["isError"], true, "{case}: {call}: {result}");
        let known = content(&of);
        let new: Vec<String> = content(&result).into_iter().filter(|line| !known.contains(line)).collect();
        let is_header = |line: &String| line.starts_with("log of job ") || line.starts_with("next_cursor: ");
        assert!(
            !new.iter().all(is_header),
            "{case}: {call} returns nothing new.\nfirst: {}\nsecond: {}",
            of["content"][0]["text"].as_str().unwrap(),
            result["content"][0]["text"].as_str().unwrap()
        );
        queue.extend(suggested(&result).into_iter().map(|next| (result.clone(), next)));
    }
    called.len()
}

/// Returns a source file whose compilation fails with this number of errors.
fn broken_source(errors: usize) -> String {
    (0..errors).map(|number| format!("int value_{number}(void) {{ return missing_{number}; }}\n")).collect()
}

/// Returns a Python module with this number of failing tests.
fn failing_tests(count: usize) -> String {
    let test = |number| {
        format!(
            "    def test_case_{number}(self):\n        self.assertEqual({{'value': {number}}}, {{'value': -1}})\n\n"
        )
    };
    let tests: String = (0..count).map(test).collect();
    format!("import unittest\n\nclass Cases(unittest.TestCase):\n{tests}")
}

#[test]
fn each_suggested_call_of_a_finished_job_returns_something_new() {
    let place = Place::new();
    fs::write(place.file("broken.c"), broken_source(120)).unwrap();
    fs::write(place.file("test_few.py"), failing_tests(3)).unwrap();
    fs::write(place.file("test_many.py"), failing_tests(90)).unwrap();
    let unexplained = format!("{BUSY}; exit 3");
    let long_lines = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); printf 'src/a.c:%d:1: error: ' $i; printf 'x%.0s' $(seq 700); echo; done; exit 1";
    let cases = [
        ("passed", json!({"command": "echo done"}), false),
        ("passed with long output", json!({"command": BUSY}), true),
        (
            "passed with long output in full",
            json!({"command": format!("{BUSY}; {BUSY}; {BUSY}"), "verbosity": "full"}),
            false,
        ),
        ("failed without a word", json!({"command": "exit 3"}), false),
        ("failed with a short log", json!({"command": "echo one; echo two >&2; exit 3"}), false),
        ("failed without an explanation", json!({"command": unexplained}), true),
        ("build failure", json!({"command": "cc -c broken.c"}), true),
        ("few failed tests", json!({"command": "python3 -m unittest test_few"}), false),
        ("many failed tests", json!({"command": "python3 -m unittest test_many"}), true),
        ("long lines", json!({"command": long_lines}), true),
        ("timeout", json!({"command": format!("{BUSY}; sleep 600"), "timeout_secs": 1}), true),
        ("timeout in silence", json!({"command": "sleep 600", "timeout_secs": 1}), false),
        ("crashed", json!({"command": format!("{BUSY}; kill -SEGV $$")}), true),
        ("crashed in silence", json!({"command": "kill -SEGV $$"}), false),
        ("inconclusive", json!({"command": format!("{BUSY}; echo 'src/a.c:3:5: error: no' >&2")}), true),
        ("not found", json!({"command": "no-such-program"}), false),
        ("two labels that no worker has", json!({"command": "true", "labels": ["os=plan9", "x=y"]}), true),
        ("several jobs that pass", json!({"command": "echo done", "on": [[], []]}), false),
        ("several jobs that fail", json!({"command": unexplained, "on": [[], []]}), true),
        ("several jobs with errors", json!({"command": "cc -c broken.c", "on": [[], []]}), true),
    ];
    for client in ["t", "codex-mcp-client"] {
        let mut gateway = Gateway::connect(&mut place.command(["mcp"]), client);
        for (case, arguments, has_calls) in &cases {
            for verbosity in ["minimal", "normal", "full"] {
                let mut arguments = arguments.clone();
                if arguments.get("verbosity").is_none() {
                    arguments["verbosity"] = json!(verbosity);
                }
                let case = format!("{case}, {verbosity}, {client}");
                let first = gateway.result("run_command", arguments);
                let calls = follow(&mut gateway, &case, &first, |_| ());
                if verbosity == "minimal" && client == "t" {
                    assert_eq!(calls > 0, *has_calls, "{case}: {first}");
                }
            }
        }
        for (tool, arguments) in [("list_jobs", json!({"limit": 50})), ("worker_status", json!({}))] {
            let first = gateway.result(tool, arguments);
            follow(&mut gateway, tool, &first, |_| ());
        }
    }
}

#[test]
fn each_suggested_call_after_files_or_tests_were_missing_returns_something_new() {
    let place = Place::new();
    let manifest = "[package]\nname = \"a\"\nedition = \"2021\"\n[workspace]\n[lib]\npath = \"a.rs\"\n";
    fs::write(place.file("Cargo.toml"), manifest).unwrap();
    fs::write(place.file("a.rs"), "#[test]\nfn adds_two() {}\n").unwrap();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let first = gateway.result("run_tests", json!({"filter": "ads_two"}));
    assert!(follow(&mut gateway, "no such test", &first, |_| ()) > 0, "{first}");

    // The local pool runs jobs in place, where nothing is left behind.
    let pool = Pool::start(1);
    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    let script = pool.place().file("script");
    fs::create_dir_all(script.join("node_modules/one")).unwrap();
    fs::write(script.join(".gitignore"), "node_modules\n").unwrap();
    fs::write(script.join("package.json"), "{\"name\": \"a\", \"version\": \"1.0.0\"}").unwrap();
    let lock = json!({"name": "a", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "a", "version": "1.0.0"}}});
    fs::write(script.join("package-lock.json"), lock.to_string()).unwrap();
    let git = |words: &[&str]| {
        let done = Command::new("git").args(words).current_dir(&script).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    let command = "test -d node_modules/one || { echo \"Error: Cannot find module 'one'\" >&2; exit 1; }";
    let first = gateway.result("run_command", json!({"command": command, "cwd": "script"}));
    let text = first["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Left behind") && text.contains("`setup: npm ci`"), "{text}");
    assert_eq!(suggested(&first).len(), 1, "{first}");
    follow(&mut gateway, "left behind", &first, |_| ());

    fs::create_dir(script.join(".buildpool")).unwrap();
    fs::write(script.join(".buildpool/config.yaml"), format!("setup: \"{BUSY}; exit 4\"\n")).unwrap();
    let first = gateway.result("run_command", json!({"command": "true", "cwd": "script"}));
    follow(&mut gateway, "failed setup", &first, |_| ());
}

#[test]
fn each_suggested_call_about_a_live_or_cancelled_job_returns_something_new() {
    let pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    // No file name of the shell has a space.
    let go = |name: &str| pool.place().home().join(name.replace(' ', "-"));
    let until = |name: &str| format!("until [ -e {} ]; do sleep 0.05; done", go(name).display());
    let is_running = |job: &Value, lines: usize| {
        wait_for("the job has printed its lines", || {
            let now = pool.job(job.as_str().unwrap());
            let shown = now["last_lines"].as_array().map_or(0, Vec::len);
            (now["state"] == "running" && shown >= lines).then_some(now)
        })
    };
    for (case, output, lines) in [
        ("running in silence", "true", 0),
        ("running with few lines", "echo one; echo two", 2),
        ("running with many lines", BUSY, 10),
    ] {
        let command = format!("{output}; {}; echo ended", until(case));
        let started = gateway.result("run_command", json!({"command": command, "wait_secs": 0}));
        let job = started["structuredContent"]["job_id"].clone();
        is_running(&job, lines);
        let queued = gateway.result("run_command", json!({"command": "echo next", "wait_secs": 0}));
        assert_eq!(queued["structuredContent"]["state"], "queued", "{queued}");
        let calls = suggested(&queued);
        assert!(calls.iter().all(|call| !call.starts_with("get_job_logs")), "it has no log: {calls:?}");
        let running = gateway.result("get_job", json!({"job_id": job}));
        assert_eq!(running["structuredContent"]["state"], "running", "{running}");
        let calls = suggested(&running);
        assert_eq!(
            calls.iter().any(|call| call.starts_with("get_job_logs")),
            lines >= 10,
            "{case}: {running}"
        );
        // The waiting call is the last one that ends the job.
        follow_live(&mut gateway, case, &running, || fs::write(go(case), "").unwrap());
        follow_live(&mut gateway, "queued", &queued, || ());
    }
    let command = format!("{BUSY}; {}", until("never"));
    let started = gateway.result("run_command", json!({"command": command, "wait_secs": 0}));
    let job = started["structuredContent"]["job_id"].clone();
    is_running(&job, 10);
    let queued = gateway.result("run_command", json!({"command": "echo late", "wait_secs": 0}));
    for first in [&queued, &started] {
        let job = &first["structuredContent"]["job_id"];
        let cancelled = gateway.result("cancel_job", json!({"job_id": job, "reason": "enough"}));
        follow(&mut gateway, "cancelled", &cancelled, |_| ());
        let ended = gateway.result("get_job", json!({"job_id": job, "wait_secs": 40}));
        assert_eq!(ended["structuredContent"]["verdict"], "cancelled", "{ended}");
        follow(&mut gateway, "after a cancel", &ended, |_| ());
    }
}

/// Follows the calls of a live job: first those that leave it as it is, then the one that waits, after `end`.
/// A call that cancels a job that has ended still returns its result.
fn follow_live(gateway: &mut Gateway, case: &str, first: &Value, end: impl Fn()) {
    let mut calls = suggested(first);
    calls.sort_by_key(|call| match parsed(call).0 {
        "get_job_logs" => 0,
        "get_job" => 1,
        _ => 2,
    });
    for call in calls {
        let (tool, arguments) = parsed(&call);
        if tool == "get_job" {
            end();
        }
        let result = gateway.result(tool, arguments);
        assert_ne!(result["isError"], true, "{case}: {call}: {result}");
        let known = content(first);
        assert!(
            content(&result).iter().any(|line| !known.contains(line)),
            "{case}: {call}: {first} {result}"
        );
    }
}

/// Returns the commands that a text of the command line suggests.
fn commands(text: &str) -> Vec<String> {
    let next = text.lines().filter_map(|line| line.strip_prefix("next: ")).map(str::to_owned);
    let omitted = text.lines().filter_map(|line| line.strip_prefix("not shown: "));
    let quoted = omitted.flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned);
    next.chain(quoted).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn each_suggested_command_of_a_terminal_runs_and_prints_something_new() {
    let pool = Pool::start(1);
    let place = pool.place();
    fs::write(place.file("broken.c"), broken_source(120)).unwrap();
    fs::write(place.file("test_many.py"), failing_tests(90)).unwrap();
    let programs = place.home().join("programs");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(buildpool_tests::binary(), programs.join("buildpool")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(place.work());
        // The variables of the pool, and none of another one.
        for (name, value) in pool.command(&[]).get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("PATH", &path).output().unwrap()
    };
    let unexplained = format!("{BUSY}; exit 3");
    let crashed = format!("{BUSY}; kill -SEGV $$");
    let doubtful = format!("{BUSY}; echo 'src/a.c:3:5: error: no' >&2");
    let cases: [(&str, &[&str], &str); 7] = [
        ("failed without an explanation", &[], &unexplained),
        ("build failure", &[], "cc -c broken.c"),
        ("many failed tests", &[], "python3 -m unittest test_many"),
        ("timeout", &["--timeout", "1s"], "echo begun; sleep 600"),
        ("crashed", &[], &crashed),
        ("inconclusive", &[], &doubtful),
        ("no such worker", &["--label", "os=plan9"], "true"),
    ];
    let mut followed = 0;
    for (case, options, command) in cases {
        let words = [&["run", "--output", "digest"], options, &["--", "sh", "-c", command]].concat();
        let first = pool.buildpool(&words).out();
        for command in commands(&first) {
            let ran = shell(&command);
            let printed = [ran.stdout, ran.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            assert_eq!(ran.status.code(), Some(0), "{case}: {command}: {printed}");
            let is_new = |line: &str| !first.contains(line.trim());
            assert!(printed.lines().any(is_new), "{case}: {command} prints nothing new.\n{first}\n{printed}");
            followed += 1;
        }
    }
    assert!(followed >= 7, "{followed}");
}
