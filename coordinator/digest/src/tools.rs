//! The tools that the digest recognizes, each in a file of its own.
//!
//! The order of the table counts: if rules of two tools begin a problem on the same line, the earlier tool's rule counts.
//! So a tool with exact patterns comes before a tool whose patterns match other tools' lines too.

mod alcotest;
mod ansible;
mod ansible_lint;
mod ant;
mod automake;
mod ava;
mod bats;
mod bazel;
mod behave;
mod biome;
mod boost;
mod bun;
mod bundler;
mod busted;
mod c;
mod cargo;
mod catch2;
mod checkstyle;
mod ci;
mod clojure;
mod cmake;
mod cmocka;
mod common_test;
mod compiler;
mod consequences;
mod coverage;
mod credo;
mod ctest;
mod cucumber;
mod cunit;
mod dart;
mod database;
mod dejagnu;
mod deno;
mod djlint;
mod docker;
mod doctest;
mod dotnet;
mod elixir;
mod erlang;
mod eslint;
mod eunit;
mod fastlane;
mod flutter;
mod formatter;
mod gdb;
mod generic;
mod git;
mod go;
mod gotestsum;
mod gradle;
mod gtest;
mod hadolint;
mod haskell;
mod htmlhint;
mod infra;
mod isort;
mod jasmine;
mod java;
mod jekyll;
mod jest;
mod jshint;
mod json_problems;
mod julia;
mod junit;
mod karma;
mod kotlin;
mod kubernetes;
mod kyua;
mod lab;
mod libcheck;
mod libtest;
mod lint;
mod lint_reports;
mod lintrunner;
mod lua;
mod make;
mod maven;
mod meson;
mod minitest;
mod mocha;
mod modelsim;
mod msvc;
mod munit;
mod mypy;
mod newman;
mod nextest;
mod nginx;
mod nim;
mod ninja;
mod nix;
mod node;
mod node_tap;
mod node_test;
mod nox;
mod npm;
mod ocaml;
mod other_compilers;
mod packages;
mod packer;
mod perl;
mod pest;
mod phpcs;
mod phpunit;
mod pip;
mod places;
mod playwright;
mod pnpm;
mod pre_commit;
mod prettier;
mod prove;
mod puppet_lint;
mod pylint;
mod pyright;
mod pytest;
mod python;
mod r_language;
mod racket;
mod rebar3;
mod redocly;
mod regrtest;
mod robot;
mod rollup;
mod rspec;
mod rubocop;
mod ruby;
mod ruff;
mod runner;
mod rustc;
mod rustfmt;
mod sanitizer;
mod sbt;
mod scala;
mod scalatest;
mod scons;
mod shell;
mod signal;
mod sphinx;
mod srfi64;
mod stestr;
mod swift;
mod swift_testing;
mod swiftlint;
mod systemd;
mod tap;
mod tcltest;
mod teamcity;
mod terraform;
mod terser;
mod test_unit;
mod testthat;
mod tex;
mod tox;
mod trial;
mod tsc;
mod unittest;
mod unity;
mod uvu;
mod verilator;
mod vitest;
mod ward;
mod webpack;
mod xcodebuild;
mod xctest;
mod yarn;
mod zig;
mod zope;

use crate::records::RecordFormat;
use crate::rules::Rule;
use crate::tool::{Includes, Tool};
pub(crate) use go::PART_RECORD;

