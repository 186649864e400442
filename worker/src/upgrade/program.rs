//! Runs a new program for a short time, with limits on time and output.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};

/// Limit on the kept end of each stream, in bytes.
const KEPT_BYTES: usize = 4 << 10;
/// Limit on starts of a program that is busy: a process that was forked while the file was written may still have it open
/// (`ETXTBSY`, execve(2)).
const STARTS_MAX: u32 = 40;
/// Pause between two starts.
const START_PAUSE: Duration = Duration::from_millis(50);
/// Limit on the wait for output after the end of the program: a child may hold the pipes.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Limit on the quoted last line of a program, in bytes.
const LINE_BYTES_MAX: usize = 512;

/// The end of a program.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status, or `None` if it was killed after its time.
    pub status: Option<ExitStatus>,
    /// The end of its standard output.
    pub out: String,
    /// The end of its standard error.
    pub err: String,
}

impl Ran {
    /// Returns how it ended, with its last line, for users.
    pub fn story(&self, within: Duration) -> String {
        let end = match self.status {
            None => format!("was ended after {} s", within.as_secs()),
            Some(status) => match (status.code(), status.signal()) {
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

/// Runs a program with arguments in a process group of its own. The group is killed after `within`, and if the returned
/// future is dropped. The program's standard input is a pipe that ends with this process.
///
/// # Errors
/// Fails if the program does not start.
pub async fn run(
    program: &Path,
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
    within: Duration,
) -> io::Result<Ran> {
    let until = Instant::now() + within;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = Group(start(&mut command).await?);
    let (out, err) = (group.0.stdout.take(), group.0.stderr.take());
    let _open = group.0.stdin.take();
    let (mut out_end, mut err_end) = (Vec::new(), Vec::new());
    let mut reading =
        Box::pin(async { tokio::join!(keep_end(out, &mut out_end), keep_end(err, &mut err_end)) });
    let mut is_read = false;
    let status = timeout_at(until, async {
        loop {
            tokio::select! {
                status = group.0.wait() => return status,
                _ = &mut reading, if !is_read => is_read = true,
            }
        }
    });
    let status = status.await.ok().transpose()?;
    group.kill();
    if !is_read {
        // A process that left the group may hold the pipes. The output until now is enough.
        let _ended = timeout_at(Instant::now() + LAST_OUTPUT, &mut reading).await;
    }
    drop(reading);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran { status, out: text(&out_end), err: text(&err_end) })
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

/// Reads a stream to its end, and keeps its last bytes.
async fn keep_end(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut buffer = [0; KEPT_BYTES];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..excess);
    }
}

/// A process group, killed on drop.
struct Group(Child);

impl Group {
    fn kill(&mut self) {
        // The id stays reserved until the child is reaped. Afterwards only its children can be in the group.
        let leader = self.0.id().and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader {
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
    use super::run;
    use std::path::Path;
    use std::time::Duration;

    async fn shell(text: &str, within: Duration) -> super::Ran {
        run(Path::new("/bin/sh"), ["-c".into(), text.into()], within).await.expect("a shell")
    }

    #[tokio::test]
    async fn a_program_tells_how_it_ended() {
        let minute = Duration::from_secs(60);
        let ran = shell("echo out; echo err >&2; exit 3", minute).await;
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("out\n", "err\n"));
        assert_eq!(ran.story(minute), "exited with 3; its last line: out");
        let ran = shell("kill -9 $$", minute).await;
        assert_eq!(ran.story(minute), "was ended by signal 9, without output");
        assert!(run(Path::new("/nowhere"), [], minute).await.is_err());
    }

    #[tokio::test]
    async fn output_is_limited_and_its_end_is_kept() {
        let ran = shell("yes x | head -c 1000000; echo last", Duration::from_secs(60)).await;
        assert!(ran.out.len() <= super::KEPT_BYTES && ran.out.ends_with("last\n"), "{}", ran.out.len());
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_its_children() {
        let place = tempfile::tempdir().expect("a directory");
        let pid = place.path().join("pid");
        let text = format!("sleep 1000 & echo $! > {}; echo begun; wait", pid.display());
        let within = Duration::from_secs(2);
        let ran = shell(&text, within).await;
        assert_eq!(ran.story(within), "was ended after 2 s; its last line: begun");
        let pid: i32 = std::fs::read_to_string(pid).expect("written").trim().parse().expect("a pid");
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        while crate::platform::process(pid).is_some_and(|process| !process.zombie) {
            assert!(tokio::time::Instant::now() < until, "{pid} still runs");
            tokio::task::yield_now().await;
        }
    }
}
