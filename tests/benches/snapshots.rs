//! Benchmarks of the transfer of a working tree to a worker. Baselines: git and rsync with the same
//! trees in the same run. `cargo bench -p buildpool-tests --bench snapshots [NAME…]`.
//!
//! Names: `repository` (this one), `many` (50,000 files), `large` (one file of 100 MB), `cargo` (a
//! warm build). They use real processes. The client and the worker each reach the coordinator
//! through a proxy that counts bytes.
//!
//! | column | is |
//! |---|---|
//! | start | from the call of `buildpool run` to the first instruction of the job's process |
//! | sent, fetched | bytes of the client to the coordinator, and of the coordinator to the worker |
//! | status | `git status --porcelain` |
//! | rsync | `rsync -a --delete` to a directory on the same disk; bytes as it counts them |
//! | push | `git add -A`, `git commit`, `git push` to a bare repository on the same disk, from a clone |
//! | bundle | `git bundle create` of that commit on top of the last one; its bytes are those of the push |

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use buildpool_tests::{Direction, Finished, Pool, PoolBuilder, Proxy};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// Number of files of the tree `many`, in directories of a hundred.
const FILES: usize = 50_000;
/// Size of the file of the tree `large`, in bytes.
const LARGE_BYTES: usize = 100_000_000;

