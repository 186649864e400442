//! Tests of the history of tests: from reports and logs of real jobs to lists and notes.

use buildpool_tests::{Pool, PoolBuilder, wait_until};
use serde_json::Value;
use std::process::Command;

/// A report with one test that passes and one with the result `$RESULT`.
const JUNIT: &str = r#"{ echo "<testsuite name='s'><testcase classname='a' name='steady' time='0.25'/>"; echo "<testcase classname='a' name='shaky' time='1.5'>$RESULT</testcase></testsuite>"; } >out.xml; test -z "$RESULT""#;
const FAILS: &str = "RESULT=<failure message='no'/>";

fn project(pool: &Pool) {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
        assert!(git.current_dir(pool.place().work()).status().unwrap().success());
    };
    std::fs::write(pool.place().work().join("code"), "1").unwrap();
    git(&["init", "-q", "-b", "topic"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "first"]);
}

fn run(pool: &Pool, arguments: &[&str], command: &str, code: i32) -> Value {
    let all = [&["run", "--output", "json"], arguments, &["--", "sh", "-c", command]].concat();
    pool.buildpool(&all).expect(code).json()
}

fn listed(pool: &Pool, query: &str) -> Vec<Value> {
    let bearer = format!("Authorization: Bearer {}", pool.token());
    let answer = pool.request("GET", &format!("/api/v1/tests?{query}"), &[&bearer], "").expect(200).json();
    answer["tests"].as_array().unwrap().clone()
}

/// Returns the test with this name once it has this many results.
fn test(pool: &Pool, name: &str, runs: u64) -> Value {
    let mut found = Value::Null;
    wait_until("the results are stored", || {
        let all = listed(pool, "");
        found =
            all.into_iter().find(|test| test["test"].as_str().unwrap().ends_with(name)).unwrap_or_default();
        found["runs"] == runs
    });
    found
}

