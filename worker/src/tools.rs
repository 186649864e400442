//! Detects the tools of a machine and their versions. Each tool is run to print its version, and
//! the result becomes a label.

use crate::platform;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for a tool to print its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Interval between checks for the end of a tool.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Time limit for the output of a tool that has exited. Beyond it, a remaining child process holds
/// the pipe open.
const REST_WITHIN: Duration = Duration::from_millis(200);
/// Limit on the output of a tool, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 10;
/// Limit on the length of a version label.
const VERSION_CHARS_MAX: usize = 32;

/// A tool, its version command, and the text before the version in its output.
struct Tool {
    label: &'static str,
    command: &'static [&'static str],
    before: &'static [&'static str],
    /// True for tools that open an installation dialog on a Mac without the command line tools.
    needs_xcode: bool,
}

const fn tool(
    label: &'static str,
    command: &'static [&'static str],
    before: &'static [&'static str],
) -> Tool {
    Tool { label, command, before, needs_xcode: false }
}

const fn apple(
    label: &'static str,
    command: &'static [&'static str],
    before: &'static [&'static str],
) -> Tool {
    Tool { label, command, before, needs_xcode: true }
}

const TOOLS: &[Tool] = &[
    apple("xcode", &["xcodebuild", "-version"], &["Xcode "]),
    apple("swift", &["swift", "--version"], &["Apple Swift version ", "Swift version "]),
    apple("git", &["git", "--version"], &["git version "]),
    apple("python", &["python3", "--version"], &["Python "]),
    tool("macos", &["sw_vers", "-productVersion"], &[""]),
    tool("rust", &["rustc", "--version"], &["rustc "]),
    tool("go", &["go", "version"], &["go version go"]),
    tool("node", &["node", "--version"], &["v"]),
    tool("cmake", &["cmake", "--version"], &["cmake version "]),
    tool("docker", &["docker", "--version"], &["Docker version "]),
];

/// Returns a label with the version for each tool that answers. Tools are searched in the `PATH` of
/// a job with this environment. Takes as long as the slowest tool.
pub fn find(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let has_xcode =
        !platform::TOOLS_ASK_TO_BE_INSTALLED || ask(&["xcode-select", "-p"], environment).is_some();
    thread::scope(|scope| {
        let asked: Vec<_> = TOOLS
            .iter()
            .filter(|tool| has_xcode || !tool.needs_xcode)
            .map(|tool| (tool, scope.spawn(|| ask(tool.command, environment))))
            .collect();
        let found = asked.into_iter().filter_map(|(tool, answer)| {
            let version = version(&answer.join().ok()??, tool.before)?;
            Some((tool.label.to_owned(), version))
        });
        found.collect()
    })
}

/// Returns the stdout of a command, or `None` if it does not exist, fails or exceeds its time
/// limit.
fn ask(command: &[&str], environment: &BTreeMap<String, String>) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let mut child = Command::new(program)
        .args(arguments)
        // The program is searched in this `PATH`.
        .env_clear()
        .envs(environment)
        // Some tools read project files of the current directory.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Kill a wrapper and its children together.
        .process_group(0)
        .spawn()
        .ok()?;
    let until = Instant::now() + ANSWER_WITHIN;
    let stdout = child.stdout.take()?;
    let (send, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        // Output before an error is useless, and the receiver may be gone.
        let _ = send.send(read.ok().map(|_| text));
    });
    if !wait(&mut child, until) {
        return None;
    }
    answer
        .recv_timeout(REST_WITHIN)
        .or_else(|_| {
            kill_group(&child);
            // A process that has left the group may hold the pipe forever.
            answer.recv_timeout(REST_WITHIN)
        })
        .ok()?
}

