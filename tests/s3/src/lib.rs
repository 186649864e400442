//! An S3 server for tests, on a free port: the program `moto_server` of the Python package `moto`.
//!
//! It is installed once, below `target`, if there are Python and a package index.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "in a test a panic is the report")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time in which the server starts, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The tested version.
macro_rules! moto_version {
    () => {
        "5.2.5"
    };
}
/// Its package.
const PACKAGE: &str = concat!("moto[server]==", moto_version!());
/// Runs the server, and stops it by its id when the test's end of the pipe is closed.
const GUARD: &str = r#""$@" & pid=$!; trap '' INT TERM; read -r word; kill -KILL $pid; wait $pid"#;

/// A running server. It keeps all objects in memory. It is stopped on drop, and when this process ends.
#[derive(Debug)]
pub struct S3 {
    port: u16,
    guard: Option<(Child, ChildStdin)>,
    buckets: AtomicU32,
}

impl S3 {
    /// Returns a server that all tests of this process share, or `None` with a message if it can't be installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<S3>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Starts a server, or returns `None` with a message if it can't be installed.
    pub fn start() -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("SKIPPED, NOT PASSED: no S3 server (Python package {PACKAGE} can't be installed)");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(program).args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pipe = child.stdin.take().unwrap();
        let server = Self { port, guard: Some((child, pipe)), buckets: AtomicU32::new(0) };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// Creates an empty bucket, and returns its name.
    pub fn bucket(&self) -> String {
        let name = format!("pool{}", self.buckets.fetch_add(1, Ordering::Relaxed));
        assert!(self.request("PUT", &format!("/{name}")).starts_with("HTTP/1.1 200"), "no bucket");
        name
    }

    /// Returns the names of all objects of a bucket, as the server lists them.
    pub fn names(&self, bucket: &str) -> Vec<String> {
        let listing = self.request("GET", &format!("/{bucket}?list-type=2"));
        let keys = listing.split("<Key>").skip(1);
        keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect()
    }

    /// Replaces the bytes of an object.
    pub fn overwrite(&self, bucket: &str, name: &str, text: &str) {
        let answer = self.send(&format!(
            "PUT /{bucket}/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: AWS4-HMAC-SHA256 Credential=pool/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Returns the settings of a client, as environment variables.
    pub fn environment(&self) -> Vec<(String, String)> {
        Self::environment_at(self.port)
    }

    /// Returns the settings of a client that reaches the server through another port, as that of a proxy.
    pub fn environment_at(port: u16) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{port}");
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "pool"),
            ("AWS_SECRET_ACCESS_KEY", "the-secret-of-the-tests"),
        ];
        variables.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn request(&self, method: &str, path: &str) -> String {
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        ))
    }

    fn send(&self, text: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some((mut child, pipe)) = self.guard.take() {
            drop(pipe);
            child.wait().unwrap();
        }
    }
}

/// Returns the path of the server, which is installed if necessary.
fn program() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let home = target.join(concat!("moto-", moto_version!()));
    let program = home.join("bin/moto_server");
    std::fs::create_dir_all(&target).ok()?;
    // Another test process may be installing it.
    let lock = File::create(target.join("moto.lock")).ok()?;
    lock.lock().ok()?;
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let is_there = program.exists()
        || runs(Command::new("python3").args(["-m", "venv"]).arg(&home))
            && runs(Command::new(home.join("bin/pip")).args(["install", "--quiet", PACKAGE]));
    is_there.then_some(program)
}
