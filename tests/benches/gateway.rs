//! Benchmarks of the gateway: `cargo bench -p buildpool-tests --bench gateway [NAME…]`.
//!
//! Names: `listing`, `calls`, `start`, `many`. `sizes=DIR` measures answers over the logs of a
//! directory: files `*.log` at any depth. An optional `manifest.jsonl` has lines with the fields
//! `file` and `exit_code`. The baseline of `calls` is a server of the same SDK with one tool that
//! answers immediately. The same client calls it in the same run.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures")]

use buildpool_tests::mcp::{Gateway, meta};
use buildpool_tests::{Place, wait_for};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServiceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Environment variable that makes this program the baseline server.
const ECHO_VARIABLE: &str = "GATEWAY_BENCH_ECHO";
/// Number of measured calls.
const CALLS: usize = 5_000;
/// Number of concurrent clients.
const CLIENTS: usize = 64;
/// Number of calls per client.
const CALLS_EACH: usize = 50;
/// Number of measured starts.
const STARTS: usize = 20;
/// Approximate characters per token, for an estimate.
const TOKEN_CHARACTERS: usize = 4;

fn main() {
    if std::env::var_os(ECHO_VARIABLE).is_some() {
        return echo();
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let benches: [(&str, fn()); 4] =
        [("listing", listing), ("calls", calls), ("start", start), ("many", many)];
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
    for directory in wanted.iter().filter_map(|wanted| wanted.strip_prefix("sizes=")) {
        sizes(Path::new(directory));
    }
}

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = serde_json::to_string(&request.arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn echo() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let running = Echo.serve(rmcp::transport::stdio()).await.unwrap();
        running.waiting().await.unwrap();
    });
}

fn echo_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ECHO_VARIABLE, "1");
    command
}

fn listing() {
    let place = Place::new();
    let mut gateway = Gateway::start(&mut place.command(["mcp"]));
    // The revision with the most metadata in addition to the tools.
    let bytes = gateway.ask("tools/list", json!({"_meta": meta("bench", &json!({}))})).to_string().len();
    println!("listing      {bytes} bytes, about {} tokens", bytes / TOKEN_CHARACTERS);
}

fn timed(server: &mut Gateway, tool: &str, arguments: &Value) -> Duration {
    let began = Instant::now();
    server.result(tool, arguments.clone());
    began.elapsed()
}

/// Measures `get_job` of a finished job, alternating with a call of the baseline's only tool.
fn calls() {
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "bench");
    let job = gateway.call("run_command", json!({"command": "echo hello"}))["job_id"].clone();
    let arguments = json!({"job_id": job});
    let mut yardstick = Gateway::connect(&mut echo_command(), "bench");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        ours.push(timed(&mut gateway, "get_job", &arguments));
        theirs.push(timed(&mut yardstick, "echo", &arguments));
    }
    print_times("get_job", &mut ours);
    print_times("bare echo", &mut theirs);
    println!(
        "calls        p50 {:.1} times the echo's",
        ours[ours.len() / 2].as_secs_f64() / theirs[theirs.len() / 2].as_secs_f64()
    );
}

fn print_times(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1_000.0;
    let total: Duration = times.iter().sum();
    println!(
        "{name:<12} {:.0} calls a second, p50 {:.3} ms, p99 {:.3} ms ({} calls)",
        times.len() as f64 / total.as_secs_f64(),
        at(50),
        at(99),
        times.len()
    );
}

/// Measures the time from process start to the first answer, and from the end of its input to its
/// exit.
fn start() {
    let place = Place::new();
    let mut down = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "bench");
        gateway.ask("tools/list", json!({}));
        down.push(began.elapsed());
        let began = Instant::now();
        gateway.close_input();
        gateway.end();
        ends.push(began.elapsed());
    }
    print_once("to listing, pool down", &mut down);
    print_once("end after input's end", &mut ends);
    let began = Instant::now();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "bench");
    gateway.call("worker_status", json!({}));
    println!(
        "start        to first answer, pool started for it: {:.0} ms",
        began.elapsed().as_secs_f64() * 1e3
    );
    let mut up = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "bench");
        gateway.call("worker_status", json!({}));
        up.push(began.elapsed());
    }
    print_once("to first answer, pool up", &mut up);
}

