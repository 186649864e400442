//! Quoting of words for a POSIX shell.

use shlex::Quoter;

/// Quotes a word for a POSIX shell, if it needs quotes. Words such as `--features=a,b` stay as they are.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // A NUL is the only error, and is allowed here: the check of a job's spec rejects it.
    Quoter::new().allow_nul(true).quote(word).map(Into::into).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use std::process::Command;

    #[test]
    fn a_shell_reads_the_quoted_word() {
        for word in
            ["", "a b", "it's", "$(rm -rf x)", "a\nb", "~x", "a\\b", "`x`", "!x", "a*", "^a'!b", "{a}", "#x"]
        {
            let quoted = quoted(word);
            let shell = Command::new("sh").args(["-c", &format!("printf %s {quoted}")]).output();
            assert_eq!(shell.expect("sh starts").stdout, word.as_bytes(), "{quoted}");
            assert_ne!(quoted, word);
        }
        for plain in ["a::b", "--features=a,b", "50%", "x@y", "ä"] {
            assert_eq!(quoted(plain), plain);
        }
    }
}
