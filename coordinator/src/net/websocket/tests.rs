//! Both sides of a connection, with an independent client.

use super::{Message, SocketError, WebSocket};
use crate::net::inbound::{InboundBytes, MessageRoom};
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};
use tokio_tungstenite::tungstenite::{self};

const LIMIT: usize = 1 << 20;

/// Returns both ends of a connection that holds so many bytes on their way.
async fn connected(bytes: usize) -> (WebSocketStream<DuplexStream>, WebSocket<DuplexStream>) {
    let (peer, stream) = duplex(bytes);
    let client = WebSocketStream::from_raw_socket(peer, Role::Client, None).await;
    (client, WebSocket::new(stream, LIMIT, MessageRoom::default()))
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| at as u8).collect()
}

async fn next(socket: &mut WebSocket<DuplexStream>) -> Message {
    socket.recv().await.expect("a message").expect("a valid one")
}

#[tokio::test]
async fn messages_of_each_length_arrive_unchanged_in_both_directions() {
    const LENGTHS: [usize; 9] = [0, 1, 125, 126, 4_096, 65_535, 65_536, 70_000, 300_000];
    for bytes in [7, 1_000, 1 << 20] {
        let (mut client, mut socket) = connected(bytes).await;
        let peer = tokio::spawn(async move {
            for length in LENGTHS {
                client.send(tungstenite::Message::binary(content(length))).await.expect("sent");
                client.send(tungstenite::Message::text("x".repeat(length))).await.expect("sent");
                client.send(tungstenite::Message::Ping(Bytes::from_static(b"there?"))).await.expect("sent");
            }
            let mut received = Vec::new();
            while received.len() < 2 * LENGTHS.len() {
                match client.next().await.expect("a message").expect("a valid one") {
                    tungstenite::Message::Pong(content) => assert_eq!(&content[..], b"there?"),
                    message => received.push(message.into_data()),
                }
            }
            received
        });
        for length in LENGTHS {
            let Message::Binary(bytes) = next(&mut socket).await else { panic!("not binary") };
            assert!(bytes == content(length), "{length} bytes");
            let Message::Text(text) = next(&mut socket).await else { panic!("not a text") };
            assert_eq!(text.len(), length);
            assert!(matches!(next(&mut socket).await, Message::Alive));
        }
        for length in LENGTHS {
            socket.send(Message::Binary(content(length).into())).await.expect("sent");
            socket.send(Message::Headed([7; 16], content(length).into())).await.expect("sent");
        }
        let received = peer.await.expect("no panic");
        for (length, pair) in LENGTHS.iter().zip(received.chunks(2)) {
            assert!(pair[0] == content(*length), "{length} bytes");
            assert!(pair[1][..16] == [7; 16] && pair[1][16..] == content(*length), "{length} bytes");
        }
        assert_eq!(socket.receiver.held_bytes(), 0, "an idle connection holds no buffer");
    }
}

/// A frame of a client.
fn frame(opcode: OpCode, is_final: bool, content: &[u8]) -> tungstenite::Message {
    let header = FrameHeader { is_final, opcode, mask: Some([1, 2, 3, 4]), ..FrameHeader::default() };
    tungstenite::Message::Frame(Frame::from_payload(header, Bytes::copy_from_slice(content)))
}

#[tokio::test]
async fn a_message_of_several_frames_is_joined_around_control_frames() {
    let (mut client, mut socket) = connected(1 << 16).await;
    for frame in [
        frame(OpCode::Data(Data::Text), false, "wh\u{e4}".as_bytes()),
        tungstenite::Message::Ping(Bytes::new()),
        frame(OpCode::Data(Data::Continue), false, b""),
        frame(OpCode::Data(Data::Continue), true, b"t"),
    ] {
        client.send(frame).await.expect("sent");
    }
    assert!(matches!(next(&mut socket).await, Message::Alive));
    let Message::Text(text) = next(&mut socket).await else { panic!("not a text") };
    assert_eq!(text, "wh\u{e4}t");
}

