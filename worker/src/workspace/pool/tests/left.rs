//! Tests of leftovers of jobs, and of cleanup while other jobs start.

use super::*;
use nix::sys::stat::Mode;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn pipes_in_place_of_files_that_git_reads_do_not_block_the_next_job() {
    let bench = Bench::new();
    bench.write(".gitignore", "/target\n");
    for file in ["src/a", "src/deep/b"] {
        bench.write(file, file);
    }
    bench.commit();
    let root = bench.run(1);
    let all = [
        ".gitignore",
        ".gitattributes",
        "src/.gitignore",
        "src/deep/.gitattributes",
        "loose/deep/.gitignore",
        "loose/.gitattributes",
        "target/.gitignore",
    ];
    let singly = all.iter().map(std::slice::from_ref);
    for (number, pipes) in (2..).zip(singly.chain([&all[..], &[]])) {
        for pipe in pipes {
            let path = root.join(pipe);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::remove_file(&path).ok();
            nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        }
        // Files that git compares by content, for which it reads attributes.
        fs::write(root.join("src/a"), "src/b").unwrap();
        bench.write("src/deep/b", &number.to_string());
        // Another checkout would mean that git had to be killed.
        assert_eq!(bench.run(number), root, "{pipes:?}");
        assert_eq!(fs::read_to_string(root.join(".gitignore")).unwrap(), "/target\n");
        assert!(!root.join("loose").exists() && !root.join(".gitattributes").exists(), "{pipes:?}");
    }
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
    // With the quick method, and then with the slow one for files that a job has changed.
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

/// Sets all times that show the last use of a project to two days ago.
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
    let limits =
        SpaceLimits { bytes_max: None, free_min_bytes: Some(0), idle_max: Duration::from_secs(u64::MAX) };
    age(&project);
    assert_eq!(bench.workspaces.missing(&source).unwrap(), None);
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
    let limits =
        SpaceLimits { bytes_max: None, free_min_bytes: Some(0), idle_max: Duration::from_secs(u64::MAX) };
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
    // At least once in the same second as the checkout.
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
        assert_eq!(fs::read_dir(root.join(".git/objects")).unwrap().count(), 2, "added files are gone too");
    }
}

#[test]
fn a_checkout_that_can_not_be_laid_out_again_makes_place_for_a_new_one() {
    let bench = Bench::new();
    bench.write("file", "content");
    bench.commit();
    let root = bench.run(1);
    fs::write(root.join("untracked"), "x").unwrap();
    let directory = root.parent().unwrap();
    // Like an unremovable file: the state cannot be written.
    fs::remove_file(directory.join("state.json")).unwrap();
    fs::create_dir_all(directory.join("state.json/full")).unwrap();
    for (number, clean) in [(2, false), (3, true)] {
        let source = bench.deliver();
        let prepared = bench.workspaces.prepare(attempt(number), &source, clean, bench.root.path()).unwrap();
        assert_eq!(fs::read_dir(&prepared.root).unwrap().count(), 2, "the file and `.git`");
        assert_eq!(prepared.root, root);
        bench.workspaces.release(attempt(number)).unwrap();
        fs::remove_file(directory.join("state.json")).unwrap();
        fs::create_dir(directory.join("state.json")).unwrap();
    }
    let left = fs::read_dir(directory.ancestors().nth(2).unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("removed")), "removable files are removed: {left:?}");
}

#[test]
fn what_keeps_one_checkout_from_being_measured_keeps_no_other_from_being_removed() {
    let bench = Bench::new();
    bench.write("file", "content");
    bench.commit();
    let roots: Vec<PathBuf> = ["one", "two"]
        .iter()
        .zip(1..)
        .map(|(project, number)| {
            let root = bench.prepare(number, &bench.deliver_as(project)).root;
            bench.workspaces.release(attempt(number)).unwrap();
            root
        })
        .collect();
    for root in &roots {
        fs::create_dir(root.parent().unwrap().join("bytes")).unwrap();
    }
    let none = SpaceLimits {
        bytes_max: None,
        free_min_bytes: Some(u64::MAX),
        idle_max: Duration::from_secs(u64::MAX),
    };
    bench.workspaces.collect_space(&none).unwrap();
    assert!(roots.iter().all(|root| !root.exists()), "{roots:?}");
}

#[test]
fn locks_that_a_killed_git_left_are_in_no_jobs_way() {
    let bench = Bench::new();
    bench.write("file", "content");
    bench.commit();
    // This makes git write all indexes.
    bench.write("file", "changed");
    let root = bench.run(1);
    for (number, content) in [(2, "again"), (3, "and again")] {
        for index in ["index", "index.visible"] {
            fs::write(root.parent().unwrap().join(format!("{index}.lock")), "torn").unwrap();
        }
        fs::write(root.join(".git/index.lock"), "torn").unwrap();
        bench.write("file", content);
        assert_eq!(bench.run(number), root);
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), content);
        assert_eq!(git(&root, &["status", "--porcelain"]), " M file");
    }
}

