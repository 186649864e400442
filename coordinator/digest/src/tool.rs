//! The tools whose output the digest knows, and the peculiarities of each.

/// Defines an id for each tool, and the table of their properties.
macro_rules! tools {
    ($($id:ident => $tool:expr),* $(,)?) => {
        /// A tool, as the core names it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub(crate) enum ToolId {
            $($id),*
        }

        /// In the order of the ids.
        static TOOLS: &[Tool] = &[$($tool),*];
        const ALL: &[ToolId] = &[$(ToolId::$id),*];
    };
}

/// Whether a tool's failure stands despite a later success of another tool, without an exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Apart {
    /// It stands: the tool is a command of its own and fails only for a real error.
    Always,
    /// It does not stand: the tool may have been run again, and prints nothing on success.
    WithoutCode,
    /// It does not stand.
    Never,
}

/// Announcement before a total.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Announced {
    /// A line of the tool's own, a few lines before.
    ByHeading,
    /// A blank line right before.
    ByBlankLine,
}

/// The tools whose tests a driver runs. Only the driver's count is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Includes {
    Nothing,
    Only(ToolId),
    AllOthers,
}

/// Properties of a tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name in answers.
    pub(crate) name: &'static str,
    /// Its names in command lines. A second word must be among the arguments. Empty: only its name.
    pub(crate) commands: &'static [&'static str],
    /// The tool of the same program whose invocations these are.
    pub(crate) program: Option<ToolId>,
    /// The tool whose results these are, in another format.
    pub(crate) said_as: Option<ToolId>,
    /// Whether its failure stands despite a later success of another tool.
    pub(crate) apart: Apart,
    /// It runs other tools, and its result includes theirs.
    pub(crate) drives: bool,
    /// It is a build tool.
    pub(crate) builds: bool,
    /// It runs tests, and may print nothing before their first output.
    pub(crate) begins_in_silence: bool,
    /// It fails independently of its host: the host's success does not take its failure back.
    pub(crate) judges_by_itself: bool,
    /// It names the failed part and counts no tests. The tally finds a later pass of that part.
    pub(crate) names_failed_part: bool,
    /// Its units are parts of a command line, such as `build`. They match only in the same command.
    pub(crate) units_of_command: bool,
    /// A later success of the same invocation does not take its failure back.
    pub(crate) outlives_invocation: bool,
    /// The tool that runs it, unless the command itself does.
    pub(crate) host: Option<ToolId>,
    /// It prints marks or lines of results, and always a total.
    pub(crate) always_totals: bool,
    /// It names each test as it ends, so that its results can be counted one by one.
    pub(crate) by_test: bool,
    /// The tools whose tests it runs.
    pub(crate) includes: Includes,
    /// The announcement that a total needs. Unannounced totals may be a test's output.
    pub(crate) announces: Option<Announced>,
    /// It prints start and end of each test, one test at a time.
    pub(crate) begins_each: bool,
    /// Other programs may print its start lines: `Running install.sh`, `Start 1: server`.
    pub(crate) begins_in_common_words: bool,
    /// Other programs may print its announcement: `running 3 tests`, `collected 3 items`.
    pub(crate) announces_in_common_words: bool,
    /// The process that prints the results also runs the tests and is alive meanwhile.
    pub(crate) runs_them_itself: bool,
    /// Lines that add to a total count only directly below the line that announces them.
    pub(crate) adds_below_a_heading: bool,
    /// Lines that add to a total are ignored before its first line.
    pub(crate) totals_begin: bool,
    /// A run has parts with separate totals. The tool names each part before its tests, so that the name identifies the
    /// tests. Names that several programs may share are compared together with the number of tests.
    pub(crate) names_parts: bool,
    /// It reports only that tests failed, without a number.
    pub(crate) counts_no_tests: bool,
    /// Tests of several parts may share a name, and the tool names the part before its tests.
    pub(crate) shares_names_among_parts: bool,
    /// Several parts run at the same time, and the tool names the part of each line.
    pub(crate) runs_parts_at_once: bool,
    /// The name of a test without the part that the tool may leave out in a second mention.
    pub(crate) one_name: fn(&str) -> String,
    /// Each suite's total comes before the total of its parent suite.
    pub(crate) nests_totals: bool,
    /// A run may also fail for leaks or coverage, reported after the total of tests.
    pub(crate) judges_more_than_tests: bool,
    /// Tests may share a name.
    pub(crate) names_repeat: bool,
    /// Its run begins with the title of a suite above the first test.
    pub(crate) begins_at_suite: bool,
    /// It numbers its tests.
    pub(crate) numbers_tests: bool,
    /// Inside its session, lines of this tool are part of a test's output.
    pub(crate) hosts: Option<ToolId>,
    /// Other runners print lines in its format. Its own lines come below a blank line.
    pub(crate) shares_format: bool,
    /// Its tests are targets, which run tests of other tools.
    pub(crate) counts_targets: bool,
    /// In its brief output it names only failed tests, and counts those that passed.
    pub(crate) names_failed_in_brief: bool,
    /// Its last line has only the total; lines of tests have the other results.
    pub(crate) totals_only: bool,
}

