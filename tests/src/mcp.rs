//! Minimal MCP clients, so that tests see the raw messages.

use crate::{PATIENCE, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";
/// The last revision with a handshake.
pub const LEGACY: &str = "2025-11-25";

/// Returns the client metadata of a request in the revision without a handshake.
pub fn meta(client: &str, capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A server on standard input and output, with the client end. It is killed by its id on drop.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: u64,
    /// Notifications received, in order.
    pub notifications: Vec<Value>,
    answers: Vec<Value>,
}

impl Gateway {
    /// Starts the server and sends nothing yet.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"noise": line}));
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, last_id: 0, notifications: Vec::new(), answers: Vec::new() }
    }

    /// Starts the server and performs the handshake with this client name.
    pub fn connect(command: &mut Command, client: &str) -> Self {
        let mut server = Self::start(command);
        let hello = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": client, "version": "1"},
        });
        server.ask("initialize", hello);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Returns its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    /// Sends any line.
    pub fn send_text(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request without waiting, and returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Returns the whole response to a request. The response to an invalid request has the id null.
    ///
    /// # Panics
    /// If no response arrives.
    pub fn response(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.remove(at);
            }
            self.read_one();
        }
    }

    /// Returns the next notification.
    pub fn notification(&mut self) -> Value {
        let known = self.notifications.len();
        while self.notifications.len() == known {
            self.read_one();
        }
        self.notifications[known].clone()
    }

    fn read_one(&mut self) {
        let message = self.lines.recv_timeout(PATIENCE).expect("a message");
        assert_eq!(message["jsonrpc"], "2.0", "no message: {message}");
        if message.get("id").is_some() {
            self.answers.push(message);
        } else {
            self.notifications.push(message);
        }
    }

    /// Sends a request and waits for its result.
    ///
    /// # Panics
    /// If the response is an error.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let mut response = self.response(id);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Calls a tool without waiting, and returns the request's id.
    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the whole result.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the structured answer.
    ///
    /// # Panics
    /// If the result is an error.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        structured(self.result(tool, arguments))
    }

    /// Closes its input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits for its end and returns the exit status.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(&mut self) -> ExitStatus {
        wait_for("the gateway ends", || self.child.try_wait().unwrap())
    }

    /// Returns all messages that were not read yet.
    pub fn rest(&mut self) -> Vec<Value> {
        self.answers.drain(..).chain(self.lines.try_iter()).collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the structured answer of a call's result.
///
/// # Panics
/// If the call failed, or the result lacks a structured answer, or does not have exactly one text.
pub fn structured(mut result: Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{result}");
    assert!(result["structuredContent"].is_object(), "{result}");
    result["structuredContent"].take()
}

/// A server that listens for HTTP. It is killed by its id on drop.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    /// The address of the server.
    pub address: SocketAddr,
    /// Lines that it printed on stderr before it listened.
    pub before: Vec<String>,
}

impl Listening {
    /// Starts the server and waits until it prints its address.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut before = Vec::new();
        let address = loop {
            let Some(line) = said.next() else { panic!("it does not listen: {before:?}") };
            let found = line
                .split("127.0.0.1:")
                .nth(1)
                .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            if let Some(port) = found.filter(|_| line.contains("listening")) {
                break format!("127.0.0.1:{port}").parse().unwrap();
            }
            before.push(line);
        };
        // Drain later output, so that the pipe does not fill.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, address, before }
    }

    /// Sends a request and reads the answer to its end.
    ///
    /// # Panics
    /// If the server cannot be reached or does not answer.
    pub fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = self.send(method, path, headers, body);
        let mut bytes = Vec::new();
        // A server that refuses a body without reading it may reset the connection after its
        // answer.
        let _ = stream.read_to_end(&mut bytes);
        Reply::read(&bytes)
    }

    /// Sends a request and does not wait for the answer.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        let usual = [
            ("host", self.address.to_string()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        for (name, value) in usual {
            if !headers.iter().any(|(given, _)| *given == name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        // The server may have refused before the whole body was sent.
        drop(sent);
        stream
    }

    /// Sends a request in the revision without a handshake, with the required headers.
    pub fn modern(&self, path: &str, headers: &[(&str, &str)], method: &str, params: Value) -> Reply {
        let (body, mut all) = modern_request(method, params);
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.http("POST", path, &all, &body)
    }

    /// As [`Self::modern`], without waiting for the answer.
    pub fn begin_modern(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        method: &str,
        params: Value,
    ) -> TcpStream {
        let (body, mut all) = modern_request(method, params);
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.send("POST", path, &all, &body)
    }

    /// Calls a tool and returns the structured answer.
    ///
    /// # Panics
    /// If the call fails.
    pub fn call(&self, path: &str, tool: &str, arguments: Value) -> Value {
        let reply = self.modern(path, &[], "tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(reply.status, 200, "{reply:?}");
        structured(reply.message()["result"].take())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn modern_request(method: &str, mut params: Value) -> (String, Vec<(String, String)>) {
    if params.get("_meta").is_none() {
        params["_meta"] = meta("test", &json!({}));
    }
    let mut headers = vec![
        ("mcp-protocol-version".to_owned(), MODERN.to_owned()),
        ("mcp-method".to_owned(), method.to_owned()),
    ];
    if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
        headers.push(("mcp-name".to_owned(), name.to_owned()));
    }
    (json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string(), headers)
}

/// An HTTP response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    head: String,
    /// Body without the chunk markers.
    pub body: String,
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        let head = head.to_owned();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(rest) } else { rest.to_owned() };
        Self { status, head, body }
    }

    /// Returns a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// Returns the last message in the body: a single message or the last of several events.
    ///
    /// # Panics
    /// If there is no message.
    pub fn message(&self) -> Value {
        let event = self.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(event.unwrap_or(&self.body)).unwrap_or_else(|_| panic!("no message: {self:?}"))
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut text = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        if size == 0 || after.len() < size {
            break;
        }
        text.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    text
}
