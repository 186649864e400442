//! Faults on real processes: parts killed and stopped, links cut, disks full, peers that misbehave.
//!
//! `BUILDPOOL_FAULT_SEED` and `BUILDPOOL_FAULT_COUNT` say from which seed and how many faults the random tests inject;
//! without them a small fixed set runs.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad_peers;
mod bombs;
mod chaos;
mod disks;
mod hostile_jobs;
mod leaving;
mod links;
mod output;
mod parts;
mod readers;
mod secrets;
mod transfers;
mod versions;
