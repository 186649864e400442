//! Fault injection with real processes: parts killed and stopped, links interrupted, disks full,
//! misbehaving peers.
//!
//! `BUILDPOOL_FAULT_SEED` and `BUILDPOOL_FAULT_COUNT` set the first seed and the number of faults
//! of the random tests. Without them a small fixed set runs. `BUILDPOOL_SOAK_SECS` sets the
//! duration of the attack in the soak test; the default is 20 s.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad_peers;
mod bombs;
mod bucket;
mod chaos;
mod disks;
mod failover;
mod floods;
mod hoarding;
mod hostile_jobs;
mod leaving;
mod links;
mod migration;
mod output;
mod parts;
mod readers;
mod replication;
mod secrets;
mod soak;
mod transfers;
mod versions;
