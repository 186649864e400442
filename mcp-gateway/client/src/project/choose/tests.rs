use super::*;
use std::fs;

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(".git")).unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn chosen(files: &[(&str, &str)], goal: Goal<'_>) -> Result<Chosen, ChooseError> {
    let directory = project(files);
    choose(&Configuration::load(directory.path()), directory.path(), directory.path(), goal, None)
}

/// Without a known share of the processors, a build uses those of the machine.
const PROCESSORS: &str = "\"$(getconf _NPROCESSORS_ONLN)\"";
const TEST: Goal<'static> = Goal::Test { filter: None };
/// Markers of tools without an option for a release build.
const WITHOUT_RELEASE: [&str; 3] = ["pom.xml", "build.gradle.kts", "package.json"];

const BUILD: Goal<'static> = Goal::Build { target: None, release: false };

#[test]
fn each_tool_has_its_commands() {
    let package = r#"{"scripts":{"test":"vitest run","build":"tsc"}}"#;
    let filter = Goal::Test { filter: Some("a b") };
    let part = Goal::Build { target: Some("app"), release: false };
    let release = Goal::Build { target: Some("app"), release: true };
    for (files, test, filtered, build, released) in [
        (
            vec![("Cargo.toml", "")],
            "cargo test",
            "cargo test 'a b'",
            "cargo build",
            "cargo build --package app --release",
        ),
        (
            vec![("Package.swift", "")],
            "swift test",
            "swift test --filter 'a b'",
            "swift build",
            "swift build --target app --configuration release",
        ),
        (
            vec![("go.mod", "")],
            "go test -json ./...",
            "go test -json ./... -run 'a b'",
            "go build ./...",
            "go build -trimpath -ldflags '-s -w' app",
        ),
        (
            vec![("pom.xml", "")],
            "mvn --batch-mode test",
            "mvn --batch-mode test -Dtest='a b' -Dsurefire.failIfNoSpecifiedTests=false",
            "mvn --batch-mode package -DskipTests",
            "mvn --batch-mode package -DskipTests --projects app --also-make",
        ),
        (
            vec![("build.gradle.kts", ""), ("gradlew", "")],
            "./gradlew --no-daemon test",
            "./gradlew --no-daemon test --tests 'a b'",
            "./gradlew --no-daemon assemble",
            "./gradlew --no-daemon app",
        ),
        (
            vec![("package.json", package)],
            "npm test",
            "npm test -- -t 'a b'",
            "npm run build",
            "npm run build --workspace=app",
        ),
        (
            vec![("package.json", package), ("pnpm-lock.yaml", "")],
            "pnpm test",
            "pnpm test -t 'a b'",
            "pnpm run build",
            "pnpm --filter app run build",
        ),
        (
            vec![("package.json", package), ("yarn.lock", "")],
            "yarn test",
            "yarn test -t 'a b'",
            "yarn run build",
            "yarn workspace app run build",
        ),
        (
            vec![("CMakeLists.txt", "")],
            "cmake -S . -B build && cmake --build build --parallel PROCESSORS && ctest --test-dir build --output-on-failure",
            "cmake -S . -B build && cmake --build build --parallel PROCESSORS && ctest --test-dir build --output-on-failure \
             --tests-regex 'a b'",
            "cmake -S . -B build && cmake --build build --parallel PROCESSORS",
            "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel PROCESSORS --config Release \
             --target app",
        ),
    ] {
        let check = |goal, expected: &str| {
            let expected = expected.replace("PROCESSORS", PROCESSORS);
            assert_eq!(chosen(&files, goal).unwrap().command, expected, "{files:?} {goal:?}");
        };
        check(TEST, test);
        check(filter, filtered);
        check(BUILD, build);
        if files.iter().any(|(file, _)| WITHOUT_RELEASE.contains(file)) {
            check(part, released);
            let error = chosen(&files, release).unwrap_err().to_string();
            assert!(error.contains("has no `release`; "), "{files:?}: {error}");
        } else {
            check(release, released);
        }
    }
}

#[test]
fn xcode_needs_one_shared_scheme_or_a_target() {
    let scheme = ("App.xcodeproj/xcshareddata/xcschemes/App.xcscheme", "");
    let other = ("App.xcodeproj/xcshareddata/xcschemes/Tool.xcscheme", "");
    let one = chosen(&[scheme], Goal::Test { filter: Some("AppTests/Login") }).unwrap();
    assert_eq!(
        one.command,
        "xcodebuild test -project App.xcodeproj -scheme App -only-testing:AppTests/Login"
    );
    let error = chosen(&[scheme, other], TEST).unwrap_err().to_string();
    assert!(error.contains("App, Tool") && error.contains(".buildpool/config.yaml"), "{error}");
    let named = chosen(&[scheme, other], Goal::Build { target: Some("Tool"), release: true }).unwrap();
    assert_eq!(named.command, "xcodebuild build -project App.xcodeproj -scheme Tool -configuration Release");
    let workspace = chosen(&[("App.xcworkspace/contents.xcworkspacedata", ""), scheme], TEST).unwrap();
    assert_eq!(workspace.command, "xcodebuild test -workspace App.xcworkspace -scheme App");
}

