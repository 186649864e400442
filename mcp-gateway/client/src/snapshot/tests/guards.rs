//! Files that are not included.

use super::*;

#[test]
fn uncommitted_secrets_stay_and_are_named_committed_ones_go_as_committed() {
    let project = Project::new();
    project.write("fixtures/test.pem", "committed key");
    project.write(".env", "COMMITTED=1");
    project.commit("with secrets");
    assert_eq!(project.contents(&project.take()), project.on_disk(&[]));
    project.write(".env", "TOKEN=real");
    project.write("deploy/.env.production", "x");
    project.write("id_rsa", "x");
    project.write("staged.key", "x");
    project.git(&["add", "staged.key"]);
    let snapshot = project.take();
    assert_eq!(snapshot.kept_back, [".env", "deploy/.env.production", "id_rsa", "staged.key"]);
    assert_eq!(snapshot.info().kept_back, snapshot.kept_back);
    let mut expected = project.on_disk(&["deploy/.env.production", "id_rsa", "staged.key"]);
    expected.get_mut(".env").unwrap().1 = b"COMMITTED=1".to_vec();
    assert_eq!(project.contents(&snapshot), expected);
    assert_eq!(project.take().kept_back, snapshot.kept_back, "said each time");

    let all = Options { allow_secrets: true, ..project.options() };
    let snapshot = project.take_with(&all);
    assert_eq!(project.contents(&snapshot), project.on_disk(&[]));
    assert!(snapshot.kept_back.is_empty());
    assert_eq!(project.contents(&project.take()), expected, "and not the next time");
    project.write(".env", "COMMITTED=1");
    assert!(!project.take().kept_back.contains(&".env".to_owned()));
}

#[test]
fn a_result_names_the_first_of_many_secrets_and_counts_them() {
    let project = Project::new();
    for index in 0..150 {
        project.write(&format!("{index:03}.pem"), "key");
    }
    let snapshot = project.take();
    assert_eq!(snapshot.kept_back.len(), 150);
    let info = snapshot.info();
    assert_eq!((info.kept_back.len(), info.kept_back[99].as_str()), (100, "099.pem"));
    assert_eq!(info.notes, ["kept back: 150 files; the first 100 are listed"]);
}

#[test]
fn the_guard_names_the_largest_files_and_nothing_is_read_then() {
    let project = Project::new();
    project.write("small", "x");
    project.write("video.mov", vec![b'x'; 70_000]);
    project.write("dump.sql", vec![b'x'; 90_000]);
    let options = Options { guard_bytes: 100_000, ..project.options() };
    let Err(SnapshotError::TooLarge { bytes, guard, largest }) = take(&options) else { panic!() };
    assert_eq!((bytes, guard), (160_001, 100_000));
    assert_eq!(largest[..2], [("dump.sql".to_owned(), 90_000), ("video.mov".to_owned(), 70_000)]);
    let text = take(&options).unwrap_err().to_string();
    assert!(text.contains("0.1 MB dump.sql") && text.contains(".buildpoolignore"), "{text}");
    project.write(".buildpoolignore", "dump.sql\n");
    assert_eq!(project.contents(&project.take_with(&options)), project.on_disk(&["dump.sql"]));
    project.write("small", "y");
    project.take_with(&options);
}

