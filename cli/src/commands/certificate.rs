//! `buildpool certificate show|rotate`

use super::{coordinator, token};
use crate::arguments::{CertificateAction, DataPlace};
use crate::failure::{Failure, REFUSED};
use crate::terminal;
use buildpool_coordinator::tls::{self, REPLACED_MAX};
use buildpool_coordinator::{Config, Protection};
use serde_json::json;
use std::process::ExitCode;

pub(crate) fn run(action: &CertificateAction) -> Result<ExitCode, Failure> {
    match action {
        CertificateAction::Show { place } => {
            let config = own(place)?;
            let certificate = tls::trusted_certificate(&config.data_dir)
                .map_err(|error| Failure::from_error(REFUSED, &error))?;
            let missing = || {
                let directory = config.data_dir.display();
                let text = format!(
                    "{directory} has no certificate; start the coordinator, or create a token, which makes one"
                );
                Failure::new(REFUSED, text)
            };
            terminal::print(&certificate.ok_or_else(missing)?)?;
        }
        CertificateAction::Rotate { place, form } => {
            let config = own(place)?;
            let fingerprint = tls::rotate(&config.data_dir, &config.certificate_names())
                .map_err(|error| Failure::from_error(REFUSED, &error))?;
            if form.json {
                terminal::print_json(&json!({ "fingerprint": fingerprint }))?;
            } else {
                terminal::print(&format!("{fingerprint}\n"))?;
            }
            terminal::warn(&format!(
                "a running coordinator uses the new certificate within some seconds; tokens stay valid for {REPLACED_MAX} rotations; if the old key was stolen, rotate the tokens as well"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the configuration of a coordinator with a self-signed certificate.
fn own(place: &DataPlace) -> Result<Config, Failure> {
    let config = coordinator::configuration_of(place)?;
    if let Protection::Files { certificate, .. } = &config.protection {
        let text = format!(
            "the coordinator uses {} (tls_cert); renew that file with the tool that made it, and the coordinator takes it into use",
            certificate.display()
        );
        return Err(Failure::new(REFUSED, text));
    }
    token::become_owner(&config.data_dir)?;
    Ok(config)
}
