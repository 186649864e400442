//! `buildpool page`: the pool's web page in a browser, signed in.
//!
//! A browser can't verify a certificate that a pool has made itself. For such a pool, this command listens on a loopback
//! port and forwards each connection over TLS after the client library has verified the certificate.

use crate::arguments::PageArguments;
use crate::failure::{Failure, POOL};
use crate::settings;
use crate::terminal;
use buildpool_client::{Api, Endpoint, connect};
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Limit on forwarded connections at a time. A browser opens at most six to a host; several tabs share them.
const CONNECTIONS_MAX: usize = 64;

pub(crate) fn run(arguments: &PageArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        // The client keeps the local pool from ending as idle.
        let (endpoint, _client) = settings::connect_with_endpoint(&arguments.pool).await?;
        if !is_forwarded(&endpoint) {
            let scheme = if endpoint.url.is_secure() { "https" } else { "http" };
            let rest = endpoint.url.to_string();
            let (_, place) = rest.split_once("://").unwrap_or_default();
            show(&endpoint, &format!("{scheme}://{place}"), arguments.no_open).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let failed = |error| Failure::new(POOL, format!("a port of 127.0.0.1 can't be opened: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let serving = tokio::spawn(serve(listener, endpoint.clone()));
        show(&endpoint, &format!("http://{address}"), arguments.no_open).await?;
        terminal::warn("the page is served at this address until Ctrl-C");
        // It ends only with the process, or with the runtime.
        let _ended = serving.await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns true if a browser has no way to verify the pool's certificate: only its fingerprint is known.
fn is_forwarded(endpoint: &Endpoint) -> bool {
    endpoint.url.is_secure() && endpoint.ca_file.is_none() && endpoint.fingerprint().is_some()
}

/// Prints the address of the page with a code, and opens it in the user's browser.
async fn show(endpoint: &Endpoint, page: &str, no_open: bool) -> Result<(), Failure> {
    let code = Api::new(endpoint.clone()).sign_in_code().await?;
    let address = format!("{page}/#/sign-in/{code}");
    terminal::print(&format!("{address}\n"))?;
    if !no_open && !opened(&address) {
        terminal::warn("no browser can be started here; open the address above within a minute");
    }
    Ok(())
}

fn opened(address: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "/usr/bin/open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

async fn serve(listener: TcpListener, endpoint: Endpoint) {
    let endpoint = Arc::new(endpoint);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // An error concerns one connection only, for example one that its client has closed.
        let Ok((browser, _)) = listener.accept().await else { continue };
        let endpoint = Arc::clone(&endpoint);
        tokio::spawn(async move {
            forward(browser, &endpoint).await;
            drop(place);
        });
    }
}

async fn forward(mut browser: TcpStream, endpoint: &Endpoint) {
    match connect(endpoint).await {
        // How a connection ends concerns the browser, which sees it too.
        Ok(mut pool) => drop(copy_bidirectional(&mut browser, &mut pool).await),
        Err(error) => terminal::warn(&format!("{error}")),
    }
}
