//! Snapshots, artifacts and how they travel: the same few steps on both links.
//!
//! Whoever has something *begins* with its checksum and length; the receiver answers *from* which offset it wants it;
//! the bytes follow as binary frames ([`crate::frame::BinaryKind::Transfer`]) on the same channel; the receiver says
//! how much it has *taken*, which lets more come, and at the end that it is *done*: complete, verified, on disk. A
//! transfer that was cut is begun again with the same checksum and goes on where the receiver's disk ends. Channels are
//! numbers that the dialling side chooses.

use crate::error::{ErrorCode, LinkError};
use crate::ids::Lease;
use crate::limits;
use crate::spec::Source;
use serde::{Deserialize, Serialize};

mod names;

pub use names::{Checksum, NotHexadecimal, ObjectFormat, ObjectId};

/// A snapshot: which objects belong to it, and what its workspace should know beside the files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Whose object cache it goes to.
    pub project: String,
    /// The working tree.
    pub tree: ObjectId,
    /// The commit that was checked out, if there was one.
    #[serde(default)]
    pub head: Option<Head>,
    /// Ignore patterns that are not in the tree: the user's own and those of `.buildpoolignore`. What they match is
    /// kept in a workspace as a build product.
    #[serde(default)]
    pub excludes: String,
    /// Files of the commit that are not in the tree although nobody deleted them, and directories of such with `/` behind: those
    /// outside of a sparse checkout, and what `.buildpoolignore` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// Files in the tree.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
}

/// By what a job and a worker ask for a snapshot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SnapshotName {
    /// The working tree.
    pub tree: ObjectId,
    /// The commit that was checked out.
    pub head: Option<ObjectId>,
    /// The checksum of its manifest. None from a peer that does not name it: then whichever of these was used last.
    pub manifest: Option<Checksum>,
}

impl SnapshotName {
    /// The snapshot that a job runs on; none for a job on other files.
    ///
    /// # Errors
    /// When what names it is no id or checksum.
    pub fn of(source: &Source) -> Result<Option<Self>, NotHexadecimal> {
        let Source::Snapshot { id, head, manifest, .. } = source else { return Ok(None) };
        Ok(Some(Self {
            tree: id.parse()?,
            head: head.as_deref().map(str::parse).transpose()?,
            manifest: manifest.as_deref().map(str::parse).transpose()?,
        }))
    }
}

/// What git answers from in a workspace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// What `HEAD` is.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The branch, unless detached.
    #[serde(default)]
    pub branch: Option<String>,
    /// Earlier commits back to the nearest tag, without their trees: what `git describe` counts.
    #[serde(default)]
    pub history: Vec<ObjectId>,
    /// Tags on any of these commits.
    #[serde(default)]
    pub tags: Vec<Tag>,
    /// Commits of these whose parents stay behind.
    #[serde(default)]
    pub shallow: Vec<ObjectId>,
}

/// A tag by its name without `refs/tags/`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// The tag object, or the commit for a light one.
    pub object: ObjectId,
}

impl Manifest {
    /// Checks what a type cannot: sizes and names.
    ///
    /// # Errors
    /// The first field that is wrong, and what would be valid.
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
                return invalid(format!("head: `{}` is no valid branch or tag name", name.escape_debug()));
            }
        }
        Ok(())
    }
}

/// Whether this can be the name of a branch or tag, by the rules of `git check-ref-format`.
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

/// What a transfer carries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A pack with what the receiver lacks of a snapshot.
    Snapshot {
        /// Of which.
        manifest: Box<Manifest>,
        /// The tree that the pack builds on; none for a pack that stands alone.
        base: Option<ObjectId>,
    },
    /// A file that a job made.
    Artifact {
        /// By which attempt.
        lease: Lease,
        /// Relative to the command's directory.
        path: String,
    },
}

/// One step of a transfer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Message {
    /// Client: I have this snapshot. Answered by `want`, or by `done` when it is there already.
    Offer {
        /// Chosen by the dialling side.
        channel: u32,
        /// What.
        manifest: Box<Manifest>,
        /// Trees that a pack could build on, the best one first.
        bases: Vec<ObjectId>,
    },
    /// Coordinator: send it.
    Want {
        /// Of the offer.
        channel: u32,
        /// The tree to build on, if one of `bases` or the snapshot's own is here.
        base: Option<ObjectId>,
        /// Whether the commit at `head` is here, with all that belongs to it.
        head: bool,
        /// What is not here of the commit at `head`: the commit, its tree, its history, its tags. None from a coordinator that
        /// does not look, whose word for the commit says nothing of history and tags; and where it would be long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lacks: Option<Vec<ObjectId>>,
    },
    /// Worker: send me this snapshot. Answered by `begin` or `failed`.
    FetchSnapshot {
        /// Chosen by the dialling side.
        channel: u32,
        /// Whose cache.
        project: String,
        /// Which.
        tree: ObjectId,
        /// With which commit checked out.
        #[serde(default)]
        head: Option<ObjectId>,
        /// Trees that are here, the most recently used one first.
        trees: Vec<ObjectId>,
        /// Commits that are here with all that belongs to them, as workers once counted them. Not looked at any more, and empty:
        /// of one commit there can be more and less history.
        heads: Vec<ObjectId>,
        /// The checksum of its manifest; if absent, the one of this tree and commit that was used last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<Checksum>,
        /// Snapshots that are here, by the checksums of their manifests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<Checksum>,
    },
    /// Client: send me this artifact. Answered by `begin` or `failed`.
    FetchArtifact {
        /// Chosen by the dialling side.
        channel: u32,
        /// An id or a unique prefix of one.
        job: String,
        /// As listed in the result.
        path: String,
    },
    /// The side that has it: this many bytes with this checksum.
    Begin {
        /// Of the request, or chosen by the dialling side.
        channel: u32,
        /// What they are.
        subject: Subject,
        /// Over all of them.
        blake3: Checksum,
        /// How many.
        length: u64,
    },
    /// The side that wants it: send from here.
    From {
        /// Of `begin`.
        channel: u32,
        /// Bytes that are on its disk already.
        offset: u64,
    },
    /// The side that wants it: up to here it is on disk; lets more come.
    Taken {
        /// Of `begin`.
        channel: u32,
        /// Bytes from the start.
        offset: u64,
    },
    /// The side that wants it: complete and verified. Nothing more comes for this channel.
    Done {
        /// Which.
        channel: u32,
    },
    /// Either side: this does not come about. Nothing more comes for this channel.
    Failed {
        /// Which.
        channel: u32,
        /// Why.
        error: LinkError,
    },
}

impl Message {
    /// Which transfer this is about.
    pub const fn channel(&self) -> u32 {
        match self {
            Self::Offer { channel, .. }
            | Self::Want { channel, .. }
            | Self::FetchSnapshot { channel, .. }
            | Self::FetchArtifact { channel, .. }
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
