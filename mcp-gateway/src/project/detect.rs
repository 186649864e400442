//! Tools by the files that they leave in a project, and their commands.

use super::choose::Goal;
use super::node::Package;
use super::quote::quoted;
use super::xcode::XcodeContainer;
use std::fs;
use std::path::Path;

/// Most bytes of a file that is looked into.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A build tool, with what its command line depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tool {
    /// Rust.
    Cargo,
    /// Swift packages.
    Swift,
    /// Xcode projects and workspaces.
    Xcode(XcodeContainer),
    /// Go modules.
    Go,
    /// Maven; the program or the wrapper.
    Maven(&'static str),
    /// Gradle; the program or the wrapper.
    Gradle(&'static str),
    /// npm, pnpm, yarn.
    Node(Package),
    /// Python's pytest.
    Pytest,
    /// CMake with CTest.
    Cmake,
    /// Make, with its targets.
    Make(Vec<String>),
}

/// A tool that a directory shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detected {
    /// Which.
    pub tool: Tool,
    /// The file that shows it.
    pub marker: String,
}

/// The tools of a directory. Where several fit, those that know about single tests come before those that wrap others.
pub(super) fn detect(directory: &Path) -> Vec<Detected> {
    let has = |name: &str| directory.join(name).is_file();
    let first = |names: &[&str]| names.iter().find(|name| has(name)).map(|name| (*name).to_owned());
    let wrapper = |script: &'static str, program| if has(&script[2..]) { script } else { program };
    let mut found = Vec::new();
    let mut add = |tool, marker: Option<String>| found.extend(marker.map(|marker| Detected { tool, marker }));
    add(Tool::Cargo, first(&["Cargo.toml"]));
    add(Tool::Swift, first(&["Package.swift"]));
    if let Some(container) = XcodeContainer::find(directory) {
        let marker = container.name.clone();
        add(Tool::Xcode(container), Some(marker));
    }
    add(Tool::Go, first(&["go.mod", "go.work"]));
    add(Tool::Maven(wrapper("./mvnw", "mvn")), first(&["pom.xml"]));
    let gradle = ["settings.gradle.kts", "settings.gradle", "build.gradle.kts", "build.gradle"];
    add(Tool::Gradle(wrapper("./gradlew", "gradle")), first(&gradle));
    if let Some(package) = text_of(&directory.join("package.json")).and_then(|text| Package::read(&text, has))
    {
        add(Tool::Node(package), first(&["package.json"]));
    }
    add(Tool::Pytest, pytest_marker(directory));
    add(Tool::Cmake, first(&["CMakeLists.txt"]));
    if let Some(marker) = first(&["GNUmakefile", "makefile", "Makefile"]) {
        let targets = text_of(&directory.join(&marker)).map(|text| make_targets(&text)).unwrap_or_default();
        add(Tool::Make(targets), Some(marker));
    }
    found
}

/// A small file as text; none if it is absent, large or no text.
fn text_of(path: &Path) -> Option<String> {
    let length = fs::metadata(path).ok()?.len();
    if length > FILE_BYTES_MAX { None } else { fs::read_to_string(path).ok() }
}

fn pytest_marker(directory: &Path) -> Option<String> {
    for (file, section) in [
        ("pytest.ini", ""),
        ("pyproject.toml", "[tool.pytest"),
        ("tox.ini", "[pytest]"),
        ("setup.cfg", "[tool:pytest]"),
        ("conftest.py", ""),
        ("tests/conftest.py", ""),
    ] {
        if text_of(&directory.join(file)).is_some_and(|text| text.contains(section)) {
            return Some(file.to_owned());
        }
    }
    test_file(&directory.join("tests")).map(|name| format!("tests/{name}"))
}

/// What shows pytest where nothing shows a tool: a file that it would collect.
pub(super) fn loose_tests(directory: &Path) -> Option<Detected> {
    test_file(directory).map(|marker| Detected { tool: Tool::Pytest, marker })
}

/// The first file of a directory that pytest collects by its name.
fn test_file(directory: &Path) -> Option<String> {
    fs::read_dir(directory)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
        })
        .min()
}

/// The plain targets of a makefile, in its order.
fn make_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in text.lines() {
        let Some((names, rest)) = line.split_once(':') else { continue };
        if rest.starts_with('=')
            || line.starts_with(['\t', ' ', '#', '.'])
            || names.contains(['$', '%', '=', '"'])
        {
            continue;
        }
        targets.extend(names.split_whitespace().map(str::to_owned));
    }
    targets
}

impl Detected {
    /// The command that does it, or why this tool can't.
    pub fn command(&self, goal: Goal<'_>) -> Result<String, String> {
        match goal {
            Goal::Test { filter } => self.tool.test(filter),
            Goal::Build { target, release } => self.tool.build(target, release),
        }
    }

