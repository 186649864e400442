//! The hidden `buildpool node-stacks PID…`: prints the stacks of Node.js processes.
//!
//! Node.js prints no stack at a signal. At SIGUSR1 it opens its inspector on a loopback port (Node.js
//! documentation, "Signal events"), also while JavaScript runs without a pause. The inspector pauses the
//! program and returns the frames (Chrome DevTools Protocol, domain `Debugger`). The threads of a process that waits
//! for them are reached through it (domain `NodeWorker`). All processes of the machine use the same port. So the
//! processes of a job are examined one after another, and a process that listens there is examined only if it is
//! the job's: the keeper of another job may examine its own at the same time.

use super::NODE;
use crate::platform;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

/// Name of the subcommand.
pub const SUBCOMMAND: &str = "node-stacks";
/// The port of the inspector (Node.js documentation, `--inspect-port`).
const PORT: u16 = 9229;
/// Limit on the time until the inspector listens.
const LISTENS_WITHIN: Duration = Duration::from_millis(1_500);
/// Limit on the time until a process that runs JavaScript is paused.
const PAUSES_WITHIN: Duration = Duration::from_millis(800);
/// Limit on the time for one answer of the inspector.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Limit on the time for the frames of the threads of a process.
const THREADS_WITHIN: Duration = Duration::from_millis(800);
/// Limit on the examined threads of a process.
const THREADS_MAX: usize = 4;
/// Limit on the printed frames of a process.
const FRAMES_MAX: usize = 40;
/// Limit on the scripts whose file is known.
const SCRIPTS_MAX: usize = 20_000;
/// Limit on the list of targets, in bytes.
const LIST_BYTES_MAX: usize = 64 << 10;

/// Separates the processes without a child from the others.
pub(super) const PARENTS: &str = "--";

/// Prints the stack of each process that runs JavaScript. Processes after the argument `--` are examined only if the
/// others have no stack. If no process runs JavaScript, prints the operation that the first process waits for. Returns the exit code.
pub fn node_stacks_main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut idle = None;
    let mut has_stack = false;
    for argument in arguments {
        if has_stack && argument == PARENTS {
            break;
        }
        let Some(pid) = argument.to_str().and_then(|pid| pid.parse().ok()) else { continue };
        match examine(pid) {
            Ok(Found::Stacks(stacks)) => {
                has_stack = true;
                stacks.iter().for_each(|frames| print(&format!("Stack of node (pid {pid}){frames}")));
            }
            Ok(Found::Idle(waits)) => {
                idle.get_or_insert(format!("node (pid {pid}) runs no JavaScript and waits for {waits}\n"));
            }
            // The process may have ended, or another program uses the port.
            Err(_) => {}
        }
    }
    idle.iter().filter(|_| !has_stack).for_each(|text| print(text));
    i32::from(!has_stack && idle.is_none())
}

fn print(text: &str) {
    // If the keeper no longer reads, the output has no reader.
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Activity of a process.
enum Found {
    /// The frames of its main thread, or of its other threads: one on each line.
    Stacks(Vec<String>),
    /// It runs no JavaScript. The resources that keep it alive.
    Idle(String),
}

fn examine(pid: i32) -> Result<Found, tungstenite::Error> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    open(pid, &address)?;
    let url = target(connect(&address)?)?;
    let (socket, _) = tungstenite::client(url, connect(&address)?).map_err(|error| match error {
        tungstenite::HandshakeError::Failure(error) => error,
        tungstenite::HandshakeError::Interrupted(_) => io::Error::from(io::ErrorKind::TimedOut).into(),
    })?;
    let mut inspector = Inspector { socket, last: 0, scripts: HashMap::new() };
    let found = inspect(&mut inspector, pid);
    // An open inspector lets every local user run code in the process. The next process needs its port.
    let ended = end(&mut inspector, &address);
    let found = found?;
    ended?;
    Ok(found)
}

/// Returns when the inspector of this process listens. While another process uses the port, waits for its end.
fn open(pid: i32, address: &SocketAddr) -> io::Result<()> {
    let deadline = Instant::now() + LISTENS_WITHIN;
    // A program can begin with an open inspector.
    while platform::listens(pid, PORT) != Some(true) {
        while TcpStream::connect_timeout(address, ANSWERS_WITHIN).is_ok() {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            thread::sleep(RETRY);
        }
        // The process may have ended since the keeper saw it, and its id may belong to another program, which SIGUSR1 would end.
        if !is_node(pid) {
            return Err(io::ErrorKind::NotFound.into());
        }
        kill(Pid::from_raw(pid), Signal::SIGUSR1).map_err(io::Error::from)?;
        drop(connect(address)?);
        if platform::listens(pid, PORT).is_none() {
            break;
        }
        // If the process of another job was faster, this one has given up and needs the signal again.
    }
    Ok(())
}