#[test]
fn a_test_with_both_results_in_one_tree_is_flaky_and_an_answer_states_it() {
    let pool = Pool::start(1);
    project(&pool);
    let report = ["--report", "out.xml", "--env"];
    run(&pool, &[&report[..], &["RESULT="]].concat(), JUNIT, 0);
    test(&pool, "shaky", 1);
    let first = run(&pool, &[&report[..], &[FAILS]].concat(), JUNIT, 1);
    assert!(!first.to_string().contains("flaky:"), "{first}");
    let shaky = test(&pool, "shaky", 2);
    assert_eq!(
        (&shaky["flaky"], &shaky["flaky_failed"], &shaky["flaky_runs"]),
        (&true.into(), &1.into(), &2.into())
    );
    assert_eq!(shaky["failing_since"]["job_id"], first["job_id"]);
    assert_eq!(shaky["history"][0]["result"], "passed");
    assert_eq!(
        (&shaky["history"][1]["result"], &shaky["history"][1]["branch"]),
        (&"failed".into(), &"topic".into())
    );
    assert_eq!(
        (shaky["duration_p50_secs"].as_f64(), shaky["history"][1]["worker"].is_string()),
        (Some(1.5), true)
    );

    let second = run(&pool, &[&report[..], &[FAILS]].concat(), JUNIT, 1);
    let note = "failed in 1 of the last 2 runs of unchanged trees";
    assert!(second["notes"].to_string().contains(note), "{second}");
    assert_eq!(second["verdict"], "failed");
    let shown = pool.buildpool(&["job", second["job_id"].as_str().unwrap()]).expect(0).out();
    assert!(shown.contains("flaky: `"), "{shown}");

    test(&pool, "shaky", 3);
    let names = |query: &str| -> Vec<String> {
        listed(&pool, query).iter().map(|test| test["test"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("flaky=true").iter().all(|name| name.ends_with("shaky")));
    assert!(names("failing=true").iter().all(|name| name.ends_with("shaky")));
    let slow = names("slow=true");
    assert!(slow[0].ends_with("shaky") && slow[1].ends_with("steady"), "{slow:?}");
    assert!(listed(&pool, "project=other").is_empty());
    let bearer = format!("Authorization: Bearer {}", pool.token());
    let page = pool.request("GET", "/api/v1/tests?slow=true&limit=1", &[&bearer], "").expect(200).json();
    let next = page["next_cursor"].as_str().unwrap();
    let rest = listed(&pool, &format!("slow=true&limit=1&cursor={next}"));
    assert!(rest[0]["test"].as_str().unwrap().ends_with("steady"));
    for wrong in ["limit=0", "limit=201", "cursor=x", "flaky=2", "other=1"] {
        pool.request("GET", &format!("/api/v1/tests?{wrong}"), &[&bearer], "").expect(400);
    }
}

#[test]
fn a_log_names_the_tests_and_a_later_pass_ends_the_failure() {
    let mut pool = Pool::start(1);
    project(&pool);
    let cargo = r#"
        echo; echo "running 2 tests"; echo "test one ... ok"; echo "test two ... $TWO"; echo
        test "$TWO" = ok || { echo "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"; exit 101; }
        echo "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"
    "#;
    let failed = run(&pool, &["--env", "TWO=FAILED"], cargo, 101);
    let two = test(&pool, "two", 1);
    assert_eq!((&two["failed"], &two["failing_since"]["job_id"]), (&1.into(), &failed["job_id"]));
    assert_eq!(two["flaky"], false, "one result only");
    std::fs::write(pool.place().work().join("code"), "2").unwrap();
    run(&pool, &["--env", "TWO=ok"], cargo, 0);
    let two = test(&pool, "two", 2);
    assert_eq!((&two["flaky"], &two["failing_since"]), (&false.into(), &Value::Null), "a change mended it");
    assert_eq!(test(&pool, "one", 2)["passed"], 2);
    pool.restart_coordinator();
    assert_eq!(test(&pool, "two", 2)["failed"], 1);
}

#[test]
fn a_list_counts_only_results_of_one_branch_or_worker() {
    let pool = PoolBuilder::default().worker(&["--name", "one"]).worker(&["--name", "two"]).start();
    project(&pool);
    let on = |worker: &str, result: &str, code: i32| {
        let label = format!("name={worker}");
        run(&pool, &["--label", &label, "--report", "out.xml", "--env", result], JUNIT, code)
    };
    let failed = on("one", FAILS, 1);
    test(&pool, "shaky", 1);
    on("two", "RESULT=", 0);
    assert_eq!(test(&pool, "shaky", 2)["failing_since"], Value::Null, "it passed last");
    let only = |query: &str| -> Vec<Value> {
        listed(&pool, query)
            .into_iter()
            .filter(|test| test["test"].as_str().unwrap().ends_with("shaky"))
            .collect()
    };
    let failing = only("failing=true&worker=one");
    assert_eq!(failing[0]["failing_since"]["job_id"], failed["job_id"], "{failing:?}");
    assert_eq!((&failing[0]["runs"], &failing[0]["flaky"]), (&1.into(), &false.into()));
    assert!(only("failing=true&worker=two").is_empty());
    assert_eq!(only("branch=topic")[0]["runs"], 2);
    assert!(only("branch=main").is_empty() && only("worker=three").is_empty());
    let shown =
        pool.buildpool(&["tests", "--failing", "--worker", "one", "--branch", "topic"]).expect(0).out();
    assert!(shown.contains("shaky") && shown.contains("1/1"), "{shown}");
}

#[test]
fn a_token_that_reads_its_own_jobs_learns_nothing_of_the_tests_of_others() {
    let pool = Pool::start(1);
    project(&pool);
    let report = ["--report", "out.xml", "--env"];
    run(&pool, &[&report[..], &["RESULT="]].concat(), JUNIT, 0);
    run(&pool, &[&report[..], &[FAILS]].concat(), JUNIT, 1);
    test(&pool, "shaky", 2);
    let token = ["token", "create", "--role", "submit", "--name", "guest", "--reads", "own", "--json"];
    let token = pool.buildpool(&token).expect(0).json()["token"].as_str().unwrap().to_owned();
    let all =
        [&["--token", &token, "--output", "json"], &report[..], &[FAILS, "--", "sh", "-c", JUNIT]].concat();
    let own = pool.buildpool(&[&["run"], &all[..]].concat()).expect(1).json();
    assert!(!own.to_string().contains("flaky"), "{own}");
    test(&pool, "shaky", 3);
    let job = own["job_id"].as_str().unwrap();
    // A view with a template reads the log again.
    let shown = pool.buildpool(&["job", job, "--template", "raw", "--token", &token]).expect(0).out();
    assert!(!shown.contains("flaky"), "{shown}");
    let bearer = format!("Authorization: Bearer {token}");
    let list = |query: &str| {
        let answer =
            pool.request("GET", &format!("/api/v1/tests?{query}"), &[&bearer], "").expect(200).json();
        answer["tests"].as_array().unwrap().clone()
    };
    assert!(list("flaky=true").is_empty());
    let failing = list("failing=true");
    assert_eq!((&failing[0]["runs"], &failing[0]["failing_since"]["job_id"]), (&1.into(), &own["job_id"]));
    // A token that reads all jobs learns of all three.
    let again = run(&pool, &[&report[..], &[FAILS]].concat(), JUNIT, 1);
    assert!(again["notes"].to_string().contains("flaky"), "{again}");
}
