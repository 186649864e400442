//! The files of a release in a directory: archives of programs, and `SHA256SUMS`.

use crate::failure::{Failure, POOL, USAGE};
use buildpool_protocol::limits::PROGRAM_BYTES_MAX;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Limit on `SHA256SUMS`, in bytes.
const SUMS_BYTES_MAX: u64 = 1 << 20;

/// A release.
pub(crate) struct Release {
    directory: PathBuf,
    version: String,
    /// SHA-256 of the archive of each target, in hexadecimal.
    sums: BTreeMap<String, String>,
}

/// Begin of the name of a temporary file with a program. The id of its process follows.
const TEMPORARY: &str = "buildpool-upgrade-";

/// A program in a temporary file, removed on drop.
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A file that stays is in the directory of temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

impl Release {
    /// Reads the checksums of a release.
    ///
    /// # Errors
    /// `SHA256SUMS` can't be read, or names no program of this version.
    pub(crate) fn open(directory: &Path, version: &str) -> Result<Self, Failure> {
        let path = directory.join("SHA256SUMS");
        let unreadable = |error: &io::Error| {
            Failure::while_doing(USAGE, format!("--release: {} can't be read", path.display()), error)
        };
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| unreadable(&error))?;
        file.take(SUMS_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
        let sums = sums_of(&text, version);
        if sums.is_empty() {
            let text = format!(
                "--release: {} names no buildpool-{version}-TARGET.tar.gz; name the directory with the files of release {version}",
                path.display()
            );
            return Err(Failure::new(USAGE, text));
        }
        Ok(Self { directory: directory.to_owned(), version: version.to_owned(), sums })
    }

    /// Returns the targets whose archives are in the directory.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.sums.keys().filter(|target| self.archive(target).is_file()).cloned().collect()
    }

    fn name(&self, target: &str) -> String {
        format!("buildpool-{}-{target}", self.version)
    }

    fn archive(&self, target: &str) -> PathBuf {
        self.directory.join(format!("{}.tar.gz", self.name(target)))
    }

    /// Verifies the archive of a target, and unpacks its program.
    ///
    /// # Errors
    /// The archive has another checksum, or no program.
    pub(crate) fn unpack(&self, target: &str) -> Result<Program, Failure> {
        let archive = self.archive(target);
        let failed = |error: &io::Error| {
            Failure::while_doing(USAGE, format!("--release: {} can't be read", archive.display()), error)
        };
        // `tar` reads the file that is verified here, even if another one gets its name meanwhile.
        let mut verified = File::open(&archive).map_err(|error| failed(&error))?;
        let found = sha256(&mut verified).map_err(|error| failed(&error))?;
        verified.rewind().map_err(|error| failed(&error))?;
        let expected = self.sums.get(target).map(String::as_str).unwrap_or_default();
        if found != expected {
            let text = format!(
                "--release: {} has the SHA-256 {found}, and SHA256SUMS states {expected}; download the release again",
                archive.display()
            );
            return Err(Failure::new(USAGE, text));
        }
        let directory = std::env::temp_dir();
        remove_left(&directory);
        let path = directory.join(format!("{TEMPORARY}{}-{target}", std::process::id()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let unwritten = |error: &io::Error| {
            Failure::while_doing(POOL, format!("{} can't be written", path.display()), error)
        };
        let mut file = written.map_err(|error| unwritten(&error))?;
        let program = Program(path.clone());
        let member = format!("{}/buildpool", self.name(target));
        let mut tar = Command::new("tar");
        tar.args(["-xzOf", "-"]).arg(&member).stdin(verified).stdout(Stdio::piped());
        let mut tar =
            tar.spawn().map_err(|error| Failure::while_doing(POOL, "`tar` can't be started", &error))?;
        let mut copied = 0;
        if let Some(out) = tar.stdout.take() {
            copied = io::copy(&mut out.take(PROGRAM_BYTES_MAX + 1), &mut file)
                .map_err(|error| unwritten(&error))?;
        }
        // `tar` ends because its output is closed, if it still writes.
        let status =
            tar.wait().map_err(|error| Failure::while_doing(POOL, "`tar` can't be awaited", &error))?;
        if copied == 0 || copied > PROGRAM_BYTES_MAX || !status.success() {
            let text = format!(
                "--release: {} has no program {member} of 1 to {PROGRAM_BYTES_MAX} bytes ({copied} bytes, tar: {status})",
                archive.display()
            );
            return Err(Failure::new(USAGE, text));
        }
        Ok(program)
    }
}

/// Removes the programs of processes that were killed. Files of other users stay.
fn remove_left(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(TEMPORARY)?.split('-').next()?.parse().ok());
        // Without a signal, the call only checks whether the process exists (kill(2)).
        let has_ended = |process: i32| process > 0 && kill(Pid::from_raw(process), None) == Err(Errno::ESRCH);
        if process.is_some_and(has_ended) {
            // A file that stays is in the directory of temporary files.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the checksums of the archives of a version, by target.
fn sums_of(text: &str, version: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let (sum, file) = line.split_once("  ")?;
        let target = file
            .strip_prefix("buildpool-")?
            .strip_prefix(version)?
            .strip_prefix('-')?
            .strip_suffix(".tar.gz")?;
        let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_target =
            target.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        (is_sum && is_target).then(|| (target.to_owned(), sum.to_ascii_lowercase()))
    };
    text.lines().filter_map(entry).collect()
}

/// Reads a file to its end, and returns its SHA-256 in hexadecimal.
fn sha256(file: &mut impl Read) -> io::Result<String> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{TEMPORARY, remove_left, sha256, sums_of};
    use std::process::Command;

    #[test]
    fn checksums_are_those_of_the_archives_of_the_version() {
        let sum = "0123456789abcdef".repeat(4);
        let text = format!(
            "{sum}  buildpool-0.2.0-aarch64-apple-darwin.tar.gz\n{sum}  buildpool-0.2.0-aarch64-apple-darwin.cdx.json\n\
             {sum}  buildpool-0.1.0-x86_64-apple-darwin.tar.gz\nshort  buildpool-0.2.0-a.tar.gz\n{sum}  buildpool-0.2.0-../x.tar.gz\n"
        );
        let found = sums_of(&text, "0.2.0");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("aarch64-apple-darwin".to_owned(), sum)]);
        assert!(sums_of(&text, "0.3.0").is_empty());
    }

    #[test]
    fn only_programs_of_ended_processes_are_removed() {
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let place = tempfile::tempdir().unwrap();
        let kept =
            [format!("{TEMPORARY}{}-here", std::process::id()), format!("{TEMPORARY}x-here"), "other".into()];
        for name in kept.iter().chain([&format!("{TEMPORARY}{}-here", ended.id())]) {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        remove_left(place.path());
        let mut left: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut kept = kept.map(std::ffi::OsString::from);
        kept.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn a_checksum_is_sha_256() {
        // The first example of FIPS 180-4.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&mut "abc".as_bytes()).unwrap(), expected);
    }
}
