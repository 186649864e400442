//! The last failed upgrade, in a file, so that the program that was started again reports it.

use super::directory;
use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Limit on the file, in bytes.
const BYTES_MAX: u64 = 64 << 10;

fn path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("failed.json")
}

/// Records a failure.
///
/// # Errors
/// Errors of the disk.
pub fn write(data_dir: &Path, failed: &UpgradeState) -> io::Result<()> {
    fs::create_dir_all(directory(data_dir))?;
    let beside = path(data_dir).with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(&serde_json::to_vec(failed)?)?;
    file.sync_all()?;
    fs::rename(beside, path(data_dir))
}

/// Returns the last failure, unless this program has the version that failed. An unreadable file counts as none.
pub fn read(data_dir: &Path, own_version: &str) -> Option<UpgradeState> {
    let path = path(data_dir);
    fs::metadata(&path).ok().filter(|found| found.len() <= BYTES_MAX)?;
    let found: UpgradeState = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    (found.version != own_version && found.stage == UpgradeStage::Failed).then_some(found)
}

/// Removes the record.
pub fn remove(data_dir: &Path) {
    // A record that stays is replaced by the next failure, and ignored by the version that it names.
    let _missing = fs::remove_file(path(data_dir));
}

#[cfg(test)]
mod tests {
    use super::{path, read, remove, write};
    use buildpool_protocol::ids::UpgradeId;
    use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};

    #[test]
    fn a_failure_is_read_back_by_another_version_only() {
        let data = tempfile::tempdir().expect("a directory");
        assert_eq!(read(data.path(), "0.1.0"), None);
        let failed = UpgradeState {
            id: UpgradeId::from_uuid(uuid::Uuid::now_v7()),
            version: "0.2.0".into(),
            stage: UpgradeStage::Failed,
            reason: "it did not register".into(),
        };
        write(data.path(), &failed).expect("written");
        assert_eq!(read(data.path(), "0.1.0"), Some(failed));
        assert_eq!(read(data.path(), "0.2.0"), None);
        std::fs::write(path(data.path()), "{").expect("damaged");
        assert_eq!(read(data.path(), "0.1.0"), None);
        remove(data.path());
        assert!(!path(data.path()).exists());
    }
}
