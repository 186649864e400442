//! What `git rev-parse`, `git status` and `git describe` answer from in a workspace: the commit, and as much history as it
//! takes to count back to the nearest tags.

use super::error::SnapshotError;
use super::repository::Repository;
use buildpool_objects::Git;
use buildpool_objects::git::GitError;
use buildpool_protocol::limits::HISTORY_MAX;
use buildpool_protocol::transfer::{Head, ObjectId, Tag, is_ref_name};
use std::collections::{BTreeSet, HashMap};

/// The head of a repository; none without a commit. `known` is the answer of an earlier call.
pub(super) fn head(
    git: &Git,
    repository: &Repository,
    known: Option<Head>,
) -> Result<Option<Head>, SnapshotError> {
    let Some(user) = &repository.user else { return Ok(None) };
    let Some((commit, tree)) = user.head.clone() else { return Ok(None) };
    let branch = user.branch.clone().filter(|name| is_ref_name(name));
    if let Some(known) = known.filter(|known| known.commit == commit) {
        return Ok(Some(Head { branch, ..known }));
    }
    Ok(Some(of_commit(git, repository, commit, tree, branch)?))
}

/// The head that a checkout of this commit would have.
pub(super) fn of_commit(
    git: &Git,
    repository: &Repository,
    commit: ObjectId,
    tree: ObjectId,
    branch: Option<String>,
) -> Result<Head, SnapshotError> {
    let alone =
        Head { shallow: vec![commit.clone()], commit, tree, branch, history: Vec::new(), tags: Vec::new() };
    Ok(with_history(git, repository, &alone)?.unwrap_or(alone))
}

fn with_history(git: &Git, repository: &Repository, alone: &Head) -> Result<Option<Head>, SnapshotError> {
    let Some(user) = &repository.user else { return Ok(None) };
    let place = user.place(&repository.top);
    let commit = alone.commit.as_str();
    // Annotated tags only, and all of them: `git describe` and `git describe --tags` may differ.
    let nearest = |more: &[&str]| {
        let arguments = ["describe", "--abbrev=0"].iter().chain(more).chain([&commit]);
        git.run_as_user(&place).args(arguments).text().ok()
    };
    let any = nearest(&["--tags"]);
    let annotated = any.as_ref().and_then(|_| nearest(&[]));
    let mut parents: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for tag in [&annotated, &any].into_iter().flatten() {
        let reference = format!("refs/tags/{tag}");
        let most = format!("--max-count={}", HISTORY_MAX + 1);
        let range = ["rev-list", "--parents", &most, commit, &format!("^{reference}")];
        let listed = git.run_as_user(&place).args(range).text()?;
        let tagged = git.run_as_user(&place).args(["rev-list", "--parents", "-1", &reference]).text()?;
        let some: Vec<Vec<ObjectId>> = listed
            .lines()
            .chain(tagged.lines())
            .map(|line| line.split(' ').filter_map(|id| id.parse().ok()).collect())
            .collect();
        // Too far back: with this tag no count would be right.
        if some.len() <= HISTORY_MAX {
            parents.extend(some.into_iter().filter_map(|ids| {
                let (first, rest) = ids.split_first()?;
                Some((first.clone(), rest.to_vec()))
            }));
        }
    }
    if parents.is_empty() || parents.len() > HISTORY_MAX {
        return Ok(None);
    }
    let tags = tags_on(git, repository, &parents)?;
    let history: BTreeSet<ObjectId> = parents.keys().filter(|id| **id != alone.commit).cloned().collect();
    let shallow: BTreeSet<ObjectId> = parents
        .iter()
        .filter(|(_, parents_of)| parents_of.iter().any(|parent| !parents.contains_key(parent)))
        .map(|(id, _)| id.clone())
        .collect();
    Ok(Some(Head {
        history: history.into_iter().collect(),
        tags,
        shallow: shallow.into_iter().collect(),
        ..alone.clone()
    }))
}

fn tags_on(
    git: &Git,
    repository: &Repository,
    commits: &HashMap<ObjectId, Vec<ObjectId>>,
) -> Result<Vec<Tag>, GitError> {
    let Some(user) = &repository.user else { return Ok(Vec::new()) };
    let format = "--format=%(objectname) %(*objectname) %(refname:strip=2)";
    let listed =
        git.run_as_user(&user.place(&repository.top)).args(["for-each-ref", "refs/tags", format]).text()?;
    let mut tags = Vec::new();
    for line in listed.lines() {
        let mut fields = line.splitn(3, ' ');
        let (Some(object), Some(peeled), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let target = if peeled.is_empty() { object } else { peeled };
        let (Ok(object), Ok(target)) = (object.parse(), target.parse::<ObjectId>()) else { continue };
        if commits.contains_key(&target) && is_ref_name(name) {
            tags.push(Tag { name: name.to_owned(), object });
        }
    }
    tags.truncate(HISTORY_MAX);
    Ok(tags)
}
