//! States of repositories.

use super::*;

#[test]
fn a_branch_is_known_where_references_are_no_files() {
    let project = Project::empty();
    let init = ["init", "-q", "-b", "main", "--ref-format=reftable"];
    // Older versions of git do not support reftable.
    if !git_command(&project.top(), &init).output().unwrap().status.success() {
        return;
    }
    let branch = || project.take().manifest.head.and_then(|head| head.branch);
    project.write("a", "a");
    project.commit("first");
    assert_eq!(branch().as_deref(), Some("main"));
    project.git(&["switch", "-q", "-c", "side/way"]);
    project.git(&["tag", "-am", "one", "v1"]);
    assert_eq!(branch().as_deref(), Some("side/way"));
    assert_eq!(project.take().manifest.head.unwrap().tags[0].name, "v1");
    project.git(&["switch", "-q", "--detach"]);
    assert_eq!(branch(), None);
}

#[test]
fn an_unborn_branch() {
    let project = Project::empty();
    project.git(&["init", "-q"]);
    project.take_as_it_is();
    project.write("a", "a");
    project.write("b", "b");
    project.git(&["add", "a"]);
    assert_eq!(project.take_as_it_is().manifest.head, None);
}

#[test]
fn the_middle_of_a_merge_of_a_rebase_of_a_cherry_pick_and_of_a_bisect() {
    let conflict = || {
        let project = Project::new();
        project.git(&["checkout", "-q", "-b", "other"]);
        project.write("README", "other\n");
        project.write("theirs", "x");
        project.commit("other");
        project.git(&["checkout", "-q", "main"]);
        project.write("README", "main\n");
        project.commit("main");
        project
    };
    for arguments in [["merge", "other"], ["rebase", "other"], ["cherry-pick", "other"], ["revert", "HEAD~1"]]
    {
        let project = conflict();
        project.take_as_it_is();
        let status =
            git_command(&project.top(), &arguments).env("GIT_EDITOR", "true").output().unwrap().status;
        assert!(arguments[0] == "revert" || !status.success(), "{arguments:?} should have met a conflict");
        project.take_as_it_is();
        let fresh = Options { cache: Some(project.root.path().join("another")), ..project.options() };
        let snapshot = project.take_with(&fresh);
        assert_eq!(
            project.contents(&snapshot),
            project.on_disk(&[]),
            "first call in the middle of {arguments:?}"
        );
    }
    let project = conflict();
    project.git(&["bisect", "start"]);
    project.git(&["bisect", "bad"]);
    project.git(&["bisect", "good", "HEAD~1"]);
    project.take_as_it_is();
}

#[test]
fn a_tracked_file_that_went_and_comes_back_is_seen_though_the_index_never_changed() {
    let project = Project::new();
    let whole = project.take_as_it_is();
    let content = fs::read(project.path("README")).unwrap();
    fs::remove_file(project.path("README")).unwrap();
    let without = project.take_as_it_is();
    assert_eq!(project.take_as_it_is().id(), without.id());
    project.write("README", content);
    assert_eq!(project.take_as_it_is().id(), whole.id());
}

#[test]
fn a_pointer_that_no_filter_was_there_to_smudge_goes_along_as_it_lies_there() {
    let project = Project::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    project.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    project.write("model.bin", pointer);
    project.commit("as from a machine without git-lfs");
    // A required but missing filter would make any git command on the file fail.
    for setting in ["clean", "smudge", "process"] {
        project.git(&["config", &format!("filter.lfs.{setting}"), "git-lfs-is-not-here"]);
    }
    project.git(&["config", "filter.lfs.required", "true"]);
    let clean = project.take_as_it_is();
    assert_eq!(project.contents(&clean)["model.bin"].1, pointer.as_bytes());
    project.write("model.bin", "the whole model");
    project.take_as_it_is();
}

#[test]
fn a_linked_worktree_and_a_detached_head() {
    let project = Project::new();
    project.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    let linked = project.root.path().join("linked");
    fs::write(linked.join("README"), "in the linked one").unwrap();
    let before = fingerprint(project.root.path(), false);
    let options = Options { directory: linked.join("src"), ..project.options() };
    let snapshot = take(&options).unwrap();
    let mut after = fingerprint(project.root.path(), false);
    after.retain(|path, _| !path.starts_with(project.root.path().join("cache")));
    let mut before = before;
    for both in [&mut before, &mut after] {
        both.remove(project.root.path());
    }
    assert_same(&before, &after);
    assert_eq!(project.contents(&snapshot)["README"].1, b"in the linked one");
    assert_eq!(snapshot.directory, "src");
    assert_eq!(snapshot.manifest.head.as_ref().unwrap().branch, None);
}

