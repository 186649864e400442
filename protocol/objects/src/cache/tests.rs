use super::{CacheError, ObjectCache, project_key};
use crate::git::{Git, Place};
use crate::pack;
use crate::record::{self, name};
use buildpool_protocol::transfer::{Head, Manifest, ObjectFormat, ObjectId, SnapshotName, Tag};
use std::fs;
use std::path::{Path, PathBuf};

mod damage;

struct Source {
    root: tempfile::TempDir,
    git: Git,
}

impl Source {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let git = Git::find().unwrap();
        let source = Self { root, git };
        fs::create_dir(source.tree()).unwrap();
        source.ask(&["init", "-q"]);
        source
    }

    fn tree(&self) -> PathBuf {
        self.root.path().join("tree")
    }

    fn place(&self) -> Place {
        Place { git_dir: Some(self.tree().join(".git")), work_tree: Some(self.tree()), index: None }
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let who = ["-c", "user.name=n", "-c", "user.email=e@example.org"];
        self.git.run(&self.place()).args(who.iter().chain(arguments)).text().unwrap()
    }

    /// Writes files, commits, and returns the manifest of the commit.
    fn commit(&self, files: &[(&str, String)]) -> Manifest {
        for (path, content) in files {
            let path = self.tree().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        self.ask(&["add", "-A"]);
        self.ask(&["commit", "-qm", "change", "--allow-empty"]);
        let id = |name: &str| self.ask(&["rev-parse", name]).parse::<ObjectId>().unwrap();
        let head = Head {
            commit: id("HEAD"),
            tree: id("HEAD^{tree}"),
            branch: Some("main".into()),
            history: vec![],
            tags: vec![],
            shallow: vec![id("HEAD")],
        };
        Manifest {
            project: "p".into(),
            tree: head.tree.clone(),
            head: Some(head),
            excludes: String::new(),
            left_behind: vec![],
            files: 1,
            bytes: 1,
        }
    }

    fn pack(&self, manifest: &Manifest, base: Option<&ObjectId>) -> pack::PackFile {
        let parts = pack::missing_parts(&self.git, &self.place(), manifest, base, &|_| true).unwrap();
        pack::write(&self.git, &self.place(), &parts, base, 0, &self.root.path().join("out.pack")).unwrap()
    }

    fn cache(&self, name: &str) -> ObjectCache {
        ObjectCache::open(self.git.clone(), &self.root.path().join(name), ObjectFormat::Sha1).unwrap()
    }
}

fn many_files() -> Vec<(String, String)> {
    (0..300).map(|n| (format!("src/dir{}/file{n}.rs", n % 7), format!("content {n}\n").repeat(40))).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, String)> {
    files.iter().map(|(path, content)| (path.as_str(), content.clone())).collect()
}

#[test]
fn the_same_tree_under_another_commit_is_another_snapshot_and_costs_only_the_commit() {
    let source = Source::new();
    let first = source.commit(&borrowed(&many_files()));
    let second = source.commit(&[]);
    let cache = source.cache("cache");
    cache.accept(&source.pack(&first, None).path, &first, None).unwrap();
    assert_eq!(cache.manifest(&name(&second)), None);
    let pack = source.pack(&second, Some(&first.tree));
    assert!(pack.length < 400, "{}", pack.length);
    cache.accept(&pack.path, &second, Some(&first.tree)).unwrap();
    assert_eq!(cache.manifest(&name(&second)), Some(second.clone()));
    assert_eq!(cache.manifest(&name(&first)), Some(first));
    let another = SnapshotName { head: None, ..name(&second) };
    assert_eq!(cache.manifest(&another), None);
}

