//! Runs a new program for a short time, with limits on time and output.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Limit on the kept end of each stream, in bytes.
const KEPT_BYTES: usize = 4 << 10;
/// Limit on starts of a program that is busy: a process that was forked while the file was written may still have it open
/// (`ETXTBSY`, execve(2)).
const STARTS_MAX: u32 = 40;
/// Pause between two starts.
const START_PAUSE: Duration = Duration::from_millis(50);
/// Limit on the wait for output after the end of the program: a child may hold the pipes.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Limit on the wait for the end of a killed program: the kernel may be busy with its disk.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// Limit on the quoted last line of a program, in bytes.
const LINE_BYTES_MAX: usize = 512;

/// Limits on a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Time until it must have exited, or printed its line.
    pub within: Duration,
    /// A line on its standard output, and the time to exit after it.
    pub line: Option<(&'a str, Duration)>,
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It exited, or a signal ended it.
    Exited(ExitStatus),
    /// It was killed after its time.
    TimedOut,
    /// It was killed because the caller asked for its end.
    Stopped,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// True if it printed the line of its limits.
    pub has_line: bool,
    /// The end of its standard output.
    pub out: String,
    /// The end of its standard error.
    pub err: String,
}

impl Ran {
    /// Returns true if it exited with 0.
    pub fn is_success(&self) -> bool {
        matches!(self.end, End::Exited(status) if status.success())
    }

    /// Returns how it ended, with its last line, for users.
    pub fn story(&self, within: Duration) -> String {
        let end = match self.end {
            End::TimedOut => format!("was ended after {} s", within.as_secs()),
            End::Stopped => "was ended".to_owned(),
            End::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with {code}"),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
            },
        };
        let line = self.err.lines().chain(self.out.lines()).map(str::trim).rfind(|line| !line.is_empty());
        match line {
            Some(line) => {
                let line = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
                format!("{end}; its last line: {}", line.escape_debug())
            }
            None => format!("{end}, without output"),
        }
    }
}

/// Runs a program with arguments in a process group of its own, and waits until it has ended. The group is killed when the
/// program exits, after the time of its limits, when `stop` completes, and if the returned future is dropped. The program's
/// standard input is a pipe that ends with this process.
///
/// # Errors
/// Fails if the program does not start.
pub async fn run(
    program: &Path,
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
    limits: Limits<'_>,
    stop: impl Future<Output = ()>,
) -> io::Result<Ran> {
    let mut until = Instant::now() + limits.within;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Before the start, so that no end is missed.
    let mut ends = signal(SignalKind::child())?;
    let mut group = Group(start(&mut command).await?);
    let (out, err) = (group.0.stdout.take(), group.0.stderr.take());
    let _open = group.0.stdin.take();
    let (mut out_end, mut err_end) = (Vec::new(), Vec::new());
    let (line, mut lines) = watch::channel(false);
    let awaited = limits.line.map(|(text, _)| (text, line));
    let mut reading = Box::pin(async {
        tokio::join!(keep_end(out, &mut out_end, awaited), keep_end(err, &mut err_end, None))
    });
    let (mut is_read, mut has_line) = (false, false);
    let mut stop = pin!(stop);
    let ended = loop {
        tokio::select! {
            exited = group.exited(&mut ends) => {
                exited?;
                break None;
            }
            _ = &mut reading, if !is_read => is_read = true,
            Ok(()) = lines.changed(), if !has_line => {
                has_line = true;
                until = Instant::now() + limits.line.map(|(_, exit)| exit).unwrap_or_default();
            }
            () = &mut stop => break Some(End::Stopped),
            () = sleep_until(until) => break Some(End::TimedOut),
        }
    };
    // A program that has exited is not reaped yet, so that its id still names this group.
    group.kill();
    // Its files are closed and their locks are free only after its end.
    let end = match (ended, timeout_at(Instant::now() + KILLED_WITHIN, group.0.wait()).await) {
        (None, Ok(status)) => End::Exited(status?),
        (Some(end), Ok(Ok(_))) => end,
        (Some(end), Ok(Err(error))) => {
            tracing::warn!("a killed program can't be awaited: {error}");
            end
        }
        (ended, Err(_)) => {
            tracing::warn!("a killed program has not ended after {} s", KILLED_WITHIN.as_secs());
            ended.unwrap_or(End::TimedOut)
        }
    };
    if !is_read {
        // A process that left the group may hold the pipes. The output until now is enough.
        let _ended = timeout_at(Instant::now() + LAST_OUTPUT, &mut reading).await;
    }
    drop(reading);
    let has_line = *lines.borrow();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran { end, has_line, out: text(&out_end), err: text(&err_end) })
}

async fn start(command: &mut Command) -> io::Result<Child> {
    let mut starts = 1;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && starts < STARTS_MAX => {
                starts += 1;
                sleep(START_PAUSE).await;
            }
            started => return started,
        }
    }
}

/// Reads a stream to its end, and keeps its last bytes. Sends `true` after the line, if one is given.
async fn keep_end(
    stream: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    line: Option<(&str, watch::Sender<bool>)>,
) {
    let Some(mut stream) = stream else { return };
    let mut buffer = [0; KEPT_BYTES];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count]);
        if let Some((text, seen)) = &line
            && kept
                .split_inclusive(|byte| *byte == b'\n')
                .any(|read| read.strip_suffix(b"\n") == Some(text.as_bytes()))
        {
            seen.send_if_modified(|seen| !std::mem::replace(seen, true));
        }
        let excess = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..excess);
    }
}

