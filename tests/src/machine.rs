//! Machines with a real systemd: PID 1 of its own namespaces, on a temporary copy of this machine's
//! disk.

use crate::{Finished, binary, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use tempfile::TempDir;

/// Directory of systemd's control groups on a machine with cgroup v1.
const CGROUPS: &str = "/sys/fs/cgroup/systemd";
const SYSTEMD: &str = "/lib/systemd/systemd";

/// A running machine. Its processes end and its disk is removed on drop.
#[derive(Debug)]
pub struct Machine {
    /// The `unshare` process. Its end ends PID 1 of the machine, and so the whole machine.
    outer: Child,
    init: i32,
    cgroup: PathBuf,
    _directory: TempDir,
}

impl Machine {
    /// Boots a machine with its own network. Prints a message and returns `None` if that is not
    /// possible.
    pub fn boot(name: &str) -> Option<Self> {
        if let Some(why) = impossible() {
            eprintln!("SKIPPED, NOT PASSED: no machine with systemd can be started here: {why}");
            return None;
        }
        let machine = Self::start(name, &["unshare", "--net"]);
        machine.sh("ip link set lo up").expect(0);
        Some(machine)
    }

    /// Boots another machine in the network of this one.
    pub fn boot_beside(&self, name: &str) -> Self {
        let network = format!("--net=/proc/{}/ns/net", self.init);
        Self::start(name, &["nsenter", &network, "unshare"])
    }

    fn start(name: &str, enter: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("bpm").tempdir().unwrap();
        let boot = concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine/boot.sh");
        let cgroup = Path::new(CGROUPS).join(directory.path().file_name().unwrap());
        std::fs::create_dir(&cgroup).unwrap();
        let mut command = Command::new("sh");
        // The shell enters the control group first, so that it becomes the root of the machine's
        // groups.
        command.args(["-euc", "echo $$ >\"$0/cgroup.procs\"; exec setpriv --pdeathsig KILL \"$@\""]);
        command.arg(&cgroup).args(enter);
        command.args(["--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child=KILL"]);
        command.args(["sh", boot]).arg(directory.path()).arg(name);
        let outer = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut machine = Self { outer, init: 0, cgroup, _directory: directory };
        machine.init = wait_for("PID 1 of the machine", || machine.child_that_is_systemd());
        wait_for("systemd has started the machine", || {
            let state = machine.sh("systemctl is-system-running").out();
            ["running", "degraded"].contains(&state.trim()).then_some(())
        });
        machine
    }

    fn child_that_is_systemd(&mut self) -> Option<i32> {
        if let Some(status) = self.outer.try_wait().unwrap() {
            panic!("the machine did not start: {status}");
        }
        let pid = self.outer.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let child = children.split_whitespace().next()?.parse().ok()?;
        let program = std::fs::read_link(format!("/proc/{child}/exe")).ok()?;
        program.ends_with("systemd").then_some(child)
    }

    /// Runs a shell script as root of the machine. It stops at the first failed command, and has no
    /// variables of the test.
    pub fn sh(&self, text: &str) -> Finished {
        self.sh_with_input(text, "")
    }

    /// As [`Self::sh`], with this standard input.
    pub fn sh_with_input(&self, text: &str, input: &str) -> Finished {
        let target = self.init.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &target, "--all", "env", "-i", "HOME=/root", "LANG=C.UTF-8"]);
        command.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(["sh", "-euc", &format!("cd; {text}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read its input may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().unwrap().into()
    }

    /// Returns a path of the machine as this process can open it.
    pub fn path(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.init)).join(path.trim_start_matches('/'))
    }

    /// Copies this build's program, without debug information, to root's home directory.
    pub fn bring_program(&self) {
        let target = self.path("/root/buildpool");
        static STRIPPED: Mutex<Option<Vec<u8>>> = Mutex::new(None);
        let mut stripped = STRIPPED.lock().unwrap();
        if stripped.is_none() {
            let done = Command::new("strip").arg("-o").arg(&target).arg(binary()).status();
            assert!(done.is_ok_and(|status| status.success()), "strip(1) works");
            *stripped = Some(std::fs::read(&target).unwrap());
        }
        std::fs::write(&target, stripped.as_deref().unwrap_or_default()).unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns one property of a unit.
    pub fn show(&self, unit: &str, property: &str) -> String {
        let text = format!("systemctl show --value --property={property} {unit}");
        self.sh(&text).expect(0).out().trim().to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the machine's journal:\n{}", self.sh("journalctl --no-pager -o short -n 100").out());
        }
        // unshare(1) ignores SIGTERM while it waits.
        let _ = kill(Pid::from_raw(self.outer.id().cast_signed()), Signal::SIGKILL);
        let _ = self.outer.wait();
        let deadline = std::time::Instant::now() + crate::PATIENCE;
        while remove_groups(&self.cgroup).is_err() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Removes a control group and the groups below it, once no process is left in them.
fn remove_groups(path: &Path) -> std::io::Result<()> {
    for entry in path.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    std::fs::remove_dir(path)
}

fn impossible() -> Option<String> {
    if std::env::consts::OS != "linux" {
        return Some("this is not Linux".to_owned());
    }
    if !Uid::effective().is_root() {
        return Some("only root can".to_owned());
    }
    for needed in [SYSTEMD, CGROUPS] {
        if !Path::new(needed).exists() {
            return Some(format!("{needed} is not there"));
        }
    }
    let namespaces = ["--mount", "--pid", "--ipc", "--uts", "--cgroup", "--net", "--fork", "true"];
    let tried = Command::new("unshare").args(namespaces).output();
    let works = tried.is_ok_and(|output| output.status.success());
    (!works).then(|| "unshare(1) makes no namespaces".to_owned())
}

/// Returns the complaints of `systemd-analyze verify`, without three keys that systemd before version
/// 254 does not support and ignores. The program exits with 0 for unknown keys and only prints a
/// warning.
pub fn complaints_of_verify(stderr: &[u8]) -> Vec<String> {
    let newer = ["'RestartSteps'", "'RestartMaxDelaySec'", "'DelegateSubgroup'"];
    let is_newer = |line: &str| line.contains("Unknown key") && newer.iter().any(|key| line.contains(key));
    let text = String::from_utf8_lossy(stderr);
    text.lines().filter(|line| !line.trim().is_empty() && !is_newer(line)).map(str::to_owned).collect()
}
