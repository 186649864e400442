//! Tests the rows about a lack of memory.

use super::*;

#[test]
fn memory_is_the_reason_if_the_log_and_the_worker_agree() {
    let memory = |source: &str, kills_nearby| MemoryEvidence {
        limit_bytes: Some(512 << 20),
        peak_bytes: Some(511 << 20),
        source: source.into(),
        kills_nearby,
        ..MemoryEvidence::default()
    };
    let (limit, nearby) = (memory("rlimit", 0), memory("cgroup", 1));
    let refused =
        [seen(Indicator::Died("SIGABRT"), "Aborted"), seen(Indicator::OutOfMemory, "std::bad_alloc")];
    let killed = [seen(Indicator::Killed, "make: *** [a] Killed")];
    let (abort, kill, two, shell) =
        (died("SIGABRT"), died("SIGKILL"), Ending::Exited { code: 2 }, Ending::Exited { code: 137 });
    let case = |ending, crashes, memory| VerdictInput {
        ending: Some(ending),
        crashes,
        memory,
        ..VerdictInput::default()
    };
    let make =
        |memory| VerdictInput { errors: first(error("make: *** [a] Error 137")), ..case(&two, &[], memory) };
    let (from_log, guess) = (KnownFrom::Marker, KnownFrom::ShellConvention);
    for (case, rule, known_from) in [
        (case(&two, &refused, Some(&limit)), "code_memory_limit", from_log),
        (case(&abort, &refused, Some(&limit)), "signal_memory_limit", from_log),
        (case(&two, &killed, Some(&nearby)), "code_memory_kill", from_log),
        (case(&shell, &[], Some(&nearby)), "code_memory_kill", guess),
        (make(Some(&nearby)), "code_memory_kill", guess),
        (case(&kill, &[], Some(&nearby)), "signal_memory_kill", KnownFrom::WaitStatus),
    ] {
        let cause = check(&case, rule, Verdict::Crashed, CrashType::OutOfMemory).cause.expect("a cause");
        assert_eq!(cause.known_from, known_from, "{cause:?}");
        assert!(cause.text.contains("memory limit 512 MiB"), "{cause:?}");
        assert!(cause.text.contains("; peak 511 MiB"), "{cause:?}");
        assert_eq!(cause.text.contains("probably"), rule.ends_with("_kill"), "{cause:?}");
    }
    // Either alone proves nothing.
    check(&case(&two, &killed, Some(&limit)), "code_death", Verdict::Crashed, CrashType::Killed);
    check(&case(&two, &killed, None), "code_death", Verdict::Crashed, CrashType::Killed);
    check(&case(&two, &[], Some(&nearby)), "code_unexplained", Verdict::Failed, CrashType::Unknown);
    check(&case(&two, &[], Some(&limit)), "code_unexplained", Verdict::Failed, CrashType::Unknown);
    check(&case(&abort, &[], Some(&nearby)), "signal", Verdict::Crashed, CrashType::Abort);
    check(&case(&kill, &[], Some(&limit)), "signal", Verdict::Crashed, CrashType::Killed);
    check(&make(None), "code_error", Verdict::Failed, CrashType::Unknown);
}
