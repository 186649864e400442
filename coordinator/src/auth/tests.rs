use super::{Actor, AuthError, CANCEL, JobsAfter, Note, REFRESH_EVERY, SUBMIT, Tokens, fingerprint_of};
use crate::store::limits::{AUDIT_DETAIL_BYTES, AUDIT_ROWS_MAX};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::spec::Restriction;
use std::time::{Duration, Instant};

#[test]
fn a_token_is_known_by_its_secret_and_stored_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let created = tokens.create(Role::Submit, "ada", None, None, "local").unwrap();
    let principal = tokens.verify(&created.token).unwrap();
    assert_eq!((principal.token, principal.name.as_str(), principal.role), (created.id, "ada", Role::Submit));
    assert!(principal.may(Role::Submit) && !principal.may(Role::Worker) && !principal.may(Role::Admin));

    let secret = created.token.split('_').nth(2).unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
}

#[test]
fn what_is_not_exactly_a_token_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let fingerprint = "ab".repeat(32);
    let created = tokens.create(Role::Admin, "ada", None, Some(&fingerprint), "local").unwrap();
    assert_eq!(fingerprint_of(&created.token), Some(fingerprint.as_str()));
    assert!(tokens.verify(&created.token).is_ok());
    let without = created.token.strip_suffix(&format!("_{fingerprint}")).unwrap();
    assert!(tokens.verify(without).is_ok());
    assert_eq!(fingerprint_of(without), None);

    let last = without.chars().last().unwrap();
    let other = if last == '0' { "1" } else { "0" };
    let wrong = format!("{}{other}", &without[..without.len() - 1]);
    assert!(matches!(tokens.verify(&wrong), Err(AuthError::Unknown)));
    assert!(matches!(tokens.verify(""), Err(AuthError::Missing)));
    let shorter = &without[..without.len() - 1];
    let longer = format!("{without}_{fingerprint}_1");
    for text in ["bp_", "bp_1_2", "secret", &without[3..], shorter, &longer, "bp_é_é"] {
        assert!(matches!(tokens.verify(text), Err(AuthError::Malformed(_))), "{text}");
    }
    assert!(matches!(tokens.create(Role::Admin, "a b", None, None, "local"), Err(AuthError::Name(_))));
}

#[test]
fn an_expired_token_says_so_to_its_bearer_only() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let created = tokens.create(Role::Worker, "mini", Some(Duration::ZERO), None, "local").unwrap();
    assert!(matches!(tokens.verify(&created.token), Err(AuthError::Expired)));
    assert!(matches!(tokens.check(created.id), Err(AuthError::Expired)));
    let guess = format!("bp_{}_{}", created.id.as_uuid().as_simple(), "0".repeat(48));
    assert!(matches!(tokens.verify(&guess), Err(AuthError::Unknown)));
}

#[test]
fn what_another_process_changes_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = Tokens::open(directory.path()).unwrap();
    let elsewhere = Tokens::open(directory.path()).unwrap();
    let created = elsewhere.create(Role::Submit, "ada", None, None, "data directory").unwrap();
    assert!(coordinator.verify(&created.token).is_ok(), "a new token counts at once");
    elsewhere.revoke("ada", JobsAfter::End, "data directory").unwrap();
    let deadline = Instant::now() + REFRESH_EVERY * 20;
    while coordinator.check(created.id).is_ok() {
        assert!(Instant::now() < deadline, "the revocation was not seen");
        std::thread::yield_now();
    }
    assert!(matches!(coordinator.verify(&created.token), Err(AuthError::Revoked)));
    assert!(matches!(coordinator.revoke("ada", JobsAfter::End, "local"), Err(AuthError::NoSuchToken { .. })));
    assert!(coordinator.list().unwrap()[0].revoked_at.is_some());
}

#[test]
fn a_token_is_replaced_by_one_of_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let old = tokens.create(Role::Worker, "mini", None, None, "local").unwrap();
    let new = tokens.create(Role::Worker, "mini", None, None, "local").unwrap();
    assert_eq!(tokens.revoke(&old.id.to_string(), JobsAfter::End, "local").unwrap(), [old.id]);
    assert!(tokens.verify(&old.token).is_err());
    assert!(tokens.verify(&new.token).is_ok());
}

