//! Finds the repository of a directory and reads its properties. Read-only.

use super::error::SnapshotError;
use buildpool_objects::git::{GitError, split_nul};
use buildpool_objects::incoming::checksum;
use buildpool_objects::{Git, Place};
use buildpool_protocol::transfer::{Checksum, ObjectFormat, ObjectId};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A project's files and, if there is one, their repository.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    /// Top directory of the files.
    pub(super) top: PathBuf,
    /// The user's settings that affect how git sees the files.
    pub(super) settings: Vec<(String, String)>,
    /// Whether the repository's own configuration has a `core.excludesFile`, which is not used.
    pub(super) has_own_excludes_file: bool,
    /// The repository.
    pub(super) user: Option<UserSide>,
}

/// The user's git directory. It is read, never written.
#[derive(Clone, Debug)]
pub(super) struct UserSide {
    pub(super) git_dir: PathBuf,
    pub(super) common_dir: PathBuf,
    pub(super) index: PathBuf,
    pub(super) objects: PathBuf,
    pub(super) format: ObjectFormat,
    /// Names of filters that change content when it is added.
    pub(super) filters: Vec<String>,
    /// Commit and tree of `HEAD`; `None` on a branch without commits.
    pub(super) head: Option<(ObjectId, ObjectId)>,
    /// The branch; `None` if `HEAD` is detached.
    pub(super) branch: Option<String>,
    /// URL of `origin`, if there is one.
    pub(super) origin: Option<String>,
    /// Whether objects of its commits may be missing: a partial clone.
    pub(super) is_partial: bool,
    /// Checksum over all tags and the ends of a shallow history. `None` if they can't be read.
    pub(super) refs: Option<Checksum>,
}

/// Settings that affect how git sees the files of a tree.
const SETTINGS: &str = r"^(core\.(filemode|symlinks|ignorecase|precomposeunicode|trustctime|checkstat|excludesfile|attributesfile)|filter\..*\.(clean|process)|remote\.origin\.url|extensions\.partialclone|remote\..*\.promisor)$";

impl Repository {
    /// Finds the repository from a directory upwards.
    pub(super) fn find(git: &Git, directory: &Path) -> Result<Self, SnapshotError> {
        let place = Place { work_tree: Some(directory.to_owned()), ..Place::default() };
        let questions = [
            "rev-parse",
            "--is-inside-work-tree",
            "--absolute-git-dir",
            "--git-common-dir",
            "--git-path",
            "index",
            "--git-path",
            "objects",
            "--show-object-format",
            "--show-toplevel",
        ];
        let answer = match git.run_as_user(&place).args(questions).text() {
            Ok(answer) => answer,
            Err(GitError::Failed { message, .. }) if message.contains("not a git repository") => {
                return match broken_above(directory) {
                    Some(path) => Err(SnapshotError::Broken { path, message }),
                    None => Self::without_git(git, directory),
                };
            }
            Err(GitError::Failed { message, .. }) if message.contains("must be run in a work tree") => {
                return Err(SnapshotError::NoWorkTree { path: directory.to_owned() });
            }
            Err(error) => return Err(error.into()),
        };
        let lines: Vec<String> = match answer.lines().count() {
            ANSWERS => answer.lines().map(str::to_owned).collect(),
            // A path contains a newline.
            _ => one_by_one(git, &place, &questions)?,
        };
        let [inside, git_dir, common_dir, index, objects, format, top] = lines.as_slice() else {
            return Err(unexpected("rev-parse", &answer));
        };
        if inside != "true" {
            return Err(SnapshotError::NoWorkTree { path: directory.to_owned() });
        }
        let format = match format.as_str() {
            "sha1" => ObjectFormat::Sha1,
            "sha256" => ObjectFormat::Sha256,
            other => return Err(unexpected("rev-parse --show-object-format", other)),
        };
        let mut user = UserSide {
            git_dir: directory.join(git_dir),
            common_dir: directory.join(common_dir),
            index: directory.join(index),
            objects: directory.join(objects),
            format,
            filters: Vec::new(),
            head: None,
            branch: None,
            origin: None,
            is_partial: false,
            refs: None,
        };
        let top = PathBuf::from(top);
        if !leads_to(&top.join(".git"), &user.git_dir) {
            return Err(SnapshotError::Elsewhere { git_dir: user.git_dir, top });
        }
        let (settings, has_own_excludes_file) = user.ask(git, &top)?;
        Ok(Self { top, settings, has_own_excludes_file, user: Some(user) })
    }

