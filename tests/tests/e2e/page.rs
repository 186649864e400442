//! Tests of the coordinator's page: its files, and the requests that only it sends. tests/conformance checks the page in
//! a browser.

use buildpool_tests::{Place, Pool};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

/// Returns the answer to these request lines, and its body as bytes.
fn raw(pool: &Pool, lines: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(pool.address()).unwrap();
    write!(stream, "{lines}\r\nHost: pool\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = answer.split_off(at + 4);
    (String::from_utf8(answer).unwrap(), body)
}

fn read(pool: &Pool, path: &str) -> Value {
    let (status, body) = pool.get(&format!("/api/v1/{path}"), Some(pool.token()));
    assert!(status.contains("200"), "{path}: {status} {body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn the_files_of_the_page_are_for_everybody_and_cached_by_their_content() {
    let pool = Pool::start(1);
    let (head, body) = raw(&pool, "GET / HTTP/1.1");
    let page = String::from_utf8(body).unwrap();
    for header in
        ["200 OK", "content-type: text/html", "content-security-policy: default-src 'none'", "no-cache"]
    {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!page.contains("<script>") && !page.contains("style="), "{page}");
    let assets: Vec<&str> = page.split('"').filter(|text| text.starts_with("assets/")).collect();
    assert!(assets.len() >= 4, "{page}");
    for asset in assets {
        let (head, plain) = raw(&pool, &format!("GET /{asset} HTTP/1.1"));
        for header in ["200 OK", "immutable", "nosniff", "etag: "] {
            assert!(head.contains(header), "{asset}, {header}: {head}");
        }
        let (head, packed) = raw(&pool, &format!("GET /{asset} HTTP/1.1\r\nAccept-Encoding: gzip, zstd"));
        assert!(head.contains("content-encoding: zstd") && packed.len() < plain.len(), "{asset}: {head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let (head, nothing) = raw(&pool, &format!("GET /{asset} HTTP/1.1\r\nIf-None-Match: {tag}"));
        assert!(head.contains("304") && nothing.is_empty(), "{asset}: {head}");
    }
    for path in ["/assets/0/app.js", "/assets/../page.html"] {
        assert!(raw(&pool, &format!("GET {path} HTTP/1.1")).0.contains("404"), "{path}");
    }
}

/// Returns name and size of each file that the pictures of the README show.
fn shown_files() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec!["cli/src/top/view.rs".to_owned()];
    let page = "coordinator/src/net/page";
    let names = std::fs::read_dir(root.join(page)).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    files.extend(
        names
            .filter(|name| name.ends_with(".js") || name.ends_with(".css"))
            .map(|name| format!("{page}/{name}")),
    );
    files.sort();
    let line = |file: &String| format!("{file} {}\n", std::fs::metadata(root.join(file)).unwrap().len());
    files.iter().map(line).collect()
}

#[test]
fn the_pictures_of_the_readme_are_current() {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let stored = std::fs::read_to_string(pictures.join("sources")).unwrap();
    assert_eq!(stored, shown_files(), "tests/conformance/pictures makes them again");
    for name in ["overview.png", "job.png", "top.png"] {
        let bytes = std::fs::metadata(pictures.join(name)).unwrap().len();
        assert!((1..300_000).contains(&bytes), "{name}: {bytes} bytes");
    }
}

#[test]
fn a_log_is_read_and_searched_by_lines() {
    let pool = Pool::start(1);
    let text = "seq 3000; echo 'a.c:1:2: error: no'; printf end >&2; exit 1";
    let words = ["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", text];
    let failed = pool.buildpool(&words).expect(1).json();
    let id = failed["job_id"].as_str().unwrap();
    let some = read(&pool, &format!("jobs/{id}/lines?from=2999&count=2"));
    assert_eq!((&some["total"], &some["from"], &some["state"]), (&json!(3002), &json!(2999), &json!("done")));
    let lines: Vec<_> = some["lines"].as_array().unwrap().iter().map(|line| line["text"].clone()).collect();
    assert_eq!(lines, ["2999", "3000"]);
    let tail = read(&pool, &format!("jobs/{id}/lines?count=1"));
    assert_eq!((&tail["from"], &tail["lines"][0]["stream"]), (&json!(3002), &json!("stderr")));
    let finding = &failed["tier_1_findings"][0];
    let at = finding["evidence"]["from"].as_u64().unwrap_or_default();
    let place = read(&pool, &format!("jobs/{id}/lines?count=0&at=stdout:{at},stdout:999999"));
    assert_eq!(place["places"], json!([3001, null]));
    let found = read(&pool, &format!("jobs/{id}/matches?grep=%5E3.0%24"));
    assert_eq!(found["count"], 10, "{found}");
    assert_eq!(found["lines"][0], 300);
    for (path, status, words) in [
        ("lines?from=0", "400", "from: 0"),
        ("lines?count=2001", "400", "count: 2001"),
        ("lines?at=stdin:1", "400", "at: `stdin:1`"),
        ("lines?attempt=2", "404", "attempt 1 is the only one"),
        ("matches?grep=%28", "422", "grep: `(` is not a valid pattern"),
    ] {
        let (said, body) = pool.get(&format!("/api/v1/jobs/{id}/{path}"), Some(pool.token()));
        assert!(said.contains(status) && body.contains(words), "{path}: {said} {body}");
    }
}

#[test]
fn figures_names_and_the_own_token_are_told() {
    let pool = Pool::start(1);
    pool.buildpool(&["run", "--no-snapshot", "--", "false"]).expect(1);
    pool.buildpool(&["run", "--no-snapshot", "--", "true"]).expect(0);
    let load = read(&pool, "load");
    assert_eq!((&load["jobs"], &load["failed"]), (&json!(2), &json!(1)), "{load}");
    assert!(load["wait_p50_secs"].is_number() && load["wait_p90_secs"].is_number(), "{load}");
    assert_eq!(load["periods"].as_array().map(Vec::len), Some(48));
    let me = read(&pool, "me");
    assert_eq!((&me["role"], &me["reads_own"]), (&json!("admin"), &json!(false)), "{me}");
    let jobs = read(&pool, "jobs?project=no-such-project");
    assert_eq!(jobs["jobs"], json!([]));
    let job = &read(&pool, "jobs?limit=1")["jobs"][0];
    assert!(job["started_at"].is_string() && job.get("headline").is_none(), "{job}");
    assert_eq!(pool.get("/api/v1/me", Some(pool.worker_token())).0.split(' ').nth(1), Some("403"));
}

/// Exchanges the code of a printed address. Returns the status and the token.
fn exchange(host: &str, address: &str) -> (String, Option<String>) {
    let code = address.trim().rsplit('/').next().unwrap();
    let body = json!({ "code": code }).to_string();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /api/v1/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().to_owned();
    let json: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    (status, json["token"].as_str().map(str::to_owned))
}

#[test]
fn a_printed_address_signs_in_once() {
    let pool = Pool::start(1);
    let host = pool.address().to_string();
    let printed = pool.buildpool(&["page", "--no-open"]).expect(0).out();
    assert!(printed.starts_with(&format!("http://{host}/#/sign-in/")), "{printed}");
    assert_eq!(exchange(&host, &printed), ("200".into(), Some(pool.token().to_owned())));
    assert_eq!(exchange(&host, &printed), ("401".into(), None));
    let lines = "POST /api/v1/sign-in-codes HTTP/1.1\r\nContent-Length: 0";
    assert!(raw(&pool, lines).0.contains("401"), "a code needs a token");
}

#[test]
fn the_page_of_a_pool_with_a_self_made_certificate_is_forwarded() {
    let place = Place::new();
    let mut command = place.command(["page", "--no-open"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut printed).unwrap();
    let host = printed.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap().to_owned();
    assert!(host.starts_with("127.0.0.1:"), "{printed}");
    let (status, token) = exchange(&host, &printed);
    assert!(status == "200" && token.is_some_and(|token| token.starts_with("bp_")), "{status}");
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(stream, "GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 401 "), "the forwarder adds no token: {answer}");
    child.kill().unwrap();
    child.wait().unwrap();
}
