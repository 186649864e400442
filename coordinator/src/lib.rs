//! The coordinator: queue, leases, log store, digest, links.