    /// Returns the files of a directory without a repository, with the user's global settings.
    pub(super) fn without_git(git: &Git, directory: &Path) -> Result<Self, SnapshotError> {
        let home = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
        if directory.parent().is_none() || home.as_deref() == Some(directory) {
            return Err(SnapshotError::TooBroad { path: directory.to_owned() });
        }
        // Use no repository, even if an outer one exists.
        let place = Place {
            git_dir: Some(PathBuf::from("/dev/null")),
            work_tree: Some(directory.to_owned()),
            index: None,
        };
        let found = git
            .run_as_user(&place)
            .args(["config", "-z", "--show-scope", "--get-regexp", SETTINGS])
            .output_or_none()?;
        let found = found.unwrap_or_default();
        let settings = entries(&found).map(|entry| (entry.key, entry.value));
        let settings = settings.filter(|(key, _)| key.starts_with("core.")).collect();
        Ok(Self { top: directory.to_owned(), settings, has_own_excludes_file: false, user: None })
    }

    /// Returns the object format; SHA-1 without a repository.
    pub(super) fn format(&self) -> ObjectFormat {
        self.user.as_ref().map_or(ObjectFormat::Sha1, |user| user.format)
    }

    /// Returns the project name, which selects matching warm workspaces: the origin's URL if there
    /// is one, else host and path.
    pub(super) fn project(&self) -> String {
        let origin = self.user.as_ref().and_then(|user| user.origin.as_deref());
        if let Some(project) = origin.and_then(project_of_url) {
            return project;
        }
        let host = nix::unistd::gethostname().unwrap_or_default();
        let mut project = format!("{}:{}", host.to_string_lossy(), self.top.to_string_lossy());
        truncate(&mut project);
        project
    }
}

/// Number of answers of `git rev-parse` to the queries of [`Repository::find`].
const ANSWERS: usize = 7;

/// Runs each query separately, so that a newline in a path can't be misread.
fn one_by_one(git: &Git, place: &Place, questions: &[&str]) -> Result<Vec<String>, SnapshotError> {
    let [command, questions @ ..] = questions else { return Ok(Vec::new()) };
    let mut answers = Vec::new();
    let mut left = questions.iter();
    while let Some(question) = left.next() {
        let mut arguments = vec![*command, *question];
        if *question == "--git-path" {
            arguments.extend(left.next());
        }
        let answer = git.run_as_user(place).args(arguments).output()?;
        let answer = answer.strip_suffix(b"\n").unwrap_or(&answer);
        answers
            .push(std::str::from_utf8(answer).map_err(|_| unexpected("rev-parse", "no UTF-8"))?.to_owned());
    }
    Ok(answers)
}

/// Returns a `.git` here or above, if git finds no repository: a `.git` file with a wrong target,
/// or a damaged directory.
fn broken_above(directory: &Path) -> Option<PathBuf> {
    let places = directory.ancestors().map(|place| place.join(".git"));
    places.into_iter().find(|path| match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_some())
        }
        Ok(_) => true,
        Err(_) => false,
    })
}

