//! The submitter of a job, its trust class, and the workers that may run it.

use super::{JobSpec, Selector, Source};
use serde::{Deserialize, Serialize};

/// The submitter's trust class and the limits of its token. The coordinator writes this at submit, in place of anything that
/// a client sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Access {
    /// The trust class. Jobs of two classes never share a workspace, a home directory or a cache. Empty on a local pool,
    /// which has one class, and in the records of older versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// The submitter and its team: the names that a worker's `accepts` can list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The only workers that may run the job, by name; any worker if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Labels that a worker needs, in addition to those of the job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Selector>,
    /// The submitter's token reads its own jobs only. So the result uses nothing from the jobs of others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_own: bool,
}

impl Access {
    /// Returns the only submitter whose jobs the result may use, or `None` for those of the pool.
    pub fn only_submitter(&self) -> Option<&str> {
        self.names.first().filter(|_| self.reads_own).map(String::as_str)
    }

    /// Whether nothing is set, as on a local pool.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// Names the workspaces of a project within a trust class.
pub fn workspace_key(class: &str, project: &str) -> String {
    // A class has no spaces.
    if class.is_empty() { project.to_owned() } else { format!("{class} {project}") }
}

impl JobSpec {
    /// The workspaces that the job can use, as [`workspace_key`] names them. Empty for a job without a snapshot.
    pub fn workspace_key(&self) -> Option<String> {
        match &self.source {
            Source::Snapshot { project, .. } => Some(workspace_key(&self.access.class, project)),
            Source::InPlace { .. } | Source::Empty => None,
        }
    }
}
