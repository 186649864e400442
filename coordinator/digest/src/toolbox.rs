//! Tools that say how they fared: what is peculiar to each, in one table.

/// What make ran died.
pub(crate) const MAKE_RECIPE: &str = "make, of what it ran,";

/// A target that scons could not make. Told not to mind, scons goes on to its success.
pub(crate) const SCONS_TARGET: &str = "a target of scons,";

/// What JUnit says of what comes before and after all tests of a class. Its last count is one of tests only.
pub(crate) const JUNIT_CONTAINERS: &str = "JUnit, of what contains tests,";

/// How much of a tool's failure another tool's success leaves, unless that was at work already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Apart {
    /// All: it is a command of its own, and fails only where something is wrong.
    Always,
    /// What is to be said where the exit code is not known: it may be run again and says nothing when it succeeds.
    WithoutCode,
    /// Nothing.
    Never,
}

/// What is peculiar to a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// What its failure is worth beside another tool's success.
    pub(crate) apart: Apart,
    /// It runs other tools and answers for them.
    pub(crate) drives: bool,
    /// It builds.
    pub(crate) builds: bool,
    /// It runs tests, and may print nothing before the first output of these.
    pub(crate) begins_in_silence: bool,
    /// It judges what another tool's success says nothing of, also where that one runs it.
    pub(crate) judges_by_itself: bool,
    /// It counts no tests and names the part of the run that failed: the tally tells whether that part passed later.
    pub(crate) names_failed_part: bool,
    /// What its runs name are parts of a command line, such as `build`: the same part of another command line is another run.
    pub(crate) units_of_command: bool,
    /// The tool that runs it where the command does not.
    pub(crate) host: Option<&'static str>,
}

impl Tool {
    const fn driving(mut self) -> Self {
        self.drives = true;
        self
    }

    const fn building(mut self) -> Self {
        self.builds = true;
        self
    }

    const fn silent(mut self) -> Self {
        self.begins_in_silence = true;
        self
    }

    const fn judging(mut self) -> Self {
        self.judges_by_itself = true;
        self
    }

    const fn naming_failed_part(mut self) -> Self {
        self.names_failed_part = true;
        self
    }

    const fn with_actions(mut self) -> Self {
        self.units_of_command = true;
        self
    }

    const fn within(mut self, host: &'static str) -> Self {
        self.host = Some(host);
        self
    }
}

const fn tool(name: &'static str, apart: Apart) -> Tool {
    Tool {
        name,
        apart,
        drives: false,
        builds: false,
        begins_in_silence: false,
        judges_by_itself: false,
        names_failed_part: false,
        units_of_command: false,
        host: None,
    }
}

use Apart::{Always, Never, WithoutCode};

const TOOLS: &[Tool] = &[
    tool("tsc", Always),
    tool("eslint", Always),
    tool("mypy", Always),
    tool("pyright", Always),
    tool("prettier", Always),
    tool("formatter", Always),
    tool("rubocop", Always),
    tool("lintrunner", Always),
    tool("linter", Always),
    tool("pre-commit", Always),
    tool("webpack", Always).building(),
    tool("bundler", Always).building(),
    tool("rollup", WithoutCode).building(),
    tool("cargo", Always).building(),
    tool("maven", Always).building().driving(),
    tool("gradle", Always).building().driving(),
    tool("gradle or ant", Always).building().driving(),
    tool("ant's junit", Always),
    tool(JUNIT_CONTAINERS, Always),
    tool("make", WithoutCode).building(),
    tool("scons", WithoutCode).building(),
    tool(SCONS_TARGET, WithoutCode).building(),
    tool(MAKE_RECIPE, Always),
    tool("ninja", WithoutCode).building(),
    tool("sbt", Never).driving(),
    tool("bazel", Never).driving(),
    tool("xcodebuild", Never).driving().with_actions(),
    tool("dotnet", Never).driving(),
    tool("dotnet test", Never).driving(),
    tool("prove", Never).driving(),
    tool("regrtest", Never).driving(),
    tool("ctest", Never).driving(),
    tool("go test", Always),
    tool("vet", Always),
    tool("jest", Always),
    tool("vitest", Always),
    tool("PHPUnit", Always),
    tool("Boost.Test", Always).naming_failed_part(),
    tool("pytest", Always).silent(),
    tool("unittest", Never).silent(),
    tool("node --test", Never).silent(),
    tool("mocha", Never).silent(),
    tool("coverage", Always).judging().within("pytest"),
    tool("CI step", WithoutCode),
    tool("node", WithoutCode),
];

/// What is known of a tool.
pub(crate) fn of(name: &str) -> Tool {
    TOOLS.iter().find(|tool| tool.name == name).copied().unwrap_or(tool("", Never))
}
