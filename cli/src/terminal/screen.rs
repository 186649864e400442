//! Writes a job's output to stdout and stderr, and the progress line. A separate thread writes, so
//! that a blocked reader blocks only that thread.

use crate::terminal;
use crate::terminal::job_text::JobText;
use buildpool_client::Output;
use buildpool_protocol::client_link::StreamChoice;
use buildpool_protocol::output::Stream;
use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use tokio::sync::{mpsc, oneshot};

/// Capacity of the queue. A frame of output has at most 1 MiB.
const WAITING: usize = 4;
/// Width of the progress line on a terminal of unknown width, in columns. A longer line would wrap.
const COLUMNS: usize = 80;

/// An item to write.
#[derive(Debug)]
pub(crate) enum Item {
    /// Output of a job.
    Output(Output),
    /// Output of a job for stdout or stderr.
    Bytes(Stream, Bytes),
    /// The progress line at the bottom of the terminal.
    Progress(String),
    /// One or more lines on stderr.
    Note(String),
}

/// Permit to queue one item.
pub(crate) type Room = mpsc::OwnedPermit<Item>;

/// Handle of the writing thread.
#[derive(Debug)]
pub(crate) struct Screen {
    sender: mpsc::Sender<Item>,
    ended: oneshot::Receiver<io::Result<()>>,
}

impl Screen {
    /// Starts the thread. `choice` selects the streams of a job's output; if interleaved, both go
    /// to stdout.
    ///
    /// # Errors
    /// If stdout or stderr is not an open file.
    pub(crate) fn start(choice: StreamChoice) -> io::Result<Self> {
        let mut writer = Writer {
            stdout: Outlet::new(io::stdout().as_fd().try_clone_to_owned()?.into()),
            stderr: Outlet::new(io::stderr().as_fd().try_clone_to_owned()?.into()),
            choice,
            progress: String::new(),
            in_line: false,
        };
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("screen".into()).spawn(move || {
            let mut write = || {
                while let Some(item) = receiver.blocking_recv() {
                    writer.write(item)?;
                }
                writer.end()
            };
            // The receiver is gone after a second Ctrl-C.
            let _left = end.send(write());
        })?;
        Ok(Self { sender, ended })
    }

    /// Queues an item, and waits for room. Returns false if stdout is closed. Dropping the future
    /// loses only this item.
    pub(crate) async fn write(&self, item: Item) -> bool {
        self.sender.send(item).await.is_ok()
    }

    /// Reserves room for one item. Fails if stdout is closed.
    pub(crate) fn room(&self) -> impl Future<Output = Result<Room, mpsc::error::SendError<()>>> + use<> {
        self.sender.clone().reserve_owned()
    }

    /// Writes the queued items and ends the thread.
    ///
    /// # Errors
    /// The error of writing to stdout.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.sender);
        self.ended.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread ended early")))
    }
}

struct Writer {
    stdout: Outlet,
    stderr: Outlet,
    choice: StreamChoice,
    /// The progress line on the terminal; empty if there is no such line.
    progress: String,
    /// Whether the terminal's last line is incomplete.
    in_line: bool,
}

struct Outlet {
    file: File,
    is_terminal: bool,
    /// The job's output on a terminal.
    text: JobText,
}

impl Outlet {
    fn new(file: File) -> Self {
        let is_terminal = file.is_terminal();
        Self { file, is_terminal, text: JobText::default() }
    }
}

impl Writer {
    fn write(&mut self, item: Item) -> io::Result<()> {
        match item {
            Item::Output(output) => output.chunks.iter().try_for_each(|chunk| {
                let stream = chunk.header.stream;
                if self.choice.wants(stream) {
                    self.output(self.target(stream), chunk.data())
                } else {
                    Ok(())
                }
            }),
            Item::Bytes(stream, bytes) => self.output(stream, &bytes),
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

    fn outlet(&mut self, stream: Stream) -> &mut Outlet {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Writes output of a job: unchanged, except on a terminal.
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let outlet = self.outlet(stream);
        if !outlet.is_terminal {
            return self.bytes(stream, bytes);
        }
        let shown = outlet.text.push(bytes);
        self.bytes(stream, &shown)
    }

    /// Writes the end of the output.
    fn end(&mut self) -> io::Result<()> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = self.outlet(stream).text.finish();
            self.bytes(stream, &rest)?;
        }
        self.erase()
    }

    fn bytes(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let Some(last) = bytes.last() else { return Ok(()) };
        if self.outlet(stream).is_terminal {
            self.in_line = *last != b'\n';
            self.erase()?;
        }
        match stream {
            Stream::Stdout => write_all(&mut self.stdout.file, bytes),
            Stream::Stderr => match write_all(&mut self.stderr.file, bytes) {
                Err(error) if has_no_reader(&self.stdout.file) => Err(error),
                // If only stderr is closed, stdout is still written.
                Ok(()) | Err(_) => Ok(()),
            },
        }
    }

    fn draw(&mut self, text: String) -> io::Result<()> {
        if !self.stderr.is_terminal || self.in_line || self.progress == text {
            return Ok(());
        }
        let columns = terminal::columns(&self.stderr.file).unwrap_or(COLUMNS);
        // In the last column, some terminals begin another line.
        let shown = terminal::cut(&text, columns - 1);
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

/// Returns true for a pipe that all readers have closed, as of `2>&1 | head`.
fn has_no_reader(file: &File) -> bool {
    let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    let is_closed = |polled: &[PollFd<'_>; 1]| {
        polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
    };
    poll(&mut polled, PollTimeout::ZERO).is_ok() && is_closed(&polled)
}

/// Writes all bytes, also to a non-blocking file.
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
