//! Runs a tool of the system with a time limit: the debugger, `xcresulttool`.

use buildpool_objects::programs;
use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command and returns at most `bytes` bytes of its standard output. Returns the reason as
/// text if the command fails or exceeds the time limit.
pub(crate) fn output(command: &[OsString], time: Duration, bytes: usize) -> Result<Vec<u8>, String> {
    let (program, arguments) = command.split_first().ok_or("no program was named")?;
    let name = program.to_string_lossy();
    let path = program.to_str().and_then(programs::find);
    let missing = || {
        format!(
            "{name} cannot be started: it is not in a directory of PATH, or jobs can write that directory"
        )
    };
    let mut child = Command::new(path.ok_or_else(missing)?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{name} cannot be started: {error}"))?;
    let (send, receive) = mpsc::sync_channel(1);
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut content = Vec::new();
            let read = stdout.take(bytes as u64).read_to_end(&mut content);
            // The receiver is gone if the time limit was exceeded.
            let _ = send.send(read.map(|_| content));
        });
    }
    let deadline = Instant::now() + time;
    let content = receive.recv_timeout(time);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if content.is_ok() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5))
            }
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    match (content, status) {
        (Ok(Ok(content)), Some(status)) if status.success() => Ok(content),
        (Ok(Ok(_)), Some(status)) => Err(format!("{name} ended with {status}")),
        (Ok(Err(error)), _) => Err(format!("output of {name} cannot be read: {error}")),
        (Ok(Ok(_)) | Err(_), _) => Err(format!("{name} took longer than {} s", time.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn output_is_bounded_in_time_and_size() {
        let long = Duration::from_secs(30);
        assert_eq!(output(&sh("echo hello"), long, 100), Ok(b"hello\n".to_vec()));
        assert!(output(&sh("exit 3"), long, 100).expect_err("it failed").contains("3"));
        let started = Instant::now();
        assert!(
            output(&sh("exec sleep 600"), Duration::from_millis(50), 100)
                .expect_err("too long")
                .contains("longer")
        );
        assert!(started.elapsed() < long);
        assert!(
            output(&["/no/such/tool".into()], long, 100).expect_err("none").contains("cannot be started")
        );
    }
}
