//! A coordinator and its workers, each in its own process.

pub(crate) mod cluster;

use crate::process::kill_below;
use crate::{Finished, Place, SmallDisk, wait_for, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Configuration of a test pool.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    workers: Vec<Vec<String>>,
    coordinator: Vec<String>,
    listen: String,
    small_disk: Option<(String, u64)>,
    variables: Vec<(String, String)>,
}

impl Default for PoolBuilder {
    fn default() -> Self {
        Self {
            workers: Vec::new(),
            coordinator: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
            small_disk: None,
            variables: Vec::new(),
        }
    }
}

/// A pool on free ports with its own data directories. Its processes end on drop.
#[derive(Debug)]
pub struct Pool {
    place: Place,
    coordinator: Option<Process>,
    coordinator_arguments: Vec<String>,
    workers: Vec<Worker>,
    url: String,
    worker_token: String,
    admin_token: String,
    disk: Option<SmallDisk>,
}

#[derive(Debug)]
struct Worker {
    arguments: Vec<String>,
    /// Address at which it connects to the coordinator.
    url: String,
    process: Option<Process>,
}

/// A process that is killed by its id on drop.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl PoolBuilder {
    /// Adds a worker with these arguments of `buildpool worker`.
    #[must_use]
    pub fn worker(mut self, arguments: &[&str]) -> Self {
        self.workers.push(arguments.iter().map(|argument| (*argument).to_owned()).collect());
        self
    }

    /// Adds arguments of `buildpool coordinator`.
    #[must_use]
    pub fn coordinator(mut self, arguments: &[&str]) -> Self {
        self.coordinator.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Sets the listen address of the coordinator, instead of a free port of loopback.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// Sets a variable for all programs of the pool.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts the data directory of the coordinator or of a worker, by name, on a disk of this size
    /// in bytes.
    #[must_use]
    pub fn small_disk(mut self, name: &str, bytes: u64) -> Self {
        self.small_disk = Some((name.to_owned(), bytes));
        self
    }

    /// As [`PoolBuilder::start`]. If the small disk cannot be mounted, prints a message and returns
    /// `None`.
    pub fn start_on_disk(self) -> Option<Pool> {
        let pool = self.start();
        pool.disk.is_some().then_some(pool)
    }

    /// Starts all processes and waits until they are ready.
    ///
    /// # Panics
    /// If the pool does not start.
    pub fn start(self) -> Pool {
        let mut place = Place::new();
        for (name, value) in self.variables {
            place.set(&name, value);
        }
        let disk = self
            .small_disk
            .and_then(|(name, bytes)| SmallDisk::mount(Pool::data_of(&place, &name).as_ref(), bytes));
        let token = |role: &str| {
            let data = Pool::data_of(&place, "coordinator");
            let created = place.buildpool(&[
                "token",
                "create",
                "--role",
                role,
                "--name",
                role,
                "--data-dir",
                &data,
                "--json",
            ]);
            created.expect(0).json()["token"].as_str().unwrap().to_owned()
        };
        let (admin_token, worker_token) = (token("admin"), token("worker"));
        let (coordinator, url) = Pool::start_coordinator(&place, &self.coordinator, &self.listen);
        place.set("BUILDPOOL_URL", &url);
        place.set("BUILDPOOL_TOKEN", &admin_token);
        let mut pool = Pool {
            place,
            coordinator: Some(coordinator),
            coordinator_arguments: self.coordinator,
            workers: Vec::new(),
            url,
            worker_token,
            admin_token,
            disk,
        };
        for arguments in self.workers {
            pool.add_worker(arguments);
        }
        pool.wait_for_workers();
        pool
    }
}

impl Pool {
    /// Starts a coordinator and workers `w0`, `w1`… with two slots each.
    ///
    /// # Panics
    /// If the pool does not start.
    pub fn start(workers: usize) -> Self {
        (0..workers).fold(PoolBuilder::default(), |builder, _| builder.worker(&["--slots", "2"])).start()
    }

    /// Returns the URL for `--coordinator`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the admin's token.
    pub fn token(&self) -> &str {
        &self.admin_token
    }

