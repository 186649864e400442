//! Nested repositories.

use super::*;

#[test]
fn submodules_and_nested_repositories_go_along_as_files() {
    let library = Project::new();
    library.write("lib.c", "int x;\n");
    library.commit("library");
    let project = Project::new();
    let url = library.top().to_str().unwrap().to_owned();
    project.git(&["submodule", "add", "-q", &url, "vendor/library"]);
    project.commit("with a submodule");
    project.write("vendor/library/lib.c", "int changed;\n");
    project.write("vendor/library/untracked", "x");
    project.git(&["clone", "-q", &url, "tools/clone"]);
    project.write("tools/clone/inner", "x");
    git(&project.path("tools/clone"), &["clone", "-q", &url, "deeper"]);
    let first = project.take_as_it_is();
    assert_eq!(project.take_as_it_is().id(), first.id());
    assert_eq!(first.manifest.files, project.on_disk(&[]).len() as u64);
    project.write("tools/clone/deeper/lib.c", "int other;\n");
    project.write("vendor/library/.env", "SECRET");
    let second = project.take();
    assert_eq!(second.kept_back, ["vendor/library/.env"]);
    assert_eq!(project.contents(&second), project.on_disk(&["vendor/library/.env"]));
    let inside =
        take(&Options { directory: project.path("vendor/library/src"), ..project.options() }).unwrap();
    assert_eq!(inside.directory, "src", "a command inside a submodule sees the submodule as its project");
}

#[test]
fn a_submodule_that_is_not_checked_out_is_said() {
    let library = Project::new();
    let origin = Project::new();
    origin.git(&["submodule", "add", "-q", library.top().to_str().unwrap(), "vendor/library"]);
    origin.commit("with a submodule");
    let project = Project::empty();
    fs::remove_dir(project.top()).unwrap();
    git(project.root.path(), &["clone", "-q", origin.top().to_str().unwrap(), "project"]);
    let snapshot = project.take_as_it_is();
    assert_eq!(
        snapshot.notes,
        ["the submodule vendor/library is not checked out here, so its directory is empty"]
    );
    assert_eq!(snapshot.id(), &snapshot.manifest.head.as_ref().unwrap().tree, "its directory is there");
    fs::remove_dir(project.path("vendor/library")).unwrap();
    let without = project.take_as_it_is();
    assert_ne!(without.id(), snapshot.id());
    assert!(without.notes.is_empty(), "{:?}", without.notes);
}

/// Returns a project with a checked-out submodule, and a clone of it outside the project.
fn with_a_submodule(path: &str) -> Project {
    let project = Project::new();
    let outside = project.root.path().join("outside");
    git(project.root.path(), &["clone", "-q", project.top().to_str().unwrap(), "outside"]);
    project.git(&["submodule", "add", "-q", outside.to_str().unwrap(), path]);
    project.commit("with a submodule");
    project
}

#[test]
fn a_link_in_a_submodules_place_is_a_link() {
    let project = with_a_submodule("vendor/library");
    let outside = project.root.path().join("outside");
    fs::write(outside.join("private"), "x").unwrap();
    let whole = project.take_as_it_is();
    let place = project.path("vendor/library");
    fs::rename(&place, project.root.path().join("moved")).unwrap();
    let plain = project.root.path().join("plain");
    fs::create_dir(&plain).unwrap();
    for target in [outside.as_path(), Path::new("/nowhere"), Path::new(".."), &plain] {
        symlink(target, &place).unwrap();
        let snapshot = project.take_as_it_is();
        assert_eq!(project.contents(&snapshot)["vendor/library"].0, "120000", "{}", target.display());
        assert!(snapshot.notes.is_empty(), "{:?}", snapshot.notes);
        assert_eq!(project.take_as_it_is().id(), snapshot.id());
        fs::remove_file(&place).unwrap();
    }
    // Files behind a link are not part of the project; this also applies to a submodule.
    fs::rename(project.root.path().join("moved"), &place).unwrap();
    fs::rename(project.path("vendor"), project.root.path().join("elsewhere")).unwrap();
    symlink(project.root.path().join("elsewhere"), project.path("vendor")).unwrap();
    assert_eq!(project.contents(&project.take_as_it_is())["vendor"].0, "120000");
    fs::remove_file(project.path("vendor")).unwrap();
    fs::rename(project.root.path().join("elsewhere"), project.path("vendor")).unwrap();
    assert_eq!(project.take_as_it_is().id(), whole.id());
}

