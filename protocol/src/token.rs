//! The format of a token: `bp_<id>_<secret>`, with `_<fingerprint>` appended if the coordinator
//! uses a self-generated certificate. All three parts are hexadecimal.

use crate::ids::TokenId;
use std::fmt;

/// Prefix of each token.
pub const PREFIX: &str = "bp_";
/// Number of digits of the id.
pub const ID_DIGITS: usize = 32;
/// Number of digits of the secret.
pub const SECRET_DIGITS: usize = 48;
/// Number of digits of the fingerprint: BLAKE3 of the coordinator's certificate (DER).
pub const FINGERPRINT_DIGITS: usize = 64;

/// The parts of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Id of the token. Not secret.
    pub id: TokenId,
    /// The secret.
    pub secret: &'a str,
    /// Fingerprint of the coordinator's certificate.
    pub fingerprint: Option<&'a str>,
    /// The part sent to the coordinator: everything except the fingerprint.
    pub said: &'a str,
}

/// Splits a token into its parts.
///
/// # Errors
/// The problem with its format. The error does not repeat the text, because it may still be a
/// secret.
pub fn parse(text: &str) -> Result<Parts<'_>, TokenFormError> {
    if text.is_empty() {
        return Err(TokenFormError::Empty);
    }
    let rest = text.strip_prefix(PREFIX).ok_or(TokenFormError::Prefix)?;
    let mut parts = rest.split('_');
    let mut part = |name, digits| {
        let part: Option<&str> = parts.next();
        part.map(|part| {
            if is_hex(part, digits) {
                Ok(part)
            } else {
                Err(TokenFormError::Part { name, digits, found: part.len() })
            }
        })
        .transpose()
    };
    let missing = |name, digits| TokenFormError::Part { name, digits, found: 0 };
    let id = part("id", ID_DIGITS)?.ok_or_else(|| missing("id", ID_DIGITS))?;
    let secret = part("secret", SECRET_DIGITS)?.ok_or_else(|| missing("secret", SECRET_DIGITS))?;
    let fingerprint = part("fingerprint", FINGERPRINT_DIGITS)?;
    if parts.next().is_some() {
        return Err(TokenFormError::More);
    }
    let said = fingerprint.map_or(text, |fingerprint| &text[..text.len() - fingerprint.len() - 1]);
    let id = id.parse().map_err(|_| missing("id", ID_DIGITS))?;
    Ok(Parts { id, secret, fingerprint, said })
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The end of each [`TokenFormError`].
const VALID_FORM: &str =
    "a valid one is as `buildpool token create` prints it, bp_ID_SECRET or bp_ID_SECRET_FINGERPRINT";

/// Reason why a text is not a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenFormError {
    /// It is empty.
    #[error("it is empty; {VALID_FORM}")]
    Empty,
    /// It has another prefix.
    #[error("it does not begin with `{PREFIX}`; {VALID_FORM}")]
    Prefix,
    /// A part does not have the required number of hexadecimal digits.
    #[error("{}; {VALID_FORM}", part_text(.name, *.digits, *.found))]
    Part {
        /// Name of the part.
        name: &'static str,
        /// Required number of digits.
        digits: usize,
        /// Actual number of bytes.
        found: usize,
    },
    /// There is text after the last part.
    #[error("there is text after its fingerprint; {VALID_FORM}")]
    More,
}

fn part_text(name: &str, digits: usize, found: usize) -> String {
    if found == digits {
        format!("its {name} has characters that are not hexadecimal digits")
    } else {
        format!("its {name} has {found} characters, and {digits} hexadecimal digits are valid")
    }
}

#[cfg(test)]
mod tests {
    use super::{FINGERPRINT_DIGITS, ID_DIGITS, SECRET_DIGITS, TokenFormError, parse};

    fn whole() -> (String, String) {
        let said = format!("bp_{}_{}", "0a".repeat(ID_DIGITS / 2), "B7".repeat(SECRET_DIGITS / 2));
        let pin = "c".repeat(FINGERPRINT_DIGITS);
        (format!("{said}_{pin}"), said)
    }

    #[test]
    fn a_token_is_taken_apart() {
        let (token, said) = whole();
        let parts = parse(&token).unwrap();
        assert_eq!((parts.said, parts.fingerprint), (said.as_str(), Some(&*"c".repeat(64))));
        assert_eq!(parts.secret, "B7".repeat(24));
        let short = parse(&said).unwrap();
        assert_eq!((short.said, short.fingerprint, short.id), (said.as_str(), None, parts.id));
        assert!(!format!("{parts:?}").contains("B7"), "it shows no secret");
    }

    #[test]
    fn what_is_wrong_is_named_and_the_text_is_not_repeated() {
        let (token, said) = whole();
        for (text, expected) in [
            (String::new(), "it is empty"),
            ("s3cret".into(), "does not begin with `bp_`"),
            ("bp_".into(), "its id has 0 characters"),
            ("bp_1_2".into(), "its id has 1 characters, and 32 hexadecimal digits are valid"),
            (said[..said.len() - 1].to_owned(), "its secret has 47 characters"),
            (
                format!("{}g", &said[..said.len() - 1]),
                "its secret has characters that are not hexadecimal digits",
            ),
            (said[..35].to_owned(), "its secret has 0 characters"),
            (format!("{said}_beef"), "its fingerprint has 4 characters"),
            (format!("{token}_1"), "there is text after its fingerprint"),
            (format!("bp_é_{}", &said[36..]), "its id has 2 characters"),
        ] {
            let shown = parse(&text).unwrap_err().to_string();
            assert!(shown.contains(expected) && shown.contains("token create"), "{text}: {shown}");
            assert!(text.len() < 20 || !shown.contains(&text), "{shown}");
        }
        assert_eq!(parse(""), Err(TokenFormError::Empty));
    }
}