#[test]
fn pytest_and_make_are_known_by_what_they_contain() {
    let pytest = [("pyproject.toml", "[tool.pytest.ini_options]\n")];
    assert_eq!(chosen(&pytest, TEST).unwrap().command, "python3 -m pytest");
    let by_name = chosen(&pytest, Goal::Test { filter: Some("login and not slow") }).unwrap();
    assert_eq!(by_name.command, "python3 -m pytest -k 'login and not slow'");
    let by_path = chosen(&pytest, Goal::Test { filter: Some("tests/test_a.py::test_x") }).unwrap();
    assert_eq!(by_path.command, "python3 -m pytest tests/test_a.py::test_x");
    assert!(chosen(&pytest, BUILD).unwrap_err().to_string().contains("build: "));
    for name in ["test_a.py", "a_test.py"] {
        let loose = chosen(&[(name, "")], TEST).unwrap();
        assert_eq!(loose.command, "python3 -m pytest");
        assert!(loose.because.contains(name), "{loose:?}");
        let make = ("Makefile", "test:\n\ttrue\n");
        assert_eq!(chosen(&[(name, ""), make], TEST).unwrap().command, "make test");
    }
    assert!(chosen(&[("test_a.py", "")], BUILD).is_err());

    let make = [("Makefile", "all: x\n\ncheck: all\n\t./run\n.PHONY: check\n")];
    assert_eq!(chosen(&make, TEST).unwrap().command, "make check");
    assert_eq!(
        chosen(&make, Goal::Build { target: Some("x"), release: false }).unwrap().command,
        format!("make -j{PROCESSORS} x")
    );
    assert!(chosen(&make, Goal::Test { filter: Some("x") }).unwrap_err().to_string().contains("filter"));
    assert!(chosen(&[("Makefile", "all:\n")], TEST).unwrap_err().to_string().contains("test"));
}

