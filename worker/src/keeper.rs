//! The keeper: a separate process next to the worker's daemon that owns one attempt at a time. It
//! leads its own session, so that signals to the daemon do not affect it. It continues without the
//! daemon until its attempt has ended and the outcome is on disk.

mod attempt;
mod capture;
mod connection;
mod disk_block;
mod guardian;
pub mod keeper_directory;
pub mod log_tail;
pub mod mask;
pub mod messages;
mod reap;
mod serve;
mod signals;
mod spawn;
pub mod spool;
pub mod stacks;
mod stdin;
pub mod tree;

use keeper_directory::{KeeperDirectory, KeeperPaths};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serve::Keeper;
use signals::ChildSignal;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The hidden subcommand that starts a keeper.
pub const SUBCOMMAND: &str = "keeper";

/// Runs a keeper with the arguments after [`SUBCOMMAND`], and returns its exit code. Call it before
/// any thread is started. Standard input is the socket to the worker.
pub fn keeper_main(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    match prepare(arguments).and_then(Keeper::serve) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("buildpool keeper: {error}");
            1
        }
    }
}

/// Returns the arguments for [`keeper_main`].
pub fn arguments(number: u32, paths: &KeeperPaths) -> Vec<OsString> {
    vec![number.to_string().into(), paths.directory.clone().into(), paths.sockets.clone().into()]
}

fn prepare(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Keeper> {
    let mut arguments = arguments.into_iter();
    let (Some(number), Some(directory), Some(sockets), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(invalid("it is started by the worker, with a number and two directories"));
    };
    let number = number
        .to_str()
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| invalid("the keeper's number is not a number from 0 to 4294967295"))?;
    crate::platform::guard_memory();
    close_inherited()?;
    let paths = KeeperPaths { directory: PathBuf::from(directory), sockets: PathBuf::from(sockets) };
    // This fails if the process already leads a session, which is sufficient.
    let _ = nix::unistd::setsid();
    signals::ignore_requests_to_end()?;
    let adopts = guardian::start_guardian()?;
    let worker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::dup2_stdin(&null)?;
    let children = ChildSignal::install()?;
    let directory = KeeperDirectory::take(paths, number)?;
    Ok(Keeper::new(directory, children, adopts, Some(worker)))
}

/// Closes inherited descriptors other than the three standard ones. A pipe held open by a keeper or
/// a job would block the reader of the pipe.
fn close_inherited() -> io::Result<()> {
    let listed: Vec<i32> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in listed {
        // One of them is the descriptor of the listing, which is closed by now.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}
