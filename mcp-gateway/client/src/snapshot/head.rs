//! The head of a snapshot: the commit, and enough history for `git rev-parse`, `git status` and
//! `git describe` in a workspace.
//!
//! `git describe` counts commits back to the nearest tags. The required history is not computed but
//! tested: git describes the commit with only the history that would be sent. The result must equal
//! that in the user's repository.

use super::error::SnapshotError;
use super::repository::{Repository, UserSide};
use super::store::Store;
use buildpool_objects::directory::{self, write_if_different};
use buildpool_objects::git::GitError;
use buildpool_objects::{Git, Place};
use buildpool_protocol::limits::HISTORY_MAX;
use buildpool_protocol::transfer::{Head, ObjectId, Tag, is_ref_name};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

/// Limit on extensions of the history, which must not cut a merge.
const LENGTHENINGS_MAX: usize = 8;
/// Limit on history ends for a merge-base search. Beyond it, the whole history is used.
const ENDS_MAX: usize = 32;

/// A head, and a note for the submitter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct DescribedHead {
    pub(super) head: Head,
    pub(super) note: Option<String>,
}

/// Returns the head of a repository, or `None` if it has no commit. `known` is the result of an
/// earlier call.
pub(super) fn head(
    git: &Git,
    repository: &Repository,
    store: &Store,
    known: Option<DescribedHead>,
) -> Result<Option<DescribedHead>, SnapshotError> {
    let Some(user) = &repository.user else { return Ok(None) };
    let Some((commit, tree)) = user.head.clone() else { return Ok(None) };
    let branch = user.branch.clone().filter(|name| is_ref_name(name));
    if let Some(DescribedHead { head, note }) = known.filter(|known| known.head.commit == commit) {
        return Ok(Some(DescribedHead { head: Head { branch, ..head }, note }));
    }
    Ok(Some(of_commit(git, repository, store, (commit, tree), branch)?))
}

/// Returns the head for a checkout of this commit.
pub(super) fn of_commit(
    git: &Git,
    repository: &Repository,
    store: &Store,
    (commit, tree): (ObjectId, ObjectId),
    branch: Option<String>,
) -> Result<DescribedHead, SnapshotError> {
    let alone =
        Head { shallow: vec![commit.clone()], commit, tree, branch, history: Vec::new(), tags: Vec::new() };
    let Some(user) = &repository.user else { return Ok(DescribedHead { head: alone, note: None }) };
    let query = HeadQuery { git, user, place: user.place(&repository.top), store, alone };
    query.with_history()
}

/// Output of `git describe`, with annotated tags only and with all tags: in long form, with the
/// number of commits and the full id.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Answers {
    annotated: Option<String>,
    any: Option<String>,
}

impl Answers {
    fn ask(git_text: impl Fn(&[&str]) -> Result<String, GitError>) -> Self {
        let ask = |more: &[&str]| git_text(&[&["describe", "--long", "--abbrev=64"], more].concat()).ok();
        let any = ask(&["--tags"]);
        Self { annotated: any.as_ref().and_then(|_| ask(&[])), any }
    }

    /// Removes answers that need more history than may be sent.
    fn within_reach(self) -> Self {
        let is_near = |answer: &String| parts(answer).is_some_and(|(_, count)| count < HISTORY_MAX);
        Self { annotated: self.annotated.filter(is_near), any: self.any.filter(is_near) }
    }

    fn tags(&self) -> BTreeSet<&str> {
        [&self.annotated, &self.any]
            .into_iter()
            .flatten()
            .filter_map(|answer| Some(parts(answer)?.0))
            .collect()
    }
}

/// Returns the tag and the number of commits of an answer.
fn parts(answer: &str) -> Option<(&str, usize)> {
    let mut parts = answer.rsplitn(3, '-');
    let count = parts.nth(1)?.parse().ok()?;
    Some((parts.next()?, count))
}

/// Limit of the history to send.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Ends at the tags. Correct if there are no merges around them.
    AtTags,
    /// Ends at the common ancestor of everything merged since.
    AtBase,
    /// Whole history.
    Nowhere,
}