    /// Reports that the tool writes without being asked.
    pub fn reports(&self, goal: Goal<'_>) -> Vec<String> {
        match (&self.tool, goal) {
            (Tool::Maven(_), Goal::Test { .. }) => vec!["**/target/surefire-reports/TEST-*.xml".to_owned()],
            (Tool::Gradle(_), Goal::Test { .. }) => vec!["**/build/test-results/**/TEST-*.xml".to_owned()],
            _ => Vec::new(),
        }
    }
}

const CMAKE_BUILD: &str = "cmake --build build --parallel";

impl Tool {
    fn test(&self, filter: Option<&str>) -> Result<String, String> {
        let with = |command: &str, option: &str| match filter {
            Some(filter) => format!("{command} {option}{}", quoted(filter)),
            None => command.to_owned(),
        };
        Ok(match self {
            Self::Cargo => with("cargo test", ""),
            Self::Swift => with("swift test", "--filter "),
            Self::Xcode(container) => with(&container.command("test", None)?, "-only-testing:"),
            Self::Go => with("go test ./...", "-run "),
            Self::Maven(program) => match filter {
                Some(filter) => format!(
                    "{program} --batch-mode test -Dtest={} -Dsurefire.failIfNoSpecifiedTests=false",
                    quoted(filter)
                ),
                None => format!("{program} --batch-mode test"),
            },
            // A daemon would die with the job, and with it what another job runs in it.
            Self::Gradle(program) => with(&format!("{program} --no-daemon test"), "--tests "),
            Self::Node(package) => package.test(filter)?,
            Self::Pytest
                if filter.is_some_and(|filter| filter.contains(['/', ':']) || filter.ends_with(".py")) =>
            {
                with("python3 -m pytest", "")
            }
            Self::Pytest => with("python3 -m pytest", "-k "),
            Self::Cmake => with(
                &format!(
                    "cmake -S . -B build && {CMAKE_BUILD} && ctest --test-dir build --output-on-failure"
                ),
                "--tests-regex ",
            ),
            Self::Make(targets) => {
                match ["test", "check", "tests"].iter().find(|name| targets.iter().any(|t| t == *name)) {
                    Some(_) if filter.is_some() => return Err("make has no `filter`".to_owned()),
                    Some(target) => format!("make {target}"),
                    None => return Err("it has no target test, check or tests".to_owned()),
                }
            }
        })
    }

    fn build(&self, target: Option<&str>, release: bool) -> Result<String, String> {
        let compose = |command: &str, option: &str, released: &str| {
            let mut text = command.to_owned();
            if let Some(target) = target {
                text.push_str(&format!(" {option}{}", quoted(target)));
            }
            if release && !released.is_empty() {
                text.push_str(&format!(" {released}"));
            }
            text
        };
        let none = |tool: &str, instead: &str| Err(format!("{tool} has no `release`; {instead}"));
        Ok(match self {
            Self::Maven(_) if release => return none("maven", "give the profile as part of `command`"),
            Self::Gradle(_) if release => {
                return none("gradle", "give the task as `target`, e.g. assembleRelease");
            }
            Self::Node(_) if release => {
                return none("a package", "its script `build` decides; or give `command`");
            }
            Self::Cargo => compose("cargo build", "--package ", "--release"),
            Self::Swift => compose("swift build", "--target ", "--configuration release"),
            Self::Xcode(container) => {
                let command = container.command("build", target)?;
                if release { format!("{command} -configuration Release") } else { command }
            }
            Self::Go => {
                let options = if release { "go build -trimpath -ldflags '-s -w'" } else { "go build" };
                format!("{options} {}", target.map_or_else(|| "./...".to_owned(), quoted))
            }
            Self::Maven(program) => match target {
                Some(target) => {
                    format!(
                        "{program} --batch-mode package -DskipTests --projects {} --also-make",
                        quoted(target)
                    )
                }
                None => format!("{program} --batch-mode package -DskipTests"),
            },
            Self::Gradle(program) => {
                format!("{program} --no-daemon {}", target.map_or_else(|| "assemble".to_owned(), quoted))
            }
            Self::Node(package) => package.build(target)?,
            Self::Pytest => return Err("python has no build of its own".to_owned()),
            Self::Cmake => {
                let configure = if release {
                    "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release"
                } else {
                    "cmake -S . -B build"
                };
                let config = if release { " --config Release" } else { "" };
                let part = target.map(|target| format!(" --target {}", quoted(target))).unwrap_or_default();
                format!("{configure} && {CMAKE_BUILD}{config}{part}")
            }
            Self::Make(_) if release => return Err("make has no `release`".to_owned()),
            Self::Make(_) => compose("make", "", ""),
        })
    }
}
