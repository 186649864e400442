//! A request without a client library: each header is as the test gives it.

use crate::Pool;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Status.
    pub status: u16,
    /// Header lines.
    pub head: String,
    /// The whole body.
    pub body: String,
}

impl Pool {
    /// Sends a request to the coordinator and reads the answer to its end. HTTP/1.0, so that a streamed body has no
    /// chunks.
    pub fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpAnswer {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let mut text =
            format!("{method} {path} HTTP/1.0\r\nHost: pool\r\nContent-Length: {}\r\n", body.len());
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        write!(stream, "{text}\r\n{body}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        HttpAnswer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

impl HttpAnswer {
    /// Returns itself if it has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON: {error}: {}", self.body))
    }

    /// Returns a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
