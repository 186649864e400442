//! Ids. Each has its own type, so that ids of different kinds cannot be confused.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, format = "uuid"))]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID. Callers generate version 7, so that ids sort by creation time.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0.as_hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id! {
    /// A job. The submitter generates the id, so that a repeated submit creates no second job.
    JobId
}
uuid_id! {
    /// A worker's permanent identity, created once in its data directory.
    WorkerId
}
uuid_id! {
    /// One start of a worker daemon. It distinguishes a reconnect from a clone of the same disk.
    BootId
}
uuid_id! {
    /// A token, for listing and revoking. It is not secret.
    TokenId
}
uuid_id! {
    /// Several jobs submitted together.
    BuildId
}
uuid_id! {
    /// One order to replace the program of one worker.
    UpgradeId
}

/// Prefix of the id of a build, so that one argument can name a job or a build.
pub const BUILD_PREFIX: &str = "build-";

impl BuildId {
    /// Returns the id of the build with its prefix.
    pub fn request_id(self) -> String {
        format!("{BUILD_PREFIX}{self}")
    }

    /// Parses a build id with its prefix. Returns `None` for other texts.
    pub fn from_request_id(text: &str) -> Option<Self> {
        text.strip_prefix(BUILD_PREFIX)?.parse().ok()
    }
}

/// One execution of a job on one worker. Numbers start at 1 and grow by one with each grant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct AttemptId {
    /// Id of the job.
    pub job: JobId,
    /// 1 for the first execution.
    pub number: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.number)
    }
}

/// A time-bounded grant of an attempt. Epochs only grow. A message with an older epoch than the
/// newest grant of its job does not change that job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Lease {
    /// The granted attempt.
    pub attempt: AttemptId,
    /// The fencing epoch.
    pub epoch: u64,
}

/// Minimum digits of a short id: those of the timestamp of a UUIDv7.
const SHORT_ID_DIGITS_MIN: usize = 12;

/// Returns for each id of a list a prefix that no other id of the list has.
pub fn short_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let ids: Vec<String> = ids.into_iter().map(|id| id.replace('-', "")).collect();
    let shared = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    // The longest common prefix of an id is with one of its neighbours in the order.
    let digits = |id: &str| {
        let at = sorted.partition_point(|other| *other < id);
        let before = at.checked_sub(1).and_then(|before| sorted.get(before));
        let nearest = before.into_iter().chain(sorted.get(at + 1)).map(|other| shared(id, other));
        SHORT_ID_DIGITS_MIN.max(nearest.max().unwrap_or(0) + 1)
    };
    ids.iter().map(|id| id.chars().take(digits(id)).collect()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_short_id_is_as_long_as_it_must_be_to_differ() {
        let ids = [
            "0193aaaa-bbbb-7001-8000-000000000001",
            "0193aaaa-bbbb-7001-9000-000000000001",
            "0193aaaa-cccc-7001-8000-000000000001",
        ];
        assert_eq!(super::short_ids(ids), ["0193aaaabbbb70018", "0193aaaabbbb70019", "0193aaaacccc"]);
        assert_eq!(super::short_ids([ids[2]]), ["0193aaaacccc"]);
        assert_eq!(super::short_ids(["x", "x"]), ["x", "x"]);
    }
}