#[test]
fn no_projects_name_is_in_the_way_of_the_checkouts_own_files() {
    let bench = Bench::new();
    bench.write("file", "content");
    bench.commit();
    let names = [
        "Index",
        "objects",
        "index.lock",
        "index.visible",
        "Derived",
        "state.json",
        "BYTES",
        "Lease",
        "Excludes",
    ];
    for (name, number) in names.iter().zip(1..) {
        let source = bench.deliver_as(&format!("example.org/team/{name}"));
        let prepared = bench.prepare(number, &source);
        assert_eq!(prepared.root.file_name().unwrap(), "tree", "{name}");
    }
    let prepared = bench.prepare(100, &bench.deliver_as("example.org/team/indexer.js"));
    assert_eq!(prepared.root.file_name().unwrap(), "indexer.js");
}

#[test]
fn what_is_another_users_is_taken_away_though_nothing_else_of_it_changed() {
    let me = nix::unistd::Uid::effective();
    if !me.is_root() {
        eprintln!("SKIPPED: only root can give files away");
        return;
    }
    let bench = Bench::new();
    bench.write(".gitignore", "*.o\n");
    for file in ["src/a", "src/b", "c"] {
        bench.write(file, file);
    }
    bench.commit();
    let root = bench.run(1);
    let owner = |path: &str| fs::symlink_metadata(root.join(path)).unwrap().uid();
    let give_away = |path: &str| std::os::unix::fs::chown(root.join(path), Some(60_902), None).unwrap();
    let time = |path: &str| fs::metadata(root.join(path)).unwrap().modified().unwrap();
    fs::write(root.join("x.o"), "").unwrap();
    let before = time("src/b");
    give_away("src/a");
    give_away("x.o");
    assert_eq!(bench.run(2), root);
    assert_eq!((owner("src/a"), owner("x.o")), (me.as_raw(), 60_902), "what is ignored is the jobs'");
    assert_eq!(time("src/b"), before);
    for (place, number) in [("src", 3), ("", 4), (".git", 5), (".git/info", 6)] {
        give_away(place);
        assert_eq!(bench.run(number), root);
        assert_eq!(owner(place), me.as_raw(), "{place}");
        assert_eq!(contents(&root), contents(&bench.home()));
    }
    let lent = bench.workspaces.clone().linking_objects();
    give_away("src/a");
    lent.prepare(attempt(7), &bench.deliver(), false, bench.root.path()).unwrap();
    assert_eq!(owner("src/a"), 60_902, "the user that ran the job");
}

#[test]
fn a_checkout_that_is_closed_to_us_is_passed_over() {
    if cfg!(not(target_os = "linux")) && nix::unistd::Uid::effective().is_root() {
        eprintln!("SKIPPED: root gets in everywhere");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let closed = place.path().join("1");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let taken = std::thread::scope(|scope| {
        let taking = || {
            // This affects only this thread. root would have access.
            #[cfg(target_os = "linux")]
            if nix::unistd::Uid::effective().is_root() {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(60_902));
            }
            crate::workspace::pool::leases::take_lease(&closed, "somebody")
        };
        scope.spawn(taking).join().unwrap()
    });
    assert!(matches!(taken, Ok(false)), "{taken:?}");
}

#[test]
fn an_ignore_file_that_a_job_made_hides_nothing_from_the_next_one() {
    let bench = Bench::new();
    bench.write(".gitignore", "/target\n");
    bench.write("odd/.gitignore", "*.o\n");
    bench.write("src/deep/a", "a");
    bench.commit();
    let root = bench.run(1);
    for number in 2..4 {
        for (place, patterns) in
            [("src", "*\n"), ("src/deep", "/hollow\n/pipe\nx\n"), ("target/cache", "*\n")]
        {
            fs::create_dir_all(root.join(place).join("hollow")).unwrap();
            fs::write(root.join(place).join(".gitignore"), patterns).unwrap();
            fs::write(root.join(place).join("x"), "x").unwrap();
        }
        nix::unistd::mkfifo(&root.join("src/deep/pipe"), Mode::S_IRWXU).unwrap();
        fs::write(root.join("odd/kept.o"), "x").unwrap();
        bench.write("src/deep/a", &number.to_string());
        assert_eq!(bench.run(number), root);
        for gone in [
            "src/.gitignore",
            "src/x",
            "src/hollow",
            "src/deep/.gitignore",
            "src/deep/x",
            "src/deep/hollow",
            "src/deep/pipe",
        ] {
            assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone} in round {number}");
        }
        for kept in ["target/cache/.gitignore", "target/cache/x", "odd/kept.o", "odd/.gitignore"] {
            assert!(root.join(kept).exists(), "{kept} in round {number}");
        }
    }
}
