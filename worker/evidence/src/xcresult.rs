//! Reads result bundles of Xcode: through their database on any platform, otherwise with
//! `xcresulttool`.

pub mod command;
pub mod database;
mod report;
mod table;
pub mod tool;

pub(crate) use report::to_parsed;

/// Content of a result bundle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bundle {
    /// All tests, with any result.
    pub tests: Vec<Test>,
    /// Errors and warnings of the build, and failures outside any test.
    pub issues: Vec<BundleIssue>,
    /// Devices and simulators on which tests ran.
    pub destinations: Vec<Destination>,
    /// Notes about unusual content.
    pub notes: Vec<String>,
    /// The reason why it does not contain all tests that ran.
    pub cut: Option<String>,
}

/// One test of one test bundle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Test {
    /// `Suite/test()`: Apple's `nodeIdentifier`.
    pub identifier: String,
    /// Display name in Swift Testing, otherwise the name of the function.
    pub display_name: String,
    /// The test bundle.
    pub bundle: String,
    /// Tags of Swift Testing.
    pub tags: Vec<String>,
    /// Result over all destinations, configurations, arguments and repetitions, if the bundle
    /// contains it.
    pub result: Option<TestResult>,
    /// All runs in order.
    pub runs: Vec<Run>,
}

/// One run of a test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// Arguments of a parametrised test, joined by commas.
    pub arguments: Option<String>,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Number that identifies the configuration and destination.
    pub place: u64,
    /// Result of the run.
    pub result: TestResult,
    /// Duration in seconds.
    pub duration_secs: Option<f64>,
    /// Failures in order.
    pub failures: Vec<Failure>,
    /// Reason for a skip.
    pub skip_reason: Option<String>,
    /// Attached files.
    pub attachments: Vec<Attachment>,
}

/// One failure of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Failure {
    /// The message.
    pub message: String,
    /// Absolute path, or only the file name.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// True if the failure was expected.
    pub expected: bool,
}

impl Failure {
    /// Returns the failure in the format of Apple's tools: `File.swift:12: message`.
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
    /// The name used for an export.
    pub name: String,
    /// Id of its content in the bundle.
    pub payload_id: Option<String>,
}

/// A problem outside the tests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BundleIssue {
    /// Kind of problem: `Swift Compiler Error`, `Uncategorized`…
    pub kind: String,
    /// The message.
    pub message: String,
    /// True for an error, false for a warning.
    pub error: bool,
    /// Name of the build target.
    pub target: Option<String>,
    /// Absolute path of the source file.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

/// A device or simulator on which tests ran.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Destination {
    /// Name: `iPhone 17 Pro`.
    pub name: String,
    /// Platform: `iOS Simulator`.
    pub platform: String,
    /// Version of the operating system: `26.1`.
    pub os_version: String,
    /// Architecture: `arm64`.
    pub architecture: String,
    /// UDID of the device.
    pub device_id: String,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} {}, {}", self.name, self.platform, self.os_version, self.architecture)
    }
}

/// Result of a run or a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TestResult {
    /// The test passed.
    #[default]
    Passed,
    /// The test failed.
    Failed,
    /// The test was not run.
    Skipped,
    /// The test failed as expected.
    ExpectedFailure,
}

impl TestResult {
    /// Parses Apple's result names, from the database (`Success`) and from the JSON of its tools
    /// (`Passed`).
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
