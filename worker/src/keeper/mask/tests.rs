mod plainly;

use super::Masker;
use super::forms::{STANDARD, base64_inside};
use proptest::prelude::*;

fn mask(values: &[&str], parts: &[&[u8]]) -> Vec<u8> {
    let mut masker = Masker::new(values.iter().copied()).expect("there are secrets");
    let mut out = Vec::new();
    for part in parts {
        masker.push(part, &mut out);
    }
    masker.finish(&mut out);
    out
}

#[test]
fn each_form_is_masked_at_every_cut() {
    let secret = "s3cr3t/pass word+1";
    for (text, expected) in [
        ("before s3cr3t/pass word+1 after", "before *** after"),
        ("s3cr3t/pass word+1s3cr3t/pass word+1", "******"),
        ("url s3cr3t%2Fpass%20word%2B1.", "url ***."),
        ("url s3cr3t%2fpass%20word%2b1.", "url ***."),
        ("path s3cr3t/pass%20word%2B1.", "path ***."),
        ("form s3cr3t%2Fpass+word%2B1.", "form ***."),
        ("only s3cr3t/pass word+ the beginning", "only s3cr3t/pass word+ the beginning"),
        ("s3cr3t/pass s3cr3t/pass word+1", "s3cr3t/pass ***"),
        ("ends with s3cr3t/pass wor", "ends with s3cr3t/pass wor"),
    ] {
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            let masked = mask(&[secret], &[&bytes[..cut], &bytes[cut..]]);
            assert_eq!(String::from_utf8_lossy(&masked), expected, "`{text}` cut at {cut}");
        }
    }
}

#[test]
fn percent_forms_of_every_encoder_are_masked_at_every_cut() {
    // encodeURIComponent, encodeURI, URLSearchParams, Python's quote and quote_plus, Java's
    // URLEncoder, Go's PathEscape.
    let secret = "pa(ss)!word/x y~*'&$";
    for text in [
        "pa(ss)!word%2Fx%20y~*'%26%24",
        "pa(ss)!word/x%20y~*'&$",
        "pa%28ss%29%21word%2Fx+y%7E*%27%26%24",
        "pa%28ss%29%21word/x%20y~%2A%27%26%24",
        "pa%28ss%29%21word%2Fx+y~%2A%27%26%24",
        "pa%28ss%29%21word%2fx%20y%7e*%27&$",
        "%70%61%28%73%73%29%21%77%6f%72%64%2f%78%20%79%7e%2a%27%26%24",
    ] {
        for cut in 0..=text.len() {
            let (one, other) = text.as_bytes().split_at(cut);
            let masked = mask(&[secret], &[b"<", one, other, b">"]);
            assert_eq!(String::from_utf8_lossy(&masked), "<***>", "`{text}` cut at {cut}");
        }
    }
    assert_eq!(mask(&["100%"], &[b"100% 100%25 100%2 100%"]), b"*** *** ***2 ***");
}

#[test]
fn base64_in_lines_is_masked_at_every_cut() {
    // 72 bytes through base64(1), which breaks lines after 76 digits; then as MIME does, and
    // indented.
    let secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:,;#+=!";
    let digits =
        "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVotXy46LDsjKz0h";
    for gap in ["\n", "\r\n", "\n      "] {
        for width in [1, 7, 64, 76] {
            let lines: Vec<_> = digits.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
            let text = lines.join(gap);
            for cut in [0, 1, width, width + 1, width + 2, text.len() - 1] {
                let (one, other) = text.as_bytes().split_at(cut);
                let masked = mask(&[secret], &[b"<", one, other, b"\n>"]);
                assert_eq!(String::from_utf8_lossy(&masked), "<***\n>", "lines of {width}, cut at {cut}");
            }
        }
    }
    let long = format!("MDEy{}MzQ1", "\n".repeat(1000));
    assert_eq!(mask(&[secret], &[long.as_bytes()]), long.as_bytes(), "a gap without an end is not a gap");
}

#[test]
fn base64_is_masked_at_each_place_in_a_longer_text() {
    // `user:hunter2secret` and variants, encoded with coreutils base64.
    for text in [
        "aHVudGVyMnNlY3JldA==",
        "eGh1bnRlcjJzZWNyZXQ=",
        "eHlodW50ZXIyc2VjcmV0",
        "dXNlcjpodW50ZXIyc2VjcmV0IQ==",
    ] {
        let masked = String::from_utf8(mask(&["hunter2secret"], &[text.as_bytes()])).expect("text");
        assert!(masked.contains("***"), "{text} became {masked}");
        assert!(masked.len() <= 14, "{text} became {masked}");
    }
    assert_eq!(base64_inside(b"hunter2secret", 0, STANDARD), b"aHVudGVyMnNlY3JldA"[..17]);
}