#[test]
fn a_line_more_in_a_large_text_costs_a_cache_no_copy_of_it_uncompressed() {
    let source = Source::new();
    let text: String = (0..100_000).map(|number| format!("the line with the number {number}\n")).collect();
    let first = source.commit(&[("large", text.clone())]);
    let cache = source.cache("cache");
    cache.accept(&source.pack(&first, None).path, &first, None).unwrap();
    let bytes = || {
        let packs = fs::read_dir(cache.directory().join("objects/pack")).unwrap();
        packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let before = bytes();
    let second = source.commit(&[("large", format!("{text}more\n"))]);
    let thin = source.pack(&second, Some(&first.tree));
    assert!(thin.length < 2_000, "{}", thin.length);
    cache.accept(&thin.path, &second, Some(&first.tree)).unwrap();
    let more = bytes() - before;
    assert!(more < text.len() as u64 / 4, "{more} bytes for a text of {}", text.len());
}

#[test]
fn a_snapshot_comes_whole_and_the_next_one_as_its_difference() {
    let source = Source::new();
    let first = source.commit(&borrowed(&many_files()));
    let cache = source.cache("cache");
    let full = source.pack(&first, None);
    cache.accept(&full.path, &first, None).unwrap();
    assert_eq!(cache.manifest(&name(&first)), Some(first.clone()));
    assert_eq!(cache.missing_ids(&first).unwrap(), []);

    let second = source.commit(&[("src/dir3/file3.rs", "content 3\n".repeat(41))]);
    let thin = source.pack(&second, Some(&first.tree));
    assert!(thin.length < 2_000 && thin.length * 5 < full.length, "{} beside {}", thin.length, full.length);
    cache.accept(&thin.path, &second, Some(&first.tree)).unwrap();
    assert_eq!(cache.manifests().len(), 2);

    let worker = source.cache("worker");
    let (pack, manifest, base) =
        cache.pack(&name(&second), &[], &[], &source.root.path().join("w.pack")).unwrap();
    assert_eq!((base.as_ref(), &manifest), (None, &second));
    worker.accept(&pack.path, &manifest, None).unwrap();
    let listing = |cache: &ObjectCache| {
        cache.git().run(&cache.place()).args(["ls-tree", "-r", second.tree.as_str()]).text().unwrap()
    };
    assert_eq!(listing(&worker), source.ask(&["ls-tree", "-r", second.tree.as_str()]));
}

#[test]
fn tags_branch_and_ignore_patterns_make_another_snapshot_that_costs_only_what_is_new() {
    let source = Source::new();
    let old = source.commit(&borrowed(&many_files()));
    let first = source.commit(&[("new", "x".into())]);
    let (cache, worker) = (source.cache("cache"), source.cache("worker"));
    cache.accept(&source.pack(&first, None).path, &first, None).unwrap();
    worker.accept(&source.pack(&first, None).path, &first, None).unwrap();
    source.ask(&["tag", "-am", "one", "v1", "HEAD~1"]);
    let tag = source.ask(&["rev-parse", "v1"]).parse::<ObjectId>().unwrap();
    let earlier = old.head.as_ref().unwrap().commit.clone();
    let head = Head {
        history: vec![earlier.clone()],
        tags: vec![Tag { name: "v1".into(), object: tag.clone() }],
        shallow: vec![earlier.clone()],
        ..first.head.clone().unwrap()
    };
    let tagged = Manifest { head: Some(head.clone()), ..first.clone() };
    assert_eq!(cache.manifest(&name(&tagged)), None);
    assert_eq!(cache.missing_ids(&tagged).unwrap(), [earlier, tag]);
    assert!(matches!(cache.adopt(&tagged), Err(CacheError::Incomplete { count: 2, .. })));
    let lacks = cache.missing_ids(&tagged).unwrap();
    let tree = Some(&first.tree);
    let parts =
        pack::missing_parts(&source.git, &source.place(), &tagged, tree, &|id| lacks.contains(id)).unwrap();
    let pack =
        pack::write(&source.git, &source.place(), &parts, tree, 0, &source.root.path().join("t")).unwrap();
    assert!(pack.length < 500, "{}", pack.length);
    cache.accept(&pack.path, &tagged, tree).unwrap();
    assert_eq!(cache.manifest(&name(&tagged)), Some(tagged.clone()));
    assert_eq!(cache.manifest(&name(&first)), Some(first.clone()));

    // A switch of the branch needs no objects, and the worker gets as little as the cache.
    let branch = Head { branch: Some("other".into()), ..head };
    let switched = Manifest { head: Some(branch), excludes: "/prod\n".into(), ..first.clone() };
    assert_eq!(cache.missing_ids(&switched).unwrap(), []);
    cache.adopt(&switched).unwrap();
    let into = source.root.path().join("w");
    for (manifest, most) in [(&tagged, 500), (&switched, 0)] {
        let known: Vec<_> = worker.manifests().iter().map(record::key).collect();
        let trees = std::slice::from_ref(&first.tree);
        let (pack, sent, base) = cache.pack(&name(manifest), trees, &known, &into).unwrap();
        assert!(pack.length <= most && sent == *manifest, "{}", pack.length);
        worker.accept(&pack.path, &sent, base.as_ref()).unwrap();
        assert_eq!(worker.manifest(&name(manifest)).as_ref(), Some(manifest));
    }
    // A lookup without the manifest checksum returns the last used snapshot.
    let by_tree = SnapshotName { manifest: None, ..name(&first) };
    for manifest in [&first, &tagged, &switched] {
        cache.manifest(&name(manifest)).unwrap();
        assert_eq!(cache.manifest(&by_tree).as_ref(), Some(manifest));
    }
}

#[test]
fn a_record_of_an_earlier_version_is_found_by_tree_and_commit() {
    let source = Source::new();
    let manifest = source.commit(&[("a", "a".into())]);
    let cache = source.cache("cache");
    cache.accept(&source.pack(&manifest, None).path, &manifest, None).unwrap();
    let head = &manifest.head.as_ref().unwrap().commit;
    let records = cache.directory().join("snapshots");
    let older = records.join(format!("{}.{head}.json", manifest.tree));
    fs::rename(records.join(record::file_name(&manifest)), older).unwrap();
    assert_eq!(cache.manifest(&name(&manifest)), None);
    let by_tree = SnapshotName { manifest: None, ..name(&manifest) };
    assert!(ObjectCache::holds(cache.directory(), &by_tree));
    assert_eq!(cache.manifest(&by_tree), Some(manifest));
}

#[test]
fn a_pack_that_does_not_bring_everything_or_has_no_base_here_is_refused() {
    let source = Source::new();
    let first = source.commit(&borrowed(&many_files()));
    let second = source.commit(&[("new", "x".into())]);
    let cache = source.cache("cache");
    let thin = source.pack(&second, Some(&first.tree));
    assert!(matches!(cache.accept(&thin.path, &second, Some(&first.tree)), Err(CacheError::NoBase(_))));

    let mut parts = pack::missing_parts(&source.git, &source.place(), &first, None, &|_| true).unwrap();
    let removed = parts.iter().position(|part| part.path.ends_with(b"file7.rs")).unwrap();
    let removed = parts.remove(removed);
    let pack =
        pack::write(&source.git, &source.place(), &parts, None, 0, &source.root.path().join("o")).unwrap();
    match cache.accept(&pack.path, &first, None) {
        Err(CacheError::Incomplete { object, count: 1, .. }) => assert_eq!(object, removed.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(cache.manifest(&name(&first)), None);

    let bytes = fs::read(&pack.path).unwrap();
    fs::write(&pack.path, &bytes[..bytes.len() - 30]).unwrap();
    assert!(matches!(cache.accept(&pack.path, &first, None), Err(CacheError::Git(_))));
}

#[test]
fn tidying_keeps_what_is_used_and_pinned_and_drops_the_rest() {
    let source = Source::new();
    let cache = source.cache("cache");
    let mut manifests = Vec::new();
    let mut base: Option<ObjectId> = None;
    for round in 0..30 {
        let manifest = source.commit(&[("a/b", format!("{round}").repeat(2000)), ("c", "same".into())]);
        let pack = source.pack(&manifest, base.as_ref());
        cache.accept(&pack.path, &manifest, base.as_ref()).unwrap();
        cache.manifest(&name(&manifest));
        base = Some(manifest.tree.clone());
        manifests.push(manifest);
    }
    let pinned = manifests[0].tree.clone();
    let busy = cache.hold().unwrap();
    cache.tidy(|manifest| manifest.tree == pinned, 3, false).unwrap();
    assert_eq!(cache.manifests().len(), 30, "left alone while in use");
    drop(busy);
    cache.tidy(|manifest| manifest.tree == pinned, 3, false).unwrap();
    assert_eq!(cache.packs("pack").unwrap().len(), 1);
    let left = cache.manifests();
    assert_eq!(left.len(), 4);
    for manifest in &left {
        let call = cache.git().run(&cache.place()).args(["ls-tree", "-r", manifest.tree.as_str()]);
        assert!(call.text().unwrap().contains("a/b"));
        let head = manifest.head.as_ref().unwrap();
        assert_eq!(cache.missing_ids(manifest).unwrap(), []);
        cache.git().run(&cache.place()).args(["cat-file", "commit", head.commit.as_str()]).output().unwrap();
    }
    assert_eq!(
        cache.missing_ids(&manifests[5]).unwrap(),
        [manifests[5].head.as_ref().unwrap().commit.clone()]
    );
    let next = source.commit(&[("c", "other".into())]);
    let pack = source.pack(&next, base.as_ref());
    cache.accept(&pack.path, &next, base.as_ref()).unwrap();
}

#[test]
fn what_a_killed_git_left_of_a_pack_goes_when_no_git_can_be_writing_it() {
    let root = tempfile::tempdir().unwrap();
    let cache = ObjectCache::open(Git::find().unwrap(), root.path(), ObjectFormat::Sha1).unwrap();
    let packs = root.path().join("objects/pack");
    let file = |name: &str, age: u64| {
        let file = fs::File::create(packs.join(name)).unwrap();
        let age = std::time::Duration::from_secs(age);
        file.set_modified(std::time::SystemTime::now() - age).unwrap();
    };
    file("tmp_pack_old", 3600);
    file("tmp_idx_old", 3600);
    file("tmp_pack_new", 60);
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&packs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let taking_in = cache.hold().unwrap();
    cache.tidy(|_| false, 8, false).unwrap();
    assert_eq!(
        names(),
        ["tmp_idx_old", "tmp_pack_new", "tmp_pack_old"],
        "while another transfer is in progress"
    );
    drop(taking_in);
    cache.tidy(|_| false, 8, false).unwrap();
    assert_eq!(names(), ["tmp_pack_new"]);
}

#[test]
fn keys_of_projects_are_safe_names_and_differ() {
    for project in ["github.com/a/b", "../../etc", "", "ü/ß", &"x".repeat(500)] {
        let key = project_key(project);
        assert!(Path::new(&key).components().count() == 1 && key.len() < 60, "{key}");
        assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{key}");
    }
    assert_ne!(project_key("a/b"), project_key("a-b"));
    assert_ne!(project_key("A"), project_key("a"));
}
