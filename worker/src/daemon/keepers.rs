//! The daemon's side of its keepers: start, discovery and messages.

use super::data_directory::DataDirectory;
use super::event::Event;
use crate::keeper::messages::{FromKeeper, GENERATION, ToKeeper, encode, take};
use crate::limits::{CONTROL_QUEUE, KEEPER_HELLO_WITHIN};
use buildpool_protocol::ids::AttemptId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Id of a connection to a keeper. A keeper's number may be reused, this id is unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct KeeperLink(u64);

/// State of a keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeeperState {
    /// It has not sent its hello message.
    Connecting,
    /// It waits for an attempt.
    Idle,
    /// It runs an attempt.
    Running(AttemptId),
}

struct KnownKeeper {
    number: u32,
    state: KeeperState,
    /// True if it existed before this daemon.
    is_found: bool,
    /// True if another build started it, so that it supports other messages.
    is_foreign: bool,
    messages: mpsc::Sender<Vec<u8>>,
}

/// All keepers of this daemon.
pub(super) struct Keepers {
    command: Vec<OsString>,
    events: mpsc::Sender<Event>,
    keepers: BTreeMap<KeeperLink, KnownKeeper>,
    next_link: u64,
    tasks: JoinSet<()>,
}

impl Keepers {
    pub(super) fn new(command: Vec<OsString>, events: mpsc::Sender<Event>) -> Self {
        Self { command, events, keepers: BTreeMap::new(), next_link: 0, tasks: JoinSet::new() }
    }