#[test]
fn a_sparse_checkout_is_what_is_on_disk_also_with_a_sparse_index() {
    for sparse_index in ["--no-sparse-index", "--sparse-index"] {
        let project = Project::new();
        for directory in ["app", "lib", "docs"] {
            project.write(&format!("{directory}/deep/file"), directory);
        }
        project.commit("directories");
        let whole = project.take_as_it_is();
        project.git(&["sparse-checkout", "set", "--cone", sparse_index, "app"]);
        assert!(!project.path("docs").exists());
        project.take_as_it_is();
        let fresh = Options { cache: Some(project.root.path().join("another")), ..project.options() };
        assert_eq!(project.contents(&project.take_with(&fresh)), project.on_disk(&[]));
        project.write("app/deep/file", "changed");
        project.write("lib/new", "outside");
        project.take_as_it_is();
        project.git(&["checkout", "-q", "app"]);
        project.git(&["sparse-checkout", "disable"]);
        fs::remove_file(project.path("lib/new")).unwrap();
        assert_eq!(project.take_as_it_is().id(), whole.id());
    }
}

#[test]
fn indexes_of_every_kind_and_version() {
    for version in ["2", "3", "4"] {
        let project = Project::new();
        project.git(&["update-index", "--index-version", version]);
        project.write("README", "changed");
        project.take_as_it_is();
    }
    let split = Project::new();
    split.git(&["update-index", "--split-index"]);
    split.write("more", "x");
    split.git(&["add", "more"]);
    split.take_as_it_is();
    split.write("README", "changed");
    split.git(&["add", "-A"]);
    split.take_as_it_is();
    let caching = Project::new();
    caching.git(&["update-index", "--untracked-cache"]);
    caching.git(&["status"]);
    caching.write("untracked", "x");
    caching.take_as_it_is();
    let skipping = Project::new();
    skipping.git(&["config", "index.skipHash", "true"]);
    skipping.write("more", "x");
    skipping.git(&["add", "more"]);
    skipping.take_as_it_is();
}

#[test]
fn flags_that_hide_changes_from_git_hide_nothing_here() {
    let project = Project::new();
    project.git(&["update-index", "--assume-unchanged", "README"]);
    project.git(&["update-index", "--skip-worktree", "src/lib.rs"]);
    project.write("announced", "x");
    project.git(&["add", "-N", "announced"]);
    project.write("README", "changed");
    project.write("src/lib.rs", "changed too");
    project.take_as_it_is();
}

