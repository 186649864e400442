//! Why somebody is not let in, or a token can't be managed.

use crate::store::StoreError;
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::spec::SpecError;
use buildpool_protocol::token::FormError;
use std::error::Error;
use std::fmt;

/// Why somebody is not let in, or a token can't be managed.
#[derive(Debug)]
pub enum AuthError {
    /// No token was given.
    Missing,
    /// What was given is not in the form of a token.
    Malformed(FormError),
    /// No such token, or another secret.
    Unknown,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
    /// It is for something else.
    Forbidden {
        /// What it is for.
        have: Role,
        /// What it would have to be for.
        need: Role,
    },
    /// No token has this id or name.
    NoSuchToken {
        /// As asked for.
        token: String,
    },
    /// Several tokens of this name are in force, and they are for different things.
    SeveralRoles {
        /// As asked for.
        token: String,
    },
    /// A name that no token can have.
    Name(SpecError),
    /// The operating system gave no random bytes.
    Random(getrandom::Error),
    /// The tokens can't be read or written.
    Store(StoreError),
}

impl AuthError {
    /// For a peer.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Unknown | Self::Expired | Self::Revoked => {
                ErrorCode::Unauthorized
            }
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::NoSuchToken { .. } => ErrorCode::NotFound,
            Self::SeveralRoles { .. } => ErrorCode::Ambiguous,
            Self::Name(_) => ErrorCode::Invalid,
            Self::Random(_) => ErrorCode::Internal,
            Self::Store(_) => ErrorCode::Unavailable,
        }
    }
}

impl From<&AuthError> for LinkError {
    fn from(error: &AuthError) -> Self {
        Self::new(error.code(), chain(error))
    }
}

impl From<StoreError> for AuthError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no token was given; pass one with --token or in BUILDPOOL_TOKEN"),
            Self::Malformed(error) => write!(f, "this is no token: {error}"),
            Self::Unknown => f.write_str("the token is not known here"),
            Self::Expired => f.write_str("the token has expired; ask for a new one"),
            Self::Revoked => f.write_str("the token was revoked; ask for a new one"),
            Self::Forbidden { have, need } => {
                write!(f, "the token has role `{}`; this needs `{}`", have.name(), need.name())
            }
            Self::NoSuchToken { token } => {
                write!(f, "no token that is in force has the id or name `{token}`")
            }
            Self::SeveralRoles { token } => {
                write!(f, "tokens of several roles have the name `{token}`; name one by its id")
            }
            Self::Name(error) => error.fmt(f),
            Self::Random(_) => f.write_str("the system gave no random bytes"),
            Self::Store(_) => f.write_str("tokens can't be read or written"),
        }
    }
}

impl Error for AuthError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Random(error) => Some(error),
            _ => None,
        }
    }
}
