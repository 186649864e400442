//! A pool whose workers run programs of their own, and programs of another version for them.

use buildpool_tests::{Cluster, Finished, PATIENCE, Pool, PoolBuilder, binary, wait_until, wait_within};
use serde_json::Value;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Version of this build.
pub(super) const OLD: &str = env!("CARGO_PKG_VERSION");
/// A version with as many bytes.
pub(super) const NEW: &str = "9.9.9";

/// Returns this build without debug information, so that it is sent and unpacked quickly.
pub(super) fn old_program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let small = place.path().join("buildpool");
        let status = Command::new("strip").arg("-S").arg("-o").arg(&small).arg(binary()).status().unwrap();
        assert!(status.success(), "strip: {status}");
        fs::read(small).unwrap()
    })
}

/// Returns the same program with another version.
pub(super) fn new_program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| program_of(NEW))
}

/// Returns the same program with this version.
pub(super) fn program_of(version: &str) -> Vec<u8> {
    assert_eq!(OLD.len(), version.len(), "choose a version with as many bytes");
    let mut bytes = old_program().to_vec();
    for at in 0..=bytes.len() - OLD.len() {
        if bytes[at..].starts_with(OLD.as_bytes()) {
            bytes[at..at + version.len()].copy_from_slice(version.as_bytes());
        }
    }
    bytes
}

pub(super) fn target() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    format!("{}-{system}", std::env::consts::ARCH)
}

/// Writes a program by another process. A process that another test starts meanwhile would inherit this one's open file,
/// and a file that is open for writing can't be started (`ETXTBSY`, execve(2)).
pub(super) fn write_program(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let part = path.with_extension("part");
    fs::write(&part, bytes).unwrap();
    assert!(Command::new("cp").arg(&part).arg(path).status().unwrap().success());
    fs::remove_file(part).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A program that waits for a file at its start for the version and in its trial, unless its parent has ended.
pub(super) struct WaitingProgram {
    /// Start of the paths of its files.
    step: PathBuf,
    pub(super) script: String,
}

impl WaitingProgram {
    pub(super) fn new(home: &Path) -> Self {
        let (real, step) = (home.join("real"), home.join("step"));
        write_program(&real, new_program());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in --version) n=version;; *--upgrade-trial*) n=trial;; *) exec {0} \"$@\";; esac\n\
             exec 3<&0; (read x <&3; kill -9 $$) & \n\
             echo $$ >> {1}.$n.begun; while [ ! -e {1}.$n.go ]; do sleep 0.01; done; exec {0} \"$@\"\n",
            real.display(),
            step.display()
        );
        Self { step, script }
    }

    /// Returns the process ids of its starts for `version` or `trial`.
    pub(super) fn starts(&self, name: &str) -> Vec<i32> {
        let text = fs::read_to_string(self.step.with_extension(format!("{name}.begun"))).unwrap_or_default();
        text.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Ends the waiting of its starts for `version` or `trial`.
    pub(super) fn go(&self, name: &str) {
        fs::write(self.step.with_extension(format!("{name}.go")), "").unwrap();
    }
}

/// Waits until a command has ended. It sends programs, and upgrades several workers.
pub(super) fn finish(mut command: Child) -> Finished {
    wait_within(5 * PATIENCE, "the command ends", || command.try_wait().unwrap());
    command.wait_with_output().unwrap().into()
}

/// The pool of a fleet: one coordinator, or several.
pub(super) enum Coordinators {
    One(Pool),
    Several(Cluster),
}

impl Deref for Coordinators {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        match self {
            Self::One(pool) => pool,
            Self::Several(cluster) => &cluster.pool,
        }
    }
}

impl DerefMut for Coordinators {
    fn deref_mut(&mut self) -> &mut Pool {
        match self {
            Self::One(pool) => pool,
            Self::Several(cluster) => &mut cluster.pool,
        }
    }
}

/// A pool whose workers run programs of their own.
pub(super) struct Fleet {
    pub(super) pool: Coordinators,
}

