//! A command in a pseudo terminal, and the screen that it draws.

use crate::{PATIENCE, wait_until};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A command whose standard streams are one terminal. The command ends on drop.
pub struct Terminal {
    child: Child,
    master: File,
    /// Kept open, so that the last output stays readable after the command ended.
    slave: OwnedFd,
    shown: Arc<Mutex<Shown>>,
}

/// Output of the command.
struct Shown {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a command in a terminal of this size.
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let pair = openpty(None, None).unwrap();
        // Processes that other tests start must not inherit the terminal.
        for end in [&pair.master, &pair.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        tcsetwinsize(&pair.master, size(columns, rows)).unwrap();
        let stream = || Stdio::from(pair.slave.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm-256color");
        let child = command.spawn().unwrap();
        // The command holds copies of the terminal's end.
        drop(command);
        let master = File::from(pair.master);
        let shown = Arc::new(Mutex::new(Shown {
            screen: vt100::Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
        }));
        // The thread ends when the last copy of the other end is closed.
        std::thread::spawn({
            let (mut master, shown) = (master.try_clone().unwrap(), Arc::clone(&shown));
            move || {
                let mut buffer = [0; 4096];
                // An error means that the other end is closed.
                while let Ok(count @ 1..) = master.read(&mut buffer) {
                    let mut shown = shown.lock().unwrap();
                    shown.screen.process(&buffer[..count]);
                    shown.bytes.extend_from_slice(&buffer[..count]);
                }
            }
        });
        Self { child, master, slave: pair.slave, shown }
    }

    /// Returns the text on the screen.
    pub fn screen(&self) -> String {
        self.shown.lock().unwrap().screen.screen().contents()
    }

    /// Returns true if the alternate screen is shown, as full-screen programs do.
    pub fn is_alternate(&self) -> bool {
        self.shown.lock().unwrap().screen.screen().alternate_screen()
    }

    /// Returns true if the cursor is hidden.
    pub fn hides_cursor(&self) -> bool {
        self.shown.lock().unwrap().screen.screen().hide_cursor()
    }

    /// Returns true if the terminal prints typed characters, as it does by default.
    pub fn echoes(&self) -> bool {
        let flags = rustix::termios::tcgetattr(&self.slave).unwrap().local_modes;
        flags.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Returns all bytes that the command wrote so far, as text.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap().bytes).into_owned()
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.shown.lock().unwrap().screen.screen_mut().set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.master, size(columns, rows)).unwrap();
        self.signal(Signal::SIGWINCH);
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits until the screen matches.
    ///
    /// # Panics
    /// If it does not in time. The message contains the screen.
    pub fn wait_until(&self, event: &str, condition: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(&self.screen()) {
            assert!(Instant::now() < deadline, "waited in vain: {event}:\n{}", self.screen());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Waits until the screen contains a text.
    ///
    /// # Panics
    /// As [`Terminal::wait_until`].
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits for the end of the command. Its last output may arrive later.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the command ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

const fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
