//! The client of a worker with a token that can be replaced at run time.

use super::connect::{Dialler, DiallerError};
use crate::config::Config;
use std::fs;
use tracing::{error, info, warn};

/// A client with the newest token of the worker's `token_file`.
pub struct ReloadingDialler {
    config: Config,
    dialler: Dialler,
}

impl ReloadingDialler {
    /// Creates the first client.
    ///
    /// # Errors
    /// See [`DiallerError`].
    pub fn new(config: &Config) -> Result<Self, DiallerError> {
        Ok(Self { dialler: Dialler::new(config)?, config: config.clone() })
    }

    /// Reads `token_file` again and returns the client for the next connection attempt. If the file
    /// cannot be read or its token is invalid, the last token stays in use.
    pub fn current(&mut self) -> &Dialler {
        let Some(file) = &self.config.token_file else { return &self.dialler };
        let token = match fs::read_to_string(file) {
            Ok(text) => text.trim().to_owned(),
            Err(error) => {
                warn!("`token_file` {} can't be read: {error}; the last token is used", file.display());
                return &self.dialler;
            }
        };
        if token.is_empty() || self.config.token.as_ref() == Some(&token) {
            return &self.dialler;
        }
        let renewed = Config { token: Some(token), ..self.config.clone() };
        match Dialler::new(&renewed) {
            Ok(dialler) => {
                info!("`token_file` has a new token");
                *self = Self { config: renewed, dialler };
            }
            Err(error) => {
                error!("the new token of `token_file` can't be used: {error}; the last one is used")
            }
        }
        &self.dialler
    }
}

#[cfg(test)]
mod tests {
    use super::ReloadingDialler;
    use crate::config::Config;

    #[test]
    fn the_token_file_is_read_again_and_the_last_good_token_stays() {
        let directory = tempfile::tempdir().expect("made");
        let file = directory.path().join("token");
        let mut config = Config::new("ws://127.0.0.1:1", directory.path());
        config.token = Some("bp_1_old".to_owned());
        config.token_file = Some(file.clone());
        let mut renewed = ReloadingDialler::new(&config).expect("dialled");
        for (text, expected) in [
            (None, "bp_1_old"),
            (Some("bp_1_new\n"), "bp_1_new"),
            (Some("\n"), "bp_1_new"),
            (Some("bp_1_\u{7}"), "bp_1_new"),
            (Some("bp_1_newest"), "bp_1_newest"),
        ] {
            if let Some(text) = text {
                std::fs::write(&file, text).expect("written");
            }
            renewed.current();
            assert_eq!(renewed.config.token.as_deref(), Some(expected), "{text:?}");
        }
    }
}
