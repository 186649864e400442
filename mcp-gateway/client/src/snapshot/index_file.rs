//! Parser of git's index: paths with sizes and flags. Supports versions 2 to 4 as in git's
//! `index-format` documentation. No I/O.

/// A parsed index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct IndexFile {
    /// In git's order: by path bytes, then stage.
    pub(super) entries: Vec<IndexEntry>,
    /// Id of the shared index that this split index extends.
    pub(super) shared: Option<String>,
}

/// An index entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct IndexEntry {
    /// Path relative to the top, in bytes.
    pub(super) path: Vec<u8>,
    /// Type and permissions in git's form: `0o100644`, `0o120000`, `0o160000` …
    pub(super) mode: u32,
    /// Object id in hexadecimal.
    pub(super) id: String,
    /// File size when the entry was recorded, modulo 2³².
    pub(super) size: u32,
    /// 0, or 1 to 3 in a conflict.
    pub(super) stage: u8,
    /// The user set `assume-unchanged`.
    pub(super) assume_valid: bool,
    /// Outside the sparse checkout.
    pub(super) skip_worktree: bool,
    /// Added with `git add -N`.
    pub(super) intent_to_add: bool,
}

/// Mode of a submodule or nested repository.
pub(super) const GITLINK: u32 = 0o160_000;
/// Mode of a whole directory outside the sparse checkout.
pub(super) const SPARSE_DIRECTORY: u32 = 0o040_000;

/// Error for an index that can't be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the index is damaged at byte {offset}: {problem}")]
pub struct IndexError {
    offset: usize,
    problem: &'static str,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, problem: &'static str) -> IndexError {
        IndexError { offset: self.at, problem }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let part =
            end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| self.error("it ends early"))?;
        self.at += count;
        Ok(part)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes(bytes.try_into().expect("two bytes were taken")))
    }

    /// Decodes git's offset encoding: seven bits per byte; each continuation adds one.
    fn varint(&mut self) -> Result<usize, IndexError> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .map(|value| value | usize::from(byte & 0x7f))
                .ok_or_else(|| self.error("a number is too large"))?;
        }
        Ok(value)
    }

    fn until_nul(&mut self) -> Result<&'a [u8], IndexError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = memchr(rest).ok_or_else(|| self.error("a path has no end"))?;
        let part = self.take(length)?;
        self.at += 1;
        Ok(part)
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

/// Parses an index. `hash_bytes` is 20 or 32, by the repository's object format.
///
/// # Errors
/// If the index is damaged or its version is not supported.
pub(super) fn parse(bytes: &[u8], hash_bytes: usize) -> Result<IndexFile, IndexError> {
    let end = bytes.len().saturating_sub(hash_bytes);
    let mut reader = Reader { bytes: bytes.get(..end).unwrap_or_default(), at: 0 };
    if reader.take(4)? != b"DIRC" {
        return Err(IndexError { offset: 0, problem: "it does not begin as one" });
    }
    let version = reader.u32()?;
    if !(2..=4).contains(&version) {
        return Err(reader.error("its version is not 2, 3 or 4"));
    }
    let count = reader.u32()? as usize;
    // An entry has at least 62 bytes. So a wrong count can't reserve more memory than the file size
    // justifies.
    let mut entries: Vec<IndexEntry> = Vec::with_capacity(count.min(end / 62 + 1));
    for _ in 0..count {
        let previous = entries.last().map(|entry| entry.path.as_slice()).unwrap_or_default();
        let entry = parse_entry(&mut reader, version, hash_bytes, previous)?;
        entries.push(entry);
    }
    let mut shared = None;
    while reader.at < end {
        let name = reader.take(4)?;
        let length = reader.u32()? as usize;
        let content = reader.take(length)?;
        if name == b"link" {
            let id = content.get(..hash_bytes).ok_or_else(|| reader.error("its link is short"))?;
            shared = Some(hexadecimal(id)).filter(|id| id.bytes().any(|digit| digit != b'0'));
        }
    }
    Ok(IndexFile { entries, shared })
}

fn parse_entry(
    reader: &mut Reader<'_>,
    version: u32,
    hash_bytes: usize,
    previous: &[u8],
) -> Result<IndexEntry, IndexError> {
    let start = reader.at;
    reader.take(24)?; // ctime, mtime, device, inode
    let mode = reader.u32()?;
    reader.take(8)?; // owner, group
    let size = reader.u32()?;
    let id = hexadecimal(reader.take(hash_bytes)?);
    let flags = reader.u16()?;
    let extended = if version >= 3 && flags & 0x4000 != 0 { reader.u16()? } else { 0 };
    let path = if version == 4 {
        let strip = reader.varint()?;
        let kept = previous.len().checked_sub(strip).ok_or_else(|| reader.error("a path is cut too far"))?;
        [&previous[..kept], reader.until_nul()?].concat()
    } else {
        let path = reader.until_nul()?.to_vec();
        let padding = (8 - (reader.at - start) % 8) % 8;
        reader.take(padding)?;
        path
    };
    Ok(IndexEntry {
        path,
        mode,
        id,
        size,
        stage: (flags >> 12 & 3) as u8,
        assume_valid: flags & 0x8000 != 0,
        skip_worktree: extended & 0x4000 != 0,
        intent_to_add: extended & 0x2000 != 0,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{GITLINK, parse};
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@x", "-c", "core.splitIndex=false"])
            .args(arguments)
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    #[test]
    fn it_reads_what_git_lists_in_every_version_and_format() {
        for format in ["sha1", "sha256"] {
            for version in ["2", "3", "4"] {
                let directory = tempfile::tempdir().unwrap();
                let root = directory.path();
                git(root, &["init", "-q", "--object-format", format]);
                for number in 0..200 {
                    let path = root.join(format!("dir {}/sub/file-{number}.txt", number % 9));
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "x".repeat(number)).unwrap();
                }
                git(root, &["add", "-A"]);
                fs::write(root.join("announced"), "").unwrap();
                git(root, &["add", "-N", "announced"]);
                git(root, &["update-index", "--assume-unchanged", "dir 1/sub/file-1.txt"]);
                git(root, &["update-index", "--skip-worktree", "dir 2/sub/file-2.txt"]);
                let link = format!("160000,{},module", "1".repeat(if format == "sha1" { 40 } else { 64 }));
                git(root, &["update-index", "--add", "--cacheinfo", &link]);
                git(root, &["update-index", "--index-version", version]);
                let bytes = fs::read(root.join(".git/index")).unwrap();
                let index = parse(&bytes, if format == "sha1" { 20 } else { 32 }).unwrap();
                let listed = String::from_utf8(git(root, &["ls-files", "-s", "-z"])).unwrap();
                let ours: String = index
                    .entries
                    .iter()
                    .map(|e| {
                        let path = String::from_utf8_lossy(&e.path);
                        format!("{:06o} {} {}\t{path}\0", e.mode, e.id, e.stage)
                    })
                    .collect();
                assert_eq!(ours, listed, "version {version}");
                let with = |path: &str| index.entries.iter().find(|e| e.path == path.as_bytes()).unwrap();
                assert!(with("announced").intent_to_add && with("dir 1/sub/file-1.txt").assume_valid);
                assert!(with("dir 2/sub/file-2.txt").skip_worktree && with("module").mode == GITLINK);
                assert_eq!(with("dir 8/sub/file-17.txt").size, 17);
                for cut in (0..bytes.len()).step_by(97) {
                    parse(&bytes[..cut], 20).unwrap_err();
                }
            }
        }
    }
}
