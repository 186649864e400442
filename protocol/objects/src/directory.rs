//! Creates git directories without `git init`. They contain no template, hook or configuration of
//! the machine. git can read them like any other.

use crate::git::GitError;
use buildpool_protocol::transfer::ObjectFormat;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Attributes that keep the bytes of every file unchanged: no line end conversion, no filter (LFS
/// and others), no keywords, no re-encoding. `info/attributes` overrides every `.gitattributes`.
pub const AS_IT_IS: &str = "* !text !crlf !eol !filter !ident !working-tree-encoding\n";

/// Settings of every git directory that this module writes: unchanged bytes, protection from unsafe
/// names of all platforms, no background tasks.
const ALWAYS: &[(&str, &str)] = &[
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.fsmonitor", "false"),
    ("core.splitIndex", "false"),
    ("core.untrackedCache", "false"),
    ("core.sparseCheckout", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.preferSymlinkRefs", "false"),
    ("index.sparse", "false"),
    ("pack.compression", "1"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Creates or updates a git directory. `settings` are pairs of `section.key` and value. They are
/// written after the default settings.
///
/// # Errors
/// [`GitError::Io`] with the file name.
pub fn write(
    directory: &Path,
    format: ObjectFormat,
    bare: bool,
    settings: &[(String, String)],
) -> Result<(), GitError> {
    lay_out(directory)?;
    let mut config = String::from("[core]\n\trepositoryformatversion = 1\n");
    config.push_str(if bare { "\tbare = true\n" } else { "\tbare = false\n" });
    let own = ALWAYS.iter().map(|(key, value)| (*key, *value));
    for (key, value) in own.chain(settings.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
        let (section, name) = key.split_once('.').unwrap_or(("core", key));
        config.push_str(&format!("[{section}]\n\t{name} = {}\n", quoted(value)));
    }
    config.push_str(&format!("[extensions]\n\tobjectFormat = {}\n", format.name()));
    write_if_different(&directory.join("config"), config.as_bytes())?;
    Ok(())
}

/// Creates everything except the configuration.
pub(crate) fn lay_out(directory: &Path) -> Result<(), GitError> {
    for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        let path = directory.join(part);
        fs::create_dir_all(&path).map_err(GitError::io(format!("creating {}", path.display())))?;
    }
    write_if_different(&directory.join("info/attributes"), AS_IT_IS.as_bytes())?;
    let head = directory.join("HEAD");
    // A crash can leave an empty file, which git does not accept as a repository.
    if !fs::metadata(&head).is_ok_and(|metadata| metadata.len() > 0) {
        write_if_different(&head, b"ref: refs/heads/none\n")?;
    }
    Ok(())
}

/// Makes the objects of other object stores readable in this directory.
///
/// # Errors
/// [`GitError::Io`] with the file name.
pub fn write_alternates(directory: &Path, stores: &[&Path]) -> Result<(), GitError> {
    use std::os::unix::ffi::OsStrExt;
    let mut text = Vec::new();
    for store in stores {
        text.extend_from_slice(quoted_path(store.as_os_str().as_bytes()).as_slice());
        text.push(b'\n');
    }
    write_if_different(&directory.join("objects/info/alternates"), &text)
}

/// Quotes a path for `objects/info/alternates`. C quotes are used if it contains a line end or
/// starts like a comment or quote.
fn quoted_path(path: &[u8]) -> Vec<u8> {
    let plain = !path.contains(&b'\n') && !path.starts_with(b"\"") && !path.starts_with(b"#");
    if plain {
        return path.to_vec();
    }
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'\n' => text.extend_from_slice(b"\\n"),
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            other => text.push(*other),
        }
    }
    text.push(b'"');
    text
}

/// Quotes a value for git's configuration.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// Writes a file atomically with a rename. Does nothing if the file already has this content.
///
/// # Errors
/// [`GitError::Io`] with the file name.
pub fn write_if_different(path: &Path, content: &[u8]) -> Result<(), GitError> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    replace(path, content).map_err(GitError::io(format!("writing {}", path.display())))
}

/// Counter for unique names of temporary files.
static WRITING: AtomicU64 = AtomicU64::new(0);

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // Two threads or processes may write the same file concurrently.
    let number = WRITING.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{number}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = fs::File::create(&beside)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::{write, write_alternates, write_if_different};
    use crate::git::{Git, Place};
    use buildpool_protocol::transfer::ObjectFormat;
    use std::path::Path;

    #[test]
    fn git_accepts_it_in_both_formats_with_settings_that_need_quotes() {
        let git = Git::find().unwrap();
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            let directory = tempfile::tempdir().unwrap();
            let place = Place { git_dir: Some(directory.path().into()), ..Place::default() };
            let odd = "C:\\a \"b\" # c;\nd";
            write(directory.path(), format, true, &[("core.excludesFile".into(), odd.into())]).unwrap();
            let ask = |arguments: &[&str]| git.run(&place).args(arguments).text().unwrap();
            assert_eq!(ask(&["config", "core.excludesFile"]), odd);
            assert_eq!(ask(&["rev-parse", "--show-object-format"]), format.name());
            let empty = git.run(&place).args(["hash-object", "-t", "tree", "/dev/null"]).text().unwrap();
            assert_eq!(empty, format.empty_tree().as_str());
        }
    }

    #[test]
    fn another_store_is_read_even_with_an_odd_name() {
        let git = Git::find().unwrap();
        let root = tempfile::tempdir().unwrap();
        let stores = [root.path().join("plain"), root.path().join("#odd\n\"name\\")];
        let mut blobs = Vec::new();
        for (number, store) in stores.iter().enumerate() {
            write(store, ObjectFormat::Sha1, true, &[]).unwrap();
            let place = Place { git_dir: Some(store.clone()), ..Place::default() };
            let call = git.run(&place).args(["hash-object", "-w", "--stdin"]);
            blobs.push(call.input(format!("{number}").into_bytes()).text().unwrap());
        }
        let reader = root.path().join("reader");
        write(&reader, ObjectFormat::Sha1, true, &[]).unwrap();
        let objects: Vec<_> = stores.iter().map(|store| store.join("objects")).collect();
        write_alternates(&reader, &objects.iter().map(std::path::PathBuf::as_path).collect::<Vec<&Path>>())
            .unwrap();
        let place = Place { git_dir: Some(reader), ..Place::default() };
        for (number, blob) in blobs.iter().enumerate() {
            assert_eq!(git.run(&place).args(["cat-file", "-p", blob]).text().unwrap(), number.to_string());
        }
    }

    #[test]
    fn several_at_once_write_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for round in 0..200 {
                        write_if_different(path, format!("{writer} {round}").as_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