/// A process group, killed on drop.
struct Group(Child);

impl Group {
    /// Returns the id of the program and of its group. `None` after the program was reaped: then another process may get it.
    fn leader(&self) -> Option<i32> {
        self.0.id().and_then(|id| i32::try_from(id).ok())
    }

    /// Returns when the program has exited. Does not reap it.
    async fn exited(&self, ends: &mut tokio::signal::unix::Signal) -> io::Result<()> {
        let Some(leader) = self.leader().and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(leader), options)?.is_none() {
            ends.recv().await;
        }
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(leader) = self.leader() {
            // An error means that the group has ended.
            let _ended = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Limits, Ran, run};
    use std::future::pending;
    use std::path::Path;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn limited(text: &str, limits: Limits<'_>) -> Ran {
        run(Path::new("/bin/sh"), ["-c".into(), text.into()], limits, pending()).await.expect("a shell")
    }

    async fn shell(text: &str, within: Duration) -> Ran {
        limited(text, Limits { within, line: None }).await
    }

    /// Waits until a process has ended. One that waits for its parent counts as ended.
    async fn wait_for_end(pid: i32) {
        let until = tokio::time::Instant::now() + MINUTE;
        while crate::platform::process(pid).is_some_and(|process| !process.zombie) {
            assert!(tokio::time::Instant::now() < until, "{pid} still runs");
            tokio::task::yield_now().await;
        }
    }

    /// Returns the process ids in a file.
    fn read_pids(path: &Path) -> Vec<i32> {
        let text = std::fs::read_to_string(path).expect("written");
        text.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect()
    }

    #[tokio::test]
    async fn a_program_tells_how_it_ended() {
        let ran = shell("echo out; echo err >&2; exit 3", MINUTE).await;
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("out\n", "err\n"));
        assert_eq!(ran.story(MINUTE), "exited with 3; its last line: out");
        let ran = shell("kill -9 $$", MINUTE).await;
        assert_eq!(ran.story(MINUTE), "was ended by signal 9, without output");
        let limits = Limits { within: MINUTE, line: None };
        assert!(run(Path::new("/nowhere"), [], limits, pending()).await.is_err());
    }

    #[tokio::test]
    async fn output_is_limited_and_its_end_is_kept() {
        let ran = shell("yes x | head -c 1000000; echo last", MINUTE).await;
        assert!(ran.out.len() <= super::KEPT_BYTES && ran.out.ends_with("last\n"), "{}", ran.out.len());
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_its_children() {
        let place = tempfile::tempdir().expect("a directory");
        let pids = place.path().join("pids");
        let text = format!("sleep 1000 & echo $! $$ > {}; echo begun; wait", pids.display());
        let within = Duration::from_secs(2);
        let ran = shell(&text, within).await;
        assert_eq!(ran.story(within), "was ended after 2 s; its last line: begun");
        let pids = read_pids(&pids);
        assert!(crate::platform::process(pids[1]).is_none(), "it was awaited");
        wait_for_end(pids[0]).await;
    }

    #[tokio::test]
    async fn a_program_that_exits_leaves_no_children() {
        let place = tempfile::tempdir().expect("a directory");
        let pid = place.path().join("pid");
        let text = format!("sleep 1000 <&- >&- 2>&- & echo $! > {}; exit 3", pid.display());
        let ran = shell(&text, MINUTE).await;
        assert_eq!(ran.story(MINUTE), "exited with 3, without output");
        wait_for_end(read_pids(&pid)[0]).await;
    }

    #[tokio::test]
    async fn after_its_line_a_program_has_another_time_to_exit() {
        let second = Duration::from_secs(1);
        let ready = |within, exit| Limits { within, line: Some(("ready", exit)) };
        let ran = limited("echo ready; exit 0", ready(MINUTE, MINUTE)).await;
        assert!(ran.has_line && ran.is_success(), "{ran:?}");
        let began = tokio::time::Instant::now();
        let ran = limited("echo ready; exec sleep 1000", ready(MINUTE, second)).await;
        assert_eq!((ran.has_line, ran.end), (true, End::TimedOut));
        assert!(began.elapsed() < MINUTE, "{:?}", began.elapsed());
        let ran = limited("echo not ready; exec sleep 1000", ready(second, MINUTE)).await;
        assert_eq!((ran.has_line, ran.end), (false, End::TimedOut));
    }

    #[tokio::test]
    async fn a_stopped_program_has_ended() {
        let place = tempfile::tempdir().expect("a directory");
        let pid = place.path().join("pid");
        // It closes its output, so the end of the output does not show the end of the process.
        let text =
            format!("exec >&- 2>&-; echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pid.display());
        let written = async {
            while !pid.exists() {
                tokio::task::yield_now().await;
            }
        };
        let limits = Limits { within: MINUTE, line: None };
        let ran =
            run(Path::new("/bin/sh"), ["-c".into(), text.into()], limits, written).await.expect("a shell");
        assert_eq!(ran.end, End::Stopped);
        assert!(crate::platform::process(read_pids(&pid)[0]).is_none(), "it was awaited");
    }
}
