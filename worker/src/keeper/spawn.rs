//! Creates the command's process: its own session and group, its standard input, two pipes, no
//! inherited descriptors.
//!
//! The keeper has one thread, so it changes its own directory and limits during the spawn. Each
//! failure can then be identified, and the spawn is one call that copies no memory.

use super::messages::Run;
use super::tree::{ATTEMPT_VARIABLE, JOB_VARIABLE};
use crate::isolation::VARIABLES_FD;
use crate::limits::PIPE_BYTES;
use crate::platform;
use buildpool_protocol::outcome::StartFailure;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};
use std::ffi::CString;
use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A created process.
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// Where the command's standard input is written, if it has one.
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
}

/// Creates the process. Afterwards the keeper is in its own directory again, even if that was
/// renamed.
pub(super) fn spawn(run: &Run) -> Result<Spawned, StartFailure> {
    let own = File::open(".").map_err(|error| resources(&error))?;
    std::env::set_current_dir(&run.directory).map_err(|error| StartFailure::Directory {
        path: run.directory.display().to_string(),
        reason: error.to_string(),
    })?;
    let spawned = spawn_here(run);
    // This cannot fail for lack of permission, because the directory is open. Without it no records
    // could be written.
    let _ = nix::unistd::fchdir(&own);
    spawned
}

fn spawn_here(run: &Run) -> Result<Spawned, StartFailure> {
    let program = run.argv.first().map(String::as_str).unwrap_or_default();
    let path = all_variables(run).find(|(name, _)| *name == "PATH").map(|(_, path)| path);
    let found = find_program(program, path)?;
    let c_path = c_string(found.as_os_str().as_encoded_bytes(), program)?;
    let argv = run
        .argv
        .iter()
        .map(|argument| c_string(argument.as_bytes(), program))
        .collect::<Result<Vec<_>, _>>()?;
    let variables = if run.hands_variables_inside {
        Some(platform::memory_file(&variables(run)).map_err(|error| resources(&error))?)
    } else {
        None
    };
    let environment =
        environment(run).map(|entry| c_string(entry.as_bytes(), program)).collect::<Result<Vec<_>, _>>()?;
    let (stdout, stdout_write) = std::io::pipe().map_err(|error| resources(&error))?;
    let (stderr, stderr_write) = std::io::pipe().map_err(|error| resources(&error))?;
    for pipe in [&stdout, &stderr] {
        platform::widen_pipe(pipe, PIPE_BYTES);
        set_nonblocking(pipe).map_err(|error| resources(&error.into()))?;
    }
    let (stdin_read, stdin) = stdin_pipe(run).map_err(|error| resources(&error))?.unzip();
    let streams = Streams { stdin: stdin_read.as_ref(), stdout: &stdout_write, stderr: &stderr_write };
    let actions = actions(&streams, variables.as_ref()).map_err(|error| resources(&error.into()))?;
    let attributes = attributes().map_err(|error| resources(&error.into()))?;
    let start = |limits: &[(Resource, u64)]| {
        let inherited = Limits::set(limits);
        let spawned = posix_spawn(c_path.as_c_str(), &actions, &attributes, &argv, &environment);
        drop(inherited);
        if let Ok(pid) = spawned {
            // The command inherited the keeper's hard limits, and could raise the soft ones to them.
            for (resource, max) in limits.iter().filter(|(resource, _)| *resource != Resource::RLIMIT_CORE) {
                platform::lower_limit(pid.as_raw(), *resource, *max);
            }
        }
        spawned
    };
    match in_group(run, start) {
        Ok(pid) => Ok(Spawned { pid: pid.as_raw(), stdin, stdout, stderr }),
        Err(error) => Err(spawn_failure(error, program)),
    }
}

/// Starts the command in its control group. Without a control group, each process has limits of its own.
fn in_group<T>(run: &Run, start: impl Fn(&[(Resource, u64)]) -> T) -> T {
    let limits = limits(run);
    let Some(group) = &run.group else { return start(&limits) };
    let is_of_group =
        |resource: Resource| group.limits.memory_bytes.is_some() && Some(resource) == platform::MEMORY_LIMIT;
    let left: Vec<_> = limits.iter().copied().filter(|(resource, _)| !is_of_group(*resource)).collect();
    group.spawn_inside(|| start(&left)).unwrap_or_else(|error| {
        eprintln!("buildpool keeper: the limits of a control group don't apply: {error}");
        start(&limits)
    })
}

/// Returns all variables of the command. A secret overrides a variable with the same name.
fn all_variables(run: &Run) -> impl Iterator<Item = (&str, &str)> {
    let plain = run.environment.iter().filter(|(name, _)| !run.secrets.contains_key(*name));
    let plain = plain.map(|(name, value)| (name.as_str(), value.as_str()));
    plain.chain(run.secrets.iter().map(|(name, value)| (name.as_str(), value.0.as_str())))
}

/// Returns the environment of the process itself. A sandbox only gets the variables that identify
/// its processes. Other variables could change its behaviour and be read inside.
fn environment(run: &Run) -> impl Iterator<Item = String> {
    all_variables(run)
        .filter(|(name, _)| !run.hands_variables_inside || [JOB_VARIABLE, ATTEMPT_VARIABLE].contains(name))
        .map(|(name, value)| format!("{name}={value}"))
}

