//! The coordinator: queue, leases, log store, digest, links.

pub mod auth;
pub mod store;
pub mod tls;
