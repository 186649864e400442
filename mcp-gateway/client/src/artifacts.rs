//! Downloads artifacts: verifies them, resumes after an interruption, and never writes outside the
//! given directory.

use crate::{Client, ClientError, Transfer};
use buildpool_objects::incoming::Received;
use buildpool_objects::pump::{self, Announced, Channel as _, Event, Progress, PumpError};
use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::transfer::Message;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Number of attempts without progress after which a download fails.
const TRIES_MAX: u32 = 10;
/// First delay between attempts; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Reason why an artifact could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// An error of the link.
    #[error(transparent)]
    Client(ClientError),
    /// An error during the transfer.
    #[error(transparent)]
    Pump(PumpError),
    /// The path leads out of the directory, or through a link.
    #[error(
        "`{}` leads out of the directory, or something else than a directory is in its way",
        .path.escape_debug()
    )]
    Path {
        /// Path of the artifact.
        path: String,
    },
    /// The file would be in a git directory.
    #[error(
        "`{}` is in a git directory, and git trusts and runs files there; fetch into another directory",
        .path.escape_debug()
    )]
    GitDirectory {
        /// Path of the artifact, or the target directory.
        path: String,
    },
    /// This file system treats the path as that of another existing file.
    #[error(
        "`{}` and `{}` are one file on this disk, which ignores case; fetch into another directory",
        .path.escape_debug(),
        .other.escape_debug()
    )]
    SameAs {
        /// Path of the artifact.
        path: String,
        /// Name of the existing file.
        other: String,
    },
    /// An error of the local file system.
    #[error("{} can't be written", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl<E: Into<PumpError>> From<E> for FetchError {
    fn from(error: E) -> Self {
        Self::Pump(error.into())
    }
}

/// Whether files that are executable in the job stay executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executables {
    /// No file is executable.
    Clear,
    /// Keep the executable bit of the job.
    Keep,
}

/// Downloads one artifact of a job into `directory`, under its own path, and returns its location.
/// An existing file with the same content is kept, another one is replaced. Nothing is written into
/// a git directory. The file is executable only if it was in the job and `executables` allows it.
///
/// # Errors
/// See [`FetchError`].
pub async fn fetch(
    client: &Client,
    job: &str,
    entry: &ArtifactEntry,
    directory: &Path,
    executables: Executables,
) -> Result<PathBuf, FetchError> {
    let target = place(directory, &entry.path)?;
    if !has_content(&target, &entry.blake3) {
        if let Some(other) = other_name(&target) {
            return Err(FetchError::SameAs { path: entry.path.clone(), other });
        }
        // The name depends on the content. So it can't collide with an artifact, and a later call
        // resumes the download.
        let staging = directory.join(format!(".buildpool-incoming-{:.16}", entry.blake3));
        if let Some(received) = receive(client, job, entry, &staging, &target).await? {
            let io = |source| FetchError::Io { path: target.clone(), source };
            received.move_to(&target).map_err(io)?;
        }
        // The directory stays if another download into it is running.
        let _still_in_use = fs::remove_dir(&staging);
    }
    let is_executable = entry.executable && executables == Executables::Keep;
    let mode = if is_executable { 0o755 } else { 0o644 };
    let io = |source| FetchError::Io { path: target.clone(), source };
    fs::set_permissions(&target, fs::Permissions::from_mode(mode)).map_err(io)?;
    Ok(target)
}

fn has_content(path: &Path, blake3: &str) -> bool {
    buildpool_objects::incoming::checksum_of(path).is_ok_and(|(found, _)| found.as_str() == blake3)
}

/// Returns the existing file name if it differs from the requested one, as on a case-insensitive
/// file system.
fn other_name(path: &Path) -> Option<String> {
    fs::symlink_metadata(path).ok()?;
    let present = fs::read_dir(path.parent()?).ok()?.flatten().map(|entry| entry.file_name());
    name_beside(path.file_name()?.to_str()?, present.filter_map(|name| name.into_string().ok()))
}

/// Returns the name that a case-insensitive file system matches with `name`, if the exact name does
/// not exist.
fn name_beside(name: &str, present: impl Iterator<Item = String>) -> Option<String> {
    let mut other = None;
    for found in present {
        if found == name {
            return None;
        }
        if found.to_lowercase() == name.to_lowercase() {
            other = Some(found);
        }
    }
    other
}

/// Returns `None` if another process has downloaded the file to the same place meanwhile.
async fn receive(
    client: &Client,
    job: &str,
    entry: &ArtifactEntry,
    staging: &Path,
    target: &Path,
) -> Result<Option<Received>, FetchError> {
    let mut pause = PAUSE;
    let mut tries = 0;
    let mut progress = Progress::default();
    loop {
        let mut transfer = client.transfer().await.map_err(FetchError::Client)?;
        let result = once(&mut transfer, job, entry, (staging, target), &mut progress).await;
        (tries, pause) = if progress.has_grown() { (1, PAUSE) } else { (tries + 1, pause) };
        match result {
            Err(FetchError::Pump(error)) if error.is_worth_a_retry() && tries < TRIES_MAX => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            result => return result,
        }
    }
}