/// Defines an id for each tool, and the table of their properties.
macro_rules! tools {
    ($($id:ident => $tool:path),* $(,)?) => {
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

tools! {
    XcTest => xctest::TOOL,
    SwiftTesting => swift_testing::TOOL,
    Xcodebuild => xcodebuild::TOOL,
    Fastlane => fastlane::TOOL,
    Swift => swift::TOOL,
    SwiftTest => swift::TEST,
    Runner => runner::TOOL,
    Compiler => compiler::TOOL,
    Surefire => maven::SUREFIRE_TOOL,
    Maven => maven::TOOL,
    Gradle => gradle::TOOL,
    GradleOrAnt => gradle::OR_ANT,
    Pest => pest::TOOL,
    Jest => jest::TOOL,
    Playwright => playwright::TOOL,
    NodeTest => node_test::TOOL,
    DotnetTest => dotnet::TEST,
    Dotnet => dotnet::TOOL,
    Build => dotnet::BUILD,
    Nextest => nextest::TOOL,
    GoTest => go::TOOL,
    Vet => go::VET,
    BazelTest => bazel::TEST,
    Bazel => bazel::TOOL,
    CargoTest => libtest::TOOL,
    Unittest => unittest::TOOL,
    Jekyll => jekyll::TOOL,
    Ruby => ruby::TOOL,
    RackUnit => racket::TOOL,
    R => r_language::TOOL,
    Julia => julia::TOOL,
    Erlang => erlang::TOOL,
    Signal => signal::TOOL,
    GitReplies => git::REPLIES,
    Consequences => consequences::TOOL,
    OtherCompilers => other_compilers::TOOL,
    Packer => packer::TOOL,
    Database => database::TOOL,
    LintReports => lint_reports::TOOL,
    Cargo => cargo::TOOL,
    CargoBuild => cargo::BUILD,
    Bun => bun::TOOL,
    Rustc => rustc::TOOL,
    JUnit => junit::TOOL,
    JUnit4 => junit::JUNIT_4,
    JUnitContainers => junit::CONTAINERS,
    Python => python::TOOL,
    AntJUnit => ant::TOOL,
    Coverage => coverage::TOOL,
    Pytest => pytest::TOOL,
    Isort => isort::TOOL,
    Trial => trial::TOOL,
    Regrtest => regrtest::TOOL,
    Mypy => mypy::TOOL,
    Pyright => pyright::TOOL,
    GoogleTest => gtest::TOOL,
    Cmocka => cmocka::TOOL,
    Busted => busted::TOOL,
    CTest => ctest::TOOL,
    Catch2 => catch2::TOOL,
    Meson => meson::TOOL,
    Automake => automake::TOOL,
    Bats => bats::TOOL,
    EUnit => eunit::TOOL,
    TclTest => tcltest::TOOL,
    DejaGnu => dejagnu::TOOL,
    Srfi64 => srfi64::TOOL,
    Nim => nim::TOOL,
    BoostTest => boost::TOOL,
    Check => libcheck::TOOL,
    CUnit => cunit::TOOL,
    Sphinx => sphinx::TOOL,
    Stestr => stestr::TOOL,
    Lab => lab::TOOL,
    Alcotest => alcotest::TOOL,
    Ward => ward::TOOL,
    Vitest => vitest::TOOL,
    Tap => tap::TOOL,
    Kyua => kyua::TOOL,
    Zope => zope::TOOL,
    CommonTest => common_test::TOOL,
    Rebar3 => rebar3::TOOL,
    Gdb => gdb::TOOL,
    ScalaTest => scalatest::TOOL,
    Ansible => ansible::TOOL,
    AnsibleLint => ansible_lint::TOOL,
    Redocly => redocly::TOOL,
    GoTestSum => gotestsum::TOOL,
    Unity => unity::TOOL,
    Zig => zig::TOOL,
    Munit => munit::TOOL,
    Flutter => flutter::TOOL,
    Nox => nox::TOOL,
    Deno => deno::TOOL,
    Cucumber => cucumber::TOOL,
    Behave => behave::TOOL,
    Robot => robot::TOOL,
    TestThat => testthat::TOOL,
    Perl => perl::TOOL,
    Prove => prove::TOOL,
    Doctest => doctest::TOOL,
    Tox => tox::TOOL,
    PreCommit => pre_commit::TOOL,
    TestUnit => test_unit::TOOL,
    RSpec => rspec::TOOL,
    Minitest => minitest::TOOL,
    Mocha => mocha::TOOL,
    MochaJson => mocha::JSON,
    PhpUnit => phpunit::TOOL,
    Tsc => tsc::TOOL,
    Htmlhint => htmlhint::TOOL,
    Eslint => eslint::TOOL,
    Rollup => rollup::TOOL,
    Node => node::TOOL,
    Packages => packages::TOOL,
    Uvu => uvu::TOOL,
    Karma => karma::TOOL,
    Newman => newman::TOOL,
    Jasmine => jasmine::TOOL,
    NodeTap => node_tap::TOOL,
    Ava => ava::TOOL,
    Webpack => webpack::TOOL,
    Bundler => bundler::TOOL,
    Terser => terser::TOOL,
    Prettier => prettier::TOOL,
    Kotlin => kotlin::TOOL,
    Checkstyle => checkstyle::TOOL,
    Scala => scala::TOOL,
    Sbt => sbt::TOOL,
    Java => java::TOOL,
    Elixir => elixir::TOOL,
    Dart => dart::TOOL,
    Verilator => verilator::TOOL,
    Haskell => haskell::TOOL,
    Lua => lua::TOOL,
    Clojure => clojure::TOOL,
    Tex => tex::TOOL,
    TeamCity => teamcity::TOOL,
    Systemd => systemd::TOOL,
    Nginx => nginx::TOOL,
    Kubernetes => kubernetes::TOOL,
    Terraform => terraform::TOOL,
    Make => make::TOOL,
    MakeRecipe => make::RECIPE,
    C => c::TOOL,
    Linker => c::LINKER,
    Clang => c::CLANG,
    Scons => scons::TOOL,
    SconsTarget => scons::TARGET,
    Ninja => ninja::TOOL,
    Cmake => cmake::TOOL,
    Msvc => msvc::TOOL,
    Ocaml => ocaml::TOOL,
    Npm => npm::TOOL,
    Pnpm => pnpm::TOOL,
    Yarn => yarn::TOOL,
    Docker => docker::TOOL,
    Pip => pip::TOOL,
    Git => git::TOOL,
    Nix => nix::TOOL,
    CiStep => ci::TOOL,
    Infra => infra::TOOL,
    Shell => shell::TOOL,
    Sanitizer => sanitizer::TOOL,
    Biome => biome::TOOL,
    Djlint => djlint::TOOL,
    Ruff => ruff::TOOL,
    Hadolint => hadolint::TOOL,
    Rustfmt => rustfmt::TOOL,
    Formatter => formatter::TOOL,
    Credo => credo::TOOL,
    Phpcs => phpcs::TOOL,
    Rubocop => rubocop::TOOL,
    Jshint => jshint::TOOL,
    Pylint => pylint::TOOL,
    PuppetLint => puppet_lint::TOOL,
    Swiftlint => swiftlint::TOOL,
    Generic => generic::TOOL,
    Linter => lint::TOOL,
    Lintrunner => lintrunner::TOOL,
    Modelsim => modelsim::TOOL,
}

/// The rules of all tools, in the order of the table.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    TOOLS.iter().flat_map(|tool| tool.rules)
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
    /// The tool with the rule, or the format of records, of this name.
    pub(crate) fn of_rule(name: &str) -> Option<Self> {
        Self::all().find(|tool| {
            tool.rules.iter().any(|rule| rule.name == name)
                || tool.records.iter().any(|format| format.name == name)
        })
    }

    /// The tool whose report files, which a build writes too, have this format.
    pub(crate) fn of_build_report(format: &str) -> Option<Self> {
        Self::all().find(|tool| tool.build_report.as_ref().is_some_and(|report| report.name == format))
    }

    /// The formats of records of all tools, in the order of the table.
    pub(crate) fn record_formats() -> impl Iterator<Item = &'static RecordFormat> {
        TOOLS.iter().flat_map(|tool| tool.records)
    }

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
    pub(crate) fn reporting_tool(self) -> Self {
        self.reports_as.unwrap_or(self)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Places outside of the tools' files and of tests that name a tool.
    fn named_in(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the sources are there").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "tools" {
                named_in(&path, found);
            } else if path.is_file() && name != "tools.rs" && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let mut names = code.split("ToolId::").skip(1);
                if names.any(|name| name.starts_with(|first: char| first.is_ascii_uppercase())) {
                    found.push(path.display().to_string());
                }
            }
        }
    }

    #[test]
    fn only_the_files_of_tools_name_a_tool() {
        let mut found = Vec::new();
        named_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert_eq!(found, [""; 0], "a property of the tool in `tools` replaces its name");
    }
}