fn print_once(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    println!(
        "start        {name}: median {:.0} ms, most {:.0} ms ({} starts)",
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1]),
        times.len()
    );
}

/// Measures many gateways, each with its own client, that query one pool concurrently.
fn many() {
    let place = Place::new();
    let mut first = Gateway::connect(&mut place.command(["mcp"]), "bench");
    let job = first.call("run_command", json!({"command": "echo hello"}))["job_id"].clone();
    let arguments = json!({"job_id": job});
    let began = Instant::now();
    let mut gateways: Vec<Gateway> =
        (0..CLIENTS).map(|_| Gateway::connect(&mut place.command(["mcp"]), "bench")).collect();
    println!("many         {CLIENTS} gateways started in {:.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let asking: Vec<_> = gateways
            .iter_mut()
            .map(|gateway| {
                let arguments = &arguments;
                scope.spawn(move || {
                    (0..CALLS_EACH).map(|_| timed(gateway, "get_job", arguments)).collect::<Vec<_>>()
                })
            })
            .collect();
        asking.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_unstable();
    let ms = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1_000.0;
    println!(
        "many         get_job by {CLIENTS} at once: {rate:.0} a second in all, p50 {:.1} ms, p99 {:.1} ms",
        ms(50),
        ms(99)
    );
}

/// Measures the answers about jobs that wrote these logs.
fn sizes(directory: &Path) {
    let logs = logs_below(directory);
    assert!(!logs.is_empty(), "no *.log below {}", directory.display());
    let place = Place::new();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "bench");
    let mut raw = Vec::new();
    let mut forms: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
    for (path, code) in &logs {
        let file = path.canonicalize().unwrap();
        let command = format!("cat '{}'; exit {code}", file.display());
        let mut result = gateway.call("run_command", json!({"command": command}));
        let job = result["job_id"].take();
        wait_for("the log is read", || {
            let arguments = json!({"job_id": job, "wait_secs": 30});
            (gateway.call("get_job", arguments)["state"] == "done").then_some(())
        });
        raw.push(std::fs::metadata(&file).unwrap().len() as usize);
        for (index, verbosity) in ["minimal", "normal", "full"].into_iter().enumerate() {
            let result = gateway.result("get_job", json!({"job_id": job, "verbosity": verbosity}));
            let text = result["content"][0]["text"].as_str().unwrap().len();
            forms.entry((index, "text")).or_default().push(text);
            let structured = result["structuredContent"].to_string().len();
            forms.entry((index, "structured")).or_default().push(structured);
        }
    }
    let row = |name: &str, sizes: &mut Vec<usize>| {
        sizes.sort_unstable();
        let at = |part: usize| sizes[(sizes.len() * part / 100).min(sizes.len() - 1)];
        let total: usize = sizes.iter().sum();
        println!(
            "sizes        {name:<20} median {:>7} bytes (about {:>5} tokens), p90 {:>8}, most {:>8}, all {:>9}",
            at(50),
            at(50) / TOKEN_CHARACTERS,
            at(90),
            at(100),
            total
        );
    };
    println!("sizes        {} logs", logs.len());
    row("raw", &mut raw);
    for ((index, form), mut sizes) in forms {
        row(&format!("{} {form}", ["minimal", "normal", "full"][index]), &mut sizes);
    }
}

/// Returns each log with the exit code from the manifest, or 0.
fn logs_below(directory: &Path) -> Vec<(PathBuf, i64)> {
    let codes: BTreeMap<PathBuf, i64> =
        manifest(directory).into_iter().map(|(file, code)| (directory.join(file), code)).collect();
    let mut logs = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let code = codes.get(&path).copied().unwrap_or(0);
                logs.insert(path, code);
            }
        }
    }
    logs.into_iter().collect()
}

/// Reads the manifest of a directory.
fn manifest(directory: &Path) -> Vec<(String, i64)> {
    let text = std::fs::read_to_string(directory.join("manifest.jsonl")).unwrap_or_default();
    let read = |line: &str| {
        let entry: Value = serde_json::from_str(line).ok()?;
        Some((entry["file"].as_str()?.to_owned(), entry["exit_code"].as_i64().unwrap_or(0)))
    };
    text.lines().filter_map(read).collect()
}
