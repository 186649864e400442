//! One message per line, in both directions. An invalid line is answered with an error, because the
//! client may wait for an answer. The library's own transport ignores it silently.

use super::message::{self, Broken, Incoming};
use rmcp::RoleServer;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

/// Maximum length of a line in bytes: four times the largest HTTP request. Without a limit, a
/// client that never ends its line would fill the memory.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The byte order mark that some editors write at the start of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

type Sending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A client connected by two pipes.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The received part of the current line.
    line: Vec<u8>,
    /// Whether the current line was too long, so that the rest of it is skipped.
    is_skipping: bool,
    /// `None` after it is closed.
    output: Arc<Mutex<Option<W>>>,
    /// A pending answer to an invalid message.
    answer: Option<Sending>,
}

enum Step {
    Line,
    TooLong,
    End,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub(super) fn new(input: R, output: W) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            is_skipping: false,
            output: Arc::new(Mutex::new(Some(output))),
            answer: None,
        }
    }

    /// Reads the next line into `line`. Dropping the future before it is ready loses nothing.
    async fn next_line(&mut self) -> io::Result<Step> {
        loop {
            let some = self.input.fill_buf().await?;
            if some.is_empty() {
                return Ok(Step::End);
            }
            let end = some.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(some.len(), |end| end + 1);
            let is_too_long = !self.is_skipping && self.line.len() + taken > LINE_BYTES_MAX;
            if is_too_long {
                self.line.clear();
            } else if !self.is_skipping {
                self.line.extend_from_slice(&some[..taken]);
            }
            self.input.consume(taken);
            let was_skipping = self.is_skipping;
            self.is_skipping = end.is_none() && (was_skipping || is_too_long);
            if is_too_long {
                return Ok(Step::TooLong);
            }
            if end.is_some() && !was_skipping {
                return Ok(Step::Line);
            }
        }
    }

    fn answer(&mut self, broken: &Broken) {
        tracing::debug!(?broken, "the input is not a message");
        if !broken.is_one_way() {
            self.answer =
                Some(Box::pin(write(self.output.clone(), broken.answer().to_string().into_bytes())));
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move { write(output, serde_json::to_vec(&message)?).await }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            if let Some(answer) = &mut self.answer {
                let sent = answer.await;
                self.answer = None;
                sent.ok()?;
            }
            match self.next_line().await {
                Ok(Step::Line) => {}
                Ok(Step::TooLong) => {
                    self.answer(&Broken::too_long(LINE_BYTES_MAX));
                    continue;
                }
                Ok(Step::End) => return None,
                Err(error) => {
                    tracing::error!(%error, "standard input can't be read");
                    return None;
                }
            }
            let line = std::mem::take(&mut self.line);
            let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line).trim_ascii();
            if text.is_empty() {
                continue;
            }
            match message::read(text) {
                Ok(message) => return Some(message),
                Err(broken) => self.answer(&broken),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}

/// Writes a whole line under the lock, so that lines do not interleave.
async fn write<W: AsyncWrite + Unpin>(output: Arc<Mutex<Option<W>>>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    let Some(output) = output.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
    output.write_all(&line).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Lines};
    use rmcp::transport::Transport;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    /// Returns the messages that the client receives, and the number of messages that the service
    /// receives.
    async fn exchange(input: Vec<u8>) -> (Vec<Value>, usize) {
        let (ours, theirs) = tokio::io::duplex(64);
        let (reading, writing) = tokio::io::split(ours);
        let mut lines = Lines::new(reading, writing);
        let (their_output, mut their_input) = tokio::io::split(theirs);
        let served = tokio::spawn(async move {
            let mut count = 0;
            while lines.receive().await.is_some() {
                count += 1;
            }
            lines.close().await.unwrap();
            count
        });
        let answers = tokio::spawn(async move {
            let mut answers = Vec::new();
            let mut lines = BufReader::new(their_output).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                answers.push(serde_json::from_str(&line).unwrap());
            }
            answers
        });
        their_input.write_all(&input).await.unwrap();
        their_input.shutdown().await.unwrap();
        let count = served.await.unwrap();
        (answers.await.unwrap(), count)
    }

    #[tokio::test]
    async fn a_broken_line_is_answered_and_the_next_one_is_read() {
        let input = format!("{PING}\n{{\"jsonrpc\n\n \r\n\u{feff}{PING}\r\n[1]\n{PING}");
        let (answers, count) = exchange(input.into_bytes()).await;
        let codes: Vec<_> = answers.iter().map(|answer| (&answer["error"]["code"], &answer["id"])).collect();
        assert_eq!(codes, [(&Value::from(-32700), &Value::Null), (&Value::from(-32600), &Value::Null)]);
        assert_eq!(count, 2, "a line without its end is not a message");
    }

    #[tokio::test]
    async fn a_line_without_end_is_refused_once_and_not_kept() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 1000];
        input.extend_from_slice(format!("\n{PING}\n").as_bytes());
        let (answers, count) = exchange(input).await;
        assert_eq!((answers.len(), count), (1, 1));
        assert_eq!(answers[0]["error"]["code"], -32600);
    }

    #[tokio::test]
    async fn what_goes_out_goes_out_whole() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let (reading, writing) = tokio::io::split(ours);
        let mut lines = Lines::new(reading, writing);
        let message = || serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).unwrap();
        let sending: Vec<_> = (0..5).map(|_| tokio::spawn(lines.send(message()))).collect();
        let reading = tokio::spawn(async move {
            let mut text = String::new();
            theirs.read_to_string(&mut text).await.unwrap();
            text
        });
        for sent in sending {
            sent.await.unwrap().unwrap();
        }
        drop(lines);
        let text = reading.await.unwrap();
        assert_eq!(text.lines().count(), 5);
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
    }
}