#[test]
fn a_file_in_a_submodules_place_goes_along() {
    let project = with_a_submodule("library");
    let whole = project.take_as_it_is();
    fs::rename(project.path("library"), project.root.path().join("moved")).unwrap();
    project.write("library", "a file\n");
    let snapshot = project.take_as_it_is();
    assert_eq!(project.contents(&snapshot)["library"].1, b"a file\n");
    assert!(snapshot.notes.is_empty(), "{:?}", snapshot.notes);
    assert_eq!(project.take_as_it_is().id(), snapshot.id());
    fs::remove_file(project.path("library")).unwrap();
    assert_ne!(project.take_as_it_is().id(), snapshot.id(), "gone");
    fs::rename(project.root.path().join("moved"), project.path("library")).unwrap();
    assert_eq!(project.take_as_it_is().id(), whole.id());
}

#[test]
fn a_submodule_without_its_git_goes_along_as_files() {
    let project = with_a_submodule("vendor/library");
    let whole = project.take_as_it_is();
    fs::remove_file(project.path("vendor/library/.git")).unwrap();
    let snapshot = project.take_as_it_is();
    assert_eq!(snapshot.id(), whole.id());
    assert!(snapshot.notes.is_empty(), "{:?}", snapshot.notes);
    project.write("vendor/library/more", "x");
    assert!(project.contents(&project.take_as_it_is()).contains_key("vendor/library/more"));
}

