//! Replacement of a worker's program by another version. The coordinator only passes the order and
//! the program on; the worker verifies and replaces.

use crate::duration;
use crate::ids::UpgradeId;
use crate::transfer::Checksum;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An order to a worker: replace your program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpgradeOrder {
    /// Id of the order. A repeated order has the same one.
    pub id: UpgradeId,
    /// Version of the new program, as its `--version` states it.
    pub version: String,
    /// Checksum of the new program.
    pub blake3: Checksum,
    /// Number of its bytes.
    pub length: u64,
    /// Time in which the new program must register in its trial. Otherwise the old one stays.
    #[serde(with = "duration")]
    pub register_within: Duration,
}

/// State of an order on its worker. It ends when the new program is in its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpgradeState {
    /// Id of the order.
    pub id: UpgradeId,
    /// Version of the new program.
    pub version: String,
    /// The present stage.
    pub stage: UpgradeStage,
    /// Why it failed. Empty in other stages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A stage of an upgrade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UpgradeStage {
    /// The worker receives and verifies the program.
    Fetching,
    /// This is the new program, in its trial. It exits after it has registered.
    Trial,
    /// The upgrade failed. The worker runs its previous program.
    Failed,
}
