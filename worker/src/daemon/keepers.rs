//! The daemon's side of its keepers: started, found again, spoken with.

use super::event::Event;
use super::home::Home;
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

/// Names one connection to a keeper; a number of a keeper may come again, this does not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct KeeperLink(u64);

/// What a keeper does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// It has not said hello.
    Silent,
    /// It waits for an attempt.
    Idle,
    /// It keeps one.
    Keeps(AttemptId),
}

struct Keeper {
    number: u32,
    work: Work,
    /// It was there before this daemon.
    is_found: bool,
    /// Another build started it, and it understands other things.
    is_foreign: bool,
    messages: mpsc::Sender<Vec<u8>>,
}

/// All keepers that this daemon knows.
pub(super) struct Keepers {
    command: Vec<OsString>,
    events: mpsc::Sender<Event>,
    keepers: BTreeMap<KeeperLink, Keeper>,
    next_link: u64,
    tasks: JoinSet<()>,
}

impl Keepers {
    pub(super) fn new(command: Vec<OsString>, events: mpsc::Sender<Event>) -> Self {
        Self { command, events, keepers: BTreeMap::new(), next_link: 0, tasks: JoinSet::new() }
    }

    /// Connects to every keeper that is alive. Those that do not answer stay [`Work::Silent`].
    pub(super) fn find(&mut self, home: &Home) -> io::Result<()> {
        for entry in fs::read_dir(&home.places.directory)? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(".lock")).and_then(|n| n.parse().ok());
            let Some(number) = number else { continue };
            if home.places.is_alive(number)? {
                let sockets = home.sockets_of(number);
                self.add(number, true, connect(sockets));
            }
        }
        Ok(())
    }

    /// Starts one more.
    pub(super) fn start(&mut self, home: &Home) -> io::Result<()> {
        let number = self.free_number(home)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(home.keeper_log())?;
        let (program, first) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        // When the handle is dropped, the runtime takes the status of a keeper that ends before the daemon.
        Command::new(program)
            .args(first)
            .args(crate::keeper::arguments(number, &home.places))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let stream = UnixStream::from_std(ours)?;
        self.add(number, false, async move { Ok(stream) });
        Ok(())
    }

    fn free_number(&self, home: &Home) -> io::Result<u32> {
        for number in 0..=u32::MAX {
            let is_ours = self.keepers.values().any(|keeper| keeper.number == number);
            if !is_ours && !home.places.is_alive(number)? {
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
        self.keepers
            .insert(link, Keeper { number, work: Work::Silent, is_found, is_foreign: false, messages });
        let events = self.events.clone();
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            if let Ok(stream) = connect.await {
                // Whatever ended the conversation, the lock tells whether the keeper lives.
                let _ = converse(link, stream, outgoing, &events).await;
            }
            let _ = events.send(Event::KeeperGone { link }).await;
        });
    }

    pub(super) fn say(&self, link: KeeperLink, message: &ToKeeper) -> io::Result<()> {
        let keeper = self.keepers.get(&link).ok_or(io::ErrorKind::NotConnected)?;
        keeper.messages.try_send(encode(message)?).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    pub(super) fn set_work(&mut self, link: KeeperLink, work: Work) {
        if let Some(keeper) = self.keepers.get_mut(&link) {
            keeper.work = work;
        }
    }

    /// What it said it understands.
    pub(super) fn greeted(&mut self, link: KeeperLink, generation: u32) {
        if let Some(keeper) = self.keepers.get_mut(&link) {
            keeper.is_foreign = keeper.is_found && generation != GENERATION;
        }
    }

    /// It waits for an attempt. One of another build might pass over what keeps a job in its place: the connection is let go,
    /// and without one a keeper that has nothing to do ends.
    pub(super) fn is_free(&mut self, link: KeeperLink) {
        if self.keepers.get(&link).is_some_and(|keeper| keeper.is_foreign) {
            self.keepers.remove(&link);
        } else {
            self.set_work(link, Work::Idle);
        }
    }

    pub(super) fn of_attempt(&self, attempt: AttemptId) -> Option<KeeperLink> {
        self.keepers.iter().find(|(_, keeper)| keeper.work == Work::Keeps(attempt)).map(|(link, _)| *link)
    }

    pub(super) fn idle(&self) -> Option<KeeperLink> {
        self.keepers.iter().find(|(_, keeper)| keeper.work == Work::Idle).map(|(link, _)| *link)
    }

    pub(super) fn busy(&self) -> impl Iterator<Item = (KeeperLink, AttemptId)> + '_ {
        self.keepers.iter().filter_map(|(link, keeper)| match keeper.work {
            Work::Keeps(attempt) => Some((*link, attempt)),
            Work::Silent | Work::Idle => None,
        })
    }

    /// Keepers that could take an attempt, now or soon.
    pub(super) fn count_available(&self) -> usize {
        let is_available =
            |keeper: &&Keeper| keeper.work == Work::Idle || keeper.work == Work::Silent && !keeper.is_found;
        self.keepers.values().filter(is_available).count()
    }

    /// Keepers that were there before this daemon and have not said what they keep.
    pub(super) fn are_some_unknown(&self) -> bool {
        self.keepers.values().any(|keeper| keeper.is_found && keeper.work == Work::Silent)
    }

    /// Forgets a connection; its keeper's number, what it did, and whether it was found.
    pub(super) fn remove(&mut self, link: KeeperLink) -> Option<(u32, Work, bool)> {
        self.keepers.remove(&link).map(|keeper| (keeper.number, keeper.work, keeper.is_found))
    }

    /// Connects once more to a keeper that is alive.
    pub(super) fn reconnect(&mut self, home: &Home, number: u32) {
        let sockets = home.sockets_of(number);
        self.add(number, true, async move {
            tokio::time::sleep(crate::limits::KEEPER_RETRY).await;
            connect(sockets).await
        });
    }
}

/// The first that answers.
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

/// Carries messages both ways until one side is gone.
async fn converse(
    link: KeeperLink,
    mut stream: UnixStream,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    let mut incoming = Vec::with_capacity(1 << 10);
    let mut has_greeted = false;
    loop {
        tokio::select! {
            read = timeout_unless(has_greeted, reader.read_buf(&mut incoming)) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(message) = take::<FromKeeper>(&mut incoming)? {
                    has_greeted = true;
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

/// The first word must come in time.
async fn timeout_unless<T>(has_greeted: bool, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    if has_greeted {
        read.await
    } else {
        timeout(KEEPER_HELLO_WITHIN, read).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
