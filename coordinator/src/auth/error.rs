//! Errors of authentication and of token management.

use crate::store::StoreError;
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::spec::SpecError;
use buildpool_protocol::token::FormError;
use std::error::Error;
use std::fmt;

/// Reason why authentication or the management of a token failed.
#[derive(Debug)]
pub enum AuthError {
    /// No token was sent.
    Missing,
    /// The text does not have the form of a token.
    Malformed(FormError),
    /// The token does not exist, or the secret is wrong.
    Unknown,
    /// The token has expired.
    Expired,
    /// The token was revoked.
    Revoked,
    /// The token's role does not allow the request.
    Forbidden {
        /// Role of the token.
        have: Role,
        /// Required role.
        need: Role,
    },
    /// No token has this id or name.
    NoSuchToken {
        /// The requested id or name.
        token: String,
    },
    /// Several valid tokens with this name have different roles.
    SeveralRoles {
        /// The requested id or name.
        token: String,
    },
    /// Several valid tokens with this name have different restrictions.
    SeveralRestrictions {
        /// The requested id or name.
        token: String,
    },
    /// A restriction that no token can have.
    Restriction(String),
    /// The name is not a valid token name.
    Name(SpecError),
    /// The operating system returned no random bytes.
    Random(getrandom::Error),
    /// The tokens can't be read or written.
    Store(StoreError),
}

impl AuthError {
    /// Returns the error code for the peer.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Unknown | Self::Expired | Self::Revoked => {
                ErrorCode::Unauthorized
            }
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::NoSuchToken { .. } => ErrorCode::NotFound,
            Self::SeveralRoles { .. } | Self::SeveralRestrictions { .. } => ErrorCode::Ambiguous,
            Self::Name(_) | Self::Restriction(_) => ErrorCode::Invalid,
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
            Self::SeveralRestrictions { token } => {
                write!(f, "tokens of the name `{token}` have different restrictions; name one by its id")
            }
            Self::Restriction(reason) => f.write_str(reason),
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
