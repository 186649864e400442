//! The pool's client: dial, submit, follow, read. The command line and the MCP tools use it.
//!
//! A [`Client`] is a handle on a task that owns one connection. When the connection breaks, the task dials again and says
//! again what is still open: a submit with the same job id, a followed log from the position that was reached. So a
//! coordinator's restart neither loses nor doubles anything, and costs the caller only time. It knows nothing of MCP.

mod backoff;
mod channel;
mod dial;
mod endpoint;
mod error;
mod handle;
mod link;
mod reader;
mod requests;
mod target;
mod transfer;

pub use backoff::{Backoff, random_bits};
pub use buildpool_protocol::error::chain;
pub use channel::JobEvent;
pub use dial::PoolInfo;
pub use endpoint::{AccessToken, Endpoint, PoolUrl, TokenError, UrlError};
pub use error::{ClientError, Misbehaviour};
pub use handle::{Client, FollowQuery, JobEvents, new_job_id};
pub use link::LinkStatus;
pub use reader::{Chunk, Output};
pub use target::Target;
pub use transfer::{Transfer, TransferEvent};
