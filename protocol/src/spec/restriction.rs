//! Limits of a submit token.

use super::{JobSpec, Selector, Source, SpecError, check_name};
use crate::limits::{LIST_MAX, NAME_BYTES_MAX, PROJECT_BYTES_MAX, TEXT_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The jobs that a token may read: results, logs, findings, artifacts, and entries of lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// All jobs of the pool.
    #[default]
    All,
    /// The jobs that were submitted under the name of the token.
    Own,
}

impl Reads {
    /// Returns true for [`Reads::All`].
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Own => "own",
        })
    }
}

impl FromStr for Reads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            "own" => Ok(Self::Own),
            _ => Err("valid are all and own"),
        }
    }
}

/// Where the jobs of a token may run, on which projects, and which jobs the token may read. An empty
/// list is no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Restriction {
    /// The only workers, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Labels that a worker needs, in addition to those of the job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Selector>,
    /// The only projects, as snapshots name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<String>,
    /// The jobs that the token may read.
    #[serde(skip_serializing_if = "Reads::is_all")]
    pub reads: Reads,
}

impl Restriction {
    /// Returns true if there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks names and lengths.
    ///
    /// # Errors
    /// The first invalid field, with its valid values.
    pub fn check(&self) -> Result<(), SpecError> {
        for (field, length) in [
            ("only_worker", self.workers.len()),
            ("only_label", self.labels.len()),
            ("only_project", self.projects.len()),
        ] {
            if length > LIST_MAX {
                return Err(SpecError::new(field, format!("{length} given; at most {LIST_MAX} are valid")));
            }
        }
        self.workers.iter().try_for_each(|name| check_name("only_worker", name))?;
        for selector in &self.labels {
            check_name("only_label", &selector.key)?;
            if selector.value.as_ref().is_some_and(|value| value.len() > TEXT_BYTES_MAX) {
                return Err(SpecError::new("only_label", format!("longer than {TEXT_BYTES_MAX} bytes")));
            }
        }
        let is_wrong = |project: &&String| project.is_empty() || project.len() > PROJECT_BYTES_MAX;
        if self.projects.iter().any(|project| is_wrong(&project)) {
            return Err(SpecError::new("only_project", format!("1 to {PROJECT_BYTES_MAX} bytes are valid")));
        }
        let bytes: usize = self.workers.iter().chain(&self.projects).map(String::len).sum();
        if bytes > 64 * NAME_BYTES_MAX {
            let most = 64 * NAME_BYTES_MAX;
            return Err(SpecError::new("only", format!("{bytes} bytes together; at most {most} are valid")));
        }
        Ok(())
    }

    /// Returns the reason if a job is not on one of the projects. A job without a snapshot has no project.
    pub fn excludes(&self, spec: &JobSpec) -> Option<String> {
        let is_named = match &spec.source {
            Source::Snapshot { project, .. } => self.projects.contains(project),
            Source::InPlace { .. } | Source::Empty => false,
        };
        (!self.projects.is_empty() && !is_named)
            .then(|| format!("the token is restricted to snapshots of {}", self.projects.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Restriction;
    use crate::limits::LIST_MAX;
    use crate::spec::{Command, JobSpec, Source};

    #[test]
    fn a_job_outside_of_the_projects_is_excluded() {
        let job = |source| JobSpec::new(Command::Shell("true".into()), source);
        let snapshot = |project: &str| {
            let (id, project, directory) = ("1".repeat(40), project.into(), String::new());
            job(Source::Snapshot { id, project, directory, head: None, manifest: None })
        };
        let only = Restriction { projects: vec!["example.org/app".into()], ..Restriction::default() };
        assert_eq!(only.excludes(&snapshot("example.org/app")), None);
        for other in [snapshot("example.org/other"), job(Source::Empty)] {
            assert!(only.excludes(&other).is_some_and(|reason| reason.contains("example.org/app")));
            assert_eq!(Restriction::default().excludes(&other), None);
        }
    }

    #[test]
    fn what_is_too_long_or_no_name_is_refused() {
        let workers = |workers: Vec<String>| Restriction { workers, ..Restriction::default() };
        assert_eq!(workers(vec!["mac-1".into()]).check(), Ok(()));
        let wrong = |restriction: Restriction| restriction.check().expect_err("wrong").to_string();
        assert!(wrong(workers(vec!["a b".into()])).contains("only_worker"));
        assert!(wrong(workers(vec!["a".into(); LIST_MAX + 1])).contains("at most"));
        let projects = vec![String::new()];
        assert!(wrong(Restriction { projects, ..Restriction::default() }).contains("only_project"));
    }
}
