//! The tools that the digest recognizes, each in a file of its own.
//!
//! The order of the table counts: if rules of two tools begin a problem on the same line, the earlier tool's rule counts.
//! So a tool with exact patterns comes before a tool whose patterns match other tools' lines too.

mod ada;
mod alcotest;
mod altool;
mod ansible;
mod ansible_lint;
mod ant;
mod automake;
mod autotest;
mod ava;
mod bats;
mod bazel;
mod behave;
mod biome;
mod bloop;
mod boost;
mod buck;
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
mod cocotb;
mod codesign;
mod common_test;
mod compiler;
mod composer;
mod consequences;
mod coverage;
mod cpputest;
mod credo;
mod criterion;
mod crystal;
mod ctest;
mod cucumber;
mod cunit;
mod dart;
mod database;
mod dejagnu;
mod deno;
mod djlint;
mod dlang;
mod docker;
mod doctest;
mod doctest_cpp;
mod dotnet;
mod elixir;
mod erlang;
mod eslint;
mod eunit;
mod fastlane;
mod flutter;
mod formatter;
mod foundry;
mod gdb;
mod generic;
mod ginkgo;
mod git;
mod go;
mod gocheck;
mod godot;
mod gotestsum;
mod gradle;
mod gtest;
mod hadolint;
mod haskell;
mod hspec;
mod htmlhint;
mod infra;
mod isort;
mod jasmine;
mod java;
mod jekyll;
mod jest;
mod jshint;
mod json_logs;
mod json_problems;
mod julia;
mod junit;
mod k6;
mod kani;
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
mod nightwatch;
mod nim;
mod ninja;
mod nix;
mod node;
mod node_tap;
mod node_test;
mod notarytool;
mod nox;
mod npm;
mod nunit;
mod nx;
mod ocaml;
mod other_compilers;
mod ounit;
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
mod qttest;
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
mod serverless;
mod shell;
mod shunit2;
mod signal;
mod simctl;
mod specs2;
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
mod testcafe;
mod testthat;
mod tex;
mod tinytest;
mod tool_id;
mod tox;
mod trial;
mod trivy;
mod tsc;
mod unittest;
mod unity;
mod uvm;
mod uvu;
mod verilator;
mod vitest;
mod ward;
mod wdio;
mod webpack;
mod xcbeautify;
mod xcodebuild;
mod xctest;
mod yarn;
mod zig;
mod zope;

use crate::rules::Rule;
use crate::tool::Tool;
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
    Simctl => simctl::TOOL,
    Codesign => codesign::TOOL,
    Notarytool => notarytool::TOOL,
    Altool => altool::TOOL,
    Xcbeautify => xcbeautify::TOOL,
    XcTest => xctest::TOOL,
    SwiftTesting => swift_testing::TOOL,
    Xcodebuild => xcodebuild::TOOL,
    Fastlane => fastlane::TOOL,
    CppUTest => cpputest::TOOL,
    Criterion => criterion::TOOL,
    QtTest => qttest::TOOL,
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
    JestJson => jest::JSON,
    Playwright => playwright::TOOL,
    NodeTest => node_test::TOOL,
    Crystal => crystal::TOOL,
    DotnetTest => dotnet::TEST,
    Dotnet => dotnet::TOOL,
    Build => dotnet::BUILD,
    Nextest => nextest::TOOL,
    GoCheck => gocheck::TOOL,
    GoTest => go::TOOL,
    Ginkgo => ginkgo::TOOL,
    Vet => go::VET,
    BazelTest => bazel::TEST,
    Bazel => bazel::TOOL,
    Buck => buck::TOOL,
    CargoTest => libtest::TOOL,
    Cocotb => cocotb::TOOL,
    ShUnit2 => shunit2::TOOL,
    Unittest => unittest::TOOL,
    Jekyll => jekyll::TOOL,
    Ruby => ruby::TOOL,
    RackUnit => racket::TOOL,
    R => r_language::TOOL,
    Julia => julia::TOOL,
    Erlang => erlang::TOOL,
    GitReplies => git::REPLIES,
    TfLint => terraform::TFLINT,
    Trivy => trivy::TOOL,
    Serverless => serverless::TOOL,
    NextBuild => webpack::NEXT,
    NixBuild => nix::BUILD,
    PackageBuilds => packages::BUILDS,
    Consequences => consequences::TOOL,
    OtherCompilers => other_compilers::TOOL,
    Packer => packer::TOOL,
    Database => database::TOOL,
    LintReports => lint_reports::TOOL,
    Zig => zig::TOOL,
    Cargo => cargo::TOOL,
    CargoBuild => cargo::BUILD,
    Bun => bun::TOOL,
    Bloop => bloop::TOOL,
    Deno => deno::TOOL,
    Rustc => rustc::TOOL,
    NUnit => nunit::TOOL,
    OUnit => ounit::TOOL,
    Dlang => dlang::TOOL,
    JUnit => junit::TOOL,
    JUnit4 => junit::JUNIT_4,
    JUnitContainers => junit::CONTAINERS,
    Python => python::TOOL,
    AntJUnit => ant::TOOL,
    Meson => meson::TOOL,
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
    DoctestCpp => doctest_cpp::TOOL,
    Signal => signal::TOOL,
    Automake => automake::TOOL,
    Autotest => autotest::TOOL,
    Kani => kani::TOOL,
    Uvm => uvm::TOOL,
    TinyTest => tinytest::TOOL,
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
    Specs2 => specs2::TOOL,
    ScalaTest => scalatest::TOOL,
    Ansible => ansible::TOOL,
    AnsibleLint => ansible_lint::TOOL,
    Redocly => redocly::TOOL,
    GoTestSum => gotestsum::TOOL,
    Unity => unity::TOOL,
    UnityEngine => unity::ENGINE,
    Munit => munit::TOOL,
    Flutter => flutter::TOOL,
    Nox => nox::TOOL,
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
    Composer => composer::TOOL,
    ComposerValidate => composer::STRICT,
    Tsc => tsc::TOOL,
    Htmlhint => htmlhint::TOOL,
    Eslint => eslint::TOOL,
    Rollup => rollup::TOOL,
    Node => node::TOOL,
    Nx => nx::TOOL,
    Turbo => nx::TURBO,
    Packages => packages::TOOL,
    Foundry => foundry::TOOL,
    Gut => godot::TOOL,
    GdUnit => godot::GDUNIT,
    Wdio => wdio::TOOL,
    TestCafe => testcafe::TOOL,
    Nightwatch => nightwatch::TOOL,
    Uvu => uvu::TOOL,
    Karma => karma::TOOL,
    K6 => k6::TOOL,
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
    Hspec => hspec::TOOL,
    Tasty => hspec::TASTY,
    HUnit => hspec::HUNIT,
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
    Ada => ada::TOOL,
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
    JsonLogs => json_logs::TOOL,
    Lintrunner => lintrunner::TOOL,
    Modelsim => modelsim::TOOL,
}

/// The rules of all tools, in the order of the table.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    TOOLS.iter().flat_map(|tool| tool.rules)
}

#[cfg(test)]
mod tests;
