//! `buildpool mcp`: the gateway for agents, on standard input and output or over HTTP.

use crate::arguments::{LogFormat, McpArguments};
use crate::failure::{Failure, POOL, USAGE};
use crate::settings;
use buildpool_gateway::{GatewayConfig, HttpAuth, HttpConfig, ServeError, serve_http, serve_stdio};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

/// Serves until the client disconnects or a signal arrives. Running jobs continue.
pub(crate) fn run(arguments: McpArguments) -> Result<ExitCode, Failure> {
    // MCP clients show stderr to their users, so print only warnings.
    let level = if arguments.http.is_some() { LevelFilter::INFO } else { LevelFilter::WARN };
    super::log_to_stderr_from(level, LogFormat::Text);
    let _traces = super::trace("buildpool-mcp");
    let mut config =
        GatewayConfig::new(settings::target_of_gateway(&arguments.pool)?, directory(&arguments)?);
    config.projects = projects(&arguments.projects)?;
    config.read_only = arguments.read_only;
    config.waits.for_all = arguments.wait;
    let Some(listen) = arguments.http else {
        return super::block_on(async { ended(serve_stdio(config).await) });
    };
    let http = HttpConfig {
        auth: if arguments.http_auth == "none" { HttpAuth::None } else { HttpAuth::Token },
        allow_plain: arguments.http_plain,
        hosts: arguments.http_hosts.clone(),
        origins: arguments.http_origins.clone(),
        ..HttpConfig::new(listen)
    };
    super::serve(async { ended(serve_http(config, http).await) })
}

fn directory(arguments: &McpArguments) -> Result<PathBuf, Failure> {
    match &arguments.directory {
        Some(directory) => Ok(directory.clone()),
        None => std::env::current_dir()
            .map_err(|error| Failure::while_doing(USAGE, "the present directory can't be read", &error)),
    }
}

/// Parses the projects, `NAME=DIR`, sorted by name.
fn projects(texts: &[(String, String)]) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut projects = BTreeMap::new();
    for (name, directory) in texts {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        {
            let text = format!(
                "--project: `{name}` can't be part of a URL; valid are letters, digits, `-`, `_` and `.`"
            );
            return Err(Failure::new(USAGE, text));
        }
        if projects.insert(name.clone(), PathBuf::from(directory)).is_some() {
            return Err(Failure::new(USAGE, format!("--project: `{name}` is there twice")));
        }
    }
    Ok(projects)
}

fn ended(result: Result<(), ServeError>) -> Result<ExitCode, Failure> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(
            error @ (ServeError::OpenBeyondLoopback { .. }
            | ServeError::PlainBeyondLoopback { .. }
            | ServeError::Project { .. }),
        ) => Err(Failure::from_error(USAGE, &error)),
        Err(error) => Err(Failure::from_error(POOL, &error)),
    }
}