#[tokio::test]
async fn invalid_frames_end_the_connection_with_their_code() {
    // Each with a mask of zeros.
    for (bytes, code) in [
        (&[0xf1, 0x80, 0, 0, 0, 0][..], 1002),
        (&[0x80, 0x80, 0, 0, 0, 0], 1002),
        (&[0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002),
        (&[0x88, 0x81, 0, 0, 0, 0, 3], 1002),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        (&[0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0, 0, 0], 1009),
        (&[0x02, 0x81, 0, 0, 0, 0, 1, 0x80, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0], 1009),
    ] {
        let (mut peer, stream) = duplex(1 << 10);
        let mut socket = WebSocket::new(stream, LIMIT, MessageRoom::default());
        peer.write_all(bytes).await.expect("there is room");
        let error = socket.recv().await.expect("an error").expect_err("it is invalid");
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(socket.recv().await.is_none(), "nothing follows");
        assert!(
            socket.send(Message::Text(String::new())).await.is_err(),
            "nothing is sent behind a close frame"
        );
        let mut close = [0; 4];
        peer.read_exact(&mut close).await.expect("whole");
        assert_eq!((close[..2].to_vec(), u16::from_be_bytes([close[2], close[3]])), (vec![0x88, 2], code));
    }
    let (mut peer, stream) = duplex(1 << 10);
    let mut socket = WebSocket::new(stream, LIMIT, MessageRoom::default());
    peer.write_all(&[0x82, 0x85, 0, 0, 0, 0, 1]).await.expect("there is room");
    drop(peer);
    assert!(socket.recv().await.is_none(), "a stream that ends in a frame ends the connection");
}

#[tokio::test]
async fn a_close_frame_is_answered() {
    let (mut client, mut socket) = connected(1 << 10).await;
    client.close(None).await.expect("sent");
    assert!(matches!(next(&mut socket).await, Message::Close));
    assert!(socket.recv().await.is_none());
    assert!(client.next().await.is_none_or(|last| last.is_ok_and(|last| last.is_close())));
}

/// A ping arrives while a large message is half sent by another task. Both tasks write, and the stream wakes only one of them.
#[tokio::test]
async fn a_ping_during_a_message_delays_neither() {
    let (mut client, socket) = connected(1_000).await;
    let (mut sink, mut stream) = socket.split();
    let sender = tokio::spawn(async move {
        for _ in 0..3 {
            sink.send(Message::Binary(content(200_000).into())).await.expect("sent");
        }
        sink
    });
    let receiver = tokio::spawn(async move {
        let mut pings = 0;
        while let Some(message) = stream.next().await {
            pings += u32::from(matches!(message, Ok(Message::Alive)));
        }
        pings
    });
    let (mut messages, mut pongs) = (0, 0);
    while messages < 3 {
        client.send(tungstenite::Message::Ping(Bytes::new())).await.expect("sent");
        match client.next().await.expect("a message").expect("a valid one") {
            tungstenite::Message::Pong(_) => pongs += 1,
            message => {
                assert_eq!(message.len(), 200_000);
                messages += 1;
            }
        }
    }
    let sink = sender.await.expect("no panic");
    assert!(pongs > 0);
    drop(client);
    assert!(receiver.await.expect("no panic") >= pongs);
    drop(sink);
}

#[tokio::test]
async fn a_large_message_is_read_when_there_is_room() {
    let bytes = InboundBytes::default();
    let full = |room: &mut MessageRoom| {
        room.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()), 4 << 20, true).is_ready()
    };
    let mut others: Vec<_> = (0..8).map(|_| bytes.of("ada")).collect();
    assert!(others.iter_mut().all(full));
    let (peer, stream) = duplex(1 << 16);
    let mut client = WebSocketStream::from_raw_socket(peer, Role::Client, None).await;
    let mut socket = WebSocket::new(stream, LIMIT, bytes.of("ada"));
    client.send(tungstenite::Message::binary(content(4_000))).await.expect("sent");
    client.send(tungstenite::Message::binary(content(5_000))).await.expect("sent");
    assert!(matches!(next(&mut socket).await, Message::Binary(_)), "a small message needs no room");
    assert!(socket.recv().now_or_never().is_none());
    others[0].release();
    let Message::Binary(read) = next(&mut socket).await else { panic!("not binary") };
    assert!(read == content(5_000));
    assert!(full(&mut others[0]), "its room is free again");
}

#[test]
fn an_error_of_the_connection_has_no_code() {
    assert_eq!(SocketError::Io(std::io::ErrorKind::BrokenPipe.into()).code(), None);
}