async fn once(
    transfer: &mut Transfer,
    job: &str,
    entry: &ArtifactEntry,
    (staging, target): (&Path, &Path),
    progress: &mut Progress,
) -> Result<Option<Received>, FetchError> {
    let channel = transfer.number();
    let request = Message::FetchArtifact { channel, job: job.to_owned(), path: entry.path.clone() };
    pump::Channel::send_step(transfer, request).await?;
    let (blake3, length) = match pump::Channel::next(transfer).await? {
        Event::Step(Message::Begin { blake3, length, .. }) => (blake3, length),
        Event::Step(Message::Failed { error, .. }) => return Err(PumpError::Refused(error).into()),
        Event::Step(_) | Event::Bytes { .. } => {
            return Err(PumpError::Misbehaved("something else than an answer to a fetch").into());
        }
    };
    if blake3.as_str() != entry.blake3 || length != entry.bytes {
        return Err(PumpError::Misbehaved("another artifact than the requested one").into());
    }
    let announced = Announced { blake3, length, limit: TRANSFER_BYTES_MAX };
    let (target, content) = (target.to_owned(), entry.blake3.clone());
    let is_here = move || has_content(&target, &content);
    let received = pump::receive(transfer, staging.to_owned(), announced, progress, is_here).await?;
    pump::Channel::send_step(transfer, Message::Done { channel }).await?;
    Ok(received)
}

/// Resolves the links in the existing part of a path.
fn real(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    for present in absolute.ancestors() {
        match present.canonicalize() {
            Ok(real) => return Ok(real.join(absolute.strip_prefix(present).unwrap_or(Path::new("")))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(absolute)
}

/// Returns true if a file system can treat this name as `.git`. APFS and HFS+ ignore case; HFS+
/// ignores these characters too (Apple Technical Note TN1150, "Case-Insensitive String Comparison
/// Algorithm"; git's `core.protectHFS`).
fn is_git_directory(name: &OsStr) -> bool {
    let is_ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.to_string_lossy().chars().filter(|c| !is_ignored(*c)).collect();
    name.eq_ignore_ascii_case(".git")
}

/// Returns the location of an artifact below a directory. Creates the directories on the way, and
/// follows no link.
fn place(directory: &Path, path: &str) -> Result<PathBuf, FetchError> {
    let wrong = || FetchError::Path { path: path.to_owned() };
    let parts: Vec<_> = Path::new(path).components().collect();
    if parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(wrong());
    }
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| FetchError::Io { path, source }
    };
    if parts.iter().any(|part| is_git_directory(part.as_os_str())) {
        return Err(FetchError::GitDirectory { path: path.to_owned() });
    }
    if real(directory).map_err(io(directory))?.iter().any(is_git_directory) {
        return Err(FetchError::GitDirectory { path: directory.to_string_lossy().into_owned() });
    }
    fs::create_dir_all(directory).map_err(io(directory))?;
    let mut at = directory.to_owned();
    for part in &parts[..parts.len() - 1] {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(wrong()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&at).map_err(io(&at))?,
            Err(error) => return Err(io(&at)(error)),
        }
    }
    at.push(parts[parts.len() - 1]);
    match fs::symlink_metadata(&at) {
        Ok(metadata) if !metadata.is_file() => Err(wrong()),
        _ => Ok(at),
    }
}

#[cfg(test)]
mod tests {
    use super::{FetchError, name_beside, place};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_by_the_same_name_in_other_letters_is_another_one() {
        let present =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into_iter();
        assert_eq!(name_beside("a", present(&["b", "A"])), Some("A".to_owned()));
        assert_eq!(name_beside("a", present(&["A", "a"])), None);
        assert_eq!(name_beside("a", present(&["b"])), None);
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("out");
        let outside = root.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        assert_eq!(place(&directory, "a/b/c.txt").unwrap(), directory.join("a/b/c.txt"));
        assert!(directory.join("a/b").is_dir());
        symlink(&outside, directory.join("link")).unwrap();
        symlink(outside.join("file"), directory.join("file-link")).unwrap();
        fs::write(directory.join("plain"), "x").unwrap();
        for path in
            ["../x", "/etc/passwd", "a/../../x", "", ".", "link/x", "link", "file-link", "plain/x", "a/b"]
        {
            assert!(matches!(place(&directory, path), Err(FetchError::Path { .. })), "{path}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_into_a_git_directory() {
        let root = tempfile::tempdir().unwrap();
        let repository = root.path().join("repository");
        fs::create_dir_all(repository.join(".git/hooks")).unwrap();
        for path in [".git/hooks/pre-commit", "a/.GIT/config", ".g\u{200c}it/config", ".git"] {
            let refused = place(&repository, path);
            assert!(matches!(refused, Err(FetchError::GitDirectory { .. })), "{path}: {refused:?}");
        }
        symlink(repository.join(".git"), root.path().join("link")).unwrap();
        for directory in
            [repository.join(".git/new"), root.path().join("link/hooks"), root.path().join("link/new")]
        {
            let refused = place(&directory, "pre-commit");
            assert!(matches!(refused, Err(FetchError::GitDirectory { .. })), "{directory:?}: {refused:?}");
        }
        assert!(!repository.join(".git/new").exists() && !repository.join("a").exists());
        place(&repository, ".gitignore").unwrap();
        place(&repository, "src/x.git/y").unwrap();
    }
}