#[test]
fn a_longer_secret_wins_and_lines_count_by_themselves() {
    assert_eq!(mask(&["abc", "abcdef"], &[b"xabcdefabcy"]), b"x******y");
    assert_eq!(mask(&["abc", "abcdef"], &[b"xab", b"cde", b"zabc"]), b"x***dez***");
    let key = "-----BEGIN-----\nMIIEvQIBADAN\nshort\n";
    assert_eq!(mask(&[key], &[b"  MIIEvQIBADAN\n short"]), b"  ***\n short");
}

#[test]
fn nothing_to_mask_is_no_masker() {
    assert!(Masker::new([""]).is_none());
    assert!(Masker::new([]).is_none());
}

proptest! {
    #[test]
    fn cuts_change_nothing(
        text in "[abc]{0,60}",
        secrets in proptest::collection::vec("[abc]{1,5}", 1..4),
        cuts in proptest::collection::vec(0usize..60, 0..8),
    ) {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let whole = mask(&secrets, &[text.as_bytes()]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut parts = Vec::new();
        let mut from = 0;
        for cut in cuts {
            parts.push(&text.as_bytes()[from..cut]);
            from = cut;
        }
        parts.push(&text.as_bytes()[from..]);
        prop_assert_eq!(mask(&secrets, &parts), whole);
    }
}

/// Returns a secret in one of the forms that tools write.
fn written(secret: &str, how: u8) -> Vec<u8> {
    let escaped = |lower: bool| {
        let hex = |byte: u8| if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") };
        secret
            .bytes()
            .enumerate()
            .map(|(index, byte)| if index % 2 == 0 { hex(byte) } else { char::from(byte).to_string() })
            .collect::<String>()
    };
    let digits = |shift, gap: &str| {
        let digits = base64_inside(secret.as_bytes(), shift, STANDARD);
        digits.chunks(3).map(String::from_utf8_lossy).collect::<Vec<_>>().join(gap)
    };
    match how % 8 {
        0 => secret.to_owned(),
        1 => secret.replace(' ', "+"),
        2 => escaped(true),
        3 => escaped(false),
        4 => digits(0, ""),
        5 => digits(1, "\n"),
        6 => digits(2, "\r\n  "),
        _ => secret.trim().to_owned(),
    }
    .into_bytes()
}

proptest! {
    #[test]
    fn the_same_is_masked_as_form_by_form(
        secrets in proptest::collection::vec("[ab %+25\n]{1,9}", 1..5),
        parts in proptest::collection::vec((0usize..5, 0u8..9, 0usize..20, "[abY%+ 25\r\n]{0,3}"), 0..8),
        cut in 0usize..80,
    ) {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut text = Vec::new();
        for (which, how, length, between) in &parts {
            let bytes = written(secrets[which % secrets.len()], *how);
            // The whole form, or only its start.
            text.extend_from_slice(&bytes[..if *how == 8 { (*length).min(bytes.len()) } else { bytes.len() }]);
            text.extend_from_slice(between.as_bytes());
        }
        let expected = plainly::mask(&secrets, &text);
        let (one, other) = text.split_at(cut.min(text.len()));
        prop_assert_eq!(mask(&secrets, &[one, other]), expected.clone());
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(mask(&secrets, &bytes), expected);
    }
}

#[test]
fn a_value_without_the_blanks_around_it_is_masked_too() {
    for value in ["hunter2 ", "hunter2\r", "\thunter2\r\n", " hunter2"] {
        assert_eq!(mask(&[value], &[b"is:hunter2."]), b"is:***.", "{value:?}");
        let encoded = mask(&[value], &[b"is aHVudGVyMg=="]);
        assert!(encoded.starts_with(b"is ***") && encoded.len() <= 9, "{value:?}");
    }
    assert_eq!(mask(&["abc "], &[b"abcabc abc"]), b"abc***abc", "short text is common");
}

/// Returns the processor time of this thread for masking a text.
fn cost(secret: &str, text: &[u8]) -> std::time::Duration {
    use nix::time::{ClockId, clock_gettime};
    let now = || std::time::Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"));
    let mut masker = Masker::new([secret]).expect("a secret");
    let mut out = Vec::new();
    let before = now();
    masker.push(text, &mut out);
    masker.finish(&mut out);
    let taken = now() - before;
    assert_eq!(out, text);
    taken
}

#[test]
fn what_masking_costs_does_not_grow_with_the_lines_of_a_secret() {
    let line = |number: u32| format!("{}\n", &blake3::hash(&number.to_le_bytes()).to_hex().repeat(2)[..76]);
    let of_lines = |count| (0..count).map(line).collect::<String>();
    let text: String = (1_000_000..1_005_000).map(|number| format!("{number}\n")).collect();
    let (few, many) = (cost(&of_lines(7), text.as_bytes()), cost(&of_lines(700), text.as_bytes()));
    println!("40 KB of numbers: {few:?} with 7 lines, {many:?} with 700");
    assert!(many < few * 100, "{few:?} with 7 lines, {many:?} with 700");
}