/// Pauses the process, and reads its stacks. The process continues when the inspector ends.
fn inspect(inspector: &mut Inspector, pid: i32) -> Result<Found, tungstenite::Error> {
    inspector.send("Debugger.enable", json!({}))?;
    inspector.send("Debugger.pause", json!({}))?;
    let paused = inspector.wait(PAUSES_WITHIN, |message| message["method"] == "Debugger.paused")?;
    let found = match paused {
        Some(paused) => Found::Stacks(vec![frames(&paused["params"]["callFrames"], &inspector.scripts)]),
        None => {
            inspector.send("Debugger.disable", json!({}))?;
            match threads(inspector)? {
                stacks if stacks.is_empty() => {
                    let waits = inspector.value("process.getActiveResourcesInfo().join(', ')")?;
                    Found::Idle(waits.as_str().unwrap_or("an event").to_owned())
                }
                stacks => Found::Stacks(stacks),
            }
        }
    };
    let is_asked = inspector.value("process.pid")? == pid;
    if is_asked { Ok(found) } else { Err(io::Error::from(io::ErrorKind::AddrInUse).into()) }
}

/// Pauses the other threads of the process (`worker_threads`), and returns the frames of those that run JavaScript.
fn threads(inspector: &mut Inspector) -> Result<Vec<String>, tungstenite::Error> {
    inspector.send("NodeWorker.enable", json!({"waitForDebuggerOnStart": false}))?;
    let (id, mut sessions) = (inspector.last, Vec::new());
    inspector.wait(ANSWERS_WITHIN, |message| {
        if message["method"] == "NodeWorker.attachedToWorker" {
            sessions.extend(message["params"]["sessionId"].as_str().map(str::to_owned));
        }
        message["id"] == id
    })?;
    sessions.truncate(THREADS_MAX);
    for session in &sessions {
        for method in ["Debugger.enable", "Debugger.pause"] {
            let message = json!({"id": 1, "method": method, "params": {}}).to_string();
            inspector
                .send("NodeWorker.sendMessageToWorker", json!({"sessionId": session, "message": message}))?;
        }
    }
    let mut scripts: HashMap<String, HashMap<String, Script>> = HashMap::new();
    let mut stacks = Vec::new();
    inspector.wait(THREADS_WITHIN, |message| {
        let session = message["params"]["sessionId"].as_str().unwrap_or_default();
        let text = message["params"]["message"].as_str().unwrap_or_default();
        let Ok(inner) = serde_json::from_str::<Value>(text) else { return sessions.is_empty() };
        let own = scripts.entry(session.to_owned()).or_default();
        note_script(&inner, own);
        if inner["method"] == "Debugger.paused" {
            stacks.push(frames(&inner["params"]["callFrames"], own));
        }
        stacks.len() >= sessions.len()
    })?;
    Ok(stacks)
}

/// Lets the process go on, and closes its inspector. SIGTERM must reach the program's own handlers.
fn end(inspector: &mut Inspector, address: &SocketAddr) -> Result<(), tungstenite::Error> {
    inspector.send("Debugger.resume", json!({}))?;
    inspector.send("Runtime.evaluate", json!({"expression": "process._debugEnd()"}))?;
    let deadline = Instant::now() + ANSWERS_WITHIN;
    while TcpStream::connect_timeout(address, ANSWERS_WITHIN).is_ok() && Instant::now() < deadline {
        thread::sleep(RETRY);
    }
    Ok(())
}

/// Returns true if the process is Node.js, which opens its inspector on SIGUSR1.
pub(super) fn is_node(pid: i32) -> bool {
    platform::program_name(pid).as_deref() == Some(NODE)
        && platform::catches(pid, Signal::SIGUSR1) != Some(false)
}

