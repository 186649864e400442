//! Content ids: git object ids and checksums of transferred files.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Id of a git object: 40 (SHA-1) or 64 (SHA-256) hexadecimal digits in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(Box<str>);

impl ObjectId {
    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash format.
    pub fn format(&self) -> ObjectFormat {
        if self.0.len() == 40 { ObjectFormat::Sha1 } else { ObjectFormat::Sha256 }
    }
}

impl FromStr for ObjectId {
    type Err = NotHexadecimal;

    fn from_str(text: &str) -> Result<Self, NotHexadecimal> {
        let valid = matches!(text.len(), 40 | 64) && is_lower_hex(text);
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(NotHexadecimal { form: "object id", digits: "40 or 64" })
        }
    }
}

impl TryFrom<String> for ObjectId {
    type Error = NotHexadecimal;

    fn try_from(text: String) -> Result<Self, NotHexadecimal> {
        text.parse()
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.0.into()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({})", self.0)
    }
}

/// Hash format of a repository's objects. Objects of different formats never share a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectFormat {
    /// git's first format.
    Sha1,
    /// git's second format.
    Sha256,
}

impl ObjectFormat {
    /// Returns the name in git's configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Returns the empty tree. git resolves this id without a stored object.
    pub fn empty_tree(self) -> ObjectId {
        ObjectId(match self {
            Self::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
            Self::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321".into(),
        })
    }
}

/// BLAKE3 checksum of a whole file: 64 hexadecimal digits in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum(Box<str>);

impl Checksum {
    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Checksum {
    type Err = NotHexadecimal;

    fn from_str(text: &str) -> Result<Self, NotHexadecimal> {
        let valid = text.len() == 64 && is_lower_hex(text);
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(NotHexadecimal { form: "BLAKE3 checksum", digits: "64" })
        }
    }
}

impl TryFrom<String> for Checksum {
    type Error = NotHexadecimal;

    fn try_from(text: String) -> Result<Self, NotHexadecimal> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.0.into()
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({})", self.0)
    }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Error: the text is not an id or a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is not a {form}, which has {digits} hexadecimal digits in lower case")]
pub struct NotHexadecimal {
    form: &'static str,
    digits: &'static str,
}