fn main() {
    let benches: [(&str, fn()); 4] =
        [("repository", repository), ("many", many), ("large", large), ("cargo", cargo)];
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!(
        "{:<34} {:>9} {:>11} {:>11} | {:>9} | {:>9} {:>11} | {:>9} | {:>9} {:>11}",
        "tree", "start", "sent", "fetched", "status", "rsync", "bytes", "push", "bundle", "bytes"
    );
    for (name, bench) in benches {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
}

/// Measures the last commit of this repository.
fn repository() {
    let bench = Bench::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let url = format!("file://{}", here.canonicalize().expect("this repository").display());
    git(bench.top(), &["clone", "-q", "--no-hardlinks", &url, "."]);
    bench.prepare_peers();
    bench.measure("this repository, first call");
    bench.measure("… nothing changed");
    edit(&bench.top().join("README.md"));
    bench.measure("… one file changed");
}

/// Measures fifty thousand small files.
fn many() {
    let bench = Bench::new();
    git(bench.top(), &["init", "-q", "-b", "main"]);
    for number in 0..FILES {
        let directory = bench.top().join(format!("d{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir(&directory).expect("made");
        }
        let text = format!("// file {number}\n").repeat(12);
        fs::write(directory.join(format!("f{number}.rs")), text).expect("written");
    }
    bench.commit();
    bench.prepare_peers();
    bench.measure("50,000 files, first call");
    bench.measure("… nothing changed");
    edit(&bench.top().join("d250/f25042.rs"));
    bench.measure("… one file changed");
}

/// Measures one incompressible file.
fn large() {
    let bench = Bench::new();
    git(bench.top(), &["init", "-q", "-b", "main"]);
    fs::write(bench.top().join("small"), "small\n").expect("written");
    bench.commit();
    bench.prepare_peers();
    bench.measure("one small file, first call");
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut content = vec![0; LARGE_BYTES];
    noise.fill(&mut content);
    fs::write(bench.top().join("large"), &content).expect("written");
    bench.measure("… a new file of 100 MB");
    content[LARGE_BYTES / 2] ^= 1;
    fs::write(bench.top().join("large"), &content).expect("written");
    bench.measure("… one byte of it changed");
    bench.measure("… nothing changed");
}

/// Measures a build after a change of one line, in a workspace and by hand.
fn cargo() {
    let bench = Bench::new();
    git(bench.top(), &["init", "-q", "-b", "main"]);
    crates(bench.top());
    bench.commit();
    let by_hand = bench.pool.place().home().join("by-hand");
    crates(&by_hand);
    let main = "app/src/main.rs";
    let job = || bench.buildpool(&["run", "--output", "json", "--", "cargo", "build", "--offline"]);
    let hand = || {
        let began = Instant::now();
        let output = Command::new("cargo").args(["build", "--offline"]).current_dir(&by_hand).output();
        let output = Finished::from(output.expect("cargo runs")).expect(0);
        (began.elapsed(), output.err())
    };
    let (cold_job, (cold_hand, _)) = (job().expect(0).json(), hand());
    println!(
        "cargo build, cold: job {:.2} s, by hand {:.2} s",
        cold_job["duration_secs"].as_f64().unwrap_or_default(),
        cold_hand.as_secs_f64()
    );
    let (mut whole, mut inside, mut hands) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..7 {
        for top in [bench.top(), &by_hand] {
            fs::write(top.join(main), app(round)).expect("written");
        }
        let began = Instant::now();
        let finished = job().expect(0).json();
        whole.push(began.elapsed());
        inside.push(Duration::from_secs_f64(finished["duration_secs"].as_f64().unwrap_or_default()));
        let id = finished["job_id"].as_str().expect("an id").to_owned();
        let log = bench.buildpool(&["logs", &id, "--stream", "stderr"]).err();
        assert!(log.contains("Compiling app") && !log.contains("Compiling base"), "not warm: {log}");
        let (took, log) = hand();
        assert!(!log.contains("Compiling base"), "{log}");
        hands.push(took);
    }
    let (whole, inside, hands) = (median(whole), median(inside), median(hands));
    println!(
        "cargo build, one line changed (median of 7): `buildpool run` {whole:.3?}, of which the build {inside:.3?}; by hand {hands:.3?}; \
         build ratio {:.2}, whole ratio {:.2}",
        inside.as_secs_f64() / hands.as_secs_f64(),
        whole.as_secs_f64() / hands.as_secs_f64()
    );
}

/// Writes two crates: a slow one, and one that depends on it.
fn crates(top: &Path) {
    let write = |path: &str, text: &str| {
        let path = top.join(path);
        fs::create_dir_all(path.parent().expect("inside")).expect("made");
        fs::write(path, text).expect("written");
    };
    write(".gitignore", "target\n");
    write("Cargo.toml", "[workspace]\nmembers = [\"app\", \"base\"]\nresolver = \"3\"\n");
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    write("base/Cargo.toml", &package("base"));
    write("app/Cargo.toml", &format!("{}[dependencies]\nbase = {{ path = \"../base\" }}\n", package("app")));
    let mut text = String::new();
    for number in 0..300 {
        let _ = writeln!(
            text,
            "#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\npub struct S{number} {{ pub a: u64, pub b: String }}"
        );
    }
    write("base/src/lib.rs", &text);
    write("app/src/main.rs", &app(1_000));
    let lock = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"base\",\n]\n\n\
                [[package]]\nname = \"base\"\nversion = \"0.1.0\"\n";
    write("Cargo.lock", lock);
}

fn app(round: u32) -> String {
    format!("fn main() {{\n    println!(\"{{:?}} {round}\", base::S1 {{ a: 1, b: String::new() }});\n}}\n")
}

/// A pool, and a project in the directory where its commands are started.
struct Bench {
    pool: Pool,
    top: PathBuf,
    /// Proxies between client and coordinator, and between worker and coordinator.
    client: Proxy,
    worker: Proxy,
}

impl Bench {
    fn new() -> Self {
        let mut pool = PoolBuilder::default().start();
        let (client, worker) = (Proxy::start(pool.address()), Proxy::start(pool.address()));
        pool.add_worker_through(&worker.url(), vec!["--slots".to_owned(), "1".to_owned()]);
        pool.wait_for_workers();
        let top = pool.place().work();
        Self { pool, top, client, worker }
    }

    fn top(&self) -> &Path {
        &self.top
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.pool.place().home().join(name)
    }

    fn buildpool(&self, arguments: &[&str]) -> Finished {
        let mut command = self.pool.command(arguments);
        command.env("BUILDPOOL_URL", self.client.url()).output().expect("it runs").into()
    }

    fn commit(&self) {
        git(&self.top, &["add", "-A"]);
        git(&self.top, &["commit", "-qm", "tree"]);
    }

    /// Prepares the baselines before the first call: empty directories and the common history.
    fn prepare_peers(&self) {
        fs::create_dir(self.beside("rsync")).expect("made");
        git(&self.beside("rsync"), &["init", "-q", "--bare", "../remote"]);
        git(&self.beside("rsync"), &["init", "-q", "-b", "main", "../clone"]);
        git(&self.beside("clone"), &["remote", "add", "origin", "../remote"]);
        git(&self.top, &["status", "--porcelain"]);
    }

    /// Measures one call of buildpool and one of each baseline on the current tree.
    fn measure(&self, name: &str) {
        let (sent, fetched) = (self.client.bytes(Direction::Up), self.worker.bytes(Direction::Down));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let run = self.buildpool(&["run", "--max-snapshot-mb", "2000", "--", "date", "+%s%N"]).expect(0);
        let began: u128 = run.out().trim().parse().expect("`date` of this system counts nanoseconds");
        let start = Duration::from_nanos(u64::try_from(began.saturating_sub(now.as_nanos())).expect("short"));
        let sent = self.client.bytes(Direction::Up) - sent;
        let fetched = self.worker.bytes(Direction::Down) - fetched;
        let status =
            median((0..5).map(|_| timed(|| drop(git(&self.top, &["status", "--porcelain"])))).collect());
        let rsync = self.rsync().map_or_else(
            || format!("{:>9} {:>11}", "-", "-"),
            |(took, bytes)| format!("{:>9} {bytes:>11}", seconds(took)),
        );
        let (push, bundle, bytes) = self.push();
        println!(
            "{name:<34} {:>9} {sent:>11} {fetched:>11} | {:>9} | {rsync} | {:>9} | {:>9} {bytes:>11}",
            seconds(start),
            seconds(status),
            seconds(push),
            seconds(bundle),
        );
    }

    /// Returns time and bytes of `rsync`, or `None` if it is not installed.
    fn rsync(&self) -> Option<(Duration, u64)> {
        let mut command = Command::new("rsync");
        command.args(["-a", "--delete", "--stats", "--exclude=.git", "./"]).arg(self.beside("rsync"));
        let began = Instant::now();
        let output = command.current_dir(&self.top).output().ok()?;
        let took = began.elapsed();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("Total bytes sent: "))?;
        Some((took, line.replace([',', '.'], "").trim().parse().ok()?))
    }

    /// Returns the time to add, commit and push, the time to bundle, and the size of the bundle.
    /// Copying the files to the clone is not measured.
    fn push(&self) -> (Duration, Duration, u64) {
        let clone = self.beside("clone");
        // Unchanged files keep their modification times, so that the clone's index stays warm.
        let copy = if Command::new("rsync").arg("--version").output().is_ok() {
            format!("rsync -a --delete --exclude=.git ./ {}", clone.display())
        } else {
            format!(
                "find . -path ./.git -prune -o -type f -print0 | xargs -0 cp -p --parents -t {}",
                clone.display()
            )
        };
        let copied = Command::new("sh").args(["-c", &copy]).current_dir(&self.top).status();
        assert!(copied.expect("sh runs").success());
        let base =
            Command::new("git").args(["rev-parse", "-q", "--verify", "HEAD"]).current_dir(&clone).output();
        let base = String::from_utf8_lossy(&base.expect("git runs").stdout).trim().to_owned();
        let push = timed(|| {
            git(&clone, &["add", "-A"]);
            git(&clone, &["commit", "-q", "--allow-empty", "-m", "wip"]);
            git(&clone, &["push", "-q", "origin", "HEAD:refs/heads/main"]);
        });
        let file = self.beside("bundle");
        let without = format!("^{base}");
        let mut arguments = vec!["bundle", "create", "-q", "../bundle", "HEAD"];
        if !base.is_empty() {
            arguments.push(&without);
        }
        let bundle = timed(|| drop(git(&clone, &arguments)));
        (push, bundle, fs::metadata(file).expect("the bundle").len())
    }
}

fn edit(file: &Path) {
    let mut text = fs::read_to_string(file).expect("a text");
    text.push_str("// one line more\n");
    fs::write(file, text).expect("written");
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("git runs");
    Finished::from(output).expect(0).out()
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut series: Vec<Duration>) -> Duration {
    series.sort_unstable();
    series[series.len() / 2]
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
