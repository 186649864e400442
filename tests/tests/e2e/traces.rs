//! Traces over all programs, at a real OpenTelemetry receiver.

use buildpool_tests::mcp::Gateway;
use buildpool_tests::{OtlpReceiver, Pool, PoolBuilder, Spanned};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Command;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn start(receiver: &OtlpReceiver, protocol: &str) -> Pool {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    receiver
        .variables(protocol)
        .iter()
        .fold(builder, |builder, (name, value)| builder.variable(name, value))
        .start()
}

fn find<'a>(spans: &'a [Spanned], name: &str) -> &'a Spanned {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span {name}: {spans:#?}"));
    assert!(found.next().is_none(), "two spans {name}: {spans:#?}");
    span
}

/// Asserts that a span is below another one.
fn below(spans: &[Spanned], child: &str, parent: &str) {
    assert_eq!(find(spans, child).parent, find(spans, parent).id, "{child} below {parent}: {spans:#?}");
}

fn commit(pool: &Pool) {
    std::fs::write(pool.place().file("a.txt"), "text").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "c"],
    ] {
        let done = Command::new("git").args(arguments).current_dir(pool.place().work()).status().unwrap();
        assert!(done.success(), "{arguments:?}");
    }
}

/// One call over MCP makes one trace over gateway, coordinator and worker, by both protocols.
fn one_call(receiver: &OtlpReceiver, protocol: &str) {
    let pool = start(receiver, protocol);
    commit(&pool);
    let mut gateway = Gateway::connect(&mut pool.command(&["mcp"]), "t");
    let arguments = json!({"command": "cat a.txt; exit 3"});
    let call = json!({"name": "run_command", "arguments": arguments, "_meta": {"traceparent": CALLER}});
    let id = gateway.begin("tools/call", call);
    let answer = gateway.response(id)["result"]["structuredContent"].clone();
    assert_eq!(answer["exit_code"], 3, "{answer}");
    let ends = ["tools/call run_command", "RUN work", "collect evidence"];
    let spans = receiver
        .wait("all spans", |spans| ends.iter().all(|name| spans.iter().any(|span| span.name == *name)));
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!(find(&spans, "tools/call run_command").parent, "b7ad6b7169203331");
    for (child, parent) in [
        ("take snapshot", "tools/call run_command"),
        ("submit", "tools/call run_command"),
        ("answer", "tools/call run_command"),
        ("RUN work", "submit"),
        ("queue", "RUN work"),
        ("attempt 1", "RUN work"),
        ("fetch snapshot", "attempt 1"),
        ("process", "attempt 1"),
        ("collect evidence", "attempt 1"),
        ("seal log", "attempt 1"),
        ("digest", "attempt 1"),
    ] {
        below(&spans, child, parent);
    }
    let services: BTreeSet<&str> = spans.iter().map(Spanned::service).collect();
    let expected = ["buildpool-coordinator", "buildpool-mcp", "buildpool-worker"];
    assert_eq!(services, BTreeSet::from(expected), "{spans:#?}");
    assert!(spans.iter().all(|span| span.times.0 <= span.times.1), "{spans:#?}");
    assert!(spans.iter().all(|span| span.resource["deployment.environment.name"] == "test"));
    let job = find(&spans, "RUN work");
    assert_eq!(job.attributes["cicd.pipeline.result"], "failure");
    assert_eq!(job.attributes["cicd.pipeline.run.id"], answer["job_id"].as_str().unwrap());
    assert_eq!((job.status, job.attributes["error.type"].as_str()), (2, "failed"));
    let process = find(&spans, "process");
    assert_eq!(process.attributes["process.exit.code"], "3");
    assert_eq!(find(&spans, "attempt 1").attributes["cicd.worker.name"], "w0");
    assert!(receiver.headers().contains(&"x-tenant: team".to_owned()));
}

#[test]
fn one_call_is_one_trace_over_all_programs_by_http() {
    one_call(&OtlpReceiver::http(), "http/protobuf");
}

#[test]
fn one_call_is_one_trace_over_all_programs_by_grpc() {
    one_call(&OtlpReceiver::grpc(), "grpc");
}

#[test]
fn run_continues_an_inherited_trace_and_passes_it_on_only_if_asked() {
    let receiver = OtlpReceiver::http();
    let pool = start(&receiver, "http/protobuf");
    let run = |arguments: &[&str]| {
        let mut command = pool.command(&["run", "--no-snapshot"]);
        command.args(arguments).args(["--", "sh", "-c", "echo \"trace=$TRACEPARENT\""]);
        let done = command.env("TRACEPARENT", CALLER).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(run(&[]), "trace=\n");
    let printed = run(&["--trace-env"]);
    let spans = receiver.wait("two processes", |spans| {
        let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
        (count("process"), count("buildpool run"), count("RUN work")) == (2, 2, 2)
    });
    let processes = spans.iter().filter(|span| span.name == "process");
    let places: Vec<String> = processes.map(|span| format!("trace=00-{TRACE}-{}-01\n", span.id)).collect();
    assert!(places.contains(&printed), "{printed}: {places:?}");
    let roots = spans.iter().filter(|span| span.name == "buildpool run");
    assert!(roots.clone().all(|span| span.parent == "b7ad6b7169203331"), "{spans:#?}");
    assert!(roots.clone().all(|span| span.service() == "buildpool-cli"));
}

#[test]
fn a_restart_of_the_coordinator_changes_no_time_of_a_span() {
    let receiver = OtlpReceiver::http();
    let mut pool = start(&receiver, "http/protobuf");
    let job = pool.buildpool(&[
        "run",
        "--detach",
        "--no-snapshot",
        "--",
        "sh",
        "-c",
        "while :; do test -e go && exit; sleep 0.1; done",
    ]);
    let job = job.expect(0).out().trim().to_owned();
    let running = pool.wait_for_state(&job, "running");
    pool.restart_coordinator();
    pool.wait_for_workers();
    pool.buildpool(&["cancel", &job]).expect(0);
    let spans = receiver.wait("the job", |spans| spans.iter().any(|span| span.name == "RUN work"));
    let done = pool.job(&job);
    let nanos = |field: &str, job: &serde_json::Value| {
        let time: jiff::Timestamp = job[field].as_str().unwrap().parse().unwrap();
        u64::try_from(time.as_millisecond()).unwrap() * 1_000_000
    };
    let run = find(&spans, "RUN work");
    assert_eq!(run.times, (nanos("created_at", &running), nanos("finished_at", &done)));
    assert_eq!(run.attributes["cicd.pipeline.result"], "cancellation");
    assert_eq!(find(&spans, "queue").times.0, run.times.0);
    below(&spans, "queue", "RUN work");
    below(&spans, "attempt 1", "RUN work");
}

#[test]
fn a_receiver_that_is_away_costs_spans_and_no_job() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pool = PoolBuilder::default()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{nowhere}"))
        .variable("OTEL_BSP_SCHEDULE_DELAY", "10")
        .worker(&["--slots", "2"])
        .start();
    pool.shell("echo fine").expect(0);
    let dropped = || {
        let (_, metrics) = pool.get("/metrics", Some(pool.token()));
        let line = metrics.lines().find_map(|line| line.strip_prefix("buildpool_spans_dropped_total "));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap()
    };
    buildpool_tests::wait_until("dropped spans are counted", || dropped() > 0);
    pool.shell("echo still fine").expect(0);
}
