//! Quoting of shell words.

/// Quotes a word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.chars().all(|c| {
            c.is_ascii_alphanumeric()
                || matches!(c, '_' | '-' | '.' | '/' | '=' | ':' | ',' | '+' | '@' | '%')
        });
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        for (word, expected) in [
            ("a::b", "a::b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(rm -rf x)", "'$(rm -rf x)'"),
            ("a\nb", "'a\nb'"),
            ("~x", "'~x'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
