//! Transfer of snapshots and artifacts, with the same steps on both links.
//!
//! The sender sends `begin` with checksum and length. The receiver answers `from` with its start
//! offset. The bytes follow as binary frames ([`crate::frame::BinaryKind::Transfer`]) on the same
//! channel. The receiver acknowledges them with `taken`, which allows more, and at the end sends
//! `done`: complete, verified, on disk. An interrupted transfer is started again with the same
//! checksum and resumes at the length of the receiver's file. The side that opened the connection
//! chooses the channel numbers.

use crate::error::{ErrorCode, LinkError};
use crate::ids::Lease;
use crate::limits;
use crate::spec::Source;
use serde::{Deserialize, Serialize};

mod names;

pub use names::{Checksum, NotHexadecimal, ObjectFormat, ObjectId};

/// A snapshot: its objects, and metadata for its workspace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Project of the object cache.
    pub project: String,
    /// The working tree.
    pub tree: ObjectId,
    /// The commit that was checked out, if there was one.
    #[serde(default)]
    pub head: Option<Head>,
    /// Ignore patterns that are not in the tree: the user's own and those of `.buildpoolignore`. A
    /// workspace keeps files that match as build products.
    #[serde(default)]
    pub excludes: String,
    /// Files of the commit that are not in the tree although they were not deleted. Directories of
    /// such files end with `/`. These are the files outside of a sparse checkout, and those that
    /// `.buildpoolignore` excludes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// Number of files in the tree.
    pub files: u64,
    /// Total size of the files, in bytes.
    pub bytes: u64,
}

/// The name of a snapshot in requests of jobs and workers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SnapshotName {
    /// The working tree.
    pub tree: ObjectId,
    /// The commit that was checked out.
    pub head: Option<ObjectId>,
    /// Checksum of its manifest. `None` if a peer does not send it. The last used snapshot with
    /// this tree and commit then matches.
    pub manifest: Option<Checksum>,
}

impl SnapshotName {
    /// Returns the snapshot of a job, or `None` for a job with another source.
    ///
    /// # Errors
    /// Fails if an id or checksum is invalid.
    pub fn from_source(source: &Source) -> Result<Option<Self>, NotHexadecimal> {
        let Source::Snapshot { id, head, manifest, .. } = source else { return Ok(None) };
        Ok(Some(Self {
            tree: id.parse()?,
            head: head.as_deref().map(str::parse).transpose()?,
            manifest: manifest.as_deref().map(str::parse).transpose()?,
        }))
    }
}

/// Git history for a workspace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The commit of `HEAD`.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The branch, unless detached.
    #[serde(default)]
    pub branch: Option<String>,
    /// Earlier commits back to the nearest tag, without their trees. `git describe` counts them.
    #[serde(default)]
    pub history: Vec<ObjectId>,
    /// Tags on any of these commits.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Commits of these without their parents.
    #[serde(default)]
    pub shallow: Vec<ObjectId>,
}

/// A tag, named without `refs/tags/`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// The tag object, or the commit for a lightweight tag.
    pub object: ObjectId,
}

impl Manifest {
    /// Checks sizes and names.
    ///
    /// # Errors
    /// The first invalid field, with its valid values.
    pub fn check(&self) -> Result<(), LinkError> {
        let invalid = |text: String| Err(LinkError::new(ErrorCode::Invalid, text));
        if self.project.is_empty() || self.project.len() > limits::PROJECT_BYTES_MAX {
            return invalid(format!(
                "project: has {} bytes; valid are 1 to {}",
                self.project.len(),
                limits::PROJECT_BYTES_MAX
            ));
        }
        if self.excludes.len() > limits::EXCLUDES_BYTES_MAX {
            return invalid(format!(
                "excludes: {} bytes of ignore patterns; at most {} are valid",
                self.excludes.len(),
                limits::EXCLUDES_BYTES_MAX
            ));
        }
        let named: usize = self.left_behind.iter().map(String::len).sum();
        if self.left_behind.len() > limits::LEFT_BEHIND_MAX || named > limits::LEFT_BEHIND_BYTES_MAX {
            return invalid(format!(
                "left_behind: {} names with {named} bytes; at most {} with {} bytes are valid",
                self.left_behind.len(),
                limits::LEFT_BEHIND_MAX,
                limits::LEFT_BEHIND_BYTES_MAX
            ));
        }
        if self.files > limits::SNAPSHOT_FILES_MAX || self.bytes > limits::SNAPSHOT_BYTES_MAX {
            return invalid(format!(
                "snapshot: {} files with {} bytes; at most {} files and {} bytes are valid",
                self.files,
                self.bytes,
                limits::SNAPSHOT_FILES_MAX,
                limits::SNAPSHOT_BYTES_MAX
            ));
        }
        match &self.head {
            Some(head) => head.check(self.tree.format()),
            None => Ok(()),
        }
    }
}