/// Returns bubblewrap's arguments (bwrap(1), `--args`) that set all variables inside.
fn variables(run: &Run) -> Vec<u8> {
    let mut words = vec!["--clearenv"];
    for (name, value) in all_variables(run) {
        words.extend(["--setenv", name, value]);
    }
    words.into_iter().flat_map(|word| word.bytes().chain([0])).collect()
}

/// The pipe of the command's standard input, if it has one.
fn stdin_pipe(run: &Run) -> std::io::Result<Option<(PipeReader, PipeWriter)>> {
    if !run.stdin {
        return Ok(None);
    }
    let (reader, writer) = std::io::pipe()?;
    set_nonblocking(&writer)?;
    Ok(Some((reader, writer)))
}

/// The command's ends of its pipes.
struct Streams<'a> {
    /// Absent for an empty standard input.
    stdin: Option<&'a PipeReader>,
    stdout: &'a PipeWriter,
    stderr: &'a PipeWriter,
}

fn actions(streams: &Streams<'_>, variables: Option<&OwnedFd>) -> nix::Result<PosixSpawnFileActions> {
    let mut actions = PosixSpawnFileActions::init()?;
    match streams.stdin {
        Some(stdin) => actions.add_dup2(stdin.as_raw_fd(), 0)?,
        None => actions.add_open(0, "/dev/null", OFlag::O_RDONLY, Mode::empty())?,
    }
    actions.add_dup2(streams.stdout.as_raw_fd(), 1)?;
    actions.add_dup2(streams.stderr.as_raw_fd(), 2)?;
    if let Some(variables) = variables {
        actions.add_dup2(variables.as_raw_fd(), VARIABLES_FD)?;
    }
    Ok(actions)
}

fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | platform::session_flag(),
    )?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}

/// The keeper's own limits during a spawn, which the command inherits. The old limits are restored on
/// drop.
struct Limits {
    before: Vec<(Resource, u64, u64)>,
}

impl Limits {
    fn set(limits: &[(Resource, u64)]) -> Self {
        let set = |(resource, max): &(Resource, u64)| {
            let (soft, hard) = getrlimit(*resource).ok()?;
            // The hard limit stays, so that the old soft limit can be restored.
            setrlimit(*resource, hard.min(*max), hard).ok()?;
            Some((*resource, soft, hard))
        };
        Self { before: limits.iter().filter_map(set).collect() }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (resource, soft, hard) in &self.before {
            let _ = setrlimit(*resource, *soft, *hard);
        }
    }
}

/// Returns the limits of the command.
fn limits(run: &Run) -> Vec<(Resource, u64)> {
    let all = [
        (Some(Resource::RLIMIT_CORE), run.core_bytes_max),
        (platform::MEMORY_LIMIT, run.memory_bytes_max),
        (platform::PROCESSES_LIMIT, run.processes_max),
    ];
    all.into_iter().filter_map(|(resource, max)| Some((resource?, max?))).collect()
}

/// Finds a program as a shell does, from the current directory, in the job's own `PATH`.
fn find_program(program: &str, path: Option<&str>) -> Result<PathBuf, StartFailure> {
    if program.contains('/') {
        return check_program(Path::new(program), program).map(|()| PathBuf::from(program));
    }
    let default_path;
    let path = if let Some(path) = path {
        path
    } else {
        default_path = platform::login_path().join(":");
        &default_path
    };
    let mut refused = None;
    for directory in path.split(':') {
        // An empty entry is the current directory (POSIX, execvp).
        let candidate = Path::new(if directory.is_empty() { "." } else { directory }).join(program);
        match check_program(&candidate, program) {
            Ok(()) => return Ok(candidate),
            Err(failure @ StartFailure::NotExecutable { .. }) => refused = refused.or(Some(failure)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| StartFailure::NotFound { program: program.to_owned() }))
}

fn check_program(candidate: &Path, program: &str) -> Result<(), StartFailure> {
    let not_executable =
        |reason: String| Err(StartFailure::NotExecutable { program: program.to_owned(), reason });
    match candidate.metadata() {
        Ok(metadata) if metadata.is_dir() => not_executable("it is a directory".to_owned()),
        Ok(_) => match access(candidate, AccessFlags::X_OK) {
            Ok(()) => Ok(()),
            Err(error) => not_executable(error.desc().to_owned()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            not_executable(error.to_string())
        }
        Err(_) => Err(StartFailure::NotFound { program: program.to_owned() }),
    }
}

fn spawn_failure(error: Errno, program: &str) -> StartFailure {
    match error {
        Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => resources(&error.into()),
        // The program exists, so its interpreter or its loader is missing.
        Errno::ENOENT => StartFailure::NotExecutable {
            program: program.to_owned(),
            reason: "the interpreter that it names is not there".to_owned(),
        },
        other => StartFailure::NotExecutable { program: program.to_owned(), reason: other.desc().to_owned() },
    }
}

fn resources(error: &std::io::Error) -> StartFailure {
    StartFailure::Resources { reason: error.to_string() }
}

fn c_string(bytes: &[u8], program: &str) -> Result<CString, StartFailure> {
    CString::new(bytes).map_err(|_| StartFailure::NotExecutable {
        program: program.to_owned(),
        reason: "an argument or a variable contains a NUL byte".to_owned(),
    })
}

pub(super) fn set_nonblocking(pipe: &impl AsFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_GETFL)?);
    nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(|_| ())
}