    /// Returns the workers' token.
    pub fn worker_token(&self) -> &str {
        &self.worker_token
    }

    /// Returns the requested small disk.
    pub fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// Returns the place of its client commands. Their environment contains the pool's URL and an
    /// admin token.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Runs a `buildpool` command with this pool.
    pub fn buildpool(&self, arguments: &[&str]) -> Finished {
        self.place.buildpool(arguments)
    }

    /// Returns a `buildpool` command for this pool, ready to start.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.place.command(arguments)
    }

    /// Runs a shell script as a job in an empty directory.
    pub fn shell(&self, text: &str) -> Finished {
        self.buildpool(&["run", "--no-snapshot", "--", "sh", "-c", text])
    }

    /// Returns the data directory of the coordinator or of a worker, by name.
    pub fn data(&self, name: &str) -> PathBuf {
        Self::data_of(&self.place, name).into()
    }

    /// Adds a worker. Its name is `w` and its number unless the arguments set another.
    pub fn add_worker(&mut self, arguments: Vec<String>) -> usize {
        let url = self.url.clone();
        self.add_worker_through(&url, arguments)
    }

    /// As [`Pool::add_worker`], for a worker that connects to another address.
    pub fn add_worker_through(&mut self, url: &str, arguments: Vec<String>) -> usize {
        let index = self.workers.len();
        self.workers.push(Worker { arguments, url: url.to_owned(), process: None });
        self.start_worker(index);
        index
    }

    /// Sets a variable of the environment of all later commands.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.place.set(name, value);
    }

    /// Sets the arguments for the coordinator's next start.
    pub fn set_coordinator_arguments(&mut self, arguments: &[&str]) {
        self.coordinator_arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    }

    /// Sets the arguments for a worker's next start.
    pub fn set_worker_arguments(&mut self, index: usize, arguments: &[&str]) {
        self.workers[index].arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    }

    /// Starts a worker that was killed.
    pub fn start_worker(&mut self, index: usize) {
        let name = format!("w{index}");
        let data = Self::data_of(&self.place, &name);
        let worker = &mut self.workers[index];
        let mut command = self.place.command(["worker", "--coordinator", &worker.url, "--data-dir", &data]);
        // The tools of the machine are irrelevant for the tests, and detection takes time.
        command.arg("--no-tools");
        // The free space of the machine is irrelevant too: workspaces stay warm.
        command.args(["--keep-free-bytes", "0"]);
        if !worker.arguments.iter().any(|argument| argument == "--name") {
            command.args(["--name", &name]);
        }
        command.args(&worker.arguments).env("BUILDPOOL_TOKEN", &self.worker_token).stdout(Stdio::null());
        command.stderr(Self::log(&self.place, &name));
        worker.process = Some(Process(command.spawn().unwrap()));
    }

    /// Kills a worker's daemon with SIGKILL.
    pub fn kill_worker(&mut self, index: usize) {
        self.workers[index].process = None;
    }

    /// Waits until a worker's daemon exits by itself, and returns its status.
    ///
    /// # Panics
    /// If it was killed, or does not exit.
    pub fn wait_for_worker_end(&mut self, index: usize) -> ExitStatus {
        let mut worker = self.workers[index].process.take().unwrap();
        wait_for("the worker ends", || worker.0.try_wait().unwrap())
    }

    /// Kills the coordinator with SIGKILL and starts it again at the same address.
    pub fn restart_coordinator(&mut self) {
        self.kill_coordinator();
        self.start_coordinator_again();
    }

    /// Kills the coordinator with SIGKILL.
    pub fn kill_coordinator(&mut self) {
        self.coordinator = None;
    }

    /// Waits until the coordinator exits by itself, and returns its status.
    ///
    /// # Panics
    /// If it was killed, or does not exit.
    pub fn wait_for_coordinator_end(&mut self) -> ExitStatus {
        let mut coordinator = self.coordinator.take().unwrap();
        wait_for("the coordinator ends", || coordinator.0.try_wait().unwrap())
    }

    /// Starts a coordinator that was killed, at the same address.
    pub fn start_coordinator_again(&mut self) {
        let address = self.url.rsplit('/').next().unwrap().to_owned();
        let started = Self::start_coordinator(&self.place, &self.coordinator_arguments, &address);
        self.coordinator = Some(started.0);
    }

    /// Selects the binary for all later starts.
    pub fn use_binary(&mut self, path: &Path) {
        self.place.use_binary(path);
    }

    /// Returns the address of the coordinator.
    pub fn address(&self) -> SocketAddr {
        self.url.rsplit('/').next().unwrap().parse().unwrap()
    }

    /// Sends a GET request to the coordinator and returns status line and body.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn get(&self, path: &str, token: Option<&str>) -> (String, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: pool\r\n{bearer}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// Returns the process id of the coordinator.
    ///
    /// # Panics
    /// If it was killed.
    pub fn coordinator_pid(&self) -> u32 {
        self.coordinator.as_ref().unwrap().0.id()
    }

    /// Returns the process id of a worker's daemon.
    ///
    /// # Panics
    /// If it was killed.
    pub fn worker_pid(&self, index: usize) -> u32 {
        self.workers[index].process.as_ref().unwrap().0.id()
    }

    /// Waits until every started worker is connected.
    ///
    /// # Panics
    /// If a worker does not connect.
    pub fn wait_for_workers(&self) {
        let started = self.workers.iter().filter(|worker| worker.process.is_some()).count();
        wait_until("every worker is connected", || {
            let listed = self.buildpool(&["workers", "--json"]);
            let workers: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            let workers = workers.as_array().cloned().unwrap_or_default();
            workers.iter().filter(|worker| worker["connected"] == true).count() >= started
        });
    }

    /// Returns the log of the coordinator or of a worker, by name.
    pub fn log_text(&self, name: &str) -> String {
        Self::read_log(&self.place, name)
    }

    /// Returns a job as JSON.
    pub fn job(&self, id: &str) -> Value {
        self.buildpool(&["job", id, "--json"]).expect(0).json()
    }

    /// Waits until a job is in a state.
    ///
    /// # Panics
    /// If it does not reach the state.
    pub fn wait_for_state(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("job {id} is {state}"), || Some(self.job(id)).filter(|job| job["state"] == state))
    }

    fn start_coordinator(place: &Place, arguments: &[String], listen: &str) -> (Process, String) {
        let data = Self::data_of(place, "coordinator");
        let mut command = place.command(["coordinator", "--listen", listen, "--data-dir", &data]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Self::log(place, "coordinator"));
        let mut process = Process(command.spawn().unwrap());
        let mut url = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(
            url.starts_with("ws"),
            "the coordinator did not start: {}",
            Self::read_log(place, "coordinator")
        );
        // A coordinator that listens on all addresses is reached on loopback.
        (process, url.trim().replace("//0.0.0.0:", "//127.0.0.1:"))
    }

    fn data_of(place: &Place, name: &str) -> String {
        place.home().join(name).to_str().unwrap().to_owned()
    }

    fn log(place: &Place, name: &str) -> std::fs::File {
        let path = place.home().join(format!("{name}.log"));
        std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn read_log(place: &Place, name: &str) -> String {
        std::fs::read_to_string(place.home().join(format!("{name}.log"))).unwrap_or_default()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Keepers outlive their workers by design, so running jobs would outlive the test.
        let is_running = |process: &mut Option<Process>| {
            process.as_mut().is_some_and(|process| process.0.try_wait().is_ok_and(|status| status.is_none()))
        };
        if is_running(&mut self.coordinator)
            && self.workers.iter_mut().all(|worker| is_running(&mut worker.process))
            && !std::thread::panicking()
        {
            self.place.cancel_all();
        }
        self.workers.clear();
        self.coordinator = None;
        kill_below(&self.place.home());
        self.disk = None;
        if std::thread::panicking() {
            for name in ["coordinator", "w0", "w1"] {
                eprintln!("--- log of {name}\n{}", Self::read_log(&self.place, name));
            }
        }
    }
}