#[test]
fn a_rotated_token_counts_for_its_grace_and_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let old = tokens.create(Role::Worker, "mini", None, None, "local").unwrap();
    let hour = Duration::from_secs(3600);
    let new = tokens.rotate("mini", hour, None, None, "ada").unwrap();
    assert_eq!((new.role, new.name.as_str()), (Role::Worker, "mini"));
    assert!(tokens.verify(&old.token).is_ok() && tokens.verify(&new.token).is_ok());
    let newest = tokens.rotate(&new.id.to_string(), Duration::ZERO, Some(hour), None, "ada").unwrap();
    assert!(matches!(tokens.verify(&new.token), Err(AuthError::Expired)));
    assert!(tokens.verify(&old.token).is_ok(), "named by its id, only that one goes");
    assert!(tokens.verify(&newest.token).is_ok());
    let heir = tokens.rotate(&newest.id.to_string(), hour, None, None, "ada").unwrap();
    assert_eq!(tokens.stored(heir.id).unwrap().lifetime(), Some(hour), "rotation makes nothing eternal");
    assert!(matches!(tokens.rotate("nobody", hour, None, None, "ada"), Err(AuthError::NoSuchToken { .. })));
    tokens.create(Role::Admin, "mini", None, None, "local").unwrap();
    assert!(matches!(tokens.rotate("mini", hour, None, None, "ada"), Err(AuthError::SeveralRoles { .. })));
}

#[test]
fn changes_are_in_the_audit_log() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let created = tokens.create(Role::Admin, "ada", None, None, "local").unwrap();
    tokens.audit("ada", "drain", "mini", "").unwrap();
    tokens.revoke("ada", JobsAfter::End, "root").unwrap();
    let tail = tokens.audit_tail(10).unwrap();
    let lines: Vec<_> = tail.iter().map(|entry| (entry.actor.as_str(), entry.action.as_str())).collect();
    assert_eq!(lines, [("root", "token_revoke"), ("ada", "drain"), ("local", "token_create")]);
    let secret = created.token.split('_').nth(2).unwrap();
    assert!(tail.iter().all(|entry| !entry.detail.contains(secret)));
}

#[test]
fn nobody_pushes_what_others_did_out_of_the_audit_log() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let by = Actor { name: "local", peer: Some("192.0.2.1".parse().unwrap()) };
    tokens.create(Role::Admin, "ada", None, None, by).unwrap();
    let note = |action| Note {
        actor: "eve".into(),
        peer: Some("192.0.2.7".parse().unwrap()),
        action,
        subject: "a job".into(),
        detail: "x".repeat(5_000),
    };
    tokens.audit_soon(&vec![note(SUBMIT); AUDIT_ROWS_MAX as usize + 2_000]).unwrap();
    tokens.audit_all(&vec![note(CANCEL); AUDIT_ROWS_MAX as usize + 2_000]).unwrap();
    let all = tokens.audit_tail(u32::MAX).unwrap();
    assert_eq!(all.last().unwrap().action, "token_create");
    assert_eq!(all.last().unwrap().peer.as_deref(), Some("192.0.2.1"));
    assert!(all.len() < 45_000, "{} lines", all.len());
    let submits = all.iter().filter(|entry| entry.action == SUBMIT).count();
    assert!((20_000..22_000).contains(&submits), "{submits} submits");
    assert_eq!((all[0].actor.as_str(), all[0].action.as_str()), ("eve", "cancel_request"));
    assert!(all[0].detail.len() <= AUDIT_DETAIL_BYTES);
}

#[test]
fn a_revocation_ends_the_jobs_of_its_token_unless_they_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let ends = tokens.create(Role::Submit, "ada", None, None, "local").unwrap();
    let keeps = tokens.create(Role::Submit, "bob", None, None, "local").unwrap();
    tokens.create(Role::Submit, "eve", None, None, "local").unwrap();
    tokens.revoke(&ends.id.to_string(), JobsAfter::End, "local").unwrap();
    tokens.revoke(&keeps.id.to_string(), JobsAfter::Continue, "local").unwrap();
    let again = Tokens::open(directory.path()).unwrap();
    for tokens in [tokens, again] {
        let ending: Vec<_> = tokens.ending_jobs().unwrap().iter().map(|ends| ends.token).collect();
        assert_eq!(ending, [ends.id]);
    }
}

#[test]
fn a_restriction_stays_with_its_token_and_its_successors() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(directory.path()).unwrap();
    let only = Restriction { workers: vec!["mac-1".into()], ..Restriction::default() };
    let made = |role, only| tokens.create_restricted((role, only), "ada", None, None, "local");
    assert!(matches!(made(Role::Admin, &only), Err(AuthError::Restriction(_))));
    let wrong = Restriction { workers: vec!["a b".into()], ..Restriction::default() };
    assert!(matches!(made(Role::Submit, &wrong), Err(AuthError::Restriction(_))));
    let created = made(Role::Submit, &only).unwrap();
    assert_eq!(tokens.verify(&created.token).unwrap().only, only);
    let elsewhere = Tokens::open(directory.path()).unwrap();
    let rotated = elsewhere.rotate("ada", Duration::from_secs(60), None, None, "local").unwrap();
    assert_eq!(elsewhere.verify(&rotated.token).unwrap().only, only);
    assert!(elsewhere.list().unwrap().iter().all(|token| token.only == only));
    made(Role::Submit, &Restriction::default()).unwrap();
    let refused = tokens.rotate("ada", Duration::ZERO, None, None, "local");
    assert!(matches!(refused, Err(AuthError::SeveralRestrictions { .. })));
}
