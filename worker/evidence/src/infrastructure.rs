//! Signs in reports that the machine, not the code, was at fault, and what to do about each. Texts are those of Xcode,
//! CoreSimulator, git and the system; each is anchored to words that a failing assertion of a project does not use.

use buildpool_protocol::evidence::ReportIssue;

/// All of the words must occur, in lower case.
struct Sign {
    words: &'static [&'static str],
    advice: &'static str,
}

const SIGNS: &[Sign] = &[
    Sign {
        words: &["unable to boot", "simulator"],
        advice: "the simulator did not boot: run again; if it repeats, `xcrun simctl shutdown all` and erase the device on that worker",
    },
    Sign {
        words: &["failed to boot", "simulator"],
        advice: "the simulator did not boot: run again; if it repeats, `xcrun simctl shutdown all` and erase the device on that worker",
    },
    Sign {
        words: &["unable to find a device matching"],
        advice: "the worker has no such simulator or device: name another destination or install the runtime there",
    },
    Sign {
        words: &["unable to find a destination matching"],
        advice: "the worker has no such simulator or device: name another destination or install the runtime there",
    },
    Sign { words: &["device", "is locked"], advice: "unlock the device and keep it awake while tests run" },
    Sign {
        words: &["the device is passcode protected"],
        advice: "unlock the device and keep it awake while tests run",
    },
    Sign {
        words: &["request to open", "failed", "denied"],
        advice: "the launch was denied: run again; trust the developer on the device",
    },
    Sign {
        words: &["fbsopenapplication", "denied"],
        advice: "the launch was denied: run again; trust the developer on the device",
    },
    Sign {
        words: &["failed to install or launch the test runner"],
        advice: "the test runner could not be started on the device: run again; if it repeats, erase the simulator",
    },
    Sign {
        words: &["failed to background test runner"],
        advice: "the simulator lost the test runner: run again; if it repeats, erase the simulator",
    },
    Sign {
        words: &["timed out registering for testing event"],
        advice: "the simulator's accessibility service did not answer: run again; if it repeats, erase the simulator",
    },
    Sign {
        words: &["lost connection to", "testmanagerd"],
        advice: "the link to the device's test manager broke: run again; if it repeats, restart the simulator",
    },
    Sign {
        words: &["no space left on device"],
        advice: "the worker's disk is full: free space there (DerivedData, old simulators)",
    },
    Sign { words: &["enospc"], advice: "the worker's disk is full: free space there" },
    Sign {
        words: &["database is locked"],
        advice: "another build uses the same DerivedData: run again, or give each its own -derivedDataPath",
    },
    Sign {
        words: &["there are two concurrent builds running"],
        advice: "another build uses the same DerivedData: run again, or give each its own -derivedDataPath",
    },
    Sign {
        words: &["errsecinternalcomponent"],
        advice: "the signing keychain is locked or asks for permission: unlock it for the worker's session (`security unlock-keychain`)",
    },
    Sign {
        words: &["user interaction is not allowed"],
        advice: "the signing keychain is locked or asks for permission: unlock it for the worker's session (`security unlock-keychain`)",
    },
    Sign {
        words: &["you have not agreed to the xcode license"],
        advice: "accept the licence on that worker: `sudo xcodebuild -license accept`",
    },
    Sign {
        words: &["address already in use"],
        advice: "a port is taken by another process on the worker: run again, or use port 0",
    },
    Sign {
        words: &["eaddrinuse"],
        advice: "a port is taken by another process on the worker: run again, or use port 0",
    },
    Sign {
        words: &["could not resolve host"],
        advice: "the worker could not reach the network: run again; check its DNS",
    },
    Sign {
        words: &["could not resolve package dependencies", "network"],
        advice: "packages could not be fetched: run again; check the worker's network",
    },
    Sign { words: &["the network connection was lost"], advice: "the worker's network failed: run again" },
    Sign {
        words: &["failed to clone repository", "unable to access"],
        advice: "packages could not be fetched: run again; check the worker's network and credentials",
    },
];

/// What to do, when a text tells of the machine and not of the code.
pub fn advice(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    SIGNS.iter().find(|sign| sign.words.iter().all(|word| lower.contains(word))).map(|sign| sign.advice)
}

/// Marks a problem of a report. A place in a source file speaks for the code.
pub(crate) fn label(issue: &mut ReportIssue) {
    if issue.location.is_none()
        && let Some(advice) = advice(&issue.message)
    {
        issue.category = Some("infrastructure".to_owned());
        issue.advice = Some(advice.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_from_the_code() {
        for text in [
            "error: unable to attach DB: error: accessing build database \"/x/build.db\": database is locked",
            "Unable to boot device because it cannot be located on disk. simulator",
            "Timed out registering for testing event accessibility notifications",
            "/x/App.app: errSecInternalComponent",
            "write: No space left on device",
            "listen tcp :8080: bind: address already in use",
        ] {
            assert!(advice(text).is_some(), "{text}");
        }
        for text in [
            "XCTAssertEqual failed: \"locked\" is not \"open\"",
            "Cannot find 'device' in scope",
            "simulator",
        ] {
            assert!(advice(text).is_none(), "{text}");
        }
    }
}
