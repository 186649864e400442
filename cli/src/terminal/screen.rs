//! What a job writes, on stdout and stderr, and a line that says how it goes. A thread of its own writes, so that whoever
//! stops reading stops only that.

use buildpool_gateway::client::Output;
use buildpool_protocol::client_link::StreamChoice;
use buildpool_protocol::output::Stream;
use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// What waits to be written. Frames of output are at most 1 MiB each.
const WAITING: usize = 4;
/// Columns of the progress line: it must not wrap.
const COLUMNS: usize = 79;

/// Something to be written.
#[derive(Debug)]
pub(crate) enum Item {
    /// What a job wrote.
    Output(Output),
    /// Bytes for one of the two, as they are.
    Bytes(Stream, Bytes),
    /// The line at the bottom of the terminal.
    Progress(String),
    /// A line, or several, on stderr.
    Note(String),
}

/// The right to have one item written.
pub(crate) type Room = mpsc::OwnedPermit<Item>;

/// The writing thread.
#[derive(Debug)]
pub(crate) struct Screen {
    sender: mpsc::Sender<Item>,
    thread: JoinHandle<io::Result<()>>,
}

impl Screen {
    /// Begins to write. Of a job's output it writes what the choice says: interleaved, both streams go to stdout.
    ///
    /// # Errors
    /// When stdout or stderr is no open file.
    pub(crate) fn start(choice: StreamChoice) -> io::Result<Self> {
        let mut writer = Writer {
            stdout: Outlet::new(io::stdout().as_fd().try_clone_to_owned()?.into()),
            stderr: Outlet::new(io::stderr().as_fd().try_clone_to_owned()?.into()),
            choice,
            progress: String::new(),
            in_line: false,
        };
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("screen".into()).spawn(move || {
            while let Some(item) = receiver.blocking_recv() {
                writer.write(item)?;
            }
            writer.erase()
        })?;
        Ok(Self { sender, thread })
    }

    /// Takes an item as soon as there is room; false when nobody reads stdout any more. Dropping the future loses only
    /// what it was to write.
    pub(crate) async fn write(&self, item: Item) -> bool {
        self.sender.send(item).await.is_ok()
    }

    /// Room for one item; fails when nobody reads stdout any more.
    pub(crate) fn room(&self) -> impl Future<Output = Result<Room, mpsc::error::SendError<()>>> + use<> {
        self.sender.clone().reserve_owned()
    }

    /// Writes what is still waiting.
    ///
    /// # Errors
    /// Why stdout could not be written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.sender);
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        match joined {
            Ok(Ok(written)) => written,
            Ok(Err(_)) | Err(_) => Err(io::Error::other("the writing thread ended early")),
        }
    }
}

struct Writer {
    stdout: Outlet,
    stderr: Outlet,
    choice: StreamChoice,
    /// The progress line that stands on the terminal; empty when there is none.
    progress: String,
    /// The terminal's last line has no end yet.
    in_line: bool,
}

struct Outlet {
    file: File,
    is_terminal: bool,
}

impl Outlet {
    fn new(file: File) -> Self {
        let is_terminal = file.is_terminal();
        Self { file, is_terminal }
    }
}

impl Writer {
    fn write(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Output(output) => output.chunks.iter().try_for_each(|chunk| {
                let stream = chunk.header.stream;
                if self.choice.wants(stream) { self.bytes(self.target(stream), chunk.data()) } else { Ok(()) }
            }),
            Item::Bytes(stream, bytes) => self.bytes(stream, &bytes),
            Item::Progress(text) => self.draw(text),
            Item::Note(text) => {
                let line_end = if self.in_line { "\n" } else { "" };
                self.bytes(Stream::Stderr, format!("{line_end}{text}\n").as_bytes())
            }
        }
    }

    fn target(&self, stream: Stream) -> Stream {
        match self.choice {
            StreamChoice::Interleaved => Stream::Stdout,
            StreamChoice::Stdout | StreamChoice::Stderr | StreamChoice::Both => stream,
        }
    }

    fn bytes(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let Some(last) = bytes.last() else { return Ok(()) };
        let outlet = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        if outlet.is_terminal {
            self.in_line = *last != b'\n';
            self.erase()?;
        }
        match stream {
            Stream::Stdout => write_all(&mut self.stdout.file, bytes),
            Stream::Stderr => {
                // Without stderr, stdout is still worth writing.
                let _ = write_all(&mut self.stderr.file, bytes);
                Ok(())
            }
        }
    }

    fn draw(&mut self, text: String) -> io::Result<()> {
        if !self.stderr.is_terminal || self.in_line || self.progress == text {
            return Ok(());
        }
        let shown: String = text.chars().take(COLUMNS).collect();
        self.progress = text;
        write_all(&mut self.stderr.file, format!("\r\x1b[K{shown}").as_bytes())
    }

    fn erase(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.progress).is_empty() {
            return Ok(());
        }
        write_all(&mut self.stderr.file, b"\r\x1b[K")
    }
}

/// Writes all, also to a file that somebody has made non-blocking.
fn write_all(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut wanted = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut wanted, PollTimeout::NONE) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_all;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_full_non_blocking_pipe_is_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut file = File::from(OwnedFd::from(writer));
        let flags = nix::fcntl::OFlag::O_NONBLOCK;
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        let read = std::thread::spawn(move || {
            let (mut reader, mut read) = (reader, Vec::new());
            reader.read_to_end(&mut read).unwrap();
            read
        });
        write_all(&mut file, &bytes).unwrap();
        drop(file);
        assert!(read.join().unwrap() == bytes);
    }
}
