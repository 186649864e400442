//! Refusals, wrong answers, failed connections and revoked tokens.

use super::{TestCoordinator, connect};
use buildpool_client::{Client, ClientError, Endpoint, Target};
use buildpool_protocol::client_link::{FromClient, Role, ToClient, TokenCreated};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::TokenId;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

#[tokio::test]
async fn refusals_and_wrong_answers_are_errors_of_their_own() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let error = LinkError::new(ErrorCode::UnknownJob, "no job begins with `zz`");
    let (refused, ()) = tokio::join!(client.cancel("zz", ""), async {
        let FromClient::Cancel { request, .. } = peer.receive().await else { panic!("no cancel") };
        peer.send(&ToClient::Error { request: Some(request), error: error.clone() }).await;
    });
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::UnknownJob));
    let (wrong, ()) = tokio::join!(client.tokens(), async {
        let FromClient::TokenList { request } = peer.receive().await else { panic!("no list") };
        let id = TokenId::from_uuid(uuid::Uuid::nil());
        let created = TokenCreated { token: String::new(), id, role: Role::Admin, name: String::new() };
        peer.send(&ToClient::Token { request, created }).await;
    });
    assert!(matches!(wrong.unwrap_err(), ClientError::Misbehaved(_)));
}

#[tokio::test]
async fn what_can_not_be_connected_to_says_why() {
    // No listener.
    let (coordinator, endpoint) = TestCoordinator::new().await;
    drop(coordinator);
    let error = Client::connect(Target::Named(endpoint), "test").await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }) && error.is_worth_a_retry(), "{error:?}");

    // A wrong token, and a missing one.
    for token in [Some("bp_1_wrong".parse().unwrap()), None] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        let endpoint =
            Endpoint { url, token: token.clone(), ca_file: None, certificate: None, allow_plain: false };
        let (connected, ()) = tokio::join!(Client::connect(Target::Named(endpoint), "test"), async {
            let (stream, _) = listener.accept().await.unwrap();
            let refuse = |_: &Request, _: Response| {
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = 401.try_into().unwrap();
                Err(refusal)
            };
            let _ = tokio_tungstenite::accept_hdr_async(stream, refuse).await;
        });
        let error = connected.unwrap_err();
        assert!(
            matches!(error, ClientError::Unauthorized { with_token, .. } if with_token == token.is_some())
        );
    }

    // No common protocol version.
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (connected, ()) = tokio::join!(Client::connect(Target::Named(endpoint), "test"), async {
        let mut peer = coordinator.accept_silently().await;
        peer.receive().await;
        let error = LinkError::new(ErrorCode::VersionMismatch, "I speak 7 to 9");
        peer.send(&ToClient::Error { request: None, error }).await;
    });
    assert!(
        matches!(connected.unwrap_err(), ClientError::VersionMismatch { said, .. } if said == "I speak 7 to 9")
    );

    // Not a coordinator.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
    let endpoint = Endpoint { url, token: None, ca_file: None, certificate: None, allow_plain: false };
    let (connected, ()) = tokio::join!(Client::connect(Target::Named(endpoint), "test"), async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    });
    assert!(matches!(connected.unwrap_err(), ClientError::NotAPool { status: Some(200), .. }));
}

#[tokio::test]
async fn a_revoked_token_ends_what_is_open() {
    let (coordinator, endpoint) = TestCoordinator::new().await;
    let (client, mut peer) = connect(&coordinator, endpoint).await;
    let (workers, ()) = tokio::join!(client.workers(), async {
        peer.receive().await;
        let error = LinkError::new(ErrorCode::Unauthorized, "the token was revoked");
        peer.send(&ToClient::Error { request: None, error }).await;
    });
    assert!(matches!(workers.unwrap_err(), ClientError::Unauthorized { .. }));
}
