//! Tests of messages, names and manifests as peers may send them.

use super::{Checksum, Head, Manifest, Message, ObjectFormat, ObjectId, Subject, Tag, is_ref_name};
use crate::frame::{decode_control, encode_control};

fn manifest() -> Manifest {
    Manifest {
        project: "example.org/app".into(),
        tree: "a".repeat(40).parse().unwrap(),
        head: Some(Head {
            commit: "b".repeat(40).parse().unwrap(),
            tree: "c".repeat(40).parse().unwrap(),
            branch: Some("main".into()),
            history: vec![],
            tags: vec![Tag { name: "v1".into(), object: "d".repeat(40).parse().unwrap() }],
            shallow: vec![],
        }),
        excludes: "/out\n".into(),
        left_behind: vec![],
        files: 3,
        bytes: 12,
    }
}

#[test]
fn peers_that_do_not_name_manifests_are_understood() {
    let want = br#"{"step":"want","channel":1,"base":null,"head":true}"#;
    let id = "a".repeat(40).parse::<ObjectId>().unwrap();
    let expected = Message::Want { channel: 1, base: None, head: true, lacks: None };
    assert_eq!(decode_control::<Message>(std::str::from_utf8(want).unwrap()).unwrap(), expected);
    let fetch = format!(
        r#"{{"step":"fetch_snapshot","channel":1,"project":"p","tree":"{id}","head":null,"trees":[],"heads":["{id}"]}}"#
    );
    let expected = Message::FetchSnapshot {
        channel: 1,
        project: "p".into(),
        tree: id.clone(),
        head: None,
        trees: vec![],
        heads: vec![id],
        manifest: None,
        known: vec![],
    };
    assert_eq!(decode_control::<Message>(&fetch).unwrap(), expected);
    assert_eq!(encode_control(&expected), fetch, "and unknown fields are not sent without need");
}

#[test]
fn ids_and_checksums_take_lower_case_hexadecimal_of_their_length_only() {
    for (text, valid) in [
        ("0".repeat(40), true),
        ("f".repeat(64), true),
        ("0".repeat(39), false),
        ("A".repeat(40), false),
        (format!("{}/", "0".repeat(39)), false),
        (String::new(), false),
    ] {
        assert_eq!(text.parse::<ObjectId>().is_ok(), valid, "{text}");
    }
    assert!("0".repeat(64).parse::<Checksum>().is_ok());
    assert!("0".repeat(40).parse::<Checksum>().is_err());
    assert_eq!(ObjectFormat::Sha256.empty_tree().format(), ObjectFormat::Sha256);
}

#[test]
fn a_bad_id_in_a_message_is_refused_when_it_is_read() {
    let good = encode_control(&Message::Begin {
        channel: 3,
        subject: Subject::Snapshot { manifest: Box::new(manifest()), base: None },
        blake3: "0".repeat(64).parse().unwrap(),
        length: 9,
    });
    assert!(decode_control::<Message>(&good).is_ok());
    let bad = good.replace(&"0".repeat(64), "../../etc/passwd");
    assert!(decode_control::<Message>(&bad).is_err());
}

#[test]
fn a_manifest_with_a_bad_name_or_too_much_of_something_says_so() {
    assert_eq!(manifest().check(), Ok(()));
    let mut wrong = manifest();
    wrong.head.as_mut().unwrap().tags[0].name = "../../config".into();
    assert!(wrong.check().unwrap_err().message.contains("../../config"));
    let mut mixed = manifest();
    mixed.head.as_mut().unwrap().commit = "b".repeat(64).parse().unwrap();
    assert!(mixed.check().is_err());
    let mut long = manifest();
    long.excludes = "x".repeat(crate::limits::EXCLUDES_BYTES_MAX + 1);
    assert!(long.check().is_err());
}

#[test]
fn ref_names_follow_git() {
    for (name, valid) in [
        ("main", true),
        ("feature/ünïcode-1", true),
        ("", false),
        ("a..b", false),
        ("a/.b", false),
        ("a.lock", false),
        ("/a", false),
        ("a//b", false),
        ("-a", false),
        ("a b", false),
        ("a\nb", false),
        ("@", false),
        ("a@{1}", false),
    ] {
        assert_eq!(is_ref_name(name), valid, "{name:?}");
    }
}