impl Tool {
    /// A tool without peculiarities.
    const fn named(name: &'static str) -> Self {
        Self {
            name,
            commands: &[],
            program: None,
            said_as: None,
            apart: Apart::Never,
            drives: false,
            builds: false,
            begins_in_silence: false,
            judges_by_itself: false,
            names_failed_part: false,
            units_of_command: false,
            outlives_invocation: false,
            host: None,
            always_totals: false,
            by_test: false,
            includes: Includes::Nothing,
            announces: None,
            begins_each: false,
            begins_in_common_words: false,
            announces_in_common_words: false,
            runs_them_itself: false,
            adds_below_a_heading: false,
            totals_begin: false,
            names_parts: false,
            counts_no_tests: false,
            shares_names_among_parts: false,
            runs_parts_at_once: false,
            one_name: str::to_owned,
            nests_totals: false,
            judges_more_than_tests: false,
            names_repeat: false,
            begins_at_suite: false,
            numbers_tests: false,
            hosts: None,
            shares_format: false,
            counts_targets: false,
            names_failed_in_brief: false,
            totals_only: false,
        }
    }

    /// Names of its program in a command line.
    pub(crate) fn commands(&self) -> &[&'static str] {
        if self.commands.is_empty() { std::slice::from_ref(&self.name) } else { self.commands }
    }
}

impl std::ops::Deref for ToolId {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &TOOLS[*self as usize]
    }
}

impl std::fmt::Display for ToolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl ToolId {
    /// All tools.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// Whether results of both are of the same program.
    pub(crate) fn is_of_program(self, other: Self) -> bool {
        self.program() == other.program()
    }

    /// The tool that stands for all results of the same program.
    pub(crate) fn program(self) -> Self {
        self.program.unwrap_or(self)
    }

    /// The tool to which a result in this format belongs.
    pub(crate) fn speaker(self) -> Self {
        self.said_as.unwrap_or(self)
    }

    /// Whether `driver` runs this tool's tests.
    pub(crate) fn is_inside(self, driver: Self) -> bool {
        match driver.includes {
            Includes::Nothing => false,
            Includes::Only(tool) => self == tool,
            Includes::AllOthers => self != driver,
        }
    }
}

/// XCTest on a Mac prints two names: `-[Module.Class test]` and `Class.test()`.
fn class_and_method(test: &str) -> String {
    let bare = test.trim_start_matches("-[").trim_end_matches(']').trim_end_matches("()");
    let mut parts = bare.rsplit([' ', '.', '/']);
    match (parts.next(), parts.next()) {
        (Some(name), Some(class)) => format!("{class}.{name}"),
        _ => bare.to_owned(),
    }
}

