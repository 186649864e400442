//! Table of the tools that report success or failure, with the peculiarities of each.

/// Tool name for a make recipe that died.
pub(crate) const MAKE_RECIPE: &str = "make, of what it ran,";

/// Tool name for a failed target of scons. If it ignores errors, scons continues.
pub(crate) const SCONS_TARGET: &str = "a target of scons,";

/// Tool name for JUnit's setup and teardown of classes. Its last count has tests only.
pub(crate) const JUNIT_CONTAINERS: &str = "JUnit, of what contains tests,";

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

/// Properties of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    name: &'static str,
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
    /// The tool that runs it, unless the command itself does.
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

/// Returns the properties of a tool; unknown tools get the defaults.
pub(crate) fn of(name: &str) -> Tool {
    TOOLS.iter().find(|tool| tool.name == name).copied().unwrap_or(tool("", Never))
}
