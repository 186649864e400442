//! Parses attempt numbers in report file names, for example `junit-retry-2.xml`.

/// Words in a file name that mark an attempt.
const OF_ATTEMPTS: &[&str] = &["attempt", "retry", "retries", "rerun"];
const SEPARATORS: &[char] = &['-', '_', '.'];

/// A file name split at its attempt word: `py39-retry-2.xml` is the second retry of `py39.xml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The name without the attempt word and number. Empty if only a file extension would remain.
    pub(crate) of: String,
    /// The attempt number, 0 if the attempt word has no number, or `None` if the name has no
    /// attempt word.
    pub(crate) number: Option<u64>,
}

impl Attempt {
    pub(crate) fn in_name(name: &str) -> Self {
        let mut tokens: Vec<(usize, &str)> = Vec::new();
        let mut at = 0;
        for token in name.split(SEPARATORS) {
            tokens.push((at, token));
            at += token.len() + 1;
        }
        // The last attempt word counts: `retry-lib-attempt-2` is an attempt of `retry-lib`.
        let found = (0..tokens.len()).rev().find_map(|at| Some((at, word_in(tokens[at].1)?)));
        let Some((at, (before, digits))) = found else {
            return Self { of: name.to_owned(), number: None };
        };
        let (from, token) = tokens[at];
        let next = tokens.get(at + 1).filter(|_| digits.is_empty()).map(|(_, next)| *next);
        let number = next.filter(|next| is_number(next)).unwrap_or(digits);
        let end =
            from + token.len() + if digits.is_empty() && !number.is_empty() { number.len() + 1 } else { 0 };
        let start = if before == 0 { from.saturating_sub(1) } else { from + before };
        let (head, rest) = (&name[..start], &name[end..]);
        let of = match (head, rest.strip_prefix(SEPARATORS)) {
            ("", Some(kind)) if rest.starts_with('.') && !kind.contains(SEPARATORS) => String::new(),
            ("", Some(rest)) => rest.to_owned(),
            _ => format!("{head}{rest}"),
        };
        // A number that overflows `u64` sorts after all others.
        let number = if number.is_empty() { 0 } else { number.parse().unwrap_or(u64::MAX) };
        Self { of, number: Some(number) }
    }

    /// Returns true if this file can be the first attempt. A series that starts at a higher number
    /// may be version numbers.
    pub(crate) fn is_first(&self) -> bool {
        self.number.is_none_or(|number| number <= 1)
    }

    /// Returns true if this file is the attempt directly after `earlier`, with the same base name.
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        let is_next = match (earlier.number, self.number) {
            (None, Some(_)) => true,
            // A series `retry`, `retry-2` skips the number 1.
            (Some(0), Some(next)) => matches!(next, 1 | 2),
            (Some(last), Some(next)) => last.checked_add(1) == Some(next),
            (_, None) => false,
        };
        is_next && self.of == earlier.of
    }
}

fn is_number(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the byte offset of an attempt word at the end of `token`, and the digits after it. The
/// attempt word must be a separate word: `RetryTest` is a class name.
fn word_in(token: &str) -> Option<(usize, &str)> {
    let bare = token.trim_end_matches(|c: char| c.is_ascii_digit());
    let begins = |word: &str| {
        let from = bare.len().checked_sub(word.len())?;
        let (before, found) = (bare.get(..from)?, bare.get(from..)?);
        let is_apart = !before.ends_with(char::is_alphabetic)
            || (before.ends_with(char::is_lowercase) && found.starts_with(char::is_uppercase));
        (is_apart && found.eq_ignore_ascii_case(word)).then_some(from)
    };
    OF_ATTEMPTS.iter().find_map(|word| begins(word)).map(|from| (from, &token[bare.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_an_attempt_is_cut_off() {
        for (name, of, number) in [
            ("py39.xml", "py39.xml", None),
            ("py39-retry.xml", "py39.xml", Some(0)),
            ("py39_rerun2.xml", "py39.xml", Some(2)),
            ("py39.attempt-10.xml", "py39.xml", Some(10)),
            ("TEST-retry-foo.xml", "TEST-foo.xml", Some(0)),
            ("a-Retry1.xml", "a.xml", Some(1)),
            ("junitRetry1.xml", "junit.xml", Some(1)),
            ("retry-lib-py39.xml", "lib-py39.xml", Some(0)),
            ("retry-lib-attempt-2", "retry-lib", Some(2)),
            ("retry-3.9.xml", "9.xml", Some(3)),
            ("retry.xml", "", Some(0)),
            ("attempt-2", "", Some(2)),
            ("junit-retry-99999999999999999999.xml", "junit.xml", Some(u64::MAX)),
            // A class name, and words that only end like an attempt word.
            ("TEST-com.RetryTest-jdk21.xml", "TEST-com.RetryTest-jdk21.xml", None),
            ("carretry.xml", "carretry.xml", None),
            ("größe-retry.xml", "größe.xml", Some(0)),
            ("", "", None),
        ] {
            assert_eq!(Attempt::in_name(name), Attempt { of: of.to_owned(), number }, "{name}");
        }
    }

    #[test]
    fn attempts_are_numbered_one_after_the_other() {
        let follows = |next: &str, earlier: &str| Attempt::in_name(next).follows(&Attempt::in_name(earlier));
        for (next, earlier) in
            [("a-retry.xml", "a.xml"), ("a-retry-2.xml", "a-retry.xml"), ("a-rerun10", "a-rerun9")]
        {
            assert!(follows(next, earlier) && !follows(earlier, next), "{next}");
        }
        assert!(!follows("retry-310.xml", "retry-39.xml"), "versions of something");
        assert!(!Attempt::in_name("retry-8.xml").is_first());
        assert!(Attempt::in_name("retry-1.xml").is_first() && Attempt::in_name("a.xml").is_first());
    }
}
