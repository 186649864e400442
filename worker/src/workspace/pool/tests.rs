use super::super::SpaceLimits;
use super::{Prepared, Workspaces};
use crate::workspace::WorkspaceError;
use buildpool_objects::{Git, Place, pack, record};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::spec::Source;
use buildpool_protocol::transfer::{Head, Manifest, ObjectId, Tag};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

mod builds;
mod damage;
mod left;
mod quick;

/// A user's repository, a worker's workspaces, and the transfer between them.
struct Bench {
    root: tempfile::TempDir,
    workspaces: Workspaces,
    git: Git,
}

fn attempt(number: u32) -> AttemptId {
    AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(7)), number }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@example.org"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("user")).unwrap();
        let workspaces = Workspaces::open(&root.path().join("data")).unwrap();
        let bench = Self { root, workspaces, git: Git::find().unwrap() };
        bench.user(&["init", "-q", "-b", "main"]);
        bench
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("user")
    }

    fn user(&self, arguments: &[&str]) -> String {
        git(&self.home(), arguments)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn commit(&self) {
        self.user(&["add", "-A"]);
        self.user(&["commit", "-q", "--allow-empty", "-m", "x"]);
    }

    /// Transfers the user's files, committed or not, as a snapshot to the worker.
    fn deliver(&self) -> Source {
        self.deliver_as("example.org/team/app")
    }

    fn deliver_as(&self, project: &str) -> Source {
        let index = self.root.path().join("index");
        let users = self.home().join(".git/index");
        if fs::copy(&users, &index).is_ok() {
            // git decides by this time which entries can be trusted.
            let copy = fs::File::options().write(true).open(&index).unwrap();
            copy.set_modified(fs::metadata(&users).unwrap().modified().unwrap()).unwrap();
        }
        let place = Place {
            git_dir: Some(self.home().join(".git")),
            work_tree: Some(self.home()),
            index: Some(index),
        };
        self.git.run(&place).args(["add", "-A"]).output().unwrap();
        let tree: ObjectId = self.git.run(&place).args(["write-tree"]).text().unwrap().parse().unwrap();
        let id = |name: &str| self.user(&["rev-parse", name]).parse::<ObjectId>().unwrap();
        let mut birth = Command::new("git");
        birth.args(["rev-parse", "-q", "--verify", "HEAD"]).current_dir(self.home());
        let head = birth.output().unwrap().status.success().then(|| {
            let commits: Vec<ObjectId> =
                self.user(&["rev-list", "HEAD"]).lines().map(|line| line.parse().unwrap()).collect();
            let tags = self.user(&["for-each-ref", "refs/tags", "--format=%(objectname) %(refname:strip=2)"]);
            Head {
                commit: id("HEAD"),
                tree: id("HEAD^{tree}"),
                branch: Some("main".into()),
                history: commits[1..].to_vec(),
                tags: tags
                    .lines()
                    .map(|line| line.split_once(' ').unwrap())
                    .map(|(object, name)| Tag { name: name.into(), object: object.parse().unwrap() })
                    .collect(),
                shallow: vec![],
            }
        });
        let manifest = Manifest {
            project: project.into(),
            tree: tree.clone(),
            head,
            excludes: "*.private\n".into(),
            left_behind: vec![],
            files: 0,
            bytes: 0,
        };
        let commit = manifest.head.as_ref().map(|head| head.commit.to_string());
        let source = Source::Snapshot {
            id: tree.to_string(),
            project: project.into(),
            directory: String::new(),
            head: commit,
            manifest: Some(record::key(&manifest).to_string()),
        };
        if let Some(missing) = self.workspaces.missing(&source).unwrap() {
            let base = missing.trees.first();
            let parts = pack::missing_parts(&self.git, &place, &manifest, base, &|_| true).unwrap();
            let file = pack::write(&self.git, &place, &parts, base, 0, &self.root.path().join("p")).unwrap();
            self.workspaces.accept(&file.path, &manifest, base).unwrap();
            assert!(!file.path.exists() && self.workspaces.missing(&source).unwrap().is_none());
        }
        source
    }

    fn prepare(&self, number: u32, source: &Source) -> Prepared {
        self.workspaces.prepare(attempt(number), source, false, self.root.path()).unwrap()
    }

    /// Prepares the user's files in their current state, and releases the checkout.
    fn run(&self, number: u32) -> PathBuf {
        let prepared = self.prepare(number, &self.deliver());
        self.workspaces.release(attempt(number)).unwrap();
        prepared.root
    }
}