    /// Connects to all running keepers. Those that do not answer stay [`KeeperState::Connecting`].
    pub(super) fn find(&mut self, data_directory: &DataDirectory) -> io::Result<()> {
        for entry in fs::read_dir(&data_directory.keeper_paths.directory)? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(".lock")).and_then(|n| n.parse().ok());
            let Some(number) = number else { continue };
            if data_directory.keeper_paths.is_alive(number)? {
                let sockets = data_directory.sockets_of(number);
                self.add(number, true, connect(sockets));
            }
        }
        Ok(())
    }

    /// Starts a keeper.
    pub(super) fn start(&mut self, data_directory: &DataDirectory) -> io::Result<()> {
        data_directory.restore()?;
        let number = self.free_number(data_directory)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let log =
            OpenOptions::new().append(true).create(true).mode(0o600).open(data_directory.keeper_log())?;
        let (program, first) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        // After the handle is dropped, the runtime reaps a keeper that ends before the daemon.
        Command::new(program)
            .args(first)
            .args(crate::keeper::arguments(number, &data_directory.keeper_paths))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let stream = UnixStream::from_std(ours)?;
        self.add(number, false, async move { Ok(stream) });
        Ok(())
    }

    fn free_number(&self, data_directory: &DataDirectory) -> io::Result<u32> {
        for number in 0..=u32::MAX {
            let is_ours = self.keepers.values().any(|keeper| keeper.number == number);
            if !is_ours && !data_directory.keeper_paths.is_alive(number)? {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn add(
        &mut self,
        number: u32,
        is_found: bool,
        connect: impl Future<Output = io::Result<UnixStream>> + Send + 'static,
    ) {
        let link = KeeperLink(self.next_link);
        self.next_link += 1;
        let (messages, outgoing) = mpsc::channel(CONTROL_QUEUE);
        self.keepers.insert(
            link,
            KnownKeeper { number, state: KeeperState::Connecting, is_found, is_foreign: false, messages },
        );
        let events = self.events.clone();
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            if let Ok(stream) = connect.await {
                // For any error, the lock shows if the keeper still runs.
                let _ = exchange_messages(link, stream, outgoing, &events).await;
            }
            let _ = events.send(Event::KeeperGone { link }).await;
        });
    }

    pub(super) fn send(&self, link: KeeperLink, message: &ToKeeper) -> io::Result<()> {
        let keeper = self.keepers.get(&link).ok_or(io::ErrorKind::NotConnected)?;
        keeper.messages.try_send(encode(message)?).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    pub(super) fn set_state(&mut self, link: KeeperLink, state: KeeperState) {
        if let Some(keeper) = self.keepers.get_mut(&link) {
            keeper.state = state;
        }
    }

    /// Records the protocol generation of a keeper.
    pub(super) fn note_generation(&mut self, link: KeeperLink, generation: u32) {
        if let Some(keeper) = self.keepers.get_mut(&link) {
            keeper.is_foreign = keeper.is_found && generation != GENERATION;
        }
    }

    /// Returns true if this daemon started the keeper. Jobs have no access to the connection to such a keeper.
    pub(super) fn is_own(&self, link: KeeperLink) -> bool {
        self.keepers.get(&link).is_some_and(|keeper| !keeper.is_found)
    }

    /// Marks a keeper as idle. A keeper of another build might ignore settings that isolate a job.
    /// Its connection is closed, and an idle keeper without a connection exits.
    pub(super) fn release(&mut self, link: KeeperLink) {
        if self.keepers.get(&link).is_some_and(|keeper| keeper.is_foreign) {
            self.keepers.remove(&link);
        } else {
            self.set_state(link, KeeperState::Idle);
        }
    }

    pub(super) fn of_attempt(&self, attempt: AttemptId) -> Option<KeeperLink> {
        self.keepers
            .iter()
            .find(|(_, keeper)| keeper.state == KeeperState::Running(attempt))
            .map(|(link, _)| *link)
    }

    pub(super) fn idle(&self) -> Option<KeeperLink> {
        self.keepers.iter().find(|(_, keeper)| keeper.state == KeeperState::Idle).map(|(link, _)| *link)
    }

    pub(super) fn busy(&self) -> impl Iterator<Item = (KeeperLink, AttemptId)> + '_ {
        self.keepers.iter().filter_map(|(link, keeper)| match keeper.state {
            KeeperState::Running(attempt) => Some((*link, attempt)),
            KeeperState::Connecting | KeeperState::Idle => None,
        })
    }

    /// Returns the number of keepers that can take an attempt now or soon.
    pub(super) fn count_available(&self) -> usize {
        let is_available = |keeper: &&KnownKeeper| {
            keeper.state == KeeperState::Idle || keeper.state == KeeperState::Connecting && !keeper.is_found
        };
        self.keepers.values().filter(is_available).count()
    }

    /// Returns true if a keeper from before this daemon has not reported its attempt yet.
    pub(super) fn has_unknown_attempts(&self) -> bool {
        self.keepers.values().any(|keeper| keeper.is_found && keeper.state == KeeperState::Connecting)
    }

    /// Removes a connection. Returns its keeper's number and state, and true if it existed before
    /// this daemon.
    pub(super) fn remove(&mut self, link: KeeperLink) -> Option<(u32, KeeperState, bool)> {
        self.keepers.remove(&link).map(|keeper| (keeper.number, keeper.state, keeper.is_found))
    }

    /// Reconnects to a running keeper.
    pub(super) fn reconnect(&mut self, data_directory: &DataDirectory, number: u32) {
        let sockets = data_directory.sockets_of(number);
        self.add(number, true, async move {
            tokio::time::sleep(crate::limits::KEEPER_RETRY).await;
            connect(sockets).await
        });
    }
}

/// Connects to the first socket that answers.
async fn connect(sockets: Vec<PathBuf>) -> io::Result<UnixStream> {
    let mut connected = Err(io::ErrorKind::NotFound.into());
    for socket in sockets {
        connected = UnixStream::connect(socket).await;
        if connected.is_ok() {
            break;
        }
    }
    connected
}

/// Transfers messages in both directions until one side ends.
async fn exchange_messages(
    link: KeeperLink,
    mut stream: UnixStream,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    let mut incoming = Vec::with_capacity(1 << 10);
    let mut has_hello = false;
    loop {
        tokio::select! {
            read = timeout_unless(has_hello, reader.read_buf(&mut incoming)) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(message) = take::<FromKeeper>(&mut incoming)? {
                    has_hello = true;
                    if events.send(Event::Keeper { link, message }).await.is_err() {
                        return Ok(());
                    }
                }
            }
            message = outgoing.recv() => match message {
                Some(bytes) => writer.write_all(&bytes).await?,
                None => return Ok(()),
            },
        }
    }
}

/// Applies a time limit to the first message.
async fn timeout_unless<T>(has_hello: bool, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    if has_hello {
        read.await
    } else {
        timeout(KEEPER_HELLO_WITHIN, read).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
