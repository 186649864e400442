//! The files of a job: those on disk if the pool is on this machine, else a snapshot.

use super::ToolError;
use buildpool_client::Client;
use buildpool_client::snapshot;
use buildpool_protocol::report::SnapshotInfo;
use buildpool_protocol::spec::{OWN_VARIABLES, Setup, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The source of a job, with its project.
pub(super) struct JobSource {
    pub(super) source: Source,
    /// Key of the history of its commands.
    pub(super) project: String,
    pub(super) in_place: bool,
    pub(super) info: Option<SnapshotInfo>,
    pub(super) setup: Option<Setup>,
}

/// Returns the source for a command in this directory.
pub(super) async fn of(client: &Client, directory: &Path) -> Result<JobSource, ToolError> {
    if client.pool().local {
        return Ok(JobSource {
            source: Source::InPlace { directory: directory.to_string_lossy().into_owned() },
            project: project_of(directory).to_string_lossy().into_owned(),
            in_place: true,
            info: None,
            setup: None,
        });
    }
    let options = snapshot::Options::new(directory);
    let snapshot = snapshot::take_and_deliver(client, options)
        .await
        .map_err(|error| ToolError::Snapshot(buildpool_client::chain(&error)))?;
    Ok(JobSource {
        source: snapshot.source(),
        project: snapshot.manifest.project.clone(),
        in_place: false,
        info: Some(snapshot.info()),
        setup: snapshot.setup.clone(),
    })
}

/// Returns the root of the repository around a directory, else the directory.
pub(super) fn project_of(directory: &Path) -> PathBuf {
    let root = directory.ancestors().find(|place| place.join(".git").exists());
    root.unwrap_or(directory).to_owned()
}

/// Returns the environment of a job in place: that of this process without the pool's own
/// variables, and the variables of the caller.
pub(super) fn environment(directory: &Path, added: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ours = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !name.starts_with(OWN_VARIABLES));
    let mut variables: BTreeMap<String, String> = ours.collect();
    variables.insert("PWD".to_owned(), directory.to_string_lossy().into_owned());
    variables.extend(added.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

#[cfg(test)]
mod tests {
    use super::environment;
    use std::collections::BTreeMap;
    use std::path::Path;

    #[test]
    fn the_pools_own_variables_stay_at_home() {
        let added = BTreeMap::from([("PATH".to_owned(), "/x".to_owned())]);
        let variables = environment(Path::new("/p"), &added);
        assert_eq!(variables["PATH"], "/x");
        assert!(!variables.keys().any(|name| name.starts_with("BUILDPOOL_")));
    }
}
