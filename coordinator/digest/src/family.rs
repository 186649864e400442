//! Families of test tools, and the peculiarities of each one's output.

/// A family of test tools with the same output format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Family {
    XcTest,
    SwiftTesting,
    Cargo,
    Nextest,
    Go,
    GoogleTest,
    CTest,
    Pytest,
    Unittest,
    Regrtest,
    Jest,
    Vitest,
    Mocha,
    MochaJson,
    NodeTest,
    Maven,
    Gradle,
    RSpec,
    Minitest,
    Bats,
    Tap,
    DotNet,
    PhpUnit,
    ScalaTest,
    Bazel,
    Flutter,
    Playwright,
    Jasmine,
    Deno,
    Bun,
    Cucumber,
    Behave,
    Robot,
    TestThat,
    JUnit,
    JUnitCore,
    Busted,
    Meson,
    Ava,
    Automake,
    Catch2,
    Uvu,
    EUnit,
    TclTest,
    DejaGnu,
    Srfi64,
    Check,
    CUnit,
    Stestr,
    Lab,
    Alcotest,
    Ward,
    Kyua,
    Zope,
    CommonTest,
    NodeTap,
    BoostTest,
}

impl Family {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::XcTest => "XCTest",
            Self::SwiftTesting => "Swift Testing",
            Self::Cargo => "cargo test",
            Self::Nextest => "cargo nextest",
            Self::Go => "go test",
            Self::GoogleTest => "GoogleTest",
            Self::CTest => "ctest",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Regrtest => "regrtest",
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::Mocha | Self::MochaJson => "mocha",
            Self::NodeTest => "node --test",
            Self::Maven => "maven surefire",
            Self::Gradle => "gradle",
            Self::RSpec => "rspec",
            Self::Minitest => "minitest",
            Self::Bats => "bats or ExUnit",
            Self::Tap => "TAP",
            Self::DotNet => "dotnet test",
            Self::PhpUnit => "PHPUnit",
            Self::ScalaTest => "ScalaTest",
            Self::Bazel => "bazel test",
            Self::Flutter => "flutter test",
            Self::Playwright => "Playwright",
            Self::Jasmine => "jasmine",
            Self::Deno => "deno test",
            Self::Bun => "bun test",
            Self::Cucumber => "cucumber",
            Self::Behave => "behave",
            Self::Robot => "Robot Framework",
            Self::TestThat => "testthat",
            Self::JUnit => "JUnit",
            Self::JUnitCore => "JUnit 4",
            Self::Busted => "busted",
            Self::Ava => "ava",
            Self::Meson => "meson test",
            Self::Automake => "make check",
            Self::Catch2 => "Catch2",
            Self::Uvu => "uvu",
            Self::EUnit => "EUnit",
            Self::TclTest => "tcltest",
            Self::DejaGnu => "DejaGnu",
            Self::Srfi64 => "SRFI 64",
            Self::Check => "Check",
            Self::CUnit => "CUnit",
            Self::Stestr => "stestr",
            Self::Lab => "lab",
            Self::Alcotest => "alcotest",
            Self::Ward => "ward",
            Self::Kyua => "kyua",
            Self::Zope => "zope.testrunner",
            Self::CommonTest => "Common Test",
            Self::NodeTap => "node-tap",
            Self::BoostTest => "Boost.Test",
        }
    }

    /// Whether the tool names each test as it ends, so that its results can be counted one by one.
    pub(crate) const fn by_test(self) -> bool {
        matches!(self, Self::XcTest | Self::Tap | Self::Go | Self::Bazel)
    }

    /// Whether `driver` runs this family's tests, so that only the driver's count is used.
    pub(crate) const fn inside(self, driver: Self) -> bool {
        match driver {
            Self::CTest => !matches!(self, Self::CTest),
            Self::Regrtest => !matches!(self, Self::Regrtest),
            Self::Gradle => matches!(self, Self::Maven),
            Self::Bats | Self::NodeTest | Self::NodeTap => matches!(self, Self::Tap),
            _ => false,
        }
    }

    /// The announcement that a total of this family needs. Unannounced totals may be a test's output.
    pub(crate) const fn announces(self) -> Option<Announced> {
        match self {
            Self::Jest
            | Self::Vitest
            | Self::Unittest
            | Self::RSpec
            | Self::JUnitCore
            | Self::Automake
            | Self::DejaGnu
            | Self::CUnit
            | Self::Kyua => Some(Announced::ByHeading),
            Self::Mocha => Some(Announced::ByBlankLine),
            _ => None,
        }
    }

    /// Whether a program of this family prints start and end of each test, one test at a time.
    pub(crate) const fn begins_each(self) -> bool {
        matches!(self, Self::Go | Self::GoogleTest)
    }

    /// Whether other programs may print its start lines: `Running install.sh`, `Start 1: server`.
    pub(crate) const fn begins_in_common_words(self) -> bool {
        matches!(self, Self::Maven | Self::Gradle | Self::CTest)
    }

    /// Whether other programs may print its announcement: `running 3 tests`, `collected 3 items`.
    pub(crate) const fn announces_in_common_words(self) -> bool {
        matches!(self, Self::Cargo | Self::Pytest)
    }

    /// Whether the process that prints the results also runs the tests and is alive meanwhile.
    pub(crate) const fn runs_them_itself(self) -> bool {
        matches!(self, Self::Go | Self::GoogleTest | Self::Cargo)
    }

    /// Whether lines that add to a total count only directly below the line that announces them.
    pub(crate) const fn adds_below_a_heading(self) -> bool {
        matches!(self, Self::Pytest)
    }

    /// Whether lines that add to a total are ignored before its first line.
    pub(crate) const fn totals_begin(self) -> bool {
        matches!(
            self,
            Self::Meson
                | Self::Automake
                | Self::Mocha
                | Self::MochaJson
                | Self::GoogleTest
                | Self::CTest
                | Self::DejaGnu
                | Self::Stestr
                | Self::Ward
        )
    }

    /// Returns true if a run has parts with separate totals, and names each part before its tests, so that the name identifies
    /// the tests. Names that several programs may share are compared together with the number of tests.
    pub(crate) const fn names_parts(self) -> bool {
        matches!(self, Self::Maven | Self::BoostTest)
    }

    /// Whether the tool reports only that tests failed, without a number.
    pub(crate) const fn counts_no_tests(self) -> bool {
        matches!(self, Self::BoostTest)
    }

    /// Whether tests of several parts may share a name, and the tool names the part before its tests.
    pub(crate) const fn shares_names_among_parts(self) -> bool {
        matches!(self, Self::Cargo | Self::CTest | Self::Go)
    }

    /// Whether several parts run at the same time, and the tool names the part of each line.
    pub(crate) const fn runs_parts_at_once(self) -> bool {
        matches!(self, Self::Go)
    }

    /// The name of a test without the part that its tool may leave out in a second mention. XCTest on a Mac prints two:
    /// `-[Module.Class test]` and `Class.test()`.
    pub(crate) fn one_name(self, test: &str) -> String {
        if self != Self::XcTest {
            return test.to_owned();
        }
        let bare = test.trim_start_matches("-[").trim_end_matches(']').trim_end_matches("()");
        let mut parts = bare.rsplit([' ', '.', '/']);
        match (parts.next(), parts.next()) {
            (Some(name), Some(class)) => format!("{class}.{name}"),
            _ => bare.to_owned(),
        }
    }

    /// Whether each suite's total comes before the total of its parent suite.
    pub(crate) const fn nests_totals(self) -> bool {
        matches!(self, Self::XcTest | Self::Robot)
    }

    /// Whether a run may also fail for leaks or coverage, reported after the total of tests.
    pub(crate) const fn judges_more_than_tests(self) -> bool {
        matches!(self, Self::Lab)
    }

    /// Whether tests may share a name.
    pub(crate) const fn names_repeat(self) -> bool {
        matches!(self, Self::Tap)
    }
}

/// Announcement before a total.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Announced {
    /// A line of the tool's own, a few lines before.
    ByHeading,
    /// A blank line right before.
    ByBlankLine,
}