/// Kills the tool and its children.
fn kill_group(child: &Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // It may have ended already.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// Returns true if the process exits successfully within the time limit. Otherwise it is killed.
fn wait(child: &mut Child, until: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK_EVERY),
            Ok(None) | Err(_) => {
                kill_group(child);
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Returns the version after the first matching prefix, up to the first character that cannot
/// belong to a version.
fn version(answer: &str, before: &[&str]) -> Option<String> {
    let behind = before.iter().find_map(|before| {
        answer.lines().find_map(|line| {
            let at = line.find(before)?;
            Some(&line[at + before.len()..])
        })
    })?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    let end = behind.find(|c| !is_part(c)).unwrap_or(behind.len());
    let version = &behind[..end];
    let is_one = version.starts_with(|c: char| c.is_ascii_digit()) && version.len() <= VERSION_CHARS_MAX;
    is_one.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{LOOK_EVERY, TOOLS, ask, find, version};
    use crate::environment;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    /// The environment of the tests.
    fn own() -> BTreeMap<String, String> {
        std::env::vars().collect()
    }

    #[test]
    fn versions_are_read_from_what_the_tools_say() {
        for (label, answer, expected) in [
            ("xcode", "Xcode 16.2\nBuild version 16C5032a\n", Some("16.2")),
            ("xcode", "Xcode 26.0.1\nBuild version 17A400\n", Some("26.0.1")),
            (
                "swift",
                "swift-driver version: 1.115.1 Apple Swift version 6.0.3 (swiftlang-6.0.3.1.10 clang-1600.0.30.1)\nTarget: arm64-apple-macosx15.0\n",
                Some("6.0.3"),
            ),
            (
                "swift",
                "Swift version 5.10.1 (swift-5.10.1-RELEASE)\nTarget: x86_64-unknown-linux-gnu\n",
                Some("5.10.1"),
            ),
            ("rust", "rustc 1.91.0 (f8297e351 2025-10-28)\n", Some("1.91.0")),
            ("rust", "rustc 1.93.0-nightly (abc 2025-11-20)\n", Some("1.93.0-nightly")),
            ("go", "go version go1.22.3 linux/amd64\n", Some("1.22.3")),
            ("node", "v20.11.1\n", Some("20.11.1")),
            ("python", "Python 3.11.2\n", Some("3.11.2")),
            ("git", "git version 2.39.5 (Apple Git-154)\n", Some("2.39.5")),
            ("cmake", "cmake version 3.25.1\n\nCMake suite maintained…\n", Some("3.25.1")),
            ("docker", "Docker version 27.3.1, build ce12230\n", Some("27.3.1")),
            ("macos", "15.1.1\n", Some("15.1.1")),
            ("xcode", "xcode-select: error: tool 'xcodebuild' requires Xcode\n", None),
            ("rust", "", None),
            ("node", "very new\n", None),
        ] {
            let tool = TOOLS.iter().find(|tool| tool.label == label).unwrap();
            assert_eq!(version(answer, tool.before).as_deref(), expected, "{label}: {answer}");
        }
    }

    #[test]
    fn a_tool_that_leaves_a_process_behind_holds_nobody_up() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid");
        let text = format!("sleep 600 & echo $! > {}; echo tool 1.2", pid.display());
        assert_eq!(ask(&["sh", "-c", &text], &own()).as_deref(), Some("tool 1.2\n"));
        let left: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let is_gone = || crate::platform::process(left).is_none_or(|process| process.zombie);
        let until = Instant::now() + Duration::from_secs(30);
        while !is_gone() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(is_gone(), "it is killed with its group");
    }

    #[test]
    fn what_is_on_this_machine_is_found() {
        let found = find(&own());
        // rustc built these tests, so it is installed.
        assert!(found.get("rust").is_some_and(|version| version.contains('.')), "{found:?}");
    }

    #[test]
    fn a_tool_is_what_a_job_finds_by_its_own_path() {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("rustc");
        std::fs::write(&tool, "#!/bin/sh\necho \"rustc $VERSION (x)\"\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let configured = |path: &str| {
            let values = [("PATH", path), ("VERSION", "9.8.7")];
            environment::of_worker(&values.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        };
        let with = configured(&format!("{}:/usr/bin:/bin", directory.path().display()));
        assert_eq!(find(&with).get("rust").map(String::as_str), Some("9.8.7"));
        assert_eq!(find(&configured("/nowhere")), [].into());
    }
}
