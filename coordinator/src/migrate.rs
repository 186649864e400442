//! Moves a pool from a data directory to PostgreSQL and shared objects, and back. The source stays as it is.
//!
//! Each step skips rows and objects that exist already, so an interrupted migration continues when it is called again. At the end, all rows
//! are compared with the source, and all objects are read again. Before that, no coordinator starts on the target.
//! The history of tests and the certificate stay in the data directory. The logs of running attempts are not copied:
//! their workers send them again.

use crate::stdin::{export_input, import_input, inputs_in};
use crate::store::{
    Databases, Kind, LogError, Lookup, ObjectError, Objects, ObjectsUrl, Reader, Server, StoreError,
    export_logs, hold_directory, import_log,
};
use crate::transfer::TransferStore;
use buildpool_objects::CacheError;
use buildpool_protocol::ids::AttemptId;
use std::io;
use std::path::Path;

/// Numbers of the moved and checked parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Rows by table.
    pub rows: Vec<(String, u64)>,
    /// Number of logs, snapshots, artifacts and parts of inputs.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ended attempts with a damaged log, which stays in the source.
    pub damaged_logs: Vec<AttemptId>,
}

/// Reason why a migration failed. It may be called again.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Records can't be read or written.
    #[error("can't move the records")]
    Store(#[from] StoreError),
    /// Logs can't be read or written.
    #[error("can't move the logs")]
    Log(#[from] LogError),
    /// Objects can't be read or written.
    #[error("can't move the objects")]
    Objects(#[from] ObjectError),
    /// Snapshots can't be read or written.
    #[error("can't move the snapshots")]
    Snapshots(#[from] CacheError),
    /// A file can't be read or written.
    #[error("can't move the files of jobs")]
    File(#[from] io::Error),
}

fn objects(url: &ObjectsUrl, directory: &Path, server: &Server) -> Result<Objects, MigrateError> {
    let reader = Reader::on_server(server);
    Ok(Objects::for_migration(url, directory, reader, std::env::vars())?)
}

/// Moves a data directory to a server and objects. No coordinator may use either. Blocks for long.
///
/// # Errors
/// [`MigrateError`]
pub fn to_server(directory: &Path, server: &Server, url: &ObjectsUrl) -> Result<Moved, MigrateError> {
    let (source, target) = (Databases::in_directory(directory), Databases::on_server(server));
    source.check_format()?;
    let _lock = hold_directory(directory)?;
    target.begin()?;
    target.copy_from(&source)?;
    let objects = objects(url, directory, server)?;
    let reader = Reader::in_directory(directory);
    let damaged_logs = export_logs(directory, &objects, &reader)?;
    let transfers = TransferStore::new(directory, Some(objects.clone()));
    transfers.export_artifacts()?;
    transfers.export_snapshots()?;
    for job in inputs_in(directory) {
        if let Ok(Lookup::Found(record)) = reader.job(job)
            && record.done.is_none()
        {
            export_input(directory, &objects, job)?;
        }
    }
    let (count, bytes) = objects.verify()?;
    Ok(Moved { rows: target.finish(&source)?, objects: count, bytes, damaged_logs })
}

/// Moves the records of a server and its objects to an empty data directory. No coordinator may use either. Blocks for
/// long.
///
/// # Errors
/// [`MigrateError`]
pub fn to_directory(server: &Server, url: &ObjectsUrl, directory: &Path) -> Result<Moved, MigrateError> {
    crate::store::make_directory(directory)?;
    let _lock = hold_directory(directory)?;
    let (source, target) = (Databases::on_server(server), Databases::in_directory(directory));
    source.refuse_leader()?;
    target.begin()?;
    target.copy_from(&source)?;
    let objects = objects(url, directory, server)?;
    let mut moved = Moved { rows: Vec::new(), objects: 0, bytes: 0, damaged_logs: Vec::new() };
    let transfers = TransferStore::new(directory, Some(objects.clone()));
    for kind in Kind::ALL {
        for owner in objects.owners(kind)? {
            moved.objects += objects.items(kind, &owner.name)?.len() as u64;
            moved.bytes += owner.bytes;
            // Each object is checked while it is read.
            match kind {
                Kind::Log => import_log(directory, &objects, &owner.name)?,
                Kind::Artifact => transfers.import_artifacts(&owner.name)?,
                Kind::Snapshot => transfers.import_snapshots(&owner.name)?,
                Kind::Stdin => import_input(directory, &objects, &owner.name)?,
            }
        }
    }
    moved.rows = target.finish(&source)?;
    Ok(moved)
}