impl Head {
    fn check(&self, format: ObjectFormat) -> Result<(), LinkError> {
        let invalid = |text: String| Err(LinkError::new(ErrorCode::Invalid, text));
        if self.history.len() > limits::HISTORY_MAX
            || self.tags.len() > limits::HISTORY_MAX
            || self.shallow.len() > limits::HISTORY_MAX + 1
        {
            return invalid(format!(
                "head: {} commits and {} tags; at most {} of each are valid",
                self.history.len(),
                self.tags.len(),
                limits::HISTORY_MAX
            ));
        }
        let mut ids = self.history.iter().chain(&self.shallow).chain(self.tags.iter().map(|tag| &tag.object));
        if self.commit.format() != format
            || self.tree.format() != format
            || ids.any(|id| id.format() != format)
        {
            return invalid("head: its ids are of another object format than the tree's".into());
        }
        let names = self.tags.iter().map(|tag| &tag.name).chain(&self.branch);
        for name in names {
            if !is_ref_name(name) {
                return invalid(format!("head: `{}` is not a valid branch or tag name", name.escape_debug()));
            }
        }
        Ok(())
    }
}

/// Returns true for a valid branch or tag name, by the rules of `git check-ref-format`.
pub fn is_ref_name(name: &str) -> bool {
    let part_is_valid = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock")
    };
    name.len() <= limits::REF_NAME_BYTES_MAX
        && name != "@"
        && !name.starts_with('-')
        && !name.contains("..")
        && !name.contains("@{")
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\'))
        && name.split('/').all(part_is_valid)
}

/// Content of a transfer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A pack with the objects of a snapshot that the receiver lacks.
    Snapshot {
        /// The snapshot.
        manifest: Box<Manifest>,
        /// The base tree of the pack. `None` for a self-contained pack.
        base: Option<ObjectId>,
    },
    /// A file that a job created.
    Artifact {
        /// Lease of the attempt.
        lease: Lease,
        /// Path relative to the command's directory.
        path: String,
    },
    /// A program for workers. A client with role admin sends it, and workers fetch it by its checksum.
    Program,
}

/// One step of a transfer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Message {
    /// Client to coordinator: offers a snapshot. Answered by `want`, or by `done` if the
    /// coordinator already has it.
    Offer {
        /// Chosen by the side that opened the connection.
        channel: u32,
        /// The snapshot.
        manifest: Box<Manifest>,
        /// Possible base trees of a pack, best first.
        bases: Vec<ObjectId>,
    },
    /// Coordinator to client: requests the offered snapshot.
    Want {
        /// Channel of the offer.
        channel: u32,
        /// The base tree, if the coordinator has one of `bases` or the snapshot's own tree.
        base: Option<ObjectId>,
        /// True if the coordinator has the commit at `head` with all its parts.
        head: bool,
        /// Missing parts of the commit at `head`: the commit, its tree, its history, its tags.
        /// `None` if the list would be long, or from a coordinator that does not check. For such a
        /// coordinator, `head` does not cover history and tags.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lacks: Option<Vec<ObjectId>>,
    },
    /// Worker to coordinator: requests a snapshot. Answered by `begin` or `failed`.
    FetchSnapshot {
        /// Chosen by the side that opened the connection.
        channel: u32,
        /// Project of the object cache.
        project: String,
        /// Tree of the snapshot.
        tree: ObjectId,
        /// The commit that was checked out.
        #[serde(default)]
        head: Option<ObjectId>,
        /// Trees that the worker has, most recently used first.
        trees: Vec<ObjectId>,
        /// Obsolete, ignored and always empty. Earlier workers listed complete commits here. The
        /// same commit can have more or less history.
        heads: Vec<ObjectId>,
        /// Checksum of its manifest. If absent, the last used snapshot with this tree and commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<Checksum>,
        /// Snapshots that the worker has, as checksums of their manifests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<Checksum>,
    },
    /// Client to coordinator: requests an artifact. Answered by `begin` or `failed`.
    FetchArtifact {
        /// Chosen by the side that opened the connection.
        channel: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// Path as listed in the result.
        path: String,
    },
    /// Worker to coordinator: requests a program. Answered by `begin` or `failed`.
    FetchProgram {
        /// Chosen by the side that opened the connection.
        channel: u32,
        /// Checksum of the program.
        blake3: Checksum,
    },
    /// Sender to receiver: announces content by length and checksum. Answered by `from`, or by
    /// `done` if the receiver already has it.
    Begin {
        /// Channel of the request, or chosen by the side that opened the connection.
        channel: u32,
        /// The content.
        subject: Subject,
        /// Checksum of all bytes.
        blake3: Checksum,
        /// Number of bytes.
        length: u64,
    },
    /// Receiver to sender: sets the start offset.
    From {
        /// Channel of `begin`.
        channel: u32,
        /// Number of bytes already on disk.
        offset: u64,
    },
    /// Receiver to sender: acknowledges bytes on disk, so that more can be sent.
    Taken {
        /// Channel of `begin`.
        channel: u32,
        /// Bytes from the start.
        offset: u64,
    },
    /// Receiver to sender: the content is complete and verified. This is the last step on the
    /// channel.
    Done {
        /// The channel.
        channel: u32,
    },
    /// Either side: the transfer failed. This is the last step on the channel.
    Failed {
        /// The channel.
        channel: u32,
        /// The error.
        error: LinkError,
    },
}

impl Message {
    /// Returns the channel of the transfer.
    pub const fn channel(&self) -> u32 {
        match self {
            Self::Offer { channel, .. }
            | Self::Want { channel, .. }
            | Self::FetchSnapshot { channel, .. }
            | Self::FetchArtifact { channel, .. }
            | Self::FetchProgram { channel, .. }
            | Self::Begin { channel, .. }
            | Self::From { channel, .. }
            | Self::Taken { channel, .. }
            | Self::Done { channel }
            | Self::Failed { channel, .. } => *channel,
        }
    }
}

#[cfg(test)]
mod tests;