/// Connects as soon as the inspector listens.
fn connect(address: &SocketAddr) -> io::Result<TcpStream> {
    let deadline = Instant::now() + LISTENS_WITHIN;
    loop {
        match TcpStream::connect_timeout(address, ANSWERS_WITHIN) {
            Ok(stream) => {
                stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
                stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
                return Ok(stream);
            }
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Returns the WebSocket address of the inspector's only target.
fn target(mut stream: TcpStream) -> io::Result<String> {
    stream.write_all(b"GET /json/list HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    // The inspector keeps the connection open, so the list ends where it is complete.
    while text.len() < LIST_BYTES_MAX {
        let length = stream.read(&mut part)?;
        text.extend_from_slice(&part[..length]);
        let whole = String::from_utf8_lossy(&text);
        let list = whole.split_once("\r\n\r\n").map(|(_, body)| serde_json::from_str::<Value>(body));
        if let Some(Ok(list)) = list {
            let url = list[0]["webSocketDebuggerUrl"].as_str().map(str::to_owned);
            return url.ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
        if length == 0 {
            break;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Returns the end of a title, and one line for each frame of the project in the form of an error's stack.
fn frames(frames: &Value, scripts: &HashMap<String, Script>) -> String {
    let all = frames.as_array().map(Vec::as_slice).unwrap_or_default();
    let script = |frame: &Value| frame["location"]["scriptId"].as_str().and_then(|id| scripts.get(id));
    let is_own = |frame: &&Value| {
        script(frame).is_some_and(|script| {
            !script.file.starts_with("node:") && !script.file.contains("/node_modules/")
        })
    };
    let mut shown: Vec<&Value> = all.iter().filter(is_own).collect();
    if shown.is_empty() {
        shown = all.iter().collect();
    }
    shown.truncate(FRAMES_MAX);
    let mut text =
        match shown.iter().any(|frame| script(frame).is_some_and(|script| script.is_transformed)) {
            true => ", with lines of the transformed code:\n",
            false => ":\n",
        }
        .to_owned();
    for frame in shown {
        let number = |key: &str| frame["location"][key].as_u64().unwrap_or_default() + 1;
        let file = script(frame).map_or("", |script| &script.file);
        let place = format!("{file}:{}:{}", number("lineNumber"), number("columnNumber"));
        text.push_str(&match frame["functionName"].as_str().unwrap_or_default() {
            "" => format!("    at {place}\n"),
            name => format!("    at {name} ({place})\n"),
        });
    }
    text
}

/// A script that the program has loaded.
struct Script {
    /// Its path, or its name if it is not a file.
    file: String,
    /// Whether a tool has changed it, so that its lines are not those of the source.
    is_transformed: bool,
}

/// Adds the script that a message announces.
fn note_script(message: &Value, scripts: &mut HashMap<String, Script>) {
    let script = &message["params"];
    if let (Some(id), Some(url)) = (script["scriptId"].as_str(), script["url"].as_str())
        && scripts.len() < SCRIPTS_MAX
    {
        let file = url.strip_prefix("file://").unwrap_or(url).to_owned();
        let is_transformed = script["sourceMapURL"].as_str().is_some_and(|url| !url.is_empty());
        scripts.insert(id.to_owned(), Script { file, is_transformed });
    }
}

/// A connection to an inspector.
struct Inspector {
    socket: WebSocket<TcpStream>,
    /// Id of the last request.
    last: u64,
    /// Scripts by id. The frames of some versions have only the id.
    scripts: HashMap<String, Script>,
}

impl Inspector {
    fn send(&mut self, method: &str, params: Value) -> Result<(), tungstenite::Error> {
        self.last += 1;
        let text = json!({"id": self.last, "method": method, "params": params}).to_string();
        self.socket.send(Message::text(text))
    }

    /// Returns the first message that fits, or `None` after the limit.
    fn wait(
        &mut self,
        within: Duration,
        mut fits: impl FnMut(&Value) -> bool,
    ) -> Result<Option<Value>, tungstenite::Error> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
                    if fits(&message) {
                        return Ok(Some(message));
                    }
                    note_script(&message, &mut self.scripts);
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the value of an expression, null if the program does not answer.
    fn value(&mut self, expression: &str) -> Result<Value, tungstenite::Error> {
        self.send("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}))?;
        let id = self.last;
        let answer = self.wait(ANSWERS_WITHIN, |message| message["id"] == id)?;
        Ok(answer.map_or(Value::Null, |answer| answer["result"]["result"]["value"].clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Script, frames};
    use serde_json::json;

    #[test]
    fn frames_have_the_form_of_an_errors_stack() {
        let all = json!([
            {"functionName": "join", "location": {"scriptId": "7", "lineNumber": 0, "columnNumber": 36}},
            {"functionName": "", "location": {"scriptId": "8", "lineNumber": 1, "columnNumber": 44}},
            {"functionName": "run", "location": {"scriptId": "9", "lineNumber": 2, "columnNumber": 0}},
        ]);
        let scripts =
            [("7", "/w/path.js", false), ("8", "/w/path.test.js", true), ("9", "node:timers", false)];
        let scripts = scripts.map(|(id, file, is_transformed)| {
            (id.to_owned(), Script { file: file.to_owned(), is_transformed })
        });
        let scripts = scripts.into();
        let expected = ", with lines of the transformed code:\n    at join (/w/path.js:1:37)\n    at /w/path.test.js:2:45\n";
        assert_eq!(frames(&all, &scripts), expected);
        let internal = json!([{"functionName": "run", "location": {"scriptId": "9", "lineNumber": 2, "columnNumber": 0}}]);
        assert_eq!(frames(&internal, &scripts), ":\n    at run (node:timers:3:1)\n");
    }
}
