//! Output of the machine.

use crate::rules::{ERROR, Effect, Indicator, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("the machine") };

const RULES: &[Rule] = &[
    Rule {
        name: "infra.disk",
        pattern: r"^.*(?:[Nn]o space left on device|ENOSPC|Disk quota exceeded|ld: write\(\) failed, errno=28)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 92))],
    },
    Rule {
        name: "infra.network",
        pattern: r"^(?:.*[: ])?(?:Could not resolve host|Temporary failure in name resolution|Connection refused|Connection timed out|Network is unreachable|TLS handshake timeout|getaddrinfo E\w+|connect ECONN\w+|Read timed out|ETIMEDOUT|The connection to the server \S+ was refused)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 71))],
    },
    Rule {
        name: "infra.machine",
        pattern: r"^(?:.*[: (=\[])?(?:No connected devices!|no devices/emulators found|device offline|device unauthorized|INSTALL_FAILED_INSUFFICIENT_STORAGE|errSecInternalComponent|The user name or passphrase you entered is not correct|User interaction is not allowed|[Aa]ddress already in use|listen EADDRINUSE|[Dd]evice is (?:locked|passcode protected)|device was not, or could not be, unlocked|denied by service delegate|launchd_sim|com\.apple\.CoreSimulator\.SimError|SecKeychainUnlock|[Kk]eychain is locked|Developer Mode (?:is )?(?:disabled|not enabled)|FBSOpenApplication\w*ErrorDomain|You have not agreed to the Xcode license|Agreeing to the Xcode)(?:\W.*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 74))],
    },
    Rule {
        name: "infra.limit",
        pattern: r"^.*(?:API rate limit exceeded|rate limit exceeded|Too Many Requests|toomanyrequests)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 85))],
    },
    Rule {
        name: "infra.credentials",
        pattern: r"^(?:.*[: ])?(?:Could not load credentials|Permission denied \(publickey|Authentication failed for|could not read Username|Bad credentials)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88))],
    },
    Rule {
        name: "infra.git_ref",
        pattern: r"^(?:.*[: ])?(?:couldn't find remote ref|Couldn't find remote ref|did not match any file\(s\) known to git|reference is not a tree)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88))],
    },
    Rule {
        name: "infra.curl",
        pattern: r"^curl: \(\d+\) (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 80))],
    },
    Rule {
        name: "infra.download",
        pattern: r"^.*(?:Unable to download artifact|Failed to download (?:archive|action)|Failed to CreateArtifact|Artifact not found)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88))],
    },
    Rule {
        name: "infra.memory",
        pattern: r"^(?:.*[: ])?(?:CUDA out of memory|Out of memory: Killed process|Cannot allocate memory|std::bad_alloc|fatal error: (?:runtime: )?out of memory|(?:virtual )?memory exhausted|out of memory allocating \d+ bytes|LLVM ERROR: out of memory|oom-kill|OOMKilled)\b.*",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 90)),
            Effect::Crash(Indicator::OutOfMemory),
        ],
    },
    Rule {
        name: "infra.allocation",
        pattern: r"^(?:(?:\S+: )?x(?:m|re|c)alloc: cannot allocate \d+ bytes|memory allocation of \d+ bytes failed|Out of memory!|.*[: ]There is insufficient memory for the Java Runtime Environment to continue|.*\bfailed to allocate memory \(NoMemoryError\)|(?:\S+: )*(?:Error: )?spawn\w* (?:\S+ )?ENOMEM|fatal error: runtime: cannot allocate memory)\b?.*",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 90)),
            Effect::Crash(Indicator::OutOfMemory),
        ],
    },
    Rule {
        name: "infra.timeout",
        pattern: r"^(?:.*[: ])?(?:Command took >?\S+, returning 124|The job (?:running on runner .* )?has exceeded the maximum execution time|timed out after \d+ ?(?:s|m|min|seconds|minutes)\b|timeout: sending signal|Pending: backoff timeout)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 86))],
    },
];
