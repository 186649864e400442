//! What jobs leave behind, and what is taken away while others begin.

use super::*;
use nix::sys::stat::Mode;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn what_git_does_not_list_does_not_reach_the_next_job_either() {
    let bench = Bench::new();
    bench.write(".gitignore", "/target\n*.sock\n");
    for file in ["src/a", "src/b", "src/deep/c"] {
        bench.write(file, file);
    }
    bench.commit();
    let root = bench.run(1);
    let wanted = (mode(&root.join("src/b")), mode(&root.join("src")));
    // By the quick way, and then by the one for files that a job has changed.
    for (number, is_changed) in [(2, false), (3, true), (4, false)] {
        git(&root.join("src"), &["init", "-q"]);
        git(&root.join("src"), &["config", "core.fsmonitor", "echo PWNED"]);
        for directory in
            ["empty/deep", "src/hollow", "target/hollow", "target/inner/.git", "loose/.git", "x.sock"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("loose/.git/config"), "no repository").unwrap();
        fs::write(root.join("src/deep/.git"), "gitdir: /nowhere").unwrap();
        for pipe in ["pipe", "src/pipe", "kept.sock", "empty/deep/pipe"] {
            nix::unistd::mkfifo(&root.join(pipe), Mode::S_IRWXU).ok();
        }
        fs::set_permissions(root.join("src/deep"), fs::Permissions::from_mode(0o777)).unwrap();
        if is_changed {
            fs::set_permissions(root.join("src/a"), fs::Permissions::from_mode(0o400)).unwrap();
            fs::set_permissions(root.join("src/b"), fs::Permissions::from_mode(0o666)).unwrap();
        }
        bench.write("src/deep/c", &number.to_string());
        assert_eq!(bench.run(number), root);
        assert_eq!(
            git(&root.join("src"), &["status", "--porcelain"]),
            bench.user(&["status", "--porcelain"])
        );
        assert_eq!(git(&root.join("src/deep"), &["rev-parse", "HEAD"]), bench.user(&["rev-parse", "HEAD"]));
        for gone in ["src/.git", "src/deep/.git", "empty", "src/hollow", "loose", "pipe", "src/pipe"] {
            assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone} in round {number}");
        }
        for kept in ["target/hollow", "target/inner/.git", "kept.sock", "x.sock"] {
            assert!(fs::symlink_metadata(root.join(kept)).is_ok(), "{kept} in round {number}");
        }
        for file in ["src/a", "src/b", "src/deep/c"] {
            assert_eq!(mode(&root.join(file)), wanted.0, "{file} in round {number}");
        }
        assert_eq!(mode(&root.join("src/deep")), wanted.1);
    }
}

#[test]
fn permissions_are_put_right_through_no_link() {
    let bench = Bench::new();
    bench.write("dir/file", "x");
    bench.commit();
    let root = bench.run(1);
    let outside = bench.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    fs::set_permissions(outside.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_dir_all(root.join("dir")).unwrap();
    symlink(&outside, root.join("dir")).unwrap();
    assert_eq!(bench.run(2), root);
    assert_eq!(contents(&root), contents(&bench.home()));
    assert_eq!(mode(&outside.join("file")), 0o600);
}

/// Two days ago, for everything that tells when a project was used.
fn age(project: &Path) {
    let past = SystemTime::now() - Duration::from_secs(2 * 86_400);
    let records = fs::read_dir(project.join("objects/snapshots")).unwrap().map(|entry| entry.unwrap().path());
    for path in records.chain([project.join("objects/snapshots"), project.join("project")]) {
        fs::File::open(path).unwrap().set_modified(past).unwrap();
    }
}

#[test]
fn a_project_that_a_job_is_about_to_use_is_not_removed_for_its_age() {
    let bench = Bench::new();
    bench.write("a", "a");
    bench.commit();
    let source = bench.deliver();
    let project = bench.workspaces.project("example.org/team/app");
    let limits = SpaceLimits { bytes_max: None, free_min_bytes: 0, idle_max: Duration::from_secs(u64::MAX) };
    age(&project);
    assert_eq!(bench.workspaces.lacking(&source).unwrap(), None);
    bench.workspaces.collect_space(&limits).unwrap();
    bench.prepare(1, &source);
    bench.workspaces.release(attempt(1)).unwrap();
    let none = SpaceLimits { bytes_max: Some(0), ..limits };
    bench.workspaces.collect_space(&none).unwrap();
    assert!(project.exists() && !project.join("removed").exists());
    age(&project);
    let preparing = bench.workspaces.share().unwrap();
    bench.workspaces.collect_space(&limits).unwrap();
    assert!(project.exists(), "while files are laid out");
    drop(preparing);
    bench.workspaces.collect_space(&limits).unwrap();
    assert!(!project.exists());
    bench.prepare(2, &bench.deliver());
}

#[test]
fn objects_are_tidied_while_jobs_run_and_these_keep_theirs() {
    let bench = Bench::new();
    bench.write("a", "first");
    bench.commit();
    let source = bench.deliver();
    let busy = bench.prepare(1, &source);
    for number in 0..buildpool_objects::limits::PACKS_MAX {
        bench.write("a", &format!("{number}"));
        bench.deliver();
    }
    let packs = bench.workspaces.project("example.org/team/app").join("objects/objects/pack");
    let count = || {
        let names = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).count()
    };
    assert!(count() >= buildpool_objects::limits::PACKS_MAX);
    let limits = SpaceLimits { bytes_max: None, free_min_bytes: 0, idle_max: Duration::from_secs(u64::MAX) };
    bench.workspaces.collect_space(&limits).unwrap();
    assert_eq!(count(), 1);
    assert_eq!(git(&busy.root, &["show", "HEAD:a"]), "first");
    assert_eq!(git(&busy.root, &["status", "--porcelain"]), "");
    assert_eq!(bench.prepare(2, &source).root.parent().unwrap().file_name().unwrap(), "2");
}

