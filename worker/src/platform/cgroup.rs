//! One control group (cgroups(7), version 2) for each attempt, below the unit of the worker. systemd delegates the unit
//! (`Delegate=`), so the worker may make groups there.
//!
//! A group with controllers for its children must not contain processes itself. Therefore the daemon and its keepers are in
//! the child `OWN`, and each attempt is in a child of its own.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the group of the daemon and its keepers, also in `DelegateSubgroup=` of the unit.
const OWN: &str = "worker";
/// Prefix of the groups of attempts.
const ATTEMPT: &str = "attempt-";
/// The controllers in use.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// Limit on the rounds that move processes: one may fork while they are moved.
const ROUNDS_MAX: usize = 16;
/// Period of `cpu.max` in microseconds, the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;

/// The groups of a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelegatedGroups {
    base: PathBuf,
    controllers: Vec<&'static str>,
}

/// Limits of a group. No limit if absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GroupLimits {
    /// Memory of all processes, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Processor time, in processors.
    pub cpus: Option<u32>,
}

/// A group to make for an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttemptGroup {
    /// Its directory.
    pub directory: PathBuf,
    /// Its limits.
    pub limits: GroupLimits,
}

impl DelegatedGroups {
    /// Prepares the group of this process's unit. `own` is the text of `/proc/self/cgroup`, `mount` the mount point of
    /// version 2. `is_delegated` is true for a group that systemd leaves to its unit.
    ///
    /// # Errors
    /// The reason why the worker can't make groups, for users.
    pub fn prepare(own: &str, mount: &Path, is_delegated: impl Fn(&Path) -> bool) -> Result<Self, String> {
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let path = path.ok_or("this system has no control groups of version 2")?;
        let own = mount.join(path);
        let base = if own.ends_with(OWN) { own.parent().unwrap_or(mount) } else { &own };
        // Without this check, a worker of root would move other processes, such as those of a login.
        if !is_delegated(base) {
            return Err(format!(
                "{} is not a control group that systemd delegates (`Delegate=` of a unit)",
                base.display()
            ));
        }
        let read = |name: &str| fs::read_to_string(base.join(name)).unwrap_or_default();
        let available = read("cgroup.controllers");
        let available: Vec<&str> = available.split_ascii_whitespace().collect();
        let controllers: Vec<_> = CONTROLLERS.into_iter().filter(|name| available.contains(name)).collect();
        if controllers.is_empty() {
            return Err(format!("{} has none of the controllers memory, pids and cpu", base.display()));
        }
        let refused = |error| format!("no group can be made in {}: {error}", base.display());
        let groups = Self { base: base.to_owned(), controllers };
        groups.enable().map_err(refused)?;
        Ok(groups)
    }

    fn enable(&self) -> io::Result<()> {
        let own = self.base.join(OWN);
        make(&own)?;
        for _ in 0..ROUNDS_MAX {
            let inside = fs::read_to_string(self.base.join("cgroup.procs"))?;
            if inside.trim().is_empty() {
                break;
            }
            for pid in inside.lines() {
                // A process that has ended is not there any more.
                let _ended = write(&own, "cgroup.procs", pid);
            }
        }
        let wanted: Vec<String> = self.controllers.iter().map(|name| format!("+{name}")).collect();
        write(&self.base, "cgroup.subtree_control", &wanted.join(" "))
    }

    /// Returns the directory with the groups.
    pub fn directory(&self) -> &Path {
        &self.base
    }

    /// Returns true if the memory of groups is limited and counted.
    pub fn limit_memory(&self) -> bool {
        self.controllers.contains(&"memory")
    }

    /// Returns the directory of an attempt's group.
    pub fn of_attempt(&self, attempt: &str) -> PathBuf {
        self.base.join(format!("{ATTEMPT}{attempt}"))
    }

