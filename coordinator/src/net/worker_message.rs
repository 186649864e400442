//! Messages of workers: a message with fields over their limits is shortened where that is possible, and a result that
//! is not valid becomes the loss of its attempt. A refused result would come again on each connection: its worker could
//! do nothing else, and its job would never end.

use crate::app_state::wall_ms;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::frame;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::limiter;
use buildpool_protocol::outcome::{Ending, Outcome, Seal};
use buildpool_protocol::worker_link::FromWorker;
use serde_json::Value;

/// Parses a message. Texts, lists and numbers over their limits are shortened. A result with a name
/// over its limit loses its evidence and artifacts, and a note has the reason. A result that has no valid end, or can't be
/// parsed, has the ending [`Ending::Unobserved`] with the reason: the pool counts the attempt as lost.
///
/// # Errors
/// As [`frame::decode_control`], for a field of another message that can't be shortened. The connection then ends.
pub(super) fn decode(text: &str) -> Result<FromWorker, LinkError> {
    let error = match frame::decode_control(text) {
        Err(error) if error.code == ErrorCode::Invalid => error,
        Err(error) if error.code == ErrorCode::Malformed => return unreadable(text, &error).ok_or(error),
        decoded => return decoded,
    };
    let mut message: FromWorker = serde_json::from_str(text).map_err(|_| error)?;
    let Err(error) = limiter::shorten(&mut message) else { return Ok(message) };
    let FromWorker::Complete { outcome, .. } = &mut message else { return Err(error) };
    if limiter::shorten(&mut outcome.ending).is_err() {
        outcome.ending = Ending::Unobserved { reason: invalid(&error) };
        outcome.setup = None;
    }
    if let Err(error) = limiter::shorten(&mut **outcome) {
        leave_out_evidence(outcome, &error);
    }
    if let Err(error) = limiter::shorten(&mut **outcome) {
        **outcome = lost(&error);
    }
    Ok(message)
}

fn leave_out_evidence(outcome: &mut Outcome, error: &LinkError) {
    outcome.artifacts.clear();
    outcome.evidence = Evidence {
        notes: vec![
            "the worker's result had too long names, so its evidence and artifacts were left out".into(),
        ],
        unread: Some(format!("the worker's result is over a limit: {}", error.message)),
        ..Evidence::default()
    };
}

fn invalid(error: &LinkError) -> String {
    format!("its worker sent a result that is not valid: {}", error.message)
}

/// Reads a result that can't be parsed. Returns `None` if it is another message, or has no lease.
fn unreadable(text: &str, error: &LinkError) -> Option<FromWorker> {
    let message: Value = serde_json::from_str(text).ok()?;
    let is_result = message["type"] == "complete";
    let lease: Lease = serde_json::from_value(message["lease"].clone()).ok().filter(|_| is_result)?;
    let mut outcome = lost(error);
    let declared = &message["outcome"];
    // Its log is kept if the worker has declared it.
    if let (Ok(seals), Some(length)) =
        (serde_json::from_value(declared["seals"].clone()), declared["log_length"].as_u64())
    {
        (outcome.seals, outcome.log_length) = (seals, length);
    }
    let result = limiter::shorten(&mut outcome);
    Some(FromWorker::Complete {
        lease,
        outcome: Box::new(if result.is_ok() { outcome } else { lost(error) }),
    })
}

/// Returns the outcome of an attempt whose result is not usable.
fn lost(error: &LinkError) -> Outcome {
    let reason = invalid(error);
    let seal = Seal { length: 0, blake3: blake3::hash(b"").to_hex().to_string() };
    Outcome::new(Ending::Unobserved { reason }, wall_ms(), [seal.clone(), seal])
}

#[cfg(test)]
mod tests {
    use super::decode;
    use buildpool_protocol::outcome::{Ending, Outcome};
    use buildpool_protocol::worker_link::FromWorker;
    use serde_json::{Value, json};

    const ID: &str = "01990000-0000-7000-8000-000000000001";

    fn complete(path: &str, value: Value) -> String {
        let seal = json!({"length": 1, "blake3": "0".repeat(64)});
        let mut message = json!({
            "type": "complete", "lease": {"attempt": {"job": ID, "number": 1}, "epoch": 1},
            "outcome": {
                "ending": {"exited": {"code": 0}}, "finished_at_ms": 2, "duration": 3, "seals": [seal, seal],
                "log_length": 4, "artifacts": [{"path": "a", "bytes": 1, "blake3": "0".repeat(64)}],
                "evidence": {"notes": ["x"], "unread": "y"},
            },
        });
        *message.pointer_mut(path).expect(path) = value;
        message.to_string()
    }

    fn outcome(text: &str) -> Outcome {
        match decode(text).expect("it is shortened") {
            FromWorker::Complete { outcome, .. } => *outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_over_a_limit_is_shortened() {
        let shortened = outcome(&complete("/outcome/evidence/notes/0", json!("x".repeat(30_000))));
        assert!(shortened.evidence.notes[0].len() < 30_000);
        assert_eq!((shortened.artifacts.len(), shortened.evidence.unread.as_deref()), (1, Some("y")));
    }

    #[test]
    fn a_result_with_a_name_over_its_limit_loses_its_evidence_and_says_so() {
        let shortened = outcome(&complete("/outcome/artifacts/0/path", json!("x".repeat(30_000))));
        let unread = shortened.evidence.unread.expect("a report may be missing");
        assert!(unread.contains("artifact: 30000 bytes"), "{unread}");
        assert!(shortened.artifacts.is_empty());
    }

    #[test]
    fn a_result_without_a_valid_end_is_a_loss_with_the_reason() {
        let cases = [
            ("/outcome/ending/exited/code", json!(300), "exit code: 300 given", 4),
            ("/outcome/ending/exited/code", json!(-1), "exit code: -1 given", 4),
            (
                "/outcome/ending",
                json!({"signaled": {"signal": 999, "name": "X", "core_dump": false}}),
                "signal: 999 given",
                4,
            ),
            ("/outcome/ending", json!({"evaporated": {}}), "evaporated", 4),
            ("/outcome/duration", json!(u64::MAX), "18446744073709551615 ms", 4),
            ("/outcome/seals/0/blake3", json!("f".repeat(9_000)), "seal: 9000 bytes", 0),
            ("/outcome/seals", json!(null), "invalid type: null", 0),
            ("/outcome/log_length", json!(-4), "-4", 0),
        ];
        for (path, value, reason, log_length) in cases {
            let outcome = outcome(&complete(path, value));
            let Ending::Unobserved { reason: shown } = &outcome.ending else {
                panic!("{:?}", outcome.ending)
            };
            assert!(shown.contains(reason), "{path}: {shown}");
            assert_eq!(outcome.log_length, log_length, "{path}");
        }
    }

    #[test]
    fn other_messages_that_are_not_valid_end_the_connection() {
        let register = json!({
            "type": "register", "protocol": {"min": 1, "max": 1}, "worker": ID, "boot": ID,
            "name": "x".repeat(5_000), "version": "1", "slots": 1, "labels": {}, "resources": {}, "held": [],
            "condition": {},
        });
        assert!(decode(&register.to_string()).is_err());
        let error = decode(&complete("/lease", json!({"epoch": 1}))).expect_err("no attempt");
        assert!(error.message.contains("attempt"), "{}", error.message);
        for text in ["{\"type\":\"complete\"}", "{\"type\":\"dance\"}", "{\"type\":\"complete\""] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