#[test]
fn what_leads_to_no_repository_is_named_at_the_top_and_is_a_file_below() {
    let project = Project::new();
    let linked = project.root.path().join("linked");
    project.git(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    fs::create_dir(linked.join("deep")).unwrap();
    fs::write(linked.join("deep/file"), "x").unwrap();
    fs::remove_dir_all(project.path(".git/worktrees")).unwrap();
    for directory in [linked.clone(), linked.join("deep")] {
        let error = take(&Options { directory, ..project.options() }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("linked/.git does not lead to a repository"), "{text}");
    }
    fs::rename(&linked, project.path("inside")).unwrap();
    assert!(project.contents(&project.take()).contains_key("inside/deep/file"));
}

#[test]
fn a_nested_repository_of_another_format_stays_and_is_said() {
    let project = Project::new();
    git(&project.top(), &["init", "-q", "--object-format=sha256", "odd"]);
    project.write("odd/file", "x");
    git(&project.path("odd"), &["add", "-A"]);
    git(&project.path("odd"), &["commit", "-qm", "x"]);
    let snapshot = project.take();
    assert!(snapshot.notes[0].contains("repository in odd stayed behind"), "{:?}", snapshot.notes);
    assert_eq!(project.contents(&snapshot), project.on_disk(&["odd/file"]));
}

#[test]
fn a_worktree_inside_of_the_working_tree_goes_along_as_files() {
    let project = Project::new();
    project.git(&["worktree", "add", "-q", "--detach", "trees/linked"]);
    project.write("trees/linked/README", "in the linked one");
    project.write("trees/linked/untracked", "x");
    // Its `.git` is a file and not part of the project.
    let snapshot = project.take_as_it_is();
    assert_eq!(project.contents(&snapshot)["trees/linked/README"].1, b"in the linked one");
    assert_eq!(project.take_as_it_is().id(), snapshot.id());
}

#[test]
fn a_submodule_in_conflict_goes_along_as_it_is_checked_out() {
    let library = Project::new();
    let project = Project::new();
    let url = library.top().to_str().unwrap().to_owned();
    project.git(&["submodule", "add", "-q", &url, "library"]);
    project.commit("with a submodule");
    let inside = project.path("library");
    let advance = |branch: &str| {
        project.git(&["checkout", "-q", "-B", branch, "main"]);
        git(&inside, &["checkout", "-q", "--detach", "main"]);
        fs::write(inside.join("README"), branch).unwrap();
        git(&inside, &["commit", "-qam", branch]);
        project.commit(branch);
    };
    advance("one");
    project.git(&["checkout", "-q", "main"]);
    advance("two");
    let merge = git_command(&project.top(), &["merge", "one"]).output().unwrap();
    assert!(!merge.status.success());
    assert!(project.git(&["ls-files", "--unmerged"]).contains("160000"));
    fs::write(inside.join("untracked"), "x").unwrap();
    project.take_as_it_is();
    let fresh = Options { cache: Some(project.root.path().join("another")), ..project.options() };
    assert_eq!(project.contents(&project.take_with(&fresh)), project.on_disk(&[]));
}

#[test]
fn what_is_a_secret_by_its_directory_is_one_in_a_repository_of_its_own() {
    let project = Project::new();
    for path in [".aws/credentials", ".aws/deep/config", "tools/plain"] {
        project.write(path, "x");
    }
    git(&project.path(".aws"), &["init", "-q"]);
    git(&project.path(".aws/deep"), &["init", "-q"]);
    git(&project.path("tools"), &["init", "-q"]);
    let snapshot = project.take();
    assert_eq!(snapshot.kept_back, [".aws/credentials", ".aws/deep/config"]);
    let without = project.on_disk(&[".aws/credentials", ".aws/deep/config"]);
    assert_eq!(project.contents(&snapshot), without);
    // Taken alone, it is an ordinary project. That call must not affect the next one.
    let alone = take(&Options { directory: project.path(".aws"), ..project.options() }).unwrap();
    assert_eq!((alone.manifest.files, alone.kept_back.len()), (2, 0));
    assert_eq!(project.take().id(), snapshot.id());
}

#[test]
fn nothing_is_packed_on_a_tree_of_which_a_part_went_with_its_repository() {
    let project = Project::new();
    for name in ["one", "two"] {
        project.git(&["init", "-q", name]);
        project.write(&format!("{name}/deep/file"), name);
    }
    let first = project.take_as_it_is();
    first.delivered(None).unwrap();
    fs::remove_dir_all(project.path("one")).unwrap();
    let second = project.take();
    assert!(second.bases().contains(first.id()));
    let error = second.pack(Some(first.id()), None).unwrap_err();
    assert!(matches!(&error, SnapshotError::BaseGone { base } if base == first.id()), "{error}");
    second.forget_base(first.id()).unwrap();
    let committed = &second.manifest.head.as_ref().unwrap().tree;
    assert_eq!(second.bases(), std::slice::from_ref(committed));
    second.pack(Some(committed), Some(&[])).unwrap();
    assert_eq!(project.contents(&second), project.on_disk(&[]));
}

#[test]
fn the_outer_ignore_file_keeps_repositories_inside_and_files_in_them_back() {
    let project = with_a_submodule("vendor/library");
    project.git(&["init", "-q", "tools/nested"]);
    for path in
        ["vendor/library/new", "vendor/library/deep/big.bin", "tools/nested/new", "tools/nested/a.bin"]
    {
        project.write(path, "x");
    }
    project.take_as_it_is();
    project.write(".buildpoolignore", "vendor/library/new\n*.bin\n!a.bin\n");
    let some = project.on_disk(&["vendor/library/new", "vendor/library/deep/big.bin"]);
    assert_eq!(project.contents(&project.take()), some);
    project.write(".buildpoolignore", "vendor/library/\n/tools/*/\n");
    let snapshot = project.take();
    let all = project.on_disk(&[]).into_iter();
    let outside = all.filter(|(path, _)| !path.starts_with("vendor") && !path.starts_with("tools"));
    assert_eq!(project.contents(&snapshot), outside.collect());
    assert_eq!(snapshot.manifest.left_behind, ["vendor/"], "its committed files are not missing");
    assert_eq!(project.take().id(), snapshot.id());
    fs::remove_file(project.path(".buildpoolignore")).unwrap();
    project.take_as_it_is();
    // Excluded files do not count against the size limit.
    project.write(".buildpoolignore", "/vendor/library/large\n");
    project.write("vendor/library/large", "x".repeat(100_000));
    let narrow = Options { guard_bytes: 50_000, ..project.options() };
    assert_eq!(project.contents(&project.take_with(&narrow)), project.on_disk(&["vendor/library/large"]));
}

#[test]
fn what_an_inner_repository_ignores_for_itself_is_kept_between_builds() {
    let project = Project::new();
    project.git(&["init", "-q", "in side"]);
    project.write("in side/file", "x");
    fs::write(project.path("in side/.git/info/exclude"), "# none\n*.o\n/build/\n!keep.o\n").unwrap();
    fs::write(project.path(".git/info/exclude"), "/prod\n").unwrap();
    let excludes = project.take().manifest.excludes;
    assert_eq!(excludes, "/prod\n/in side/**/*.o\n/in side/build/\n!/in side/**/keep.o\n");
}

/// Returns the files that git lists if all are in one repository that ignores the patterns of the
/// ignore file.
fn as_git_ignores(project: &Project) -> Vec<String> {
    let copy = tempfile::tempdir().unwrap();
    for path in project.on_disk(&[]).keys() {
        fs::create_dir_all(copy.path().join(path).parent().unwrap()).unwrap();
        fs::write(copy.path().join(path), "x").unwrap();
    }
    git(copy.path(), &["init", "-q"]);
    fs::copy(project.path(".buildpoolignore"), copy.path().join(".git/info/exclude")).unwrap();
    let listed = git(copy.path(), &["ls-files", "-o", "--exclude-standard"]);
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn the_ignore_file_means_of_repositories_inside_what_it_means_of_directories() {
    let project = with_a_submodule("vendor/library");
    project.git(&["init", "-q", "nest/f"]);
    project.git(&["init", "-q", "nest/g/deep"]);
    for place in ["", "vendor/", "vendor/library/", "vendor/library/sub/", "nest/f/", "nest/g/deep/"] {
        for name in ["a.c", "a.h"] {
            project.write(&format!("{place}{name}"), name);
        }
    }
    for patterns in [
        "*\n!*/\n!*.c\n",
        "nest/*\n!nest/f\n",
        "nest/*\n!nest/f/\n",
        "/nest/f\n",
        "nest/**\n!nest/**/\n!*.c\n",
        "vendor/*/\n",
        "vendor/library/**\n!vendor/library/sub/\n",
        "*/library\n",
        "deep/\n!nest/g/deep\n*.h\n",
        "*.h\n!/nest/**/*.h\n",
        "/*/*\n!/vendor\n",
    ] {
        project.write(".buildpoolignore", patterns);
        let snapshot = project.take();
        let taken: Vec<String> = project.contents(&snapshot).into_keys().collect();
        assert_eq!(taken, as_git_ignores(&project), "{patterns:?}");
        assert_eq!(project.take().id(), snapshot.id());
    }
}

#[test]
fn what_is_kept_of_repositories_inside_may_go_at_any_time() {
    let project = with_a_submodule("vendor/library");
    project.git(&["init", "-q", "nest"]);
    project.git(&["init", "-q", "nest/deep"]);
    for path in ["nest/file", "nest/deep/file", "vendor/library/new", "new"] {
        project.write(path, path);
    }
    let first = project.take_as_it_is();
    let stores: Vec<PathBuf> = fs::read_dir(project.root.path().join("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("git/objects"))
        .collect();
    assert_eq!(stores.len(), 4);
    // Removes all objects of each store alone, and of all stores together. Then removes only blobs,
    // which no tree listing reveals.
    let removals = (0..=stores.len()).flat_map(|which| [(which, false), (which, true)]);
    for (which, only_content) in removals {
        for store in stores.iter().enumerate().filter(|(at, _)| *at == which || which == stores.len()) {
            for object in walkdir::WalkDir::new(store.1).into_iter().map(Result::unwrap) {
                let name = object.path().strip_prefix(store.1).unwrap().to_str().unwrap().replace('/', "");
                let of_kind = || git(store.1.parent().unwrap(), &["cat-file", "-t", &name]);
                if object.file_type().is_file() && name.len() == 40 && (!only_content || of_kind() == "blob")
                {
                    fs::remove_file(object.path()).unwrap();
                }
            }
        }
        let again = project.take_as_it_is();
        assert_eq!(again.id(), first.id(), "{which} {only_content}");
    }
}

#[test]
fn a_repository_inside_that_git_takes_for_none_goes_along_as_files() {
    let project = Project::new();
    for (name, key) in [("outer/bare", "core.bare=true"), ("outer/new", "core.repositoryformatversion=9")] {
        project.git(&["init", "-q", name]);
        project.write(&format!("{name}/file"), name);
        let (key, value) = key.split_once('=').unwrap();
        git(&project.path(name), &["config", key, value]);
    }
    project.git(&["init", "-q", "outer"]);
    project.write("outer/file", "x");
    let snapshot = project.take_as_it_is();
    let begins = snapshot.notes.iter().map(|note| note.split(" can't be read").next().unwrap());
    let begins: Vec<_> = begins.collect();
    assert_eq!(
        begins,
        [
            "the ignore rules of the repository in outer/bare",
            "the ignore rules of the repository in outer/new"
        ],
        "{:?}",
        snapshot.notes
    );
}

#[test]
fn a_submodule_outside_of_a_sparse_checkout_is_not_missed() {
    let project = with_a_submodule("vendor/library");
    project.git(&["submodule", "-q", "deinit", "-f", "vendor/library"]);
    project.git(&["sparse-checkout", "set", "src"]);
    fs::remove_dir_all(project.path("vendor")).ok();
    assert_eq!(project.git(&["status", "--porcelain"]), "");
    let snapshot = project.take_as_it_is();
    assert_eq!(snapshot.manifest.left_behind, ["vendor/"]);
    project.git(&["sparse-checkout", "disable"]);
    fs::remove_dir_all(project.path("vendor")).ok();
    assert_eq!(project.take_as_it_is().manifest.left_behind, [""; 0], "deleted");
}
