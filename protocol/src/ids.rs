//! Identities. Each is a type of its own, so that one cannot be passed for another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID; shells mint version 7, so that ids sort by creation.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID inside.
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
    /// A job: what was asked for. Minted by the submitter, so that a submit that is sent twice is one job.
    JobId
}
uuid_id! {
    /// A worker's lasting identity, made once in its data directory.
    WorkerId
}
uuid_id! {
    /// One start of a worker daemon; tells a reconnect from a clone of the same disk.
    BootId
}
uuid_id! {
    /// A token, for listing and revoking; not a secret.
    TokenId
}
uuid_id! {
    /// Several jobs submitted together.
    BuildId
}

/// What stands before the id of a build, so that one word names a job or a build.
pub const BUILD_PREFIX: &str = "build-";

impl BuildId {
    /// The word by which it is asked for.
    pub fn request_id(self) -> String {
        format!("{BUILD_PREFIX}{self}")
    }

    /// The build that a word names, if it names one.
    pub fn from_request_id(text: &str) -> Option<Self> {
        text.strip_prefix(BUILD_PREFIX)?.parse().ok()
    }
}

/// One execution of a job on one worker. Numbers start at 1 and grow by one with each grant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct AttemptId {
    /// The job that is executed.
    pub job: JobId,
    /// 1 for the first execution.
    pub number: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.number)
    }
}

/// A time-bounded grant of an attempt. Epochs only grow: nothing that carries an older epoch than the newest grant
/// of its job changes that job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Lease {
    /// What was granted.
    pub attempt: AttemptId,
    /// The fence.
    pub epoch: u64,
}
