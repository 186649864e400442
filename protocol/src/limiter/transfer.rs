//! Limits of the steps of a transfer.

use super::{Limited, Limiter};
use crate::limits::{BASES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PROJECT_BYTES_MAX};
use crate::transfer::{Message, Subject};

impl Limited for Message {
    fn limit(&mut self, limiter: &mut Limiter) {
        match self {
            Self::Offer { channel: _, manifest, bases } => {
                limiter.result(manifest.check());
                limiter.count("bases", bases.len(), BASES_MAX);
            }
            Self::Want { channel: _, base: _, head: _, lacks } => {
                limiter.count("lacks", lacks.as_ref().map_or(0, Vec::len), BASES_MAX);
            }
            Self::FetchSnapshot {
                channel: _,
                project,
                tree: _,
                head: _,
                trees,
                heads,
                manifest: _,
                known,
            } => {
                limiter.name("project", project, PROJECT_BYTES_MAX);
                limiter.count("trees", trees.len(), BASES_MAX);
                limiter.count("heads", heads.len(), BASES_MAX);
                limiter.count("known", known.len(), BASES_MAX);
            }
            Self::FetchArtifact { channel: _, job, path } => {
                limiter.name("job", job, NAME_BYTES_MAX);
                limiter.name("artifact", path, PATH_BYTES_MAX);
            }
            // The receiver checks the length and each offset against its own limits and its file.
            Self::Begin { channel: _, subject, blake3: _, length: _ } => match subject {
                Subject::Snapshot { manifest, base: _ } => limiter.result(manifest.check()),
                Subject::Artifact { lease: _, path } => limiter.name("artifact", path, PATH_BYTES_MAX),
                Subject::Program => {}
            },
            Self::FetchProgram { channel: _, blake3: _ }
            | Self::From { channel: _, offset: _ }
            | Self::Taken { channel: _, offset: _ }
            | Self::Done { channel: _ } => {}
            Self::Failed { channel: _, error } => error.limit(limiter),
        }
    }
}