    /// Returns the group of an attempt, without the limits that no controller enforces.
    pub fn limited(&self, attempt: &str, limits: &GroupLimits) -> AttemptGroup {
        let has = |name| self.controllers.contains(&name);
        let limits = GroupLimits {
            memory_bytes: limits.memory_bytes.filter(|_| has("memory")),
            processes: limits.processes.filter(|_| has("pids")),
            cpus: limits.cpus.filter(|_| has("cpu")),
        };
        AttemptGroup { directory: self.of_attempt(attempt), limits }
    }

    /// Kills the processes in the group of an attempt that has ended, and removes the group.
    pub fn remove(&self, attempt: &str) {
        let group = self.of_attempt(attempt);
        if group.is_dir() {
            kill(&group);
            let _busy = fs::remove_dir(&group);
        }
    }

    /// Kills the processes in groups of attempts that are not `held`, and removes these groups. A group with processes that
    /// are still ending stays until the next call.
    pub fn remove_others(&self, held: impl Fn(&str) -> bool) {
        for entry in fs::read_dir(&self.base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let attempt = name.to_str().and_then(|name| name.strip_prefix(ATTEMPT));
            if let Some(attempt) = attempt.filter(|attempt| !held(attempt)) {
                self.remove(attempt);
            }
        }
    }
}

impl AttemptGroup {
    /// Makes the group, and starts a process in it with `spawn`: this process, which has one thread, enters the group for the
    /// time of the call. Thus no child is ever outside.
    ///
    /// # Errors
    /// Fails if the group can't be made or entered. `spawn` was not called then.
    pub fn spawn_inside<T>(&self, spawn: impl FnOnce() -> T) -> io::Result<T> {
        make(&self.directory)?;
        let GroupLimits { memory_bytes, processes, cpus } = self.limits;
        let limits = [
            ("memory.max", memory_bytes.map(|bytes| bytes.to_string())),
            ("pids.max", processes.map(|processes| processes.to_string())),
            ("cpu.max", cpus.map(|cpus| format!("{} {CPU_PERIOD_US}", u64::from(cpus) * CPU_PERIOD_US))),
        ];
        for (file, limit) in limits {
            if let Some(limit) = limit {
                write(&self.directory, file, &limit)?;
            }
        }
        let own = self.directory.parent().unwrap_or(&self.directory).join(OWN);
        // 0 is the writing process.
        write(&self.directory, "cgroup.procs", "0")?;
        let spawned = spawn();
        if let Err(error) = write(&own, "cgroup.procs", "0") {
            // The keeper counts against the limits of its attempt then.
            eprintln!("buildpool keeper: {} can't be left: {error}", self.directory.display());
        }
        Ok(spawned)
    }
}

