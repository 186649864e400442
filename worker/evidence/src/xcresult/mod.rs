//! Result bundles of Xcode: by their database on any platform, by `xcresulttool` where there is none.

pub mod command;
pub mod database;
mod report;
mod table;
pub mod tool;

pub(crate) use report::to_parsed;

/// What a result bundle says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bundle {
    /// Every test, whatever its result.
    pub tests: Vec<Test>,
    /// Errors and warnings of the build, and failures outside any test.
    pub issues: Vec<BundleIssue>,
    /// Devices and simulators on which tests ran.
    pub destinations: Vec<Destination>,
    /// Oddities met while reading.
    pub notes: Vec<String>,
    /// Why it does not tell of all tests that ran.
    pub cut: Option<String>,
}

/// One test of one test bundle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Test {
    /// `Suite/test()`: Apple's `nodeIdentifier`.
    pub identifier: String,
    /// The name that Swift Testing shows, else the function's.
    pub display_name: String,
    /// The test bundle.
    pub bundle: String,
    /// Tags of Swift Testing.
    pub tags: Vec<String>,
    /// The roll-up over destinations, configurations, arguments and repetitions, where the bundle has it.
    pub result: Option<TestResult>,
    /// Every run in order.
    pub runs: Vec<Run>,
}

/// One run of a test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// Arguments of a parametrised test, joined by commas.
    pub arguments: Option<String>,
    /// From 1.
    pub repetition: u32,
    /// Configuration and destination, as a number that tells them apart.
    pub place: u64,
    /// How it ended.
    pub result: TestResult,
    /// In seconds.
    pub duration_secs: Option<f64>,
    /// Failures in order.
    pub failures: Vec<Failure>,
    /// Why it was skipped.
    pub skip_reason: Option<String>,
    /// Names of attached files.
    pub attachments: Vec<Attachment>,
}

/// One failure of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Failure {
    /// What it says.
    pub message: String,
    /// Absolute path, or the file's name alone.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// It was expected.
    pub expected: bool,
}

impl Failure {
    /// As Apple's tools write it: `File.swift:12: message`.
    pub fn in_one(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                let base = file.rsplit('/').next().unwrap_or(file);
                format!("{base}:{line}: {}", self.message)
            }
            _ => self.message.clone(),
        }
    }
}

/// A file that a test attached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attachment {
    /// The name under which it would be exported.
    pub name: String,
    /// Its content in the bundle.
    pub payload_id: Option<String>,
}

/// A problem outside the tests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BundleIssue {
    /// `Swift Compiler Error`, `Uncategorized`…
    pub kind: String,
    /// What it says.
    pub message: String,
    /// True for an error, false for a warning.
    pub error: bool,
    /// Which target.
    pub target: Option<String>,
    /// Absolute path.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
}

/// Where tests ran.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Destination {
    /// `iPhone 17 Pro`.
    pub name: String,
    /// `iOS Simulator`.
    pub platform: String,
    /// `26.1`.
    pub os_version: String,
    /// `arm64`.
    pub architecture: String,
    /// UDID.
    pub device_id: String,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} {}, {}", self.name, self.platform, self.os_version, self.architecture)
    }
}

/// How a run or a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TestResult {
    /// As it should.
    #[default]
    Passed,
    /// Not as it should.
    Failed,
    /// Not run.
    Skipped,
    /// Failed as it should.
    ExpectedFailure,
}

impl TestResult {
    /// From Apple's words, in the database (`Success`) and in its tools' JSON (`Passed`).
    pub fn from_apple(word: &str) -> Option<Self> {
        match word {
            "Success" | "Passed" | "Mixed Success" => Some(Self::Passed),
            "Failure" | "Failed" | "Mixed Failure" => Some(Self::Failed),
            "Skipped" => Some(Self::Skipped),
            "Expected Failure" => Some(Self::ExpectedFailure),
            _ => None,
        }
    }
}
