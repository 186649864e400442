//! A table of messages in reports and logs that indicate an infrastructure problem, with advice for
//! each. The worker uses it for reports, the coordinator for logs. The texts come from Xcode,
//! CoreSimulator, git, package managers and the operating system. Each entry contains words that a
//! failed assertion of a project does not use.

/// A sign matches if all its words occur. The words are in lower case.
struct Sign {
    words: &'static [&'static str],
    advice: &'static str,
}

const DEVICE_LOCKED: &str = "unlock the device and keep it awake while tests run";
const BOOT: &str = "the simulator did not boot: run again; if it repeats, `xcrun simctl shutdown all` and erase the device on that worker";
const NO_DEVICE: &str =
    "the worker has no such simulator or device: name another destination or install the runtime there";
const DENIED: &str = "the system refused the launch: run again; on a device, trust the developer there";
const RUNNER: &str =
    "the test runner could not be started on the device: run again; if it repeats, erase the simulator";
const TEST_MANAGER: &str =
    "the simulator's services did not answer: run again; if it repeats, erase the simulator";
const DISK: &str = "the worker's disk is full: free space there";
const DATABASE: &str =
    "another build uses the same DerivedData: run again, or give each its own -derivedDataPath";
const LOCKED: &str = "another process holds the database: run again; two builds of one DerivedData need a -derivedDataPath each";
const KEYCHAIN: &str = "the signing keychain is locked or waits for permission: unlock it for the worker's session (`security unlock-keychain`)";
const DEVELOPER_MODE: &str = "enable Developer Mode on the device: Settings, Privacy & Security";
const LICENCE: &str = "accept the licence on that worker: `sudo xcodebuild -license accept`";
const PORT: &str = "a port is taken by another process on the worker: run again, or use port 0";
const NETWORK: &str = "the worker could not reach the network: run again; check its connection and DNS";
const FETCH: &str = "packages could not be fetched: run again; check the worker's network and credentials";

const SIGNS: &[Sign] = &[
    Sign { words: &["device is locked"], advice: DEVICE_LOCKED },
    Sign { words: &["device is passcode protected"], advice: DEVICE_LOCKED },
    Sign { words: &["device was not, or could not be, unlocked"], advice: DEVICE_LOCKED },
    Sign { words: &["unlock ", " to continue"], advice: DEVICE_LOCKED },
    Sign { words: &["developer mode disabled"], advice: DEVELOPER_MODE },
    Sign { words: &["developer mode is not enabled"], advice: DEVELOPER_MODE },
    Sign { words: &["enable developer mode"], advice: DEVELOPER_MODE },
    Sign { words: &["launchd_sim"], advice: BOOT },
    Sign { words: &["com.apple.coresimulator.simerror"], advice: BOOT },
    Sign { words: &["unable to boot", "simulator"], advice: BOOT },
    Sign { words: &["failed to boot", "simulator"], advice: BOOT },
    Sign { words: &["unable to boot device"], advice: BOOT },
    Sign { words: &["simulator", "timed out waiting"], advice: BOOT },
    Sign { words: &["simulator", "timed out booting"], advice: BOOT },
    Sign { words: &["unable to lookup in current state"], advice: BOOT },
    Sign { words: &["unable to find a device matching"], advice: NO_DEVICE },
    Sign { words: &["unable to find a destination matching"], advice: NO_DEVICE },
    Sign { words: &["denied by service delegate"], advice: DENIED },
    Sign { words: &["request to open", "failed", "denied"], advice: DENIED },
    Sign { words: &["fbsopenapplicationservice"], advice: DENIED },
    Sign { words: &["fbsopenapplicationerror"], advice: DENIED },
    Sign { words: &["failed to install or launch the test runner"], advice: RUNNER },
    Sign { words: &["failed to background test runner"], advice: RUNNER },
    Sign { words: &["test runner never began executing tests"], advice: RUNNER },
    Sign { words: &["timed out registering for testing event"], advice: TEST_MANAGER },
    Sign { words: &["lost connection to", "testmanagerd"], advice: TEST_MANAGER },
    Sign { words: &["no space left on device"], advice: DISK },
    Sign { words: &["enospc"], advice: DISK },
    Sign { words: &["disk quota exceeded"], advice: DISK },
    Sign { words: &["ld: write() failed", "errno=28"], advice: DISK },
    Sign { words: &["accessing build database", "locked"], advice: DATABASE },
    Sign { words: &["unable to attach db", "locked"], advice: DATABASE },
    Sign { words: &["there are two concurrent builds running"], advice: DATABASE },
    Sign { words: &["errsecinternalcomponent"], advice: KEYCHAIN },
    Sign { words: &["user interaction is not allowed"], advice: KEYCHAIN },
    Sign { words: &["keychain is locked"], advice: KEYCHAIN },
    Sign { words: &["seckeychainunlock"], advice: KEYCHAIN },
    Sign { words: &["you have not agreed to the xcode license"], advice: LICENCE },
    Sign { words: &["agreeing to the xcode"], advice: LICENCE },
    Sign { words: &["address already in use"], advice: PORT },
    Sign { words: &["eaddrinuse"], advice: PORT },
    Sign { words: &["could not resolve host"], advice: NETWORK },
    Sign { words: &["couldn't resolve host"], advice: NETWORK },
    Sign { words: &["temporary failure in name resolution"], advice: NETWORK },
    Sign { words: &["getaddrinfo e"], advice: NETWORK },
    Sign { words: &["npm", "code enotfound"], advice: NETWORK },
    Sign { words: &["the internet connection appears to be offline"], advice: NETWORK },
    Sign { words: &["the network connection was lost"], advice: NETWORK },
    Sign { words: &["couldn't fetch updates from remote repositories"], advice: FETCH },
    Sign { words: &["could not resolve package dependencies", "network"], advice: FETCH },
    Sign { words: &["failed to clone repository", "unable to access"], advice: FETCH },
    Sign { words: &["unable to access", "failed to connect"], advice: FETCH },
];