#[test]
fn a_package_without_the_script_gives_way_and_the_choice_is_explained() {
    let files = [("package.json", r#"{"scripts":{"lint":"x"}}"#), ("Makefile", "test:\n\ttrue\n")];
    let chosen = chosen(&files, TEST).unwrap();
    assert_eq!(chosen.command, "make test");
    assert!(
        chosen.because.contains("Makefile") && chosen.because.contains("package.json"),
        "{}",
        chosen.because
    );
}

#[test]
fn the_nearest_marker_decides_and_the_search_ends_at_the_repository() {
    let directory =
        project(&[("Cargo.toml", ""), ("web/package.json", r#"{"scripts":{"test":"x"}}"#), ("doc/a", "")]);
    let at = |place: &str| {
        let place = directory.path().join(place);
        choose(&Configuration::load(&place), &place, repository_of(&place).unwrap(), TEST, None)
    };
    assert_eq!(at("web").unwrap().command, "npm test");
    let above = at("doc").unwrap();
    assert_eq!((above.command.as_str(), above.directory.as_path()), ("cargo test", directory.path()));
    fs::remove_file(directory.path().join("Cargo.toml")).unwrap();
    assert!(matches!(at("doc"), Err(ChooseError::Nothing { .. })));
}

#[test]
fn a_wrong_key_is_named_where_no_command_is_known() {
    let directory = project(&[(".buildpool/config.yaml", "tset: make check"), ("a", "")]);
    let place = directory.path();
    let error = choose(&Configuration::load(place), place, place, TEST, None).unwrap_err().to_string();
    assert!(error.contains("config.yaml: tset: unknown key; valid are test,"), "{error}");
}

#[test]
fn nothing_above_the_top_decides_what_runs() {
    let up = project(&[(".buildpool/config.yaml", "test: make theirs"), ("Cargo.toml", "")]);
    let own = up.path().join("own");
    fs::create_dir_all(own.join("sub")).unwrap();
    let at = |place: &Path| choose(&Configuration::load(place), place, &own, TEST, None);
    let error = at(&own.join("sub")).unwrap_err().to_string();
    assert!(error.contains("config.yaml: its commands are for the directory above"), "{error}");
    assert!(matches!(at(&own), Err(ChooseError::Nothing { .. })));
    fs::write(own.join("Makefile"), "test:\n\ttrue\n").unwrap();
    let chosen = at(&own.join("sub")).unwrap();
    assert_eq!((chosen.command.as_str(), chosen.directory.as_path()), ("make test", own.as_path()));
}

#[test]
fn the_configuration_wins_and_takes_options_where_it_has_a_place() {
    let files = |text| [("Cargo.toml", ""), (".buildpool/config.yaml", text)];
    let plain = files("test: just test {filter}\nbuild: just build\n");
    assert_eq!(chosen(&plain, TEST).unwrap().command, "just test");
    let filtered = chosen(&plain, Goal::Test { filter: Some("a b") }).unwrap();
    assert_eq!(filtered.command, "just test 'a b'");
    assert!(filtered.because.contains("config.yaml"));
    let error = chosen(&plain, Goal::Build { target: Some("x"), release: false }).unwrap_err().to_string();
    assert!(error.contains("build: ") && error.contains("{target}"), "{error}");
    let wrong = chosen(&files("test: 7\n"), TEST).unwrap_err().to_string();
    assert!(wrong.contains("config.yaml") && wrong.contains("test: ") && wrong.contains("7"), "{wrong}");
    assert_eq!(chosen(&files("test: 7\n"), BUILD).unwrap().command, "cargo build");
}

#[test]
fn more_tools_have_their_commands() {
    let filter = Goal::Test { filter: Some("a b") };
    let deno = r#"{"tasks": {"build": "x"}, /* more */ }"#;
    for (files, test, filtered, build) in [
        (
            vec![("build.sbt", "")],
            "sbt -batch test",
            "sbt -batch 'testOnly * -- -z \"a b\"'",
            "sbt -batch compile",
        ),
        (vec![("mix.exs", "")], "mix test", "mix test --only 'test:test a b'", "mix compile"),
        (
            vec![("App.sln", "")],
            "dotnet test",
            "dotnet test --filter 'FullyQualifiedName~a b'",
            "dotnet build",
        ),
        (
            vec![("build.zig", "b.option(\"test-filter\")")],
            "zig build test",
            "zig build test -Dtest-filter='a b'",
            "zig build",
        ),
        (vec![("deno.json", deno)], "deno test", "deno test --filter 'a b'", "deno task build"),
        (
            vec![("MODULE.bazel", "")],
            "bazel test --test_output=errors //...",
            "bazel test --test_output=errors --test_filter='a b' //...",
            "bazel build //...",
        ),
        (vec![("justfile", "test *args:\n  x\nbuild:\n  y\n")], "just test", "just test 'a b'", "just build"),
        (
            vec![
                ("pyproject.toml", "[build-system]\n[tool.pytest.ini_options]"),
                ("uv.lock", ""),
                ("Makefile", "test:\n"),
            ],
            "uv run pytest",
            "uv run pytest -k 'a b'",
            "uv build",
        ),
        (
            vec![("pyproject.toml", "[build-system]"), ("tox.ini", "[testenv]\ncommands = pytest {posargs}")],
            "tox",
            "tox -- -k 'a b'",
            "python3 -m build",
        ),
        (
            vec![("package.json", r#"{"scripts":{"build":"x"}}"#), ("bun.lock", "")],
            "bun test",
            "bun test -t 'a b'",
            "bun run build",
        ),
    ] {
        for (goal, expected) in [(TEST, test), (filter, filtered), (BUILD, build)] {
            assert_eq!(chosen(&files, goal).unwrap().command, expected, "{files:?} {goal:?}");
        }
    }
    let specs = [("Gemfile", ""), (".rspec", "")];
    assert_eq!(chosen(&specs, filter).unwrap().command, "bundle exec rspec --example 'a b'");
    let nx = [("package.json", "{}"), ("nx.json", "")];
    assert_eq!(chosen(&nx, TEST).unwrap().command, "npx nx run-many --target=test");
    let turbo = [("package.json", "{}"), ("turbo.json", "{}")];
    assert_eq!(chosen(&turbo, TEST).unwrap().command, "npx turbo run test");
    let part = Goal::Build { target: Some("web"), release: false };
    assert_eq!(chosen(&turbo, part).unwrap().command, "npx turbo run build --filter=web");
    let venv = [("tests/test_a.py", ""), (".venv/bin/python3", "")];
    assert_eq!(chosen(&venv, TEST).unwrap().command, "PATH=\"$PWD/.venv/bin:$PATH\" python3 -m pytest");
}

#[test]
fn make_builds_a_usual_target_or_asks_for_one() {
    for (makefile, target) in [
        ("deploy:\n\tscp app host:\nall: app\n", "all"),
        ("deploy:\nbuild:\n", "build"),
        ("app: main.c\n\tcc -o $@ main.c\n", "app"),
        ("app: main.c\n\tcc -o app main.c\n", "app"),
    ] {
        let chosen = chosen(&[("Makefile", makefile)], BUILD).unwrap();
        assert_eq!(chosen.command, format!("make -j{PROCESSORS} {target}"), "{makefile}");
    }
    for makefile in ["deploy: app\n\tscp app host:\nclean:\n", ".PHONY: app\napp:\n\trm $@\n"] {
        let error = chosen(&[("Makefile", makefile)], BUILD).unwrap_err().to_string();
        assert!(error.contains("its targets are") && error.contains("`target`"), "{error}");
    }
}

#[test]
fn the_share_of_the_processors_limits_a_build() {
    let directory = project(&[("Makefile", "all:\n")]);
    let configuration = Configuration::load(directory.path());
    let processors = std::num::NonZeroU32::new(3);
    let chosen = choose(&configuration, directory.path(), directory.path(), BUILD, processors).unwrap();
    assert_eq!(chosen.command, "make -j3 all");
}

#[test]
fn a_filter_that_the_tool_does_not_take_is_refused_and_no_other_tool_runs() {
    let files = [("package.json", r#"{"scripts":{"test":"tape test"}}"#), ("Makefile", "test:\n")];
    let error = chosen(&files, Goal::Test { filter: Some("a") }).unwrap_err().to_string();
    assert!(error.contains("no known test runner is in `tape test`"), "{error}");
    assert!(error.contains("give the whole command as `command`"), "{error}");
}

#[test]
fn a_placeholder_inside_quotes_is_refused() {
    let files = [(".buildpool/config.yaml", "test: \"sh -c 'run {filter}'\"\n")];
    for filter in [None, Some("a'; touch x; '")] {
        let error = chosen(&files, Goal::Test { filter }).unwrap_err().to_string();
        assert!(error.contains("{filter} stands inside quotes"), "{error}");
    }
}

#[test]
fn projects_below_are_listed_where_nothing_shows_a_tool() {
    let files = [
        ("web/app/package.json", "{}"),
        ("api/go.mod", ""),
        ("api/sub/go.mod", ""),
        ("node_modules/x/go.mod", ""),
    ];
    let error = chosen(&files, TEST).unwrap_err().to_string();
    assert!(
        error.contains("projects below it: api (go.mod), web/app (package.json); give one as `cwd`"),
        "{error}"
    );
}

/// A file, and a test in it, in the forms that the runners of each language print.
#[test]
fn a_filter_reaches_the_runner_in_its_own_form() {
    let jest = ("package.json", r#"{"scripts":{"test":"jest"}}"#);
    let mocha = ("package.json", r#"{"scripts":{"test":"mocha 'test/**/*.js'"}}"#);
    let path = "PATH=\"$PWD/node_modules/.bin:$PATH\"; ";
    let deno = r#"{"tasks": {"test": "deno test --allow-read"}}"#;
    let chained = r#"{"tasks": {"test": "deno lint && deno test src/"}}"#;
    let scheme = ("App.xcodeproj/xcshareddata/xcschemes/App.xcscheme", "");
    let rake = [("Gemfile", ""), ("Rakefile", "")];
    for (files, filter, expected) in [
        (vec![jest], "src/a.test.ts", "npm test -- src/a.test.ts"),
        (vec![jest, ("pnpm-lock.yaml", "")], "a.test.ts", "pnpm test a.test.ts"),
        (vec![jest], "a.test.ts > it's (b) [c]", "npm test -- -t \"it's \\\\(b\\\\) \\\\[c\\\\]\" a.test.ts"),
        (vec![mocha], "test/a.js", &format!("{path}mocha test/a.js")),
        (vec![("package.json", "{}"), ("bun.lock", "")], "a.test.ts", "bun test a.test.ts"),
        (vec![("deno.json", deno)], "a_test.ts", "deno task test a_test.ts"),
        (vec![("deno.json", deno)], "adds › two", "deno task test --filter 'adds two'"),
        (vec![("deno.json", chained)], "a_test.ts", "deno lint && deno test a_test.ts"),
        (vec![("Cargo.toml", "")], "tests/it.rs", "cargo test --test it"),
        (vec![("Cargo.toml", "")], "src/m.rs", "cargo test m::"),
        (vec![("go.mod", "")], "./sub", "go test -json ./sub"),
        (vec![("go.mod", "")], "TestA/it's_(1)", "go test -json ./... -run \"TestA/it's_\\\\(1\\\\)\""),
        (
            vec![("pom.xml", "")],
            "src/test/java/a/ATest.java",
            "mvn --batch-mode test -Dtest=ATest -Dsurefire.failIfNoSpecifiedTests=false",
        ),
        (vec![("build.gradle", "")], "src/test/kotlin/a/ATest.kt", "gradle --no-daemon test --tests ATest"),
        (
            vec![("settings.gradle", "")],
            "app/core/src/test/java/a/ATest.java",
            "gradle --no-daemon :app:core:test --tests ATest",
        ),
        (vec![("build.gradle", "")], "ATest > adds()", "gradle --no-daemon test --tests ATest.adds"),
        (vec![("build.sbt", "")], "src/test/scala/a/ASpec.scala", "sbt -batch 'testOnly *ASpec'"),
        (vec![("build.sbt", "")], "a.ASpec", "sbt -batch 'testOnly *a.ASpec'"),
        (vec![("build.sbt", "")], "adds", "sbt -batch 'testOnly * -- -z \"adds\"'"),
        (vec![("mix.exs", "")], "test/a_test.exs:7", "mix test test/a_test.exs:7"),
        (vec![("A.sln", "")], "tests/ATests.cs", "dotnet test --filter 'FullyQualifiedName~ATests'"),
        (vec![("A.sln", "")], "Adds(1)", "dotnet test --filter \"FullyQualifiedName~Adds\\\\(1\\\\)\""),
        (rake.to_vec(), "test/a_test.rb", "bundle exec rake test TEST=test/a_test.rb"),
        (vec![("Gemfile", ""), (".rspec", "")], "spec/a_spec.rb:3", "bundle exec rspec spec/a_spec.rb:3"),
        (
            vec![("composer.json", "\"phpunit/phpunit\"")],
            "tests/ATest.php",
            "vendor/bin/phpunit tests/ATest.php",
        ),
        (vec![("Package.swift", "")], "Tests/AppTests/LoginTests.swift", "swift test --filter LoginTests"),
        (
            vec![scheme],
            "AppTests/Sign In/LoginTests.swift",
            "xcodebuild test -project App.xcodeproj -scheme App -only-testing:AppTests/LoginTests",
        ),
        (vec![("justfile", "test *args:\n  pytest {{args}}\n")], "A.adds", "just test \"-k 'A and adds'\""),
        (vec![("pytest.ini", "")], "A.test_x[it's 1]", "python3 -m pytest -k 'A and test_x[it and s and 1]'"),
        (
            vec![("meson.build", "")],
            "adds [x]",
            "{ test -f build/build.ninja || meson setup build; } && meson test -C build --print-errorlogs 'adds [[]x]'",
        ),
    ] {
        let goal = Goal::Test { filter: Some(filter) };
        assert_eq!(chosen(&files, goal).unwrap().command, expected, "{files:?} {filter}");
    }
    let turbo = [("package.json", r#"{"packageManager":"pnpm@9.0.0"}"#), ("turbo.json", "{}")];
    assert_eq!(chosen(&turbo, TEST).unwrap().command, "pnpm exec turbo run test");
}

#[test]
fn a_filter_that_can_not_reach_a_runner_is_refused_with_the_next_step() {
    let script = |text| vec![("package.json", text)];
    for (files, filter, reason) in [
        (
            script(r#"{"scripts":{"test":"jest && mocha"}}"#),
            "a",
            "it calls several test runners (jest, mocha)",
        ),
        (script(r#"{"scripts":{"test":"turbo run test"}}"#), "a", "give the directory of one as `cwd`"),
        (script(r#"{"scripts":{"test":"npm test -ws"}}"#), "a", "give the directory of one as `cwd`"),
        (vec![("package.json", "{}"), ("nx.json", "")], "a", "give the directory of one package as `cwd`"),
        (vec![("go.mod", "")], "sub/a_test.go", "give a test, or the package ./sub of the file"),
        (vec![("Makefile", "test:\n")], "a", "give the whole command as `command`"),
        (vec![("justfile", "test:\n  pytest\n")], "a", "add a parameter to the recipe"),
        (vec![("build.zig", "")], "a", "add an option `test-filter`"),
        (vec![("tox.ini", "[testenv]\ncommands = pytest")], "a", "use posargs"),
    ] {
        let error = chosen(&files, Goal::Test { filter: Some(filter) }).unwrap_err().to_string();
        assert!(error.contains(reason), "{files:?}: {error}");
    }
}
