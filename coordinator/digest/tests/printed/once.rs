use super::*;

/// Logs that name a test twice: in a second run, in two spellings, or inside of a target.
pub(crate) const ONCE: &[Run] = &[
    Run {
        what: "bazel, a target that prints its tests",
        log: include_str!("once/bazel.log"),
        code: 3,
        tests: Some([2, 1, 0, 0]),
        ..RUN_FAILED
    },
    Run {
        what: "GoogleTest, the same tests twice",
        log: include_str!("once/gtest.log"),
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "GoogleTest, another program with a test of the same name",
        log: include_str!("once/gtest-other.log"),
        tests: Some([4, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "pytest, the same tests twice",
        log: include_str!("once/pytest.log"),
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "cargo, the same tests twice",
        log: include_str!("once/cargo.log"),
        tests: Some([2, 0, 0, 0]),
        ..RUN
    },
    Run {
        what: "XCTest, two spellings",
        log: include_str!("once/xctest.log"),
        code: 65,
        tests: Some([1, 1, 0, 0]),
        ..RUN_FAILED
    },
];
