//! Requests the stacks of a job's processes before a timeout ends them. Only processes whose
//! runtime prints stacks at a signal get one: Go and Java at SIGQUIT, Python with `faulthandler` at
//! SIGABRT. Node.js processes are examined through their inspector, and other processes by a program of
//! the machine, if there is one. The output goes to the job's log.

pub mod node;

use crate::platform::{self, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::path::PathBuf;

/// Limit on the processes that are examined.
const PROCESSES_MAX: usize = 64;
/// The Go linker writes the build id into the first 32 KiB of a program (Go source,
/// `cmd/internal/buildid`, `readSize`).
const HEAD_BYTES: u64 = 32 << 10;
/// The note of the build id in an ELF file: type 4, name `Go` (Go source, `cmd/internal/buildid`,
/// `elfGoNote`).
const ELF_NOTE: &[u8] = b"\x04\0\0\0Go\0\0";
/// The build id in other files (Go source, `cmd/internal/buildid`, `goBuildPrefix`).
const BUILD_ID: &[u8] = b"\xff Go build ID: \"";

/// Limit on the processes that get a debugger.
const DEBUGGED_MAX: usize = 4;
/// Programs whose native stack explains no hang: they wait for others, or they run code that a
/// debugger does not know.
const UNEXPLAINED: [&str; 8] = ["sh", "bash", "dash", "zsh", "sleep", "tail", "bun", "deno"];
/// The program of Node.js.
const NODE: &str = "node";

/// Result of a request.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// Number of processes that got a signal.
    pub(super) signaled: usize,
    /// Debuggers with their arguments. They print the stacks of other processes.
    pub(super) debuggers: Vec<(PathBuf, Vec<String>)>,
}

/// Signals the processes that can print their stacks. `may_attach_debugger`: of the processes without a
/// child, the other ones get a debugger of the machine.
pub(super) fn request(processes: &[Process], may_attach_debugger: bool) -> Requested {
    let mut requested = Requested::default();
    let (mut nodes, mut parents) = (Vec::new(), Vec::new());
    for process in processes.iter().take(PROCESSES_MAX) {
        let signal = signal_of(process.pid);
        if signal.is_some_and(|signal| kill(Pid::from_raw(process.pid), signal).is_ok()) {
            requested.signaled += 1;
            continue;
        }
        let has_child = processes.iter().any(|other| other.parent == process.pid);
        if !may_attach_debugger {
            continue;
        }
        let name = platform::program_name(process.pid).filter(|name| !UNEXPLAINED.contains(&name.as_str()));
        if name.as_deref() == Some(NODE) {
            if node::is_node(process.pid) {
                if has_child { &mut parents } else { &mut nodes }.push(process.pid.to_string());
            }
        } else if !has_child && requested.debuggers.len() < DEBUGGED_MAX {
            requested.debuggers.extend(name.and_then(|name| platform::debugger(process.pid, &name)));
        }
    }
    // A process without a child runs the test. A package manager and a runner wait for it.
    nodes.truncate(DEBUGGED_MAX);
    parents.truncate(DEBUGGED_MAX);
    if nodes.len() + parents.len() > 0
        && let Ok(program) = platform::own_executable()
    {
        let words = [node::SUBCOMMAND, node::PARENTS].map(str::to_owned);
        let [subcommand, separator] = words;
        let arguments = [vec![subcommand], nodes, vec![separator], parents].concat();
        requested.debuggers.push((program, arguments));
    }
    requested
}

/// Returns the signal at which a process prints its stacks.
fn signal_of(pid: i32) -> Option<Signal> {
    let name = platform::program_name(pid)?;
    let is_caught = |signal| platform::catches(pid, signal);
    if name == "java" || is_go(pid) {
        // An unhandled SIGQUIT would only dump core.
        return Some(Signal::SIGQUIT).filter(|signal| is_caught(*signal) != Some(false));
    }
    // Only `faulthandler.enable()` catches SIGABRT in Python: it prints all threads (Python library
    // reference, "faulthandler").
    let is_python = name.to_ascii_lowercase().starts_with("python");
    Some(Signal::SIGABRT).filter(|signal| is_python && is_caught(*signal) == Some(true))
}

fn is_go(pid: i32) -> bool {
    let mut head = Vec::new();
    let Some(file) = platform::open_program(pid) else { return false };
    file.take(HEAD_BYTES).read_to_end(&mut head).is_ok() && has_go_build_id(&head)
}

fn has_go_build_id(head: &[u8]) -> bool {
    let has = |part: &[u8]| head.windows(part.len()).any(|window| window == part);
    has(ELF_NOTE) || has(BUILD_ID)
}

#[cfg(test)]
mod tests {
    use super::{has_go_build_id, request, signal_of};
    use crate::platform;

    #[test]
    fn programs_of_go_have_a_build_id() {
        // The first bytes of `.note.go.buildid`: length of the name, length of the id, type, name.
        let note = [&[0; 100][..], b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0abc/def"].concat();
        assert!(has_go_build_id(&note));
        assert!(has_go_build_id(b"\xcf\xfa\xed\xfe\xff Go build ID: \"abc\""));
        assert!(!has_go_build_id(b"\x7fELF\x04\0\0\0\x10\0\0\0\x01\0\0\0GNU\0"));
    }

    #[test]
    fn other_programs_get_no_signal() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(signal_of(own), None);
        let process = platform::process(own).unwrap();
        let requested = request(std::slice::from_ref(&process), false);
        assert_eq!((requested.signaled, requested.debuggers.len()), (0, 0));
        let parent = platform::Process { pid: process.parent, ..process.clone() };
        let debuggers = request(&[parent, process], true).debuggers;
        assert!(debuggers.len() <= 1, "only the process without a child: {debuggers:?}");
        assert_eq!(signal_of(i32::MAX), None);
    }
}