fn files(root: &Path) -> BTreeMap<String, (Vec<u8>, u32, i64, i64)> {
    walkdir::WalkDir::new(root)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git")
        .map(Result::unwrap)
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| {
            let metadata = entry.path().symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(entry.path()).unwrap()
            };
            let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (path, (content, metadata.mode() & 0o170_100, metadata.mtime(), metadata.mtime_nsec()))
        })
        .collect()
}

fn contents(root: &Path) -> BTreeMap<String, (Vec<u8>, u32)> {
    files(root).into_iter().map(|(path, (content, mode, _, _))| (path, (content, mode))).collect()
}

#[test]
fn only_what_changed_is_written_and_ignored_products_stay() {
    let bench = Bench::new();
    bench.write(".gitignore", "target/\n");
    for number in 0..50 {
        bench.write(&format!("src/f{number}"), &format!("{number}"));
    }
    symlink("src/f1", bench.home().join("link")).unwrap();
    bench.commit();
    let root = bench.run(1);
    assert_eq!(contents(&root), contents(&bench.home()));
    let before = files(&root);

    fs::create_dir_all(root.join("target/debug")).unwrap();
    fs::write(root.join("target/debug/product"), "warm").unwrap();
    fs::write(root.join("notes.private"), "kept: the user ignores it").unwrap();
    fs::create_dir_all(root.join("dropped/deep")).unwrap();
    fs::write(root.join("dropped/deep/file"), "x").unwrap();
    fs::write(root.join("src/f3"), "a job changed it").unwrap();
    fs::write(root.join("src/f4"), "4").unwrap();
    fs::remove_file(root.join("src/f5")).unwrap();
    git(&root, &["init", "-q", "nested"]);
    fs::write(root.join("nested/x"), "x").unwrap();

    bench.write("src/f7", "changed");
    bench.write("src/added/new", "new");
    fs::remove_file(bench.home().join("src/f9")).unwrap();
    fs::set_permissions(bench.home().join("src/f11"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(bench.run(2), root, "the same checkout again");
    let after = files(&root);
    let mut expected = contents(&bench.home());
    expected.insert("target/debug/product".into(), (b"warm".to_vec(), 0o100_000));
    expected.insert("notes.private".into(), (b"kept: the user ignores it".to_vec(), 0o100_000));
    assert_eq!(contents(&root), expected);
    let written: Vec<_> = after
        .iter()
        .filter(|(path, found)| before.get(*path) != Some(found))
        .map(|(path, _)| path.as_str())
        .collect();
    // The job rewrote `f4` with the same content, so its time is from the job.
    let changed = [
        "notes.private",
        "src/added/new",
        "src/f11",
        "src/f3",
        "src/f4",
        "src/f5",
        "src/f7",
        "target/debug/product",
    ];
    assert_eq!(written, changed);
    assert!(!root.join("dropped").exists() && !root.join("nested").exists());

    let clean = bench.workspaces.prepare(attempt(3), &bench.deliver(), true, bench.root.path()).unwrap();
    assert_eq!(contents(&clean.root), contents(&bench.home()));
}

#[test]
fn whatever_a_job_leaves_in_the_way_the_next_tree_is_right() {
    let bench = Bench::new();
    bench.write("dir/file", "1");
    bench.write("plain", "1");
    bench.commit();
    let root = bench.run(1);
    let outside = bench.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    let messes: [&dyn Fn(); 6] = [
        &|| {
            fs::remove_dir_all(root.join("dir")).unwrap();
            symlink(&outside, root.join("dir")).unwrap();
        },
        &|| {
            fs::remove_file(root.join("plain")).unwrap();
            fs::create_dir_all(root.join("plain/now/deep")).unwrap();
            fs::write(root.join("plain/now/deep/x"), "x").unwrap();
        },
        &|| fs::set_permissions(root.join("dir"), fs::Permissions::from_mode(0o555)).unwrap(),
        &|| {
            fs::remove_dir_all(root.join(".git")).unwrap();
            symlink(&outside, root.join(".git")).unwrap();
        },
        &|| fs::write(root.join(".git/index"), "garbage").unwrap(),
        &|| {
            fs::remove_dir_all(&root).unwrap();
            symlink(&outside, &root).unwrap();
        },
    ];
    for (number, mess) in messes.iter().enumerate() {
        mess();
        bench.write("dir/file", &format!("round {number}"));
        assert_eq!(bench.run(number as u32 + 2), root);
        assert_eq!(contents(&root), contents(&bench.home()), "after mess {number}");
        assert!(fs::symlink_metadata(&root).unwrap().is_dir());
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "mess {number}");
    }
}

#[test]
fn parallel_attempts_never_share_a_checkout_and_a_restart_remembers_who_has_what() {
    let bench = Bench::new();
    bench.write("a", "a");
    bench.commit();
    let source = bench.deliver();
    let first = bench.prepare(1, &source);
    let second = bench.prepare(2, &source);
    assert_ne!(first.root, second.root);
    assert_ne!(first.derived_data, second.derived_data);
    let restarted = Workspaces::open(&bench.root.path().join("data")).unwrap();
    restarted.keep_only(&[attempt(2)]).unwrap();
    assert_eq!(restarted.prepare(attempt(3), &source, false, bench.root.path()).unwrap().root, first.root);
    assert_ne!(restarted.prepare(attempt(4), &source, false, bench.root.path()).unwrap().root, second.root);
    restarted.release(attempt(2)).unwrap();
    assert_eq!(restarted.prepare(attempt(5), &source, false, bench.root.path()).unwrap().root, second.root);
    assert_eq!(restarted.warm_projects(), ["example.org/team/app"]);
    assert_eq!(first.root.file_name().unwrap(), "app");
}

#[test]
fn no_class_has_the_workspace_or_the_objects_of_another() {
    let mut bench = Bench::new();
    bench.write(".gitignore", "*.o\n");
    bench.commit();
    bench.workspaces = bench.workspaces.of_class("submitter:ada");
    let source = bench.deliver();
    let first = bench.prepare(1, &source);
    fs::write(first.root.join("left.o"), "ada's").unwrap();
    bench.workspaces.release(attempt(1)).unwrap();
    assert_eq!(bench.workspaces.warm_projects(), ["submitter:ada example.org/team/app"]);
    let others = bench.workspaces.of_class("submitter:eve");
    assert!(others.missing(&source).unwrap().is_some(), "the objects are ada's");
    assert!(others.prepare(attempt(2), &source, false, bench.root.path()).is_err());
    bench.workspaces = others;
    let theirs = bench.prepare(3, &bench.deliver());
    assert_ne!(theirs.root, first.root);
    assert!(!theirs.root.join("left.o").exists());
    let own = bench.workspaces.of_class("submitter:ada");
    let again = own.prepare(attempt(4), &source, false, bench.root.path()).unwrap();
    assert_eq!(again.root, first.root);
    assert_eq!(fs::read_to_string(again.root.join("left.o")).unwrap(), "ada's");
}

#[test]
fn git_answers_in_a_workspace_as_in_the_users_tree() {
    let bench = Bench::new();
    bench.write(".gitignore", "*.o\n");
    bench.write("a", "a\n");
    bench.write("b", "b\n");
    bench.write("gone", "x\n");
    bench.commit();
    bench.user(&["tag", "-am", "one", "v1.0"]);
    bench.write("b", "more\n");
    bench.commit();
    bench.user(&["tag", "light"]);
    bench.commit();
    bench.write("a", "changed\n");
    bench.write("new/file", "new\n");
    bench.write("x.o", "ignored");
    fs::remove_file(bench.home().join("gone")).unwrap();
    let root = bench.run(1);
    let same = |arguments: &[&str]| assert_eq!(git(&root, arguments), bench.user(arguments), "{arguments:?}");
    let questions: [&[&str]; 9] = [
        &["rev-parse", "HEAD"],
        &["status", "--porcelain=v2", "--branch"],
        &["describe"],
        &["describe", "--tags", "--dirty", "--long"],
        &["describe", "--always", "--abbrev=12"],
        &["rev-parse", "--abbrev-ref", "HEAD"],
        &["diff", "HEAD"],
        &["rev-list", "--count", "HEAD"],
        &["log", "-1", "--format=%H %an %ct %s"],
    ];
    for question in questions {
        same(question);
    }
    // Changes that a job makes to it do not outlive the job.
    git(&root, &["config", "core.hooksPath", "/nowhere"]);
    git(&root, &["checkout", "-q", "-b", "side"]);
    git(&root, &["commit", "-qam", "a job's"]);
    fs::write(root.join(".git/hooks-left"), "x").unwrap();
    bench.run(2);
    for question in questions {
        same(question);
    }
    assert_eq!(git(&root, &["branch", "--format=%(refname:short)"]), "main");
    // Build scripts check the times of these files.
    let times = |root: &Path| {
        ["HEAD", "index", "config", "packed-refs"]
            .map(|name| fs::metadata(root.join(".git").join(name)).unwrap().modified().unwrap())
    };
    let before = times(&root);
    bench.run(3);
    assert_eq!(times(&root), before);
}

#[test]
fn a_snapshot_without_a_commit_has_a_branch_without_one() {
    let bench = Bench::new();
    bench.write("a", "a");
    let root = bench.run(1);
    assert_eq!(git(&root, &["status", "--porcelain"]), "?? a");
    bench.commit();
    bench.run(2);
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
}

#[test]
fn nothing_runs_on_a_snapshot_that_is_not_whole_or_in_a_directory_outside() {
    let bench = Bench::new();
    bench.write("sub/a", "a");
    symlink("/etc", bench.home().join("out")).unwrap();
    bench.commit();
    let source = bench.deliver();
    let Source::Snapshot { id, project, head, manifest, .. } = source.clone() else { panic!() };
    let at = |id: &str, directory: &str| {
        let source = Source::Snapshot {
            id: id.into(),
            project: project.clone(),
            directory: directory.into(),
            head: head.clone(),
            manifest: manifest.clone(),
        };
        bench.workspaces.prepare(attempt(9), &source, false, bench.root.path())
    };
    assert!(matches!(at(&"0".repeat(40), ""), Err(WorkspaceError::Missing(_))));
    assert!(matches!(at("nonsense", ""), Err(WorkspaceError::Invalid { .. })));
    for directory in ["..", "/etc", "sub/../..", "out", "sub/a", "nowhere"] {
        assert!(matches!(at(&id, directory), Err(WorkspaceError::Directory { .. })), "{directory}");
    }
    let inside = at(&id, "sub").unwrap();
    assert_eq!(inside.directory, inside.root.join("sub"));
    assert_eq!(
        inside.root.parent().unwrap().file_name().unwrap(),
        "1",
        "failed ones gave their checkout back"
    );
}

#[test]
fn a_tree_that_reaches_into_git_is_not_laid_out() {
    let bench = Bench::new();
    bench.write("a", "a");
    bench.commit();
    let mktree = |kind: &str, name: &str, id: &str| {
        let place = Place { git_dir: Some(bench.home().join(".git")), ..Place::default() };
        let line = format!("{kind} {id}\t{name}\0").into_bytes();
        bench.git.run(&place).args(["mktree", "-z"]).input(line).text().unwrap()
    };
    let blob = bench.user(&["rev-parse", "HEAD:a"]);
    let hooks = mktree("100755 blob", "post-checkout", &blob);
    for name in [".git", ".GIT", "git~1", ".g\u{200c}it"] {
        let tree = mktree("040000 tree", name, &hooks);
        let manifest = Manifest {
            project: "p".into(),
            tree: tree.parse().unwrap(),
            head: None,
            excludes: String::new(),
            left_behind: vec![],
            files: 1,
            bytes: 1,
        };
        let place = Place { git_dir: Some(bench.home().join(".git")), ..Place::default() };
        let parts = pack::missing_parts(&bench.git, &place, &manifest, None, &|_| true).unwrap();
        let file = pack::write(&bench.git, &place, &parts, None, 0, &bench.root.path().join("p")).unwrap();
        bench.workspaces.accept(&file.path, &manifest, None).unwrap();
        let (project, directory) = ("p".into(), String::new());
        let source = Source::Snapshot { id: tree, project, directory, head: None, manifest: None };
        let error = bench.workspaces.prepare(attempt(1), &source, false, bench.root.path()).unwrap_err();
        assert!(matches!(error, WorkspaceError::Names(_)), "{name}: {error}");
    }
}

#[test]
fn space_is_collected_least_recently_used_and_never_from_a_job() {
    let bench = Bench::new();
    bench.write("a", &"a".repeat(100_000));
    bench.commit();
    let sources: Vec<Source> =
        ["one", "two", "three"].iter().map(|project| bench.deliver_as(project)).collect();
    let roots: Vec<PathBuf> =
        sources.iter().zip(1..).map(|(source, number)| bench.prepare(number, source).root).collect();
    bench.workspaces.release(attempt(2)).unwrap();
    bench.workspaces.release(attempt(3)).unwrap();
    let checkout = |index: usize| super::Checkout::new(roots[index].parent().unwrap().to_owned(), "x");
    for (index, used_at) in [(1, 1000), (2, 2000)] {
        let state = crate::workspace::checkout::CheckoutState { used_at, ..checkout(index).state() };
        checkout(index).note(&state).unwrap();
    }
    let roomy =
        SpaceLimits { bytes_max: None, free_min_bytes: Some(0), idle_max: Duration::from_secs(u64::MAX) };
    bench.workspaces.collect_space(&roomy).unwrap();
    assert!(roots.iter().all(|root| root.exists()));
    let size = checkout(2).bytes();
    assert!(size >= 100_000);
    let tight = SpaceLimits { bytes_max: Some(size + size / 2), ..roomy };
    bench.workspaces.collect_space(&tight).unwrap();
    assert_eq!(roots.iter().map(|root| root.exists()).collect::<Vec<_>>(), [true, false, true]);
    bench.workspaces.make_room(&roomy).unwrap();
    assert!(roots[2].exists(), "there is room");
    bench.workspaces.make_room(&SpaceLimits { free_min_bytes: Some(u64::MAX), ..roomy }).unwrap();
    assert_eq!(roots.iter().map(|root| root.exists()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(bench.prepare(3, &sources[2]).root, roots[2]);
    bench.workspaces.release(attempt(3)).unwrap();
    let none = SpaceLimits { bytes_max: Some(0), ..roomy };
    bench.workspaces.collect_space(&none).unwrap();
    assert_eq!(roots.iter().map(|root| root.exists()).collect::<Vec<_>>(), [true, false, false]);
    bench.prepare(7, &sources[1]);
}