/// Returns advice if a text indicates an infrastructure problem.
pub fn advice(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let known = SIGNS.iter().find(|sign| sign.words.iter().all(|word| lower.contains(word)));
    known.map(|sign| sign.advice).or_else(|| lower.lines().any(is_locked_database).then_some(LOCKED))
}

/// Returns true if a tool reports exactly this message. An exception with these words is about the
/// code's own database.
fn is_locked_database(line: &str) -> bool {
    let said = line.trim();
    let said = said.strip_prefix("xcodebuild: ").unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said);
    said.starts_with("database is locked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_from_the_code() {
        for text in [
            "error: unable to attach DB: error: accessing build database \"/x/build.db\": database is locked",
            "error: database is locked",
            "xcodebuild: error: database is locked (5)",
            "Unable to boot the Simulator.",
            "Timed out registering for testing event accessibility notifications",
            "/x/App.app: errSecInternalComponent",
            "write: No space left on device",
            "ld: write() failed, errno=28",
            "Failed to start launchd_sim: could not bind to session",
            "Error Domain=com.apple.CoreSimulator.SimError Code=405",
            "error: The keychain is locked.",
            "xcodebuild: error: Unlock John's iPhone to Continue",
            "error:Developer Mode disabled To use iPhone for development, enable Developer Mode",
            "listen tcp :8080: bind: address already in use",
            "The request was denied by service delegate (SBMainWorkspace).",
            "Unable to launch com.example.App because the device was not, or could not be, unlocked.",
            "npm ERR! network request to https://registry.npmjs.org/x failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org",
        ] {
            assert!(advice(text).is_some(), "{text}");
        }
        for text in [
            "XCTAssertEqual failed: \"locked\" is not \"open\"",
            "Cannot find 'device' in scope",
            "sqlite3.OperationalError: database is locked",
            "Error: SQLITE_BUSY: database is locked",
            "suite orders: database is locked",
            "the device registry is locked by another test",
            "simulator",
        ] {
            assert!(advice(text).is_none(), "{text}");
        }
    }
}