impl Fleet {
    /// Starts workers `w0`, `w1`… that accept programs.
    pub(super) fn start(workers: usize) -> Self {
        let mut fleet = Self { pool: Coordinators::One(PoolBuilder::default().start()) };
        for _ in 0..workers {
            fleet.add(true);
        }
        fleet.pool.wait_for_workers();
        fleet
    }

    pub(super) fn add(&mut self, upgrades: bool) -> usize {
        let home = self.pool.place().home();
        let index = (0..).find(|index| !home.join(format!("bin{index}")).exists()).unwrap();
        let program = self.program(index);
        write_program(&program, old_program());
        let config = home.join(format!("w{index}.toml"));
        fs::write(&config, format!("upgrades = {upgrades}\nslots = 2\n")).unwrap();
        self.pool.use_binary(&program);
        let label = if upgrades { "group=mac" } else { "group=other" };
        let arguments = ["--config", config.to_str().unwrap(), "--label", label];
        let added = self.pool.add_worker(arguments.map(str::to_owned).to_vec());
        self.pool.use_binary(&binary());
        assert_eq!(added, index);
        index
    }

    /// Starts a killed worker with the program that is at its place.
    pub(super) fn start_again(&mut self, index: usize) {
        let program = self.program(index);
        self.pool.use_binary(&program);
        self.pool.start_worker(index);
        self.pool.use_binary(&binary());
    }

    pub(super) fn program(&self, index: usize) -> PathBuf {
        self.pool.place().home().join(format!("bin{index}/buildpool"))
    }

    /// Makes the directory of a release with this program.
    pub(super) fn release(&self, name: &str, target: &str, program: &[u8]) -> PathBuf {
        self.release_of(NEW, name, target, program)
    }

    /// Makes the directory of a release of this version.
    pub(super) fn release_of(&self, version: &str, name: &str, target: &str, program: &[u8]) -> PathBuf {
        let directory = self.pool.place().home().join(name);
        let top = format!("buildpool-{version}-{target}");
        write_program(&directory.join(&top).join("buildpool"), program);
        let archive = format!("{top}.tar.gz");
        let mut tar = Command::new("tar");
        tar.args(["--use-compress-program", "gzip -1", "-cf", &archive, &top]).current_dir(&directory);
        assert!(tar.status().unwrap().success());
        let sums = Command::new("sha256sum").arg(&archive).current_dir(&directory).output().unwrap();
        fs::write(directory.join("SHA256SUMS"), sums.stdout).unwrap();
        directory
    }

    pub(super) fn upgrade(&self, release: &Path, more: &[&str]) -> Finished {
        finish(self.begin(release, more))
    }

    pub(super) fn begin(&self, release: &Path, more: &[&str]) -> Child {
        self.begin_to(NEW, release, more)
    }

    pub(super) fn begin_to(&self, version: &str, release: &Path, more: &[&str]) -> Child {
        let mut arguments =
            vec!["workers", "upgrade", "--to", version, "--release", release.to_str().unwrap()];
        arguments.extend(more);
        let mut command = self.pool.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(super) fn worker(&self, index: usize) -> Value {
        let name = format!("w{index}");
        let listed = self.pool.buildpool(&["workers", "--json"]).expect(0).json();
        listed.as_array().unwrap().iter().find(|worker| worker["name"] == name.as_str()).unwrap().clone()
    }

    /// Checks that a worker runs a version, takes jobs, and has this program at its place.
    pub(super) fn expect(&self, index: usize, version: &str, program: &[u8]) {
        wait_until("the worker is connected and takes jobs", || {
            let worker = self.worker(index);
            worker["connected"] == true && worker["draining"] == false && worker["version"] == version
        });
        assert!(fs::read(self.program(index)).unwrap() == program, "w{index} has another program");
        let left: Vec<_> = fs::read_dir(self.program(index).parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("new"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        let name = format!("name=w{index}");
        self.pool.buildpool(&["run", "--no-snapshot", "--label", &name, "--", "true"]).expect(0);
    }
}
