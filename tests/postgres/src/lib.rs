//! PostgreSQL servers for tests, each on a free port in a directory of its own.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "in a test a panic is the report")]

use nix::unistd::{Uid, User, chown};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time in which a server starts, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the server, and stops it by its id when the test's end of the pipe is closed. So no server and no files remain
/// after a test process that ended in any way. The line `keep` leaves the files.
const GUARD: &str = r#"files=$1; shift; "$@" & pid=$!; trap '' INT TERM; read -r word; kill -QUIT $pid; wait $pid; [ "$word" = keep ] || rm -rf "$files""#;

/// A running server. It is stopped on drop, and when this process ends.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    user: Option<User>,
    directory: tempfile::TempDir,
    port: u16,
    guard: Option<(Child, ChildStdin)>,
    databases: AtomicU32,
    /// Whether commits are synced to the disk. Tests don't need that.
    is_durable: bool,
}

impl Postgres {
    /// Returns a server that all tests of this process share, or `None` with a message if PostgreSQL is not
    /// installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Starts a server, or returns `None` with a message if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::start_as(false)
    }

    /// As [`Postgres::start`], for a server that syncs each commit to the disk. For benchmarks.
    pub fn start_durable() -> Option<Self> {
        Self::start_as(true)
    }

    fn start_as(is_durable: bool) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED, NOT PASSED: PostgreSQL is not on this machine (package postgresql)");
            return None;
        };
        // The server refuses to run as root.
        let user = Uid::effective().is_root().then(|| User::from_name("postgres").unwrap().unwrap());
        let directory = tempfile::Builder::new().prefix("bp-postgres-").tempdir().unwrap();
        if let Some(user) = &user {
            chown(directory.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        let mut server = Self {
            programs,
            user,
            directory,
            port: free_port(),
            guard: None,
            databases: AtomicU32::new(0),
            is_durable,
        };
        let data = server.data();
        let made =
            server.program("initdb").args(["-A", "trust", "-U", "pool", "-N", "-D"]).arg(&data).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        Some(server)
    }

    /// Starts the server again after [`Postgres::stop`], with the same data and port.
    pub fn run(&mut self) {
        let mut command = self.program("sh");
        command
            .args(["-c", GUARD, "guard"])
            .arg(self.directory.path())
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data());
        let port = self.port.to_string();
        command.args([
            "-p",
            &port,
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            if self.is_durable { "fsync=on" } else { "fsync=off" },
            "-c",
            "max_connections=200",
        ]);
        command.arg("-k").arg(self.directory.path());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pipe = child.stdin.take().unwrap();
        self.guard = Some((child, pipe));
        let deadline = Instant::now() + PATIENCE;
        while !self.psql("postgres", "SELECT 1") {
            assert!(Instant::now() < deadline, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server without letting it finish anything, as a power failure does.
    pub fn stop(&mut self) {
        if let Some((mut child, mut pipe)) = self.guard.take() {
            pipe.write_all(b"keep\n").unwrap();
            drop(pipe);
            child.wait().unwrap();
        }
    }

    /// Starts a standby server that follows this one. From then on, each commit waits for the standby.
    pub fn standby(&self) -> Self {
        let directory = tempfile::Builder::new().prefix("bp-postgres-").tempdir().unwrap();
        if let Some(user) = &self.user {
            chown(directory.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        let (programs, user) = (self.programs.clone(), self.user.clone());
        let databases = AtomicU32::new(0);
        let mut standby =
            Self { programs, user, directory, port: free_port(), guard: None, databases, is_durable: false };
        let port = self.port.to_string();
        let arguments =
            ["-h", "127.0.0.1", "-p", &port, "-U", "pool", "-X", "stream", "-c", "fast", "-R", "-D"];
        let copied = self.program("pg_basebackup").args(arguments).arg(standby.data()).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        standby.run();
        let waits = ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"];
        assert!(waits.iter().all(|sql| self.psql("postgres", sql)), "the primary server refuses");
        let deadline = Instant::now() + PATIENCE;
        // Fails by a division by zero before the standby follows.
        while !self.psql("postgres", "SELECT 1 / count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
        {
            assert!(Instant::now() < deadline, "the standby does not follow");
            std::thread::sleep(Duration::from_millis(20));
        }
        standby
    }

    /// Makes commits of this primary server not wait for a standby server any more.
    pub fn wait_for_no_standby(&self) {
        let sql = ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"];
        assert!(sql.iter().all(|sql| self.psql("postgres", sql)), "the server refuses");
    }

    /// Waits until the standby server has all commits of this moment.
    pub fn wait_until_followed(&self) {
        let sql = "SELECT 1 / (count(*) FILTER (WHERE replay_lsn >= pg_current_wal_lsn())) FROM pg_stat_replication";
        let deadline = Instant::now() + PATIENCE;
        // Fails by a division by zero before the standby has them.
        while !self.psql("postgres", sql) {
            assert!(Instant::now() < deadline, "the standby does not follow");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes this standby server receive nothing more.
    pub fn stop_following(&self) {
        let sql = ["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"];
        assert!(sql.iter().all(|sql| self.psql("postgres", sql)), "the standby refuses");
        let deadline = Instant::now() + PATIENCE;
        // Fails by a division by zero while it receives.
        while !self.psql("postgres", "SELECT 1 / (1 - count(*)) FROM pg_stat_wal_receiver") {
            assert!(Instant::now() < deadline, "the standby still follows");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes a dump of a database, with the arguments of the documentation, and returns its path.
    pub fn dump(&self, url: &str) -> PathBuf {
        let file = self.directory.path().join("pool.dump");
        let mut command = self.program("pg_dump");
        let output = command.arg("--format=custom").arg("--file").arg(&file).arg(url).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// Restores a dump, with the arguments of the documentation.
    pub fn restore(&self, url: &str, dump: &Path) {
        let mut command = self.program("pg_restore");
        command.args(["--clean", "--if-exists"]).arg(format!("--dbname={url}")).arg(dump);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes a standby server the primary one.
    pub fn promote(&self) {
        let sql = [
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_promote()",
            "SELECT pg_reload_conf()",
        ];
        assert!(self.psql("postgres", sql[1]), "the standby is not promoted");
        assert!(self.psql("postgres", sql[0]) && self.psql("postgres", sql[2]), "the server refuses");
    }

    /// Creates an empty database, and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("pool{}", self.databases.fetch_add(1, Ordering::Relaxed));
        assert!(self.psql("postgres", &format!("CREATE DATABASE {name}")), "the database can't be created");
        self.url_at(self.port, &name)
    }

    /// Returns the URL of a database behind another port, as that of a proxy.
    pub fn url_at(&self, port: u16, database: &str) -> String {
        format!("postgres://pool@127.0.0.1:{port}/{database}")
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Executes statements. Returns false if one fails.
    pub fn psql(&self, database: &str, sql: &str) -> bool {
        if TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            return false;
        }
        let port = self.port.to_string();
        let arguments = ["-q", "-h", "127.0.0.1", "-p", &port, "-U", "pool", "-d", database, "-c", sql];
        self.program("psql").args(arguments).output().unwrap().status.success()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if path.exists() { Command::new(path) } else { Command::new(name) };
        command.current_dir("/");
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the directory with the programs of the newest installed version.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    places.sort();
    places.push("/opt/homebrew/bin".into());
    places.retain(|place: &PathBuf| Path::exists(&place.join("postgres")));
    places.pop()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[cfg(test)]
mod tests {
    use super::Postgres;

    #[test]
    fn a_test_process_that_ends_leaves_no_files() {
        let Some(mut server) = Postgres::start() else { return };
        let directory = server.directory.path().to_owned();
        assert!(directory.exists());
        // The system closes the pipe of a process that has ended. A static server is never dropped.
        let (mut guard, pipe) = server.guard.take().expect("it runs");
        drop(pipe);
        guard.wait().expect("it ends");
        assert!(!directory.exists(), "{} is left", directory.display());
    }
}
