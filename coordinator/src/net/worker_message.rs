//! Messages of workers: a message with fields over their limits is shortened where that is possible.
//! A refused result would come again on each connection, and its worker could do nothing else.

use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::frame;
use buildpool_protocol::limiter;
use buildpool_protocol::worker_link::FromWorker;

/// Parses a message. Texts, lists and numbers over their limits are shortened. A result with a name
/// over its limit loses its evidence and artifacts, and a note has the reason.
///
/// # Errors
/// As [`frame::decode_control`], for a field that can't be shortened. The connection then ends.
pub(super) fn decode(text: &str) -> Result<FromWorker, LinkError> {
    let error = match frame::decode_control(text) {
        Err(error) if error.code == ErrorCode::Invalid => error,
        decoded => return decoded,
    };
    let mut message: FromWorker = serde_json::from_str(text).map_err(|_| error)?;
    let Err(error) = limiter::shorten(&mut message) else { return Ok(message) };
    let FromWorker::Complete { outcome, .. } = &mut message else { return Err(error) };
    outcome.artifacts.clear();
    outcome.evidence = Evidence {
        notes: vec![
            "the worker's result had too long names, so its evidence and artifacts were left out".into(),
        ],
        unread: Some(format!("the worker's result is over a limit: {}", error.message)),
        ..Evidence::default()
    };
    limiter::shorten(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::decode;
    use buildpool_protocol::outcome::Outcome;
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
    fn an_ending_that_does_not_exist_and_a_long_worker_name_end_the_connection() {
        let error = decode(&complete("/outcome/ending/exited/code", json!(300))).expect_err("no such code");
        assert!(error.message.contains("300"), "{}", error.message);
        let register = json!({
            "type": "register", "protocol": {"min": 1, "max": 1}, "worker": ID, "boot": ID,
            "name": "x".repeat(5_000), "version": "1", "slots": 1, "labels": {}, "resources": {}, "held": [],
            "condition": {},
        });
        assert!(decode(&register.to_string()).is_err());
    }
}
