//! Several coordinators that share a PostgreSQL server, and a directory or a bucket.

use super::{Pool, Process};
use crate::{Place, wait_for, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// Coordinators, and a pool of workers that know all of them.
#[derive(Debug)]
pub struct Cluster {
    /// The workers, and a place for clients.
    pub pool: Pool,
    coordinators: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    url: String,
    process: Option<Process>,
}

impl Cluster {
    /// Starts one coordinator for each database URL. The URLs name the same database, perhaps through proxies. Starts
    /// workers with two slots each. The coordinators share a directory.
    pub fn start(databases: &[String], workers: usize) -> Self {
        let place = Place::new();
        let objects = place.home().join("objects");
        std::fs::create_dir_all(&objects).unwrap();
        let objects = format!("file://{}", objects.display());
        Self::start_in(place, databases, &vec![2; workers], &objects, "")
    }

    /// Starts a cluster whose coordinators share the bucket of this URL, with the settings of its client. `keys` are
    /// further lines of the configuration.
    pub fn start_on_bucket(
        databases: &[String],
        (objects, environment): (&str, Vec<(String, String)>),
        keys: &str,
    ) -> Self {
        Self::start_loaded(databases, (objects, environment), keys, &[2])
    }

    /// As [`Cluster::start_on_bucket`], with one worker for each of these numbers of slots.
    pub fn start_loaded(
        databases: &[String],
        (objects, environment): (&str, Vec<(String, String)>),
        keys: &str,
        slots: &[u32],
    ) -> Self {
        let mut place = Place::new();
        for (name, value) in environment {
            place.set(&name, value);
        }
        Self::start_in(place, databases, slots, objects, keys)
    }

    fn start_in(mut place: Place, databases: &[String], slots: &[u32], objects: &str, keys: &str) -> Self {
        for (index, url) in databases.iter().enumerate() {
            let text = format!("lease_secs = 3\n{keys}\n[store]\nurl = \"{url}\"\nobjects = \"{objects}\"\n");
            std::fs::write(place.home().join(format!("c{index}.toml")), text).unwrap();
        }
        let config = place.home().join("c0.toml").to_str().unwrap().to_owned();
        let token = |role: &str| {
            let words = ["token", "create", "--role", role, "--name", role, "--config", &config, "--json"];
            place.buildpool(&words).expect(0).json()["token"].as_str().unwrap().to_owned()
        };
        let (admin_token, worker_token) = (token("admin"), token("worker"));
        let coordinators: Vec<Member> =
            (0..databases.len()).map(|index| Member::start(&place, index, "127.0.0.1:0")).collect();
        let url = coordinators.iter().map(|member| member.url.as_str()).collect::<Vec<_>>().join(",");
        place.set("BUILDPOOL_URL", &url);
        place.set("BUILDPOOL_TOKEN", &admin_token);
        let pool = Pool {
            place,
            coordinator: None,
            coordinator_arguments: Vec::new(),
            workers: Vec::new(),
            url,
            worker_token,
            admin_token,
            disk: None,
        };
        let mut cluster = Self { pool, coordinators };
        cluster.leader();
        for slots in slots {
            cluster.pool.add_worker(vec!["--slots".into(), slots.to_string()]);
        }
        cluster.pool.wait_for_workers();
        cluster
    }

    /// Waits until one coordinator is the leader, and returns its number.
    pub fn leader(&self) -> usize {
        wait_for("a coordinator leads", || (0..self.coordinators.len()).find(|index| self.leads(*index)))
    }

    /// Waits until another coordinator than this one is the leader, and returns its number.
    pub fn leader_after(&self, old: usize) -> usize {
        wait_for("another coordinator leads", || {
            let mut others = (0..self.coordinators.len()).filter(|index| *index != old);
            others.find(|index| self.leads(*index))
        })
    }

    /// Waits until a coordinator is a standby.
    pub fn wait_for_standby(&self, index: usize) {
        wait_until("it is a standby", || self.ready(index).as_deref() == Some("standby\n"));
    }

    /// Returns the answer of `/readyz`, or `None` if the coordinator does not answer.
    fn ready(&self, index: usize) -> Option<String> {
        let answer = self.get(index, "/readyz")?;
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }

    /// Returns the whole answer to a GET request, or `None` if the coordinator does not answer within a second.
    pub fn get(&self, index: usize, path: &str) -> Option<String> {
        if let Some(address) = self.coordinators[index].url.strip_prefix("wss") {
            let mut command = Command::new("curl");
            command.args(["--silent", "--insecure", "--include", "--max-time", "1"]);
            let output = command.arg(format!("https{address}{path}")).output().unwrap();
            return output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let address: SocketAddr = self.coordinators[index].url.rsplit('/').next()?.parse().ok()?;
        let limit = std::time::Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, limit).ok()?;
        stream.set_read_timeout(Some(limit)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Returns the URL of one coordinator.
    pub fn url(&self, index: usize) -> &str {
        &self.coordinators[index].url
    }

    /// Returns the process id of a coordinator.
    pub fn pid(&self, index: usize) -> u32 {
        self.coordinators[index].process.as_ref().unwrap().0.id()
    }

    /// Kills a coordinator with SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.coordinators[index].process = None;
    }

    /// Starts a coordinator that was killed, at the same address.
    pub fn start_again(&mut self, index: usize) {
        let address = self.coordinators[index].url.rsplit('/').next().unwrap().to_owned();
        self.coordinators[index] = Member::start(&self.pool.place, index, &address);
    }

    /// Returns true if a coordinator answers that it leads.
    pub fn leads(&self, index: usize) -> bool {
        self.ready(index).as_deref() == Some("ready\n")
    }

    /// Returns the log of a coordinator.
    pub fn log(&self, index: usize) -> String {
        self.pool.log_text(&self.coordinators[index].name)
    }
}

impl Member {
    fn start(place: &Place, index: usize, listen: &str) -> Self {
        let name = format!("c{index}");
        let config = place.home().join(format!("{name}.toml"));
        let data = Pool::data_of(place, &name);
        let mut command = place.command(["coordinator", "--listen", listen, "--data-dir", &data, "--config"]);
        command.arg(config).stdout(Stdio::piped()).stderr(Pool::log(place, &name));
        let mut process = Process(command.spawn().unwrap());
        let mut url = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("ws"), "it did not start: {}", Pool::read_log(place, &name));
        Self { name, url: url.trim().to_owned(), process: Some(process) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for index in 0..self.coordinators.len() {
                eprintln!("--- log of c{index}\n{}", self.log(index));
            }
        } else {
            self.pool.place.cancel_all();
        }
        self.coordinators.clear();
    }
}