tools! {
    XcTest => Tool { by_test: true, one_name: class_and_method, nests_totals: true, ..Tool::named("XCTest") },
    SwiftTesting => Tool { totals_only: true, ..Tool::named("Swift Testing") },
    CargoTest => Tool { program: Some(ToolId::Cargo), announces_in_common_words: true, runs_them_itself: true, shares_names_among_parts: true, shares_format: true, ..Tool::named("cargo test") },
    Nextest => Tool { hosts: Some(ToolId::CargoTest), program: Some(ToolId::Cargo), ..Tool::named("cargo nextest") },
    GoTest => Tool { apart: Apart::Always, by_test: true, begins_each: true, runs_them_itself: true, shares_names_among_parts: true, runs_parts_at_once: true, ..Tool::named("go test") },
    GoogleTest => Tool { begins_each: true, runs_them_itself: true, totals_begin: true, names_failed_in_brief: true, ..Tool::named("GoogleTest") },
    CTest => Tool { drives: true, includes: Includes::AllOthers, begins_in_common_words: true, totals_begin: true, shares_names_among_parts: true, ..Tool::named("ctest") },
    Pytest => Tool { commands: &["pytest", "py.test"], apart: Apart::Always, begins_in_silence: true, always_totals: true, announces_in_common_words: true, adds_below_a_heading: true, ..Tool::named("pytest") },
    Unittest => Tool { begins_in_silence: true, always_totals: true, announces: Some(Announced::ByHeading), ..Tool::named("unittest") },
    Regrtest => Tool { drives: true, includes: Includes::AllOthers, ..Tool::named("regrtest") },
    Jest => Tool { apart: Apart::Always, announces: Some(Announced::ByHeading), ..Tool::named("jest") },
    Vitest => Tool { apart: Apart::Always, announces: Some(Announced::ByHeading), ..Tool::named("vitest") },
    Mocha => Tool { begins_in_silence: true, always_totals: true, announces: Some(Announced::ByBlankLine), totals_begin: true, begins_at_suite: true, ..Tool::named("mocha") },
    MochaJson => Tool { program: Some(ToolId::Mocha), said_as: Some(ToolId::Mocha), totals_begin: true, ..Tool::named("mocha") },
    NodeTest => Tool { program: Some(ToolId::Node), begins_in_silence: true, includes: Includes::Only(ToolId::Tap), ..Tool::named("node --test") },
    Surefire => Tool { program: Some(ToolId::Maven), begins_in_common_words: true, names_parts: true, ..Tool::named("maven surefire") },
    Gradle => Tool { apart: Apart::Always, builds: true, drives: true, includes: Includes::Only(ToolId::Surefire), begins_in_common_words: true, ..Tool::named("gradle") },
    RSpec => Tool { always_totals: true, announces: Some(Announced::ByHeading), ..Tool::named("rspec") },
    Minitest => Tool::named("minitest"),
    Bats => Tool { includes: Includes::Only(ToolId::Tap), ..Tool::named("bats or ExUnit") },
    Tap => Tool { by_test: true, names_repeat: true, numbers_tests: true, ..Tool::named("TAP") },
    DotnetTest => Tool { program: Some(ToolId::Dotnet), drives: true, ..Tool::named("dotnet test") },
    PhpUnit => Tool { apart: Apart::Always, ..Tool::named("PHPUnit") },
    ScalaTest => Tool::named("ScalaTest"),
    BazelTest => Tool { program: Some(ToolId::Bazel), by_test: true, counts_targets: true, ..Tool::named("bazel test") },
    Flutter => Tool::named("flutter test"),
    Playwright => Tool::named("Playwright"),
    Jasmine => Tool::named("jasmine"),
    Deno => Tool::named("deno test"),
    Bun => Tool::named("bun test"),
    Cucumber => Tool::named("cucumber"),
    Behave => Tool::named("behave"),
    Robot => Tool { nests_totals: true, ..Tool::named("Robot Framework") },
    TestThat => Tool::named("testthat"),
    JUnit => Tool::named("JUnit"),
    JUnit4 => Tool { program: Some(ToolId::JUnit), announces: Some(Announced::ByHeading), ..Tool::named("JUnit 4") },
    Busted => Tool::named("busted"),
    Meson => Tool { totals_begin: true, ..Tool::named("meson test") },
    Ava => Tool::named("ava"),
    Automake => Tool { program: Some(ToolId::Make), announces: Some(Announced::ByHeading), totals_begin: true, ..Tool::named("make check") },
    Catch2 => Tool::named("Catch2"),
    Uvu => Tool::named("uvu"),
    EUnit => Tool::named("EUnit"),
    TclTest => Tool::named("tcltest"),
    DejaGnu => Tool { announces: Some(Announced::ByHeading), totals_begin: true, ..Tool::named("DejaGnu") },
    Srfi64 => Tool::named("SRFI 64"),
    Check => Tool::named("Check"),
    CUnit => Tool { announces: Some(Announced::ByHeading), ..Tool::named("CUnit") },
    Stestr => Tool { totals_begin: true, ..Tool::named("stestr") },
    Lab => Tool { judges_more_than_tests: true, ..Tool::named("lab") },
    Alcotest => Tool::named("alcotest"),
    Ward => Tool { totals_begin: true, ..Tool::named("ward") },
    Kyua => Tool { announces: Some(Announced::ByHeading), ..Tool::named("kyua") },
    Zope => Tool::named("zope.testrunner"),
    CommonTest => Tool::named("Common Test"),
    NodeTap => Tool { includes: Includes::Only(ToolId::Tap), ..Tool::named("node-tap") },
    BoostTest => Tool { apart: Apart::Always, names_failed_part: true, names_parts: true, counts_no_tests: true, ..Tool::named("Boost.Test") },
    Tsc => Tool { apart: Apart::Always, ..Tool::named("tsc") },
    Eslint => Tool { apart: Apart::Always, ..Tool::named("eslint") },
    Mypy => Tool { apart: Apart::Always, ..Tool::named("mypy") },
    Pyright => Tool { apart: Apart::Always, ..Tool::named("pyright") },
    Prettier => Tool { apart: Apart::Always, ..Tool::named("prettier") },
    Formatter => Tool { apart: Apart::Always, ..Tool::named("formatter") },
    Rubocop => Tool { apart: Apart::Always, ..Tool::named("rubocop") },
    Lintrunner => Tool { apart: Apart::Always, ..Tool::named("lintrunner") },
    Linter => Tool { apart: Apart::Always, ..Tool::named("linter") },
    PreCommit => Tool { apart: Apart::Always, ..Tool::named("pre-commit") },
    Webpack => Tool { apart: Apart::Always, builds: true, ..Tool::named("webpack") },
    Bundler => Tool { apart: Apart::Always, builds: true, ..Tool::named("bundler") },
    Rollup => Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("rollup") },
    Cargo => Tool { apart: Apart::Always, builds: true, ..Tool::named("cargo") },
    CargoBuild => Tool { program: Some(ToolId::Cargo), ..Tool::named("cargo build") },
    Maven => Tool { commands: &["mvn", "mvnw", "mvnd"], apart: Apart::Always, builds: true, drives: true, ..Tool::named("maven") },
    GradleOrAnt => Tool { program: Some(ToolId::Gradle), apart: Apart::Always, builds: true, drives: true, ..Tool::named("gradle or ant") },
    AntJUnit => Tool { apart: Apart::Always, ..Tool::named("ant's junit") },
    JUnitContainers => Tool { program: Some(ToolId::JUnit), apart: Apart::Always, outlives_invocation: true, ..Tool::named("JUnit, of what contains tests,") },
    Make => Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("make") },
    MakeRecipe => Tool { program: Some(ToolId::Make), apart: Apart::Always, outlives_invocation: true, ..Tool::named("make, of what it ran,") },
    Scons => Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("scons") },
    SconsTarget => Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("a target of scons,") },
    Ninja => Tool { apart: Apart::WithoutCode, builds: true, ..Tool::named("ninja") },
    Cmake => Tool::named("cmake"),
    Sbt => Tool { drives: true, ..Tool::named("sbt") },
    Bazel => Tool { drives: true, ..Tool::named("bazel") },
    Xcodebuild => Tool { drives: true, units_of_command: true, ..Tool::named("xcodebuild") },
    Swift => Tool::named("swift build"),
    Dotnet => Tool { drives: true, ..Tool::named("dotnet") },
    Prove => Tool { drives: true, ..Tool::named("prove") },
    Vet => Tool { apart: Apart::Always, ..Tool::named("vet") },
    Coverage => Tool { apart: Apart::Always, judges_by_itself: true, host: Some(ToolId::Pytest), ..Tool::named("coverage") },
    CiStep => Tool { apart: Apart::WithoutCode, ..Tool::named("CI step") },
    Node => Tool { apart: Apart::WithoutCode, ..Tool::named("node") },
    Linker => Tool::named("linker"),
    Compiler => Tool::named("compiler"),
    Clang => Tool::named("clang"),
    Terraform => Tool::named("terraform"),
    Pip => Tool::named("pip"),
    Npm => Tool::named("npm"),
    Yarn => Tool::named("yarn"),
    Pnpm => Tool::named("pnpm"),
    Dart => Tool::named("dart analyze"),
    Tox => Tool::named("tox"),
    Nox => Tool::named("nox"),
    Rebar3 => Tool::named("rebar3"),
    Nim => Tool::named("nim"),
    Git => Tool::named("git"),
    Fastlane => Tool::named("fastlane"),
    Doctest => Tool::named("doctest"),
    Docker => Tool::named("docker build"),
    Build => Tool::named("build"),
    Ansible => Tool::named("ansible"),
    R => Tool::named("R")
}