/// Kills all processes of a group at once (Linux 5.14).
pub fn kill(group: &Path) {
    // Without this file, the processes are killed one by one, as without a group.
    let _older = write(group, "cgroup.kill", "1");
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes a value with one call, as the kernel requires.
fn write(group: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = group.join(file);
    fs::write(&path, value).map_err(|error| {
        io::Error::new(error.kind(), format!("writing {value:?} to {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::{DelegatedGroups, GroupLimits, kill};
    use std::fs;
    use std::os::unix::process::ExitStatusExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    /// A directory with the files that the kernel has in the group of a delegated unit.
    fn unit(controllers: &str) -> (tempfile::TempDir, PathBuf) {
        let mount = tempfile::tempdir().expect("a directory");
        let unit = mount.path().join("system.slice/w.service");
        fs::create_dir_all(&unit).expect("made");
        fs::write(unit.join("cgroup.controllers"), controllers).expect("written");
        fs::write(unit.join("cgroup.procs"), "").expect("written");
        (mount, unit)
    }

    fn read(group: &Path, file: &str) -> String {
        fs::read_to_string(group.join(file)).unwrap_or_default()
    }

    #[test]
    fn a_delegated_unit_gets_a_group_for_each_attempt_with_its_limits() {
        for own in ["0::/system.slice/w.service\n", "0::/system.slice/w.service/worker\n"] {
            let (mount, unit) = unit("cpuset cpu io memory pids\n");
            let groups =
                DelegatedGroups::prepare(own, mount.path(), |base| base == unit).expect("a delegated unit");
            assert_eq!(groups.directory(), unit);
            assert_eq!(read(&unit, "cgroup.subtree_control"), "+memory +pids +cpu");
            let limits = GroupLimits { memory_bytes: Some(1 << 30), processes: Some(512), cpus: Some(2) };
            let group = groups.limited("a.1", &limits);
            assert_eq!(group.spawn_inside(|| 7).expect("made"), 7);
            assert_eq!(group.directory, unit.join("attempt-a.1"));
            assert_eq!(read(&group.directory, "memory.max"), "1073741824");
            assert_eq!(read(&group.directory, "pids.max"), "512");
            assert_eq!(read(&group.directory, "cpu.max"), "200000 100000");
            // This process entered the group and left it.
            assert_eq!(read(&group.directory, "cgroup.procs"), "0");
            assert_eq!(read(&unit.join("worker"), "cgroup.procs"), "0");
            groups.remove_others(|attempt| attempt == "a.1");
            assert_eq!(read(&group.directory, "cgroup.kill"), "");
            groups.remove_others(|_| false);
            assert_eq!(read(&group.directory, "cgroup.kill"), "1");
        }
    }

    #[test]
    fn a_limit_without_its_controller_is_left_out() {
        let (mount, _unit) = unit("memory\n");
        let groups = DelegatedGroups::prepare("0::/system.slice/w.service\n", mount.path(), |_| true)
            .expect("delegated");
        let limits = GroupLimits { memory_bytes: Some(1), processes: Some(1), cpus: Some(1) };
        let limits = groups.limited("a.1", &limits).limits;
        assert_eq!(limits, GroupLimits { memory_bytes: Some(1), ..GroupLimits::default() });
    }

    #[test]
    fn a_place_that_is_not_delegated_is_refused_with_its_reason() {
        let (mount, unit) = unit("hugetlb\n");
        let reason = |own: &str| {
            DelegatedGroups::prepare(own, mount.path(), |base| base == unit).expect_err("no groups")
        };
        assert!(reason("5:memory:/x\n").contains("no control groups of version 2"));
        assert!(
            reason("0::/user.slice/session-3.scope\n").contains("not a control group that systemd delegates")
        );
        assert!(reason("0::/system.slice/w.service\n").contains("none of the controllers"));
        fs::write(unit.join("cgroup.controllers"), "memory\n").expect("written");
        fs::remove_file(unit.join("cgroup.procs")).expect("removed");
        assert!(reason("0::/system.slice/w.service\n").contains("no group can be made in"));
    }

    /// The kernel itself, where a test may make a group: without limits, because only some machines have the controllers.
    #[test]
    fn processes_start_inside_and_are_killed_together() {
        let mounts = [Path::new("/sys/fs/cgroup/unified"), Path::new("/sys/fs/cgroup")];
        let Some(mount) = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists()) else {
            return eprintln!("SKIPPED: control groups of version 2 are not mounted here");
        };
        let base = mount.join(format!("buildpool-test-{}.service", std::process::id()));
        if fs::create_dir(&base).is_err() {
            return eprintln!("SKIPPED: this user may not make control groups");
        }
        let group = base.join("attempt-a.1");
        fs::create_dir(&group).expect("made");
        // A test has several threads, so a shell enters the group in place of this process.
        let script = format!("echo $$ > {}/cgroup.procs && echo in && exec sleep 1000", group.display());
        let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a shell is there");
        let mut said = [0; 3];
        let mut out = child.stdout.take().expect("piped");
        std::io::Read::read_exact(&mut out, &mut said).expect("it is inside");
        assert_eq!(read(&group, "cgroup.procs").trim(), child.id().to_string());
        kill(&group);
        assert_eq!(child.wait().expect("it ends").signal(), Some(9));
        fs::remove_dir(&group).expect("an empty group");
        fs::remove_dir(&base).expect("an empty group");
    }
}