/// Commits with their parents.
type Commits = HashMap<ObjectId, Vec<ObjectId>>;

struct HeadQuery<'a> {
    git: &'a Git,
    user: &'a UserSide,
    place: Place,
    store: &'a Store,
    /// The commit without history.
    alone: Head,
}

impl HeadQuery<'_> {
    fn git_text(&self, arguments: &[&str]) -> Result<String, GitError> {
        self.git.run_as_user(&self.place).args(arguments).text()
    }

    fn with_history(&self) -> Result<DescribedHead, SnapshotError> {
        let commit = self.alone.commit.as_str();
        let here = Answers::ask(|question| self.git_text(&[question, &[commit]].concat())).within_reach();
        let named = here.tags();
        if named.is_empty() {
            return Ok(DescribedHead { head: self.alone.clone(), note: None });
        }
        let tags = self.tags()?;
        for cut in [Cut::AtTags, Cut::AtBase, Cut::Nowhere] {
            let Some(commits) = self.commits(&named, cut)? else { continue };
            let on_these: Vec<&(Tag, ObjectId)> =
                tags.iter().filter(|(_, target)| commits.contains_key(target)).take(HISTORY_MAX).collect();
            // A tag further back may appear nearer if history ends at another tag.
            let is_sure = |(tag, target): &(Tag, ObjectId)| {
                named.contains(tag.name.as_str()) || *target == self.alone.commit
            };
            for only_sure in [false, true] {
                let some = on_these.iter().filter(|tag| !only_sure || is_sure(tag));
                let head = self.head_with(&commits, some.map(|(tag, _)| tag.clone()).collect());
                if self.would_print(&head)? == here {
                    return Ok(DescribedHead { head, note: None });
                }
            }
        }
        let text = [&here.any, &here.annotated].into_iter().flatten().next().map_or("", String::as_str);
        let note = format!(
            "`git describe` finds {} here but no name in the workspace: branches merged since reach back further than the {HISTORY_MAX} commits that travel",
            parts(text).map_or("a name", |(name, _)| name)
        );
        Ok(DescribedHead { head: self.alone.clone(), note: Some(note) })
    }

    /// Returns the history for a cut. `None` if it is too long to send, or can't be determined.
    fn commits(&self, named: &BTreeSet<&str>, cut: Cut) -> Result<Option<Commits>, GitError> {
        let mut commits = Commits::new();
        match cut {
            Cut::AtTags => {
                for name in named {
                    let end = format!("refs/tags/{name}");
                    let Some(some) = self.between(Some(&end))? else { return Ok(None) };
                    commits.extend(some);
                }
            }
            Cut::AtBase => {
                let mut ends: Vec<String> =
                    named.iter().map(|name| format!("refs/tags/{name}^{{commit}}")).collect();
                for _ in 0..LENGTHENINGS_MAX {
                    let arguments: Vec<&str> = ["merge-base", "--octopus"]
                        .into_iter()
                        .chain(ends.iter().map(String::as_str))
                        .collect();
                    let Some(base) =
                        self.git_text(&arguments).ok().and_then(|text| Some(text.lines().next()?.to_owned()))
                    else {
                        return Ok(None);
                    };
                    let Some(some) = self.between(Some(&base))? else { return Ok(None) };
                    commits = some;
                    let beyond = beyond_merges(&commits);
                    if beyond.is_empty() {
                        break;
                    }
                    if beyond.len() > ENDS_MAX {
                        return Ok(None);
                    }
                    ends = beyond.iter().map(ObjectId::to_string).chain([base]).collect();
                }
            }
            Cut::Nowhere => commits.extend(self.between(None)?.into_iter().flatten()),
        }
        let is_fit = !commits.is_empty() && commits.len() <= HISTORY_MAX;
        Ok(is_fit.then_some(commits))
    }

    /// Returns the commit's history down to and including this end. `None` if it is too long to
    /// send.
    fn between(&self, end: Option<&str>) -> Result<Option<Commits>, GitError> {
        let most = format!("--max-count={}", HISTORY_MAX + 1);
        let mut arguments = vec!["rev-list", "--parents", &most, self.alone.commit.as_str()];
        let below = end.map(|end| format!("^{end}^@"));
        arguments.extend(below.as_deref());
        // The name of a tag object may differ from its ref.
        let Ok(listed) = self.git_text(&arguments) else { return Ok(None) };
        let lines = listed.lines().filter_map(|line| {
            let mut ids = line.split(' ').filter_map(|id| id.parse().ok());
            Some((ids.next()?, ids.collect()))
        });
        let commits: Commits = lines.collect();
        Ok(Some(commits).filter(|commits| commits.len() <= HISTORY_MAX))
    }

    fn head_with(&self, commits: &Commits, tags: Vec<Tag>) -> Head {
        // git shows the commits at the end of a shallow history without parents; their parents are
        // not available either.
        let ends = fs::read_to_string(self.user.common_dir.join("shallow")).unwrap_or_default();
        let ends: HashSet<ObjectId> = ends.lines().filter_map(|line| line.parse().ok()).collect();
        let is_cut = |(id, parents): &(&ObjectId, &Vec<ObjectId>)| {
            ends.contains(*id) || parents.iter().any(|parent| !commits.contains_key(parent))
        };
        let history: BTreeSet<ObjectId> =
            commits.keys().filter(|id| **id != self.alone.commit).cloned().collect();
        let shallow: BTreeSet<ObjectId> = commits.iter().filter(is_cut).map(|(id, _)| id.clone()).collect();
        Head {
            history: history.into_iter().collect(),
            tags,
            shallow: shallow.into_iter().collect(),
            ..self.alone.clone()
        }
    }

    /// Returns the output of `git describe` with this history and these tags.
    fn would_print(&self, head: &Head) -> Result<Answers, SnapshotError> {
        let own = self.store.root().join("describing");
        directory::write(&own, self.user.format, true, &[])?;
        directory::write_alternates(&own, &[&self.user.objects])?;
        let mut tags: Vec<&Tag> = head.tags.iter().collect();
        // git expects them sorted by name.
        tags.sort_by(|a, b| a.name.cmp(&b.name));
        let tags: String =
            tags.iter().map(|tag| format!("{} refs/tags/{}\n", tag.object, tag.name)).collect();
        write_if_different(&own.join("packed-refs"), tags.as_bytes())?;
        let shallow: String = head.shallow.iter().map(|commit| format!("{commit}\n")).collect();
        write_if_different(&own.join("shallow"), shallow.as_bytes())?;
        let place = Place { git_dir: Some(own), ..Place::default() };
        let commit = head.commit.as_str();
        Ok(Answers::ask(|question| self.git.run(&place).args(question.iter().chain([&commit])).text()))
    }

    /// Returns all tags that can be sent, with their commits.
    fn tags(&self) -> Result<Vec<(Tag, ObjectId)>, GitError> {
        let format = "--format=%(objectname) %(*objectname) %(refname:strip=2)";
        let listed = self.git_text(&["for-each-ref", "refs/tags", format])?;
        let tags = listed.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let (object, peeled, name) = (fields.next()?, fields.next()?, fields.next()?);
            let target = if peeled.is_empty() { object } else { peeled };
            let tag = Tag { name: name.to_owned(), object: object.parse().ok()? };
            is_ref_name(name).then_some((tag, target.parse().ok()?))
        });
        Ok(tags.collect())
    }
}

/// Returns the missing parents of merges that have other parents in the history. git can't treat a
/// single parent as missing: it would ignore the others too.
fn beyond_merges(commits: &Commits) -> BTreeSet<ObjectId> {
    let merges = commits.values().filter(|parents| parents.iter().any(|parent| commits.contains_key(parent)));
    merges.flatten().filter(|parent| !commits.contains_key(parent)).cloned().collect()
}