#[test]
fn pipes_and_sockets_are_passed_over() {
    let project = Project::new();
    nix::unistd::mkfifo(&project.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(project.path("socket")).unwrap();
    let snapshot = project.take_with(&project.options());
    assert_eq!(snapshot.manifest.files, 3);
}

#[test]
fn a_secret_with_an_odd_name_or_that_cannot_be_read_is_kept_back_like_any_other() {
    let project = Project::new();
    let names = ["\"q.pem", "line\nend.pem", "return\r.pem", "\\.pem", "plain.pem"];
    for name in names {
        project.write(name, "committed");
    }
    project.commit("keys");
    assert!(project.take().kept_back.is_empty());
    for name in names {
        project.write(name, "SECRET");
    }
    let mut kept_back = project.take().kept_back;
    kept_back.sort();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(kept_back, expected);
    if !nix::unistd::Uid::effective().is_root() {
        fs::set_permissions(project.path("plain.pem"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(project.take().kept_back.len(), names.len());
    }
}

#[test]
fn tags_that_came_and_went_since_the_last_call_are_seen() {
    let project = Project::new();
    let tags =
        || project.take().manifest.head.unwrap().tags.into_iter().map(|tag| tag.name).collect::<Vec<_>>();
    assert_eq!(tags(), [""; 0]);
    project.git(&["tag", "-am", "one", "v1"]);
    assert_eq!(tags(), ["v1"]);
    project.git(&["pack-refs", "--all"]);
    project.git(&["tag", "light"]);
    assert_eq!(tags(), ["light", "v1"]);
    project.git(&["tag", "-d", "v1"]);
    assert_eq!(tags(), ["light"]);
}

#[test]
fn files_that_git_takes_no_such_names_of_are_said_to_stay() {
    let project = Project::new();
    for path in ["git~1", "a/.git /c", "a/b"] {
        project.write(path, "x");
    }
    symlink("elsewhere", project.path(".gitmodules")).unwrap();
    let stay = ["git~1", "a/.git /c", ".gitmodules"];
    // A repeat without changes, an edit, and a missing tracked file.
    let changes: [&dyn Fn(); 4] = [&|| (), &|| (), &|| project.write("README", "edited"), &|| {
        fs::remove_file(project.path("README")).unwrap();
    }];
    for change in changes {
        change();
        let snapshot = project.take();
        assert_eq!(project.contents(&snapshot), project.on_disk(&stay));
        let [note] = snapshot.notes.as_slice() else { panic!("{:?}", snapshot.notes) };
        assert!(note.ends_with(": .gitmodules, a/.git /c, git~1"), "{note}");
        assert_eq!(snapshot.changed_meanwhile, [""; 0]);
    }
    for path in stay {
        fs::remove_file(project.path(path)).unwrap();
    }
    assert_eq!(project.take().notes, [""; 0]);
}

#[test]
fn what_may_not_be_read_is_named() {
    if nix::unistd::Uid::effective().is_root() {
        eprintln!("SKIPPED: root reads everything");
        return;
    }
    let project = Project::new();
    project.git(&["init", "-q", "nest"]);
    let close =
        |path: &str| fs::set_permissions(project.path(path), fs::Permissions::from_mode(0o000)).unwrap();
    for path in ["data/deep/file", "nest/data/file", "nest/file", "open"] {
        project.write(path, path);
    }
    let first = project.take_as_it_is();
    for place in ["data/deep", "nest/data"] {
        close(place);
    }
    let snapshot = take(&project.options()).unwrap();
    assert!(
        snapshot.notes[0].ends_with(
            "read these directories: data/deep, nest/data (list them in .buildpoolignore to hide this note)"
        ),
        "{:?}",
        snapshot.notes
    );
    project.write(".buildpoolignore", "data/\n");
    assert!(take(&project.options()).unwrap().notes.is_empty());
    for place in ["data/deep", "nest/data"] {
        fs::set_permissions(project.path(place), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::remove_file(project.path(".buildpoolignore")).unwrap();
    assert_eq!(project.take_as_it_is().id(), first.id());
    project.write("nest/new", "x");
    close("nest/new");
    let text = take(&project.options()).unwrap_err().to_string();
    assert_eq!(
        text,
        "these files may not be read by this user: nest/new; allow it, or put them into .buildpoolignore"
    );
    project.write(".buildpoolignore", "nest/new\n");
    assert!(project.contents(&take(&project.options()).unwrap()).contains_key("nest/file"));
}

#[test]
fn a_repository_names_no_file_outside_of_it_whose_content_travels() {
    let project = Project::new();
    let private = project.root.path().join("id_rsa");
    fs::write(&private, "the private key\n").unwrap();
    symlink(&private, project.path(".buildpoolignore")).unwrap();
    fs::remove_file(project.path(".git/info/exclude")).unwrap();
    symlink(&private, project.path(".git/info/exclude")).unwrap();
    project.git(&["config", "core.excludesFile", private.to_str().unwrap()]);
    let snapshot = project.take();
    assert!(!snapshot.manifest.excludes.contains("private key"), "{:?}", snapshot.manifest.excludes);
    assert!(snapshot.notes.iter().any(|note| note.contains("core.excludesFile")), "{:?}", snapshot.notes);
    let contents = project.contents(&snapshot);
    assert!(!contents.values().any(|(_, content)| content == b"the private key\n"));
    assert_eq!(contents.get(".buildpoolignore").map(|(mode, _)| mode.as_str()), Some("120000"));
}

#[test]
fn a_wrong_key_of_the_configuration_is_a_note() {
    let project = Project::new();
    project.write(".buildpool/config.yaml", "tset: make check\n");
    let [note] = project.take().notes.try_into().expect("one note");
    assert!(note.contains(".buildpool/config.yaml: tset: unknown key; valid are test"), "{note}");
}

#[test]
fn no_pipe_that_is_named_like_an_ignore_file_is_waited_for() {
    let project = Project::new();
    nix::unistd::mkfifo(&project.path(".buildpoolignore"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(project.take_with(&project.options()).manifest.files, 3);
}

#[test]
fn a_work_tree_outside_of_the_repository_is_refused() {
    let project = Project::new();
    fs::write(project.root.path().join("private"), "not of the project").unwrap();
    for outside in [project.root.path().to_str().unwrap(), "../.."] {
        project.git(&["config", "core.worktree", outside]);
        let refused = take(&project.options());
        assert!(matches!(refused, Err(SnapshotError::Elsewhere { .. })), "{refused:?}");
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("core.worktree") && text.contains("--unset"), "{text}");
    }
    project.git(&["config", "core.worktree", ".."]);
    assert_eq!(project.take().manifest.files, 3, "its own directory by name");
}