#[test]
fn permissions_of_files_that_git_overlooks_are_put_right() {
    let bench = Bench::new();
    bench.write(".gitignore", "*.o\n");
    for file in ["a", "b", "c", "tool"] {
        bench.write(file, file);
    }
    fs::set_permissions(bench.home().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    bench.commit();
    let source = bench.deliver();
    let root = bench.run(0);
    let wanted = ["a", "b", "c", "tool"].map(|file| mode(&root.join(file)));
    // In the second in which they were laid out, at least once.
    for number in 1..4 {
        let prepared = bench.workspaces.prepare(attempt(number), &source, true, bench.root.path()).unwrap();
        for (file, mode) in [("a", 0o600), ("b", 0o444), ("c", 0o666), ("tool", 0o777), ("x.o", 0o600)] {
            fs::write(prepared.root.join("x.o"), "").unwrap();
            fs::set_permissions(prepared.root.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        bench.workspaces.release(attempt(number)).unwrap();
        assert_eq!(bench.run(number + 10), prepared.root);
        assert_eq!(["a", "b", "c", "tool"].map(|file| mode(&prepared.root.join(file))), wanted);
        assert_eq!(mode(&prepared.root.join("x.o")), 0o600, "ignored: the job's");
    }
}

#[test]
fn nothing_that_a_job_did_to_its_repository_reaches_the_next_one() {
    let bench = Bench::new();
    for file in ["a", "b"] {
        bench.write(file, file);
    }
    bench.commit();
    bench.write("b", "uncommitted");
    let root = bench.run(1);
    let status = bench.user(&["status", "--porcelain"]);
    let flags = git(&root, &["ls-files", "-v"]);
    let forged = ["info/attributes", "info/grafts", "info/sparse-checkout", "objects/info/commit-graph"];
    for number in 2..5 {
        bench.write("b", &format!("uncommitted {}", number / 3));
        git(&root, &["rm", "-q", "--cached", "b"]);
        git(&root, &["update-index", "--assume-unchanged", "a"]);
        fs::write(root.join("n"), "n").unwrap();
        git(&root, &["add", "n"]);
        for file in forged {
            fs::write(root.join(".git").join(file), "x").unwrap();
        }
        fs::write(root.join(".git/objects/pack/pack-1.idx"), "x").unwrap();
        for file in ["HEAD", "info/exclude", "refs/heads"] {
            let file = root.join(".git").join(file);
            if number == 3 {
                crate::workspace::pool::remove(&file).unwrap();
                fs::create_dir_all(file.join("in the way")).unwrap();
            }
        }
        if number == 4 {
            fs::set_permissions(root.join(".git/info"), fs::Permissions::from_mode(0o0)).unwrap();
        }
        assert_eq!(bench.run(number), root);
        assert_eq!(git(&root, &["status", "--porcelain"]), status, "{number}");
        assert_eq!(git(&root, &["ls-files", "-v"]), flags, "{number}");
        for file in forged {
            assert!(!root.join(".git").join(file).exists(), "{file}");
        }
        assert_eq!(fs::read_dir(root.join(".git/objects/pack")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(root.join(".git/objects")).unwrap().count(), 2, "what was added is gone too");
    }
}