#[test]
fn sha256_and_files_without_modes() {
    let project = Project::empty();
    project.git(&["init", "-q", "--object-format=sha256"]);
    project.write("a", "a");
    project.commit("first");
    project.write("b", "b");
    let snapshot = project.take_as_it_is();
    assert_eq!(snapshot.id().as_str().len(), 64);

    let project = Project::new();
    project.git(&["config", "core.fileMode", "false"]);
    fs::set_permissions(project.path("README"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(project.contents(&project.take())["README"].0, "100644");
}

#[test]
fn a_lock_hooks_and_a_monitor_in_the_repository_do_not_matter() {
    let project = Project::new();
    fs::write(project.path(".git/index.lock"), "").unwrap();
    for hook in ["post-index-change", "pre-commit", "post-checkout", "reference-transaction"] {
        let path = project.path(&format!(".git/hooks/{hook}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}/ran\n", project.root.path().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(project.path("monitor"), format!("#!/bin/sh\ntouch {}/ran\n", project.root.path().display()))
        .unwrap();
    fs::set_permissions(project.path("monitor"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        project.path(".git/config"),
        fs::read_to_string(project.path(".git/config")).unwrap()
            + &format!(
                "[core]\n\tfsmonitor = {0}/monitor\n\thooksPath = {0}/.git/hooks\n",
                project.top().display()
            ),
    )
    .unwrap();
    project.write("README", "changed");
    project.take_as_it_is();
    assert!(!project.root.path().join("ran").exists());
}

#[test]
fn objects_that_the_repository_dropped_since_are_read_anew() {
    let project = Project::new();
    project.write("staged", "soon gone");
    project.git(&["add", "staged"]);
    project.take_as_it_is();
    project.git(&["rm", "-q", "--cached", "staged"]);
    project.git(&["prune", "--expire=now"]);
    project.take_as_it_is();
}

/// Returns the only store of a project.
fn store_of(project: &Project) -> PathBuf {
    let caches = fs::read_dir(project.root.path().join("cache")).unwrap();
    let stores: Vec<PathBuf> = caches.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(stores.len(), 1, "{stores:?}");
    stores[0].clone()
}

#[test]
fn objects_of_our_own_that_went_are_made_anew_and_no_base() {
    let project = Project::new();
    project.write("untracked", "1");
    let first = project.take_as_it_is();
    first.delivered(None).unwrap();
    let objects = store_of(&project).join("git/objects");
    for entry in fs::read_dir(&objects).unwrap().map(Result::unwrap) {
        if entry.file_name().len() == 2 {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    project.write("another", "2");
    let second = project.take();
    let error = second.pack(Some(first.id()), None).unwrap_err();
    assert!(matches!(error, SnapshotError::BaseGone { .. }), "{error}");
    assert_eq!(project.contents(&second), project.on_disk(&[]));
}

#[test]
fn locks_that_a_killed_git_left_are_in_nobodys_way() {
    let project = Project::new();
    project.git(&["config", "core.autocrlf", "true"]);
    project.write("converted", "one\r\ntwo\r\n");
    project.commit("converted");
    project.git(&["init", "-q", "inside"]);
    project.write("inside/file", "x");
    project.git(&["update-index", "--split-index"]);
    project.take_as_it_is();
    for store in fs::read_dir(project.root.path().join("cache")).unwrap().map(Result::unwrap) {
        for index in ["index", "index.new", "grafted-index", "users-index"] {
            fs::write(store.path().join(format!("{index}.lock")), "torn").unwrap();
        }
        // As before the first call.
        for index in ["index", "users-index"] {
            fs::remove_file(store.path().join(index)).ok();
        }
    }
    project.take_as_it_is();
}

#[test]
fn a_shallow_and_a_partial_clone() {
    let origin = Project::new();
    origin.commit("second");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    for depth in [vec!["--depth=1"], vec!["--filter=blob:none"], vec!["--filter=blob:none", "--sparse"]] {
        let project = Project::empty();
        fs::remove_dir(project.top()).unwrap();
        let url = format!("file://{}", origin.top().display());
        let mut arguments = vec!["clone", "-q"];
        arguments.extend(depth);
        arguments.extend([url.as_str(), "project"]);
        git(project.root.path(), &arguments);
        project.write("README", "changed");
        let before = fingerprint(&project.top(), true);
        let snapshot = take(&project.options());
        assert_same(&before, &fingerprint(&project.top(), true));
        assert_eq!(snapshot.unwrap().manifest.files, project.on_disk(&[]).len() as u64, "{arguments:?}");
    }
}

#[test]
fn places_without_a_working_tree_say_so() {
    let project = Project::new();
    let inside = take(&Options { directory: project.path(".git"), ..project.options() });
    assert!(matches!(inside, Err(SnapshotError::NoWorkTree { .. })), "{inside:?}");
    git(project.root.path(), &["init", "-q", "--bare", "bare"]);
    let bare = take(&Options { directory: project.root.path().join("bare"), ..project.options() });
    assert!(matches!(bare, Err(SnapshotError::NoWorkTree { .. })), "{bare:?}");
    let gone = take(&Options { directory: project.path("gone"), ..project.options() });
    assert!(matches!(gone, Err(SnapshotError::Directory { .. })), "{gone:?}");
    let root = take(&Options { directory: "/".into(), ..project.options() });
    assert!(matches!(root, Err(SnapshotError::TooBroad { .. })), "{root:?}");
}

#[test]
fn a_partial_clone_travels_without_its_commit_and_says_so() {
    let origin = Project::new();
    origin.write("kept/a", "a\n");
    origin.write("left/b", "b\n");
    origin.commit("more");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let project = Project::empty();
    fs::remove_dir(project.top()).unwrap();
    let url = format!("file://{}", origin.top().display());
    let clone = ["clone", "-q", "--filter=blob:none", "--sparse", &url, "project"];
    git(project.root.path(), &clone);
    project.git(&["sparse-checkout", "set", "kept"]);
    let snapshot = project.take();
    assert_eq!(project.contents(&snapshot), project.on_disk(&[]));
    assert!(snapshot.manifest.head.is_none());
    assert!(snapshot.notes[0].starts_with("this clone is partial"), "{:?}", snapshot.notes);
    let at_a_ref = Options { commit: Some("HEAD".into()), ..project.options() };
    let text = take(&at_a_ref).unwrap_err().to_string();
    assert!(text.contains("partial (--filter)") && text.contains("`HEAD`"), "{text}");
    // With all files available, it is like any other clone.
    project.git(&["sparse-checkout", "disable"]);
    let whole = project.take_as_it_is();
    assert!(whole.manifest.head.is_some() && whole.notes.is_empty(), "{:?}", whole.notes);
    take(&at_a_ref).unwrap();
}

#[test]
fn a_line_end_in_the_name_of_a_directory_is_a_part_of_it() {
    let project = Project::new();
    let odd = project.root.path().join("two\nlines\n");
    fs::rename(project.top(), &odd).unwrap();
    fs::create_dir(odd.join("sub")).unwrap();
    let options = Options { directory: odd.join("sub"), ..project.options() };
    let snapshot = take(&options).unwrap();
    assert_eq!(
        (snapshot.top.as_path(), snapshot.directory.as_str()),
        (odd.canonicalize().unwrap().as_path(), "sub")
    );
    assert_eq!(snapshot.manifest.files, 3);
}

#[test]
fn a_damaged_index_is_called_by_its_name() {
    let project = Project::new();
    project.write(".git/index", "garbage");
    let error = take(&project.options()).unwrap_err();
    assert!(error.to_string().contains("project/.git/index"), "{error}");
}

#[test]
fn a_configuration_that_git_does_not_take_is_named_with_what_is_wrong() {
    for (configuration, reason) in [
        ("[user\nbad", "bad config line 1 in file .git/config"),
        ("[core]\n\tfilemode = maybe\n", "'core.filemode'"),
    ] {
        let project = Project::new();
        project.write(".git/config", configuration);
        let text = take(&project.options()).unwrap_err().to_string();
        assert!(text.contains("git refuses its configuration") && text.contains(reason), "{text}");
    }
}
