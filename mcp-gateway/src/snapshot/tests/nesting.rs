//! Repositories in repositories.

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
    // The `.git` in it is a file, and none of the project's.
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
    // By itself it is a project like any other; and that call leaves nothing to the next one.
    let alone = take(&Options { directory: project.path(".aws"), ..project.options() }).unwrap();
    assert_eq!((alone.manifest.files, alone.kept_back.len()), (2, 0));
    assert_eq!(project.take().id(), snapshot.id());
}
