//! The MCP gateway with the fixtures of the official conformance suite, on `127.0.0.1` without tokens: the suite checks
//! the product's own service and transport with the tools, prompts and resources that it defines.
//!
//!     buildpool-mcp-fixtures BUILDPOOL DIRECTORY
//!
//! The pool is this user's local pool, which the program BUILDPOOL starts; the project is DIRECTORY. Prints
//! `address=HOST:PORT` and serves until a signal ends it.

mod fixtures;
mod service;

use buildpool_client::Target;
use buildpool_client::local::LocalPool;
use buildpool_gateway::{GatewayConfig, HttpAuth, HttpConfig, HttpServer};
use service::WithFixtures;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the caller reads the address")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, directory] = arguments.as_slice() else {
        return Err("usage: buildpool-mcp-fixtures BUILDPOOL DIRECTORY".into());
    };
    let target = Target::Local(LocalPool::of_this_user(program.into())?);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let http = HttpConfig { auth: HttpAuth::None, ..HttpConfig::new(local) };
    let server =
        HttpServer::bind_with(GatewayConfig::new(target, directory), http, WithFixtures::new).await?;
    println!("address={}", server.address());
    server.serve(std::future::pending()).await?;
    Ok(())
}