fn truncate(text: &mut String) {
    let mut end = text.len().min(buildpool_protocol::limits::PROJECT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Returns host and path of a remote's URL, without user, password, port and `.git`. `None` for a
/// local path.
fn project_of_url(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // scp form; a colon after a slash is part of a path
        None => url.split_once(':').filter(|(host, _)| !host.contains('/') && host.len() > 1)?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    let host = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    let path = path.trim_matches('/').trim_end_matches(".git").trim_end_matches('/');
    let mut project = format!("{host}/{path}");
    truncate(&mut project);
    (!host.is_empty() && !path.is_empty()).then_some(project)
}

impl UserSide {
    /// Returns the place for queries with the user's git.
    pub(super) fn place(&self, top: &Path) -> Place {
        Place { git_dir: Some(self.git_dir.clone()), work_tree: Some(top.to_owned()), index: None }
    }

    /// Reads the settings. Also returns whether the repository has its own `core.excludesFile`.
    fn ask(&mut self, git: &Git, top: &Path) -> Result<(Vec<(String, String)>, bool), SnapshotError> {
        let place = self.place(top);
        let (settings, head, tags) = std::thread::scope(|scope| {
            let head = scope
                .spawn(|| git.run_as_user(&place).args(["rev-parse", "HEAD^{commit}", "HEAD^{tree}"]).text());
            let format = "--format=%(objectname) %(refname)";
            let tags =
                scope.spawn(|| git.run_as_user(&place).args(["for-each-ref", "refs/tags", format]).output());
            let settings = git
                .run_as_user(&place)
                .args(["config", "-z", "--show-scope", "--get-regexp", SETTINGS])
                .output_or_none();
            (settings, head.join(), tags.join())
        });
        if let Ok(Ok(mut tags)) = tags {
            tags.extend(fs::read(self.common_dir.join("shallow")).unwrap_or_default());
            self.refs = Some(checksum(&blake3::hash(&tags)));
        }
        let mut kept = Vec::new();
        let mut has_own_excludes_file = false;
        for GitSetting { is_own, key, value } in entries(&settings?.unwrap_or_default()) {
            match key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) {
                Some((filter, _)) => self.filters.push(filter.to_owned()),
                None if key == "remote.origin.url" => self.origin = Some(value),
                None if key.starts_with("remote.") || key.starts_with("extensions.") => {
                    self.is_partial = true
                }
                // The patterns are sent with the snapshot. A repository from another author could
                // name any file of this user here.
                None if is_own && key == "core.excludesfile" => has_own_excludes_file = true,
                None => kept.push((key, value)),
            }
        }
        // A failure means a branch without commits. A damaged repository causes errors in later
        // commands.
        if let Ok(Ok(answer)) = head {
            let mut ids = answer.lines().filter_map(|line| line.parse().ok());
            self.head = ids.next().zip(ids.next());
        }
        let mut name = fs::read_to_string(self.git_dir.join("HEAD")).unwrap_or_default();
        if name.trim_end() == "ref: refs/heads/.invalid" {
            // The repository stores its refs in another format than files (reftable).
            let target = git.run_as_user(&place).args(["symbolic-ref", "-q", "HEAD"]).text();
            name = target.map(|name| format!("ref: {name}")).unwrap_or_default();
        }
        self.branch = name.trim_end().strip_prefix("ref: refs/heads/").map(str::to_owned);
        Ok((kept, has_own_excludes_file))
    }
}

/// A setting, and whether it is from the repository's own configuration.
struct GitSetting {
    is_own: bool,
    key: String,
    value: String,
}

/// Parses settings from the output of `git config -z --show-scope`.
fn entries(listed: &[u8]) -> impl Iterator<Item = GitSetting> + '_ {
    let mut fields = split_nul(listed);
    std::iter::from_fn(move || {
        let (scope, entry) = (fields.next()?, fields.next()?);
        let text = String::from_utf8_lossy(entry);
        let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
        let is_own = matches!(scope, b"local" | b"worktree");
        Some(GitSetting { is_own, key: key.to_owned(), value: value.to_owned() })
    })
}

/// Returns true if a `.git` directory or file leads to this git directory. If not, `core.worktree`
/// is set to a directory outside the repository.
fn leads_to(dot_git: &Path, git_dir: &Path) -> bool {
    let Ok(git_dir) = git_dir.canonicalize() else { return false };
    let is_it = |path: &Path| path.canonicalize().is_ok_and(|path| path == git_dir);
    if is_it(dot_git) {
        return true;
    }
    // git reads everything up to the newlines at the end of the file (gitrepository-layout(5)).
    let link = fs::read(dot_git).unwrap_or_default();
    let target = link.strip_prefix(b"gitdir: ").map(|target| target.trim_ascii_end());
    let directory = dot_git.parent().unwrap_or(dot_git);
    target.is_some_and(|target| is_it(&directory.join(OsStr::from_bytes(target))))
}

/// Returns the error for unexpected output of git.
pub(super) fn unexpected(command: &str, problem: &str) -> SnapshotError {
    GitError::Unexpected { command: command.to_owned(), problem: problem.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::project_of_url;

    #[test]
    fn clones_of_one_origin_are_one_project_and_no_password_gets_out() {
        for (url, expected) in [
            ("https://github.com/org/app.git", Some("github.com/org/app")),
            ("https://user:secret@GitHub.com/org/app", Some("github.com/org/app")),
            ("git@github.com:org/app.git", Some("github.com/org/app")),
            ("ssh://git@github.com:22/org/app.git/", Some("github.com/org/app")),
            ("/srv/git/app.git", None),
            ("../app", None),
            ("file:///srv/app.git", None),
            ("C:/repos/app", None),
            ("", None),
        ] {
            assert_eq!(project_of_url(url).as_deref(), expected, "{url}");
        }
    }
}
