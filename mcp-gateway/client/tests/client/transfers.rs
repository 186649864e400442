//! Transfers begin again after an interruption, and end at the pool.

use super::{TestCoordinator, connect};
use buildpool_client::TransferEvent;
use buildpool_protocol::client_link::{FromClient, ToClient};
use buildpool_protocol::frame::{BinaryHeader, BinaryKind};
use buildpool_protocol::transfer::Message as Step;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_transfer_is_begun_again_by_its_owner() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let fetch = |channel| Step::FetchArtifact { channel, job: "0".into(), path: "out".into() };
    let mut transfer = client.transfer().await.unwrap();
    transfer.send_step(fetch(transfer.channel())).await.unwrap();
    assert_eq!(peer.receive().await, FromClient::Transfer(fetch(transfer.channel())));
    drop(peer);
    assert!(matches!(transfer.next().await, Some(TransferEvent::Interrupted)));
    assert!(transfer.next().await.is_none());
    let mut transfer = client.transfer().await.unwrap();
    let channel = transfer.channel();
    transfer.send_step(fetch(channel)).await.unwrap();
    transfer.send_bytes(7, b"bytes").await.unwrap();
    let mut peer = coordinator.accept().await;
    assert_eq!(peer.receive().await, FromClient::Transfer(fetch(channel)));
    let Some(Ok(Message::Binary(frame))) = peer.socket.next().await else { panic!("no frame") };
    let (header, content) = BinaryHeader::decode(&frame).unwrap();
    let expected = BinaryHeader { kind: BinaryKind::Transfer, channel, position: 7 };
    assert_eq!((header, content), (expected, &b"bytes"[..]));
    peer.socket.send(Message::Binary(frame)).await.unwrap();
    peer.send(&ToClient::Transfer(Step::Done { channel })).await;
    assert!(matches!(transfer.next().await, Some(TransferEvent::Bytes { position: 7, .. })));
    assert!(matches!(transfer.next().await, Some(TransferEvent::Step(Step::Done { .. }))));
    assert!(transfer.next().await.is_none());
}

#[tokio::test]
async fn a_transfer_that_its_owner_leaves_ends_at_the_pool_and_one_that_is_over_ends_once() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let fetch = |channel| Step::FetchArtifact { channel, job: "0".into(), path: "out".into() };
    for last in [None, Some(true), Some(false)] {
        let mut transfer = client.transfer().await.unwrap();
        let channel = transfer.channel();
        transfer.send_step(fetch(channel)).await.unwrap();
        assert_eq!(peer.receive().await, FromClient::Transfer(fetch(channel)));
        match last {
            // Both sides may send the last message.
            Some(true) => transfer.send_step(Step::Done { channel }).await.unwrap(),
            Some(false) => {
                peer.send(&ToClient::Transfer(Step::Done { channel })).await;
                assert!(matches!(transfer.next().await, Some(TransferEvent::Step(Step::Done { .. }))));
            }
            None => {}
        }
        drop(transfer);
        match last {
            Some(true) => assert_eq!(peer.receive().await, FromClient::Transfer(Step::Done { channel })),
            Some(false) => {}
            None => {
                let heard = peer.receive().await;
                assert!(
                    matches!(&heard, FromClient::Transfer(Step::Failed { channel: of, .. }) if *of == channel),
                    "{heard:?}"
                );
            }
        }
    }
}
