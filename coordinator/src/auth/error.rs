//! Errors of authentication and of token management.

use crate::store::StoreError;
use buildpool_protocol::client_link::Role;
use buildpool_protocol::error::{ErrorCode, LinkError, chain};
use buildpool_protocol::spec::SpecError;
use buildpool_protocol::token::TokenFormError;

/// Reason why authentication or the management of a token failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No token was sent.
    #[error("no token was given; pass one with --token or in BUILDPOOL_TOKEN")]
    Missing,
    /// The text does not have the form of a token.
    #[error("this is not a token: {0}")]
    Malformed(TokenFormError),
    /// The token does not exist, or the secret is wrong.
    #[error("the token is not known here")]
    Unknown,
    /// The token has expired.
    #[error("the token has expired; ask for a new one")]
    Expired,
    /// The token was revoked.
    #[error("the token was revoked; ask for a new one")]
    Revoked,
    /// The token's role does not allow the request.
    #[error("the token has role `{}`; this needs `{}`", .have.name(), .need.name())]
    Forbidden {
        /// Role of the token.
        have: Role,
        /// Required role.
        need: Role,
    },
    /// No token has this id or name.
    #[error("no token that is in force has the id or name `{token}`")]
    NoSuchToken {
        /// The requested id or name.
        token: String,
    },
    /// Several valid tokens with this name have different roles.
    #[error("tokens of several roles have the name `{token}`; name one by its id")]
    SeveralRoles {
        /// The requested id or name.
        token: String,
    },
    /// Several valid tokens with this name have different restrictions.
    #[error("tokens of the name `{token}` have different restrictions; name one by its id")]
    SeveralRestrictions {
        /// The requested id or name.
        token: String,
    },
    /// A restriction that no token can have.
    #[error("{0}")]
    Restriction(String),
    /// The name is not a valid token name.
    #[error(transparent)]
    Name(SpecError),
    /// The operating system returned no random bytes.
    #[error("the system gave no random bytes")]
    Random(#[source] getrandom::Error),
    /// The tokens can't be read or written.
    #[error("tokens can't be read or written")]
    Store(#[from] StoreError),
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
