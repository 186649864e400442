//! Tests of the coordinator's page and its requests, over the network. tests/conformance checks the
//! page in a browser.

use buildpool_tests::{Pool, PoolBuilder};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// An id of no job.
const UNKNOWN: &str = "01a204df-0000-7000-8000-000000000000";

fn read(pool: &Pool, path: &str) -> Value {
    let (status, body) = pool.get(&format!("/v1/page/{path}"), Some(pool.token()));
    assert!(status.contains("200"), "{path}: {status} {body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns status and message of a refused request.
fn refused(pool: &Pool, path: &str, token: Option<&str>) -> (String, String) {
    let (status, body) = pool.get(&format!("/v1/page/{path}"), token);
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {status} {body}"));
    (status.split(' ').nth(1).unwrap().to_owned(), body["message"].as_str().unwrap().to_owned())
}

/// Returns the whole answer to these request lines.
fn raw(pool: &Pool, lines: &str) -> String {
    let mut stream = TcpStream::connect(pool.address()).unwrap();
    write!(stream, "{lines}\r\nHost: pool\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_is_for_everybody_and_what_it_shows_for_who_has_a_token() {
    let pool = Pool::start(1);
    for (path, media_type) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")]
    {
        let answer = raw(&pool, &format!("GET {path} HTTP/1.1"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        for header in [
            format!("content-type: {media_type}"),
            "content-security-policy: default-src 'none'".into(),
            "cache-control: no-store".into(),
        ] {
            assert!(answer.contains(&header), "{path}, {header}: {answer}");
        }
    }
    for path in ["pool", "jobs/1", "jobs/1/log"] {
        assert_eq!(refused(&pool, path, None).0, "401");
        assert!(
            raw(&pool, &format!("GET /v1/page/{path} HTTP/1.1")).contains("cache-control: no-store"),
            "{path}"
        );
        assert_eq!(refused(&pool, path, Some(pool.worker_token())).0, "403");
        let foreign = format!(
            "GET /v1/page/{path} HTTP/1.1\r\nOrigin: https://elsewhere.example\r\nAuthorization: Bearer {}",
            pool.token()
        );
        let answer = raw(&pool, &foreign);
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("not for browsers"),
            "{path}: {answer}"
        );
        let written = format!("POST /v1/page/{path} HTTP/1.1\r\nAuthorization: Bearer {}", pool.token());
        assert!(raw(&pool, &written).starts_with("HTTP/1.1 405"), "{path} only reads");
    }
}

#[test]
fn it_shows_what_the_commands_show() {
    let pool = Pool::start(1);
    let failed = pool.buildpool(&[
        "run",
        "--no-snapshot",
        "--output",
        "json",
        "--",
        "sh",
        "-c",
        "echo 'a.c:1:2: error: no'; seq 3000; exit 1",
    ]);
    let failed = failed.expect(1).json();
    let id = failed["job_id"].as_str().unwrap();
    let shown = read(&pool, "pool?limit=1");
    let mut workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
    // It changes continuously while the worker is connected.
    workers[0]["last_seen"] = shown["workers"][0]["last_seen"].clone();
    assert_eq!(shown["workers"], workers);
    assert_eq!(shown["jobs"], pool.buildpool(&["jobs", "--limit", "1", "--json"]).expect(0).json());
    assert_eq!(shown["refuses_jobs"], Value::Null);
    let job = read(&pool, &format!("jobs/{}", &id[..30]));
    let asked = pool.buildpool(&["job", id, "--verbosity", "normal", "--json"]).expect(0).json();
    for key in ["verdict", "cause", "exit_code"] {
        assert_eq!(job["result"][key], asked[key], "{key}");
    }
    let finding = &job["result"]["tier_1_findings"][0];
    assert_eq!(finding["id"], asked["tier_1_findings"][0]["id"]);
    assert_eq!(job["progress"], Value::Null);
    let tail = read(&pool, &format!("jobs/{id}/log?tail=2"));
    assert_eq!(tail["interleaved"], "2999\n3000\n");
    let whole = read(&pool, &format!("jobs/{id}/log"))["interleaved"].as_str().unwrap().to_owned();
    assert!(whole.starts_with("a.c:1:2: error: no\n1\n") && whole.ends_with("\n3000\n"), "{whole}");

    let go = pool.place().home().join("go");
    let text = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let running = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    let running = running.out().trim().to_owned();
    pool.wait_for_state(&running, "running");
    let job = read(&pool, &format!("jobs/{running}"));
    assert_eq!((&job["result"]["state"], &job["progress"]["worker"]), (&"running".into(), &"w0".into()));
    assert_eq!(read(&pool, "pool?state=running")["jobs"][0]["job_id"], running.as_str());
    std::fs::write(go, "").unwrap();
    pool.wait_for_state(&running, "done");

    let several = ["run", "--no-snapshot", "--several", "--output", "json", "--", "true", ":::", "false"];
    let build = pool.buildpool(&several).expect(1).json();
    let commands = [&build["jobs"][0]["command"], &build["jobs"][1]["command"]];
    assert_eq!(commands, ["true", "false"], "{build}");
    assert!(build["jobs"][1]["cause"].as_str().unwrap().contains("code 1"), "{build}");
    let cut = pool.buildpool(&["jobs", "--limit", "3"]).expect(0);
    let using = format!("buildpool: using {} (BUILDPOOL_URL)\n", pool.url());
    let is_cut = format!("{using}buildpool: the newest 3; `--limit 6` shows older ones too\n");
    assert_eq!((cut.out().lines().count(), cut.err()), (4, is_cut));
    assert_eq!(pool.buildpool(&["jobs", "--limit", "4"]).expect(0).err(), using);
    assert_eq!(read(&pool, "pool?limit=3")["has_more"], true);
    let name = build["request_id"].as_str().unwrap();
    let url = format!("http://{}/#/builds/{name}", pool.address());
    assert_eq!(build["build"]["url"], url.as_str());
    assert_eq!(read(&pool, &format!("pool?build={name}"))["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn what_it_is_asked_wrongly_is_refused_with_what_was_wrong() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "requests_per_minute = 10\n").unwrap();
    let pool = PoolBuilder::default().coordinator(&["--config", file.path().to_str().unwrap()]).start();
    let token = pool.buildpool(&["token", "create", "--role", "submit", "--name", "reader", "--json"]);
    let token = token.expect(0).json()["token"].as_str().unwrap().to_owned();
    for (path, status, words) in [
        (format!("jobs/{UNKNOWN}"), "404", "no job"),
        ("jobs/xyz".into(), "400", "xyz"),
        ("pool?build=x".into(), "400", "build: `x` is no build"),
        (format!("pool?build=build-{UNKNOWN}"), "404", "no job of build-"),
        ("pool?state=late".into(), "400", "late"),
        ("pool?limits=1".into(), "400", "limits"),
        (format!("jobs/{UNKNOWN}/log?cursor=7"), "400", "cursor"),
    ] {
        let (said, message) = refused(&pool, &path, Some(&token));
        assert!(said == status && message.contains(words), "{path}: {said} {message}");
    }
    let (said, message) =
        (0..60).map(|_| refused(&pool, "jobs/xyz", Some(&token))).find(|(said, _)| said == "429").unwrap();
    assert!(message.contains("`reader` sends too many requests: 10 a minute"), "{said} {message}");
}
