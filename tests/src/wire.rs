//! A peer of the coordinator that sends any message, well-formed or not.

use crate::PATIENCE;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A WebSocket to the coordinator.
#[derive(Debug)]
pub struct Peer(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// A refused upgrade.
#[derive(Clone, PartialEq, Debug)]
pub struct Refused {
    /// HTTP status code.
    pub status: u16,
    /// JSON body.
    pub body: Value,
}

impl Peer {
    /// Connects to the coordinator.
    ///
    /// # Errors
    /// The HTTP response if the upgrade is refused.
    pub async fn dial(address: SocketAddr, path: &str, token: Option<&str>) -> Result<Self, Refused> {
        match Self::connect(address, path, token).await {
            Ok(peer) => Ok(peer),
            Err(Error::Http(response)) => Err(Refused {
                status: response.status().as_u16(),
                body: serde_json::from_slice(response.body().as_deref().unwrap_or_default())
                    .unwrap_or_default(),
            }),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Connects to the coordinator, or returns `None` if that fails for any reason.
    pub async fn try_dial(address: SocketAddr, path: &str, token: Option<&str>) -> Option<Self> {
        Self::connect(address, path, token).await.ok()
    }

    async fn connect(address: SocketAddr, path: &str, token: Option<&str>) -> Result<Self, Error> {
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        Ok(Self(socket))
    }

    /// Sends a message. Returns false if the other end is closed.
    pub async fn send(&mut self, message: impl Into<Message>) -> bool {
        self.0.send(message.into()).await.is_ok()
    }

    /// Sends a text message in frames of so many bytes. Returns false if the other end is closed.
    pub async fn send_in_frames(&mut self, text: &str, frame_bytes: usize) -> bool {
        let parts: Vec<&[u8]> = text.as_bytes().chunks(frame_bytes).collect();
        for (index, part) in parts.iter().enumerate() {
            let kind = if index == 0 { Data::Text } else { Data::Continue };
            let is_last = index + 1 == parts.len();
            let frame = Frame::message(part.to_vec(), OpCode::Data(kind), is_last);
            if !self.send(Message::Frame(frame)).await {
                return false;
            }
        }
        true
    }

    /// Sends a control message.
    pub async fn send_json(&mut self, message: &Value) -> bool {
        self.send(message.to_string()).await
    }

    /// Returns the next text message, or `None` when the connection has ended.
    pub async fn receive(&mut self) -> Option<Value> {
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("an answer in time");
            match heard? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the next text message, or `None` if there is none within this time.
    pub async fn receive_within(&mut self, time: Duration) -> Option<Value> {
        let next = async {
            loop {
                match self.0.next().await? {
                    Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(time, next).await.ok()?
    }

    /// Sends a ping. Returns false if the other end is closed.
    pub async fn ping(&mut self) -> bool {
        self.send(Message::Ping(bytes::Bytes::new())).await
    }

    /// Sends bytes without a WebSocket frame around them.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> bool {
        self.stream().write_all(bytes).await.is_ok()
    }

    /// Waits until the other end has closed, and returns its last message.
    pub async fn close_reason(&mut self) -> Option<Value> {
        let mut last = None;
        while let Some(heard) = self.receive().await {
            last = Some(heard);
        }
        last
    }

    /// Returns the underlying stream.
    ///
    /// # Panics
    /// If it is TLS.
    pub fn stream(&mut self) -> &mut TcpStream {
        match self.0.get_mut() {
            MaybeTlsStream::Plain(stream) => stream,
            _ => panic!("not plain"),
        }
    }
}
